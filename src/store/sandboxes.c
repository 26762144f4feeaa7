/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sandboxes.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/db.h"

#define COLUMNS \
    "id, org_id, name, state, snapshot, image, user, target, env, labels, mounts, " \
    "error_reason, dockerfile, allow_list, domain_list, parent_id, is_public, is_blocked, " \
    "cpu_milli, memory_bytes, disk_bytes, auto_stop_min, auto_archive_min, auto_delete_min, " \
    "destroy_at_ms, created_ms, updated_ms, active_ms, stopped_ms"

void csn_sandbox_row_done(csn_sandbox_row *row)
{
    char *strings[] = { row->name,       row->snapshot,     row->image,      row->user,
                        row->target,     row->env,          row->labels,     row->mounts,
                        row->dockerfile, row->error_reason, row->allow_list, row->domain_list };

    for (size_t i = 0; i < CSN_COUNT(strings); i++)
        free(strings[i]);
    *row = (csn_sandbox_row){ 0 };
}

static int write_row(csn_store *store, const char *sql, const csn_sandbox_row *r, csn_error *err)
{
    return csn_db_run(store, err, sql,
                      "tttttttttttttttt"
                      "iiiiiiii"
                      "oiiio",
                      r->id, r->org_id, r->name, r->state, r->snapshot, r->image, r->user,
                      r->target, r->env, r->labels, r->mounts, r->error_reason, r->dockerfile,
                      r->allow_list, r->domain_list, r->parent_id[0] ? r->parent_id : NULL,
                      (int64_t) r->is_public, (int64_t) r->is_blocked, r->cpu_milli,
                      r->memory_bytes, r->disk_bytes, r->auto_stop_min, r->auto_archive_min,
                      r->auto_delete_min, r->destroy_at_ms, r->created_ms, r->updated_ms,
                      r->active_ms, r->stopped_ms);
}

int csn_store_sandbox_insert(csn_store *store, const csn_sandbox_row *row, csn_error *err)
{
    return write_row(store,
                     "INSERT INTO sandboxes (" COLUMNS ") VALUES "
                     "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
                     "?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)",
                     row, err);
}

int csn_store_sandbox_update(csn_store *store, const csn_sandbox_row *row, csn_error *err)
{
    int r = write_row(
        store,
        "UPDATE sandboxes SET name = ?3, state = ?4, snapshot = ?5, image = ?6, user = ?7, "
        "target = ?8, env = ?9, labels = ?10, mounts = ?11, error_reason = ?12, "
        "dockerfile = ?13, allow_list = ?14, domain_list = ?15, parent_id = ?16, is_public = ?17, "
        "is_blocked = ?18, cpu_milli = ?19, memory_bytes = ?20, disk_bytes = ?21, "
        "auto_stop_min = ?22, auto_archive_min = ?23, auto_delete_min = ?24, destroy_at_ms = ?25, "
        "created_ms = ?26, updated_ms = ?27, active_ms = ?28, stopped_ms = ?29 "
        "WHERE id = ?1 AND org_id = ?2",
        row, err);

    if (r == CSN_OK && csn_db_changes(store) == 0)
        return csn_fail(err, CSN_E_NOT_FOUND, "sandbox '%s' is not in the database", row->id);
    return r;
}

int csn_store_sandbox_remove(csn_store *store, const char *id, csn_error *err)
{
    return csn_db_run(store, err, "DELETE FROM sandboxes WHERE id = ?1", "t", id);
}

static void read_row(sqlite3_stmt *s, csn_sandbox_row *row, int *error)
{
    char **strings[] = {
        [2] = &row->name,        [4] = &row->snapshot,    [5] = &row->image,
        [6] = &row->user,        [7] = &row->target,      [8] = &row->env,
        [9] = &row->labels,      [10] = &row->mounts,     [11] = &row->error_reason,
        [12] = &row->dockerfile, [13] = &row->allow_list, [14] = &row->domain_list
    };
    int64_t *numbers[] = { &row->cpu_milli,     &row->memory_bytes,     &row->disk_bytes,
                           &row->auto_stop_min, &row->auto_archive_min, &row->auto_delete_min,
                           &row->destroy_at_ms, &row->created_ms,       &row->updated_ms,
                           &row->active_ms,     &row->stopped_ms };

    csn_db_copy(s, 0, row->id, sizeof(row->id), error);
    csn_db_copy(s, 1, row->org_id, sizeof(row->org_id), error);
    csn_db_copy(s, 3, row->state, sizeof(row->state), error);
    csn_db_copy(s, 15, row->parent_id, sizeof(row->parent_id), error);
    for (size_t i = 0; i < CSN_COUNT(strings); i++)
        if (strings[i])
            *strings[i] = csn_db_text(s, (int) i, error);
    row->is_public = sqlite3_column_int(s, 16) != 0;
    row->is_blocked = sqlite3_column_int(s, 17) != 0;
    for (size_t i = 0; i < CSN_COUNT(numbers); i++)
        *numbers[i] = sqlite3_column_int64(s, 18 + (int) i);
}

int csn_store_sandbox_each(csn_store *store, csn_sandbox_row_fn *fn, void *user, csn_error *err)
{
    int r, error = 0;
    sqlite3_stmt *stmt =
        csn_db_bind(store, err, "SELECT " COLUMNS " FROM sandboxes ORDER BY created_ms, id", "");

    if (!stmt)
        return CSN_E_SYSTEM;
    while ((r = csn_db_step(store, stmt, err)) == 1) {
        csn_sandbox_row row = { 0 };
        read_row(stmt, &row, &error);
        if (error == 0)
            fn(&row, user);
        csn_sandbox_row_done(&row);
        if (error < 0) {
            (void) sqlite3_reset(stmt); /* only ends the read */
            return csn_fail_sys(err, error, "read the sandboxes");
        }
    }
    return r;
}
