/* SPDX-License-Identifier: Apache-2.0 */
/* The table of volumes. The engine knows a volume by its id. */
#ifndef CSN_STORE_VOLUMES_H
#define CSN_STORE_VOLUMES_H

#include "store/store.h"

typedef struct csn_volume_row {
    char id[37], org_id[37];
    char *name; /* NULL: released by a delete */
    char state[20];
    int64_t created_ms, updated_ms;
    int64_t used_ms; /* 0: never */
} csn_volume_row;

void csn_volume_row_done(csn_volume_row *row);

int csn_store_volume_insert(csn_store *store, const csn_volume_row *row, csn_error *err);
int csn_store_volume_update(csn_store *store, const csn_volume_row *row, csn_error *err);
int csn_store_volume_remove(csn_store *store, const char *id, csn_error *err);

/* By id or by name, of this organisation. CSN_E_NOT_FOUND otherwise. */
int csn_store_volume_get(csn_store *store, const char *org_id, const char *id_or_name,
                         csn_volume_row *ret_row, csn_error *err);
int csn_store_volume_by_name(csn_store *store, const char *org_id, const char *name,
                             csn_volume_row *ret_row, csn_error *err);

/* Those of an organisation (NULL: all), newest first. */
typedef void csn_volume_row_fn(const csn_volume_row *row, void *user);
int csn_store_volume_each(csn_store *store, const char *org_id, csn_volume_row_fn *fn, void *user,
                          csn_error *err);

/* How many an organisation has, and what they take: those on their way out with it. */
int csn_store_volume_sums(csn_store *store, const char *org_id, int64_t *ret_n, int64_t *ret_bytes,
                          csn_error *err);
/* What lies in it, as counted now. */
int csn_store_volume_weighed(csn_store *store, const char *id, int64_t size_bytes, csn_error *err);

#endif
