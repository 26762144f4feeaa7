/* SPDX-License-Identifier: Apache-2.0 */
/* The Sandbox object of WIRE 6.1. */
#ifndef CSN_SHAPE_SANDBOX_H
#define CSN_SHAPE_SANDBOX_H

#include <stdint.h>

#include "base/json.h"

/* All strings are borrowed. */
typedef struct csn_shape_sandbox {
    const char *id, *org_id, *name, *user, *target, *toolbox_url; /* never NULL */
    const char *env, *labels, *mounts;                            /* JSON; never NULL */
    const char *state, *desired_state;                            /* never NULL */
    const char *snapshot, *error_reason, *allow_list, *domain_list, *dockerfile, *build_ref;
    bool is_public, is_blocked, is_recoverable;
    int64_t cpu_milli, memory_bytes, disk_bytes;
    int64_t auto_stop_min, auto_archive_min, auto_delete_min;
    int64_t destroy_at_ms; /* 0: none */
    int64_t created_ms, updated_ms, active_ms;
} csn_shape_sandbox;

/* is_item: as an element of GET /sandbox, without env, volumes and buildInfo. */
void csn_shape_sandbox_write(const csn_shape_sandbox *s, bool is_item, csn_jw *w);

/* "key": milliseconds since 1970 as ISO text; 0: null. */
void csn_shape_time(csn_jw *w, const char *key, int64_t wall_ms);
/* "key": thousandths (or bytes as GiB) as a number without a tail where there is none. */
void csn_shape_milli(csn_jw *w, const char *key, int64_t milli);
void csn_shape_gib(csn_jw *w, const char *key, int64_t bytes);

#endif
