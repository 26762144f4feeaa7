/* SPDX-License-Identifier: Apache-2.0 */
#include "store/passes.h"

#include <errno.h>

#include "base/err.h"
#include "store/db.h"

int csn_store_pass_insert(csn_store *store, const csn_pass_row *row, csn_error *err)
{
    return csn_db_run(store, err,
                      "INSERT INTO passes (token, sandbox_id, port, is_signed, expires_ms) "
                      "VALUES (?1, ?2, ?3, ?4, ?5)",
                      "ttiii", row->token, row->sandbox_id, (int64_t) row->port,
                      (int64_t) row->is_signed, row->expires_ms);
}

int csn_store_pass_renew(csn_store *store, const char *token, int64_t expires_ms, csn_error *err)
{
    return csn_db_run(store, err, "UPDATE passes SET expires_ms = ?2 WHERE token = ?1", "ti", token,
                      expires_ms);
}

int csn_store_pass_remove(csn_store *store, const char *token, csn_error *err)
{
    return csn_db_run(store, err, "DELETE FROM passes WHERE token = ?1", "t", token);
}

int csn_store_pass_expire(csn_store *store, int64_t now_ms, csn_error *err)
{
    return csn_db_run(store, err, "DELETE FROM passes WHERE expires_ms <= ?1", "i", now_ms);
}

static int read_row(sqlite3_stmt *s, csn_pass_row *row, csn_error *err)
{
    int64_t port = sqlite3_column_int64(s, 2);
    int error = 0;

    *row = (csn_pass_row){ .port = (unsigned) port,
                           .is_signed = sqlite3_column_int(s, 3) != 0,
                           .expires_ms = sqlite3_column_int64(s, 4) };
    csn_db_copy(s, 0, row->token, sizeof(row->token), &error);
    csn_db_copy(s, 1, row->sandbox_id, sizeof(row->sandbox_id), &error);
    if (error == 0 && (port < 1 || port > 65535))
        error = -EBADMSG;
    return error < 0 ? csn_fail_sys(err, error, "read a preview token") : CSN_OK;
}

int csn_store_pass_each(csn_store *store, csn_pass_row_fn *fn, void *user, csn_error *err)
{
    int r;
    sqlite3_stmt *stmt = csn_db_bind(
        store, err, "SELECT token, sandbox_id, port, is_signed, expires_ms FROM passes", "");

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1) {
        csn_pass_row row;
        r = read_row(stmt, &row, err);
        if (r < 0) {
            (void) sqlite3_reset(stmt); /* only ends the read */
            return r;
        }
        fn(&row, user);
    }
    return r;
}
