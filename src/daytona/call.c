/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: a call is one ask of the link at a time. It is sent again when nothing of it can have happened (nobody
 * listened; 429, which says "not now"), or when it changes nothing to do it twice (GET, DELETE, what csn_repeat says) and the
 * connection broke or the service was not well (502, 503, 504). All tries together have one deadline. */
#include "call.h"

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

enum { TRIES = 4, PAUSE_MS = 200, RATE_PAUSE_MS = 1000 };

struct csn_api_call {
    csn_list link; /* in csn_daytona.calls */
    csn_daytona *d;
    csn_api_call_spec spec; /* strings are our own */
    char *method, *url, *content_type, *body, *tail;
    int source_fd, sink_fd;
    csn_api_call_done *done;
    void *user;
    csn_exchange *ask;
    csn_timer timer;
    unsigned n_tries;
};

static void free_call(csn_api_call *call)
{
    csn_list_remove(&call->link);
    csn_timer_cancel(&call->timer);
    csn_close(&call->source_fd);
    csn_close(&call->sink_fd);
    free(call->method);
    free(call->url);
    free(call->content_type);
    free(call->body);
    free(call->tail);
    free(call);
}

void csn_api_call_cancel(csn_api_call *call)
{
    if (!call)
        return;
    csn_exchange_cancel(call->ask);
    free_call(call);
}

/* ---- what went wrong ---- */

int csn_code_of_status(int status)
{
    switch (status) {
    case 400:
    case 422:
        return CSN_E_INVALID;
    case 401:
    case 403:
        return CSN_E_DENIED;
    case 404:
    case 410:
        return CSN_E_NOT_FOUND;
    case 408:
    case 504:
        return CSN_E_TIMEOUT;
    case 409:
        return CSN_E_STATE;
    case 413:
        return CSN_E_TOO_LARGE;
    case 429:
        return CSN_E_BUSY;
    default:
        return status >= 500 ? CSN_E_SYSTEM : CSN_E_PROTOCOL;
    }
}

/* What is wrong comes first: a log line shows the beginning alone. */
static int fail_status(const csn_api_call *call, const csn_web_answer *a, csn_error *err)
{
    const char *url = call->d->url;
    int status = a->end.status, code = csn_code_of_status(status);
    char words[CSN_WORDS_SIZE];
    const char *sep;

    csn_error_words(a->body, a->body_len, call->d->secret, words);
    sep = words[0] ? ": " : "";
    if (status == 401)
        return csn_fail(err, code, "the key is not accepted by '%.80s' (HTTP 401%s%s)", url, sep,
                        words);
    if (status == 403)
        return csn_fail(err, code, "the key may not %s at '%.80s' (HTTP 403%s%s)", call->spec.what,
                        url, sep, words);
    if (status == 429)
        return csn_fail(err, code, "rate limit of '%.80s' exceeded (HTTP 429%s%s)", url, sep,
                        words);
    if (status >= 300 && status < 400)
        return csn_fail(
            err, code,
            "redirected elsewhere by '%.80s' (HTTP %d), where no key goes: set the URL of "
            "the service itself",
            url, status);
    if (words[0])
        return csn_fail(err, code, "%s (HTTP %d)", words, status);
    return csn_fail(err, code, "HTTP %d without a reason from '%.80s'", status, url);
}

static int fail_transport(const csn_api_call *call, const csn_web_answer *a, csn_error *err)
{
    const char *url = call->d->url, *what = call->spec.what;
    char words[CSN_WORDS_SIZE];

    csn_words_of(a->message, strlen(a->message), call->d->secret, words);
    switch ((csn_web_failure) a->end.failure) {
    case CSN_WEB_NO_NAME:
        return csn_fail(err, CSN_E_NOT_FOUND, "no such host: '%.80s' (%s)", url, words);
    case CSN_WEB_REFUSED:
        return csn_fail(err, CSN_E_SYSTEM, "no connection to '%.80s': %s", url, words);
    case CSN_WEB_TLS:
        return csn_fail(err, CSN_E_DENIED, "TLS of '%.80s' can't be trusted: %s", url, words);
    case CSN_WEB_TIMED_OUT:
        return csn_fail(err, CSN_E_TIMEOUT, "no answer in time from '%.80s' (%s)", url, what);
    case CSN_WEB_TOO_LARGE:
        return csn_fail(err, CSN_E_TOO_LARGE, "answer too large from '%.80s' (%s)", url, what);
    case CSN_WEB_CUT:
        return csn_fail(err, CSN_E_LOST, "connection broken by '%.80s' (%s): %s", url, what, words);
    case CSN_WEB_PROTOCOL:
        return csn_fail(err, CSN_E_PROTOCOL, "no proper HTTP from '%.80s' (%s): %s", url, what,
                        words);
    case CSN_WEB_SOURCE:
        return csn_fail(err, CSN_E_SYSTEM, "%s: reading or writing the local file failed", what);
    case CSN_WEB_OK:
    case CSN_WEB_FAILED:
        break;
    }
    return csn_fail(err, CSN_E_SYSTEM, "%s at '%.80s': %s", what, url, words);
}

