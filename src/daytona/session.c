/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a session of its own: made, given the command, followed, deleted.
 *
 * Theory of operation. The first line on the command's stdout says whether it runs, and as which process (script.h): then it
 * counts as started. Its log is followed to the end (tail.h). The time limit is kept here; who is to end is ended by deleting
 * the session, which ends everything in it; what was printed until then still comes. A session is deleted in every ending: by
 * us, or, in a sandbox that outlives this program, by the helper's last requests. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/json.h"
#include "base/time.h"
#include "call.h"
#include "command.h"
#include "input.h"
#include "marks.h"
#include "script.h"
#include "tail.h"

enum { BEFORE_WORD_MAX = 64 * 1024, DRAIN_MS = 2000, SESSION_ID_SIZE = 40 };

typedef struct session_exec session_exec;

/* A DELETE under way; outlives its command. */
typedef struct session_deletion {
    csn_daytona *d;
    session_exec *exec; /* NULL: gone, or not interested */
    csn_op *op;         /* may be NULL */
    uint32_t last;
} session_deletion;

struct session_exec {
    csn_daytona_command head;
    char id[SESSION_ID_SIZE];
    csn_buf url;    /* of the session */
    csn_buf script; /* until it was sent */
    uint32_t last;  /* 0: the sandbox's own is enough */
    csn_api_call *call;
    csn_tail *tail;
    csn_input *input; /* NULL: stdin is at its end */
    csn_marks marks;
    csn_buf word;    /* the line that is coming, before the start */
    size_t n_before; /* bytes before the word */
    csn_buf held;    /* of the log, while paused */
    csn_timer limit; /* until the word; of the command; after a kill: until the log's end */
    session_deletion *killer;
    int64_t started_ns, timeout_ms;
    int pid, sent_signal, exit_code;
    csn_ending ending; /* of a kill; CSN_ENDED_RUNNING: by a signal */
    bool is_made;      /* there may be a session */
    bool is_killing, is_paused, is_done, is_lost, is_told;
    bool is_dropped;
    unsigned n_busy; /* inside callbacks */
};

static csn_daytona *engine_of(const session_exec *e)
{
    return csn_daytona_of(e->head.base.box->backend);
}

/* ---- the session's end ---- */

static void on_killed(session_exec *e);

static void on_deleted(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    session_deletion *del = user;
    bool is_gone = result >= 0 || (a && a->end.failure == CSN_WEB_OK && a->end.status == 404);
    session_exec *e = del->exec;

    if (is_gone && del->last)
        (void) csn_webline_set_last(&del->d->line, del->last, NULL, NULL); /* else once more */
    if (e)
        e->killer = NULL;
    csn_op_end(del->op, is_gone ? CSN_OK : result, is_gone ? NULL : err);
    free(del);
    if (e)
        on_killed(e);
}

static int delete_session(session_exec *e, session_exec *waiter, csn_op *op, csn_error *err)
{
    csn_daytona *d = engine_of(e);
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "end a command", .method = "DELETE", .url = e->url.data,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));
    session_deletion *del = csn_calloc(1, sizeof(*del));

    if (!del)
        return csn_fail(err, CSN_E_NO_MEMORY, "end a command");
    *del = (session_deletion){ .d = d, .exec = waiter, .op = op, .last = e->last };
    if (!csn_api_call_start(d, &spec, on_deleted, del, err)) {
        free(del);
        return CSN_E_LOST;
    }
    e->is_made = false;
    if (waiter)
        waiter->killer = del;
    return CSN_OK;
}

static void free_exec(session_exec *e)
{
    if (e->killer)
        e->killer->exec = NULL;
    if (e->is_made && e->head.base.box->backend && !engine_of(e)->is_closing)
        (void) delete_session(e, NULL, NULL, NULL); /* lost: the last requests have it */
    csn_list_remove(&e->head.link);
    csn_api_call_cancel(e->call);
    csn_tail_free(e->tail);
    csn_input_free(e->input);
    csn_timer_cancel(&e->limit);
    csn_buf_free(&e->url);
    csn_buf_free(&e->script);
    csn_buf_free(&e->word);
    csn_buf_free(&e->held);
    csn_box_unref(e->head.base.box);
    free(e);
}

