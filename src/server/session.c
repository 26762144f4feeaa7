/* SPDX-License-Identifier: Apache-2.0 */
#include "server/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "server/envs.h"

enum { SCRIPT_MAX = 4 * CSN_SESSION_TEXT_MAX + 4096, CANNOT_RUN = 126, AGAIN_MS = 20 };

static void run_next(csn_session *s);

/* ---- commands --------------------------------------------------------------------------------------------------- */

static void notify(csn_session_command *c)
{
    csn_list_foreach (node, &c->watches) {
        csn_session_watch *w = csn_list_entry(node, csn_session_watch, link);
        w->changed(w, c);
    }
}

void csn_session_watch_add(csn_session_command *command, csn_session_watch *watch)
{
    csn_list_append(&command->watches, &watch->link);
}

void csn_session_watch_remove(csn_session_watch *watch)
{
    csn_list_remove(&watch->link);
}

static void put_log(csn_session_command *c, csn_stream stream, const char *data, size_t len)
{
    int64_t before = c->log.size;

    csn_cmdlog_append(&c->log, stream, data, len);
    c->session->log_bytes += c->log.size - before;
}

static void free_command(csn_session_command *c)
{
    c->is_dropped = true;
    if (!c->is_ended) {
        c->is_ended = true;
        c->exit_code = -1;
    }
    notify(c);
    while (csn_list_pop(&c->watches))
        ;
    csn_list_remove(&c->link);
    csn_op_drop(c->courier_coming);
    c->courier_coming = NULL;
    c->courier = csn_process_free(c->courier);
    csn_tap_close(&c->out);
    csn_tap_close(&c->err);
    csn_feed_close(&c->in);
    csn_cmdlog_done(&c->log);
    free(c->text);
    free(c);
}

/* What it printed so far is in the pipes: into the log with it, then the news. */
static void finish_command(csn_session_command *c, int code)
{
    csn_session *s = c->session;

    s->running = NULL;
    csn_timer_cancel(&s->again);
    (void) csn_tap_drain(&c->out); /* closed or not makes no difference here */
    (void) csn_tap_drain(&c->err);
    csn_op_drop(c->courier_coming);
    c->courier_coming = NULL;
    c->courier = csn_process_free(c->courier);
    csn_feed_close(&c->in);
    if (c->out.fd < 0 && c->err.fd < 0)
        csn_cmdlog_close(&c->log);
    c->is_ended = true;
    c->exit_code = code;
    notify(c);
}

static void fail_command(csn_session_command *c, const char *why)
{
    csn_session *s = c->session;

    c->has_pid = true; /* whatever still comes is output */
    put_log(c, CSN_STDERR, "caisson: ", 9);
    put_log(c, CSN_STDERR, why, strlen(why));
    put_log(c, CSN_STDERR, "\n", 1);
    finish_command(c, CANNOT_RUN);
    run_next(s);
}

/* ---- running one ------------------------------------------------------------------------------------------------ */

static void put_quoted(csn_buf *out, const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "'");
        (void) csn_buf_append(out, p, n); /* sticky */
        p += n;
        if (*p == '\'') {
            (void) csn_buf_puts(out, "'\\''");
            p++;
        }
    }
}

/* The courier is there: the shell may take the streams from it. */
static void tell_shell(csn_session_command *c)
{
    csn_auto(buf) csn_buf script = CSN_BUF_INIT_MAX(SCRIPT_MAX);
    int r;

    (void) csn_buf_puts(&script, "{ eval '"); /* sticky: seen below */
    put_quoted(&script, c->text);
    (void) csn_buf_puts(&script, "\n'; } <");
    if (c->is_async)
        (void) csn_buf_printf(&script, "/proc/%s/fd/0", c->pid);
    else
        (void) csn_buf_puts(&script, "/dev/null");
    (void) csn_buf_printf(
        &script, " >/proc/%s/fd/1 2>/proc/%s/fd/2\ncommand printf '%%s %%s\\n' %s \"$?\"\n", c->pid,
        c->pid, c->nonce);
    r = script.error;
    if (r == 0)
        r = csn_feed_write(&c->session->script, script.data, script.len);
    if (r < 0 && r != -EPIPE) /* a shell that reads no more is about to end, and that is told */
        fail_command(c, "the command could not be passed to the shell");
}

