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

enum {
    AT_ONCE_MAX =
        32 << 10, /* what an empty pipe takes in one go: all of it or nothing is written */
    REPORTS_MAX = 16 << 20,
    CANNOT_RUN = 126,
    AGAIN_MS = 20
};

static void run_next(csn_session *s);
static void end_waiting(csn_session *s);
static void end_everything(csn_session *s);

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

void csn_session_log(csn_session_command *c, csn_stream stream, const char *data, size_t len)
{
    int64_t before = c->log.size;

    csn_cmdlog_append(&c->log, stream, data, len);
    c->session->log_bytes += c->log.size - before;
}

static void tell_keep(const csn_session *s, csn_session_event event, const csn_session_command *c)
{
    if (s->keep)
        s->keep(s, event, c, s->keep_user);
}

/* Of a session that is let go the courier lives on, as its shell does. */
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
    if (c->courier && c->session->is_deleted)
        csn_held_signal(c->courier, SIGKILL);
    csn_held_free(c->courier);
    csn_cmdlog_done(&c->log);
    csn_session_free_echoes(c);
    free(c->text);
    free(c);
}

/* All that it printed so far is in the log: now the news. */
static void finish_command(csn_session_command *c, int code)
{
    csn_session *s = c->session;

    s->running = NULL;
    csn_timer_cancel(&s->again);
    csn_session_put_echoes(c, INT64_MAX);
    if (c->courier)
        csn_held_close_input(c->courier);
    if (!c->courier || c->is_log_closed) {
        csn_cmdlog_close(&c->log);
        c->courier = csn_held_free(c->courier);
    }
    c->is_ended = true;
    c->exit_code = code;
    tell_keep(s, CSN_SESSION_COMMAND_ENDED, c);
    notify(c);
}

/* No command runs. Those that wait end after the one that ran. */
static void go_on(csn_session *s)
{
    if (s->is_ended)
        end_waiting(s);
    if (s->is_ended && s->deleted)
        end_everything(s);
    else
        run_next(s);
}

/* The shell said how it ended. Once the courier is gone the keeper has read everything that was written, and on_courier_ended
 * follows. */
static void end_command(csn_session_command *c, int code)
{
    c->exit_code = code;
    c->is_finishing = true;
    if (c->courier && !c->is_courier_gone) {
        csn_held_signal(c->courier, SIGKILL);
        return;
    }
    finish_command(c, code);
    go_on(c->session);
}

static void fail_command(csn_session_command *c, const char *why)
{
    csn_session *s = c->session;

    c->has_pid = true; /* whatever still comes is output */
    csn_session_log(c, CSN_STDERR, "caisson: ", 9);
    csn_session_log(c, CSN_STDERR, why, strlen(why));
    csn_session_log(c, CSN_STDERR, "\n", 1);
    finish_command(c, CANNOT_RUN);
    go_on(s);
}

/* ---- running one ------------------------------------------------------------------------------------------------ */

/* The courier is there: the shell may take the streams from it. */
static void tell_shell(csn_session_command *c)
{
    csn_auto(buf) csn_buf script = CSN_BUF_INIT_MAX(CSN_SESSION_SCRIPT_MAX);
    csn_session *s = c->session;
    int r = csn_session_put_script(c, &script);

    if (c->told == CSN_TOLD_ALL)
        return;
    if (c->told == CSN_TOLD_IN_PART) {
        csn_held_signal(s->shell, SIGKILL);
        fail_command(c, "the server was started again while the shell was given this long command");
        return;
    }
    if (script.len > AT_ONCE_MAX) {
        c->told = CSN_TOLD_IN_PART;
        tell_keep(s, CSN_SESSION_COMMAND_TOLD, c);
    }
    if (r == 0)
        r = csn_held_write(s->shell, script.data, script.len);
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
            return NULL; /* it may be gone */
        }
        c->pid[at] = data[i];
    }
    return NULL;
}

static void on_output(csn_held *held, csn_stream stream, const char *data, size_t len, void *user)
{
    csn_session_command *c = user;

    if (!c->has_pid && stream == CSN_STDOUT) {
        data = take_pid(c, data, &len);
        if (!data)
            return;
        if (!c->is_ended && !c->is_finishing)
            tell_shell(c);
        if (len == 0)
            return;
    }
    csn_session_put_echoes(c, csn_held_offset(held) - (int64_t) len);
    csn_session_log(c, stream, data, len);
    notify(c);
}

static void on_courier_closed(csn_held *held, void *user)
{
    csn_session_command *c = user;

    if (!c->has_pid && c == c->session->running &&
        !c->is_finishing) { /* somebody killed the courier */
        fail_command(c, "the command's streams are gone");
        return;
    }
    c->is_log_closed = true;
    if (!c->is_ended)
        return; /* on_courier_ended is about to come */
    csn_cmdlog_close(&c->log);
    c->courier = csn_held_free(held);
}

