/* Commands: options in, output collected and counted, a receipt out. */
#include "core/process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "core/env.h"

int csn_process_check(const csn_process *process, csn_error *err)
{
    if (!process)
        return csn_fail(err, CSN_E_INVALID, "no process was given");
    return csn_sandbox_check(process->sandbox, err);
}

static csn_process *new_process(csn_sandbox *sandbox)
{
    csn_process *p = csn_calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->sandbox = csn_sandbox_ref(sandbox);
    for (int i = 0; i < 2; i++)
        p->kept[i].data = (csn_buf) CSN_BUF_INIT_MAX(SIZE_MAX / 4);
    p->order = p->merged = (csn_buf) CSN_BUF_INIT_MAX(SIZE_MAX / 4);
    csn_list_init(&p->waiters);
    return p;
}

/* Somebody waits for the end of the command. */
typedef struct wait_op {
    csn_op base;
    csn_list link; /* in csn_process.waiters */
    csn_process *process;
    csn_op *step; /* of one that was opened: the keeper tells; else NULL */
} wait_op;

csn_process *csn_process_free(csn_process *process)
{
    if (!process)
        return NULL;
    for (csn_list *node; (node = csn_list_pop(&process->waiters));)
        csn_op_cancel(&csn_list_entry(node, wait_op, link)->base);
    if (process->follow)
        csn_follow_drop(process->follow);
    if (process->exec)
        process->sandbox->box->ops->exec_free(process->exec);
    for (int i = 0; i < 2; i++)
        csn_buf_free(&process->kept[i].data);
    csn_buf_free(&process->order);
    csn_buf_free(&process->merged);
    free(process->log_buffer);
    csn_sandbox_free(process->sandbox);
    free(process);
    return NULL;
}

uint32_t csn_process_id(const csn_process *process)
{
    return process && process->exec ? process->exec->id : 0;
}

int csn_process_channel(const csn_process *process)
{
    return process && process->exec ? process->sandbox->box->ops->exec_channel(process->exec, 0) : -1;
}

int csn_process_pipe(const csn_process *process, csn_stream stream)
{
    int which = stream == CSN_STDERR ? 2 : 1;

    return process && process->exec ? process->sandbox->box->ops->exec_channel(process->exec, which) : -1;
}

/* --- output ------------------------------------------------------------------------------------------------------- */

/* Output may come before the word that the command runs, and with it the number to name it by: then it dies of that word. */
static void end_for_output(csn_process *p)
{
    if (p->policy != CSN_OUTPUT_KILL || !p->is_cut || p->is_over || !p->exec ||
        !p->exec->is_started || !p->sandbox->box->ops->exec_signal)
        return;
    p->is_over = true;
    (void) p->sandbox->box->ops->exec_signal(p->exec, SIGKILL, true, CSN_ENDED_OUTPUT_LIMIT, NULL,
                                             NULL); /* lost: it is dead already */
}

/* Beyond the limit: cut, or the end of the whole tree. How much of `len` is still within. */
static size_t within_limit(csn_process *p, const csn_kept *kept, size_t len)
{
    int64_t before = kept->n_produced - (int64_t) len;

    if (p->output_bytes < 0 || kept->n_produced <= p->output_bytes)
        return len;
    p->is_cut = true;
    end_for_output(p);
    return before >= p->output_bytes ? 0 : (size_t) (p->output_bytes - before);
}

static void note_order(csn_process *p, csn_stream stream, size_t len)
{
    int32_t piece = stream == CSN_STDOUT ? (int32_t) len : -(int32_t) len, last;

    if (p->order.len > 0) { /* one longer piece rather than two of the same stream */
        memcpy(&last, p->order.data + p->order.len - sizeof(last), sizeof(last));
        if ((last > 0) == (piece > 0) && last < (1 << 30) && last > -(1 << 30)) {
            last += piece;
            memcpy(p->order.data + p->order.len - sizeof(last), &last, sizeof(last));
            return;
        }
    }
    (void) csn_buf_append(&p->order, &piece, sizeof(piece)); /* sticky, looked at when merging */
}