/* The courier's first line is its number. Returns what is left behind it; NULL: nothing yet, or the command failed. */
static const char *take_pid(csn_session_command *c, const char *data, size_t *len)
{
    for (size_t i = 0; i < *len; i++) {
        size_t at = strlen(c->pid);
        if (data[i] == '\n' && at > 0) {
            c->has_pid = true;
            *len -= i + 1;
            return data + i + 1;
        }
        if (data[i] < '0' || data[i] > '9' || at + 1 >= sizeof(c->pid)) {
            fail_command(c, "the command's streams are not to be had");
            return NULL;
        }
        c->pid[at] = data[i];
    }
    return NULL;
}

static void on_stream_closed(csn_session_command *c)
{
    if (!c->has_pid && c == c->session->running) { /* somebody killed the courier */
        fail_command(c, "the command's streams are gone");
        return;
    }
    if (c->is_ended && c->out.fd < 0 && c->err.fd < 0)
        csn_cmdlog_close(&c->log);
}

static void on_stdout(csn_tap *tap, const char *data, size_t len, void *user)
{
    csn_session_command *c = user;

    (void) tap;
    if (len == 0) {
        on_stream_closed(c);
        return;
    }
    if (!c->has_pid) {
        data = take_pid(c, data, &len);
        if (!data)
            return;
        tell_shell(c);
    }
    put_log(c, CSN_STDOUT, data, len);
    notify(c);
}

static void on_stderr(csn_tap *tap, const char *data, size_t len, void *user)
{
    csn_session_command *c = user;

    (void) tap;
    if (len == 0) {
        on_stream_closed(c);
        return;
    }
    put_log(c, CSN_STDERR, data, len);
    notify(c);
}

static void on_again(csn_timer *timer, void *user);

/* The courier could not be sent. A sandbox that is frozen for a copy thaws soon. */
static void fail_courier(csn_session_command *c, int result, const char *why)
{
    csn_session *s = c->session;

    csn_tap_close(&c->out);
    csn_tap_close(&c->err);
    csn_feed_close(&c->in);
    if (result != CSN_E_BUSY ||
        csn_timer_set(s->loop, &s->again, csn_deadline_in_ms(AGAIN_MS), on_again, s) < 0)
        fail_command(c, why);
}

static void on_courier(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_session_command *c = user;

    c->courier_coming = NULL;
    c->courier = process;
    if (result < 0)
        fail_courier(c, result, err->message);
}

static int send_courier(csn_session_command *c, csn_error *err)
{
    static const char *const argv[] = { "/bin/sh", "-c", "echo $$; kill -STOP $$", NULL };
    csn_session *s = c->session;
    int far[3] = { -1, -1, -1 }, r = 0;

    if (c->is_async)
        r = csn_feed_open(&c->in, s->loop, CSN_SESSION_INPUT_MAX, &far[0]);
    if (r == 0)
        r = csn_tap_open(&c->out, s->loop, on_stdout, c, &far[1]);
    if (r == 0)
        r = csn_tap_open(&c->err, s->loop, on_stderr, c, &far[2]);
    if (r < 0) {
        csn_close_many(far, 3);
        return csn_fail_sys(err, r, "make the command's streams");
    }
    csn_process_options o = {
        .size = sizeof(o), .argv = argv, .cwd = "/", .own_fds = far, .timeout_ms = CSN_UNLIMITED
    };
    c->courier_coming = csn_process_start_async(s->box, &o, on_courier, c, err);
    csn_close_many(far, 3);
    return c->courier_coming ? CSN_OK : err->code;
}

static void on_again(csn_timer *timer, void *user)
{
    csn_session *s = user;
    csn_error err = { 0 };
    int r = s->running ? send_courier(s->running, &err) : CSN_OK;

    (void) timer;
    if (r < 0)
        fail_courier(s->running, r, err.message);
}

static csn_session_command *next_waiting(csn_session *s)
{
    csn_session_command *found = NULL;

    for (csn_list *n = s->commands.prev; n != &s->commands; n = n->prev) {
        csn_session_command *c = csn_list_entry(n, csn_session_command, link);
        if (c->is_started)
            break;
        found = c;
    }
    return found;
}

