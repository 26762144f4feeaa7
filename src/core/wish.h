/* What a caller wished of a sandbox, as owned data: made of csn_sandbox_options, kept by a backend, shown by inspect. */
#ifndef CSN_CORE_WISH_H
#define CSN_CORE_WISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <caisson/sandbox.h>

#include "base/auto.h"

enum { CSN_ID_SIZE = 33 };     /* of this machine's ids: hex digits */
enum { CSN_ANY_ID_SIZE = 65 }; /* of a service's: its choice */

typedef enum csn_phase {
    CSN_PHASE_CREATING, /* swept when nobody works on it */
    CSN_PHASE_KEPT,     /* acknowledged */
    CSN_PHASE_DELETING, /* swept */
    CSN_PHASE_STANDBY   /* built ahead, nobody's yet: not shown, swept when its engine is gone */
} csn_phase;

/* Zero is empty; every pointer is owned. Limits are resolved: > 0, or < 0 for none. */
typedef struct csn_wish {
    char id[CSN_ANY_ID_SIZE];
    csn_phase phase;
    char *name; /* "" when it has none */
    char *image, *user, *cwd;
    char **env, **labels; /* NULL at the end, never NULL after csn_wish_read() */
    char **image_env;     /* NULL: none */
    csn_mount *mounts;
    size_t n_mounts;
    csn_network network;
    bool is_detached, is_shared, is_ephemeral, allow_ptrace, is_root;
    /* Of this create, and not remembered: */
    bool is_once;  /* for one command and no other */
    bool is_eager; /* handed out while it is being built, for a command that comes at once */
    int64_t memory_bytes, cpu_milli, pids, disk_bytes, disk_inodes, open_files, tmp_bytes,
        shm_bytes, timeout_ms, output_bytes;
    uint32_t strict, walls_off;
    int64_t created_ms, ttl_ms, idle_stop_ms;

    char **layers; /* topmost first; the local backend's */
    bool is_host_based;
    int64_t id_index; /* of its host id range; -1: none */
} csn_wish;

void csn_wish_done(csn_wish *wish); /* empty again */
void csn_wish_auto(csn_wish *wish);

/* Checks the options, puts defaults in, copies. `opts` may be NULL. *ret is written on success only. */
int csn_wish_read(const csn_sandbox_options *opts, csn_wish *ret, csn_error *err);

/* A copy for a fork: settings and layers, without id, name, labels and timers. */
int csn_wish_copy(const csn_wish *from, csn_wish *ret, csn_error *err);
/* The parent's settings with the few that a fork may have of its own; NULL: none. Parts of `own` are exchanged for others. */
int csn_wish_fork(const csn_wish *parent, csn_wish *own, csn_wish *ret, csn_error *err);

/* Points into the wish. keeper_pid and init_pid are 0. */
void csn_wish_info(const csn_wish *wish, csn_state state, csn_sandbox_info *ret_info);

/* "KEY=value" lists. */
int csn_list_check(const char *const *list, const char *what, csn_error *err);
char **csn_list_copy(const char *const *list); /* NULL: no memory; a NULL list copies as an empty one */
char **csn_list_free(char **list);             /* always NULL */

/* Copies at most want_size bytes of a versioned struct (its first member is its size) over a zeroed `to`; a longer one
 * must be zero beyond what we know. */
int csn_options_read(void *to, size_t to_size, const void *from, const char *what, csn_error *err);

#endif
