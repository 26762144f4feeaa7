/* SPDX-License-Identifier: Apache-2.0 */
/* A request on its way to a port of a sandbox, and the answer on its way back.
 *
 * Theory of operation. The engine connects from inside of the sandbox and hands us the socket; each request has one of its
 * own. Then two streams flow at their own pace: the request's body there, the answer's back, each read only as fast as its
 * other end takes it. Who listens in the sandbox is not our friend: its answer's head is parsed strictly, its bytes are
 * never more than framed anew, and it is called with MSG_DONTWAIT throughout, since it may hold the same socket. A passage
 * ends with the answer, with the client, or with the socket. */
#include "server/preview.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <caisson/files.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/time.h"
#include "server/req_private.h"

enum {
    HEAD_MS = 60 * 1000, /* until the answer begins, counted from the last byte of the request */
    INTERIM_MAX = 8,     /* answers of 1xx before it */
    PIECE = 128 << 10
};

typedef struct passage {
    csn_req *req;
    csn_op *connecting; /* NULL: connected */
    csn_loop *loop;
    unsigned port;
    int fd; /* -1: not yet connected */
    csn_source *src;
    uint32_t events;
    csn_timer due;
    int64_t due_mark;   /* bytes sent when it was set */
    csn_http_out out;   /* to the port */
    csn_buf in;         /* an answer's head so far */
    csn_http_scan scan; /* and how far it was looked at */
    csn_http_body body; /* of the answer */
    unsigned n_interim;
    bool is_chunked;     /* the request's body, as we send it */
    bool is_upgrade;     /* was asked for */
    bool is_paused;      /* the request's body waits for the port */
    bool is_complete;    /* the request was taken off the client's hands */
    bool is_mute;        /* the port takes no more */
    bool is_answering;   /* the answer's head is through */
    bool is_until_close; /* its body ends with the connection */
    bool is_full;        /* the client does not take it at present */
} passage;

