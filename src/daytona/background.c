/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in the background: each has a session that stays, "caisson-command-N", so that any program finds it by its number.
 *
 * Theory of operation. A start asks for the sessions that there are, takes the next number (a name that is taken meanwhile: the
 * one after it), and goes on as session.c does; the first line says whether the command runs. Its log is followed into a
 * kept log from then on. Who opens one later asks for its state and for the log that there is; that is followed only when
 * somebody waits for more. A time limit is kept inside, by the command's starter: we may be gone by then. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "answer.h"
#include "answer_files.h"
#include "answer_sessions.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/time.h"
#include "call.h"
#include "command.h"
#include "kept_log.h"
#include "marks.h"
#include "script.h"
#include "tail.h"
#include "verb.h"

enum { WORD_LINE_MAX = 64 * 1024, NUMBERS_TRIED = 100 };

typedef struct background_exec {
    csn_daytona_command head;
    char name[CSN_SESSION_NAME_SIZE]; /* of the session */
    uint32_t number, n_tried;
    csn_buf sessions, url; /* URLs: of all sessions, of its command */
    csn_buf script;        /* of a start, until it was sent */
    csn_api_call *call;
    csn_tail *tail;
    int64_t n_raw; /* bytes of the raw log that were read */
    int sink;      /* of the log that is there, for one that is opened */
    csn_marks marks;
    csn_buf word; /* the line that is coming, before the word */
    csn_kept_log log;
    csn_timer limit; /* until the word */
    int64_t started_ns;
    int pid, sent_signal, exit_code;
    csn_ending ending; /* of a kill */
    bool is_opened, is_made, is_over, is_lost, is_told;
    bool is_dropped;
    unsigned n_busy;
} background_exec;

static background_exec *of(csn_exec *exec)
{
    return csn_container_of(exec, background_exec, head.base);
}

static csn_daytona *engine_of(const background_exec *e)
{
    return csn_daytona_of(e->head.base.box->backend);
}

/* ---- the end ---- */

static void free_exec(background_exec *e)
{
    csn_list_remove(&e->head.link);
    csn_api_call_cancel(e->call);
    csn_tail_free(e->tail);
    csn_timer_cancel(&e->limit);
    csn_close(&e->sink);
    csn_buf_free(&e->sessions);
    csn_buf_free(&e->url);
    csn_buf_free(&e->script);
    csn_buf_free(&e->word);
    csn_kept_log_done(&e->log);
    csn_box_unref(e->head.base.box);
    free(e);
}

static void leave(background_exec *e)
{
    if (--e->n_busy == 0 && e->is_dropped)
        free_exec(e);
}

/* A start that did not get that far leaves no session. */
static void delete_session(background_exec *e)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "end a command", .method = "DELETE",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));

    if (!e->is_made || e->is_opened || !e->head.base.box->backend || engine_of(e)->is_closing)
        return;
    e->is_made = false;
    if (csn_buf_printf(&url, "%s/%s", e->sessions.data, e->name) < 0)
        return;
    spec.url = url.data;
    (void) csn_api_call_start(engine_of(e), &spec, csn_api_ignore, NULL, NULL);
}

static csn_exec *drop(csn_exec *exec)
{
    background_exec *e = of(exec);

    if (!exec->is_started)
        delete_session(e);
    e->is_dropped = true;
    if (e->n_busy == 0)
        free_exec(e);
    return NULL;
}

static void fail_start(background_exec *e, int result, const csn_error *err)
{
    e->n_busy++;
    csn_timer_cancel(&e->limit);
    e->is_told = true;
    delete_session(e);
    if (!e->is_dropped)
        e->head.base.events->started(&e->head.base, result, err); /* drops it */
    leave(e);
}

static void fill_receipt(background_exec *e)
{
    csn_receipt *r = &e->head.base.receipt;

    csn_daytona_facts(r);
    r->wall_us = e->is_opened ? -1 : (csn_now_ns() - e->started_ns) / 1000;
    if (e->is_lost) {
        r->ended = CSN_ENDED_LOST;
    } else if (e->sent_signal && e->exit_code == 128 + e->sent_signal) {
        r->ended = e->ending != CSN_ENDED_RUNNING ? e->ending : CSN_ENDED_SIGNAL;
        r->signal = e->sent_signal;
    } else {
        r->ended = CSN_ENDED_EXIT;
        r->exit_code = e->exit_code;
    }
}