static void run_next(csn_session *s)
{
    csn_session_command *c;
    csn_error err = { 0 };
    int r;

    while (!s->running && s->shell && !s->is_ended && !s->deleted && (c = next_waiting(s))) {
        c->is_started = true;
        s->n_waiting--;
        s->running = c;
        if ((r = send_courier(c, &err)) < 0)
            fail_courier(c, r, err.message); /* which may come back here: the loop ends then */
    }
}

/* ---- the shell's report ----------------------------------------------------------------------------------------- */

int csn_session_parse_report(const char *line, size_t len, char ret_nonce[33], int *ret_code)
{
    csn_str rest = csn_str_n(line, len), nonce;
    uint64_t code;

    if (!csn_str_split(&rest, ' ', &nonce) || nonce.len != 32 || !rest.data || rest.len > 3 ||
        csn_parse_u64(rest, &code) < 0 || code > 255 || csn_str_copy(ret_nonce, 33, nonce) < 0 ||
        !csn_is_hex(ret_nonce, 32))
        return -EBADMSG;
    *ret_code = (int) code;
    return 0;
}

static void end_everything(csn_session *s)
{
    csn_error err;

    if (s->shell && csn_process_signal_async(s->shell, SIGKILL, 1, NULL, NULL, &err))
        return; /* its end comes when the last of them is gone */
    csn_session_fn *deleted = s->deleted;
    s->deleted = NULL;
    if (deleted)
        deleted(s, CSN_OK, NULL, s->deleted_user);
    csn_session_free(s);
}

static void on_line(csn_session *s)
{
    char nonce[33];
    int code;

    if (csn_session_parse_report(s->line, s->line_len, nonce, &code) < 0)
        return; /* not from us: nobody's business */
    if (s->running && strcmp(nonce, s->running->nonce) == 0) {
        finish_command(s->running, code);
        run_next(s);
    } else if (s->deleted && strcmp(nonce, s->bye) == 0) {
        csn_timer_cancel(&s->grace);
        end_everything(s);
    }
}

static void on_report(csn_tap *tap, const char *data, size_t len, void *user)
{
    csn_session *s = user;
    const bool *is_gone = tap->is_gone; /* a line may free the session, and the tap with it */

    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n') {
            if (s->line_len < sizeof(s->line))
                s->line[s->line_len++] = data[i];
            continue;
        }
        if (s->line_len < sizeof(s->line))
            on_line(s);
        if (*is_gone)
            return;
        s->line_len = 0;
    }
}

/* The shell's own stderr: its traces and complaints are not any command's output. */
static void on_complaint(csn_tap *tap, const char *data, size_t len, void *user)
{
    (void) tap;
    (void) data;
    (void) len;
    (void) user;
}

/* ---- the shell -------------------------------------------------------------------------------------------------- */

static int start_shell(csn_session *s, csn_error *err);

static void end_waiting(csn_session *s)
{
    csn_list_foreach (node, &s->commands) {
        csn_session_command *c = csn_list_entry(node, csn_session_command, link);
        if (c->is_started)
            continue;
        c->is_started = c->is_ended = true;
        c->exit_code = -1;
        notify(c);
    }
    s->n_waiting = 0;
}

static void on_shell_exit(csn_process *process, const csn_receipt *receipt, void *user)
{
    csn_session *s = user;

    s->is_ended = true;
    s->exit_code = csn_receipt_status(receipt);
    s->shell = csn_process_free(process);
    csn_timer_cancel(&s->grace);
    if (s->running)
        finish_command(s->running, s->exit_code);
    end_waiting(s);
    csn_feed_close(&s->script);
    csn_tap_close(&s->report);
    csn_tap_close(&s->complaints);
    if (s->deleted)
        end_everything(s);
}

static void close_shell_streams(csn_session *s)
{
    csn_feed_close(&s->script);
    csn_tap_close(&s->report);
    csn_tap_close(&s->complaints);
}

static void on_shell(csn_process *process, int result, const csn_error *err, void *user)
{
    /* Caught, not ignored: children get the default back, and the shell outlives them when the session is deleted. */
    static const char first[] = "trap : TERM\n";
    csn_session *s = user;
    csn_session_fn *started = s->started;
    csn_error again = { 0 };

    s->shell_coming = NULL;
    s->shell = process;
    if (result == CSN_E_NOT_FOUND && !s->is_sh) {
        s->is_sh = true;
        close_shell_streams(s);
        result = start_shell(s, &again);
        if (result >= 0)
            return;
        err = &again;
    }
    s->started = NULL;
    if (result >= 0)
        (void) csn_feed_write(&s->script, first, sizeof(first) - 1); /* it fits */
    started(s, result, err, s->started_user);
    if (result < 0)
        csn_session_free(s);
    else
        run_next(s);
}

