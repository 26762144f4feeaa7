/* The process handle's inside, for the files of core/. */
#ifndef CSN_CORE_PROCESS_H
#define CSN_CORE_PROCESS_H

#include <caisson/process.h>

#include "base/buf.h"
#include "core/sandbox.h"

/* What was kept of one stream. */
typedef struct csn_kept {
    csn_buf data;
    int64_t n_produced;
} csn_kept;

typedef struct csn_follow csn_follow;

struct csn_process {
    csn_sandbox *sandbox; /* counted */
    csn_exec *exec;
    bool is_ended;
    bool is_watched; /* opened, not started by us: its end was asked for */
    csn_output_fn on_output;
    csn_exit_fn on_exit;
    void *user_data;
    csn_op *start;    /* until it runs */
    csn_list waiters; /* operations that wait for its end: wait_op.link */

    int64_t output_bytes; /* < 0: no limit */
    csn_output_policy policy;
    bool is_cut, is_over; /* over: told to die for it */
    csn_kept kept[2];     /* stdout, stderr */
    csn_buf order;        /* of the pieces: int32_t each, > 0 that many bytes of stdout, < 0 of stderr */
    csn_buf merged;       /* made when asked for */
    char *log_buffer;
    csn_follow *follow; /* NULL: none, or it has reached the end */
};

/* process_follow.c */
int csn_follow_start(csn_process *process, csn_error *err);
void csn_follow_begin(csn_follow *follow); /* once the command runs */
void csn_follow_resume(csn_follow *follow);
void csn_follow_drop(csn_follow *follow); /* its process goes */

/* It has ended and everything was given out: tells the caller. */
void csn_process_end(csn_process *process);

/* csn_process_start_async(). is_last: the sandbox ends with it, without being told. */
csn_op *csn_process_begin(csn_sandbox *sandbox, const csn_process_options *opts, bool is_last,
                          csn_process_done_fn done, void *user, csn_error *err);

int csn_process_check(const csn_process *process, csn_error *err);
/* The same, and the backend has the verb. */
#define csn_process_need(process, verb, what, err) \
    (csn_process_check(process, err) < 0 ? CSN_E_INVALID \
     : (process)->sandbox->box->ops->verb \
         ? CSN_OK \
         : (process)->sandbox->box->ops->cannot((process)->sandbox->box, what, err))
#endif
