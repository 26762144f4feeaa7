/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_SANDBOX_H
#define CAISSON_SANDBOX_H

#include <caisson/engine.h>
#include <caisson/receipt.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct csn_sandbox csn_sandbox; /* opaque: the library makes it, the library frees it */

typedef enum csn_network {
    CSN_NET_NONE = 0, /* loopback only */
    CSN_NET_OUTBOUND /* user-mode network; host, private, link-local and metadata addresses refused */
} csn_network;

/* Whether sandboxes can have this network on this machine. CSN_E_UNSUPPORTED: what is missing, and what helps. */
CSN_API int csn_network_check(csn_network network, csn_error *err);

typedef struct csn_mount {
    const char *volume; /* name of a volume */
    const char *path;   /* absolute path inside */
    /* NULL: the whole volume; else a relative directory in it, made if absent */
    const char *subpath;
    int is_read_only;
} csn_mount;

typedef struct csn_sandbox_options {
    size_t size;
    const char *name;  /* NULL: none. [A-Za-z0-9][A-Za-z0-9._-]{0,63}, unique among all sandboxes */
    const char *image; /* NULL: "host" */
    const char *user;  /* NULL: "daytona"; "root": the profile "root inside" */
    const char *cwd;   /* NULL: /home/daytona (root: /root) */
    const char *const *env;    /* "KEY=value", NULL at the end; for every command. Copied. */
    const char *const *labels; /* "key=value", NULL at the end. Copied. */
    const csn_mount *mounts;
    size_t n_mounts;
    csn_network network;
    /* 0: attached: deleted when this engine is freed or its process dies, kill -9 included. 1: stays until it is deleted, and is
     * found again by id or name */
    int is_detached;
    int is_ephemeral; /* 1: deleted when it stops; its files live in memory */
    int allow_ptrace; /* the debugging profile: ptrace among the sandbox's own processes */
    /* Limits. 0: the default; CSN_UNLIMITED: none. */
    int64_t memory_bytes; /* 1 GiB, with tmpfs and page cache, no swap */
    int64_t cpu_milli;    /* 1000 = one core */
    int64_t pids;         /* 512 */
    int64_t disk_bytes;   /* 3 GiB; ephemeral ones: at most half of memory_bytes */
    int64_t disk_inodes;  /* 200,000 */
    int64_t open_files;   /* 16,384; all processes together: a quarter of fs.file-max */
    int64_t tmp_bytes;    /* /tmp: 256 MiB */
    int64_t shm_bytes;    /* /dev/shm: 64 MiB */
    int64_t timeout_ms;   /* of each command that names none: 10 min */
    int64_t output_bytes; /* of each command that names none; kept, the rest is cut: 10 MiB */
    uint32_t strict; /* CSN_LIMIT_… that refuse the start when the kernel can't enforce them */
    int64_t ttl_ms;  /* 0: none. Deleted that long after creation */
    int64_t idle_stop_ms; /* 0: none. Stopped when no command ran and nobody called for that long */
    uint32_t walls_off;   /* test builds only: CSN_WALL_… not to put up; otherwise must be 0 */
    int is_shared; /* attached ones: other engines may open it, too; it still ends with this one */
} csn_sandbox_options;

/* Creates a sandbox and waits until code can run in it. `opts` may be NULL. On success *ret_sandbox is yours to
 * csn_sandbox_free(), which lets go of the handle and leaves a detached sandbox running; an attached one is deleted when its
 * engine is freed or its process dies. On failure nothing remains and *ret_sandbox is untouched.
 * Errors: CSN_E_INVALID, CSN_E_EXISTS (name), CSN_E_NOT_FOUND (image, volume), CSN_E_UNSUPPORTED (wall, strict limit),
 * CSN_E_TIMEOUT, CSN_E_CANCELLED, CSN_E_SYSTEM. */
CSN_API int csn_sandbox_create(csn_engine *engine, const csn_sandbox_options *opts,
                               csn_sandbox **ret_sandbox, csn_error *err);
/* done: sandbox is yours (NULL on failure). */
typedef void (*csn_sandbox_done_fn)(csn_sandbox *sandbox, int result, const csn_error *err,
                                    void *user);
CSN_API csn_op *csn_sandbox_create_async(csn_engine *engine, const csn_sandbox_options *opts,
                                         csn_sandbox_done_fn done, void *user, csn_error *err);

/* Finds a sandbox by id, unique id prefix (≥ 4 characters) or name, in whatever state it is.
 * Errors: CSN_E_NOT_FOUND, CSN_E_INVALID (ambiguous prefix). */
