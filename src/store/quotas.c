/* SPDX-License-Identifier: Apache-2.0 */
#include "store/quotas.h"

#include "store/db.h"

const char *const csn_quota_names[CSN_QUOTA_COUNT] = {
    [CSN_QUOTA_SANDBOXES] = "sandboxes", [CSN_QUOTA_CPU] = "cpu",
    [CSN_QUOTA_MEMORY] = "memory",       [CSN_QUOTA_DISK] = "disk",
    [CSN_QUOTA_SNAPSHOTS] = "snapshots", [CSN_QUOTA_SNAPSHOT_DISK] = "snapshot-disk",
    [CSN_QUOTA_VOLUMES] = "volumes",     [CSN_QUOTA_VOLUME_DISK] = "volume-disk",
};

int csn_store_quota_get(csn_store *store, const char *org_id, csn_quota limit, int64_t *ret_value,
                        csn_error *err)
{
    sqlite3_stmt *stmt =
        csn_db_bind(store, err, "SELECT value FROM quotas WHERE org_id = ?1 AND kind = ?2", "tt",
                    org_id, csn_quota_names[limit]);

    if (!stmt)
        return CSN_E_SYSTEM;
    int r = csn_db_step(store, stmt, err);
    if (r == 1) {
        *ret_value = sqlite3_column_int64(stmt, 0);
        (void) sqlite3_reset(stmt); /* only ends the read */
    }
    return r;
}

int csn_store_quota_set(csn_store *store, const char *org_id, csn_quota limit, int64_t value,
                        csn_error *err)
{
    return csn_db_run(store, err,
                      "INSERT INTO quotas (org_id, kind, value) VALUES (?1, ?2, ?3) "
                      "ON CONFLICT (org_id, kind) DO UPDATE SET value = ?3",
                      "tti", org_id, csn_quota_names[limit], value);
}

int csn_store_quotas_remove(csn_store *store, const char *org_id, csn_error *err)
{
    return csn_db_run(store, err, "DELETE FROM quotas WHERE org_id = ?1", "t", org_id);
}
