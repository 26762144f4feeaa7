/* SPDX-License-Identifier: Apache-2.0 */
/* A command with a terminal of its own.
 *
 * Theory of operation. A service's terminal runs a login shell, and nothing else. So the command goes into a variable of it, the
 * terminal's WebSocket is dialled, and one line is typed that makes the shell become the command (script.h). What comes until
 * the command's first line, of the shell and of the line that was typed, is thrown away; what follows is kept (kept_log.h).
 * The terminal goes with the command, and with whoever holds its handle: it can't be opened again. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "answer_sessions.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/json.h"
#include "base/time.h"
#include "call.h"
#include "command.h"
#include "kept_log.h"
#include "script.h"
#include "websocket.h"

#define OFFER "X-Daytona-Pty-Exit-Control"

enum { BEFORE_WORD_MAX = 256 * 1024, CONTROL_MAX = 4096, NAME_SIZE = 40 };

typedef struct terminal_exec {
    csn_daytona_command head;
    char name[NAME_SIZE];
    csn_buf url;   /* of the terminal */
    uint32_t last; /* 0: the sandbox's own is enough */
    csn_api_call *call;
    csn_websocket *ws;
    csn_buf control; /* a text message that is coming */
    csn_buf word;    /* the line that is coming, before the word */
    size_t n_before;
    csn_kept_log log;
    csn_timer limit; /* until the word; then the command's own */
    csn_api_call *resizing;
    uint16_t rows, cols;
    bool is_resize_due;
    int64_t started_ns, timeout_ms;
    int pid, exit_code, signal;
    csn_ending ending; /* of a kill */
    bool is_made, is_typed, is_killing, is_over, is_lost, is_told;
    bool is_dropped;
    unsigned n_busy;
} terminal_exec;

static terminal_exec *of(csn_exec *exec)
{
    return csn_container_of(exec, terminal_exec, head.base);
}

static csn_daytona *engine_of(const terminal_exec *e)
{
    return csn_daytona_of(e->head.base.box->backend);
}

/* ---- the terminal's end ---- */

/* A DELETE, which may outlive its command. */
typedef struct terminal_deletion {
    csn_daytona *d;
    csn_op *op; /* may be NULL */
    uint32_t last;
} terminal_deletion;

static void on_deleted(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    terminal_deletion *del = user;
    bool is_gone = result >= 0 || (a && a->end.failure == CSN_WEB_OK && a->end.status == 404);

    if (is_gone && del->last)
        (void) csn_webline_set_last(&del->d->line, del->last, NULL, NULL); /* else once more */
    csn_op_end(del->op, is_gone ? CSN_OK : result, is_gone ? NULL : err);
    free(del);
}

static int delete_terminal(terminal_exec *e, csn_op *op, csn_error *err)
{
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "end a terminal", .method = "DELETE", .url = e->url.data,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));
    terminal_deletion *del = csn_calloc(1, sizeof(*del));

    if (!del)
        return csn_fail(err, CSN_E_NO_MEMORY, "end a terminal");
    *del = (terminal_deletion){ .d = engine_of(e), .op = op, .last = e->last };
    if (!csn_api_call_start(engine_of(e), &spec, on_deleted, del, err)) {
        free(del);
        return CSN_E_LOST;
    }
    e->is_made = false;
    return CSN_OK;
}

static void free_exec(terminal_exec *e)
{
    if (e->is_made && e->head.base.box->backend && !engine_of(e)->is_closing)
        (void) delete_terminal(e, NULL, NULL); /* lost: the last requests have it */
    csn_list_remove(&e->head.link);
    csn_api_call_cancel(e->call);
    csn_api_call_cancel(e->resizing);
    csn_websocket_free(e->ws);
    csn_timer_cancel(&e->limit);
    csn_buf_free(&e->url);
    csn_buf_free(&e->control);
    csn_buf_free(&e->word);
    csn_kept_log_done(&e->log);
    csn_box_unref(e->head.base.box);
    free(e);
}

