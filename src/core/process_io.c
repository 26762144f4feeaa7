/* A running command: stdin, terminal, signals, and the log of those in the background. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "core/process.h"

enum { LOG_PIECE = 64 * 1024 };

int csn_process_write(csn_process *process, const void *data, size_t len, size_t *ret_n,
                      csn_error *err)
{
    int r = csn_process_check(process, err);

    return r < 0 ? r
                 : process->sandbox->box->ops->exec_write(process->exec, data, len, ret_n, err);
}

int csn_process_close_stdin(csn_process *process, csn_error *err)
{
    int r = csn_process_check(process, err);

    return r < 0 ? r : process->sandbox->box->ops->exec_close_stdin(process->exec, err);
}

int csn_process_resume(csn_process *process)
{
    int r = csn_process_check(process, NULL);

    if (r < 0)
        return r;
    if (process->follow)
        csn_follow_resume(process->follow);
    else
        process->sandbox->box->ops->exec_resume(process->exec);
    return CSN_OK;
}

int csn_process_resize(csn_process *process, uint16_t rows, uint16_t cols, csn_error *err)
{
    int r = csn_process_check(process, err);

    return r < 0 ? r : process->sandbox->box->ops->exec_resize(process->exec, rows, cols, err);
}

int csn_process_signal_start(csn_process *process, int signal, int whole_tree, csn_done_fn done,
                             void *user, csn_error *err)
{
    int r = csn_process_check(process, err);

    if (r < 0)
        return r;
    if (signal < 1 || signal > 64)
        return csn_fail(err, CSN_E_INVALID, "there is no signal %d", signal);
    if (process->is_ended || process->exec->is_ended)
        return csn_fail(err, CSN_E_STATE, "signal command %u: it has ended", process->exec->id);
    return process->sandbox->box->ops->exec_signal(process->exec, signal, whole_tree != 0,
                                                   CSN_ENDED_RUNNING, done, user, err);
}

int csn_process_signal(csn_process *process, int signal, int whole_tree, csn_error *err)
{
    csn_waiter *w;
    int r = csn_process_check(process, err);

    if (r < 0)
        return r;
    if (!(w = csn_waiter_new(NULL, err)))
        return CSN_E_NO_MEMORY;
    r = csn_process_signal_start(process, signal, whole_tree, csn_waiter_done, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_waiter_wait(w, process->sandbox->engine, NULL, err);
}

/* --- logs --------------------------------------------------------------------------------------------------------- */

int csn_process_wait_log_start(csn_process *process, int64_t offset, csn_done_fn done, void *user,
                               csn_error *err)
{
    int r = csn_process_check(process, err);

    if (r < 0)
        return r;
    return process->sandbox->box->ops->exec_wait(process->exec, offset < 0 ? 0 : offset, done, user,
                                                 err);
}

int csn_process_await(csn_process *p, int64_t offset, int64_t deadline_ns, csn_error *err)
{
    csn_waiter *w = csn_waiter_new(NULL, err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    r = p->sandbox->box->ops->exec_wait(p->exec, offset, csn_waiter_done, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    r = csn_engine_wait_until(p->sandbox->engine, &w->is_done, deadline_ns, err);
    if (!w->is_done) {
        w->is_abandoned = true;
        return r;
    }
    r = w->result;
    if (r < 0 && err)
        *err = w->err;
    free(w);
    return r;
}

static int read_once(csn_process *p, int64_t offset, csn_log_chunk *ret, csn_error *err)
{
    csn_log_piece piece;
    int r;

    if (!p->log_buffer && !(p->log_buffer = csn_malloc(LOG_PIECE)))
        return csn_fail(err, CSN_E_NO_MEMORY, "read a log");
    r = p->sandbox->box->ops->exec_read_log(p->exec, offset, p->log_buffer, LOG_PIECE, &piece, err);
    if (r < 0)
        return r;
    *ret = (csn_log_chunk){ .data = p->log_buffer,
                            .len = piece.len,
                            .stream = piece.stream,
                            .next_offset = piece.offset + (int64_t) piece.len,
                            .is_end = piece.is_end };
    return CSN_OK;
}

int csn_process_read_log(csn_process *process, int64_t offset, int wait_ms,
                         csn_log_chunk *ret_chunk, csn_error *err)
{
    int64_t deadline = csn_deadline_in_ms(wait_ms);
    int r = csn_process_check(process, err);

    if (r < 0)
        return r;
    if (offset < 0)
        return csn_fail(err, CSN_E_INVALID, "read a log: offset %lld", (long long) offset);
    for (;;) {
        r = read_once(process, offset, ret_chunk, err);
        if (r < 0 || ret_chunk->len > 0 || ret_chunk->is_end || wait_ms == 0)
            return r;
        r = csn_process_await(process, offset, deadline, err);
        if (r == CSN_E_TIMEOUT || r == CSN_E_LOST)
            return read_once(process, offset, ret_chunk, err);
        if (r < 0)
            return r;
    }
}

int csn_process_list(csn_sandbox *sandbox, csn_process_list_fn fn, void *user, csn_error *err)
{
    csn_waiter *w;
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    if (!(w = csn_waiter_new(NULL, err)))
        return CSN_E_NO_MEMORY;
    r = sandbox->box->ops->list_execs(sandbox->box, fn, user, csn_waiter_done, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_waiter_wait(w, sandbox->engine, NULL, err);
}