/* Everything is in the log. */
static void tell_end(background_exec *e)
{
    if (!e->is_over || e->head.base.is_ended || e->is_dropped)
        return;
    fill_receipt(e);
    e->log.is_end = true;
    e->head.base.is_ended = true;
    e->n_busy++;
    e->head.base.events->ended(&e->head.base);
    if (!e->is_dropped)
        csn_kept_log_wake(&e->log);
    leave(e);
}

/* ---- its output ---- */

static void on_limit(csn_timer *timer, void *user)
{
    csn_error err = { 0 };

    (void) timer;
    fail_start(user, csn_fail(&err, CSN_E_TIMEOUT, "the service did not start the command in time"),
               &err);
}

static void tell_started(background_exec *e, int pid)
{
    e->pid = pid;
    e->started_ns = csn_now_ns();
    csn_timer_cancel(&e->limit);
    e->head.base.is_started = true;
    e->head.base.id = e->number;
    if (e->is_opened)
        return; /* told when all of its log is there */
    e->is_told = true;
    e->head.base.events->started(&e->head.base, CSN_OK, NULL);
}

/* Lines of stdout until the word; what is behind it in `text` is output. Returns how much was taken. */
static size_t take_word(background_exec *e, const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len);
    size_t n = end ? (size_t) (end - text) + 1 : len;
    csn_script_word word;
    csn_error err = { 0 };

    if (e->word.len + n > WORD_LINE_MAX || csn_buf_append(&e->word, text, n) < 0) {
        fail_start(
            e,
            csn_fail(&err, CSN_E_PROTOCOL,
                     "the service's answer is not as agreed: no word of the command's start"),
            &err);
        return len;
    }
    if (!end)
        return n;
    if (!csn_script_read(e->word.data, e->word.len, CSN_SCRIPT_BACKGROUND, &word)) {
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

static void keep(background_exec *e, csn_stream stream, const char *text, size_t len)
{
    while (len > 0 && !e->head.base.is_started && !e->is_told && stream == CSN_STDOUT) {
        size_t n = take_word(e, text, len);

        text += n;
        len -= n;
    }
    if (len > 0 && e->head.base.is_started && !e->is_dropped &&
        csn_kept_log_put(&e->log, stream, text, len) < 0)
        e->is_lost = true; /* no memory for it */
}

static void take_raw(background_exec *e, const char *data, size_t len)
{
    const char *text;
    csn_stream stream;
    size_t n;

    e->n_raw += (int64_t) len;
    for (size_t at = 0; at < len && !e->is_dropped;) {
        at += csn_marks_next(&e->marks, data + at, len - at, &stream, &text, &n);
        keep(e, stream, text, n);
    }
}

static bool on_bytes(const char *data, size_t len, void *user)
{
    background_exec *e = user;

    e->n_busy++;
    take_raw(e, data, len);
    if (!e->is_dropped && e->head.base.is_started)
        csn_kept_log_wake(&e->log);
    leave(e);
    return false;
}

static void on_tail_end(int result, int exit_code, const csn_error *err, void *user)
{
    background_exec *e = user;
    csn_error own = { 0 };

    e->tail = csn_tail_free(e->tail);
    if (e->head.base.is_started) {
        e->is_over = true;
        e->is_lost = e->is_lost || result < 0;
        e->exit_code = exit_code;
        tell_end(e);
        return;
    }
    if (result >= 0)
        result = csn_fail(&own, CSN_E_PROTOCOL, "the service could not run the command (exit %d)",
                          exit_code);
    if (!e->is_told)
        fail_start(e, result, own.code ? &own : err);
}

static const csn_tail_events tail_events = { .bytes = on_bytes, .ended = on_tail_end };

/* From where the log was read to. */
static int follow(background_exec *e, csn_error *err)
{
    e->tail = csn_tail_start(engine_of(e), e->url.data, e->n_raw, &tail_events, e, CSN_OP_ERR(err));
    return e->tail ? CSN_OK : CSN_E_LOST;
}

/* Of one that was opened: somebody wants to know more than there was. */
static void on_wanted(void *user)
{
    background_exec *e = user;

    if (e->tail || e->is_over || !e->head.base.is_started || !e->head.base.box->backend)
        return;
    (void) follow(e, NULL); /* else whoever waits does so until the engine ends */
}

/* ---- starting ---- */

static void on_given(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    background_exec *e = user;
    char id[CSN_ANY_ID_SIZE];
    csn_error own = { 0 };

    e->call = NULL;
    if (result >= 0) {
        err = &own;
        result = csn_started_answer_parse(a->body, a->body_len, id, &own);
    }
    if (result >= 0 &&
        (csn_buf_printf(&e->url, "%s/%s/command/%s", e->sessions.data, e->name, id) < 0 ||
         csn_timer_set(engine_of(e)->base.loop, &e->limit, csn_deadline_in_ms(CSN_DAYTONA_ASK_MS),
                       on_limit, e) < 0))
        result = csn_fail(&own, CSN_E_NO_MEMORY, "run a command");
    if (result >= 0)
        result = follow(e, &own);
    if (result < 0)
        fail_start(e, result, err);
}

static int make_session(background_exec *e, csn_error *err);

static void on_made(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    background_exec *e = user;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT, body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    csn_error own = { 0 };

    e->call = NULL;
    if (result < 0 && a && a->end.failure == CSN_WEB_OK && a->end.status == 409 &&
        ++e->n_tried < NUMBERS_TRIED) {
        e->number++; /* somebody was faster */
        result = make_session(e, &own);
        if (result >= 0)
            return;
        err = &own;
    }
    if (result < 0) {
        fail_start(e, result, err);
        return;
    }
    e->is_made = true;
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "command");
    csn_jw_string(&w, e->script.data, e->script.len);
    csn_jw_kbool(&w, "runAsync", true);
    csn_jw_kbool(&w, "suppressInputEcho", true);
    csn_jw_end_object(&w);
    csn_buf_printf(&url, "%s/%s/exec", e->sessions.data, e->name);
    csn_buf_free(&e->script);
    if (url.error < 0)
        body.error = url.error;
    e->call = csn_command_post(e->head.base.box, "run a command", url.data, &body, true, on_given,
                               e, &own);
    if (!e->call)
        fail_start(e, own.code, &own);
}

