/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: the head, framing, and the end of the request. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "server/req_private.h"

static bool is_bodiless(int status)
{
    return status < 200 || status == 204 || status == 304;
}

void csn_req_add_header(csn_req *req, const char *name, const char *value)
{
    if (strpbrk(value, "\r\n") || csn_buf_printf(&req->lines, "%s: %s\r\n", name, value) < 0)
        req->is_bad_header = true;
}

static void put_framing(csn_req *req, csn_buf *head, int status, int64_t length)
{
    req->is_chunked = false;
    if (req->is_tunnel)
        return; /* its lines say what it becomes */
    if (length >= 0 && !is_bodiless(status))
        csn_buf_printf(head, "Content-Length: %lld\r\n", (long long) length);
    if (length < 0 && req->minor > 0) {
        csn_buf_puts(head, "Transfer-Encoding: chunked\r\n");
        req->is_chunked = true;
    }
    if (req->is_last)
        csn_buf_puts(head, "Connection: close\r\n");
}

static void put_own_lines(const csn_req *req, csn_buf *head, const char *type)
{
    csn_buf_printf(head, "Date: %s\r\nX-Request-Id: %s\r\n", csn_listener_date(req->conn->listener),
                   req->id);
    if (type)
        csn_buf_printf(head, "Content-Type: %s\r\n", type);
    csn_buf_puts(head, "X-Content-Type-Options: nosniff\r\n");
}

/* length < 0: not known. The request has its status from here on. */
static void put_head(csn_req *req, csn_buf *head, int status, const char *type, int64_t length)
{
    csn_http_conn *conn = req->conn;

    req->status = status;
    req->is_last = !req->is_keep_alive || conn->listener->is_stopping ||
                   !csn_http_conn_can_go_on(conn) || (length < 0 && req->minor == 0) ||
                   req->is_tunnel;
    csn_buf_printf(head, "HTTP/1.1 %d %s\r\n", status, csn_http_reason(status));
    if (!req->is_passed_on)
        put_own_lines(req, head, type);
    put_framing(req, head, status, length);
    csn_buf_append(head, req->lines.data, req->lines.len);
    csn_buf_puts(head, "\r\n");
}

static void send_iov(csn_req *req, const struct iovec *iov, int n_iov, bool is_more)
{
    csn_http_conn *conn = req->conn;

    if (conn->is_broken)
        return;
    if (csn_http_out_write(&conn->out, conn->fd, iov, n_iov, is_more) < 0)
        csn_http_conn_break(conn);
    else
        csn_http_conn_settle(conn);
}

/* The answer is complete: the request is no more. */
static void finish(csn_req *req)
{
    csn_http_conn *conn = req->conn;
    bool is_last = req->is_last;

    csn_req_free(req, req->status);
    csn_http_conn_next(conn, is_last);
}

static bool may_answer(csn_req *req)
{
    return !req->is_gone && req->status == 0;
}

static void answer(csn_req *req, int status, const char *type, const void *data, size_t len)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;

    req->on_gone = NULL; /* it was answered, whatever becomes of the bytes */
    put_head(req, &head, status, type, (int64_t) len);
    if (is_bodiless(status) || req->method == CSN_HEAD)
        len = 0;
    if (head.error < 0) {
        csn_http_conn_break(req->conn);
        return;
    }
    struct iovec iov[2] = { { head.data, head.len }, { (void *) (uintptr_t) data, len } };
    send_iov(req, iov, len > 0 ? 2 : 1, false);
    finish(req);
}

/* A header that can't be sent was asked for: say nothing of what was meant. */
static bool is_spoilt(csn_req *req)
{
    if (!req->is_bad_header)
        return false;
    csn_log(CSN_LOG_ERROR, "a header of an answer could not be sent", "request", req->id, "path",
            req->path, NULL);
    req->is_bad_header = false;
    csn_buf_clear(&req->lines);
    csn_req_error(req, 500, NULL, "Internal error");
    return true;
}

void csn_req_text(csn_req *req, int status, const char *content_type, const void *data, size_t len)
{
    if (may_answer(req) && !is_spoilt(req))
        answer(req, status, content_type, data, len);
}

void csn_req_empty(csn_req *req, int status)
{
    csn_req_text(req, status, NULL, "", 0);
}

static const char json_type[] = "application/json; charset=utf-8";

void csn_req_json(csn_req *req, int status, csn_buf *body)
{
    csn_auto(buf) csn_buf taken = *body;

    *body = (csn_buf) CSN_BUF_INIT;
    if (!may_answer(req))
        return;
    if (taken.error == 0) {
        csn_req_text(req, status, json_type, taken.data, taken.len);
        return;
    }
    csn_log(CSN_LOG_ERROR, "an answer could not be written", "request", req->id, "path", req->path,
            "error", strerror(-taken.error), NULL);
    csn_req_error(req, 500, NULL, "Internal error");
}

