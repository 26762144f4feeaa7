/* The backend on this machine: what its files share.
 *
 * Theory of operation. Sandboxes are directories boxes/<id> of the state directory and processes called keepers. Those
 * of ephemeral ones lie below run/, a link to a directory in memory: nothing of them is ever on disk, making and
 * removing them costs no disk's time, and a restart of the machine takes them away. Two locks say who may touch a box:
 *
 *   flock(boxes/<id>, LOCK_EX)       somebody changes the box right now: its creator until READY, a starter, a deleter,
 *                                    a sweeper, whoever rewrites the record. Short; of a keeper: while it removes the box.
 *   flock(boxes/<id>/lock, LOCK_EX)  its keeper lives. Held from before READY until the keeper's process is gone.
 *   flock(boxes/<id>/lease, LOCK_EX) the engine lives that an attached sandbox belongs to (lease.c).
 *
 * A creator makes the directory, locks it, and then looks whether it is still linked: a sweeper that came between the two
 * steps has removed it, and the creator takes another id. So a directory whose both locks can be had is nobody's:
 * ephemeral ones, those still creating or already deleting, and attached ones without an engine are swept, the others are stopped
 * sandboxes. Deleting
 * removes name and id range before the directory goes, so that neither can point into nothing for good.
 *
 * A keeper is started with posix_spawn (vfork semantics: the library never forks without exec), one end of a SEQPACKET
 * socketpair as descriptor 3, /dev/null as 0 to 2, nothing else, no environment, a session of its own. It waits for its
 * PLAN, so one may be started before it is needed. Whoever else wants the box connects to boxes/<id>/sock. */
#ifndef CSN_LOCAL_LOCAL_H
#define CSN_LOCAL_LOCAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/work.h"
#include "core/backend.h"
#include "image/images.h"
#include "local/conn.h"

enum { CSN_SPARES_MAX = 16, CSN_RANGES = 16384 };

typedef struct csn_keeper {
    pid_t pid;
    int fd; /* our end; -1: none */
} csn_keeper;

/* Where boxes and the links of their id ranges lie. The two places share out the ranges between them. */
typedef struct csn_place {
    int boxes_fd, ids_fd;
} csn_place;

enum { CSN_PLACE_DISK, CSN_PLACE_RUN, CSN_PLACES };

/* What a launch ends with. `box`: one reference, NULL on failure. csn_op_end_box() is one. */
typedef void csn_box_done_fn(csn_box *box, int result, const csn_error *err, void *user);

typedef struct csn_standby_waiter {
    csn_wish wish;
    csn_op *op; /* NULL: nobody waits */
} csn_standby_waiter;

typedef struct csn_standby {
    csn_wish shape;          /* of the last creates */
    unsigned n_alike;        /* how many in a row */
    struct csn_local_box *box; /* counted; ready. NULL: none */
    struct csn_local_box *building; /* borrowed */
    csn_standby_waiter waiter;
    int64_t ready_ns;
    bool is_hasty; /* the last one was asked for before it was ready: build the next beside the commands */
} csn_standby;

typedef struct csn_local {
    csn_backend base;
    char *state_dir, *libexec;
    int state_fd, names_fd, null_fd;
    csn_place places[CSN_PLACES];
    bool is_privileged;    /* kern/way.h */
    bool has_memory_disks; /* a tmpfs can be the upper layer of an overlay */
    uint32_t optional_walls;
    uint32_t n_spare_wanted; /* 0: one after the second create */
    uint32_t n_created;
    bool is_once;        /* the last create was for one command */
    bool has_ended_some; /* by us, or as our keepers: cgroups may be left empty */
    csn_keeper spares[CSN_SPARES_MAX];
    unsigned n_spares;
    csn_timer stock_timer;
    csn_standby standby;
    csn_workers *workers; /* no thread before there is work */
    csn_images images;
    csn_list orphans; /* orphan.c */
    csn_timer orphan_timer;
    int orphan_wait_ms;
    uint32_t next_range;
    csn_list boxes;     /* csn_local_box.link: every box this engine knows */
    csn_list helpers;   /* copies under way */
    csn_list files;     /* file verbs under way */
    char *frame_buffer; /* CSN_FRAME_MAX bytes; NULL while a frame is being handled */
} csn_local;

enum { CSN_LEAVING_WAIT_MS = 5000 };

typedef void csn_leaving_fn(bool is_alive, void *user);