static int start_shell(csn_session *s, csn_error *err)
{
    static const char *const bash[] = { "/bin/bash", "--noprofile", "--norc", NULL };
    static const char *const sh[] = { "/bin/sh", NULL };
    int far[3] = { -1, -1, -1 }, r;

    r = csn_feed_open(&s->script, s->loop, SCRIPT_MAX, &far[0]);
    if (r == 0)
        r = csn_tap_open(&s->report, s->loop, on_report, s, &far[1]);
    if (r == 0)
        r = csn_tap_open(&s->complaints, s->loop, on_complaint, s, &far[2]);
    if (r < 0) {
        csn_close_many(far, 3);
        close_shell_streams(s);
        return csn_fail_sys(err, r, "make the session's streams");
    }
    csn_process_options o = { .size = sizeof(o),
                              .argv = s->is_sh ? sh : bash,
                              .env = (const char *const *) s->env,
                              .cwd = s->cwd,
                              .own_fds = far,
                              .timeout_ms = CSN_UNLIMITED,
                              .on_exit = on_shell_exit,
                              .user_data = s };
    s->shell_coming = csn_process_start_async(s->box, &o, on_shell, s, err);
    csn_close_many(far, 3);
    return s->shell_coming ? CSN_OK : err->code;
}

/* ---- outside ---------------------------------------------------------------------------------------------------- */

csn_session *csn_session_new(csn_loop *loop, csn_sandbox *box, const char *id,
                             const char *const *env, const char *cwd, int log_dir_fd,
                             csn_session_fn *started, void *user, csn_error *err)
{
    csn_session *s = csn_calloc(1, sizeof(*s));

    if (!s) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "make a session");
        return NULL;
    }
    *s = (csn_session){ .loop = loop,
                        .box = box,
                        .log_dir_fd = log_dir_fd,
                        .id = csn_strdup(id),
                        .cwd = cwd ? csn_strdup(cwd) : NULL,
                        .env = csn_envs_copy(env),
                        .script = CSN_FEED_INIT,
                        .report = CSN_TAP_INIT,
                        .complaints = CSN_TAP_INIT,
                        .started = started,
                        .started_user = user };
    csn_list_init(&s->link);
    csn_list_init(&s->commands);
    if (!s->id || (cwd && !s->cwd) || !s->env) {
        s->started = NULL;
        (void) csn_fail(err, CSN_E_NO_MEMORY, "make a session");
        return csn_session_free(s);
    }
    if (start_shell(s, err) < 0) {
        s->started = NULL;
        return csn_session_free(s);
    }
    return s;
}

static void forget_oldest(csn_session *s)
{
    while (s->n_commands >= CSN_SESSION_COMMANDS_MAX || s->text_bytes > CSN_SESSION_TEXTS_MAX ||
           s->log_bytes > CSN_SESSION_LOGS_MAX) {
        csn_session_command *c = csn_list_entry(s->commands.next, csn_session_command, link);
        if (csn_list_empty(&s->commands) || !c->is_ended)
            return;
        s->n_commands--;
        s->text_bytes -= strlen(c->text);
        s->log_bytes -= c->log.size;
        free_command(c);
    }
}