static int on_output(csn_exec *exec, csn_stream stream, const void *data, size_t len)
{
    csn_process *p = exec->user;
    csn_kept *kept = &p->kept[stream == CSN_STDERR];

    kept->n_produced += (int64_t) len;
    len = within_limit(p, kept, len);
    if (len == 0)
        return 0;
    if (p->on_output)
        return p->on_output(p, stream, data, len, p->user_data);
    if (csn_buf_append(&kept->data, data, len) == 0)
        note_order(p, stream, len);
    else
        p->is_cut = true; /* no memory for more */
    return 0;
}

/* The receipt with what was counted on this side. */
static void fill_receipt(const csn_process *process, csn_receipt *ret_receipt)
{
    *ret_receipt = process->exec->receipt;
    if (ret_receipt->stdout_bytes == 0)
        ret_receipt->stdout_bytes = process->kept[0].n_produced;
    if (ret_receipt->stderr_bytes == 0)
        ret_receipt->stderr_bytes = process->kept[1].n_produced;
    ret_receipt->is_output_cut |= process->is_cut;
    ret_receipt->output_limit_bytes = process->output_bytes;
}

/* on_exit and whoever waited may free the process: then its list has been emptied before. */
void csn_process_end(csn_process *p)
{
    csn_list waiters = CSN_LIST_INIT(waiters);
    csn_receipt receipt;

    p->is_ended = true;
    for (csn_list *node; (node = csn_list_pop(&p->waiters));) {
        wait_op *w = csn_list_entry(node, wait_op, link);

        fill_receipt(p, &w->base.value.stat.receipt);
        csn_op_drop(w->step); /* what it would tell is known */
        w->step = NULL;
        w->process = NULL;
        csn_list_append(&waiters, node);
    }
    if (p->on_exit) {
        fill_receipt(p, &receipt);
        p->on_exit(p, &receipt, p->user_data);
    }
    for (csn_list *node; (node = csn_list_pop(&waiters));)
        csn_op_end(&csn_list_entry(node, wait_op, link)->base, CSN_OK, NULL);
}

static void on_ended(csn_exec *exec)
{
    csn_process *p = exec->user;

    if (!p->follow) /* else the follower ends it, after the last output */
        csn_process_end(p);
}

static void on_started(csn_exec *exec, int result, const csn_error *err)
{
    csn_process *p = exec->user;
    csn_op *op = p->start;

    p->start = NULL;
    if (result < 0) {
        p = csn_process_free(p);
    } else {
        if (p->is_watched)
            p->is_ended = exec->is_ended;
        if (p->follow)
            csn_follow_begin(p->follow);
        else
            end_for_output(p);
    }
    op->value.process = p;
    csn_op_end(op, result, err);
}

static const csn_exec_events events = {
    .started = on_started,
    .output = on_output,
    .ended = on_ended,
};

static int give(const csn_buf *buf, const char **ret_data, size_t *ret_len)
{
    *ret_data = buf->data;
    *ret_len = buf->len;
    return CSN_OK;
}

int csn_process_output(csn_process *process, csn_stream stream, const char **ret_data,
                       size_t *ret_len)
{
    int r = csn_process_check(process, NULL);

    return r < 0 ? r : give(&process->kept[stream == CSN_STDERR].data, ret_data, ret_len);
}

