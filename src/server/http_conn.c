/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "server/req_private.h"

/* ---- kicks and deadlines ----------------------------------------------------------------------------------------- */

void csn_http_conn_again(csn_http_conn *conn)
{
    csn_listener *l = conn->listener;
    uint64_t one = 1;

    if (!csn_list_empty(&conn->kick_link))
        return;
    if (csn_list_empty(&l->kicked))
        (void) csn_write(l->kick_fd, &one,
                         sizeof(one)); /* can't overflow: it is read before the next */
    csn_list_append(&l->kicked, &conn->kick_link);
}

void csn_http_conn_kick(csn_http_conn *conn)
{
    if (conn->depth == 0)
        csn_http_conn_again(conn);
}

void csn_http_conn_break(csn_http_conn *conn)
{
    conn->is_broken = true;
    csn_http_conn_kick(conn);
}

void csn_http_forget_due(csn_http_conn *conn)
{
    csn_list_remove(&conn->due_link);
    conn->due = CSN_DUE_NONE;
}

static void set_due(csn_http_conn *conn, csn_http_due due)
{
    csn_listener *l = conn->listener;

    if (conn->due == due)
        return;
    csn_http_forget_due(conn);
    if (due == CSN_DUE_NONE)
        return;
    conn->due = (uint8_t) due;
    conn->due_ns = csn_now_ns() + l->limits.due_ns[due];
    conn->due_mark = due == CSN_DUE_SEND ? conn->out.n_sent : conn->body_bytes;
    csn_list_append(&l->due[due], &conn->due_link);
}

/* ---- settling: from the state to what is waited for ------------------------------------------------------------- */

bool csn_http_is_reading_body(const csn_http_conn *conn)
{
    return conn->req && conn->req->is_reading && !conn->req->is_paused;
}

/* A peer that doesn't take its answers may ask no more questions. */
bool csn_http_may_begin(const csn_http_conn *conn)
{
    return conn->out.n_bytes <= CSN_OUT_MARK && conn->out.n_files == 0;
}

/* What came before is used up first: so what is kept never grows beyond one read. */
static bool wants_read(const csn_http_conn *conn)
{
    if (conn->is_eof)
        return false;
    switch ((csn_http_state) conn->state) {
    case CSN_HTTP_IDLE:
    case CSN_HTTP_HEAD:
        return csn_http_may_begin(conn) && conn->in.len <= CSN_HTTP_HEAD_MAX;
    case CSN_HTTP_WORK:
        return csn_http_is_reading_body(conn) && conn->in.len == 0;
    case CSN_HTTP_WS:
        return csn_ws_wants_read(conn->ws);
    case CSN_HTTP_LINGER: /* what is unread when we close would cost the peer its answer */
        return conn->linger_bytes < CSN_HTTP_LINGER_MAX;
    case CSN_HTTP_DRAIN:
        break;
    }
    return true;
}

static bool wants_write(const csn_http_conn *conn)
{
    return !csn_http_out_is_empty(&conn->out) || (conn->ws && csn_ws_wants_write(conn->ws));
}

static csn_http_due due_of(const csn_http_conn *conn)
{
    if (conn->state == CSN_HTTP_HEAD)
        return CSN_DUE_HEAD;
    if (conn->state == CSN_HTTP_DRAIN || (conn->state == CSN_HTTP_WORK &&
                                          csn_http_is_reading_body(conn) && !conn->req->is_tunnel))
        return CSN_DUE_BODY;
    if (wants_write(conn))
        return CSN_DUE_SEND;
    if (conn->state == CSN_HTTP_WS && csn_ws_is_closing(conn->ws))
        return CSN_DUE_CLOSE;
    if (conn->state == CSN_HTTP_IDLE)
        return CSN_DUE_IDLE;
    return conn->state == CSN_HTTP_LINGER ? CSN_DUE_LINGER : CSN_DUE_NONE;
}

/* EPOLLIN is given up only when bytes came that nobody wants: most requests are answered before that, and two system
 * calls are saved. */
