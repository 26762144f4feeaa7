/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the log is dialled with follow=true; that gives what is there, then what comes, and closes when the
 * command has ended. Then the command's state is asked for, which has the exit code. A connection that broke is dialled again
 * and the bytes that were read already are passed over.
 *
 * A service that refuses the upgrade, or breaks it again and again with nothing new, is asked for the state and the whole log in turns. That is the same bytes again and
 * again, so the pause between two turns grows with the log: at most about 1 MiB a second, whatever its length. */
#include "tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "answer.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "call.h"
#include "websocket.h"

#define FOLLOW "/logs?follow=true"
/* How SDKs say in a browser that they tell the streams apart themselves. */
#define OFFER "X-Daytona-SDK-Version~0.218.0"

enum {
    POLL_MS = 250,
    POLL_BYTES_PER_MS = 1024,
    TRIES = 5, /* to dial again, with nothing new */
    AGAIN_MS = 200,
    PIECE = 32 * 1024,
    ALL_SAID = 1000 /* the code of a WebSocket's regular end */
};

struct csn_tail {
    csn_daytona *d;
    char *url;
    const csn_tail_events *events;
    void *user;
    csn_websocket *ws;
    csn_api_call *call;
    csn_timer again;
    int64_t n_read, n_skip;
    unsigned n_tries;
    bool is_polling, is_paused;
    bool is_whole; /* the service says that this was all of the log */
    bool is_over;  /* the command has ended; exit_code is known */
    int exit_code;
    int sink; /* polling: the log of this turn */
    int64_t n_sink;
    bool is_busy, is_dropped;
};

static void free_tail(csn_tail *t)
{
    csn_websocket_free(t->ws);
    csn_api_call_cancel(t->call);
    csn_timer_cancel(&t->again);
    csn_close(&t->sink);
    free(t->url);
    free(t);
}

csn_tail *csn_tail_free(csn_tail *t)
{
    if (t && t->is_busy)
        t->is_dropped = true;
    else if (t)
        free_tail(t);
    return NULL;
}

static void end(csn_tail *t, int result, const csn_error *err)
{
    t->ws = csn_websocket_free(t->ws);
    csn_timer_cancel(&t->again);
    t->is_busy = true;
    t->events->ended(result, t->exit_code, result < 0 ? err : NULL, t->user);
    t->is_busy = false;
    if (t->is_dropped)
        free_tail(t);
}

/* False: freed meanwhile. */
static bool give(csn_tail *t, const char *data, size_t len)
{
    t->n_read += (int64_t) len;
    t->n_tries = 0;
    t->is_busy = true;
    t->is_paused = t->events->bytes(data, len, t->user);
    t->is_busy = false;
    if (!t->is_dropped)
        return true;
    free_tail(t);
    return false;
}

/* ---- asking ---- */

static void ask_state(csn_tail *t);
static void dial(csn_tail *t);

static csn_api_call *ask(csn_tail *t, const char *what, const char *suffix, int sink,
                         csn_api_call_done *done, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = what, .method = "GET",
                          .max_bytes = sink < 0 ? CSN_WEB_BODY_MAX : CSN_TAIL_LOG_MAX,
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));

    if (csn_buf_printf(&url, "%s%s", t->url, suffix) < 0) {
        (void) csn_fail_sys(err, url.error, "%s", what);
        return NULL;
    }
    spec.url = url.data;
    spec.sink_fd = sink;
    spec.is_split = sink >= 0;
    return csn_api_call_start(t->d, &spec, done, t, err);
}

static void on_again(csn_timer *timer, void *user)
{
    csn_tail *t = user;

    (void) timer;
    if (t->is_polling)
        ask_state(t);
    else
        dial(t);
}

static void later(csn_tail *t, int64_t pause_ms)
{
    csn_error err = { 0 };

    if (csn_timer_set(t->d->base.loop, &t->again, csn_deadline_in_ms(pause_ms), on_again, t) < 0)
        end(t, csn_fail(&err, CSN_E_NO_MEMORY, "follow a command"), &err);
}

/* ---- polling: state, then log ---- */

/* What is new in this turn's log. */
static void give_new(csn_tail *t)
{
    csn_error err = { 0 };
    char data[PIECE];

    while (!t->is_paused && t->n_read < t->n_sink) {
        ssize_t n = pread(t->sink, data, sizeof(data), (off_t) t->n_read);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            end(t, csn_fail(&err, CSN_E_PROTOCOL, "read a command's log: it is shorter than told"),
                &err);
            return;
        }
        if (!give(t, data, (size_t) n))
            return;
    }
    if (t->is_paused)
        return;
    csn_close(&t->sink);
    if (t->is_over)
        end(t, CSN_OK, NULL);
    else
        later(t, POLL_MS + t->n_sink / POLL_BYTES_PER_MS);
}