/* A process that is about to exit. Zero, but for pidfd, is none. */
typedef struct csn_leaving {
    pid_t pid;            /* our child, to be reaped; 0: none */
    int pidfd;            /* set for one that isn't our child; taken; -1: none */
    bool is_spared;       /* not killed when it is late: `done` is told that it lives */
    csn_leaving_fn *done; /* NULL: nobody waits */
    void *user;
    csn_loop *loop; /* borrowed */
    int64_t deadline_ns;
    csn_source *src; /* NULL: none could be had */
    csn_timer timer;
} csn_leaving;

typedef struct csn_local_box {
    csn_box base;
    csn_list link;
    int dir_fd;        /* boxes/<id> */
    bool is_locked;    /* we hold the directory's lock */
    bool is_busy;      /* a create or start is under way */
    bool is_early;     /* and it was handed out already */
    csn_error failure; /* why an early one could not be built */
    bool is_deleting;  /* delete was asked for: what remains when the keeper is gone is removed */
    bool has_lease;    /* attached: this engine holds a reference for as long as it runs */
    int lease_fd; /* attached, not ephemeral: locked, so that others know that we live; -1: not ours */
    int64_t waited_us; /* it stood ready that long before it was somebody's */
    int64_t given_ns;
    pid_t child;       /* to reap; 0: none */
    csn_leaving
        leaving; /* its keeper; pidfd: of one that isn't our child, once its end was asked for */
    csn_timer lock_timer; /* lost, and somebody holds the directory's lock */
    int64_t lock_deadline_ns;
    csn_conn conn;
    csn_request hello;     /* the first question on a connection; in conn.requests until answered */
    csn_timer hello_timer; /* set: verbs that decide by the state wait for the answer */
    csn_list gate;         /* gate.c: those verbs */
    csn_timer gate_timer;  /* set: they go on in the next turn */
    csn_list execs; /* csn_local_exec.link */
} csn_local_box;

static inline csn_local *csn_local_of(csn_box *box)
{
    return csn_container_of(box->backend, csn_local, base);
}

static inline csn_local_box *csn_local_box_of(csn_box *box)
{
    return csn_container_of(box, csn_local_box, base);
}

/* Its files are a tmpfs: also where that can't note which directories were removed, when nothing else holds a strict limit. */
static inline bool csn_is_in_memory(const csn_local *local, const csn_wish *wish)
{
    return wish->is_ephemeral &&
           (local->has_memory_disks || (wish->strict & CSN_LIMIT_DISK && !local->is_privileged));
}

static inline csn_place *csn_place_of(csn_local *local, const csn_wish *wish)
{
    return &local->places[csn_is_in_memory(local, wish) ? CSN_PLACE_RUN : CSN_PLACE_DISK];
}

/* local.c */
int csn_local_new(csn_loop *loop, const csn_backend_ops *ops, csn_local **ret_local, csn_error *err);
csn_backend *csn_local_free(csn_backend *backend);

/* run.c: makes run/ point to a directory in memory that is ours alone; where there is none, run/ is a plain directory */
int csn_run_prepare(int state_fd);
void csn_run_tidy(int state_fd); /* takes an empty one away */
void csn_run_sweep(void);        /* those of state directories that are gone */

/* state.c */
int csn_state_open(csn_local *local, const char *state_dir, csn_error *err);
/* Adds the directory's name to an error that a full or read-only disk made; returns r. */
int csn_state_blame(const csn_local *local, int r, csn_error *err);
int csn_state_open_run(csn_local *local); /* again, when another engine took it away: 0 or -errno */
int csn_state_find_libexec(const char *wished, char **ret_dir, csn_error *err);

/* record.c: boxes/<id>/record */
int csn_record_write(int box_fd, const csn_wish *wish, bool is_durable, csn_error *err);
int csn_record_read(int box_fd, csn_wish *ret_wish, csn_error *err);
int csn_record_parse(const char *data, size_t len, csn_wish *ret_wish); /* 0 or -errno */

/* claim.c: directories, names and id ranges */
int csn_claim_box(csn_local *local, csn_wish *wish, int *ret_dir_fd, csn_error *err);
int csn_claim_name(csn_local *local, const char *name, const char *id, csn_error *err);
int csn_claim_range(csn_local *local, csn_wish *wish, csn_error *err);
void csn_claim_release(csn_local *local, const csn_wish *wish); /* name and range */
int csn_claim_find(csn_local *local, const char *key, char ret_id[CSN_ID_SIZE], csn_error *err);
/* boxes/<id>, wherever it lies, or -errno. */
int csn_claim_open(csn_local *local, const char *id);