static void leave(terminal_exec *e)
{
    if (--e->n_busy == 0 && e->is_dropped)
        free_exec(e);
}

static csn_exec *drop(csn_exec *exec)
{
    terminal_exec *e = of(exec);

    e->is_dropped = true;
    if (e->n_busy == 0)
        free_exec(e);
    return NULL;
}

/* ---- telling ---- */

static void fail_start(terminal_exec *e, int result, const csn_error *err)
{
    e->n_busy++;
    csn_timer_cancel(&e->limit);
    e->is_told = true;
    if (!e->is_dropped)
        e->head.base.events->started(&e->head.base, result, err); /* drops it */
    leave(e);
}

static void fill_receipt(terminal_exec *e)
{
    csn_receipt *r = &e->head.base.receipt;

    csn_daytona_facts(r);
    r->wall_us = (csn_now_ns() - e->started_ns) / 1000;
    r->timeout_ms = e->timeout_ms;
    r->signal = e->signal;
    if (e->is_killing && e->ending != CSN_ENDED_RUNNING)
        r->ended = e->ending; /* whose hand it was is known */
    else if (e->is_lost)
        r->ended = CSN_ENDED_LOST;
    else if (e->signal)
        r->ended = CSN_ENDED_SIGNAL;
    else
        r->ended = CSN_ENDED_EXIT;
    if (r->ended == CSN_ENDED_EXIT)
        r->exit_code = e->exit_code;
}

static void tell_end(terminal_exec *e)
{
    if (!e->is_over || e->head.base.is_ended || e->is_dropped)
        return;
    csn_timer_cancel(&e->limit);
    fill_receipt(e);
    e->log.is_end = true;
    e->head.base.is_ended = true;
    e->n_busy++;
    e->head.base.events->ended(&e->head.base);
    if (!e->is_dropped)
        csn_kept_log_wake(&e->log);
    leave(e);
}

static void on_limit(csn_timer *timer, void *user)
{
    terminal_exec *e = user;
    csn_error err = { 0 };

    (void) timer;
    if (!e->head.base.is_started) {
        fail_start(e,
                   csn_fail(&err, CSN_E_TIMEOUT, "the service did not start the command in time"),
                   &err);
        return;
    }
    e->ending = CSN_ENDED_TIMEOUT;
    e->signal = SIGKILL;
    e->is_killing = true;
    if (delete_terminal(e, NULL, &err) >= 0)
        return;
    e->is_over = true; /* that could not be asked for */
    tell_end(e);
}

static void tell_started(terminal_exec *e, int pid)
{
    e->pid = pid;
    e->started_ns = csn_now_ns();
    csn_timer_cancel(&e->limit);
    if (e->timeout_ms > 0)
        (void) csn_timer_set(e->head.base.box->backend->loop, &e->limit,
                             csn_deadline_in_ms(e->timeout_ms), on_limit,
                             e); /* has memory: was set */
    e->head.base.is_started = e->is_told = true;
    e->head.base.id = ++csn_daytona_box_of(e->head.base.box)->n_execs;
    e->head.base.events->started(&e->head.base, CSN_OK, NULL);
}

/* ---- what it prints ---- */

/* Lines until the word; returns how much was taken of `text`. */
static size_t take_word(terminal_exec *e, const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len);
    size_t n = end ? (size_t) (end - text) + 1 : len;
    csn_script_word word;
    csn_error err = { 0 };

    e->n_before += n;
    if (e->n_before > BEFORE_WORD_MAX || csn_buf_append(&e->word, text, n) < 0) {
        fail_start(
            e,
            csn_fail(&err, CSN_E_PROTOCOL,
                     "the service's answer is not as agreed: no word of the command's start"),
            &err);
        return len;
    }
    if (!end)
        return n;
    if (!csn_script_read(e->word.data, e->word.len, e->name, &word)) {
        csn_buf_clear(&e->word);
        return n;
    }
    if (word.pid > 0) {
        tell_started(e, word.pid);
        return n;
    }
    fail_start(e, csn_fail(&err, word.code, "run a command: %s", word.why), &err);
    return len;
}