CSN_API int csn_sandbox_open(csn_engine *engine, const char *id_or_name, csn_sandbox **ret_sandbox,
                             csn_error *err);
CSN_API csn_op *csn_sandbox_open_async(csn_engine *engine, const char *id_or_name,
                                       csn_sandbox_done_fn done, void *user, csn_error *err);
CSN_API csn_sandbox *csn_sandbox_free(csn_sandbox *sandbox); /* NULL is fine; always returns NULL */

/* A line to a started sandbox for another process of yours, also one with fewer rights: lend here, pass the descriptor
 * (SCM_RIGHTS), borrow there. *ret_fd is yours to close. Errors: CSN_E_STATE (not started, or attached to another program). */
CSN_API int csn_sandbox_lend(csn_sandbox *sandbox, int *ret_fd, csn_error *err);
/* The other side: a handle over `fd`, which is taken on success. The engine must be a guest (csn_engine_options.is_guest).
 * Commands, files, usage and receipts work on it; what changes the sandbox itself is its lender's. `opts` says what
 * commands inherit here (env, user, cwd, timeout_ms, output_bytes); the rest of it is ignored. When the line is lost the
 * sandbox reads as stopped for good: borrow anew. `id` (at most 32 characters) is what csn_sandbox_id() tells. */
CSN_API int csn_sandbox_borrow(csn_engine *engine, const char *id, const csn_sandbox_options *opts,
                               int fd, csn_sandbox **ret_sandbox, csn_error *err);

typedef enum csn_state {
    CSN_STATE_CREATING = 0,
    CSN_STATE_STARTED,
    CSN_STATE_STOPPED,
    CSN_STATE_DELETING,
    CSN_STATE_DELETED
} csn_state;
CSN_API const char *csn_state_name(csn_state state);

/* What is known of a sandbox. Strings are borrowed from the handle (or valid during the callback in csn_sandbox_list)
 * and live until its next call. */
typedef struct csn_sandbox_info {
    const char *id;
    const char *name; /* "" when it has none */
    const char *image;
    const char *user;
    const char *const *labels; /* "key=value", NULL at the end */
    const char *const *env;
    csn_state state;
    int is_detached;
    int is_ephemeral;
    csn_network network;
    int64_t created_ms; /* Unix time */
    int64_t ttl_ms;
    int64_t idle_stop_ms;
    const csn_mount *mounts;
    size_t n_mounts;
    int64_t memory_bytes, cpu_milli, pids, disk_bytes, disk_inodes, timeout_ms, output_bytes;
    int keeper_pid; /* 0 unless started */
    int init_pid;
} csn_sandbox_info;

/* 32 hex digits; of a service elsewhere its own kind of id, at most 64 characters. */
CSN_API const char *csn_sandbox_id(const csn_sandbox *sandbox);
CSN_API int csn_sandbox_inspect(csn_sandbox *sandbox, csn_sandbox_info *ret_info, csn_error *err);
/* info: NULL on failure; valid during the call only. */
typedef void (*csn_sandbox_info_done_fn)(const csn_sandbox_info *info, int result,
                                         const csn_error *err, void *user);
CSN_API csn_op *csn_sandbox_inspect_async(csn_sandbox *sandbox, csn_sandbox_info_done_fn done,
                                          void *user, csn_error *err);
typedef void (*csn_sandbox_list_fn)(const csn_sandbox_info *info, void *user);
CSN_API int csn_sandbox_list(csn_engine *engine, csn_sandbox_list_fn fn, void *user,
                             csn_error *err);
/* `fn` runs for each of them before `done`; both get `user`. */
CSN_API csn_op *csn_sandbox_list_async(csn_engine *engine, csn_sandbox_list_fn fn, csn_done_fn done,
                                       void *user, csn_error *err);

/* Replaces all labels. Running or stopped; durable when it returns. */
CSN_API int csn_sandbox_set_labels(csn_sandbox *sandbox, const char *const *labels, csn_error *err);
CSN_API csn_op *csn_sandbox_set_labels_async(csn_sandbox *sandbox, const char *const *labels,
                                             csn_done_fn done, void *user, csn_error *err);
/* Changes the timers; 0 switches one off. ttl counts from creation. */
CSN_API int csn_sandbox_set_timers(csn_sandbox *sandbox, int64_t ttl_ms, int64_t idle_stop_ms,
                                   csn_error *err);
