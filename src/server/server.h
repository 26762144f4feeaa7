/* SPDX-License-Identifier: Apache-2.0 */
/* The server's inside: what its rooms share. One process, one thread, one loop. */
#ifndef CSN_SERVER_SERVER_H
#define CSN_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/engine.h>

#include "base/loop.h"

typedef struct csn_server csn_server;
typedef struct csn_listener csn_listener; /* listen.h */
typedef struct csn_store csn_store;       /* store/store.h */
typedef struct csn_warden csn_warden; /* warden.h: the line to the process that holds the engine */
typedef struct csn_boxes
    csn_boxes; /* boxes.h: sandboxes of this server, their state, connections, timers */
typedef struct csn_toolbox
    csn_toolbox; /* toolbox.h: sessions and interpreter contexts of live sandboxes */
typedef struct csn_events csn_events; /* events.h: who listens to sandbox.state.updated */

/* Where data_dir is opened: the warden makes it our current directory. The path may lead through root's home, where our
 * user can't go. */
#define CSN_DATA_HERE "."

typedef struct csn_config {
    const char *listen;     /* "127.0.0.1:3986" */
    const char *public_url; /* NULL: derived from each request's Host */
    const char *hosts;      /* more names we answer to, comma-separated; NULL: none */
    bool is_proxy_trusted;  /* X-Forwarded-Proto, -Host, -For are believed */
    const char *data_dir;   /* the front's own: database, audit log; for messages only */
    const char *default_snapshot;
    const char *region;        /* "local" */
    int64_t preview_life_ms;   /* of a token of a port, since it was last asked for */
    bool is_preview_token_key; /* one of any port opens every port and the toolbox */
    bool has_network;      /* sandboxes without networkBlockAll reach the outside */
    const char
        *walls_missing; /* of every sandbox, as --optional allows: "landlock, keeper"; NULL: none */
    uint32_t n_warm;    /* sandboxes of the default shape kept ready */
    int64_t machine_cpu_milli, machine_memory_bytes; /* what one sandbox gets at most (machine.c) */
    int64_t
        overcommit; /* so often the machine may be promised; 0: any number, -1: machine.c chooses */
    bool is_clamping; /* who asks for more than the machine has gets less */
    int64_t
        max_sandboxes; /* quotas per organisation that has no own one; 0: any number, -1: machine.c chooses */
    int64_t max_cpu_milli, max_memory_bytes, max_disk_bytes;
    int64_t max_snapshots, max_snapshot_bytes, max_volumes, max_volume_bytes;
    int64_t max_requests_per_s; /* of an organisation; 0: any number */
    int64_t disk_reserve_bytes; /* stay free on the state's file system; -1: disk.c chooses */
    uint32_t max_connections, max_connections_per_address; /* 0: three quarters of all */
} csn_config;

struct csn_server {
    csn_config config;
    csn_loop *loop;     /* the engine's: one wait for both */
    csn_engine *engine; /* only borrowed sandboxes live in it */
    csn_listener *listener;
    csn_store *store;
    csn_warden *warden;
    csn_boxes *boxes;
    csn_toolbox *toolbox;
    csn_events *events;
    bool is_stopping;
};

#endif
