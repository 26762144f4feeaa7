/* SPDX-License-Identifier: Apache-2.0 */
/* WebSockets over wslay, which knows the frames; whole messages, bounds and back-pressure are ours.
 *
 * wslay queues without limit and, when it collects a message itself, pays dozens of bytes for each fragment of one byte.
 * So it hands us the pieces as they come, and while more than a mark waits to be sent nothing is read: pings of a peer that
 * doesn't take its pongs stay in the socket. */
#include "server/ws.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#include "base/fault.h"
#include "server/req_private.h"

enum { QUEUED_MESSAGES_MAX = 4096, READ_SHARE = 256 << 10, REASON_MAX = 123, OFFERS_MAX = 32 };

struct csn_ws {
    csn_http_conn *conn;
    csn_req *req; /* kept until the end, for its done hook */
    wslay_event_context_ptr ctx;
    csn_ws_events events;
    void *user;
    csn_buf message;
    size_t n_read;     /* in this turn */
    int close_code;    /* we sent or will send; 0: none yet */
    bool is_close_due; /* our close frame waits until all else is sent */
    char reason[REASON_MAX];
    size_t reason_len;
    bool is_text, is_control; /* of the frame that is coming */
    bool is_eof;              /* the peer left, with or without a word */
    bool is_failed;           /* wslay can't go on */
    bool is_blocked;          /* a sender was told to wait */
};

/* ---- what wslay asks for ------------------------------------------------------------------------------------------ */