CSN_API csn_op *csn_sandbox_set_timers_async(csn_sandbox *sandbox, int64_t ttl_ms,
                                             int64_t idle_stop_ms, csn_done_fn done, void *user,
                                             csn_error *err);

/* New limits; 0 leaves one as it is, CSN_UNLIMITED takes it away. Memory and CPU change at once, running or stopped; the
 * disk of a stopped one, from its next start on. Errors: CSN_E_STATE (disk of a started one), CSN_E_BUSY (more memory is in
 * use than it would get), CSN_E_UNSUPPORTED (without cgroups: other processors for a started one), CSN_E_INVALID. */
CSN_API int csn_sandbox_resize(csn_sandbox *sandbox, int64_t memory_bytes, int64_t cpu_milli,
                               int64_t disk_bytes, csn_error *err);
CSN_API csn_op *csn_sandbox_resize_async(csn_sandbox *sandbox, int64_t memory_bytes,
                                         int64_t cpu_milli, int64_t disk_bytes, csn_done_fn done,
                                         void *user, csn_error *err);

/* stop: SIGTERM to everyone, grace_ms (0: 2 s; -1: none), then the end of the PID namespace. Files stay (unless
 * ephemeral: then it is deleted). Stopping a stopped one is fine. */
CSN_API int csn_sandbox_stop(csn_sandbox *sandbox, int grace_ms, csn_error *err);
CSN_API csn_op *csn_sandbox_stop_async(csn_sandbox *sandbox, int grace_ms, csn_done_fn done,
                                       void *user, csn_error *err);
/* start: a stopped sandbox runs again on its files. Starting a started one is fine. Errors: CSN_E_STATE (attached to another
 * program). */
CSN_API int csn_sandbox_start(csn_sandbox *sandbox, csn_error *err);
CSN_API csn_op *csn_sandbox_start_async(csn_sandbox *sandbox, csn_done_fn done, void *user,
                                        csn_error *err);
/* delete: legal in every state, idempotent; when it returns no process, mount, cgroup or file of it is left. */
CSN_API int csn_sandbox_delete(csn_sandbox *sandbox, csn_error *err);
CSN_API csn_op *csn_sandbox_delete_async(csn_sandbox *sandbox, csn_done_fn done, void *user,
                                         csn_error *err);

/* The sandbox's own receipt: sums and peaks since it started, now. */
CSN_API int csn_sandbox_receipt(csn_sandbox *sandbox, csn_receipt *ret_receipt, csn_error *err);
/* receipt: NULL on failure; valid during the call only. */
typedef void (*csn_receipt_done_fn)(const csn_receipt *receipt, int result, const csn_error *err,
                                    void *user);
CSN_API csn_op *csn_sandbox_receipt_async(csn_sandbox *sandbox, csn_receipt_done_fn done,
                                          void *user, csn_error *err);

typedef struct csn_usage {
    int64_t memory_bytes, cpu_us, n_processes, disk_bytes, disk_inodes;
} csn_usage;
CSN_API int csn_sandbox_usage(csn_sandbox *sandbox, csn_usage *ret_usage, csn_error *err);
/* usage: NULL on failure; valid during the call only. */
typedef void (*csn_usage_done_fn)(const csn_usage *usage, int result, const csn_error *err,
                                  void *user);
CSN_API csn_op *csn_sandbox_usage_async(csn_sandbox *sandbox, csn_usage_done_fn done, void *user,
                                        csn_error *err);

/* Copies the file system, running (a moment's freeze) or stopped, into a new image. Errors: CSN_E_EXISTS. */
CSN_API int csn_sandbox_snapshot(csn_sandbox *sandbox, const char *image_name, csn_error *err);
CSN_API csn_op *csn_sandbox_snapshot_async(csn_sandbox *sandbox, const char *image_name,
                                           csn_done_fn done, void *user, csn_error *err);
/* A new started sandbox with a copy of this one's files and settings, `name` (may be NULL) its name. `opts` may be
 * NULL; of it only name, labels, is_detached, is_shared, is_ephemeral, ttl and idle_stop are read. */
CSN_API int csn_sandbox_fork(csn_sandbox *sandbox, const csn_sandbox_options *opts,
                             csn_sandbox **ret_sandbox, csn_error *err);
CSN_API csn_op *csn_sandbox_fork_async(csn_sandbox *sandbox, const csn_sandbox_options *opts,
                                       csn_sandbox_done_fn done, void *user, csn_error *err);

#ifdef __cplusplus
}
#endif
#endif