int csn_session_exec(csn_session *s, const char *text, bool is_async, bool no_echo,
                     csn_session_command **ret, csn_error *err)
{
    if (s->is_ended || s->deleted)
        return csn_fail(err, CSN_E_STATE, "session '%.100s' has ended", s->id);
    if (s->n_waiting >= CSN_SESSION_QUEUE_MAX)
        return csn_fail(err, CSN_E_LIMIT, "%d commands are waiting in session '%.100s'",
                        CSN_SESSION_QUEUE_MAX, s->id);
    if (strlen(text) > CSN_SESSION_TEXT_MAX)
        return csn_fail(err, CSN_E_TOO_LARGE, "the command is longer than %d bytes",
                        CSN_SESSION_TEXT_MAX);
    csn_session_command *c = csn_calloc(1, sizeof(*c));
    if (c)
        *c = (csn_session_command){ .session = s,
                                    .text = csn_strdup(text),
                                    .is_async = is_async,
                                    .no_echo = no_echo,
                                    .out = CSN_TAP_INIT,
                                    .err = CSN_TAP_INIT,
                                    .in = CSN_FEED_INIT };
    if (!c || !c->text || csn_id_uuid(c->id) < 0 || csn_id_hex(c->nonce, 16) < 0) {
        free(c ? c->text : NULL);
        free(c);
        return csn_fail(err, CSN_E_NO_MEMORY, "remember the command");
    }
    csn_list_init(&c->watches);
    csn_cmdlog_init(&c->log, s->log_dir_fd);
    forget_oldest(s);
    csn_list_append(&s->commands, &c->link);
    s->n_commands++;
    s->n_waiting++;
    s->text_bytes += strlen(text);
    *ret = c; /* before it may end */
    run_next(s);
    return CSN_OK;
}

csn_session_command *csn_session_find(csn_session *s, const char *command_id)
{
    for (csn_list *n = s->commands.prev; n != &s->commands; n = n->prev) {
        csn_session_command *c = csn_list_entry(n, csn_session_command, link);
        if (strcmp(c->id, command_id) == 0)
            return c;
    }
    return NULL;
}

int csn_session_input(csn_session_command *c, const char *data, size_t len, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int r;

    if (c->is_ended)
        return csn_fail(err, CSN_E_STATE, "command '%s' has ended", c->id);
    if (!c->is_async || !c->is_started)
        return csn_fail(err, CSN_E_INVALID, "command '%s' does not read input", c->id);
    (void) csn_buf_append(&text, data, len); /* sticky */
    if (len == 0 || data[len - 1] != '\n')
        (void) csn_buf_putc(&text, '\n');
    r = text.error ? text.error : csn_feed_write(&c->in, text.data, text.len);
    if (r == -EPIPE)
        return csn_fail(err, CSN_E_STATE, "command '%s' has closed its input", c->id);
    if (r < 0)
        return csn_fail(err, CSN_E_LIMIT, "command '%s' does not read the input it has", c->id);
    if (!c->no_echo) {
        put_log(c, CSN_STDOUT, text.data, text.len);
        notify(c);
    }
    return CSN_OK;
}

static void on_grace_over(csn_timer *timer, void *user)
{
    (void) timer;
    end_everything(user);
}

void csn_session_delete(csn_session *s, csn_session_fn *deleted, void *user)
{
    char last[128];
    csn_error err;

    s->deleted = deleted;
    s->deleted_user = user;
    end_waiting(s);
    if (!s->shell || csn_id_hex(s->bye, 16) < 0 ||
        !csn_process_signal_async(s->shell, SIGTERM, 1, NULL, NULL, &err) ||
        csn_timer_set(s->loop, &s->grace, csn_deadline_in_ms(CSN_SESSION_GRACE_MS), on_grace_over,
                      s) < 0) {
        end_everything(s);
        return;
    }
    (void) snprintf(last, sizeof(last), "wait\ncommand printf '%%s 0\\n' %s\n", s->bye); /* fits */
    (void) csn_feed_write(&s->script, last, strlen(last)); /* lost: the grace ends it */
}

csn_session *csn_session_free(csn_session *s)
{
    csn_list *node;
    csn_error err;

    if (!s)
        return NULL;
    if (s->started) {
        (void) csn_fail(&err, CSN_E_CANCELLED, "session '%.100s' was deleted", s->id);
        s->started(s, CSN_E_CANCELLED, &err, s->started_user);
    }
    if (s->deleted) /* its end was asked for and comes like this */
        s->deleted(s, CSN_OK, NULL, s->deleted_user);
    csn_list_remove(&s->link);
    csn_timer_cancel(&s->grace);
    csn_timer_cancel(&s->again);
    csn_op_drop(s->shell_coming);
    s->shell_coming = NULL;
    s->shell = csn_process_free(s->shell);
    close_shell_streams(s);
    s->is_ended = true;
    s->running = NULL;
    while ((node = csn_list_first(&s->commands)))
        free_command(csn_list_entry(node, csn_session_command, link));
    csn_envs_free(s->env);
    free(s->cwd);
    free(s->id);
    free(s);
    return NULL;
}
