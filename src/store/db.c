/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* What SQLite says may hold no path and no value of a row: its messages name tables and columns only. */
static int fail(csn_store *store, csn_error *err)
{
    switch (sqlite3_extended_errcode(store->db)) {
    case SQLITE_BUSY:
    case SQLITE_BUSY_RECOVERY:
    case SQLITE_BUSY_SNAPSHOT:
        (void) csn_fail_sys(err, -EAGAIN, "database: another process is writing");
        if (err)
            err->code = CSN_E_BUSY;
        return CSN_E_BUSY;
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
        return csn_fail(err, CSN_E_EXISTS, "the name is taken");
    case SQLITE_NOMEM:
        return csn_fail(err, CSN_E_NO_MEMORY, "database: out of memory");
    case SQLITE_FULL:
        return csn_fail_sys(err, -ENOSPC, "database");
    default:
        break;
    }
    int e = sqlite3_system_errno(store->db);
    if ((sqlite3_errcode(store->db) & 0xff) == SQLITE_IOERR && (e == ENOSPC || e == EDQUOT))
        return csn_fail_sys(err, -e, "database"); /* of a file that is no database, or a quota */
    return csn_fail(err, CSN_E_SYSTEM, "database: %s", sqlite3_errmsg(store->db));
}

static sqlite3_stmt *find_statement(csn_store *store, const char *sql, csn_error *err)
{
    sqlite3_stmt *stmt = NULL;

    for (size_t i = 0; i < store->n_statements; i++)
        if (store->statements[i].sql == sql)
            return store->statements[i].stmt;
    if (store->n_statements == CSN_DB_STATEMENTS_MAX) {
        (void) csn_fail(err, CSN_E_LIMIT, "database: too many statements");
        return NULL;
    }
    if (sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) !=
        SQLITE_OK) {
        (void) fail(store, err);
        return NULL;
    }
    store->statements[store->n_statements].sql = sql;
    store->statements[store->n_statements++].stmt = stmt;
    return stmt;
}

static int bind_one(sqlite3_stmt *stmt, int at, char kind, va_list *args)
{
    const char *text;
    int64_t number;

    switch (kind) {
    case 't':
        text = va_arg(*args, const char *);
        return text ? sqlite3_bind_text(stmt, at, text, -1, SQLITE_TRANSIENT)
                    : sqlite3_bind_null(stmt, at);
    case 'h':
        return sqlite3_bind_blob(stmt, at, va_arg(*args, const void *), 32, SQLITE_TRANSIENT);
    case 'o':
    case 'i':
        number = va_arg(*args, int64_t);
        return kind == 'o' && number == 0 ? sqlite3_bind_null(stmt, at)
                                          : sqlite3_bind_int64(stmt, at, number);
    default:
        return SQLITE_MISUSE;
    }
}

static sqlite3_stmt *bind_all(csn_store *store, csn_error *err, const char *sql, const char *format,
                              va_list *args)
{
    sqlite3_stmt *stmt = find_statement(store, sql, err);

    if (!stmt)
        return NULL;
    (void) sqlite3_reset(stmt); /* it repeats the last step's error, which was reported then */
    for (int i = 0; format[i]; i++)
        if (bind_one(stmt, i + 1, format[i], args) != SQLITE_OK) {
            (void) fail(store, err);
            return NULL;
        }
    return stmt;
}

sqlite3_stmt *csn_db_bind(csn_store *store, csn_error *err, const char *sql, const char *format,
                          ...)
{
    va_list args;

    va_start(args, format);
    sqlite3_stmt *stmt = bind_all(store, err, sql, format, &args);
    va_end(args);
    return stmt;
}

int csn_db_step(csn_store *store, sqlite3_stmt *stmt, csn_error *err)
{
    int r = sqlite3_step(stmt);

    if (r == SQLITE_ROW)
        return 1;
    int result = r == SQLITE_DONE ? CSN_OK : fail(store, err);
    (void) sqlite3_reset(stmt); /* said above */
    return result;
}

int csn_db_run(csn_store *store, csn_error *err, const char *sql, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    sqlite3_stmt *stmt = bind_all(store, err, sql, format, &args);
    va_end(args);
    if (!stmt)
        return err ? err->code : CSN_E_SYSTEM;
    return csn_db_step(store, stmt, err);
}

int csn_db_two(csn_store *store, sqlite3_stmt *stmt, int64_t *ret_a, int64_t *ret_b, csn_error *err)
{
    int r = stmt ? csn_db_step(store, stmt, err) : CSN_E_SYSTEM;

    *ret_a = *ret_b = 0;
    if (r <= 0)
        return r;
    *ret_a = sqlite3_column_int64(stmt, 0);
    *ret_b = sqlite3_column_int64(stmt, 1);
    (void) sqlite3_reset(stmt); /* only ends the read */
    return CSN_OK;
}

int csn_db_changes(const csn_store *store)
{
    return sqlite3_changes(store->db);
}

char *csn_db_text(sqlite3_stmt *stmt, int column, int *error)
{
    const char *text = (const char *) sqlite3_column_text(stmt, column);

    if (!text)
        return NULL;
    char *copy = strdup(text);
    if (!copy)
        *error = -ENOMEM;
    return copy;
}

void csn_db_copy(sqlite3_stmt *stmt, int column, char *out, size_t size, int *error)
{
    const char *text = (const char *) sqlite3_column_text(stmt, column);
    size_t len = text ? strlen(text) : 0;

    out[0] = '\0';
    if (len >= size)
        *error = -EBADMSG;
    else if (len > 0)
        memcpy(out, text, len + 1);
}
