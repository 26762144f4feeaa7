/* SPDX-License-Identifier: Apache-2.0 */
#include "store/volumes.h"

#include <stdlib.h>

#include "base/err.h"
#include "store/db.h"

#define COLUMNS "id, org_id, name, state, created_ms, updated_ms, used_ms"

void csn_volume_row_done(csn_volume_row *row)
{
    free(row->name);
    *row = (csn_volume_row){ 0 };
}

int csn_store_volume_insert(csn_store *store, const csn_volume_row *row, csn_error *err)
{
    return csn_db_run(store, err,
                      "INSERT INTO volumes (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                      "ttttiio", row->id, row->org_id, row->name, row->state, row->created_ms,
                      row->updated_ms, row->used_ms);
}

int csn_store_volume_update(csn_store *store, const csn_volume_row *row, csn_error *err)
{
    int r = csn_db_run(store, err,
                       "UPDATE volumes SET name = ?3, state = ?4, updated_ms = ?5, used_ms = ?6 "
                       "WHERE id = ?1 AND org_id = ?2",
                       "ttttio", row->id, row->org_id, row->name, row->state, row->updated_ms,
                       row->used_ms);

    if (r == CSN_OK && csn_db_changes(store) == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "volume '%s' is not in the database", row->id);
    return r;
}

int csn_store_volume_remove(csn_store *store, const char *id, csn_error *err)
{
    return csn_db_run(store, err, "DELETE FROM volumes WHERE id = ?1", "t", id);
}

static int read_row(sqlite3_stmt *s, csn_volume_row *row, csn_error *err)
{
    int error = 0;

    *row = (csn_volume_row){ 0 };
    csn_db_copy(s, 0, row->id, sizeof(row->id), &error);
    csn_db_copy(s, 1, row->org_id, sizeof(row->org_id), &error);
    row->name = csn_db_text(s, 2, &error);
    csn_db_copy(s, 3, row->state, sizeof(row->state), &error);
    row->created_ms = sqlite3_column_int64(s, 4);
    row->updated_ms = sqlite3_column_int64(s, 5);
    row->used_ms = sqlite3_column_int64(s, 6);
    if (error == 0)
        return CSN_OK;
    csn_volume_row_done(row);
    return csn_fail_sys(err, error, "read a volume");
}

static int get_one(csn_store *store, sqlite3_stmt *stmt, const char *what, csn_volume_row *ret_row,
                   csn_error *err)
{
    if (!stmt)
        return CSN_E_SYSTEM;
    int r = csn_db_step(store, stmt, err);
    if (r < 0)
        return r;
    if (r == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "Volume with ID or name %.100s not found", what);
    r = read_row(stmt, ret_row, err);
    (void) sqlite3_reset(stmt); /* only ends the read */
    return r;
}

int csn_store_volume_get(csn_store *store, const char *org_id, const char *id_or_name,
                         csn_volume_row *ret_row, csn_error *err)
{
    return get_one(store,
                   csn_db_bind(store, err,
                               "SELECT " COLUMNS " FROM volumes WHERE org_id = ?1 AND "
                               "(id = ?2 OR name = ?2) AND name IS NOT NULL "
                               "ORDER BY id = ?2 DESC LIMIT 1",
                               "tt", org_id, id_or_name),
                   id_or_name, ret_row, err);
}

int csn_store_volume_by_name(csn_store *store, const char *org_id, const char *name,
                             csn_volume_row *ret_row, csn_error *err)
{
    return get_one(store,
                   csn_db_bind(store, err,
                               "SELECT " COLUMNS " FROM volumes WHERE org_id = ?1 AND name = ?2",
                               "tt", org_id, name),
                   name, ret_row, err);
}

int csn_store_volume_each(csn_store *store, const char *org_id, csn_volume_row_fn *fn, void *user,
                          csn_error *err)
{
    int r;
    sqlite3_stmt *stmt =
        csn_db_bind(store, err,
                    "SELECT " COLUMNS " FROM volumes WHERE ?1 IS NULL OR org_id = ?1 "
                    "ORDER BY created_ms DESC, id",
                    "t", org_id);

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1) {
        csn_volume_row row;
        r = read_row(stmt, &row, err);
        if (r < 0) {
            (void) sqlite3_reset(stmt); /* only ends the read */
            return r;
        }
        fn(&row, user);
        csn_volume_row_done(&row);
    }
    return r;
}

int csn_store_volume_sums(csn_store *store, const char *org_id, int64_t *ret_n, int64_t *ret_bytes,
                          csn_error *err)
{
    return csn_db_two(
        store,
        csn_db_bind(store, err,
                    "SELECT count(name), sum(size_bytes) FROM volumes WHERE org_id = ?1", "t",
                    org_id),
        ret_n, ret_bytes, err);
}

int csn_store_volume_weighed(csn_store *store, const char *id, int64_t size_bytes, csn_error *err)
{
    return csn_db_run(store, err,
                      "UPDATE volumes SET size_bytes = ?2 WHERE id = ?1 AND size_bytes <> ?2", "ti",
                      id, size_bytes);
}
