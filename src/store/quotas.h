/* SPDX-License-Identifier: Apache-2.0 */
/* The table of quotas: what an organisation may have, where that is not the server's default. */
#ifndef CSN_STORE_QUOTAS_H
#define CSN_STORE_QUOTAS_H

#include "store/store.h"

typedef enum csn_quota {
    CSN_QUOTA_SANDBOXES,
    CSN_QUOTA_CPU, /* milli */
    CSN_QUOTA_MEMORY,
    CSN_QUOTA_DISK,
    CSN_QUOTA_SNAPSHOTS,
    CSN_QUOTA_SNAPSHOT_DISK,
    CSN_QUOTA_VOLUMES,
    CSN_QUOTA_VOLUME_DISK,
    CSN_QUOTA_COUNT
} csn_quota;

/* "sandboxes", "snapshot-disk": as options call them behind --max-. */
extern const char *const csn_quota_names[CSN_QUOTA_COUNT];

/* 1 with the value (0: any number), 0: it has no own one, or CSN_E_…. */
int csn_store_quota_get(csn_store *store, const char *org_id, csn_quota limit, int64_t *ret_value,
                        csn_error *err);
int csn_store_quota_set(csn_store *store, const char *org_id, csn_quota limit, int64_t value,
                        csn_error *err);
/* All of this organisation. */
int csn_store_quotas_remove(csn_store *store, const char *org_id, csn_error *err);

#endif