static csn_exec *drop(csn_exec *exec)
{
    session_exec *e = csn_container_of(exec, session_exec, head.base);

    e->is_dropped = true;
    if (e->n_busy == 0)
        free_exec(e);
    return NULL;
}

static void leave(session_exec *e)
{
    if (--e->n_busy == 0 && e->is_dropped)
        free_exec(e);
}

/* ---- telling ---- */

static void fail_start(session_exec *e, int result, const csn_error *err)
{
    e->n_busy++;
    csn_timer_cancel(&e->limit);
    e->is_told = true;
    if (!e->is_dropped)
        e->head.base.events->started(&e->head.base, result, err); /* drops it */
    leave(e);
}

static void fill_receipt(session_exec *e)
{
    csn_receipt *r = &e->head.base.receipt;

    csn_daytona_facts(r);
    r->wall_us = (csn_now_ns() - e->started_ns) / 1000;
    r->timeout_ms = e->timeout_ms;
    if (e->is_killing && e->ending != CSN_ENDED_RUNNING) {
        r->ended = e->ending; /* whose hand it was is known */
    } else if (e->is_killing || (e->sent_signal && e->exit_code == 128 + e->sent_signal)) {
        r->ended = CSN_ENDED_SIGNAL;
        r->signal = e->is_killing ? SIGKILL : e->sent_signal;
    } else if (e->is_lost) {
        r->ended = CSN_ENDED_LOST;
    } else {
        r->ended = CSN_ENDED_EXIT;
        r->exit_code = e->exit_code;
    }
}

/* The end, once everything was given out and, after a kill, everything is dead. */
static void tell_end(session_exec *e)
{
    if (!e->is_done || e->is_told || e->is_dropped || e->is_paused || e->held.len > 0 || e->killer)
        return;
    e->is_told = true;
    csn_timer_cancel(&e->limit);
    e->input = csn_input_free(e->input);
    fill_receipt(e);
    e->head.base.is_ended = true;
    e->n_busy++;
    e->head.base.events->ended(&e->head.base);
    leave(e);
}

static int start_kill(session_exec *e, csn_ending ending, csn_op *op, csn_error *err);

static void on_limit(csn_timer *timer, void *user)
{
    session_exec *e = user;
    csn_error err = { 0 };

    (void) timer;
    if (!e->head.base.is_started) {
        fail_start(e,
                   csn_fail(&err, CSN_E_TIMEOUT, "the service did not start the command in time"),
                   &err);
    } else if (!e->is_killing && start_kill(e, CSN_ENDED_TIMEOUT, NULL, &err) >= 0) {
        return;
    } else { /* killed, and its log does not end; or that could not be asked for */
        e->tail = csn_tail_free(e->tail);
        e->is_killing = e->is_done = true;
        tell_end(e);
    }
}

static void tell_started(session_exec *e, int pid)
{
    e->pid = pid;
    e->started_ns = csn_now_ns();
    csn_timer_cancel(&e->limit);
    if (e->timeout_ms > 0)
        (void) csn_timer_set(e->head.base.box->backend->loop, &e->limit,
                             csn_deadline_in_ms(e->timeout_ms), on_limit,
                             e); /* has memory: was set */
    e->head.base.is_started = true;
    e->head.base.id = ++csn_daytona_box_of(e->head.base.box)->n_execs;
    e->head.base.events->started(&e->head.base, CSN_OK, NULL);
}

/* ---- the log ---- */