static void free_passage(passage *p)
{
    const struct linger none = { 0 };

    csn_timer_cancel(&p->due);
    csn_source_remove(p->src);
    if (p->fd >= 0) /* whoever else holds it must not make us wait */
        (void) setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    csn_close(&p->fd);
    csn_http_out_done(&p->out);
    csn_buf_free(&p->in);
    free(p);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void on_gone(csn_req *req, void *user)
{
    passage *p = user;

    (void) req;
    csn_op_drop(p->connecting);
    free_passage(p);
}

/* No answer came, or none that could be passed on. */
static void refuse(passage *p, int status, const char *what)
{
    csn_req *req = p->req;
    unsigned port = p->port;

    free_passage(p);
    csn_req_error(req, status, NULL, "Port %u of the sandbox: %s", port, what);
}

static void complete(passage *p)
{
    csn_req *req = p->req;

    free_passage(p);
    csn_req_end(req);
}

/* It ended before its end: the client shall see that. */
static void cut(passage *p)
{
    csn_req *req = p->req;

    if (!p->is_answering) {
        refuse(p, 502, "the connection was closed without an answer");
        return;
    }
    free_passage(p);
    csn_req_abort(req);
}

static void on_due(csn_timer *timer, void *user)
{
    passage *p = user;

    (void) timer;
    if (p->is_answering) {
        cut(p);
        return;
    }
    if (!p->is_complete && p->out.n_sent != p->due_mark) {
        p->due_mark = p->out.n_sent; /* a large body is on its way */
        (void) csn_timer_set(p->loop, &p->due, csn_deadline_in_ms(HEAD_MS), on_due, p);
        return;
    }
    refuse(p, 504, "no answer came in time");
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void on_event(csn_source *src, uint32_t events, void *user);

/* What the socket is waited for follows from the state. Without a source: it has hung up, and we know. */
static void watch(passage *p)
{
    uint32_t events = 0;
    int r = 0;

    if (!p->is_full)
        events |= EPOLLIN;
    if (!p->is_mute && !csn_http_out_is_empty(&p->out))
        events |= EPOLLOUT;
    if (!p->src && !p->is_full)
        r = csn_loop_add(p->loop, p->fd, events, on_event, p, &p->src);
    else if (p->src && events != p->events)
        r = csn_source_mod(p->src, events);
    p->events = events;
    if (r < 0) /* no memory: its end must still be seen */
        (void) csn_timer_set(p->loop, &p->due, csn_now_ns(), on_due, p);
}

/* ---- there ------------------------------------------------------------------------------------------------------- */

static void send_bytes(passage *p, const struct iovec *iov, int n_iov)
{
    if (!p->is_mute && csn_http_out_write(&p->out, p->fd, iov, n_iov, false) < 0)
        p->is_mute = true; /* what it said before it closed is still to be read */
    if (p->is_mute)
        csn_http_out_done(&p->out);
}

static void send_chunk(passage *p, const char *data, size_t len)
{
    char size[24];
    struct iovec iov[3] = { { size, (size_t) snprintf(size, sizeof(size), "%zx\r\n", len) },
                            { (void *) (uintptr_t) data, len },
                            { (void *) (uintptr_t) "\r\n", 2 } };

    send_bytes(p, iov, 3);
}

static bool on_body(csn_req *req, const char *data, size_t len, void *user)
{
    passage *p = user;
    struct iovec iov = { (void *) (uintptr_t) data, len };

    (void) req;
    if (p->is_chunked)
        send_chunk(p, data, len); /* the empty one is the last */
    else if (len > 0)
        send_bytes(p, &iov, 1);
    p->is_complete = len == 0;
    p->is_paused = p->out.n_bytes > CSN_OUT_MARK;
    watch(p);
    return !p->is_paused;
}

static void flush(passage *p)
{
    if (csn_http_out_flush(&p->out, p->fd) < 0) {
        p->is_mute = true;
        csn_http_out_done(&p->out);
    }
    if (p->is_paused && p->out.n_bytes <= CSN_OUT_MARK / 2) {
        p->is_paused = false;
        csn_req_body_resume(p->req);
    }
}

/* ---- back -------------------------------------------------------------------------------------------------------- */

static void on_drain(csn_req *req, void *user)
{
    passage *p = user;

    (void) req;
    p->is_full = false;
    watch(p);
}

/* Bytes of the answer's body. The passage may be over after. */
static void pass_on(passage *p, csn_str in)
{
    csn_str piece;
    bool has_room = true;

    if (p->is_until_close && in.len > 0)
        has_room = csn_req_write(p->req, in.data, in.len);
    while (!p->is_until_close && in.len > 0 && !csn_http_body_is_done(&p->body)) {
        ssize_t n = csn_http_body_take(&p->body, in.data, in.len, &piece);

        if (n < 0) {
            cut(p);
            return;
        }
        if (piece.len > 0)
            has_room = csn_req_write(p->req, piece.data, piece.len);
        in = csn_str_n(in.data + n, in.len - (size_t) n);
    }
    if (!p->is_until_close && csn_http_body_is_done(&p->body)) {
        complete(p); /* what follows it is nobody's answer */
        return;
    }
    p->is_full = !has_room;
    watch(p);
}

static void begin_tunnel(passage *p)
{
    p->is_until_close = true;
    p->is_chunked = false;
    csn_http_body_endless(&p->req->conn->body);
    csn_req_body_start(p->req, on_body, p);
}

/* False: it can't be passed on, and was refused. */
static bool begin_answer(passage *p, const csn_http_answer *a)
{
    csn_req *req = p->req;
    const bool is_empty = a->status == 204 || a->status == 304; /* whatever was asked */

    if (a->status == 101 && (!p->is_upgrade || !a->head.is_upgrade)) {
        refuse(p, 502, "it switched to another protocol, unasked");
        return false;
    }
    csn_preview_put_lines(req, a, &req->lines);
    if (req->lines.error < 0) {
        csn_buf_free(&req->lines);
        refuse(p, 502, "the answer's headers are too large");
        return false;
    }
    csn_timer_cancel(&p->due);
    p->is_answering = true;
    p->is_until_close = a->is_until_close;
    req->is_passed_on = true;
    req->is_tunnel = a->status == 101;
    csn_req_on_drain(req, on_drain, p);
    csn_req_begin(req, a->status, NULL,
                  is_empty         ? 0
                  : req->is_tunnel ? -1
                                   : a->head.content_length);
    csn_http_body_init(&p->body, a->is_bodiless ? &(csn_http_head){ 0 } : &a->head);
    if (req->is_tunnel)
        begin_tunnel(p);
    return true;
}

/* One head off the front of p->in: 1, 0: more bytes are needed, -1: the passage is over. */
static int take_head(passage *p, csn_http_answer *ret)
{
    ssize_t n = csn_http_scan_head(&p->scan, p->in.data, p->in.len);

    if (n == 0)
        return 0;
    if (n < 0 ||
        !csn_http_parse_answer(p->in.data, (size_t) n, csn_req_method(p->req) == CSN_HEAD, ret)) {
        refuse(p, 502, "what answered does not speak HTTP/1.1");
        return -1;
    }
    bool is_interim = ret->status < 200 && ret->status != 101;
    if (is_interim && ++p->n_interim > INTERIM_MAX) {
        refuse(p, 502, "the answer never began");
        return -1;
    }
    if (!is_interim && !begin_answer(p, ret))
        return -1;
    csn_buf_consume(&p->in, (size_t) n);
    p->scan = (csn_http_scan){ 0 };
    return 1;
}

static void got_bytes(passage *p, const char *data, size_t len)
{
    csn_http_answer answer;
    int r = 1;

    if (p->is_answering) {
        pass_on(p, csn_str_n(data, len));
        return;
    }
    if (csn_buf_append(&p->in, data, len) < 0) {
        refuse(p, 502, "the answer's head is too large");
        return;
    }
    while (r > 0 && !p->is_answering)
        r = take_head(p, &answer);
    if (r <= 0)
        return;
    csn_buf rest = p->in;
    p->in = (csn_buf) CSN_BUF_INIT;
    pass_on(p, csn_str_n(rest.data, rest.len));
    csn_buf_free(&rest);
}

static void read_some(passage *p)
{
    static char piece[PIECE]; /* one thread */
    ssize_t n = recv(p->fd, piece, sizeof(piece), MSG_DONTWAIT);

    if (n > 0)
        got_bytes(p, piece, (size_t) n);
    else if (n == 0 && p->is_answering && p->is_until_close)
        complete(p);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        cut(p);
}

static void on_event(csn_source *src, uint32_t events, void *user)
{
    passage *p = user;
    const uint32_t is_over = EPOLLHUP | EPOLLERR;

    (void) src;
    if (events & EPOLLOUT)
        flush(p);
    if (p->is_full &&
        (events & is_over)) { /* told again and again; its last words wait for the client */
        p->src = csn_source_remove(p->src);
        p->is_mute = true;
        csn_http_out_done(&p->out);
    } else if (!p->is_full && (events & (EPOLLIN | is_over))) {
        read_some(p);
    } else {
        watch(p);
    }
}

/* ---- the start --------------------------------------------------------------------------------------------------- */

static void begin(passage *p)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;
    const int one = 1;

    p->is_chunked = p->req->conn->body.is_chunked;
    p->is_upgrade = p->req->is_upgrade && csn_req_header(p->req, "Upgrade") &&
                    csn_http_body_is_done(&p->req->conn->body) && p->req->minor > 0;
    (void) setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower without */
    csn_preview_put_head(p->req, p->port, p->is_upgrade, &head);
    if (head.error < 0 ||
        csn_timer_set(p->loop, &p->due, csn_deadline_in_ms(HEAD_MS), on_due, p) < 0) {
        refuse(p, 503, "out of memory");
        return;
    }
    struct iovec iov = { head.data, head.len };
    send_bytes(p, &iov, 1);
    p->is_complete = csn_http_body_is_done(&p->req->conn->body);
    watch(p);
    if (!p->is_complete)
        csn_req_body_start(p->req, on_body, p);
}

static void on_connected(int fd, int result, const csn_error *err, void *user)
{
    passage *p = user;
    csn_req *req = p->req;

    p->fd = fd;
    p->connecting = NULL;
    if (result == CSN_OK) {
        begin(p);
    } else if (result == CSN_E_NOT_FOUND) {
        refuse(p, 502, "nothing listens there");
    } else if (result == CSN_E_TIMEOUT) {
        refuse(p, 504, "nobody accepted the connection in time");
    } else {
        free_passage(p);
        csn_req_fail(req, err);
    }
}

void csn_preview_handle(csn_req *req)
{
    uint64_t port;
    csn_error err = { 0 };

    if (csn_parse_u64(csn_str_of(csn_req_param(req, 1)), &port) < 0 || port < 1 || port > 65535) {
        csn_req_error(req, 400, NULL, "The port must be a number from 1 to 65535");
        return;
    }
    passage *p = csn_calloc(1, sizeof(*p));
    if (!p) {
        csn_req_error(req, 503, NULL, "Out of memory");
        return;
    }
    *p = (passage){ .req = req, .loop = csn_req_server(req)->loop, .port = (unsigned) port };
    p->fd = -1;
    p->in = (csn_buf) CSN_BUF_INIT_MAX(CSN_HTTP_HEAD_MAX + PIECE);
    csn_http_out_init(&p->out);
    csn_req_keep(req, on_gone, p);
    p->connecting = csn_port_connect_async(csn_req_box(req), p->port, on_connected, p, &err);
    if (!p->connecting) {
        free_passage(p);
        csn_req_fail(req, &err);
    }
}