/* sweep.c */
/* Tries the directory's lock: 0, -EWOULDBLOCK, -ENOENT (it was removed meanwhile). */
int csn_box_lock(int dir_fd);
int csn_box_lock_now(int dir_fd); /* when the engine closes: waits for it, bounded */
void csn_box_unlock(int dir_fd);
bool csn_box_has_keeper(int dir_fd);
bool csn_box_is_removed(int dir_fd); /* the last that goes is its directory */
/* Removes everything of a box without a keeper; its directory must be locked by the caller. */
int csn_box_remove(csn_local *local, const csn_wish *wish, int dir_fd, csn_error *err);
int csn_local_sweep(csn_local *local, bool is_thorough, uint32_t *ret_n, csn_error *err);
void csn_local_tidy_cgroups(const csn_local *local); /* when the engine closes */

/* lease.c */
#define CSN_BOX_LEASE "lease"
typedef enum csn_lease { CSN_LEASE_NONE, CSN_LEASE_HELD, CSN_LEASE_GONE } csn_lease;
int csn_lease_claim(csn_local_box *box, csn_error *err);
csn_lease csn_lease_of(int dir_fd);
void csn_lease_drop(csn_local_box *box); /* the lease as well; the last reference may go with it */
/* What is ours goes with the engine, also if it is stopped. */
void csn_lease_remove(csn_local_box *box);

/* foreign.c. The second wants the directory's lock; CSN_GATE_WAIT: it was killed and is not gone yet. */
pid_t csn_box_keeper_pid(int dir_fd); /* 0: none, or out of sight */
struct csn_gated;
int csn_box_kill_keeper(csn_local_box *box, struct csn_gated *verb, csn_error *err);

/* gate.c: a verb that decides by what a box is, or changes it under its directory's lock. `run` returns CSN_OK: the operation
 * will end; an error: it was not begun; or why it must be run again later, from a turn of the loop. */
enum {
    CSN_GATE_WAIT = 1, /* csn_box_is_settled() is false */
    CSN_GATE_LOCKED,   /* somebody else holds the directory's lock; not when is_late */
};

typedef struct csn_gated csn_gated;
typedef int csn_gated_fn(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err);

struct csn_gated {
    csn_gated_fn *run;
    bool is_late; /* the lock was waited for long enough */
    bool has_sent_kill;
    int grace_ms;
    csn_timers timers;
    int64_t memory_bytes, cpu_milli, disk_bytes;
    void *data; /* NULL, or owned: `run` sets it to NULL if it keeps it */
    void (*free_data)(void *data);
};

/* Runs it now if possible. CSN_OK or an error; `op` may be NULL. */
int csn_gate_enter(csn_local_box *box, const csn_gated *verb, csn_op *op, csn_error *err);
/* No keeper is being asked, or is on its way out. */
bool csn_box_is_settled(const csn_local_box *box);
void csn_gate_open(csn_local_box *box);  /* something ended: whoever waits tries again */
void csn_gate_close(csn_local_box *box); /* whoever waits is told that the engine closes */

/* keeper.c */
int csn_keeper_take(csn_local *local, csn_keeper *ret_keeper, csn_error *err);
void csn_keeper_stock(csn_local *local); /* spares up to the wished number */
void csn_keeper_stock_later(csn_local *local); /* a sandbox was made: soon */
void csn_keeper_stock_now(csn_local *local);   /* one ends: in the next turn of the loop */
void csn_keeper_start_first(csn_local *local); /* one, now; if it fails, the create will say why */
void csn_keeper_end(csn_local *local, csn_keeper *keeper); /* closes; it is an orphan that exits */
bool csn_child_wait(pid_t pid, int wait_ms); /* true: it is gone */
void csn_child_reap(pid_t pid, int kill_after_ms);

/* orphan.c: keepers of ours that no box speaks for any more */
void csn_orphan_add(csn_local *local, pid_t pid, bool is_exiting);
void csn_orphans_reap(csn_local *local);
void csn_orphans_leave(csn_local *local); /* waits for those that are exiting */

/* leaving.c. `done` runs once, also inside of these. */
void csn_leaving_begin(csn_leaving *leaving, csn_loop *loop, csn_leaving_fn *done, void *user);
void csn_leaving_now(csn_leaving *leaving); /* waits here, if one is under way */

/* lost.c */
/* The box's keeper is gone or hung up on: reaps it, finds the new state, ends requests and commands, in turns of the loop. */
void csn_local_box_lost(csn_local_box *box);
void csn_local_box_lose_now(
    csn_local_box *box); /* when the engine closes: waits until that is over, if it is under way */
/* Only the connection ends; the keeper goes on. */
void csn_local_box_leave(csn_local_box *box);

