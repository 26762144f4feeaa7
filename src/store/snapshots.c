/* SPDX-License-Identifier: Apache-2.0 */
#include "store/snapshots.h"

#include <stdlib.h>

#include "base/err.h"
#include "store/db.h"

#define COLUMNS \
    "id, org_id, name, image, image_ref, state, error_reason, entrypoint, source_id, cpu_milli, " \
    "memory_bytes, disk_bytes, size_bytes, created_ms, updated_ms, used_ms, env"

void csn_snapshot_row_done(csn_snapshot_row *row)
{
    free(row->name);
    free(row->image_ref);
    free(row->error_reason);
    free(row->entrypoint);
    free(row->env);
    *row = (csn_snapshot_row){ 0 };
}

static int write_row(csn_store *store, const char *sql, const csn_snapshot_row *r, csn_error *err)
{
    return csn_db_run(store, err, sql,
                      "ttttttttt"
                      "iiioiiot",
                      r->id, r->org_id, r->name, r->image, r->image_ref, r->state, r->error_reason,
                      r->entrypoint, r->source_id[0] ? r->source_id : NULL, r->cpu_milli,
                      r->memory_bytes, r->disk_bytes, r->size_bytes, r->created_ms, r->updated_ms,
                      r->used_ms, r->env);
}

int csn_store_snapshot_insert(csn_store *store, const csn_snapshot_row *row, csn_error *err)
{
    return write_row(store,
                     "INSERT INTO snapshots (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
                     "?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
                     row, err);
}

int csn_store_snapshot_update(csn_store *store, const csn_snapshot_row *row, csn_error *err)
{
    int r = write_row(store,
                      "UPDATE snapshots SET name = ?3, image = ?4, image_ref = ?5, state = ?6, "
                      "error_reason = ?7, entrypoint = ?8, source_id = ?9, cpu_milli = ?10, "
                      "memory_bytes = ?11, disk_bytes = ?12, size_bytes = ?13, created_ms = ?14, "
                      "updated_ms = ?15, used_ms = ?16, env = ?17 WHERE id = ?1 AND org_id = ?2",
                      row, err);

    if (r == CSN_OK && csn_db_changes(store) == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "snapshot '%s' is not in the database", row->id);
    return r;
}

int csn_store_snapshot_remove(csn_store *store, const char *id, csn_error *err)
{
    return csn_db_run(store, err, "DELETE FROM snapshots WHERE id = ?1", "t", id);
}

static int read_row(sqlite3_stmt *s, csn_snapshot_row *row, csn_error *err)
{
    int error = 0;

    *row = (csn_snapshot_row){ 0 };
    csn_db_copy(s, 0, row->id, sizeof(row->id), &error);
    csn_db_copy(s, 1, row->org_id, sizeof(row->org_id), &error);
    row->name = csn_db_text(s, 2, &error);
    csn_db_copy(s, 3, row->image, sizeof(row->image), &error);
    row->image_ref = csn_db_text(s, 4, &error);
    csn_db_copy(s, 5, row->state, sizeof(row->state), &error);
    row->error_reason = csn_db_text(s, 6, &error);
    row->entrypoint = csn_db_text(s, 7, &error);
    csn_db_copy(s, 8, row->source_id, sizeof(row->source_id), &error);
    row->cpu_milli = sqlite3_column_int64(s, 9);
    row->memory_bytes = sqlite3_column_int64(s, 10);
    row->disk_bytes = sqlite3_column_int64(s, 11);
    row->size_bytes = sqlite3_column_int64(s, 12);
    row->created_ms = sqlite3_column_int64(s, 13);
    row->updated_ms = sqlite3_column_int64(s, 14);
    row->used_ms = sqlite3_column_int64(s, 15);
    row->env = csn_db_text(s, 16, &error);
    if (error == 0)
        return CSN_OK;
    csn_snapshot_row_done(row);
    return csn_fail_sys(err, error, "read a snapshot");
}

int csn_store_snapshot_get(csn_store *store, const char *org_id, const char *id_or_name,
                           csn_snapshot_row *ret_row, csn_error *err)
{
    sqlite3_stmt *stmt = csn_db_bind(store, err,
                                     "SELECT " COLUMNS " FROM snapshots WHERE org_id = ?1 AND "
                                     "(id = ?2 OR name = ?2) ORDER BY id = ?2 DESC LIMIT 1",
                                     "tt", org_id, id_or_name);

    if (!stmt)
        return CSN_E_SYSTEM;
    int r = csn_db_step(store, stmt, err);
    if (r < 0)
        return r;
    if (r == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "Snapshot with ID or name %.100s not found",
                        id_or_name);
    r = read_row(stmt, ret_row, err);
    (void) sqlite3_reset(stmt); /* only ends the read */
    return r;
}

int csn_store_snapshot_each(csn_store *store, const char *org_id, csn_snapshot_row_fn *fn,
                            void *user, csn_error *err)
{
    int r;
    sqlite3_stmt *stmt = csn_db_bind(store, err,
                                     "SELECT " COLUMNS " FROM snapshots WHERE ?1 IS NULL OR "
                                     "org_id = ?1 ORDER BY created_ms, id",
                                     "t", org_id);

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1) {
        csn_snapshot_row row;
        r = read_row(stmt, &row, err);
        if (r < 0) {
            (void) sqlite3_reset(stmt); /* only ends the read */
            return r;
        }
        fn(&row, user);
        csn_snapshot_row_done(&row);
    }
    return r;
}

int csn_store_snapshot_sums(csn_store *store, const char *org_id, int64_t *ret_n,
                            int64_t *ret_bytes, csn_error *err)
{
    return csn_db_two(
        store,
        csn_db_bind(store, err, "SELECT count(*), sum(size_bytes) FROM snapshots WHERE org_id = ?1",
                    "t", org_id),
        ret_n, ret_bytes, err);
}