/* Before the start: lines of stdout until the word. What is behind it in `text` is output. */
static void take_word(session_exec *e, const char *text, size_t len)
{
    csn_script_word word;
    csn_error err = { 0 };

    while (len > 0 && !e->head.base.is_started && !e->is_told) {
        const char *end = memchr(text, '\n', len);
        size_t n = end ? (size_t) (end - text) + 1 : len;

        e->n_before += n;
        if (e->n_before > BEFORE_WORD_MAX || csn_buf_append(&e->word, text, n) < 0) {
            fail_start(
                e,
                csn_fail(&err, CSN_E_PROTOCOL,
                         "the service's answer is not as agreed: no word of the command's start"),
                &err);
            return;
        }
        text += n;
        len -= n;
        if (!end)
            return;
        if (!csn_script_read(e->word.data, e->word.len, e->id, &word))
            csn_buf_clear(&e->word);
        else if (word.pid > 0)
            tell_started(e, word.pid);
        else
            fail_start(e, csn_fail(&err, word.code, "run a command: %s", word.why), &err);
    }
    if (len > 0 && e->head.base.is_started && !e->is_dropped)
        e->is_paused = e->head.base.events->output(&e->head.base, CSN_STDOUT, text, len) == 1;
}

/* Gives out as much as is wanted; returns how much that was. */
static size_t give_out(session_exec *e, const char *data, size_t len)
{
    size_t at = 0, n;
    const char *text;
    csn_stream stream;

    while (at < len && !e->is_paused && !e->is_dropped && !e->is_told) {
        at += csn_marks_next(&e->marks, data + at, len - at, &stream, &text, &n);
        if (n > 0 && e->head.base.is_started)
            e->is_paused = e->head.base.events->output(&e->head.base, stream, text, n) == 1;
        else if (n > 0 && stream == CSN_STDOUT)
            take_word(e, text, n);
    }
    return at;
}

static bool on_bytes(const char *data, size_t len, void *user)
{
    session_exec *e = user;
    size_t n;
    bool is_paused;

    e->n_busy++;
    n = give_out(e, data, len);
    if (n < len && !e->is_dropped && csn_buf_append(&e->held, data + n, len - n) < 0)
        csn_buf_clear(&e->held); /* no memory for one piece */
    is_paused = e->is_paused;
    leave(e);
    return is_paused;
}

static void on_tail_end(int result, int exit_code, const csn_error *err, void *user)
{
    session_exec *e = user;
    csn_error own = { 0 };

    e->tail = csn_tail_free(e->tail);
    if (!e->head.base.is_started) {
        if (result >= 0)
            result = csn_fail(&own, CSN_E_PROTOCOL,
                              "the service could not run the command (exit %d)", exit_code);
        if (!e->is_told)
            fail_start(e, result, own.code ? &own : err);
        return;
    }
    e->is_done = true;
    e->is_lost = result < 0;
    e->exit_code = exit_code;
    tell_end(e);
}

static const csn_tail_events tail_events = { .bytes = on_bytes, .ended = on_tail_end };

static void resume(csn_exec *exec)
{
    session_exec *e = csn_container_of(exec, session_exec, head.base);

    if (!e->is_paused || e->n_busy > 0) {
        e->is_paused = false; /* inside the callback that paused: it goes on when that returns */
        return;
    }
    e->is_paused = false;
    e->n_busy++;
    csn_buf_consume(&e->held, give_out(e, e->held.data, e->held.len));
    if (!e->is_paused && !e->is_dropped) {
        if (e->tail)
            csn_tail_resume(e->tail);
        tell_end(e);
    }
    leave(e);
}

/* ---- signals ---- */

/* The group at once, then whatever else is in the session, which is given a moment (SIGTERM first). */
static int start_kill(session_exec *e, csn_ending ending, csn_op *op, csn_error *err)
{
    csn_error own = { 0 };
    int r;

    (void) csn_command_signal(e->head.base.box, e->pid, SIGKILL, true, NULL,
                              &own); /* the DELETE gets those that it misses */
    r = delete_session(e, e, op, err ? err : &own);
    if (r < 0)
        return r;
    csn_timer_cancel(&e->limit);
    e->is_killing = true;
    e->ending = ending;
    return CSN_OK;
}

