/* SPDX-License-Identifier: Apache-2.0 */
/* VolumeDto, SnapshotDto and the smaller bodies of the control plane. */
#ifndef CSN_SHAPE_VOLUME_H
#define CSN_SHAPE_VOLUME_H

#include <caisson/error.h>

#include "shape/map.h"
#include "shape/sandbox.h"

/* WIRE 12. */
typedef struct csn_shape_volume {
    const char *id, *name, *org_id, *state;
    int64_t created_ms, updated_ms, used_ms;
} csn_shape_volume;
void csn_shape_volume_write(const csn_shape_volume *v, csn_jw *w);
/* {name}: NULL when blank. Borrowed from the body. CSN_OK or CSN_E_INVALID. */
int csn_shape_volume_read(const csn_json *body, const char **ret_name, csn_error *err);

/* WIRE 11.1. */
typedef struct csn_shape_snapshot {
    const char *id, *org_id, *name, *state; /* org_id "": general */
    const char *image_ref, *error_reason, *source_id;
    const char *entrypoint; /* JSON or NULL */
    const char *region;
    bool is_general;
    int64_t size_bytes; /* 0: unknown */
    int64_t cpu_milli, memory_bytes, disk_bytes;
    int64_t created_ms, updated_ms, used_ms;
} csn_shape_snapshot;
void csn_shape_snapshot_write(const csn_shape_snapshot *s, csn_jw *w);

/* WIRE 11.2. Strings are borrowed from the body. */
typedef struct csn_shape_snapshot_create {
    const char *name, *image_ref, *dockerfile;   /* one of the last two */
    const csn_json *entrypoint;                  /* NULL or an array of strings */
    int64_t cpu_milli, memory_bytes, disk_bytes; /* 0: not given */
} csn_shape_snapshot_create;
int csn_shape_snapshot_read(const csn_json *body, csn_shape_snapshot_create *ret, csn_error *err);
/* Letters, digits and . : / - _ */
int csn_shape_check_snapshot_name(const char *name, csn_error *err);

/* The part of a Dockerfile that needs no build: FROM one image, then ENV and LABEL. *ret_image (owned) is the reference
 * after FROM; variables of ENV are added to `env` (may be NULL) unless it has them. CSN_E_UNSUPPORTED names the first
 * other instruction, CSN_E_INVALID a malformed line. */
int csn_shape_dockerfile_read(const char *text, char **ret_image, csn_map *env, csn_error *err);

/* The engine's name for an image reference: [A-Za-z0-9._-], others become '-'. -ENAMETOOLONG, -EINVAL. */
int csn_shape_image_name(const char *ref, char out[65]);

#endif
