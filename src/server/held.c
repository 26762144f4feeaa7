/* SPDX-License-Identifier: Apache-2.0 */
#include "server/held.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"

enum { RETRY_MS = 5 };

struct csn_held {
    csn_loop *loop;
    csn_process *process; /* NULL: not yet there */
    csn_op *coming, *growing, *ending;
    int64_t offset; /* of the log: what was given out */
    csn_buf input;
    csn_timer retry;
    size_t input_max;
    bool is_input_closed, is_closed;
    bool *is_gone; /* while a callback runs: becomes true when we are freed in it */
    const csn_held_events *events;
    void *user;
};

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* The next piece: 1, 0 (none is there), -1 (we were freed). It never waits: it is asked for when there is more than was
 * given out, or when the command is known to have ended. */
static int give_piece(csn_held *h)
{
    csn_log_chunk chunk;
    bool is_gone = false, *outer = h->is_gone;

    if (csn_process_read_log(h->process, h->offset, 0, &chunk, NULL) < 0 || chunk.len == 0)
        return 0;
    h->offset = chunk.next_offset;
    h->is_gone = &is_gone;
    h->events->output(h, chunk.stream, chunk.data, chunk.len, h->user);
    if (is_gone && outer)
        *outer = true;
    if (is_gone)
        return -1;
    h->is_gone = outer;
    return 1;
}

static void await_more(csn_held *h);

static void tell_closed(csn_held *h)
{
    h->is_closed = true;
    h->events->closed(h, h->user);
}

static void on_grown(int result, const csn_error *err, void *user)
{
    csn_held *h = user;
    int r = 0;

    (void) err;
    h->growing = NULL;
    if (result >= 0)
        r = give_piece(h);
    if (r > 0)
        await_more(h);
    else if (r == 0)
        tell_closed(h);
}

static void await_more(csn_held *h)
{
    h->growing = csn_process_wait_closed_async(h->process, h->offset, on_grown, h, NULL);
    if (!h->growing)
        tell_closed(h);
}

static void on_ended(const csn_receipt *receipt, int result, const csn_error *err, void *user)
{
    csn_held *h = user;
    const csn_receipt lost = { .ended = CSN_ENDED_LOST };
    const bool was_open = h->growing != NULL;
    bool is_gone = false;
    int r = 1;

    (void) err;
    h->ending = NULL;
    csn_op_drop(h->growing); /* what it would tell is read now */
    h->growing = NULL;
    while (r > 0)
        r = give_piece(h);
    if (r < 0)
        return;
    h->is_gone = &is_gone;
    h->events->ended(h, result < 0 ? &lost : receipt, h->user);
    if (is_gone)
        return;
    h->is_gone = NULL;
    if (was_open)
        await_more(h);
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

static void pump_input(csn_held *h);

static void on_ready(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_held *h = user;
    bool is_gone = false;

    h->coming = NULL;
    h->process = process;
    if (result >= 0)
        pump_input(h);
    h->is_gone = &is_gone;
    h->events->ready(h, result, err, h->user);
    if (is_gone)
        return;
    h->is_gone = NULL;
    if (result < 0)
        return;
    h->ending = csn_process_wait_async(process, on_ended, h, NULL);
    await_more(h);
}

static csn_held *new_held(csn_loop *loop, size_t input_max, const csn_held_events *events,
                          void *user, csn_error *err)
{
    csn_held *h = csn_calloc(1, sizeof(*h));

    if (!h) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "hold a command");
        return NULL;
    }
    *h = (csn_held){ .loop = loop,
                     .input = CSN_BUF_INIT_MAX(input_max ? input_max : 1),
                     .input_max = input_max,
                     .is_input_closed = input_max == 0,
                     .events = events,
                     .user = user };
    return h;
}

csn_held *csn_held_start(csn_loop *loop, csn_sandbox *box, const csn_process_options *options,
                         size_t input_max, const csn_held_events *events, void *user,
                         csn_error *err)
{
    csn_process_options o = *options;
    csn_held *h = new_held(loop, input_max, events, user, err);

    if (!h)
        return NULL;
    o.is_background = 1;
    o.stdin_kind = input_max ? CSN_STDIN_PIPE : CSN_STDIN_NONE;
    h->coming = csn_process_start_async(box, &o, on_ready, h, err);
    return h->coming ? h : csn_held_free(h);
}

csn_held *csn_held_open(csn_loop *loop, csn_sandbox *box, uint32_t number, size_t input_max,
                        const csn_held_events *events, void *user, csn_error *err)
{
    csn_held *h = new_held(loop, input_max, events, user, err);

    if (!h)
        return NULL;
    h->coming = csn_process_open_async(box, number, on_ready, h, err);
    return h->coming ? h : csn_held_free(h);
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static void on_retry(csn_timer *timer, void *user)
{
    (void) timer;
    pump_input(user);
}

/* The pipe's other end does not tell us when it has room: it is the keeper's pipe. */
static void pump_input(csn_held *h)
{
    size_t n = 1;

    while (h->process && h->input.len > 0 && n > 0) {
        n = 0;
        if (csn_process_write(h->process, h->input.data, h->input.len, &n, NULL) < 0) {
            csn_held_close_input(h);
            return;
        }
        csn_buf_consume(&h->input, n);
    }
    if (h->input.len == 0)
        csn_buf_free(&h->input); /* a large one is not kept for the next */
    else if (h->process &&
             csn_timer_set(h->loop, &h->retry, csn_deadline_in_ms(RETRY_MS), on_retry, h) < 0)
        csn_held_close_input(h);
}

int csn_held_write(csn_held *h, const void *data, size_t len)
{
    size_t before = h->input.len;

    if (h->is_input_closed)
        return -EPIPE;
    if (len > h->input_max - before)
        return -E2BIG;
    h->input.max = h->input_max;
    int r = csn_buf_append(&h->input, data, len);
    if (r < 0) {
        h->input.error = 0;
        csn_buf_truncate(&h->input, before);
        return r;
    }
    pump_input(h);
    return h->is_input_closed ? -EPIPE : 0;
}

bool csn_held_is_written(const csn_held *h)
{
    return h->input.len == 0;
}

void csn_held_close_input(csn_held *h)
{
    if (h->is_input_closed)
        return;
    h->is_input_closed = true;
    csn_timer_cancel(&h->retry);
    csn_buf_free(&h->input);
    if (h->process)
        (void) csn_process_close_stdin(h->process, NULL); /* it ended: closed already */
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

void csn_held_signal(csn_held *h, int signal)
{
    if (h->process) /* NULL: it has ended */
        (void) csn_process_signal_async(h->process, signal, 1, NULL, NULL, NULL);
}

int64_t csn_held_offset(const csn_held *h)
{
    return h->offset;
}

csn_held *csn_held_free(csn_held *h)
{
    if (!h)
        return NULL;
    if (h->is_gone)
        *h->is_gone = true;
    csn_timer_cancel(&h->retry);
    csn_op_drop(h->coming);
    csn_op_drop(h->growing);
    csn_op_drop(h->ending);
    csn_process_free(h->process);
    csn_buf_free(&h->input);
    free(h);
    return NULL;
}