/* The session is gone, or can't be asked for: its log ends soon. */
static void on_killed(session_exec *e)
{
    if (e->is_done || !e->tail) {
        e->is_done = true;
        tell_end(e);
    } else if (!e->head.base.box->backend ||
               csn_timer_set(e->head.base.box->backend->loop, &e->limit,
                             csn_deadline_in_ms(DRAIN_MS), on_limit, e) < 0) {
        on_limit(&e->limit, e);
    }
}

static int send_any(csn_exec *exec, int number, bool whole_tree, csn_ending ending, csn_op *op,
                    csn_error *err)
{
    session_exec *e = csn_container_of(exec, session_exec, head.base);

    if (e->is_killing || e->is_done)
        return csn_fail(err, CSN_E_STATE, "signal a command: it has ended");
    if (number == SIGKILL && whole_tree)
        return start_kill(e, ending, op, err);
    e->sent_signal = number;
    return csn_command_signal(e->head.base.box, e->pid, number, whole_tree, op, CSN_OP_ERR(err));
}

/* ---- stdin ---- */

/* A command with half of its input must not go on as if that were all. */
static void on_input_failed(const csn_error *err, void *user)
{
    session_exec *e = user;

    if (!e->head.base.is_started && !e->is_told)
        fail_start(e, err->code, err);
    else if (!e->is_killing && !e->is_done)
        (void) start_kill(e, CSN_ENDED_LOST, NULL, NULL); /* then it never ends its reading */
}

static int write_stdin(csn_exec *exec, const void *data, size_t len, size_t *ret_n, csn_error *err)
{
    session_exec *e = csn_container_of(exec, session_exec, head.base);

    if (!e->input)
        return csn_fail(err, CSN_E_STATE, "write to a command's stdin: it has none");
    *ret_n = csn_input_write(e->input, data, len);
    return CSN_OK;
}

static int close_stdin(csn_exec *exec, csn_error *err)
{
    session_exec *e = csn_container_of(exec, session_exec, head.base);

    if (!e->input)
        return csn_fail(err, CSN_E_STATE, "close a command's stdin: it has none");
    csn_input_close(e->input);
    return CSN_OK;
}

/* Nobody follows it any more; the helper deletes what there is. */
static void close_one(csn_exec *exec)
{
    session_exec *e = csn_container_of(exec, session_exec, head.base);
    csn_error err = { 0 };

    (void) csn_fail(&err, CSN_E_CANCELLED, "run a command: the engine was closed");
    if (e->killer)
        e->killer->exec = NULL;
    e->killer = NULL;
    csn_api_call_cancel(e->call);
    e->call = NULL;
    e->tail = csn_tail_free(e->tail);
    e->input = csn_input_free(e->input);
    csn_timer_cancel(&e->limit);
    e->is_paused = false;
    csn_buf_clear(&e->held);
    if (!e->head.base.is_started && !e->is_told) {
        fail_start(e, err.code, &err);
    } else {
        e->is_lost = !e->is_done;
        e->is_done = true;
        tell_end(e);
    }
}

static const csn_command_kind kind = { .free = drop,
                                       .signal = send_any,
                                       .resume = resume,
                                       .write = write_stdin,
                                       .close_stdin = close_stdin,
                                       .close = close_one };

/* ---- starting ---- */