static int make_session(background_exec *e, csn_error *err)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_session_name(e->number, e->name);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "sessionId", e->name);
    csn_jw_end_object(&w);
    e->call = csn_command_post(e->head.base.box, "make a session", e->sessions.data, &body, true,
                               on_made, e, err);
    return e->call ? CSN_OK : err->code;
}

/* The next number. */
static void on_sessions(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    background_exec *e = user;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(CSN_API_LARGE_MAX + 1);
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;
    csn_session_dto dto;
    csn_error own = { 0 };

    e->call = NULL;
    if (result >= 0) {
        err = &own;
        result = csn_api_read_sink(e->sink, a->end.n_bytes, "list sessions", &text, &own);
    }
    csn_close(&e->sink);
    if (result >= 0)
        result = csn_array_answer_parse(text.data, text.len, NULL, &doc, &items, &own);
    for (size_t i = 0; result >= 0 && i < csn_json_count(items); i++)
        if (csn_session_read(csn_json_at(items, i), &dto) && dto.number > e->number)
            e->number = dto.number;
    e->number++;
    if (result >= 0)
        result = make_session(e, &own);
    if (result < 0)
        fail_start(e, result, err);
}

static int ask(background_exec *e, const char *what, const char *url, int sink,
               csn_api_call_done *done, csn_error *err)
{
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = what, .method = "GET", .url = url,
                          .max_bytes = sink >= 0 ? CSN_TAIL_LOG_MAX : CSN_WEB_BODY_MAX,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));

    spec.sink_fd = sink;
    spec.is_split = sink >= 0;
    e->call = csn_api_call_start(engine_of(e), &spec, done, e, err);
    return e->call ? CSN_OK : err->code;
}

