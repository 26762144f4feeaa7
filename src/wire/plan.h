/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_WIRE_PLAN_H
#define CSN_WIRE_PLAN_H

/* What a keeper is to build, as data. The client packs it, the keeper unpacks it; strings point into the message. */

#include <stdbool.h>
#include <stdint.h>

#include "wire/pack.h"

/* boxes/<id>/cgroups: where its groups are, while there are some in a group that isn't ours. */
#define CSN_BOX_CGROUPS "cgroups"

enum { CSN_PLAN_LAYERS_MAX = 64, CSN_PLAN_MOUNTS_MAX = 32 };

typedef enum csn_plan_mode {
    CSN_PLAN_RUN = 1, /* build the sandbox and keep it */
    CSN_PLAN_COPY,    /* copy upper layers (fds: source directory, [user namespace]) to layers/<target>; READY when done */
    CSN_PLAN_REMOVE   /* remove the tree `target` below the state directory, whoever owns its files; READY when done */
} csn_plan_mode;

enum { /* csn_plan.flags */
    CSN_PLAN_DETACHED = 1,
    CSN_PLAN_EPHEMERAL = 2,
    CSN_PLAN_ROOT_INSIDE = 4,
    CSN_PLAN_PTRACE = 8,
    CSN_PLAN_HOST_BASED = 16, /* the machine's /usr lies below the layers' usr/; the last entry of layers[] is then
                               * a host-<stamp> (src/image/hostbase.h), so that / needs no other base */
    CSN_PLAN_OUTBOUND = 32,
    CSN_PLAN_SHARED = 64, /* attached, and yet with a door for other clients */
    CSN_PLAN_PATIENT = 128, /* nobody waits yet: begin a little later, or with the next frame */
    CSN_PLAN_ON_DISK = 256  /* ephemeral, but its files lie in boxes/<id>/disk: this kernel's tmpfs can't be an upper layer */
};

typedef struct csn_plan_mount {
    const char *volume, *path, *subpath;
    uint32_t is_read_only;
} csn_plan_mount;

typedef struct csn_plan {
    uint32_t mode;
    uint32_t flags;
    const char *state_dir; /* absolute */
    const char *id;        /* 32 hex digits; boxes/<id> exists */
    const char *name;      /* "": none; names/<name> is removed with the box */
    const char *target;    /* COPY, REMOVE */
    uint32_t n_layers;     /* topmost first; each layers/<layer>/root and, if there, layers/<layer>/usr; the lowest layer
                            * of / is always the last entry */
    const char *layers[CSN_PLAN_LAYERS_MAX];
    uint32_t n_mounts;
    csn_plan_mount mounts[CSN_PLAN_MOUNTS_MAX];
    const char *hostname; /* "": "caisson" */
    int64_t id_base;   /* first host id of the 65536 that belong to this box; 0: without privilege */
    int64_t id_index;  /* ids/<n> to give back, -1: none */
    int64_t memory_bytes, cpu_milli, pids, disk_bytes, disk_inodes, open_files, tmp_bytes, shm_bytes; /* < 0: none */
    int64_t timeout_ms, output_bytes; /* defaults of commands */
    int64_t created_ms, ttl_ms, idle_stop_ms;
    uint32_t strict;         /* CSN_LIMIT_… */
    uint32_t optional_walls; /* CSN_WALL_… */
    uint32_t walls_off;      /* test builds only */
    int64_t fault_at; /* test builds only: the k-th fault point of the start fails; beyond 1000: the child's k-1000th; 0: none */
} csn_plan;

/* Its writable files are a tmpfs, and it lives in run/ of the state directory. */
static inline bool csn_plan_is_in_memory(const csn_plan *plan)
{
    return (plan->flags & (CSN_PLAN_EPHEMERAL | CSN_PLAN_ON_DISK)) == CSN_PLAN_EPHEMERAL;
}

void csn_plan_pack(csn_pack *p, const csn_plan *plan);
/* 0 or -EBADMSG; checks every count, every name and that absolute paths are absolute. */
int csn_plan_unpack(csn_unpack *u, csn_plan *ret_plan);

#endif
