/* SPDX-License-Identifier: Apache-2.0 */
#include "core/op.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "core/engine.h"

void *csn_op_new(csn_engine *engine, size_t size, const csn_op_kind *kind, void *user,
                 csn_error *err)
{
    csn_op *op = csn_calloc(1, size);

    if (!op) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "start a request");
        return NULL;
    }
    op->kind = kind;
    op->engine = engine;
    op->user = user;
    csn_engine_hold(engine);
    csn_list_append(&engine->ops, &op->link);
    return op;
}

static void leave_owner(csn_op *op)
{
    if (!op->owner)
        return;
    *op->owned_by = op->next_owned;
    if (op->next_owned)
        op->next_owned->owned_by = op->owned_by;
    op->owner = NULL;
    op->next_owned = NULL;
}

static void free_op(csn_op *op)
{
    csn_engine *engine = op->engine;

    leave_owner(op);
    csn_timer_cancel(&op->timer);
    csn_list_remove(&op->link);
    if (op->kind->free)
        op->kind->free(op);
    free(op);
    csn_engine_let_go(engine);
}

csn_op *csn_op_begun(csn_op *op, int result)
{
    if (result >= 0)
        return op;
    free_op(op);
    return NULL;
}

/* ---- the end ---- */

/* What the caller is told of one that was given up. */
static void note_fate(csn_op *op)
{
    if (op->fate == CSN_OP_LATE)
        op->result = csn_fail(&op->err, CSN_E_TIMEOUT, "the deadline passed");
    else if (op->fate != CSN_OP_WANTED)
        op->result = csn_fail(&op->err, CSN_E_CANCELLED, "cancelled");
}

static void deliver(csn_op *op)
{
    if (op->fate == CSN_OP_WANTED && !op->done.plain && !op->is_waited)
        op->fate = CSN_OP_DROPPED; /* a value that nobody takes */
    if (op->fate != CSN_OP_WANTED && op->result >= 0 && op->kind->undo && !op->is_undone) {
        op->is_undone = true;
        op->is_ended = false;
        if (op->kind->undo(op))
            return;
        op->is_ended = true;
    }
    if (op->fate == CSN_OP_WANTED && op->kind->complete)
        op->kind->complete(op);
    note_fate(op);
    leave_owner(op);
    csn_timer_cancel(&op->timer);
    csn_list_remove(&op->link);
    op->is_over = true;
    if (op->is_waited)
        return;
    if (op->fate != CSN_OP_DROPPED && op->done.plain)
        op->kind->deliver(op, op->result < 0 ? &op->err : NULL);
    free_op(op);
}

static void on_later(csn_timer *timer, void *user)
{
    csn_op *op = user;
    void (*work)(csn_op * op) = op->work;

    (void) timer;
    op->work = NULL;
    if (!work)
        deliver(op);
    else if (op->fate == CSN_OP_WANTED)
        work(op);
    else
        csn_op_end(op, CSN_E_CANCELLED, NULL);
}

void csn_op_end(csn_op *op, int result, const csn_error *err)
{
    if (!op)
        return;
    op->give_up = NULL;
    op->request = NULL;
    op->work = NULL;
    op->is_ended = true;
    op->result = result;
    if (result < 0 && err)
        op->err = *err;
    else if (result < 0)
        (void) csn_fail(&op->err, result, "%s", csn_error_name(result));
    /* The timer can only fail for want of a descriptor: then `done` runs early rather than never. */
    if (op->is_giving_up && csn_timer_set(op->engine->loop, &op->timer, 1, on_later, op) == 0)
        return;
    deliver(op);
}

void csn_op_end_as_done(int result, const csn_error *err, void *user)
{
    csn_op_end(user, result, err);
}

int csn_op_do_later(csn_op *op, void (*work)(csn_op *op), csn_error *err)
{
    int r = csn_timer_set(op->engine->loop, &op->timer, 1, on_later, op);

    if (r < 0)
        return csn_fail_sys(err, r, "start a request");
    op->work = work;
    op->is_ended = !work;
    return CSN_OK;
}

int csn_op_end_later(csn_op *op, csn_error *err)
{
    return op ? csn_op_do_later(op, NULL, err) : CSN_OK;
}

/* ---- giving up ---- */

static void give_up(csn_op *op, csn_op_fate fate)
{
    void (*hook)(csn_op * op) = op->give_up;

    if (op->fate == CSN_OP_DROPPED || op->is_over)
        return;
    if (op->fate == CSN_OP_WANTED || fate == CSN_OP_DROPPED)
        op->fate = fate;
    if (op->is_ended || op->work)
        return; /* it ends in the next turn anyway */
    csn_timer_cancel(&op->timer);
    if (!hook)
        return;
    op->give_up = NULL;
    op->is_giving_up = true;
    hook(op);
    op->is_giving_up = false;
}

