/* SPDX-License-Identifier: Apache-2.0 */
/* The body of POST /sandbox (WIRE 7.1): what it may say, checked as far as that goes without the store. */
#ifndef CSN_SHAPE_CREATE_H
#define CSN_SHAPE_CREATE_H

#include <stdint.h>

#include <caisson/error.h>

#include "shape/map.h"

enum {
    CSN_SHAPE_MOUNTS_MAX = 16,
    CSN_SHAPE_NAME_MAX = 128,
    CSN_SHAPE_ENV_MAX = 512,       /* variables */
    CSN_SHAPE_ENV_LEN = 128 << 10, /* of one */
    CSN_SHAPE_LABELS_MAX = 128,
    CSN_SHAPE_LABEL_LEN = 4096
};

#define CSN_GIB (INT64_C(1) << 30)

typedef struct csn_shape_mount {
    char volume[129]; /* id or name; id once the server resolved it */
    char path[1024];
    char subpath[256]; /* "": the whole volume */
} csn_shape_mount;

typedef struct csn_shape_create {
    char *name;                     /* NULL: none given */
    char *snapshot;                 /* NULL: none given, or blank */
    char *user, *target;            /* NULL: none given */
    char *dockerfile;               /* NULL: no buildInfo */
    char *allow_list, *domain_list; /* NULL: none given, or empty */
    csn_map env, labels;
    size_t n_mounts;
    csn_shape_mount mounts[CSN_SHAPE_MOUNTS_MAX];
    int64_t cpu_milli, memory_bytes, disk_bytes; /* 0: not given */
    bool is_public, is_blocked;
    bool has_auto_stop, has_auto_archive, has_auto_delete;
    int64_t auto_stop_min, auto_archive_min, auto_delete_min, ttl_min; /* ttl 0: none */
} csn_shape_create;

/* CSN_OK; CSN_E_INVALID (400) with the reason; CSN_E_UNSUPPORTED (422) for what this server can't do; CSN_E_NO_MEMORY.
 * *ret is to be csn_shape_create_done() in every case. */
int csn_shape_create_read(const csn_json *body, csn_shape_create *ret, csn_error *err);
void csn_shape_create_done(csn_shape_create *c);
void csn_shape_create_auto(csn_shape_create *c);

/* The parts of it that other bodies have too. */
int csn_shape_check_name(const char *name, csn_error *err);
int csn_shape_check_mount(const char *path, const char *subpath, csn_error *err);
/* At most ten IPv4 networks, a prefix on each: CSN_OK or CSN_E_INVALID. */
int csn_shape_check_cidrs(const char *list, csn_error *err);
int csn_shape_check_domains(const char *list, csn_error *err);
/* {cpu?, memory?, disk?, gpu?} of create and resize; gpu must be 0. Values not given are left alone. */
int csn_shape_read_resources(const csn_json *body, int64_t *cpu_milli, int64_t *memory_bytes,
                             int64_t *disk_bytes, csn_error *err);

/* Mounts as the store keeps them. Text: owned, NULL without memory. Parse: 0 or -errno. */
char *csn_shape_mounts_text(const csn_shape_mount *mounts, size_t n);
int csn_shape_mounts_parse(const char *json, csn_shape_mount *mounts, size_t *ret_n);

#endif