static void on_courier_ended(csn_held *held, const csn_receipt *receipt, void *user)
{
    csn_session_command *c = user;
    const int64_t n_cut = receipt->is_output_cut ? receipt->stdout_bytes + receipt->stderr_bytes -
                                                       csn_held_offset(held)
                                                 : 0;

    c->is_courier_gone = true;
    if (n_cut > 0)
        c->log.n_dropped += n_cut;
    if (!c->is_finishing)
        return; /* killed from inside: the shell has its streams, and goes on */
    csn_session *s = c->session;
    finish_command(c, c->exit_code);
    go_on(s);
}

static void on_again(csn_timer *timer, void *user);

/* The courier could not be sent. A sandbox that is frozen for a copy thaws soon. */
static void fail_courier(csn_session_command *c, int result, const char *why)
{
    csn_session *s = c->session;

    c->courier = csn_held_free(c->courier);
    if (result != CSN_E_BUSY ||
        csn_timer_set(s->loop, &s->again, csn_deadline_in_ms(AGAIN_MS), on_again, s) < 0)
        fail_command(c, why);
}

static void on_courier(csn_held *held, int result, const csn_error *err, void *user)
{
    csn_error why = { 0 };

    csn_session_command *c = user;

    if (result < 0) {
        why = *err; /* it goes with what told us */
        fail_courier(c, result, why.message);
    } else if (c->is_finishing) { /* the shell ended meanwhile */
        csn_held_signal(held, SIGKILL);
    }
}

const csn_held_events csn_session_courier_events = {
    .ready = on_courier,
    .output = on_output,
    .ended = on_courier_ended,
    .closed = on_courier_closed,
};

/* It only holds the streams. Whoever is woken with all others, after a copy of the sandbox, stops again. Its last argument is a
 * name for who looks for it later. */
static int send_courier(csn_session_command *c, csn_error *err)
{
    static const char hold[] = "echo $$; while kill -STOP $$; do :; done";
    const char *const argv[] = { "/bin/sh", "-c", hold, c->id, NULL };
    csn_session *s = c->session;
    csn_process_options o = { .size = sizeof(o),
                              .argv = argv,
                              .cwd = "/",
                              .output_bytes = CSN_CMDLOG_MAX,
                              .timeout_ms = CSN_UNLIMITED };

    c->courier = csn_held_start(s->loop, s->box, &o, c->is_async ? CSN_SESSION_INPUT_MAX : 0,
                                &csn_session_courier_events, c, err);
    return c->courier ? CSN_OK : err->code;
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

    while (!s->running && s->is_standing && !s->is_ended && !s->deleted && (c = next_waiting(s))) {
        c->is_started = true;
        s->n_waiting--;
        s->running = c;
        if ((r = send_courier(c, &err)) < 0)
            fail_courier(c, r, err.message); /* which may come back here: the loop ends then */
    }
}

/* ---- the shell's report ----------------------------------------------------------------------------------------- */

static void end_everything(csn_session *s)
{
    if (s->is_standing && !s->is_ended) {
        csn_held_signal(s->shell, SIGKILL);
        return; /* its end comes when the last of them is gone */
    }
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
    if (s->running && strcmp(nonce, s->running->nonce) == 0 && !s->running->is_finishing)
        end_command(s->running, code);
    else if (s->deleted && strcmp(nonce, s->bye) == 0) {
        csn_timer_cancel(&s->grace);
        end_everything(s);
    }
}

/* Its own stderr, traces and complaints, is not any command's output. */
static void on_report(csn_held *held, csn_stream stream, const char *data, size_t len, void *user)
{
    csn_session *s = user;
    bool is_gone = false,
         *outer = s->is_gone; /* a line may free the session, and its shell with it */

    (void) held;
    s->is_gone = &is_gone;
    for (size_t i = 0; i < len && stream == CSN_STDOUT; i++) {
        if (data[i] != '\n') {
            if (s->line_len < sizeof(s->line))
                s->line[s->line_len++] = data[i];
            continue;
        }
        if (s->line_len < sizeof(s->line))
            on_line(s);
        if (is_gone) {
            if (outer)
                *outer = true;
            return;
        }
        s->line_len = 0;
    }
    s->is_gone = outer;
}

/* ---- the shell -------------------------------------------------------------------------------------------------- */

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

static void on_shell_exit(csn_held *held, const csn_receipt *receipt, void *user)
{
    csn_session *s = user;

    (void) held;
    s->is_ended = true;
    s->exit_code = csn_receipt_status(receipt);
    csn_timer_cancel(&s->grace);
    csn_held_close_input(s->shell);
    if (!s->running)
        go_on(s);
    else if (!s->running->is_finishing)
        end_command(s->running, s->exit_code);
}

void csn_session_lose(csn_session *s)
{
    s->is_ended = s->is_standing = true;
    if (!s->running)
        go_on(s);
    else if (!s->running->is_finishing)
        end_command(s->running, -1);
}