static int ask_into_memory(background_exec *e, const char *what, const char *url,
                           csn_api_call_done *done, csn_error *err)
{
    e->sink = memfd_create("csn-answer", MFD_CLOEXEC);
    return e->sink < 0 ? csn_fail_sys(err, -errno, "%s", what)
                       : ask(e, what, url, e->sink, done, err);
}

/* ---- opening ---- */

/* What is there, as the log of one that was followed from its beginning. */
static int read_log(background_exec *e, int64_t n_bytes, csn_error *err)
{
    char data[16 * 1024];

    while (e->n_raw < n_bytes && !e->is_told) {
        ssize_t n = pread(e->sink, data, sizeof(data), (off_t) e->n_raw);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || n > n_bytes - e->n_raw)
            return csn_fail(err, CSN_E_PROTOCOL, "read a command's log: it is shorter than told");
        take_raw(e, data, (size_t) n);
    }
    csn_close(&e->sink);
    return CSN_OK;
}

static void on_log(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    background_exec *e = user;
    csn_error own = { 0 };

    e->call = NULL;
    e->n_busy++;
    if (result >= 0) {
        err = &own;
        result = read_log(e, a->end.n_bytes, &own);
    }
    if (result >= 0 && !e->head.base.is_started && !e->is_told)
        result = csn_fail(&own, CSN_E_STATE, "command %u is only just starting", e->number);
    if (result < 0 && !e->is_told) {
        fail_start(e, result, err);
    } else if (!e->is_told) {
        e->is_told = true;
        if (e->is_over) {
            fill_receipt(e);
            e->log.is_end = e->head.base.is_ended = true;
        }
        e->head.base.events->started(&e->head.base, CSN_OK, NULL);
    }
    leave(e);
}

static void on_session(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    background_exec *e = user;
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    csn_session_dto dto;
    csn_error own = { 0 };

    e->call = NULL;
    if (result == CSN_E_NOT_FOUND)
        result = csn_fail(&own, CSN_E_NOT_FOUND, "there is no background command %u", e->number);
    else if (result >= 0)
        result = csn_session_answer_parse(a->body, a->body_len, &doc, &dto, &own);
    if (own.code)
        err = &own;
    if (result >= 0) {
        e->is_over = dto.is_ended;
        e->exit_code = dto.exit_code;
        csn_buf_printf(&e->url, "%s/%s/command/%s", e->sessions.data, e->name, dto.command_id);
        csn_buf_printf(&url, "%s/logs", e->url.data);
        err = &own;
        result = url.error < 0 || e->url.error < 0
                     ? csn_fail(&own, CSN_E_NO_MEMORY, "read a command's log")
                     : ask_into_memory(e, "read a command's log", url.data, on_log, &own);
    }
    if (result < 0)
        fail_start(e, result, err);
}

/* ---- the table ---- */

static int send_any(csn_exec *exec, int number, bool whole_tree, csn_ending ending, csn_op *op,
                    csn_error *err)
{
    background_exec *e = of(exec);

    if (e->is_over)
        return csn_fail(err, CSN_E_STATE, "signal a command: it has ended");
    e->sent_signal = number;
    e->ending = ending;
    return csn_command_signal(exec->box, e->pid, number, whole_tree, op, CSN_OP_ERR(err));
}

static csn_kept_log *log_of(csn_exec *exec)
{
    return &of(exec)->log;
}

/* It goes on without us. */
static void close_one(csn_exec *exec)
{
    background_exec *e = of(exec);
    csn_error err = { 0 };

    csn_api_call_cancel(e->call);
    e->call = NULL;
    e->tail = csn_tail_free(e->tail);
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

static const csn_command_kind kind = {
    .free = drop, .signal = send_any, .log = log_of, .close = close_one
};

static background_exec *new_exec(csn_box *box, const csn_exec_events *events, void *user,
                                 csn_error *err)
{
    background_exec *e = csn_calloc(1, sizeof(*e));

    if (!e) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "run a command");
        return NULL;
    }
    e->head =
        (csn_daytona_command){ .base = { .box = csn_box_ref(box), .events = events, .user = user },
                               .kind = &kind };
    csn_list_init(&e->head.link);
    e->sessions = e->url = e->script = e->word = (csn_buf) CSN_BUF_INIT;
    e->sink = -1;
    csn_kept_log_init(&e->log);
    e->log.user = e;
    csn_buf_printf(&e->sessions, "%s/process/session", csn_daytona_box_of(box)->toolbox);
    return e;
}

