/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pty.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/time.h"
#include "server/envs.h"

enum { RETRY_MS = 10 };

/* ---- output ----------------------------------------------------------------------------------------------------- */

static void remember(csn_pty *p, const char *data, size_t len)
{
    if (len > CSN_PTY_PAST) {
        data += len - CSN_PTY_PAST;
        len = CSN_PTY_PAST;
    }
    if (p->past.len + len > CSN_PTY_PAST)
        csn_buf_consume(&p->past, p->past.len + len - CSN_PTY_PAST);
    if (csn_buf_append(&p->past, data, len) < 0)
        p->past.error = 0; /* the past is a comfort */
}

static bool is_anyone_full(const csn_pty *p)
{
    csn_list_foreach (node, (csn_list *) (uintptr_t) &p->viewers)
        if (csn_list_entry(node, csn_pty_viewer, link)->is_full)
            return true;
    return false;
}

static int on_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                     void *user)
{
    csn_pty *p = user;

    (void) process;
    (void) stream;
    remember(p, data, len);
    csn_list_foreach (node, &p->viewers) {
        csn_pty_viewer *v = csn_list_entry(node, csn_pty_viewer, link);
        if (!v->output(v, data, len))
            v->is_full = true;
    }
    return is_anyone_full(p) ? 1 : 0;
}

static void resume(csn_pty *p)
{
    if (p->process && !is_anyone_full(p))
        (void) csn_process_resume(p->process); /* not paused: fine */
}

void csn_pty_drained(csn_pty *pty, csn_pty_viewer *viewer)
{
    viewer->is_full = false;
    resume(pty);
}

void csn_pty_view(csn_pty *pty, csn_pty_viewer *viewer)
{
    csn_list_append(&pty->viewers, &viewer->link);
    if (pty->past.len > 0 && !viewer->output(viewer, pty->past.data, pty->past.len))
        viewer->is_full = true;
}