static void on_shell_closed(csn_held *held, void *user)
{
    (void) held;
    (void) user; /* its end is told apart */
}

static void on_shell(csn_held *held, int result, const csn_error *err, void *user)
{
    /* Caught, not ignored: children get the default back, and the shell outlives them when the session is deleted. */
    static const char first[] = "trap : TERM\n";
    csn_session *s = user;
    csn_session_fn *started = s->started;

    s->started = NULL;
    s->is_standing = result >= 0;
    if (result >= 0 && started)
        (void) csn_held_write(held, first, sizeof(first) - 1); /* it fits */
    else if (started)
        tell_keep(s, CSN_SESSION_GONE, NULL);
    if (started)
        started(s, result, err, s->started_user);
    if (result < 0 && started)
        csn_session_free(s);
    else if (result < 0)
        csn_session_lose(s);
    else
        run_next(s);
}

const csn_held_events csn_session_shell_events = {
    .ready = on_shell,
    .output = on_report,
    .ended = on_shell_exit,
    .closed = on_shell_closed,
};

/* bash where there is one. The last argument is a name for who looks for it later. */
static int start_shell(csn_session *s, csn_error *err)
{
    const char *const argv[] = {
        "/bin/sh", "-c", "[ -x /bin/bash ] && exec /bin/bash --noprofile --norc; exec /bin/sh",
        s->mark, NULL
    };
    csn_process_options o = { .size = sizeof(o),
                              .argv = argv,
                              .env = (const char *const *) s->env,
                              .cwd = s->cwd,
                              .output_bytes = REPORTS_MAX,
                              .timeout_ms = CSN_UNLIMITED };

    s->shell = csn_held_start(s->loop, s->box, &o, CSN_SESSION_SCRIPT_MAX,
                              &csn_session_shell_events, s, err);
    return s->shell ? CSN_OK : err->code;
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
                        .started = started,
                        .started_user = user };
    csn_list_init(&s->link);
    csn_list_init(&s->commands);
    if (!s->id || (cwd && !s->cwd) || !s->env || csn_id_hex(s->mark, 16) < 0) {
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
        tell_keep(s, CSN_SESSION_COMMAND_FORGOTTEN, c);
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
        *c = (csn_session_command){
            .session = s, .text = csn_strdup(text), .is_async = is_async, .no_echo = no_echo
        };
    if (!c || !c->text || csn_id_uuid(c->id) < 0 || csn_id_hex(c->nonce, 16) < 0) {
        free(c ? c->text : NULL);
        free(c);
        return csn_fail(err, CSN_E_NO_MEMORY, "remember the command");
    }
    csn_list_init(&c->watches);
    csn_list_init(&c->echoes);
    csn_cmdlog_init(&c->log, s->log_dir_fd);
    forget_oldest(s);
    csn_list_append(&s->commands, &c->link);
    s->n_commands++;
    s->n_waiting++;
    s->text_bytes += strlen(text);
    *ret = c; /* before it may end */
    tell_keep(s, CSN_SESSION_COMMAND_NEW, c);
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
    if (!c->is_async || !c->is_started || !c->courier)
        return csn_fail(err, CSN_E_INVALID, "command '%s' does not read input", c->id);
    (void) csn_buf_append(&text, data, len); /* sticky */
    if (len == 0 || data[len - 1] != '\n')
        (void) csn_buf_putc(&text, '\n');
    r = text.error ? text.error : csn_held_write(c->courier, text.data, text.len);
    if (r == -EPIPE)
        return csn_fail(err, CSN_E_STATE, "command '%s' has closed its input", c->id);
    if (r < 0)
        return csn_fail(err, CSN_E_LIMIT, "command '%s' does not read the input it has", c->id);
    if (!c->no_echo) {
        csn_session_log(c, CSN_STDOUT, text.data, text.len);
        if (c->session->keep_echo)
            c->session->keep_echo(c, csn_held_offset(c->courier), text.data, text.len,
                                  c->session->keep_user);
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

    s->is_deleted = true;
    s->deleted = deleted;
    s->deleted_user = user;
    end_waiting(s);
    tell_keep(s, CSN_SESSION_GONE, NULL);
    if (!s->is_standing || s->is_ended || csn_id_hex(s->bye, 16) < 0 ||
        csn_timer_set(s->loop, &s->grace, csn_deadline_in_ms(CSN_SESSION_GRACE_MS), on_grace_over,
                      s) < 0) {
        end_everything(s);
        return;
    }
    csn_held_signal(s->shell, SIGTERM);
    (void) snprintf(last, sizeof(last), "wait\ncommand printf '%%s 0\\n' %s\n", s->bye); /* fits */
    (void) csn_held_write(s->shell, last, strlen(last)); /* lost: the grace ends it */
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
    if (s->is_gone)
        *s->is_gone = true;
    if (s->shell && s->is_deleted)
        csn_held_signal(s->shell, SIGKILL);
    s->shell = csn_held_free(s->shell);
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
