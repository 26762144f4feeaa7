/* SPDX-License-Identifier: Apache-2.0 */
#include "kept_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"

/* Bytes of one stream, up to `end`. */
typedef struct run {
    int64_t end;
    csn_stream stream;
} run;

typedef struct log_waiter {
    csn_list link;
    csn_op *op;
    int64_t offset;
} log_waiter;

void csn_kept_log_init(csn_kept_log *log)
{
    *log = (csn_kept_log){ .text = CSN_BUF_INIT_MAX(2 * CSN_KEPT_LOG_MAX),
                           .runs = CSN_BUF_INIT_MAX(2 * CSN_KEPT_LOG_MAX) };
    csn_list_init(&log->waiters);
}

static int64_t end_of(const csn_kept_log *log)
{
    return log->base + (int64_t) log->text.len;
}

static size_t n_runs(const csn_kept_log *log)
{
    return log->runs.len / sizeof(run);
}

static run run_at(const csn_kept_log *log, size_t i)
{
    run r;

    memcpy(&r, log->runs.data + i * sizeof(r), sizeof(r));
    return r;
}

/* ---- in ---- */

static void drop_head(csn_kept_log *log, size_t n)
{
    size_t i = 0;

    log->base += (int64_t) n;
    csn_buf_consume(&log->text, n);
    while (i < n_runs(log) && run_at(log, i).end <= log->base)
        i++;
    csn_buf_consume(&log->runs, i * sizeof(run));
}

/* Dropped in large pieces: each moves what stays. A stream that changes with every byte costs more than its bytes. */
static void make_room(csn_kept_log *log, size_t len)
{
    size_t n = log->text.len;

    if (n + len > CSN_KEPT_LOG_MAX + CSN_KEPT_LOG_MAX / 4)
        drop_head(log, n + len - CSN_KEPT_LOG_MAX < n ? n + len - CSN_KEPT_LOG_MAX : n);
    if (log->runs.len > CSN_KEPT_LOG_MAX)
        drop_head(log, (size_t) (run_at(log, n_runs(log) / 2).end - log->base));
}

int csn_kept_log_put(csn_kept_log *log, csn_stream stream, const char *data, size_t len)
{
    run last = { 0 };

    make_room(log, len);
    if (csn_buf_append(&log->text, data, len) < 0)
        return log->text.error;
    if (n_runs(log) > 0)
        last = run_at(log, n_runs(log) - 1);
    if (last.stream == stream)
        csn_buf_truncate(&log->runs, log->runs.len - sizeof(run));
    last = (run){ .end = end_of(log), .stream = stream };
    return csn_buf_append(&log->runs, &last, sizeof(last));
}

/* ---- out ---- */

/* The first run that ends behind `offset`; n_runs: none. */
static size_t find_run(const csn_kept_log *log, int64_t offset)
{
    size_t low = 0, high = n_runs(log);

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (run_at(log, middle).end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void csn_kept_log_read(const csn_kept_log *log, int64_t offset, void *data, size_t size,
                       csn_log_piece *ret)
{
    size_t i, n;
    run r;

    if (offset < log->base)
        offset = log->base;
    *ret = (csn_log_piece){ .stream = CSN_STDOUT, .offset = offset };
    i = find_run(log, offset);
    if (i == n_runs(log)) {
        ret->is_end = log->is_end;
        return;
    }
    r = run_at(log, i);
    n = (size_t) (r.end - offset);
    ret->len = n < size ? n : size;
    ret->stream = r.stream;
    memcpy(data, log->text.data + (offset - log->base), ret->len);
}

/* ---- waiting ---- */

static bool is_over(const csn_kept_log *log, int64_t offset)
{
    return log->is_end || (offset >= 0 && end_of(log) > offset);
}

static void give_up(csn_op *op)
{
    log_waiter *w = op->request;

    csn_list_remove(&w->link);
    free(w);
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

int csn_kept_log_wait(csn_kept_log *log, int64_t offset, csn_op *op, csn_error *err)
{
    log_waiter *w;

    if (is_over(log, offset))
        return csn_op_end_later(op, err);
    w = csn_malloc(sizeof(*w));
    if (!w)
        return csn_fail(err, CSN_E_NO_MEMORY, "wait for a command");
    *w = (log_waiter){ .op = op, .offset = offset };
    csn_list_append(&log->waiters, &w->link);
    op->give_up = give_up;
    op->request = w;
    if (log->wanted)
        log->wanted(log->user);
    return CSN_OK;
}

static void tell(csn_list *waiters, int result, const csn_error *err)
{
    for (csn_list *node; (node = csn_list_pop(waiters));) {
        log_waiter *w = csn_list_entry(node, log_waiter, link);
        csn_op *op = w->op;

        free(w);
        csn_op_end(op, result, err);
    }
}

void csn_kept_log_wake(csn_kept_log *log)
{
    csn_list over = CSN_LIST_INIT(over);

    csn_list_foreach (node, &log->waiters) {
        if (!is_over(log, csn_list_entry(node, log_waiter, link)->offset))
            continue;
        csn_list_remove(node);
        csn_list_append(&over, node);
    }
    tell(&over, CSN_OK, NULL);
}

void csn_kept_log_done(csn_kept_log *log)
{
    csn_error err = { 0 };

    (void) csn_fail(&err, CSN_E_LOST, "wait for a command: nobody follows it any more");
    tell(&log->waiters, err.code, &err);
    csn_buf_free(&log->text);
    csn_buf_free(&log->runs);
}
