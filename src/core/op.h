/* SPDX-License-Identifier: Apache-2.0 */
/* A verb under way, as core and the backends see it.
 *
 * Theory of operation. Core makes an operation and hands it to a function of the backend's table. That returns CSN_OK once
 * the request is under way and calls csn_op_end() (or a sibling with a value) exactly once, later; or it returns an error, and
 * the operation was never begun: core frees it. A backend that can stop a request early sets `give_up`: it is called once when
 * the operation is cancelled, dropped or late, and must lead to csn_op_end(), at once or later. Without it the end is waited for.
 * Whatever succeeds although nobody wants it any more is taken back by the kind's `undo`, before `done` runs.
 *
 * csn_op_end() from inside csn_op_cancel() is fine: delivery then waits for the next turn of the loop. */
#ifndef CSN_CORE_OP_H
#define CSN_CORE_OP_H

#include <stdbool.h>

#include <caisson/files.h>
#include <caisson/image.h>
#include <caisson/once.h>
#include <caisson/op.h>
#include <caisson/process.h>
#include <caisson/sandbox.h>

#include "base/list.h"
#include "base/loop.h"

/* What a verb yields; which member is used follows from the verb. */
typedef union csn_op_value {
    csn_sandbox *sandbox;
    csn_process *process;
    struct {
        int fd; /* OPEN, CONNECT: owned; else -1 */
        bool is_cut;
        int64_t n;
    } file;
    struct {
        char *data; /* owned; NULL: none */
        int64_t n;
    } content;
    struct {
        csn_receipt receipt;
        csn_usage usage;
    } stat;
    int64_t n;
} csn_op_value;

typedef union csn_op_done {
    csn_done_fn plain;
    csn_count_done_fn count;
    csn_sandbox_done_fn sandbox;
    csn_sandbox_info_done_fn info;
    csn_process_done_fn process;
    csn_once_done_fn once;
    csn_fd_done_fn fd;
    csn_file_content_fn content;
    csn_usage_done_fn usage;
    csn_receipt_done_fn receipt;
} csn_op_done;

/* How one kind of verb ends. */
typedef struct csn_op_kind {
    /* NULL, or: looks at what came for an operation that is still wanted; may change result and err. */
    void (*complete)(csn_op *op);
    /* Calls op->done, which is not NULL, with op->value, op->result and `err`; the value is the caller's then. */
    void (*deliver)(csn_op *op, const csn_error *err);
    /* Takes back the value of a success that nobody wants. True: that takes time, csn_op_end() follows. NULL: nothing to take. */
    bool (*undo)(csn_op *op);
    void (*free)(csn_op *op); /* NULL, or: frees what the verb's own struct holds */
} csn_op_kind;

typedef enum csn_op_fate {
    CSN_OP_WANTED = 0,
    CSN_OP_CANCELLED,
    CSN_OP_LATE,
    CSN_OP_DROPPED
} csn_op_fate;

/* At the start of a verb's own struct, if it needs one. */
struct csn_op {
    const csn_op_kind *kind;
    struct csn_engine *engine; /* held */
    csn_list link;             /* in csn_engine.ops, until it is over */
    csn_op_owner *owner;
    csn_op *next_owned, **owned_by; /* a list without a head of its own */
    csn_op_done done;
    void *user;
    csn_timer timer; /* the deadline; after its end: delivery in the next turn */
    csn_op_fate fate;
    bool is_giving_up; /* inside give_up() */
    bool is_ended;     /* has its result; delivery follows */
    bool is_undone;
    bool keeps_value; /* what it yields was there before: taking it back is letting go of it */
    bool is_over;
    bool is_waited; /* a blocking verb looks at is_over and frees it */
    int result;
    csn_error err;
    csn_op_value value;

    /* The backend's part. */
    void (*give_up)(csn_op *op);
    void *request;
    void (*work)(csn_op *op); /* of csn_op_do_later() */
};

/* A new one, of `size` bytes (at least sizeof(csn_op)), zeroed but for its head. NULL: no memory, and *err says so. `done` is
 * set by the caller. */
void *csn_op_new(struct csn_engine *engine, size_t size, const csn_op_kind *kind, void *user,
                 csn_error *err);

/* For verbs that yield nothing, with `done`, or for a step of a larger verb. */
csn_op *csn_op_new_plain(struct csn_engine *engine, csn_done_fn done, void *user, csn_error *err);

/* What the backend's function answered: the operation, or NULL after freeing it. */
csn_op *csn_op_begun(csn_op *op, int result);

/* Its end. Last use of the operation; `op` may be NULL: nobody waits. `err` may be NULL on success. */
void csn_op_end(csn_op *op, int result, const csn_error *err);
/* The same as a csn_done_fn, for those who pass on completions: `user` is the operation. */
void csn_op_end_as_done(int result, const csn_error *err, void *user);
/* The end is known already: it comes in the next turn of the loop. CSN_OK, or an error: not begun. */
int csn_op_end_later(csn_op *op, csn_error *err);
/* Runs `work`, which ends it, in the next turn of the loop. */
int csn_op_do_later(csn_op *op, void (*work)(csn_op *op), csn_error *err);

/* The generic blocking form: waits for the end of an operation that was just begun; NULL: it was not, and err->code says why.
 * On success the value is moved to *ret (may be NULL). An interrupt drops the operation. `err` is not NULL. */
int csn_op_wait(csn_op *op, csn_op_value *ret, csn_error *err);

/* When the engine closes: what has ended and waits for the next turn is delivered; */
void csn_ops_end_ready(struct csn_engine *engine);
/* the rest is given up; */
void csn_ops_give_up_all(struct csn_engine *engine);
/* and when its backend is gone, what is left ends now. */
void csn_ops_end_all(struct csn_engine *engine);

/* Blocking verbs accept a NULL `err`; csn_op_wait() does not. */
#define CSN_OP_ERR(err) ((err) ? (err) : &(csn_error){ 0 })

#endif
