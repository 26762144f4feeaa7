/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_ENGINE_H
#define CAISSON_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <caisson/api.h>
#include <caisson/error.h>
#include <caisson/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Threads: an engine and everything that came from it belong to one thread at a time; two engines share nothing.
 * Only csn_engine_interrupt() may be called from any thread or from a signal handler. After fork() every handle
 * answers CSN_E_INVALID in the child.
 *
 * Every slow verb has two forms: csn_x() blocks; csn_x_async(…, done, user, err) returns an operation that can be cancelled,
 * dropped and given a deadline, see <caisson/op.h>. `done` runs inside csn_engine_dispatch(), on the thread that calls it.
 * While a blocking verb waits, completions of other operations are delivered too. */

typedef struct csn_engine csn_engine;

#define CSN_UNLIMITED INT64_C(-1)

/* Walls a caller may name as optional; whatever is missing then shows in every receipt (csn_receipt.walls). */
enum {
    CSN_WALL_USERNS = 1 << 0,
    CSN_WALL_NAMESPACES = 1 << 1, /* mount, pid, ipc, uts, cgroup, time */
    CSN_WALL_NETNS = 1 << 2,
    CSN_WALL_ROOT = 1 << 3, /* pivot_root, private overlay */
    CSN_WALL_PROC = 1 << 4, /* masked, hidden */
    CSN_WALL_DEV = 1 << 5,
    CSN_WALL_CAPS = 1 << 6,
    CSN_WALL_NO_NEW_PRIVS = 1 << 7,
    CSN_WALL_SECCOMP = 1 << 8,
    CSN_WALL_LANDLOCK = 1 << 9,
    CSN_WALL_RLIMITS = 1 << 10,
    CSN_WALL_ID_RANGE = 1 << 11,   /* host ids of its own; absent without privilege */
    CSN_WALL_NO_NESTING = 1 << 12, /* user.max_*_namespaces = 0 inside */
    CSN_WALL_KEEPER = 1 << 13      /* the keeper confines itself */
};

/* Limits; names both what a caller marks `strict` and what a receipt says was enforced by the kernel. */
enum {
    CSN_LIMIT_MEMORY = 1 << 0,
    CSN_LIMIT_CPU = 1 << 1,
    CSN_LIMIT_PIDS = 1 << 2,
    CSN_LIMIT_DISK = 1 << 3
};

typedef struct csn_engine_options {
    size_t size;           /* sizeof this struct in the caller's build; fields are only appended */
    const char *state_dir; /* NULL: $CAISSON_STATE, else the platform's place (see caisson(7)) */
    /* NULL: $CAISSON_LIBEXEC, else beside the running program, else the installed one */
    const char *libexec_dir;
    /* CSN_WALL_…; a wall not named here and not to be had refuses every start */
    uint32_t optional_walls;
    /* Keepers kept ready for the next create, from the engine's opening on; 0: after two creates alike, one whole sandbox of that
     * kind. */
    uint32_t n_spare;
    int is_guest; /* no state directory, no sandboxes of its own: only those lent to it, see csn_sandbox_borrow() */
    /* Sandboxes of a service elsewhere that speaks the API of `caisson serve`, instead of this machine's. All copied. Asking
     * begins with the first verb: a wrong key shows there. What the service has no verb for answers CSN_E_UNSUPPORTED. */
    const char *remote_url; /* "https://host/api"; NULL: this machine */
    /* A secret: never shown, and sent to that host alone, and to where it says its sandboxes are if nobody can listen on
     * the way (TLS, or this machine). */
    const char *remote_key;
    const char *remote_token;        /* instead of a key, with remote_organization */
    const char *remote_organization; /* NULL: the key's own */
    const char *remote_target;       /* region; NULL: the service's choice */
} csn_engine_options;

/* Whether this installation can speak to services elsewhere. CSN_E_UNSUPPORTED: what is missing. `libexec_dir` as in the
 * options, NULL most often. */