void csn_op_cancel(csn_op *op)
{
    if (op)
        give_up(op, CSN_OP_CANCELLED);
}

void csn_op_drop(csn_op *op)
{
    if (!op || op->is_over)
        return;
    leave_owner(op);
    give_up(op, CSN_OP_DROPPED);
}

static void on_deadline(csn_timer *timer, void *user)
{
    (void) timer;
    give_up(user, CSN_OP_LATE);
}

int csn_op_set_timeout(csn_op *op, int64_t timeout_ms, csn_error *err)
{
    int r = 0;

    if (!op || timeout_ms < 0)
        return csn_fail(err, CSN_E_INVALID,
                        op ? "a time limit is negative" : "no operation was given");
    if (op->is_ended || op->work || op->is_over || op->fate != CSN_OP_WANTED)
        return CSN_OK; /* its end comes first */
    if (timeout_ms == 0)
        csn_timer_cancel(&op->timer);
    else
        r = csn_timer_set(op->engine->loop, &op->timer, csn_deadline_in_ms(timeout_ms), on_deadline,
                          op);
    return r < 0 ? csn_fail_sys(err, r, "set a time limit") : CSN_OK;
}

/* ---- owners ---- */

void csn_op_set_owner(csn_op *op, csn_op_owner *owner)
{
    if (!op)
        return;
    leave_owner(op);
    if (!owner || op->is_over)
        return;
    op->owner = owner;
    op->next_owned = owner->first;
    op->owned_by = &owner->first;
    if (owner->first)
        owner->first->owned_by = &op->next_owned;
    owner->first = op;
}

/* Giving one up may end others of the same owner, but delivers none: the list only shrinks by what is taken here. */
void csn_op_owner_cancel(csn_op_owner *owner)
{
    for (csn_op *op = owner ? owner->first : NULL, *next; op; op = next) {
        next = op->next_owned;
        csn_op_cancel(op);
    }
}

void csn_op_owner_drop(csn_op_owner *owner)
{
    while (owner && owner->first)
        csn_op_drop(owner->first);
}

/* ---- waiting ---- */

int csn_op_wait(csn_op *op, csn_op_value *ret, csn_error *err)
{
    int r;

    if (!op)
        return err->code;
    op->is_waited = true;
    if (op->is_ended && !__atomic_load_n(&op->engine->is_interrupted, __ATOMIC_SEQ_CST))
        deliver(op); /* known already: no turn of the loop is needed */
    r = csn_engine_wait_until(op->engine, &op->is_over, CSN_NO_DEADLINE, err);
    if (!op->is_over) {
        op->is_waited = false;
        csn_op_drop(op);
        return r;
    }
    r = op->result;
    if (r < 0)
        *err = op->err;
    else if (ret)
        *ret = op->value;
    free_op(op);
    return r;
}

/* The first that has ended or, with `is_wanted`, that goes on and nobody gave up; NULL: none. */
static csn_op *find_op(csn_engine *engine, bool is_wanted)
{
    csn_list_foreach (node, &engine->ops) {
        csn_op *op = csn_list_entry(node, csn_op, link);

        if (is_wanted ? !op->is_ended && op->fate == CSN_OP_WANTED : op->is_ended)
            return op;
    }
    return NULL;
}

void csn_ops_end_ready(csn_engine *engine)
{
    for (csn_op *op; (op = find_op(engine, false));)
        deliver(op);
}

void csn_ops_give_up_all(csn_engine *engine)
{
    for (csn_op *op; (op = find_op(engine, true));)
        give_up(op, CSN_OP_CANCELLED);
}

void csn_ops_end_all(csn_engine *engine)
{
    /* The youngest first: a step is younger than what it is a step of, which its end may still use. */
    while (!csn_list_empty(&engine->ops)) {
        csn_op *op = csn_list_entry(engine->ops.prev, csn_op, link);

        op->give_up = NULL;
        op->work = NULL;
        if (op->fate == CSN_OP_WANTED)
            op->fate = CSN_OP_CANCELLED;
        if (!op->is_ended) {
            op->is_ended = op->is_undone = true;
            op->result = CSN_E_CANCELLED;
        }
        deliver(op);
    }
}

/* ---- verbs that yield nothing ---- */

static void deliver_plain(csn_op *op, const csn_error *err)
{
    op->done.plain(op->result, err, op->user);
}

static const csn_op_kind plain_kind = { .deliver = deliver_plain };

csn_op *csn_op_new_plain(csn_engine *engine, csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op = csn_op_new(engine, sizeof(*op), &plain_kind, user, err);

    if (op)
        op->done.plain = done;
    return op;
}
