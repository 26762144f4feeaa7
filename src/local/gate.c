/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that decide by what a box is, or change it under its directory's lock.
 *
 * Theory of operation. What a box is may be unknown for a moment: its keeper was just connected to and has not answered, or is on
 * its way out. And its directory's lock may be somebody else's. A verb says so instead of waiting, and is run again from a turn
 * of the loop: when the box is settled, or after a pause for the lock, which tells nobody that it is free. An operation that is
 * given up leaves the line. */
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "local/local.h"

enum { LOCK_WAIT_MS = 5000, LOCK_STEP_MS = 1, ROUNDS_MAX = 16 };

typedef struct waiter {
    csn_list link;      /* in csn_local_box.gate */
    csn_local_box *box; /* counted */
    csn_op *op;
    csn_gated verb;
    int n_rounds;
    int64_t lock_deadline_ns; /* 0: the lock was not asked for yet */
    csn_timer timer;          /* set: waits for the lock */
} waiter;

bool csn_box_is_settled(const csn_local_box *box)
{
    return !box->hello_timer.loop && !box->leaving.done && !box->lock_timer.loop;
}

static int run_verb(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    return csn_box_is_settled(box) ? verb->run(box, verb, op, err) : CSN_GATE_WAIT;
}

static void free_data(csn_gated *verb)
{
    if (verb->data)
        verb->free_data(verb->data);
    verb->data = NULL;
}

static void free_waiter(waiter *w)
{
    csn_local_box *box = w->box;

    csn_list_remove(&w->link);
    csn_timer_cancel(&w->timer);
    free_data(&w->verb);
    free(w);
    csn_box_unref(&box->base);
}

static void finish(waiter *w, int r, const csn_error *err)
{
    csn_op *op = w->op;

    free_waiter(w);
    if (r < 0)
        csn_op_end(op, r, err);
}

static void give_up(csn_op *op)
{
    free_waiter(op->request);
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

static void wait_in_line(waiter *w)
{
    csn_list_append(&w->box->gate, &w->link);
    if (w->op) {
        w->op->give_up = give_up;
        w->op->request = w;
    }
    if (csn_box_is_settled(w->box) && !w->timer.loop) /* it was settled while the verb ran */
        csn_gate_open(w->box);
}

static void on_lock_pause(csn_timer *timer, void *user);

/* Why it has to wait; or an error. */
static int note_reason(waiter *w, int reason, csn_error *err)
{
    int r;

    if (reason == CSN_GATE_WAIT)
        return ++w->n_rounds <= ROUNDS_MAX
                   ? CSN_OK
                   : csn_fail(err, CSN_E_BUSY, "the keeper of sandbox '%s' comes and goes",
                              w->box->base.wish.id);
    if (w->lock_deadline_ns == 0)
        w->lock_deadline_ns = csn_deadline_in_ms(LOCK_WAIT_MS);
    w->verb.is_late = csn_deadline_passed(w->lock_deadline_ns);
    r = csn_timer_set(csn_local_of(&w->box->base)->base.loop, &w->timer,
                      csn_deadline_in_ms(LOCK_STEP_MS), on_lock_pause, w);
    return r < 0 ? csn_fail_sys(err, r, "wait for sandbox '%s'", w->box->base.wish.id) : CSN_OK;
}

static void try_again(waiter *w)
{
    csn_local_box *box = w->box;
    csn_error err = { 0 };
    int r;

    csn_box_ref(&box->base);
    csn_list_remove(&w->link);
    if (w->op)
        w->op->give_up = NULL;
    r = run_verb(box, &w->verb, w->op, &err);
    if (r > 0 && (r = note_reason(w, r, &err)) >= 0)
        wait_in_line(w);
    else
        finish(w, r, &err);
    csn_box_unref(&box->base);
}

static void on_lock_pause(csn_timer *timer, void *user)
{
    (void) timer;
    try_again(user);
}

static void on_open(csn_timer *timer, void *user)
{
    csn_local_box *box = user;
    size_t n = 0;

    (void) timer;
    csn_list_foreach (node, &box->gate)
        n++;
    csn_box_ref(&box->base);
    /* Each that stands there now, once: who has to wait on goes to the end. Any of them may give up others. */
    for (csn_list *node; n-- > 0 && (node = csn_list_first(&box->gate));) {
        waiter *w = csn_list_entry(node, waiter, link);

        if (w->timer.loop) { /* its own timer wakes it */
            csn_list_remove(node);
            csn_list_append(&box->gate, node);
        } else {
            try_again(w);
        }
    }
    csn_box_unref(&box->base);
}

void csn_gate_open(csn_local_box *box)
{
    if (csn_list_empty(&box->gate) || box->gate_timer.loop || !box->base.backend)
        return;
    /* The timer can only fail for want of a descriptor: then they go on here. */
    if (csn_timer_set(csn_local_of(&box->base)->base.loop, &box->gate_timer, 1, on_open, box) < 0)
        on_open(&box->gate_timer, box);
}

void csn_gate_close(csn_local_box *box)
{
    csn_error err = { 0 };
    csn_list *node;

    csn_timer_cancel(&box->gate_timer);
    while ((node = csn_list_first(&box->gate))) {
        int r = csn_fail(&err, CSN_E_CANCELLED, "the engine was closed");
        finish(csn_list_entry(node, waiter, link), r, &err);
    }
}

int csn_gate_enter(csn_local_box *box, const csn_gated *verb, csn_op *op, csn_error *err)
{
    csn_gated now = *verb;
    waiter *w;
    int r;

    csn_box_ref(&box->base);
    r = run_verb(box, &now, op, err);
    if (r <= 0) {
        free_data(&now);
    } else if (!(w = csn_calloc(1, sizeof(*w)))) {
        free_data(&now);
        r = csn_fail(err, CSN_E_NO_MEMORY, "wait for sandbox '%s'", box->base.wish.id);
    } else {
        *w = (waiter){ .box = box, .op = op, .verb = now };
        csn_list_init(&w->link);
        csn_box_ref(&box->base);
        r = note_reason(w, r, err);
        if (r < 0)
            free_waiter(w);
        else
            wait_in_line(w);
    }
    csn_box_unref(&box->base);
    return r;
}