static bool is_full(const csn_ws *ws)
{
    return wslay_event_get_queued_msg_length(ws->ctx) > CSN_WS_QUEUE_MARK ||
           wslay_event_get_queued_msg_count(ws->ctx) > QUEUED_MESSAGES_MAX;
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *user)
{
    csn_ws *ws = user;

    (void) flags;
    ssize_t n = -EAGAIN;
    if (!is_full(ws) && ws->n_read < READ_SHARE)
        n = csn_http_conn_recv(ws->conn, buf, len);
    if (n > 0) {
        ws->n_read += (size_t) n;
        return n;
    }
    if (n != -EAGAIN && n != -EINTR)
        ws->is_eof = true;
    wslay_event_set_error(ctx, ws->is_eof ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *user)
{
    csn_ws *ws = user;
    ssize_t n = -1;

    errno = EAGAIN;
    if (csn_http_out_is_empty(&ws->conn->out)) /* the answer to the handshake goes first */
        n = send(ws->conn->fd, data, len,
                 MSG_NOSIGNAL | MSG_DONTWAIT | (flags & WSLAY_MSG_MORE ? MSG_MORE : 0));
    if (n >= 0) {
        ws->conn->out.n_sent += n;
        return n;
    }
    bool is_later = errno == EAGAIN || errno == EINTR;
    wslay_event_set_error(ctx, is_later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void on_frame(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *arg, void *user)
{
    csn_ws *ws = user;

    (void) ctx;
    if (arg->opcode == WSLAY_TEXT_FRAME || arg->opcode == WSLAY_BINARY_FRAME)
        ws->is_text = arg->opcode == WSLAY_TEXT_FRAME;
    ws->is_control = wslay_is_ctrl_frame(arg->opcode);
}

static void on_chunk(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_chunk_arg *arg, void *user)
{
    csn_ws *ws = user;

    (void) ctx;
    if (!ws->is_control)
        csn_buf_append(&ws->message, arg->data, arg->data_length);
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                       void *user)
{
    csn_ws *ws = user;

    (void) ctx;
    if (wslay_is_ctrl_frame(arg->opcode))
        return; /* wslay answers pings and closes itself */
    if (ws->message.error < 0) {
        csn_ws_close(ws, 1009, "message too large");
    } else if (ws->close_code == 0) {
        bool is_text = ws->is_text;
        ws->events.on_message(ws, is_text, ws->message.data, ws->message.len, ws->user);
    }
    csn_buf_free(&ws->message);
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = on_recv,
    .send_callback = on_send,
    .on_frame_recv_start_callback = on_frame,
    .on_frame_recv_chunk_callback = on_chunk,
    .on_msg_recv_callback = on_message,
};

/* ---- the connection's side --------------------------------------------------------------------------------------- */

bool csn_ws_wants_read(const csn_ws *ws)
{
    return !ws->is_eof && !ws->is_failed && wslay_event_want_read(ws->ctx) && !is_full(ws);
}

bool csn_ws_wants_write(const csn_ws *ws)
{
    return !ws->is_failed && wslay_event_want_write(ws->ctx);
}

bool csn_ws_is_closing(const csn_ws *ws)
{
    return ws->close_code != 0;
}

/* Both said goodbye, or one can't any more. What wslay itself has to say (a protocol error) still goes out. */
bool csn_ws_is_over(const csn_ws *ws)
{
    if (ws->is_eof || ws->is_failed)
        return true;
    return !wslay_event_want_read(ws->ctx) && !wslay_event_want_write(ws->ctx);
}

static void send_some(csn_ws *ws)
{
    if (!ws->is_failed && wslay_event_want_write(ws->ctx) && wslay_event_send(ws->ctx) != 0)
        ws->is_failed = true;
}

/* wslay lets control frames overtake messages and sends nothing after a close frame: ours is given to it last. */
static void send_queued(csn_ws *ws)
{
    send_some(ws);
    if (!ws->is_close_due || ws->is_failed || wslay_event_want_write(ws->ctx))
        return;
    ws->is_close_due = false;
    if (wslay_event_queue_close(ws->ctx, (uint16_t) ws->close_code, (const uint8_t *) ws->reason,
                                ws->reason_len) != 0)
        ws->is_failed = !wslay_event_get_close_received(ws->ctx);
    send_some(ws);
}

static void call_drain(csn_ws *ws)
{
    if (!ws->is_blocked || is_full(ws) ||
        wslay_event_get_queued_msg_length(ws->ctx) > CSN_WS_QUEUE_MARK / 2)
        return;
    ws->is_blocked = false;
    if (ws->events.on_drain && ws->close_code == 0)
        ws->events.on_drain(ws, ws->user);
}

void csn_ws_turn(csn_ws *ws, bool is_readable)
{
    bool is_bad = false;

    ws->n_read = 0;
    if ((is_readable || ws->conn->in.len > 0) && csn_ws_wants_read(ws))
        is_bad = wslay_event_recv(ws->ctx) != 0;
    /* What broke the protocol is answered with a close frame, and not read on. */
    if (is_bad && wslay_event_want_read(ws->ctx))
        ws->is_failed = true;
    send_queued(ws);
    call_drain(ws);
}

static int code_at_end(const csn_ws *ws)
{
    if (wslay_event_get_close_received(ws->ctx))
        return wslay_event_get_status_code_received(ws->ctx);
    if (ws->close_code != 0 && wslay_event_get_close_sent(ws->ctx))
        return ws->close_code;
    return 1006;
}

void csn_ws_end(csn_ws *ws)
{
    csn_http_conn *conn = ws->conn;
    int code = code_at_end(ws);

    if (ws->close_code == 0)
        ws->close_code = 1006; /* sends do nothing from here on */
    if (ws->events.on_closed)
        ws->events.on_closed(ws, code, ws->user);
    conn->ws = NULL;
    conn->listener->stats.n_sockets--;
    conn->listener->stats.n_waiting++; /* freeing the request takes it back */
    csn_req_free(ws->req, 101);
    wslay_event_context_free(ws->ctx);
    csn_buf_free(&ws->message);
    free(ws);
}

/* ---- the handshake ----------------------------------------------------------------------------------------------- */

bool csn_req_wants_ws(const csn_req *req)
{
    const char *upgrade = csn_req_header(req, "Upgrade");

    return req->is_upgrade && upgrade && csn_http_list_has(csn_str_of(upgrade), "websocket");
}

/* Tokens are made NUL-terminated in place, once; the header is a list from then on. */
static void split_offers(csn_req *req)
{
    size_t n = 0;

    for (size_t i = 0; i < req->n_headers; i++) {
        csn_str rest = csn_str_of(req->headers[i].value), part;

        if (strcasecmp(req->headers[i].name, "Sec-WebSocket-Protocol") != 0)
            continue;
        while (n < OFFERS_MAX && csn_str_split(&rest, ',', &part)) {
            part = csn_str_trim(part);
            if (part.len > 0 && ++n)
                csn_buf_printf(&req->offers, "%.*s%c", (int) part.len, part.data, '\0');
        }
    }
    req->is_offers_split = true;
}

const char *csn_req_ws_offer(const csn_req *req, size_t i)
{
    csn_req *mine = (csn_req *) (uintptr_t) req; /* it remembers the list; nothing else changes */

    if (!req->is_offers_split)
        split_offers(mine);
    const char *at = req->offers.data, *end = at + req->offers.len;
    for (; at < end && i > 0; i--)
        at += strlen(at) + 1;
    return at < end ? at : NULL;
}

static bool is_key(const char *key)
{
    unsigned char raw[32];

    return key && strlen(key) == 24 &&
           EVP_DecodeBlock(raw, (const unsigned char *) key, 24) == 18 &&
           strcmp(key + 22, "==") == 0;
}

/* RFC 6455: base64(SHA-1(key + this)). */
static int accept_of(const char *key, char out[32])
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[EVP_MAX_MD_SIZE];
    char text[24 + sizeof(magic)];
    unsigned len = 0;

    memcpy(text, key, 24);
    memcpy(text + 24, magic, sizeof(magic));
    if (EVP_Digest(text, strlen(text), digest, &len, EVP_sha1(), NULL) != 1 || len != 20)
        return -EIO;
    EVP_EncodeBlock((unsigned char *) out, digest, 20);
    return 0;
}

static bool refuse(csn_req *req, int status, const char *message)
{
    if (status == 426) {
        csn_req_add_header(req, "Upgrade", "websocket");
        csn_req_add_header(req, "Sec-WebSocket-Version", "13");
    }
    csn_req_error(req, status, NULL, "%s", message);
    return false;
}

static bool check_handshake(csn_req *req)
{
    const char *version = csn_req_header(req, "Sec-WebSocket-Version");

    if (!csn_req_wants_ws(req) || req->method != CSN_GET || req->minor == 0)
        return refuse(req, 426, "This is a WebSocket");
    if (!version || strcmp(version, "13") != 0)
        return refuse(req, 426, "Only version 13 of the WebSocket protocol is spoken here");
    if (!is_key(csn_req_header(req, "Sec-WebSocket-Key")))
        return refuse(req, 400, "Sec-WebSocket-Key is missing or malformed");
    if (!csn_origin_is_fine(req, csn_req_header(req, "Origin")))
        return refuse(req, 403, "Pages of another origin can't open this WebSocket");
    if (req->conn->listener->is_stopping)
        return refuse(req, 503, "The server is shutting down");
    return true;
}

static const char *offer_to_echo(csn_req *req, const char *wanted)
{
    const char *offer;

    for (size_t i = 0; wanted && (offer = csn_req_ws_offer(req, i)); i++)
        if (strcmp(offer, wanted) == 0)
            return offer;
    return csn_req_ws_offer(req, 0);
}

static int send_switch(csn_req *req, const char *subprotocol)
{
    csn_auto(buf) csn_buf head = CSN_BUF_INIT;
    char accept[32];

    if (accept_of(csn_req_header(req, "Sec-WebSocket-Key"), accept) < 0)
        return -EIO;
    csn_buf_printf(&head,
                   "HTTP/1.1 101 Switching Protocols\r\nDate: %s\r\nX-Request-Id: %s\r\n"
                   "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n",
                   csn_listener_date(req->conn->listener), req->id, accept);
    if (subprotocol)
        csn_buf_printf(&head, "Sec-WebSocket-Protocol: %s\r\n", subprotocol);
    csn_buf_printf(&head, "%s\r\n", req->is_bad_header ? "" : req->lines.data);
    struct iovec iov = { head.data, head.len };
    if (head.error < 0)
        return head.error;
    return csn_http_out_write(&req->conn->out, req->conn->fd, &iov, 1, false);
}

static csn_ws *make_ws(csn_req *req, const csn_ws_events *events, void *user)
{
    csn_ws *ws = csn_calloc(1, sizeof(*ws));

    if (!ws || wslay_event_context_server_init(&ws->ctx, &callbacks, ws) != 0) {
        free(ws);
        return NULL;
    }
    wslay_event_config_set_no_buffering(ws->ctx, 1);
    wslay_event_config_set_max_recv_msg_length(ws->ctx, CSN_WS_MESSAGE_MAX);
    ws->conn = req->conn;
    ws->req = req;
    ws->events = *events;
    ws->user = user;
    ws->message = (csn_buf) CSN_BUF_INIT_MAX(CSN_WS_MESSAGE_MAX);
    return ws;
}

csn_ws *csn_req_upgrade(csn_req *req, const char *subprotocol, const csn_ws_events *events,
                        void *user)
{
    csn_http_conn *conn = req->conn;

    if (req->is_gone || req->status != 0 || !check_handshake(req))
        return NULL;
    csn_ws *ws = make_ws(req, events, user);
    if (!ws) {
        csn_req_error(req, 503, NULL, "Out of memory");
        return NULL;
    }
    req->status = 101;
    req->on_gone = NULL;
    conn->req = NULL;
    conn->ws = ws;
    conn->state = CSN_HTTP_WS;
    conn->listener->stats.n_sockets++;
    conn->listener->stats.n_waiting--;
    if (send_switch(req, offer_to_echo(req, subprotocol)) < 0)
        csn_http_conn_break(conn);
    csn_http_conn_kick(conn); /* frames may have come with the head */
    csn_http_conn_settle(conn);
    return ws;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

bool csn_ws_send(csn_ws *ws, bool is_text, const void *data, size_t len)
{
    struct wslay_event_msg msg = { is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, data, len };

    if (ws->close_code != 0 || ws->is_eof || ws->is_failed)
        return false;
    int r = wslay_event_queue_msg(ws->ctx, &msg);
    if (r == WSLAY_ERR_NO_MORE_MSG)
        return false; /* the peer's close came first */
    if (r != 0) {
        csn_http_conn_break(ws->conn);
        return false;
    }
    send_queued(ws);
    if (ws->is_failed)
        csn_http_conn_kick(ws->conn);
    csn_http_conn_settle(ws->conn);
    ws->is_blocked = ws->is_blocked || is_full(ws);
    return !ws->is_blocked;
}

void csn_ws_close(csn_ws *ws, int code, const char *reason)
{
    size_t len = reason ? strlen(reason) : 0;

    if (ws->close_code != 0)
        return;
    ws->close_code = code;
    if (len > REASON_MAX) /* and not in the middle of a character */
        for (len = REASON_MAX; len > 0 && ((unsigned char) reason[len] & 0xc0) == 0x80; len--)
            ;
    if (len > 0)
        memcpy(ws->reason, reason, len);
    ws->reason_len = len;
    ws->is_close_due = true;
    send_queued(ws);
    csn_http_conn_kick(ws->conn);
    csn_http_conn_settle(ws->conn);
}

void csn_ws_set_max(csn_ws *ws, size_t max_message)
{
    size_t max = max_message < CSN_WS_MESSAGE_MAX ? max_message : CSN_WS_MESSAGE_MAX;

    wslay_event_config_set_max_recv_msg_length(ws->ctx, max);
    ws->message.max = max;
}

const csn_req *csn_ws_req(const csn_ws *ws)
{
    return ws->req;
}