static void take_bytes(terminal_exec *e, const char *data, size_t len)
{
    while (len > 0 && !e->head.base.is_started && !e->is_told) {
        size_t n = take_word(e, data, len);

        data += n;
        len -= n;
    }
    if (len == 0 || !e->head.base.is_started || e->is_dropped)
        return;
    if (csn_kept_log_put(&e->log, CSN_STDOUT, data, len) < 0)
        e->is_lost = true; /* no memory for it */
    csn_kept_log_wake(&e->log);
}

/* ---- its WebSocket ---- */

static void take_end(terminal_exec *e, const csn_terminal_word *word)
{
    csn_error err = { 0 };
    char why[CSN_WORDS_SIZE];

    if (e->is_over || e->is_told != e->head.base.is_started)
        return;
    if (e->head.base.is_started) {
        e->is_over = true;
        e->is_lost = e->is_lost || word->kind != CSN_TERMINAL_EXITED;
        e->exit_code = word->exit_code;
        if (word->signal && !e->is_killing)
            e->signal = word->signal;
        if (word->kind == CSN_TERMINAL_EXITED)
            e->is_made = false; /* a terminal goes with its program */
        tell_end(e);
        return;
    }
    csn_words_of(word->why, strlen(word->why), engine_of(e)->secret, why);
    fail_start(e,
               csn_fail(&err, CSN_E_SYSTEM, "the service could not open a terminal%s%s",
                        why[0] ? ": " : "", why),
               &err);
}

/* The shell reads it when it gets there. */
static void type_command(terminal_exec *e)
{
    csn_error err = { 0 };

    if (e->is_typed)
        return;
    e->is_typed = true;
    if (csn_websocket_send(e->ws, CSN_SCRIPT_TYPED, sizeof(CSN_SCRIPT_TYPED) - 1) < 0)
        fail_start(e, csn_fail(&err, CSN_E_LOST, "run a command: its terminal was closed"), &err);
}

static void take_control(terminal_exec *e)
{
    csn_terminal_word word;

    csn_terminal_word_read(e->control.data, e->control.len, &word);
    csn_buf_clear(&e->control);
    if (word.kind == CSN_TERMINAL_CONNECTED)
        type_command(e);
    else if (word.kind != CSN_TERMINAL_OTHER)
        take_end(e, &word);
}

static void on_opened(void *user)
{
    (void) user; /* "connected" follows */
}

static bool on_piece(bool is_text, bool is_whole, const char *data, size_t len, void *user)
{
    terminal_exec *e = user;

    e->n_busy++;
    if (!is_text)
        take_bytes(e, data, len);
    else if (e->control.len + len <= CONTROL_MAX && csn_buf_append(&e->control, data, len) == 0 &&
             is_whole)
        take_control(e);
    else if (is_whole)
        csn_buf_clear(&e->control);
    leave(e);
    return false;
}

static void on_refused(int status, void *user)
{
    terminal_exec *e = user;
    csn_error err = { 0 };

    e->ws = csn_websocket_free(e->ws);
    (void) csn_fail(&err, CSN_E_UNSUPPORTED,
                    "no terminal at '%.80s': a WebSocket does not get through (HTTP %d)",
                    engine_of(e)->url, status);
    fail_start(e, err.code, &err);
}

static void on_closed(int code, const char *reason, size_t len, void *user)
{
    terminal_exec *e = user;
    csn_terminal_word word;

    (void) code;
    e->ws = csn_websocket_free(e->ws);
    csn_terminal_word_read(reason, len, &word);
    e->n_busy++;
    take_end(e, &word);
    leave(e);
}

static const csn_websocket_events ws_events = {
    .opened = on_opened, .piece = on_piece, .refused = on_refused, .closed = on_closed
};