int csn_process_output_merged(csn_process *process, const char **ret_data, size_t *ret_len)
{
    size_t at[2] = { 0, 0 };
    int32_t piece;
    int r = csn_process_check(process, NULL);

    if (r < 0)
        return r;
    csn_buf_clear(&process->merged);
    for (size_t i = 0; i + sizeof(piece) <= process->order.len; i += sizeof(piece)) {
        memcpy(&piece, process->order.data + i, sizeof(piece));
        int s = piece < 0;
        size_t len = (size_t) (s ? -piece : piece);
        (void) csn_buf_append(&process->merged, process->kept[s].data.data + at[s], len); /* sticky */
        at[s] += len;
    }
    if (process->merged.error < 0 || process->order.error < 0)
        return CSN_E_NO_MEMORY;
    return give(&process->merged, ret_data, ret_len);
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static int check_options(const csn_process_options *o, const csn_wish *wish, csn_error *err)
{
    if ((o->argv && o->argv[0] ? 1 : 0) + (o->shell ? 1 : 0) != 1)
        return csn_fail(err, CSN_E_INVALID, "run a command: exactly one of argv and shell is wanted");
    if (o->cwd && o->cwd[0] != '/')
        return csn_fail(err, CSN_E_INVALID, "run a command: cwd '%.100s' is not absolute", o->cwd);
    if (o->user && strcmp(o->user, "root") != 0 && strcmp(o->user, "daytona") != 0)
        return csn_fail(err, CSN_E_INVALID, "user '%.64s': 'daytona' and 'root' exist", o->user);
    if (o->user && strcmp(o->user, "root") == 0 && !wish->is_root)
        return csn_fail(err, CSN_E_DENIED,
                        "user 'root': the sandbox was not created with the user 'root'");
    if (o->timeout_ms < -1 || o->output_bytes < -1)
        return csn_fail(err, CSN_E_INVALID, "run a command: a limit is negative");
    if (o->stdin_kind < CSN_STDIN_NONE || o->stdin_kind > CSN_STDIN_PIPE)
        return csn_fail(err, CSN_E_INVALID, "run a command: stdin of kind %d is unknown",
                        (int) o->stdin_kind);
    if (o->stdin_kind == CSN_STDIN_BYTES && o->stdin_len > 0 && !o->stdin_data)
        return csn_fail(err, CSN_E_INVALID, "run a command: stdin_data is missing");
    if ((o->is_background || o->is_pty) &&
        (o->stdin_kind == CSN_STDIN_BYTES || o->stdin_kind == CSN_STDIN_FD))
        return csn_fail(err, CSN_E_INVALID,
                        "run a command: in the background stdin is a pipe, a terminal or nothing");
    if (o->has_channel && (!o->is_background || o->is_pty || o->stdin_kind != CSN_STDIN_NONE))
        return csn_fail(err, CSN_E_INVALID,
                        "run a command: a channel is for background commands without stdin or terminal");
    if (o->own_fds && (o->is_background || o->is_pty || o->stdin_kind != CSN_STDIN_NONE))
        return csn_fail(err, CSN_E_INVALID,
                        "run a command: own descriptors are for attached commands without stdin");
    return csn_list_check(o->env, "environment", err);
}

static void fill_spec(const csn_process_options *o, const csn_wish *wish, csn_exec_spec *spec)
{
    *spec = (csn_exec_spec){
        .is_shell = o->shell != NULL,
        .is_pty = o->is_pty != 0,
        .is_background = o->is_background != 0,
        .has_channel = o->has_channel != 0,
        .is_merged = o->merge_stderr != 0,
        .as_root = o->user ? strcmp(o->user, "root") == 0 : wish->is_root,
        .kill_on_limit = o->output_policy == CSN_OUTPUT_KILL,
        .rows = o->rows ? o->rows : 24,
        .cols = o->cols ? o->cols : 80,
        .timeout_ms = o->timeout_ms ? o->timeout_ms : wish->timeout_ms,
        .output_bytes = o->output_bytes ? o->output_bytes : wish->output_bytes,
        .stdin_kind = o->stdin_kind,
        .stdin_data = o->stdin_data,
        .stdin_len = o->stdin_len,
        .stdin_fd = o->stdin_fd,
        .linger_ms = o->linger_ms,
        .own_fds = o->own_fds,
    };
    spec->cwd = o->cwd        ? o->cwd
                : wish->cwd[0] ? wish->cwd
                               : csn_home_of(spec->as_root);
}

static void deliver_process(csn_op *op, const csn_error *err)
{
    op->done.process(op->result < 0 ? NULL : op->value.process, op->result, err, op->user);
}

/* It runs, but nobody wants it: background commands would live on. */
static bool undo_process(csn_op *op)
{
    csn_process *p = op->value.process;

    if (!p->is_watched && !op->engine->is_closing && !p->exec->is_ended &&
        p->sandbox->box->ops->exec_signal)
        (void) p->sandbox->box->ops->exec_signal(p->exec, SIGKILL, true, CSN_ENDED_KILLED, NULL,
                                                 NULL); /* lost: it is dead already */
    op->value.process = csn_process_free(p);
    return false;
}

/* The backend ends a command whose start is answered when nobody has it any more. */
static void give_up_start(csn_op *op)
{
    csn_process *p = op->request;

    p->start = NULL;
    csn_process_free(p);
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

static csn_op *new_start(csn_process *p, csn_process_done_fn done, void *user, csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_process, .undo = undo_process };
    csn_op *op = csn_op_new(p->sandbox->engine, sizeof(*op), &kind, user, err);

    if (!op)
        return NULL;
    op->done.process = done;
    op->give_up = give_up_start;
    op->request = p;
    p->start = op;
    return op;
}

static csn_op *begun(csn_op *op, csn_process *p, int result)
{
    if (result < 0)
        csn_process_free(p);
    return op ? csn_op_begun(op, result) : NULL;
}

csn_op *csn_process_begin(csn_sandbox *sandbox, const csn_process_options *opts, bool is_last,
                          csn_process_done_fn done, void *user, csn_error *err)
{
    csn_process_options o;
    csn_exec_spec spec;
    csn_op *op = NULL;
    int r = csn_sandbox_need(sandbox, exec, "run a command", err);

    if (r < 0 || csn_options_read(&o, sizeof(o), opts, "csn_process_options", err) < 0 ||
        check_options(&o, &sandbox->box->wish, err) < 0)
        return NULL;
    fill_spec(&o, &sandbox->box->wish, &spec);
    spec.is_last = is_last;
    const char *shell[] = { o.shell, NULL };
    spec.argv = o.shell ? shell : o.argv;
    csn_process *p = new_process(sandbox);
    char **env = csn_env_compose(&sandbox->box->wish, o.env, spec.as_root, spec.is_pty);
    spec.env = env;
    if (p && env && (op = new_start(p, done, user, err))) {
        p->on_output = o.on_output;
        p->on_exit = o.on_exit;
        p->user_data = o.user_data;
        p->output_bytes = spec.output_bytes;
        p->policy = o.output_policy;
        r = p->on_output && (spec.is_background || spec.is_pty) && !o.has_channel
                ? csn_follow_start(p, err)
                : CSN_OK;
        if (r >= 0)
            r = sandbox->box->ops->exec(sandbox->box, &spec, &events, p, &p->exec, err);
    } else {
        r = csn_fail(err, CSN_E_NO_MEMORY, "run a command");
    }
    free(env);
    return begun(op, p, r);
}

csn_op *csn_process_start_async(csn_sandbox *sandbox, const csn_process_options *opts,
                                csn_process_done_fn done, void *user, csn_error *err)
{
    return csn_process_begin(sandbox, opts, false, done, user, err);
}

int csn_process_start(csn_sandbox *sandbox, const csn_process_options *opts,
                      csn_process **ret_process, csn_error *err)
{
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_process_start_async(sandbox, opts, NULL, NULL, err), &value, err);
    if (r >= 0)
        *ret_process = value.process;
    return r;
}

