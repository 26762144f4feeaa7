/* SPDX-License-Identifier: Apache-2.0 */
/* The table of snapshots that organisations made or named. Those that come with the engine's images are not in it. */
#ifndef CSN_STORE_SNAPSHOTS_H
#define CSN_STORE_SNAPSHOTS_H

#include "store/store.h"

typedef struct csn_snapshot_row {
    char id[37], org_id[37];
    char *name;      /* never NULL */
    char image[65];  /* the engine's name */
    char *image_ref; /* as the user wrote it; NULL: made from a sandbox */
    char state[20];
    char *error_reason;
    char *entrypoint;   /* JSON array, or NULL */
    char *env;          /* JSON object, or NULL: no variables */
    char source_id[37]; /* "": not from a sandbox */
    int64_t cpu_milli, memory_bytes, disk_bytes;
    int64_t size_bytes; /* 0: unknown */
    int64_t created_ms, updated_ms;
    int64_t used_ms; /* 0: never */
} csn_snapshot_row;

void csn_snapshot_row_done(csn_snapshot_row *row);

int csn_store_snapshot_insert(csn_store *store, const csn_snapshot_row *row, csn_error *err);
int csn_store_snapshot_update(csn_store *store, const csn_snapshot_row *row, csn_error *err);
int csn_store_snapshot_remove(csn_store *store, const char *id, csn_error *err);
/* By id or by name, of this organisation. CSN_E_NOT_FOUND otherwise. */
int csn_store_snapshot_get(csn_store *store, const char *org_id, const char *id_or_name,
                           csn_snapshot_row *ret_row, csn_error *err);
/* Those of an organisation (NULL: all), oldest first. */
typedef void csn_snapshot_row_fn(const csn_snapshot_row *row, void *user);
int csn_store_snapshot_each(csn_store *store, const char *org_id, csn_snapshot_row_fn *fn,
                            void *user, csn_error *err);

/* How many an organisation has, and what they take. */
int csn_store_snapshot_sums(csn_store *store, const char *org_id, int64_t *ret_n,
                            int64_t *ret_bytes, csn_error *err);

#endif
