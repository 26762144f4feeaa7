/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sandboxes: what was wished, and the last state that was worth remembering. */
#ifndef CSN_STORE_SANDBOXES_H
#define CSN_STORE_SANDBOXES_H

#include "store/store.h"

typedef struct csn_sandbox_row {
    char id[37], org_id[37];
    char *name; /* NULL: released by a delete */
    char state[20];
    char *snapshot;              /* NULL: built from an image */
    char *image;                 /* the engine's name */
    char *user, *target;         /* never NULL */
    char *env, *labels, *mounts; /* JSON, never NULL */
    char *error_reason, *dockerfile, *allow_list, *domain_list;
    char parent_id[37]; /* "": not a fork */
    bool is_public, is_blocked;
    int64_t cpu_milli, memory_bytes, disk_bytes;
    int64_t auto_stop_min, auto_archive_min, auto_delete_min;
    int64_t destroy_at_ms; /* 0: no time to live */
    int64_t created_ms, updated_ms, active_ms;
    int64_t stopped_ms; /* 0: not stopped */
} csn_sandbox_row;

void csn_sandbox_row_done(csn_sandbox_row *row);

int csn_store_sandbox_insert(csn_store *store, const csn_sandbox_row *row, csn_error *err);
/* Writes all columns of the row with this id. */
int csn_store_sandbox_update(csn_store *store, const csn_sandbox_row *row, csn_error *err);
int csn_store_sandbox_remove(csn_store *store, const char *id, csn_error *err);

/* Every row, oldest first. fn takes over the strings (clears the row) or leaves them to be freed. */
typedef void csn_sandbox_row_fn(csn_sandbox_row *row, void *user);
int csn_store_sandbox_each(csn_store *store, csn_sandbox_row_fn *fn, void *user, csn_error *err);

#endif
