/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/time.h"
#include "call.h"

enum { PIECE = 24 * 1024, HELD_MAX = 64 * 1024, FULL_PAUSE_MS = 300 };

struct csn_input {
    csn_daytona *d;
    csn_buf url; /* of the route; empty: not known yet */
    csn_stdin kind;
    const char *data; /* BYTES: what is left */
    size_t len;
    int fd; /* FD */
    csn_source *source;
    csn_buf held;    /* not sent yet */
    size_t n_flying; /* of it, in the request under way */
    csn_api_call *call;
    csn_timer again; /* the command has not read what it has */
    bool is_eof;     /* nothing more comes */
    bool is_end_sent, is_over;
    csn_input_failed *failed;
    void *user;
};

csn_input *csn_input_free(csn_input *in)
{
    if (!in)
        return NULL;
    csn_api_call_cancel(in->call);
    csn_timer_cancel(&in->again);
    in->source = csn_source_remove(in->source);
    csn_close(&in->fd);
    csn_buf_free(&in->url);
    csn_buf_free(&in->held);
    free(in);
    return NULL;
}

static void put_base64(csn_buf *out, const unsigned char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        unsigned bits = (unsigned) data[i] << 16 | (n > 1 ? (unsigned) data[i + 1] << 8 : 0) |
                        (n > 2 ? data[i + 2] : 0u);

        csn_buf_putc(out, digits[bits >> 18]);
        csn_buf_putc(out, digits[bits >> 12 & 63]);
        csn_buf_putc(out, n > 1 ? digits[bits >> 6 & 63] : '=');
        csn_buf_putc(out, n > 2 ? digits[bits & 63] : '=');
    }
}

/* ---- sending ---- */

static void go_on(csn_input *in);

/* Nothing more goes. The owner may free it in `failed`. */
static void give_up(csn_input *in, const csn_error *err)
{
    in->is_over = true;
    in->source = csn_source_remove(in->source);
    csn_buf_clear(&in->held);
    if (err)
        in->failed(err, in->user);
}

static void on_again(csn_timer *timer, void *user)
{
    (void) timer;
    go_on(user);
}

static void on_sent(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    csn_input *in = user;
    int status = a && a->end.failure == CSN_WEB_OK ? a->end.status : 0;

    in->call = NULL;
    if (result < 0 && (status == 422 || status == 429 || status == 503) &&
        csn_timer_set(in->d->base.loop, &in->again, csn_deadline_in_ms(FULL_PAUSE_MS), on_again,
                      in) == 0)
        return; /* it was not taken: the same once more */
    if (result < 0) {
        give_up(in,
                status == 410 || status == 404 ? NULL : err); /* it ended, or closed its stdin */
        return;
    }
    csn_buf_consume(&in->held, in->n_flying);
    in->is_end_sent = in->n_flying == 0;
    in->n_flying = 0;
    go_on(in);
}

/* A piece; or, when all were sent, the end. */
static void send_piece(csn_input *in)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT, line = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "write to a command's stdin", .method = "POST",
                          .url = in->url.data, .content_type = "application/json",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_ASK_MS));
    csn_error err = { 0 };

    in->n_flying = in->held.len < PIECE ? in->held.len : PIECE;
    if (in->n_flying > 0)
        put_base64(&line, (const unsigned char *) in->held.data, in->n_flying);
    else
        csn_buf_putc(&line, '.');
    csn_buf_putc(&line, '\n');
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "data", line.data);
    csn_jw_end_object(&w);
    spec.body = body.data;
    spec.body_len = body.len;
    if (line.error < 0 || body.error < 0)
        (void) csn_fail(&err, CSN_E_NO_MEMORY, "write to a command's stdin");
    else
        in->call = csn_api_call_start(in->d, &spec, on_sent, in, &err);
    if (!in->call)
        give_up(in, &err);
}

/* ---- where it comes from ---- */

static void take_bytes(csn_input *in)
{
    size_t room = HELD_MAX - in->held.len, n = in->len < room ? in->len : room;

    if (csn_buf_append(&in->held, in->data, n) < 0)
        return;
    in->data += n;
    in->len -= n;
    in->is_eof = in->len == 0;
}

static void on_readable(csn_source *src, uint32_t events, void *user)
{
    csn_input *in = user;

    (void) src;
    (void) events;
    in->source = csn_source_remove(in->source);
    go_on(in);
}

/* Regular files are always ready. */
static void take_fd(csn_input *in)
{
    struct pollfd p = { in->fd, POLLIN, 0 };
    ssize_t n;

    if (poll(&p, 1, 0) == 0) {
        if (!in->source &&
            csn_loop_add(in->d->base.loop, in->fd, EPOLLIN, on_readable, in, &in->source) < 0)
            in->is_eof = true; /* can't be waited for */
        return;
    }
    if (csn_buf_reserve(&in->held, PIECE) < 0)
        return;
    n = csn_read(in->fd, in->held.data + in->held.len, PIECE);
    if (n > 0)
        csn_buf_grew(&in->held, (size_t) n);
    else if (n != -EAGAIN)
        in->is_eof = true;
}

static void go_on(csn_input *in)
{
    if (in->call || in->is_over || in->is_end_sent || in->url.len == 0)
        return;
    if (in->held.len == 0 && in->kind == CSN_STDIN_BYTES)
        take_bytes(in);
    else if (in->held.len == 0 && in->kind == CSN_STDIN_FD && !in->is_eof)
        take_fd(in);
    if (in->held.len > 0 || in->is_eof)
        send_piece(in);
}

/* ---- outside ---- */

csn_input *csn_input_new(csn_daytona *d, const csn_exec_spec *spec, csn_input_failed *failed,
                         void *user, csn_error *err)
{
    csn_input *in = csn_calloc(1, sizeof(*in));

    if (in)
        *in = (csn_input){ .d = d,
                           .url = CSN_BUF_INIT,
                           .kind = spec->stdin_kind,
                           .data = spec->stdin_data,
                           .len = spec->stdin_len,
                           .fd = -1,
                           .held = CSN_BUF_INIT,
                           .failed = failed,
                           .user = user };
    if (in && spec->stdin_kind == CSN_STDIN_FD) {
        in->fd = csn_fd_dup(spec->stdin_fd, 0);
        if (in->fd < 0) {
            (void) csn_fail_sys(err, in->fd, "give a command a stdin");
            in->fd = -1;
            return csn_input_free(in);
        }
    }
    if (!in)
        (void) csn_fail(err, CSN_E_NO_MEMORY, "give a command a stdin");
    return in;
}

int csn_input_begin(csn_input *in, const char *command_url, csn_error *err)
{
    if (csn_buf_printf(&in->url, "%s/input", command_url) < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "give a command a stdin");
    go_on(in);
    return CSN_OK;
}

size_t csn_input_write(csn_input *in, const void *data, size_t len)
{
    size_t room = in->is_over || in->is_eof ? len : HELD_MAX - in->held.len;
    size_t n = len < room ? len : room;

    if (in->is_over || in->is_eof)
        return n; /* nobody reads it, as with a pipe's full end */
    if (csn_buf_append(&in->held, data, n) < 0)
        return 0;
    go_on(in);
    return n;
}

void csn_input_close(csn_input *in)
{
    in->is_eof = true;
    go_on(in);
}