static void on_log(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    csn_tail *t = user;

    t->call = NULL;
    if (result < 0) {
        end(t, result, err);
        return;
    }
    t->n_sink = a->end.n_bytes;
    give_new(t);
}

/* From here on, if the command goes on. */
static void poll_log(csn_tail *t)
{
    csn_error err = { 0 };

    t->is_polling = true;
    t->sink = memfd_create("csn-log", MFD_CLOEXEC);
    if (t->sink < 0)
        (void) csn_fail_sys(&err, -errno, "read a command's log");
    else
        t->call = ask(t, "read a command's log", "/logs", t->sink, on_log, &err);
    if (!t->call)
        end(t, err.code, &err);
}

static void on_state(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    csn_tail *t = user;
    csn_error own = { 0 };

    t->call = NULL;
    if (result >= 0) {
        result = csn_command_answer_parse(a->body, a->body_len, &t->is_over, &t->exit_code, &own);
        err = &own;
    }
    if (result < 0)
        end(t, result, err);
    else if (t->is_over && t->is_whole)
        end(t, CSN_OK, NULL);
    else if (t->is_polling || t->is_over || ++t->n_tries >= TRIES)
        poll_log(t);
    else
        later(t, (int64_t) AGAIN_MS << t->n_tries);
}

static void ask_state(csn_tail *t)
{
    csn_error err = { 0 };

    t->call = ask(t, "look at a command", "", -1, on_state, &err);
    if (!t->call)
        end(t, err.code, &err);
}

/* ---- following ---- */

static void on_opened(void *user)
{
    csn_tail *t = user;

    t->n_skip = t->n_read;
}

static bool on_piece(bool is_text, bool is_whole, const char *data, size_t len, void *user)
{
    csn_tail *t = user;
    size_t n = t->n_skip < (int64_t) len ? (size_t) t->n_skip : len;

    (void) is_text;
    (void) is_whole;
    t->n_skip -= (int64_t) n;
    return len > n && give(t, data + n, len - n) && t->is_paused;
}

static void on_refused(int status, void *user)
{
    csn_tail *t = user;

    t->ws = csn_websocket_free(t->ws);
    if (status >
        0) { /* it answered, but not with a WebSocket: a proxy on the way, an old service */
        t->is_polling = true;
        ask_state(t);
    } else {
        ask_state(t); /* says what is wrong; else it is dialled again */
    }
}

static void on_closed(int code, const char *reason, size_t len, void *user)
{
    csn_tail *t = user;

    (void) reason;
    (void) len;
    t->is_whole = code == ALL_SAID;
    t->ws = csn_websocket_free(t->ws);
    ask_state(t);
}

static const csn_websocket_events ws_events = {
    .opened = on_opened, .piece = on_piece, .refused = on_refused, .closed = on_closed
};

static void dial(csn_tail *t)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_error err = { 0 };

    if (csn_buf_printf(&url, "%s" FOLLOW, t->url) < 0)
        (void) csn_fail_sys(&err, url.error, "follow a command");
    else
        t->ws = csn_websocket_dial(&t->d->line, url.data, OFFER, &ws_events, t, &err);
    if (!t->ws)
        end(t, err.code, &err);
}

void csn_tail_resume(csn_tail *t)
{
    if (!t->is_paused)
        return;
    t->is_paused = false;
    if (t->ws)
        csn_websocket_resume(t->ws);
    else if (t->sink >= 0 && !t->call && !t->is_busy)
        give_new(t);
}

csn_tail *csn_tail_start(csn_daytona *d, const char *url, int64_t from,
                         const csn_tail_events *events, void *user, csn_error *err)
{
    csn_auto(buf) csn_buf follow = CSN_BUF_INIT;
    csn_tail *t = csn_calloc(1, sizeof(*t));

    if (t)
        *t = (csn_tail){ .d = d,
                         .url = csn_strdup(url),
                         .events = events,
                         .user = user,
                         .n_read = from,
                         .sink = -1 };
    if (!t || !t->url || csn_buf_printf(&follow, "%s" FOLLOW, url) < 0) {
        if (t)
            free_tail(t);
        (void) csn_fail(err, CSN_E_NO_MEMORY, "follow a command");
        return NULL;
    }
    t->ws = csn_websocket_dial(&d->line, follow.data, OFFER, &ws_events, t, err);
    if (!t->ws) {
        free_tail(t);
        return NULL;
    }
    return t;
}