/* Read whole, not mapped: the helper holds the file, too, and could cut it under us. */
int csn_api_read_sink(int fd, int64_t n_bytes, const char *what, csn_buf *out, csn_error *err)
{
    if (n_bytes < 0 || n_bytes > CSN_API_LARGE_MAX || csn_buf_reserve(out, (size_t) n_bytes) < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "%s", what);
    while ((int64_t) out->len < n_bytes) {
        ssize_t n = pread(fd, out->data + out->len, (size_t) n_bytes - out->len, (off_t) out->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return csn_fail(err, CSN_E_PROTOCOL, "%s: it is shorter than told", what);
        csn_buf_grew(out, (size_t) n);
    }
    return CSN_OK;
}

/* ---- again ---- */

static bool is_repeatable(const csn_api_call *call)
{
    bool is_safe = call->spec.repeat == CSN_REPEAT_SAFE ||
                   (call->spec.repeat == CSN_REPEAT_BY_METHOD &&
                    (strcmp(call->method, "GET") == 0 || strcmp(call->method, "DELETE") == 0));

    return is_safe && call->source_fd < 0 && call->sink_fd < 0;
}

/* How long to wait before the next try; < 0: there is none. */
static int64_t pause_before_next(const csn_api_call *call, const csn_web_answer *a)
{
    int64_t pause = (int64_t) PAUSE_MS << call->n_tries;
    int status = a->end.status;
    bool is_safe = false;

    if (a->end.failure == CSN_WEB_REFUSED)
        is_safe = true;
    else if (a->end.failure == CSN_WEB_CUT)
        is_safe = is_repeatable(call);
    else if (a->end.failure == CSN_WEB_OK && status == 429) {
        is_safe = true;
        pause = a->end.retry_after_ms >= 0 ? a->end.retry_after_ms : RATE_PAUSE_MS;
    } else if (a->end.failure == CSN_WEB_OK && status >= 502 && status <= 504) {
        is_safe = is_repeatable(call);
        if (a->end.retry_after_ms >= 0)
            pause = a->end.retry_after_ms;
    }
    if (call->source_fd >= 0 && a->end.failure != CSN_WEB_REFUSED)
        is_safe = false; /* it was read */
    if (!is_safe || call->n_tries + 1 >= TRIES ||
        csn_remaining_ns(call->spec.deadline_ns) <= pause * CSN_NS_PER_MS)
        return -1;
    return pause;
}

static int send_call(csn_api_call *call, csn_error *err);

static void finish(csn_api_call *call, const csn_web_answer *a, int result, const csn_error *err)
{
    csn_api_call_done *done = call->done;
    void *user = call->user;

    free_call(call);
    done(a, result, result < 0 ? err : NULL, user);
}

static void on_again(csn_timer *timer, void *user)
{
    csn_api_call *call = user;
    csn_error err = { 0 };
    int r;

    (void) timer;
    r = send_call(call, &err);
    if (r < 0)
        finish(call, NULL, r, &err);
}

static void on_answer(const csn_web_answer *a, void *user)
{
    csn_api_call *call = user;
    csn_error err = { 0 };
    int64_t pause;
    int r;

    call->ask = NULL;
    if (!a) {
        r = csn_fail(&err, call->d->is_closing ? CSN_E_CANCELLED : CSN_E_LOST, "%s: %s",
                     call->spec.what,
                     call->d->is_closing ? "the engine was closed" : "caisson-remote has ended");
        finish(call, NULL, r, &err);
        return;
    }
    if (a->end.failure == CSN_WEB_OK && a->end.status >= 200 && a->end.status < 300) {
        finish(call, a, CSN_OK, NULL);
        return;
    }
    pause = pause_before_next(call, a);
    if (pause >= 0 && csn_timer_set(call->d->base.loop, &call->timer, csn_deadline_in_ms(pause),
                                    on_again, call) == 0) {
        call->n_tries++;
        return;
    }
    r = a->end.failure == CSN_WEB_OK ? fail_status(call, a, &err) : fail_transport(call, a, &err);
    finish(call, a, r, &err);
}

static void end_closed(csn_api_call *call)
{
    csn_error err = { 0 };
    int r = csn_fail(&err, CSN_E_CANCELLED, "%s: the engine was closed", call->spec.what);

    finish(call, NULL, r, &err);
}

void csn_api_calls_end(csn_daytona *d)
{
    csn_list waiting = CSN_LIST_INIT(waiting);

    csn_list_foreach (node, &d->calls) {
        if (csn_list_entry(node, csn_api_call, link)->ask)
            continue;
        csn_list_remove(node);
        csn_list_append(&waiting, node);
    }
    for (csn_list *node; (node = csn_list_pop(&waiting));)
        end_closed(csn_list_entry(node, csn_api_call, link));
}

void csn_api_ignore(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    (void) a;
    (void) result;
    (void) err;
    (void) user;
}

/* ---- starting ---- */

static int send_call(csn_api_call *call, csn_error *err)
{
    const csn_api_call_spec *s = &call->spec;
    int64_t left = csn_remaining_ns(s->deadline_ns) / CSN_NS_PER_MS;
    csn_web_request req = {
        .ask = { .flags = (s->is_without_key ? 0u : (uint32_t) CSN_WEB_WITH_KEY) |
                          (s->must_finish ? (uint32_t) CSN_WEB_FINISH : 0u) |
                          (s->is_split ? (uint32_t) CSN_WEB_WITH_OPTION : 0u),
                 .last = s->last,
                 .timeout_ms = left > 0 ? left : 1,
                 .max_bytes = call->sink_fd >= 0 ? s->max_bytes : CSN_WEB_BODY_MAX,
                 .source_bytes = call->source_fd >= 0 ? s->source_bytes : 0 },
        .method = call->method,
        .url = call->url,
        .content_type = call->content_type ? call->content_type : "",
        .head = call->body ? call->body : "",
        .head_len = s->body_len,
        .tail = call->tail ? call->tail : "",
        .tail_len = s->tail_len,
    };

    call->ask =
        csn_webline_ask(&call->d->line, &req, call->source_fd, call->sink_fd, on_answer, call, err);
    return call->ask ? CSN_OK : err->code;
}

/* A body that no frame holds travels as a file. */
static int move_body(csn_api_call *call)
{
    int r;

    if (call->spec.body_len <= CSN_WEB_INLINE_MAX || call->source_fd >= 0)
        return 0;
    call->source_fd = memfd_create("csn-body", MFD_CLOEXEC);
    if (call->source_fd < 0)
        return -errno;
    r = csn_write_all(call->source_fd, call->body, call->spec.body_len);
    if (r < 0 || lseek(call->source_fd, 0, SEEK_SET) < 0)
        return r < 0 ? r : -errno;
    call->spec.source_bytes = (int64_t) call->spec.body_len;
    call->spec.body_len = 0;
    return 0;
}

static char *copy_bytes(const char *data, size_t len)
{
    char *copy = csn_malloc(len + 1);

    if (copy && len > 0)
        memcpy(copy, data, len);
    if (copy)
        copy[len] = '\0';
    return copy;
}

static int copy_spec(csn_api_call *call, const csn_api_call_spec *spec)
{
    call->spec = *spec;
    call->method = csn_strdup(spec->method);
    call->url = csn_strdup(spec->url);
    call->content_type = spec->content_type ? csn_strdup(spec->content_type) : NULL;
    call->body = copy_bytes(spec->body, spec->body_len);
    call->tail = copy_bytes(spec->tail, spec->tail_len);
    if (!call->method || !call->url || (spec->content_type && !call->content_type) || !call->body ||
        !call->tail)
        return -ENOMEM;
    if (spec->source_fd >= 0 && (call->source_fd = csn_fd_dup(spec->source_fd, 0)) < 0)
        return call->source_fd;
    if (spec->sink_fd >= 0 && (call->sink_fd = csn_fd_dup(spec->sink_fd, 0)) < 0)
        return call->sink_fd;
    return move_body(call);
}

csn_api_call *csn_api_call_start(csn_daytona *d, const csn_api_call_spec *spec,
                                 csn_api_call_done *done, void *user, csn_error *err)
{
    csn_error own = { 0 };
    csn_api_call *call = csn_calloc(1, sizeof(*call));
    int r;

    if (!call) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "%s", spec->what);
        return NULL;
    }
    *call = (csn_api_call){ .d = d, .source_fd = -1, .sink_fd = -1, .done = done, .user = user };
    csn_list_init(&call->link);
    r = copy_spec(call, spec);
    if (r < 0)
        r = csn_fail_sys(&own, r, "%s", spec->what);
    else
        r = send_call(call, &own);
    if (r < 0) {
        if (err)
            *err = own;
        call->source_fd = call->source_fd < 0 ? -1 : call->source_fd;
        call->sink_fd = call->sink_fd < 0 ? -1 : call->sink_fd;
        free_call(call);
        return NULL;
    }
    csn_list_append(&d->calls, &call->link);
    return call;
}