/* ---- starting ---- */

static void on_made(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    terminal_exec *e = user;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_error own = { 0 };

    (void) a;
    e->call = NULL;
    if (result >= 0) {
        err = &own;
        csn_buf_printf(&url, "%s/connect", e->url.data);
        e->ws = url.error < 0
                    ? NULL
                    : csn_websocket_dial(&engine_of(e)->line, url.data, OFFER, &ws_events, e, &own);
        if (!e->ws || csn_timer_set(engine_of(e)->base.loop, &e->limit,
                                    csn_deadline_in_ms(CSN_DAYTONA_ASK_MS), on_limit, e) < 0)
            result = own.code ? own.code : csn_fail(&own, CSN_E_NO_MEMORY, "open a terminal");
    }
    if (result < 0)
        fail_start(e, result, err);
}

static void write_body(terminal_exec *e, const csn_exec_spec *spec, csn_buf *script, csn_buf *body)
{
    csn_jw w = CSN_JW_INIT(body, false);

    (void) csn_script_terminal(script, spec, e->name); /* sticky */
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "id", e->name);
    csn_jw_kint(&w, "cols", spec->cols);
    csn_jw_kint(&w, "rows", spec->rows);
    csn_jw_kbool(&w, "lazyStart", true);
    csn_jw_key(&w, "envs");
    csn_jw_begin_object(&w);
    csn_jw_key(&w, CSN_SCRIPT_VARIABLE);
    csn_jw_string(&w, script->data, script->len);
    csn_jw_end_object(&w);
    csn_jw_end_object(&w);
    if (script->error < 0)
        body->error = script->error;
}

static int make_terminal(terminal_exec *e, const csn_exec_spec *spec, csn_error *err)
{
    csn_daytona_box *box = csn_daytona_box_of(e->head.base.box);
    csn_auto(buf) csn_buf url = CSN_BUF_INIT, body = CSN_BUF_INIT, script = CSN_BUF_INIT;

    write_body(e, spec, &script, &body);
    csn_buf_printf(&url, "%s/process/pty", box->toolbox);
    csn_buf_printf(&e->url, "%s/%s", url.data, e->name);
    if (url.error < 0 || e->url.error < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "open a terminal");
    if (box->last == 0) { /* the sandbox stays when we go */
        e->last = csn_webline_new_last(&engine_of(e)->line);
        if (csn_webline_set_last(&engine_of(e)->line, e->last, "DELETE", e->url.data) < 0)
            return csn_fail(err, CSN_E_LOST, "open a terminal: caisson-remote is gone");
    }
    e->call = csn_command_post(e->head.base.box, "open a terminal", url.data, &body, true, on_made,
                               e, err);
    if (!e->call)
        return err->code;
    e->is_made = true;
    csn_list_append(&engine_of(e)->execs, &e->head.link);
    return CSN_OK;
}

/* ---- the table ---- */

static int send_any(csn_exec *exec, int number, bool whole_tree, csn_ending ending, csn_op *op,
                    csn_error *err)
{
    terminal_exec *e = of(exec);
    int r;

    if (e->is_killing || e->is_over)
        return csn_fail(err, CSN_E_STATE, "signal a command: it has ended");
    if (number != SIGKILL || !whole_tree)
        return csn_command_signal(exec->box, e->pid, number, whole_tree, op, CSN_OP_ERR(err));
    r = delete_terminal(e, op, CSN_OP_ERR(err));
    if (r >= 0) {
        e->is_killing = true;
        e->ending = ending;
        e->signal = SIGKILL;
    }
    return r;
}

/* What does not fit is offered again. */
static int write_keys(csn_exec *exec, const void *data, size_t len, size_t *ret_n, csn_error *err)
{
    terminal_exec *e = of(exec);
    size_t n = len < CSN_WEB_PIECE_MAX ? len : CSN_WEB_PIECE_MAX;
    int r = e->ws ? csn_websocket_send(e->ws, data, n) : -EPIPE;

    if (r < 0 && r != -EAGAIN)
        return csn_fail(err, CSN_E_STATE, "write to a terminal: it was closed");
    *ret_n = r < 0 ? 0 : n;
    return CSN_OK;
}