static void settle(csn_http_conn *conn)
{
    uint32_t events = 0;

    if (wants_read(conn)) {
        conn->is_in_unwanted = false;
        events |= EPOLLIN;
    } else if ((conn->events & EPOLLIN) && !conn->is_in_unwanted && !conn->is_eof) {
        events |= EPOLLIN;
    }
    if (wants_write(conn))
        events |= EPOLLOUT;
    if (!conn->is_half_closed)
        events |= EPOLLRDHUP;
    set_due(conn, due_of(conn));
    if (events == conn->events)
        return;
    conn->events = events;
    if (csn_source_mod(conn->src, events) < 0) {
        conn->is_broken = true;
        csn_http_conn_again(conn);
    }
}

void csn_http_conn_settle(csn_http_conn *conn)
{
    if (conn->depth == 0)
        settle(conn);
}

/* ---- a turn ------------------------------------------------------------------------------------------------------ */

static void pump_kept(csn_http_conn *conn)
{
    csn_str in = csn_str_n(conn->in.data, conn->in.len);

    csn_http_pump(conn, &in);
    csn_buf_consume(&conn->in, conn->in.len - in.len);
    if (conn->in.len == 0)
        csn_buf_free(&conn->in);
}

static void got_eof(csn_http_conn *conn)
{
    conn->is_eof = conn->is_half_closed = true;
    if (conn->state == CSN_HTTP_WORK || csn_http_out_is_empty(&conn->out))
        conn->is_broken = true; /* in the middle of a body, or nothing left to say */
    else
        conn->state = CSN_HTTP_LINGER;
}

static void got_bytes(csn_http_conn *conn, const char *data, size_t len)
{
    csn_str in = csn_str_n(data, len);

    if (conn->in.len == 0) {
        csn_http_pump(conn, &in);
        csn_buf_append(&conn->in, in.data, in.len);
    } else {
        csn_buf_append(&conn->in, data, len);
        pump_kept(conn);
    }
    if (conn->in.error < 0)
        conn->is_broken = true;
}

static size_t read_size(const csn_http_conn *conn)
{
    size_t wish = csn_http_is_reading_body(conn) ? conn->req->body_wish : 0;

    return wish > 0 && wish <= CSN_REQ_PIECE_MAX ? wish : CSN_HTTP_READ_SIZE;
}

static void read_some(csn_http_conn *conn)
{
    char *data = conn->listener->read_buf;
    ssize_t n = recv(conn->fd, data, read_size(conn), MSG_DONTWAIT);

    if (n > 0)
        got_bytes(conn, data, (size_t) n);
    else if (n == 0)
        got_eof(conn);
    else if (errno != EAGAIN && errno != EINTR)
        conn->is_broken = true;
}