static int begin(background_exec *e, int result, const csn_error *why, csn_exec **ret_exec,
                 csn_error *err)
{
    if (result < 0) {
        if (err)
            *err = *why;
        free_exec(e);
        return result;
    }
    csn_list_append(&engine_of(e)->execs, &e->head.link);
    *ret_exec = &e->head.base;
    return CSN_OK;
}

int csn_background_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                         void *user, csn_exec **ret_exec, csn_error *err)
{
    csn_error own = { 0 };
    background_exec *e = new_exec(box, events, user, err);
    int r;

    if (!e)
        return CSN_E_NO_MEMORY;
    r = csn_script_background(&e->script, spec);
    if (r < 0 || e->sessions.error < 0)
        r = csn_fail(&own, CSN_E_NO_MEMORY, "run a command");
    else
        r = ask_into_memory(e, "list sessions", e->sessions.data, on_sessions, &own);
    return begin(e, r, &own, ret_exec, err);
}

int csn_daytona_attach(csn_box *box, uint32_t id, const csn_exec_events *events, void *user,
                       csn_exec **ret_exec, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_error own = { 0 };
    background_exec *e;
    int r = csn_daytona_box_check(box, err);

    if (r < 0)
        return r;
    if (!csn_daytona_box_of(box)->toolbox)
        return csn_fail(err, CSN_E_STATE, "sandbox '%s' is not started", box->wish.id);
    if (!(e = new_exec(box, events, user, err)))
        return CSN_E_NO_MEMORY;
    e->is_opened = true;
    e->log.wanted = on_wanted;
    e->number = id;
    csn_session_name(id, e->name);
    csn_buf_printf(&url, "%s/%s", e->sessions.data, e->name);
    r = url.error < 0 ? csn_fail(&own, CSN_E_NO_MEMORY, "open a command")
                      : ask(e, "look at a session", url.data, -1, on_session, &own);
    return begin(e, r, &own, ret_exec, err);
}

/* ---- all of them ---- */

typedef struct sessions_verb {
    csn_api_verb base;
    csn_process_list_fn fn;
    void *user;
} sessions_verb;

static void tell_one(sessions_verb *s, const csn_session_dto *dto)
{
    csn_script_title title = { .text = "" };
    csn_process_info info = { .id = dto->number, .is_background = 1, .is_running = !dto->is_ended };

    csn_script_read_title(dto->command, dto->command_len, &title);
    info.command = title.text;
    info.started_ms = title.started_ms;
    csn_daytona_facts(&info.receipt);
    info.receipt.wall_us = -1;
    if (dto->is_ended) {
        info.receipt.ended = CSN_ENDED_EXIT;
        info.receipt.exit_code = dto->exit_code;
    }
    s->fn(&info, s->user);
}

static int on_all_sessions(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    sessions_verb *s = csn_container_of(v, sessions_verb, base);
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;
    csn_session_dto dto;

    if (result >= 0)
        result = csn_array_answer_parse(a->body, a->body_len, NULL, &doc, &items, err);
    for (size_t i = 0; result >= 0 && i < csn_json_count(items); i++) {
        if (!csn_session_read(csn_json_at(items, i), &dto))
            continue;
        csn_api_op_hold(v->op); /* who is told may drop it */
        tell_one(s, &dto);
        if (!csn_api_verb_release(v, err))
            result = CSN_E_CANCELLED;
    }
    return result;
}

int csn_daytona_list_execs(csn_box *box, csn_process_list_fn fn, void *user, csn_op *op,
                           csn_error *err)
{
    csn_api_ask all = { .method = "GET", .step = on_all_sessions, .is_large = true };
    sessions_verb *s;

    err = CSN_OP_ERR(err);
    s = csn_api_verb_new(NULL, box, sizeof(*s), "list commands", CSN_DAYTONA_ASK_MS, op, err);
    if (!s)
        return err->code;
    s->fn = fn;
    s->user = user;
    return csn_api_verb_begin(&s->base,
                              csn_api_verb_ask_toolbox(&s->base, "/process/session", all, err));
}