/* box.c */
csn_local_box *csn_local_box_new(csn_local *local, csn_error *err);
csn_local_box *csn_local_box_known(csn_local *local, const char *id); /* NULL: not in this engine */
int csn_local_box_load(csn_local *local, const char *id, csn_local_box **ret_box, csn_error *err);
/* 0, or -errno: there is no keeper. What it is like is asked and not waited for: csn_box_is_settled(). */
int csn_local_box_connect(csn_local_box *box);
int csn_local_box_lend(csn_box *box, int *ret_fd, csn_error *err);
void csn_local_box_facts(csn_local_box *box, const csn_box_state *state);
void csn_local_box_free(csn_box *box);
/* Reads the record again and looks for a keeper. The state is true when the box is settled. */
int csn_local_box_refresh(csn_box *box, csn_error *err);
/* CSN_OK when a keeper can be asked, else CSN_E_STATE. */
int csn_local_box_need(csn_local_box *box, const char *verb, csn_error *err);
/* The same as verbs of the table. */
int csn_local_refresh(csn_box *box, csn_op *op, csn_error *err);

/* standby.c: one more sandbox of the shape that is asked for again and again */
void csn_standby_note(csn_local *local, const csn_wish *wish); /* a create of this shape */
csn_local_box *csn_standby_take(csn_local *local, csn_wish *wish); /* counted; NULL: none that fits */
/* The one that is being built will be this create's: `wish` is taken. */
bool csn_standby_join(csn_local *local, csn_wish *wish, csn_op *op);
void csn_standby_note_age(csn_local_box *box); /* its keeper told how old it is */
bool csn_standby_build(csn_local *local); /* false: there is none and won't be */
void csn_standby_done(csn_local *local);

/* launch.c. `wish` is taken on success */
int csn_local_launch(csn_local *local, csn_wish *wish, csn_op *op, csn_error *err);
/* The same for this backend's own ends. It may be looked at meanwhile: borrowed until done. NULL: failed. */
csn_local_box *csn_local_launch_box(csn_local *local, csn_wish *wish, csn_box_done_fn *done,
                                    void *user, csn_error *err);
int csn_local_create(csn_backend *backend, csn_wish *wish, csn_op *op, csn_error *err);
int csn_local_start(csn_box *box, csn_op *op, csn_error *err);

/* end.c */
int csn_local_stop(csn_box *box, int grace_ms, csn_op *op, csn_error *err);
int csn_local_delete(csn_box *box, csn_op *op, csn_error *err);
int csn_local_stat(csn_box *box, csn_op *op, csn_error *err); /* op may be NULL */
int csn_local_ask_age(csn_local_box *box, csn_error *err);    /* ends in csn_standby_note_age() */
int csn_local_set_labels(csn_box *box, const char *const *labels, csn_op *op, csn_error *err);
int csn_local_resize(csn_box *box, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                     csn_op *op, csn_error *err);
int csn_local_set_timers(csn_box *box, int64_t ttl_ms, int64_t idle_stop_ms, csn_op *op,
                         csn_error *err);

/* copy.c */
int csn_local_snapshot(csn_box *box, const char *image, csn_op *op, csn_error *err);
int csn_local_fork(csn_box *box, csn_wish *own, csn_op *op, csn_error *err);

/* exec.c, execlog.c */
int csn_local_exec_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                         void *user, csn_exec **ret_exec, csn_error *err);
int csn_local_attach(csn_box *box, uint32_t id, const csn_exec_events *events, void *user,
                     csn_exec **ret_exec, csn_error *err);
int csn_local_list_execs(csn_box *box, csn_process_list_fn fn, void *user, csn_op *op,
                         csn_error *err);
csn_exec *csn_local_exec_free(csn_exec *exec);
int csn_local_exec_signal(csn_exec *exec, int signal, bool whole_tree, csn_ending ending,
                          csn_op *op, csn_error *err);
int csn_local_exec_write(csn_exec *exec, const void *data, size_t len, size_t *ret_n,
                         csn_error *err);
int csn_local_exec_close_stdin(csn_exec *exec, csn_error *err);
void csn_local_exec_resume(csn_exec *exec);
int csn_local_exec_resize(csn_exec *exec, uint16_t rows, uint16_t cols, csn_error *err);
int csn_local_exec_channel(csn_exec *exec, int which);
int csn_local_exec_read_log(csn_exec *exec, int64_t offset, void *data, size_t size,
                            csn_log_piece *ret_piece, csn_error *err);
int csn_local_exec_wait(csn_exec *exec, int64_t offset, bool until_closed, csn_op *op,
                        csn_error *err);
/* From the connection: an EXITED frame; and the end of the connection. */
void csn_local_exec_exited(csn_local_box *box, const csn_process_state *state);
void csn_local_exec_lost(csn_local_box *box);

/* file.c */
int csn_local_file(csn_box *box, const csn_file_call *call, csn_op *op, csn_error *err);
void csn_local_file_cancel_all(csn_local *local);

#endif