ssize_t csn_http_conn_recv(csn_http_conn *conn, void *data, size_t len)
{
    if (conn->in.len > 0) {
        size_t n = conn->in.len < len ? conn->in.len : len;

        memcpy(data, conn->in.data, n);
        csn_buf_consume(&conn->in, n);
        if (conn->in.len == 0)
            csn_buf_free(&conn->in);
        return (ssize_t) n;
    }
    ssize_t n = recv(conn->fd, data, len, MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

static void call_drain(csn_http_conn *conn)
{
    csn_req *req = conn->req;

    if (!conn->is_drain_due || !req || conn->out.n_files > 0 ||
        conn->out.n_bytes > CSN_OUT_MARK / 2)
        return;
    conn->is_drain_due = false;
    if (req->on_drain)
        req->on_drain(req, req->drain_user);
    if (conn->is_drain_due) /* a writer that is always served at once would keep us here */
        csn_http_conn_again(conn);
}

/* The server ends: what waits is told so; what is being sent has until the listener's deadline. */
static void stop(csn_http_conn *conn)
{
    bool is_sending = !csn_http_out_is_empty(&conn->out);

    switch ((csn_http_state) conn->state) {
    case CSN_HTTP_WORK:
        if (conn->req->status == 0)
            csn_req_give_up(conn->req, 503, "The server is shutting down");
        else if (!is_sending)
            conn->is_broken = true;
        break;
    case CSN_HTTP_HEAD:
        csn_http_refuse(conn, 503, "The server is shutting down");
        break;
    case CSN_HTTP_IDLE:
        if (is_sending)
            conn->state = CSN_HTTP_LINGER;
        else
            conn->is_broken = true;
        break;
    case CSN_HTTP_DRAIN:
        conn->state = CSN_HTTP_LINGER;
        break;
    case CSN_HTTP_WS:
        csn_ws_close(conn->ws, 1001, "The server is shutting down");
        break;
    case CSN_HTTP_LINGER:
        break;
    }
}

static void turn_ws(csn_http_conn *conn)
{
    csn_ws_turn(conn->ws, false);
    if (conn->is_broken || !csn_ws_is_over(conn->ws))
        return;
    csn_ws_end(conn->ws);
    conn->state = CSN_HTTP_LINGER;
}

static void linger(csn_http_conn *conn)
{
    if (!csn_http_out_is_empty(&conn->out))
        return;
    if (conn->is_half_closed)
        conn->is_broken = true;
    else if (!conn->is_shut && shutdown(conn->fd, SHUT_WR) < 0)
        conn->is_broken = true;
    conn->is_shut = true;
}

static void advance(csn_http_conn *conn)
{
    if (conn->is_broken)
        return;
    call_drain(conn);
    if (!conn->is_broken && conn->listener->is_stopping)
        stop(conn);
    if (!conn->is_broken && conn->state == CSN_HTTP_WS)
        turn_ws(conn);
    if (!conn->is_broken)
        pump_kept(conn);
    if (!conn->is_broken && conn->state == CSN_HTTP_LINGER)
        linger(conn);
    /* The peer ended its side while we work for it: it has gone. One that only half-closes loses its answer. */
    if (conn->is_half_closed && (conn->state == CSN_HTTP_WORK || conn->state == CSN_HTTP_WS) &&
        !wants_read(conn))
        conn->is_broken = true;
}

static void end(csn_http_conn *conn)
{
    csn_listener *l = conn->listener;

    conn->depth = 1; /* what the callbacks do to it now is of no consequence */
    if (conn->req)
        csn_req_leave(conn->req);
    if (conn->ws)
        csn_ws_end(conn->ws);
    csn_list_remove(&conn->link);
    csn_list_remove(&conn->due_link);
    csn_list_remove(&conn->kick_link);
    csn_source_remove(conn->src);
    csn_close(&conn->fd);
    csn_http_out_done(&conn->out);
    csn_buf_free(&conn->in);
    csn_peers_leave(&l->peers, &conn->peer);
    l->stats.n_open--;
    free(conn);
}

static void begin_turn(csn_http_conn *conn)
{
    conn->depth++;
}

static void end_turn(csn_http_conn *conn)
{
    if (conn->depth == 1)
        advance(conn);
    conn->depth--;
    if (conn->depth > 0)
        return;
    if (conn->is_broken)
        end(conn);
    else
        settle(conn);
}

static void on_event(csn_source *src, uint32_t events, void *user)
{
    csn_http_conn *conn = user;

    (void) src;
    begin_turn(conn);
    if (events & (EPOLLERR | EPOLLHUP))
        conn->is_broken = true;
    if ((events & EPOLLOUT) && !conn->is_broken && csn_http_out_flush(&conn->out, conn->fd) < 0)
        conn->is_broken = true;
    if (events & EPOLLRDHUP)
        conn->is_half_closed = true;
    if ((events & EPOLLIN) && !conn->is_broken) {
        if (!wants_read(conn))
            conn->is_in_unwanted = true;
        else if (conn->ws)
            csn_ws_turn(conn->ws, true);
        else
            read_some(conn);
    }
    end_turn(conn);
}

void csn_http_conn_turn(csn_http_conn *conn)
{
    begin_turn(conn);
    end_turn(conn);
}

void csn_http_conn_cut(csn_http_conn *conn)
{
    conn->is_broken = true;
    csn_http_conn_turn(conn);
}

void csn_http_conn_refuse(csn_http_conn *conn, int status, const char *message)
{
    begin_turn(conn);
    conn->state = CSN_HTTP_WORK;
    csn_http_refuse(conn, status, message);
    end_turn(conn);
}

void csn_http_conn_revoke(csn_http_conn *conn)
{
    begin_turn(conn);
    if (conn->ws)
        csn_ws_close(conn->ws, 1008, "the key is no longer good");
    else if (conn->req)
        csn_req_give_up(conn->req, 401, "Invalid credentials");
    end_turn(conn);
}

static bool is_body_late(const csn_http_conn *conn)
{
    const csn_http_limits *limits = &conn->listener->limits;
    int64_t want = limits->body_bytes_per_s * limits->due_ns[CSN_DUE_BODY] / CSN_NS_PER_S;

    return conn->body_bytes - conn->due_mark < want;
}

static void expire_body(csn_http_conn *conn)
{
    if (!is_body_late(conn))
        return;
    if (conn->state == CSN_HTTP_WORK)
        csn_req_give_up(conn->req, 408, "The request body came too slowly");
    else
        conn->is_broken = true;
}

void csn_http_conn_expire(csn_http_conn *conn)
{
    csn_http_due due = conn->due;
    bool has_sent = conn->out.n_sent != conn->due_mark;

    begin_turn(conn);
    csn_http_forget_due(conn); /* settling sets it anew */
    if (due == CSN_DUE_BODY)
        expire_body(conn);
    else if (due == CSN_DUE_HEAD)
        csn_http_refuse(conn, 408, "The request's head did not come in time");
    else if (due != CSN_DUE_SEND || !has_sent)
        conn->is_broken = true;
    end_turn(conn);
}

/* ---- for req ----------------------------------------------------------------------------------------------------- */

bool csn_http_conn_can_go_on(const csn_http_conn *conn)
{
    const csn_req *req = conn->req;

    if (conn->body.state == UINT8_MAX)
        return false;
    if (csn_http_body_is_done(&conn->body))
        return true;
    if (req && req->expects_continue)
        return false; /* whether its body will come is anyone's guess */
    return !conn->body.is_chunked && conn->body.left <= (int64_t) conn->listener->limits.drain_max;
}

void csn_http_conn_next(csn_http_conn *conn, bool is_last)
{
    conn->req = NULL;
    conn->is_drain_due = false;
    csn_http_forget_due(conn);
    if (is_last)
        conn->state = CSN_HTTP_LINGER;
    else
        conn->state = csn_http_body_is_done(&conn->body) ? CSN_HTTP_IDLE : CSN_HTTP_DRAIN;
    if (conn->depth > 0)
        return;
    if (is_last || conn->in.len > 0)
        csn_http_conn_again(conn);
    settle(conn);
}

void csn_http_conn_accept(csn_req *req)
{
    csn_http_conn *conn = req->conn;

    req->is_accepted = true;
    req->on_gone = NULL;
    if (req->is_gone)
        return;
    begin_turn(conn);
    csn_http_start_body(req);
    end_turn(conn);
}

csn_http_conn *csn_http_conn_new(csn_listener *listener, int fd, const csn_peer_addr *peer)
{
    csn_http_conn *conn = csn_calloc(1, sizeof(*conn));

    if (!conn) {
        csn_close(&fd);
        return NULL;
    }
    conn->listener = listener;
    conn->fd = fd;
    conn->peer = *peer;
    conn->events = EPOLLIN | EPOLLRDHUP;
    conn->in = (csn_buf) CSN_BUF_INIT_MAX(2 * CSN_REQ_PIECE_MAX);
    csn_list_init(&conn->due_link);
    csn_list_init(&conn->kick_link);
    csn_http_out_init(&conn->out);
    int r = csn_loop_add(listener->server->loop, fd, conn->events, on_event, conn, &conn->src);
    if (r < 0) {
        csn_close(&fd);
        free(conn);
        return NULL;
    }
    csn_list_append(&listener->conns, &conn->link);
    listener->stats.n_open++;
    set_due(conn, CSN_DUE_IDLE);
    return conn;
}