static void on_given(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    session_exec *e = user;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    char id[CSN_ANY_ID_SIZE];
    csn_error own = { 0 };

    e->call = NULL;
    if (result >= 0) {
        err = &own;
        result = csn_started_answer_parse(a->body, a->body_len, id, &own);
    }
    if (result >= 0 && (csn_buf_printf(&url, "%s/command/%s", e->url.data, id) < 0 ||
                        csn_timer_set(engine_of(e)->base.loop, &e->limit,
                                      csn_deadline_in_ms(CSN_DAYTONA_ASK_MS), on_limit, e) < 0))
        result = csn_fail(&own, CSN_E_NO_MEMORY, "run a command");
    if (result >= 0 && e->input)
        result = csn_input_begin(e->input, url.data, &own);
    if (result >= 0) {
        e->tail = csn_tail_start(engine_of(e), url.data, 0, &tail_events, e, &own);
        result = e->tail ? CSN_OK : own.code;
    }
    if (result < 0)
        fail_start(e, result, err);
}

static void on_made(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    session_exec *e = user;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT, body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    csn_error own = { 0 };

    e->call = NULL;
    if (result < 0 && a && a->end.failure == CSN_WEB_OK && a->end.status == 409)
        result = CSN_OK; /* the name is ours alone: it came twice */
    if (result < 0) {
        fail_start(e, result, err);
        return;
    }
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "command");
    csn_jw_string(&w, e->script.data, e->script.len);
    csn_jw_kbool(&w, "runAsync", true);
    csn_jw_kbool(&w, "suppressInputEcho", true);
    csn_jw_end_object(&w);
    csn_buf_printf(&url, "%s/exec", e->url.data);
    csn_buf_free(&e->script);
    if (url.error < 0)
        body.error = url.error;
    e->call = csn_command_post(e->head.base.box, "run a command", url.data, &body, false, on_given,
                               e, &own);
    if (!e->call)
        fail_start(e, own.code, &own);
}

static int make_session(session_exec *e, csn_error *err)
{
    csn_daytona *d = engine_of(e);
    csn_daytona_box *box = csn_daytona_box_of(e->head.base.box);
    csn_auto(buf) csn_buf url = CSN_BUF_INIT, body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_buf_printf(&url, "%s/process/session", box->toolbox);
    csn_buf_printf(&e->url, "%s/%s", url.data, e->id);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "sessionId", e->id);
    csn_jw_end_object(&w);
    if (url.error < 0 || e->url.error < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "run a command");
    if (box->last == 0) { /* the sandbox stays when we go */
        e->last = csn_webline_new_last(&d->line);
        if (csn_webline_set_last(&d->line, e->last, "DELETE", e->url.data) < 0)
            return csn_fail(err, CSN_E_LOST, "run a command: caisson-remote is gone");
    }
    e->call = csn_command_post(e->head.base.box, "make a session", url.data, &body, true, on_made,
                               e, err);
    if (!e->call)
        return err->code;
    e->is_made = true;
    csn_list_append(&d->execs, &e->head.link);
    return CSN_OK;
}

int csn_session_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                      void *user, csn_exec **ret_exec, csn_error *err)
{
    session_exec *e = csn_calloc(1, sizeof(*e));
    csn_error own = { 0 };
    char hex[25];
    int r;

    if (!e)
        return csn_fail(err, CSN_E_NO_MEMORY, "run a command");
    e->head =
        (csn_daytona_command){ .base = { .box = csn_box_ref(box), .events = events, .user = user },
                               .kind = &kind };
    csn_list_init(&e->head.link);
    e->url = e->script = e->word = e->held = (csn_buf) CSN_BUF_INIT;
    e->timeout_ms = spec->timeout_ms;
    r = csn_id_hex(hex, 12);
    if (r == 0) {
        (void) snprintf(e->id, sizeof(e->id), "caisson-%s", hex); /* fits */
        r = csn_script_write(&e->script, spec, e->id);
    }
    if (r < 0)
        r = csn_fail_sys(&own, r, "run a command");
    else if (spec->stdin_kind != CSN_STDIN_NONE &&
             !(e->input = csn_input_new(engine_of(e), spec, on_input_failed, e, &own)))
        r = own.code;
    else
        r = make_session(e, &own);
    if (r < 0) {
        if (err)
            *err = own;
        free_exec(e);
        return r;
    }
    *ret_exec = &e->head.base;
    return CSN_OK;
}