void csn_req_error(csn_req *req, int status, const char *code, const char *fmt, ...)
{
    csn_auto(buf) csn_buf message = CSN_BUF_INIT_MAX(4096);
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    va_list args;

    if (!may_answer(req))
        return;
    va_start(args, fmt);
    csn_buf_vprintf(&message, fmt, args);
    va_end(args);
    csn_error_body(req, status, code, message.data, &body);
    if (req->is_bad_header)
        csn_buf_clear(&req->lines);
    answer(req, status, json_type, body.data, body.error < 0 ? 0 : body.len);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

void csn_req_begin(csn_req *req, int status, const char *content_type, int64_t length)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;

    if (!may_answer(req))
        return;
    if (req->is_bad_header)
        csn_buf_clear(&req->lines);
    put_head(req, &head, status, content_type, length);
    req->promised = length;
    if (head.error < 0) {
        csn_http_conn_break(req->conn);
        return;
    }
    struct iovec iov = { head.data, head.len };
    send_iov(req, &iov, 1, length > 0 && req->method != CSN_HEAD); /* the body follows at once */
}

static bool is_streaming(const csn_req *req)
{
    return !req->is_gone && req->status != 0;
}

/* False: it would break the promise of the head. */
static bool take_promise(csn_req *req, int64_t len)
{
    if (req->promised >= 0 && len > req->promised) {
        csn_http_conn_break(req->conn);
        return false;
    }
    if (req->promised >= 0)
        req->promised -= len;
    return true;
}

static bool has_room(csn_req *req)
{
    csn_http_conn *conn = req->conn;

    if (!conn->is_broken && conn->out.n_bytes <= CSN_OUT_MARK && conn->out.n_files == 0)
        return true;
    conn->is_drain_due = true;
    return false;
}

bool csn_req_write(csn_req *req, const void *data, size_t len)
{
    char size[24];

    if (!is_streaming(req))
        return false;
    if (len == 0 || req->method == CSN_HEAD || !take_promise(req, (int64_t) len))
        return has_room(req);
    struct iovec iov[3] = { { size, 0 }, { (void *) (uintptr_t) data, len }, { size, 0 } };
    if (req->is_chunked) {
        iov[0].iov_len = (size_t) snprintf(size, sizeof(size), "%zx\r\n", len);
        iov[2] = (struct iovec){ (void *) (uintptr_t) "\r\n", 2 };
    }
    send_iov(req, iov, 3, req->promised > 0);
    return has_room(req);
}

static void write_mark(csn_req *req, const char *text, bool is_more)
{
    struct iovec iov = { (void *) (uintptr_t) text, strlen(text) };

    if (req->is_chunked)
        send_iov(req, &iov, 1, is_more);
}

void csn_req_write_fd(csn_req *req, int fd, int64_t offset, int64_t len)
{
    csn_http_conn *conn = req->conn;
    char size[24];

    if (is_streaming(req))
        conn->is_drain_due = true;
    if (!is_streaming(req) || len <= 0 || req->method == CSN_HEAD || !take_promise(req, len)) {
        csn_close(&fd);
        csn_http_conn_kick(conn);
        return;
    }
    snprintf(size, sizeof(size), "%llx\r\n", (unsigned long long) len);
    write_mark(req, size, true);
    if (csn_http_out_file(&conn->out, fd, offset, len) < 0 ||
        (!conn->is_broken && csn_http_out_flush(&conn->out, conn->fd) < 0))
        csn_http_conn_break(conn);
    write_mark(req, "\r\n", false);
    csn_http_conn_kick(conn); /* on_drain follows in any case */
    csn_http_conn_settle(conn);
}

void csn_req_on_drain(csn_req *req, csn_drain_fn *on_drain, void *user)
{
    req->on_drain = on_drain;
    req->drain_user = user;
}

void csn_req_end(csn_req *req)
{
    if (!is_streaming(req))
        return;
    if (req->promised > 0 && req->method != CSN_HEAD) {
        csn_req_abort(req);
        return;
    }
    if (req->method != CSN_HEAD)
        write_mark(req, "0\r\n\r\n", false);
    finish(req);
}

void csn_req_abort(csn_req *req)
{
    csn_http_conn *conn = req->conn;

    if (req->is_gone)
        return;
    csn_req_free(req, req->status ? req->status : 499);
    conn->req = NULL;
    conn->state = CSN_HTTP_LINGER;
    csn_http_conn_break(conn);
}

void csn_req_send_continue(csn_req *req)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec iov = { (void *) (uintptr_t) text, sizeof(text) - 1 };

    if (!req->expects_continue)
        return;
    req->expects_continue = false;
    if (req->minor > 0 && !csn_http_body_is_done(&req->conn->body) && req->conn->in.len == 0)
        send_iov(req, &iov, 1, false);
}
