/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to requests: heads, bodies, and what is dropped. */
#include <errno.h>

#include "server/http_conn.h"
#include "server/req_private.h"

enum { REQUESTS_PER_TURN = 64 };

void csn_http_refuse(csn_http_conn *conn, int status, const char *message)
{
    csn_req *req = csn_req_new_blank(conn);

    if (!req) {
        conn->is_broken = true;
        return;
    }
    conn->listener->stats.n_malformed++;
    conn->body.state = UINT8_MAX; /* where it ends isn't known: nothing can follow */
    conn->req = req;
    csn_req_error(req, status, NULL, "%s", message);
}

static const char *fault_of(int status)
{
    switch (status) {
    case 414:
        return "The request line is longer than 8 KiB";
    case 417:
        return "Only 100-continue can be expected";
    case 431:
        return "The headers are more than 64 KiB or more than 100";
    case 505:
        return "Only HTTP/1.1 and HTTP/1.0 are spoken here";
    default:
        return "Malformed request";
    }
}

static void begin_request(csn_http_conn *conn, const char *data, size_t len)
{
    csn_http_head head;
    csn_req *req = NULL;
    int status = csn_http_parse_head(data, len, &head);

    if (status) {
        csn_http_refuse(conn, status, fault_of(status));
        return;
    }
    int r = csn_req_new(conn, &head, &req);
    if (r < 0) {
        csn_http_refuse(conn, r == -ENOMEM ? 503 : 400,
                        r == -ENOMEM ? "Out of memory" : fault_of(400));
        return;
    }
    conn->req = req;
    conn->body_bytes = 0;
    csn_http_body_init(&conn->body, &head);
    csn_router_dispatch(req);
}

static bool take_head(csn_http_conn *conn, csn_str *in)
{
    if (!csn_http_may_begin(conn))
        return false;
    size_t skip = conn->scan.line == 0 ? csn_http_skip_empty(in->data, in->len) : 0;
    if (skip > 0) {
        *in = csn_str_n(in->data + skip, in->len - skip);
        conn->scan = (csn_http_scan){ 0 };
    }
    conn->state = in->len > 0 ? CSN_HTTP_HEAD : CSN_HTTP_IDLE;
    if (in->len == 0)
        return false;
    ssize_t n = csn_http_scan_head(&conn->scan, in->data, in->len);
    if (n == 0)
        return false;
    const char *head = in->data;
    size_t used = n < 0 ? in->len : (size_t) n;
    *in = csn_str_n(in->data + used, in->len - used);
    conn->scan = (csn_http_scan){ 0 };
    conn->state = CSN_HTTP_WORK;
    csn_http_forget_due(conn);
    if (n < 0)
        csn_http_refuse(conn, (int) -n, fault_of((int) -n));
    else
        begin_request(conn, head, used);
    return true;
}

static bool take_body(csn_http_conn *conn, csn_str *in)
{
    csn_str piece;

    if (!csn_http_is_reading_body(conn))
        return false;
    if (csn_http_body_is_done(&conn->body)) {
        csn_req_body_done(conn->req);
        return true;
    }
    if (in->len == 0)
        return false;
    ssize_t n = csn_http_body_take(&conn->body, in->data, in->len, &piece);
    if (n < 0) {
        in->len = 0;
        csn_req_give_up(conn->req, 400, "Malformed chunk in the request body");
        return true;
    }
    *in = csn_str_n(in->data + n, in->len - (size_t) n);
    conn->body_bytes += (int64_t) piece.len;
    if (piece.len > 0)
        csn_req_take_body(conn->req, piece);
    return true;
}

static bool drop_body(csn_http_conn *conn, csn_str *in)
{
    csn_str piece;
    ssize_t n = csn_http_body_take(&conn->body, in->data, in->len, &piece);

    if (n < 0) {
        conn->state = CSN_HTTP_LINGER;
        return true;
    }
    *in = csn_str_n(in->data + n, in->len - (size_t) n);
    conn->body_bytes += (int64_t) piece.len;
    if (csn_http_body_is_done(&conn->body)) {
        conn->state = CSN_HTTP_IDLE;
        csn_http_forget_due(conn);
        return true;
    }
    return in->len > 0;
}

void csn_http_pump(csn_http_conn *conn, csn_str *in)
{
    int n_requests = 0;
    bool is_on = true;

    while (is_on && !conn->is_broken) {
        switch ((csn_http_state) conn->state) {
        case CSN_HTTP_IDLE:
        case CSN_HTTP_HEAD:
            if (++n_requests > REQUESTS_PER_TURN) { /* others want a turn, too */
                csn_http_conn_again(conn);
                return;
            }
            is_on = take_head(conn, in);
            break;
        case CSN_HTTP_WORK:
            is_on = take_body(conn, in);
            break;
        case CSN_HTTP_DRAIN:
            is_on = drop_body(conn, in);
            break;
        case CSN_HTTP_LINGER:
            conn->linger_bytes += in->len;
            in->len = 0;
            return;
        case CSN_HTTP_WS:
            return; /* it takes its bytes itself */
        }
    }
}

void csn_http_start_body(csn_req *req)
{
    csn_http_conn *conn = req->conn;
    const csn_route *route = req->route;

    if (route->body == CSN_BODY_STREAM) {
        csn_req_call(req);
        return;
    }
    size_t max = route->body == CSN_BODY_NONE ? conn->listener->limits.drain_max : req->body.max;
    if (!conn->body.is_chunked && conn->body.left > (int64_t) max) {
        csn_req_error(req, 413, NULL, "The request body is larger than %zu bytes", max);
        return;
    }
    req->is_reading = true;
    csn_req_send_continue(req);
}