CSN_API int csn_engine_remote_check(const char *libexec_dir, csn_error *err);
/* 1: its sandboxes are elsewhere. */
CSN_API int csn_engine_is_remote(const csn_engine *engine);

/* Opens the engine: makes the state directory if needed, checks its owner and mode, and sweeps what a killed keeper
 * left behind. `opts` may be NULL. Errors: CSN_E_INVALID, CSN_E_DENIED, CSN_E_UNSUPPORTED, CSN_E_SYSTEM. */
CSN_API int csn_engine_open(const csn_engine_options *opts, csn_engine **ret_engine,
                            csn_error *err);

/* One more with the options of another, for a thread of its own; `engine` is only read. */
CSN_API int csn_engine_open_like(csn_engine *engine, csn_engine **ret_engine, csn_error *err);

/* Closes the engine: attached sandboxes, started or stopped, are gone when this returns, detached ones stay. NULL is fine. */
CSN_API csn_engine *csn_engine_free(csn_engine *engine);

/* The caller's own event loop: wait until this descriptor is readable, then dispatch. */
CSN_API int csn_engine_fd(csn_engine *engine);

/* Delivers what is ready; waits up to timeout_ms for the first event (0: don't wait, -1: forever).
 * Returns the number of events handled (0 on time-out), or a CSN_E_… */
CSN_API int csn_engine_dispatch(csn_engine *engine, int timeout_ms, csn_error *err);

/* Makes the blocking verb that waits now, or the next one, return CSN_E_CANCELLED. Any thread, any signal handler. */
CSN_API void csn_engine_interrupt(csn_engine *engine);
/* For those who dispatch themselves: 1 if an interrupt waited for a verb to end; it is taken by that, else 0. */
CSN_API int csn_engine_take_interrupt(csn_engine *engine);

/* Borrowed, lives as long as the engine. Of a remote one: its URL. */
CSN_API const char *csn_engine_state_dir(csn_engine *engine);

/* Sweeps left-overs of killed keepers and clients. *ret_n_removed (may be NULL): objects removed. */
CSN_API int csn_engine_gc(csn_engine *engine, uint32_t *ret_n_removed, csn_error *err);
CSN_API csn_op *csn_engine_gc_async(csn_engine *engine, csn_count_done_fn done, void *user,
                                    csn_error *err);

/* One line of `caisson doctor`. Strings are borrowed and valid during the callback only. */
typedef struct csn_check {
    const char *name;   /* "seccomp", "cgroup memory" … */
    const char *kind;   /* "wall", "limit", "extra" */
    int ok;             /* 1 works here, 0 does not */
    const char *
        detail; /* what was found: "landlock ABI 7"; of a failure: the kernel's word and the cause */
    const char *remedy; /* NULL or the one command that fixes it */
    int sys_errno;      /* what the kernel answered, or 0 */
    const char *
        follows; /* NULL, or the name of the failed check that explains this one: it was not tried */
} csn_check;
typedef void (*csn_check_fn)(const csn_check *check, void *user);

/* Tries every wall and limit for real, the way this process's sandboxes take, and a whole sandbox last: one that ends with
 * the call and one that stays. Returns CSN_OK when a sandbox with all walls starts. `engine` may be NULL, for a process that
 * can't open one: then the walls and limits only, and CSN_E_INVALID. */
CSN_API int csn_engine_doctor(csn_engine *engine, csn_check_fn fn, void *user, csn_error *err);

/* Why no sandbox starts here: calls `fn` once, with the first wall that csn_engine_doctor() would show as down, and returns
 * 1; 0 when every wall stands. Quick, for the moment after a sandbox could not be made. Walls that the engine was told are
 * optional are left out. Forks, so it answers 0 in a process that has threads beside the
 * engine's own. */
CSN_API int csn_engine_explain(csn_engine *engine, csn_check_fn fn, void *user);

CSN_API const char *csn_version(void);

#ifdef __cplusplus
}
#endif
#endif