void csn_pty_unview(csn_pty *pty, csn_pty_viewer *viewer)
{
    csn_list_remove(&viewer->link);
    resume(pty);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static void tell_end(csn_pty *p, int code, const char *reason)
{
    csn_list *node;

    while ((node = csn_list_pop(&p->viewers))) {
        csn_pty_viewer *v = csn_list_entry(node, csn_pty_viewer, link);
        v->ended(v, code, reason);
    }
}

static void reason_of(const csn_receipt *r, int code, char *out, size_t size)
{
    int sig = r->ended == CSN_ENDED_SIGNAL    ? r->signal
              : code > 128 && code < 128 + 65 ? code - 128
                                              : 0;

    if (code == 0)
        out[0] = '\0';
    else if (r->ended != CSN_ENDED_EXIT && r->ended != CSN_ENDED_SIGNAL &&
             r->ended != CSN_ENDED_KILLED)
        (void) snprintf(out, size, "killed: %s", csn_ending_name(r->ended)); /* all of these fit */
    else if (r->ended == CSN_ENDED_KILLED || sig == SIGKILL)
        (void) snprintf(out, size, "SIGKILL");
    else if (sig == SIGINT)
        (void) snprintf(out, size, "Ctrl+C");
    else if (sig == SIGTERM)
        (void) snprintf(out, size, "SIGTERM");
    else if (sig > 0)
        (void) snprintf(out, size, "signal %d", sig);
    else
        (void) snprintf(out, size, "non-zero exit");
}

static void on_exit_of(csn_process *process, const csn_receipt *receipt, void *user)
{
    csn_pty *p = user;
    int code = p->is_killed ? 137 : csn_receipt_status(receipt);
    char reason[64];

    p->process = csn_process_free(process);
    reason_of(receipt, code, reason, sizeof(reason));
    tell_end(p, code, reason);
    if (p->gone)
        p->gone(p, p->gone_user);
    csn_pty_free(p);
}

void csn_pty_kill(csn_pty *pty)
{
    pty->is_killed = true;
    if (pty->process && csn_process_signal_async(pty->process, SIGKILL, 1, NULL, NULL, NULL)) {
        csn_list_foreach (node, &pty->viewers)
            csn_list_entry(node, csn_pty_viewer, link)->is_full =
                false; /* nobody holds up the end */
        resume(pty);
        return;
    }
    if (pty->gone)
        pty->gone(pty, pty->gone_user);
    csn_pty_free(pty);
}

csn_pty *csn_pty_free(csn_pty *p)
{
    if (!p)
        return NULL;
    csn_list_remove(&p->link);
    if (p->note)
        p->note(p, false, p->note_user);
    tell_end(p, 137, "SIGKILL");
    csn_timer_cancel(&p->input_timer);
    csn_op_drop(p->coming);
    p->coming = NULL;
    if (p->process) /* a terminal would outlive its handle */
        (void) csn_process_signal_async(p->process, SIGKILL, 1, NULL, NULL, NULL);
    csn_process_free(p->process);
    csn_buf_free(&p->past);
    csn_buf_free(&p->input);
    csn_envs_free(p->env);
    free(p->id);
    free(p->cwd);
    free(p);
    return NULL;
}

/* ---- input ------------------------------------------------------------------------------------------------------ */

static void on_retry(csn_timer *timer, void *user);

static void pump_input(csn_pty *p)
{
    size_t n = 0;

    while (p->process && p->input.len > 0) {
        if (csn_process_write(p->process, p->input.data, p->input.len, &n, NULL) < 0) {
            csn_buf_clear(&p->input); /* nobody is there to read it */
            return;
        }
        if (n == 0)
            break;
        csn_buf_consume(&p->input, n);
    }
    if (p->input.len > 0) /* a terminal's other end does not tell when it has room */
        (void) csn_timer_set(p->loop, &p->input_timer, csn_deadline_in_ms(RETRY_MS), on_retry, p);
}

static void on_retry(csn_timer *timer, void *user)
{
    (void) timer;
    pump_input(user);
}

int csn_pty_write(csn_pty *pty, const char *data, size_t len)
{
    size_t before = pty->input.len;
    int r = csn_buf_append(&pty->input, data, len);

    if (r < 0) {
        pty->input.error = 0;
        csn_buf_truncate(&pty->input, before);
        return r;
    }
    if (!pty->input_timer.loop)
        pump_input(pty);
    return 0;
}

int csn_pty_resize(csn_pty *pty, uint16_t cols, uint16_t rows, csn_error *err)
{
    int r = pty->process ? csn_process_resize(pty->process, rows, cols, err) : CSN_OK;

    if (r >= 0) {
        pty->cols = cols;
        pty->rows = rows;
    }
    return r;
}

/* ---- the beginning ---------------------------------------------------------------------------------------------- */

static void on_started(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_pty *p = user;
    csn_list *node;

    p->coming = NULL;
    p->process = process;
    if (result >= 0) {
        (void) csn_process_resize(process, p->rows, p->cols,
                                  NULL); /* it may have changed on the way */
        pump_input(p);
        if (p->note)
            p->note(p, true, p->note_user);
        if (p->is_killed)
            csn_pty_kill(p);
        return;
    }
    while ((node = csn_list_pop(&p->viewers))) {
        csn_pty_viewer *v = csn_list_entry(node, csn_pty_viewer, link);
        v->failed(v, err->message);
    }
    if (p->gone)
        p->gone(p, p->gone_user);
    csn_pty_free(p);
}

int csn_pty_start(csn_pty *p, csn_error *err)
{
    static const char *const argv[] = { "/bin/bash", "-i", "-l", NULL };
    csn_process_options o = { .size = sizeof(o),
                              .argv = argv,
                              .env = (const char *const *) p->env,
                              .cwd = p->cwd,
                              .is_pty = 1,
                              .rows = p->rows,
                              .cols = p->cols,
                              .timeout_ms = CSN_UNLIMITED,
                              .on_output = on_output,
                              .on_exit = on_exit_of,
                              .user_data = p };

    if (p->process || p->coming)
        return CSN_OK;
    p->coming = csn_process_start_async(p->box, &o, on_started, p, err);
    return p->coming ? CSN_OK : err->code;
}

csn_pty *csn_pty_new(csn_loop *loop, csn_sandbox *box, const char *id, const char *cwd,
                     const char *const *env, uint16_t cols, uint16_t rows)
{
    csn_pty *p = csn_calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    *p = (csn_pty){ .loop = loop,
                    .box = box,
                    .id = csn_strdup(id),
                    .cwd = csn_strdup(cwd),
                    .env = csn_envs_copy(env),
                    .cols = cols,
                    .rows = rows,
                    .created_ms = csn_wall_ms(),
                    .past = CSN_BUF_INIT_MAX(2 * CSN_PTY_PAST),
                    .input = CSN_BUF_INIT_MAX(CSN_PTY_INPUT_MAX) };
    csn_list_init(&p->link);
    csn_list_init(&p->viewers);
    return p->id && p->cwd && p->env ? p : csn_pty_free(p);
}
