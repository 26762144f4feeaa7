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
    int r = csn_process_need(process, exec_write, "write to a command's stdin", err);

    return r < 0 ? r
                 : process->sandbox->box->ops->exec_write(process->exec, data, len, ret_n, err);
}

int csn_process_close_stdin(csn_process *process, csn_error *err)
{
    int r = csn_process_need(process, exec_close_stdin, "close a command's stdin", err);

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
    int r = csn_process_need(process, exec_resize, "resize a terminal", err);

    return r < 0 ? r : process->sandbox->box->ops->exec_resize(process->exec, rows, cols, err);
}

csn_op *csn_process_signal_async(csn_process *process, int signal, int whole_tree, csn_done_fn done,
                                 void *user, csn_error *err)
{
    csn_op *op;

    if (csn_process_need(process, exec_signal, "signal a command", err) < 0)
        return NULL;
    if (signal < 1 || signal > 64) {
        (void) csn_fail(err, CSN_E_INVALID, "there is no signal %d", signal);
        return NULL;
    }
    if (process->is_ended || process->exec->is_ended) {
        (void) csn_fail(err, CSN_E_STATE, "signal command %u: it has ended", process->exec->id);
        return NULL;
    }
    if (!(op = csn_op_new_plain(process->sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, process->sandbox->box->ops->exec_signal(process->exec, signal,
                                                                    whole_tree != 0,
                                                                    CSN_ENDED_RUNNING, op, err));
}

int csn_process_signal(csn_process *process, int signal, int whole_tree, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_process_signal_async(process, signal, whole_tree, NULL, NULL, err), NULL,
                       err);
}

/* --- logs --------------------------------------------------------------------------------------------------------- */

static csn_op *wait_log(csn_process *process, int64_t offset, bool until_closed, csn_done_fn done,
                        void *user, csn_error *err)
{
    csn_op *op;

    if (csn_process_need(process, exec_wait, "wait for a command's log", err) < 0 ||
        !(op = csn_op_new_plain(process->sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, process->sandbox->box->ops->exec_wait(
                                process->exec, offset < 0 ? 0 : offset, until_closed, op, err));
}

csn_op *csn_process_wait_log_async(csn_process *process, int64_t offset, csn_done_fn done,
                                   void *user, csn_error *err)
{
    return wait_log(process, offset, false, done, user, err);
}

csn_op *csn_process_wait_closed_async(csn_process *process, int64_t offset, csn_done_fn done,
                                      void *user, csn_error *err)
{
    return wait_log(process, offset, true, done, user, err);
}

/* Until the log has grown beyond `offset`, or the command has ended. */
static int await_growth(csn_process *p, int64_t offset, int64_t wait_ms, csn_error *err)
{
    csn_op *op = csn_process_wait_log_async(p, offset, NULL, NULL, err);
    int r;

    if (op && wait_ms > 0 && (r = csn_op_set_timeout(op, wait_ms, err)) < 0) {
        csn_op_drop(op);
        return r;
    }
    return csn_op_wait(op, NULL, err);
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
    const int64_t deadline = csn_deadline_in_ms(wait_ms);
    int r = csn_process_need(process, exec_read_log, "read a command's log", err);

    if (r < 0)
        return r;
    if (offset < 0)
        return csn_fail(err, CSN_E_INVALID, "read a log: offset %lld", (long long) offset);
    err = CSN_OP_ERR(err);
    for (;;) {
        int64_t left_ms = wait_ms < 0 ? 0 : (csn_remaining_ns(deadline) + 999999) / 1000000;

        r = read_once(process, offset, ret_chunk, err);
        if (r < 0 || ret_chunk->len > 0 || ret_chunk->is_end || (wait_ms >= 0 && left_ms <= 0))
            return r;
        r = await_growth(process, offset, left_ms, err);
        if (r == CSN_E_TIMEOUT || r == CSN_E_LOST)
            return read_once(process, offset, ret_chunk, err);
        if (r < 0)
            return r;
    }
}

csn_op *csn_process_list_async(csn_sandbox *sandbox, csn_process_list_fn fn, csn_done_fn done,
                               void *user, csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, list_execs, "list commands", err) < 0)
        return NULL;
    if (!fn) {
        (void) csn_fail(err, CSN_E_INVALID, "list commands: no callback was given");
        return NULL;
    }
    if (!(op = csn_op_new_plain(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, sandbox->box->ops->list_execs(sandbox->box, fn, user, op, err));
}

int csn_process_list(csn_sandbox *sandbox, csn_process_list_fn fn, void *user, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_process_list_async(sandbox, fn, NULL, user, err), NULL, err);
}