/* A terminal's input ends by a key. */
static int close_input(csn_exec *exec, csn_error *err)
{
    size_t n;

    return write_keys(exec, "\4", 1, &n, err);
}

static int send_size(terminal_exec *e, csn_error *err);

static void on_resized(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    terminal_exec *e = user;

    (void) a;
    (void) result; /* it may just have ended */
    (void) err;
    e->resizing = NULL;
    if (e->is_resize_due && !e->is_over)
        (void) send_size(e, NULL);
}

/* One at a time: the last one counts. */
static int send_size(terminal_exec *e, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT, body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    e->is_resize_due = e->resizing != NULL;
    if (e->resizing)
        return CSN_OK;
    csn_jw_begin_object(&w);
    csn_jw_kint(&w, "cols", e->cols);
    csn_jw_kint(&w, "rows", e->rows);
    csn_jw_end_object(&w);
    csn_buf_printf(&url, "%s/resize", e->url.data);
    if (url.error < 0)
        body.error = url.error;
    e->resizing = csn_command_post(e->head.base.box, "resize a terminal", url.data, &body, false,
                                   on_resized, e, err);
    return e->resizing ? CSN_OK : CSN_E_LOST;
}

static int resize(csn_exec *exec, uint16_t rows, uint16_t cols, csn_error *err)
{
    terminal_exec *e = of(exec);

    if (rows == e->rows && cols == e->cols)
        return CSN_OK;
    e->rows = rows;
    e->cols = cols;
    return send_size(e, CSN_OP_ERR(err));
}

static csn_kept_log *log_of(csn_exec *exec)
{
    return &of(exec)->log;
}

static void close_one(csn_exec *exec)
{
    terminal_exec *e = of(exec);
    csn_error err = { 0 };

    csn_api_call_cancel(e->call);
    csn_api_call_cancel(e->resizing);
    e->call = e->resizing = NULL;
    e->ws = csn_websocket_free(e->ws);
    csn_timer_cancel(&e->limit);
    if (!e->is_told) {
        fail_start(e, csn_fail(&err, CSN_E_CANCELLED, "run a command: the engine was closed"),
                   &err);
    } else {
        e->is_lost = !e->is_over;
        e->is_over = true;
        tell_end(e);
    }
}

static const csn_command_kind kind = { .free = drop,
                                       .signal = send_any,
                                       .write = write_keys,
                                       .close_stdin = close_input,
                                       .resize = resize,
                                       .log = log_of,
                                       .close = close_one };

int csn_terminal_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                       void *user, csn_exec **ret_exec, csn_error *err)
{
    terminal_exec *e = csn_calloc(1, sizeof(*e));
    csn_error own = { 0 };
    char hex[25];
    int r;

    if (!e)
        return csn_fail(err, CSN_E_NO_MEMORY, "run a command");
    e->head =
        (csn_daytona_command){ .base = { .box = csn_box_ref(box), .events = events, .user = user },
                               .kind = &kind };
    csn_list_init(&e->head.link);
    e->url = e->control = e->word = (csn_buf) CSN_BUF_INIT;
    csn_kept_log_init(&e->log);
    e->timeout_ms = spec->timeout_ms;
    e->rows = spec->rows;
    e->cols = spec->cols;
    r = csn_id_hex(hex, 12);
    if (r < 0) {
        r = csn_fail_sys(&own, r, "run a command");
    } else {
        (void) snprintf(e->name, sizeof(e->name), "caisson-%s", hex); /* fits */
        r = make_terminal(e, spec, &own);
    }
    if (r < 0) {
        if (err)
            *err = own;
        free_exec(e);
        return r;
    }
    *ret_exec = &e->head.base;
    return CSN_OK;
}