csn_op *csn_process_open_async(csn_sandbox *sandbox, uint32_t id, csn_process_done_fn done,
                               void *user, csn_error *err)
{
    csn_process *p;
    csn_op *op = NULL;
    int r = csn_sandbox_need(sandbox, attach, "open a running command", err);

    if (r < 0)
        return NULL;
    p = new_process(sandbox);
    if (p && (op = new_start(p, done, user, err))) {
        p->is_watched = true;
        p->output_bytes = sandbox->box->wish.output_bytes;
        r = sandbox->box->ops->attach(sandbox->box, id, &events, p, &p->exec, err);
    } else {
        r = csn_fail(err, CSN_E_NO_MEMORY, "open command %u", id);
    }
    return begun(op, p, r);
}

int csn_process_open(csn_sandbox *sandbox, uint32_t id, csn_process **ret_process, csn_error *err)
{
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_process_open_async(sandbox, id, NULL, NULL, err), &value, err);
    if (r >= 0)
        *ret_process = value.process;
    return r;
}

/* --- waiting for the end ------------------------------------------------------------------------------------------ */

static void deliver_end(csn_op *op, const csn_error *err)
{
    op->done.receipt(op->result < 0 ? NULL : &op->value.stat.receipt, op->result, err, op->user);
}

static void give_up_wait(csn_op *op)
{
    wait_op *w = csn_container_of(op, wait_op, base);

    csn_list_remove(&w->link);
    csn_op_drop(w->step);
    w->step = NULL;
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

/* Of one that was opened: its end is told unasked only to whoever started it. */
static void on_told(int result, const csn_error *err, void *user)
{
    wait_op *w = user;

    w->step = NULL;
    csn_list_remove(&w->link);
    if (result >= 0) {
        w->process->is_ended = true;
        fill_receipt(w->process, &w->base.value.stat.receipt);
    }
    csn_op_end(&w->base, result, err);
}

static int begin_wait(wait_op *w, csn_error *err)
{
    csn_process *p = w->process;

    if (p->exec->is_ended && !p->follow)
        p->is_ended = true;
    if (p->is_ended) {
        fill_receipt(p, &w->base.value.stat.receipt);
        return csn_op_end_later(&w->base, err);
    }
    w->base.give_up = give_up_wait;
    csn_list_append(&p->waiters, &w->link);
    if (!p->is_watched)
        return CSN_OK;
    w->step = csn_op_new_plain(w->base.engine, on_told, w, err);
    if (w->step)
        w->step = csn_op_begun(w->step,
                               p->sandbox->box->ops->exec_wait(p->exec, -1, false, w->step, err));
    if (!w->step)
        csn_list_remove(&w->link);
    return w->step ? CSN_OK : CSN_E_SYSTEM;
}

csn_op *csn_process_wait_async(csn_process *process, csn_receipt_done_fn done, void *user,
                               csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_end };
    wait_op *w;

    if (csn_process_check(process, err) < 0 ||
        !(w = csn_op_new(process->sandbox->engine, sizeof(*w), &kind, user, err)))
        return NULL;
    w->base.done.receipt = done;
    w->process = process;
    csn_list_init(&w->link);
    return csn_op_begun(&w->base, begin_wait(w, err));
}

