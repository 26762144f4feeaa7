/* SPDX-License-Identifier: Apache-2.0 */
#include "store/keys.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/db.h"

#define COLUMNS "id, org_id, name, hash, hint, is_admin, created_ms, expires_ms, used_ms"

int csn_store_key_insert(csn_store *store, const csn_key_row *row, csn_error *err)
{
    return csn_db_run(store, err,
                      "INSERT INTO keys (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                      "ttthtiioo", row->id, row->org_id, row->name, row->hash, row->hint,
                      (int64_t) row->is_admin, row->created_ms, row->expires_ms, row->used_ms);
}

static int read_row(sqlite3_stmt *s, csn_key_row *row, csn_error *err)
{
    int error = 0;

    *row = (csn_key_row){ 0 };
    csn_db_copy(s, 0, row->id, sizeof(row->id), &error);
    csn_db_copy(s, 1, row->org_id, sizeof(row->org_id), &error);
    csn_db_copy(s, 2, row->name, sizeof(row->name), &error);
    const void *hash = sqlite3_column_blob(s, 3);
    if (hash && sqlite3_column_bytes(s, 3) == (int) sizeof(row->hash))
        memcpy(row->hash, hash, sizeof(row->hash));
    else
        error = -EBADMSG;
    csn_db_copy(s, 4, row->hint, sizeof(row->hint), &error);
    row->is_admin = sqlite3_column_int(s, 5) != 0;
    row->created_ms = sqlite3_column_int64(s, 6);
    row->expires_ms = sqlite3_column_int64(s, 7);
    row->used_ms = sqlite3_column_int64(s, 8);
    return error == 0 ? CSN_OK : csn_fail_sys(err, error, "read a key");
}

static int get_one(csn_store *store, sqlite3_stmt *stmt, csn_key_row *ret_row, csn_error *err)
{
    int r = stmt ? csn_db_step(store, stmt, err) : CSN_E_SYSTEM;

    if (r < 0)
        return r;
    if (r == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "no such key");
    r = read_row(stmt, ret_row, err);
    (void) sqlite3_reset(stmt); /* only ends the read */
    return r;
}

int csn_store_key_find(csn_store *store, const unsigned char hash[32], csn_key_row *ret_row,
                       csn_error *err)
{
    return get_one(
        store, csn_db_bind(store, err, "SELECT " COLUMNS " FROM keys WHERE hash = ?1", "h", hash),
        ret_row, err);
}

int csn_store_key_get(csn_store *store, const char *id, csn_key_row *ret_row, csn_error *err)
{
    return get_one(store,
                   csn_db_bind(store, err, "SELECT " COLUMNS " FROM keys WHERE id = ?1", "t", id),
                   ret_row, err);
}

int csn_store_key_remove(csn_store *store, const char *org_id, const char *id_or_name,
                         csn_error *err)
{
    int r = csn_db_run(store, err, "DELETE FROM keys WHERE org_id = ?1 AND (id = ?2 OR name = ?2)",
                       "tt", org_id, id_or_name);

    if (r == CSN_OK && csn_db_changes(store) == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "API key %.100s not found", id_or_name);
    return r;
}

int csn_store_key_used(csn_store *store, const char *id, int64_t now_ms, csn_error *err)
{
    return csn_db_run(store, err, "UPDATE keys SET used_ms = ?2 WHERE id = ?1", "ti", id, now_ms);
}

int csn_store_key_each(csn_store *store, const char *org_id, csn_key_row_fn *fn, void *user,
                       csn_error *err)
{
    int r;
    sqlite3_stmt *stmt = csn_db_bind(
        store, err, "SELECT " COLUMNS " FROM keys WHERE org_id = ?1 ORDER BY created_ms, id", "t",
        org_id);

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1) {
        csn_key_row row;
        r = read_row(stmt, &row, err);
        if (r < 0) {
            (void) sqlite3_reset(stmt); /* only ends the read */
            return r;
        }
        fn(&row, user);
    }
    return r;
}

int64_t csn_store_key_count(csn_store *store, csn_error *err)
{
    sqlite3_stmt *stmt = csn_db_bind(store, err, "SELECT count(*) FROM keys", "");

    if (!stmt)
        return CSN_E_SYSTEM;
    int r = csn_db_step(store, stmt, err);
    if (r < 0)
        return r;
    int64_t n = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_reset(stmt); /* only ends the read */
    return n;
}
