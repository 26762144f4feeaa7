/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_INIT_H
#define CSN_INIT_H

/* What the files of PID 1 share: its table of commands and the verbs of its loop. The theory is at the head of main.c. */

#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "wire/frame.h"

typedef enum csn_said { /* how far a shepherd got in telling the keeper */
                        CSN_SAID_NOTHING = 0,
                        CSN_SAID_STARTED,
                        CSN_SAID_END /* FAILED or EXITED: nothing more to say */
} csn_said;

typedef enum csn_job_phase {
    CSN_JOB_NONE = 0,
    CSN_JOB_STOP, /* stopping every process of the tree, until a look at it finds none that is new */
    CSN_JOB_KILL  /* killing what was found, until nothing is left */
} csn_job_phase;

/* One command. The table is memory shared with the shepherds: the atomic fields are spoken over, the others belong to
 * init. Programs never see it, exec leaves it behind. */
typedef struct csn_slot {
    uint32_t process; /* the keeper's number; 0: free */
    pid_t shepherd;   /* 0: it is gone, and what it left is being killed */
    int is_alone;     /* the only command there ever is: init itself started it, and `shepherd` is its main process */
    pid_t first_pid;  /* the shepherd's number: its descendants were all numbered later */
    int64_t born_ms;
    _Atomic pid_t main_pid; /* 0: not yet, or not any more */
    _Atomic uint32_t said;  /* csn_said */
    _Atomic uint32_t
        is_killed; /* by the keeper's wish: the shepherd stays until it has no child left */
    csn_job_phase phase;
    uint32_t n_passes, n_empty;
    int64_t next_ms;     /* of the job */
    struct rusage usage; /* of a shepherd that is gone; of a lone command's processes, as they are reaped */
} csn_slot;

enum { CSN_WORKERS_MAX = 256, CSN_CONTROL_FD = CSN_KEEPER_FD };

extern csn_slot *csn_slots; /* CSN_PROCESS_MAX of them */
extern size_t csn_n_slots;  /* how many were ever in use at once: the rest is untouched memory */
extern pid_t csn_workers[CSN_WORKERS_MAX]; /* living file workers; 0: free */
/* Shared, too. */
extern _Atomic uint32_t *csn_has_leftovers; /* a command ended and left processes behind */
extern _Atomic uint32_t *csn_oom_is_set;    /* oom_score_adj need not or cannot be written */

/* main.c. The loop; returns when the keeper is gone. */
void csn_init_prepare(void);
void csn_init_serve(void);

/* spawn.c */
void csn_init_spawn_request(csn_msg *msg);
csn_slot *csn_slot_of_process(uint32_t process);
csn_slot *csn_slot_of_shepherd(pid_t pid);
void csn_slot_free(csn_slot *slot);
void csn_worker_forget(pid_t pid);
int csn_is_worker(pid_t pid);

/* shepherd.c. The first never returns; the second is init doing the same without a process of its own for it: 0, or -1 when
 * the keeper was told why not. */
_Noreturn void csn_shepherd_run(csn_slot *slot, const csn_init_spawn *request, csn_msg *msg);
int csn_start_alone(csn_slot *slot, const csn_init_spawn *request, csn_msg *msg);
void csn_alone_count(const struct rusage *usage); /* of somebody who was reaped beside it, or its own */
void csn_alone_is_gone(csn_slot *slot, int wait_status);
void csn_say_failed(uint32_t process, int stage, int error);
void csn_say_exited(uint32_t process, int wait_status, const struct rusage *usage, int64_t n_tasks);

/* kill.c */
void csn_init_kill_request(const csn_init_kill *request);
void csn_shepherd_is_gone(csn_slot *slot, const struct rusage *usage);
int csn_kill_step(void); /* does what is due; ms until the next step, -1: nothing to do */

/* freeze.c: everyone but us stops, until the thaw. */
void csn_freeze(void);
void csn_thaw(void);

/* worker.c: executes one file request on the channel, never returns. */
_Noreturn void csn_worker_run(const csn_init_spawn *request, csn_msg *msg);

#endif