int csn_process_wait(csn_process *process, int64_t deadline_ms, csn_receipt *ret_receipt,
                     csn_error *err)
{
    csn_op_value value;
    csn_op *op;
    int r;

    err = CSN_OP_ERR(err);
    op = csn_process_wait_async(process, NULL, NULL, err);
    if (op && deadline_ms > 0 && (r = csn_op_set_timeout(op, deadline_ms, err)) < 0) {
        csn_op_drop(op);
        return r;
    }
    r = csn_op_wait(op, &value, err);
    if (r >= 0 && ret_receipt)
        *ret_receipt = value.stat.receipt;
    return r;
}

static bool take(csn_buf *buf, char **ret, size_t *ret_len)
{
    *ret = csn_buf_take(buf, ret_len);
    return *ret != NULL;
}

int csn_run(csn_sandbox *sandbox, const csn_process_options *opts, csn_run_result *ret_result,
            csn_error *err)
{
    csn_run_result result = { 0 };
    csn_process *p = NULL;
    const char *merged;
    size_t len;
    int r = csn_process_start(sandbox, opts, &p, err);

    if (r < 0)
        return r;
    r = csn_process_wait(p, 0, &result.receipt, err);
    if (r >= 0 && (csn_process_output_merged(p, &merged, &len) < 0 ||
                   !take(&p->merged, &result.merged, &result.merged_len) ||
                   !take(&p->kept[0].data, &result.out, &result.out_len) ||
                   !take(&p->kept[1].data, &result.err, &result.err_len))) {
        csn_run_result_done(&result);
        r = csn_fail(err, CSN_E_NO_MEMORY, "collect the output");
    }
    csn_process_free(p);
    if (r >= 0)
        *ret_result = result;
    return r;
}

void csn_run_result_done(csn_run_result *result)
{
    if (!result)
        return;
    free(result->out);
    free(result->err);
    free(result->merged);
    *result = (csn_run_result){ 0 };
}
