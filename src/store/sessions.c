/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sessions.h"

#include "base/err.h"
#include "store/db.h"

/* In the log of the database at once, on the disk with the next change that waits for that. */
static void be_lazy(csn_store *store, bool is_lazy)
{
    (void) sqlite3_exec(store->db,
                        is_lazy ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL", NULL,
                        NULL, NULL); /* fails inside of a transaction only, whose commit waits */
}

#define RUN_LAZILY(store, ...) \
    __extension__({ \
        be_lazy(store, true); \
        int run_result = csn_db_run(store, __VA_ARGS__); \
        be_lazy(store, false); \
        run_result; \
    })

int csn_store_session_insert(csn_store *store, const char *box_id, const char *id, const char *mark,
                             csn_error *err)
{
    return RUN_LAZILY(store, err,
                      "INSERT OR REPLACE INTO sessions (sandbox_id, id, mark) VALUES (?1, ?2, ?3)",
                      "ttt", box_id, id, mark);
}

int csn_store_session_remove(csn_store *store, const char *box_id, const char *id, csn_error *err)
{
    return RUN_LAZILY(store, err, "DELETE FROM sessions WHERE sandbox_id = ?1 AND id = ?2", "tt",
                      box_id, id);
}

static const char *text_at(sqlite3_stmt *stmt, int column)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);

    return text ? (const char *) text : "";
}

int csn_store_session_each(csn_store *store, const char *box_id, csn_session_row_fn *fn, void *user,
                           csn_error *err)
{
    int r;
    sqlite3_stmt *stmt = csn_db_bind(
        store, err, "SELECT id, mark FROM sessions WHERE sandbox_id = ?1 ORDER BY id", "t", box_id);

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1)
        fn(text_at(stmt, 0), text_at(stmt, 1), user);
    return r;
}

int csn_store_session_boxes(csn_store *store, csn_session_box_fn *fn, void *user, csn_error *err)
{
    int r;
    sqlite3_stmt *stmt =
        csn_db_bind(store, err, "SELECT DISTINCT sandbox_id FROM sessions ORDER BY sandbox_id", "");

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1)
        fn(text_at(stmt, 0), user);
    return r;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

int csn_store_session_command_insert(csn_store *store, const char *box_id, const char *session_id,
                                     const csn_session_command_row *row, csn_error *err)
{
    return RUN_LAZILY(
        store, err,
        "INSERT INTO session_commands (sandbox_id, session_id, id, text, nonce, is_async, no_echo) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        "tttttii", box_id, session_id, row->id, row->text, row->nonce, (int64_t) row->is_async,
        (int64_t) row->no_echo);
}

int csn_store_session_command_told(csn_store *store, const char *id, int told, csn_error *err)
{
    return RUN_LAZILY(store, err, "UPDATE session_commands SET told = ?2 WHERE id = ?1", "ti", id,
                      (int64_t) told);
}

int csn_store_session_command_ended(csn_store *store, const char *id, int exit_code, csn_error *err)
{
    return RUN_LAZILY(store, err, "UPDATE session_commands SET exit_code = ?2 WHERE id = ?1", "ti",
                      id, (int64_t) exit_code);
}

int csn_store_session_command_remove(csn_store *store, const char *id, csn_error *err)
{
    return RUN_LAZILY(store, err, "DELETE FROM session_commands WHERE id = ?1", "t", id);
}

int csn_store_session_command_each(csn_store *store, const char *box_id, const char *session_id,
                                   csn_session_command_row_fn *fn, void *user, csn_error *err)
{
    int r;
    sqlite3_stmt *stmt = csn_db_bind(
        store, err,
        "SELECT id, text, nonce, is_async, no_echo, told, exit_code FROM session_commands "
        "WHERE sandbox_id = ?1 AND session_id = ?2 ORDER BY n",
        "tt", box_id, session_id);

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1) {
        const csn_session_command_row row = {
            .id = text_at(stmt, 0),
            .text = text_at(stmt, 1),
            .nonce = text_at(stmt, 2),
            .is_async = sqlite3_column_int(stmt, 3) != 0,
            .no_echo = sqlite3_column_int(stmt, 4) != 0,
            .told = sqlite3_column_int(stmt, 5),
            .has_ended = sqlite3_column_type(stmt, 6) != SQLITE_NULL,
            .exit_code = sqlite3_column_int(stmt, 6),
        };
        fn(&row, user);
    }
    return r;
}

/* ---- echoes ------------------------------------------------------------------------------------------------------ */

int csn_store_session_echo_insert(csn_store *store, const char *command_id, int64_t at,
                                  const char *data, csn_error *err)
{
    return RUN_LAZILY(store, err,
                      "INSERT INTO session_echoes (command_id, at, data) VALUES (?1, ?2, ?3)",
                      "tit", command_id, at, data);
}

int csn_store_session_echo_each(csn_store *store, const char *command_id,
                                csn_session_echo_row_fn *fn, void *user, csn_error *err)
{
    int r;
    sqlite3_stmt *stmt = csn_db_bind(
        store, err, "SELECT at, data FROM session_echoes WHERE command_id = ?1 ORDER BY n", "t",
        command_id);

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1)
        fn(sqlite3_column_int64(stmt, 0), text_at(stmt, 1), user);
    return r;
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

int csn_store_session_other_insert(csn_store *store, const char *box_id, const char *kind,
                                   const char *id, uint32_t number, csn_error *err)
{
    return RUN_LAZILY(store, err,
                      "INSERT OR REPLACE INTO session_others (sandbox_id, kind, id, number) "
                      "VALUES (?1, ?2, ?3, ?4)",
                      "ttti", box_id, kind, id, (int64_t) number);
}

int csn_store_session_other_remove(csn_store *store, const char *box_id, const char *kind,
                                   const char *id, csn_error *err)
{
    return RUN_LAZILY(store, err,
                      "DELETE FROM session_others WHERE sandbox_id = ?1 AND kind = ?2 AND id = ?3",
                      "ttt", box_id, kind, id);
}

int csn_store_session_other_each(csn_store *store, csn_session_other_fn *fn, void *user,
                                 csn_error *err)
{
    int r;
    sqlite3_stmt *stmt =
        csn_db_bind(store, err, "SELECT sandbox_id, kind, id, number FROM session_others", "");

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1)
        fn(text_at(stmt, 0), text_at(stmt, 1), text_at(stmt, 2),
           (uint32_t) sqlite3_column_int64(stmt, 3), user);
    return r;
}
