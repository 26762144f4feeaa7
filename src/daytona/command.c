/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include "answer.h"
#include "base/err.h"
#include "base/json.h"
#include "base/time.h"
#include "kept_log.h"

static const csn_command_kind *kind_of(csn_exec *exec)
{
    return csn_container_of(exec, csn_daytona_command, base)->kind;
}

static int check_spec(const csn_exec_spec *spec, csn_error *err)
{
    if (spec->is_background && spec->stdin_kind != CSN_STDIN_NONE)
        return csn_daytona_cannot(err, "give a background command a stdin");
    if (spec->is_background && spec->is_pty)
        return csn_daytona_cannot(err, "keep a terminal in the background");
    if (spec->has_channel || spec->own_fds)
        return csn_daytona_cannot(err, "hand descriptors to a command");
    if (spec->stdin_kind != CSN_STDIN_NONE && spec->is_merged && !spec->is_pty)
        return csn_daytona_cannot(err, "give a command with merged output a stdin");
    if (spec->as_root)
        return csn_daytona_cannot(err, "run as root");
    return CSN_OK;
}

int csn_daytona_exec(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                     void *user, csn_exec **ret_exec, csn_error *err)
{
    int r = csn_daytona_box_check(box, err);

    if (r < 0 || (r = check_spec(spec, err)) < 0)
        return r;
    if (!csn_daytona_box_of(box)->toolbox)
        return csn_fail(err, CSN_E_STATE, "sandbox '%s' is not started", box->wish.id);
    if (spec->is_pty)
        return csn_terminal_start(box, spec, events, user, ret_exec, err);
    if (spec->is_background)
        return csn_background_start(box, spec, events, user, ret_exec, err);
    return spec->is_merged ? csn_execute_start(box, spec, events, user, ret_exec, err)
                           : csn_session_start(box, spec, events, user, ret_exec, err);
}

csn_exec *csn_daytona_exec_free(csn_exec *exec)
{
    return kind_of(exec)->free(exec);
}

int csn_daytona_exec_signal(csn_exec *exec, int signal, bool whole_tree, csn_ending ending,
                            csn_op *op, csn_error *err)
{
    int r = csn_daytona_box_check(exec->box, err);

    if (r < 0)
        return r;
    if (!kind_of(exec)->signal)
        return csn_daytona_cannot(err, "signal a command with merged output");
    return kind_of(exec)->signal(exec, signal, whole_tree, ending, op, err);
}

void csn_daytona_exec_resume(csn_exec *exec)
{
    if (kind_of(exec)->resume) /* else its output came in one piece */
        kind_of(exec)->resume(exec);
}

int csn_daytona_exec_write(csn_exec *exec, const void *data, size_t len, size_t *ret_n,
                           csn_error *err)
{
    int r = csn_daytona_box_check(exec->box, err);

    if (r < 0)
        return r;
    if (!kind_of(exec)->write)
        return csn_fail(err, CSN_E_STATE, "write to a command's stdin: it has none");
    return kind_of(exec)->write(exec, data, len, ret_n, err);
}

int csn_daytona_exec_close_stdin(csn_exec *exec, csn_error *err)
{
    int r = csn_daytona_box_check(exec->box, err);

    if (r < 0)
        return r;
    if (!kind_of(exec)->close_stdin)
        return csn_fail(err, CSN_E_STATE, "close a command's stdin: it has none");
    return kind_of(exec)->close_stdin(exec, err);
}

int csn_daytona_exec_channel(csn_exec *exec, int which)
{
    (void) exec;
    (void) which;
    return -1;
}

int csn_daytona_exec_resize(csn_exec *exec, uint16_t rows, uint16_t cols, csn_error *err)
{
    int r = csn_daytona_box_check(exec->box, err);

    if (r < 0)
        return r;
    if (!kind_of(exec)->resize)
        return csn_fail(err, CSN_E_STATE, "resize a command's terminal: it has none");
    return kind_of(exec)->resize(exec, rows, cols, err);
}

/* ---- what is kept ---- */

static csn_kept_log *log_of(csn_exec *exec, csn_error *err)
{
    if (kind_of(exec)->log)
        return kind_of(exec)->log(exec);
    (void) csn_fail(err, CSN_E_STATE,
                    "a command's log: it is neither in the background nor a terminal");
    return NULL;
}

int csn_daytona_exec_read_log(csn_exec *exec, int64_t offset, void *data, size_t size,
                              csn_log_piece *ret_piece, csn_error *err)
{
    const csn_kept_log *log = log_of(exec, err);

    if (!log)
        return CSN_E_STATE;
    csn_kept_log_read(log, offset, data, size, ret_piece);
    return CSN_OK;
}

int csn_daytona_exec_wait(csn_exec *exec, int64_t offset, bool until_closed, csn_op *op,
                          csn_error *err)
{
    csn_kept_log *log;

    (void) until_closed; /* nobody writes after the end: what a command left running ends with it */
    err = CSN_OP_ERR(err);
    log = log_of(exec, err);
    return log ? csn_kept_log_wait(log, offset, op, err) : CSN_E_STATE;
}

/* ---- shared ---- */

void csn_daytona_end_execs(csn_daytona *d)
{
    for (csn_list *node; (node = csn_list_pop(&d->execs));) {
        csn_daytona_command *c = csn_list_entry(node, csn_daytona_command, link);

        c->kind->close(&c->base);
    }
}

csn_api_call *csn_command_post(csn_box *box, const char *what, const char *url, const csn_buf *body,
                               bool must_finish, csn_api_call_done *done, void *user,
                               csn_error *err)
{
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = what, .method = "POST", .url = url,
                          .content_type = "application/json", .body = body->data,
                          .body_len = body->len, .max_bytes = CSN_WEB_BODY_MAX,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS),
                          .must_finish = must_finish);

    if (body->error < 0) {
        (void) csn_fail_sys(err, body->error, "%s", what);
        return NULL;
    }
    return csn_api_call_start(csn_daytona_of(box->backend), &spec, done, user, err);
}

static void on_signalled(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_exec_answer answer;
    csn_error own = { 0 };

    if (result >= 0) {
        result = csn_exec_answer_parse(a->body, a->body_len, &doc, &answer, &own);
        if (result >= 0 && answer.exit_code != 0)
            result = csn_fail(&own, CSN_E_STATE, "signal a command: it has ended");
        err = &own;
    }
    csn_op_end(user, result, result < 0 ? err : NULL);
}

int csn_command_signal(csn_box *box, int pid, int number, bool whole_tree, csn_op *op,
                       csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT, body = CSN_BUF_INIT, line = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "signal a command", .method = "POST",
                          .content_type = "application/json", .max_bytes = CSN_WEB_BODY_MAX,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));

    csn_buf_printf(&url, "%s/process/execute", csn_daytona_box_of(box)->toolbox);
    if (whole_tree) /* its group; without one, itself */
        csn_buf_printf(&line, "kill -%d -- -%d 2>/dev/null || ", number, pid);
    csn_buf_printf(&line, "kill -%d %d", number, pid);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "command", line.data);
    csn_jw_end_object(&w);
    if (url.error < 0 || body.error < 0 || line.error < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "signal a command");
    spec.url = url.data;
    spec.body = body.data;
    spec.body_len = body.len;
    return csn_api_call_start(csn_daytona_of(box->backend), &spec, on_signalled, op, err)
               ? CSN_OK
               : CSN_E_LOST;
}
