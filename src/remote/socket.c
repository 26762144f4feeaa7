/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket for the engine: curl makes the connection (proxies, TLS), upgrade.c the handshake, wslay the frames, and the
 * messages go through a channel of their own as pieces.
 *
 * Nothing is held beyond what was read in one go: while the channel has no room the network is not read, and while the network
 * has none the channel is not. A peer that says nothing is pinged; one that does not answer that is gone. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"
#include "remote.h"
#include "upgrade.h"

enum {
    PING_MS = 20 * 1000,
    SILENT_PINGS_MAX = 2,
    QUEUE_MARK = 256 * 1024,
    MESSAGE_MAX = 16 << 20, /* of one that the engine sends in pieces */
    REASON_MAX = 123,
    LEFT_WITHOUT_A_WORD = 1006
};

/* A frame the channel had no room for. */
typedef struct held_frame {
    csn_list link;
    uint32_t type;
    size_t fixed_len, len;
    char bytes[];
} held_frame;

struct csn_socket {
    csn_curl_user curl;
    csn_list link; /* in csn_remote_program.sockets */
    csn_remote_program *program;
    CURL *easy;
    char words[CURL_ERROR_SIZE];
    char accept[32];
    csn_buf request; /* what is left of it to send */
    csn_buf head;    /* of the answer; then what came behind it */
    csn_timer timer; /* until it is open; then: pings */
    int net_fd;      /* a copy: curl watches its own while it connects */
    csn_source *net, *input;
    int channel;
    wslay_event_context_ptr ctx; /* NULL: not open yet */
    csn_buf piece;               /* of the message that is coming */
    csn_buf message;             /* of the engine's */
    csn_list outbox;
    char reason[REASON_MAX];
    size_t reason_len;
    bool is_text, is_control; /* of the frame that is coming */
    bool is_heard;            /* since the last ping */
    bool is_cut;
    bool is_over; /* nothing more is read; goes when the outbox is empty */
    unsigned n_silent;
};

static void free_socket(csn_socket *s)
{
    csn_list *node;

    csn_list_remove(&s->link);
    csn_timer_cancel(&s->timer);
    s->net = csn_source_remove(s->net);
    s->input = csn_source_remove(s->input);
    if (s->ctx)
        wslay_event_context_free(s->ctx);
    if (s->easy) {
        (void) curl_multi_remove_handle(s->program->multi, s->easy); /* closes the connection */
        curl_easy_cleanup(s->easy);
    }
    while ((node = csn_list_pop(&s->outbox)))
        free(csn_list_entry(node, held_frame, link));
    csn_close(&s->net_fd);
    csn_close(&s->channel);
    if (s->request.len > 0)
        explicit_bzero(s->request.data, s->request.len); /* the key is in there */
    csn_buf_free(&s->request);
    csn_buf_free(&s->head);
    csn_buf_free(&s->piece);
    csn_buf_free(&s->message);
    free(s);
}

/* ---- to the engine ---- */

static int send_frame(const csn_socket *s, const held_frame *f)
{
    csn_out out = { .type = f->type,
                    .fixed = f->bytes,
                    .fixed_len = f->fixed_len,
                    .rest = f->bytes + f->fixed_len,
                    .rest_len = f->len - f->fixed_len,
                    .flags = MSG_DONTWAIT };

    return csn_frame_send(s->channel, &out);
}

static void put_frame(csn_socket *s, uint32_t type, const void *fixed, size_t fixed_len,
                      const void *data, size_t len)
{
    size_t cap = fixed_len + len + 16;
    held_frame *f = csn_malloc(sizeof(*f) + cap);
    csn_pack p = { .cap = cap - fixed_len };

    if (!f) {
        s->is_cut = true;
        return;
    }
    *f = (held_frame){ .type = type, .fixed_len = fixed_len };
    csn_list_init(&f->link);
    memcpy(f->bytes, fixed, fixed_len);
    p.data = f->bytes + fixed_len;
    csn_pack_bytes(&p, data, len);
    f->len = fixed_len + p.len;
    if (csn_list_empty(&s->outbox) && send_frame(s, f) != -EAGAIN)
        free(f); /* sent; or the engine has closed it, which reading tells */
    else
        csn_list_append(&s->outbox, &f->link);
}

static void flush_outbox(csn_socket *s)
{
    csn_list *node;

    while ((node = csn_list_first(&s->outbox))) {
        held_frame *f = csn_list_entry(node, held_frame, link);

        if (send_frame(s, f) == -EAGAIN)
            return;
        csn_list_remove(node);
        free(f);
    }
}

static void put_piece(csn_socket *s, bool is_end)
{
    csn_web_piece piece = { .flags =
                                (s->is_text ? CSN_WEB_TEXT : 0u) | (is_end ? 0u : CSN_WEB_MORE) };

    put_frame(s, CSN_FRAME_WEB_PIECE, &piece, sizeof(piece), s->piece.data, s->piece.len);
    csn_buf_clear(&s->piece);
}

/* The handshake's result, if it is not the best one. */
static void put_failure(csn_socket *s, csn_web_failure failure, int status, const char *words)
{
    csn_web_switch sw = { .failure = failure, .status = status };
    char sentence[CURL_ERROR_SIZE];

    csn_copy_tidy(sentence, sizeof(sentence), words);
    put_frame(s, CSN_FRAME_WEB_SWITCHED, &sw, sizeof(sw), sentence, strlen(sentence));
    s->is_over = true;
}

static void put_end(csn_socket *s)
{
    bool is_said = s->ctx && wslay_event_get_close_received(s->ctx);
    uint16_t code = is_said ? wslay_event_get_status_code_received(s->ctx) : LEFT_WITHOUT_A_WORD;
    csn_web_close end = { .code = code >= 1000 && code <= 4999 ? code : 1005u };

    put_frame(s, CSN_FRAME_WEB_CLOSED, &end, sizeof(end), s->reason, s->reason_len);
    s->is_over = true;
}

/* ---- the network, as wslay asks for it ---- */

static ssize_t read_net(csn_socket *s, void *data, size_t size)
{
    size_t n = 0;
    CURLcode code;

    if (s->head.len > 0) { /* came with the handshake's answer */
        n = s->head.len < size ? s->head.len : size;
        memcpy(data, s->head.data, n);
        csn_buf_consume(&s->head, n);
        return (ssize_t) n;
    }
    code = curl_easy_recv(s->easy, data, size, &n);
    if (code == CURLE_AGAIN)
        return -EAGAIN;
    if (code != CURLE_OK || n == 0)
        return -EPIPE;
    s->is_heard = true;
    return (ssize_t) n;
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *data, size_t size, int flags,
                       void *user)
{
    csn_socket *s = user;
    ssize_t n = csn_list_empty(&s->outbox) ? read_net(s, data, size) : -EAGAIN;

    (void) flags;
    if (n > 0)
        return n;
    s->is_cut |= n != -EAGAIN;
    wslay_event_set_error(ctx, n == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *user)
{
    csn_socket *s = user;
    size_t n = 0;
    CURLcode code = curl_easy_send(s->easy, data, len, &n);

    (void) flags;
    if (code == CURLE_OK && n > 0)
        return (ssize_t) n;
    s->is_cut |= code != CURLE_OK && code != CURLE_AGAIN;
    wslay_event_set_error(ctx, s->is_cut ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static int make_mask(wslay_event_context_ptr ctx, uint8_t *out, size_t len, void *user)
{
    (void) user;
    if (csn_random(out, len) == 0)
        return 0;
    wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void on_frame(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *arg, void *user)
{
    csn_socket *s = user;

    (void) ctx;
    s->is_control = wslay_is_ctrl_frame(arg->opcode);
    if (arg->opcode == WSLAY_TEXT_FRAME || arg->opcode == WSLAY_BINARY_FRAME)
        s->is_text = arg->opcode == WSLAY_TEXT_FRAME;
}

static void on_chunk(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_chunk_arg *arg, void *user)
{
    csn_socket *s = user;
    const uint8_t *data = arg->data;
    size_t len = s->is_control ? 0 : arg->data_length;

    (void) ctx;
    while (len > 0) {
        size_t room = CSN_WEB_PIECE_MAX - s->piece.len, n = len < room ? len : room;

        if (csn_buf_append(&s->piece, data, n) < 0) {
            s->is_cut = true;
            return;
        }
        data += n;
        len -= n;
        if (s->piece.len == CSN_WEB_PIECE_MAX)
            put_piece(s, false);
    }
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                       void *user)
{
    csn_socket *s = user;

    (void) ctx;
    if (arg->opcode == WSLAY_CONNECTION_CLOSE && arg->msg_length > 2) {
        s->reason_len = arg->msg_length - 2 < REASON_MAX ? arg->msg_length - 2 : REASON_MAX;
        memcpy(s->reason, arg->msg + 2, s->reason_len);
    }
    if (!wslay_is_ctrl_frame(arg->opcode)) /* wslay answers pings and closes itself */
        put_piece(s, true);
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = on_recv,
    .send_callback = on_send,
    .genmask_callback = make_mask,
    .on_frame_recv_start_callback = on_frame,
    .on_frame_recv_chunk_callback = on_chunk,
    .on_msg_recv_callback = on_message,
};

/* ---- turns ---- */

static bool is_queue_full(const csn_socket *s)
{
    return !s->ctx || wslay_event_get_queued_msg_length(s->ctx) > QUEUE_MARK;
}

/* What to wait for next. Frees a socket that is over and told. */
static void arm(csn_socket *s)
{
    bool is_stuck = !csn_list_empty(&s->outbox);
    uint32_t net = 0, input = is_stuck ? EPOLLOUT : 0;

    if (s->is_over && !is_stuck) {
        free_socket(s);
        return;
    }
    if (!s->is_over && !s->ctx)
        net = EPOLLIN | (s->request.len > 0 ? (uint32_t) EPOLLOUT : 0);
    else if (!s->is_over)
        net = (is_stuck ? 0 : (uint32_t) EPOLLIN) |
              (wslay_event_want_write(s->ctx) ? (uint32_t) EPOLLOUT : 0);
    if (!is_queue_full(s) && !s->is_over)
        input |= EPOLLIN;
    if (s->is_over)
        s->net = csn_source_remove(s->net);
    if (s->net)
        (void) csn_source_mod(s->net, net); /* fails only on a dead descriptor */
    (void) csn_source_mod(s->input, input);
}

/* Reads and sends what can be; the end, if that was it. */
static void turn(csn_socket *s)
{
    bool is_bad = false;

    if (s->is_over || !s->ctx)
        return;
    if (wslay_event_want_read(s->ctx) && csn_list_empty(&s->outbox))
        is_bad = wslay_event_recv(s->ctx) != 0;
    if (s->piece.len > 0 && csn_list_empty(&s->outbox)) /* live: a message may be long in coming */
        put_piece(s, false);
    if (wslay_event_want_write(s->ctx) && wslay_event_send(s->ctx) != 0)
        s->is_cut = true;
    if (s->is_cut || is_bad || (!wslay_event_want_read(s->ctx) && !wslay_event_want_write(s->ctx)))
        put_end(s);
}

static void on_timer(csn_timer *timer, void *user)
{
    csn_socket *s = user;
    struct wslay_event_msg ping = { .opcode = WSLAY_PING };

    (void) timer;
    if (!s->ctx) {
        put_failure(s, CSN_WEB_TIMED_OUT, 0, "the handshake took too long");
        arm(s);
        return;
    }
    s->n_silent = s->is_heard || !csn_list_empty(&s->outbox) ? 0 : s->n_silent + 1;
    s->is_heard = false;
    if (s->n_silent > SILENT_PINGS_MAX ||
        csn_timer_set(s->program->loop, &s->timer, csn_deadline_in_ms(PING_MS), on_timer, s) < 0)
        s->is_cut = true;
    else
        (void) wslay_event_queue_msg(s->ctx, &ping); /* no memory: the next one */
    turn(s);
    arm(s);
}

/* ---- the handshake ---- */

static void open_it(csn_socket *s, size_t head_len)
{
    csn_web_switch sw = { .failure = CSN_WEB_OK, .status = 101 };

    csn_buf_consume(&s->head, head_len);
    if (wslay_event_context_client_init(&s->ctx, &callbacks, s) != 0) {
        s->ctx = NULL;
        put_failure(s, CSN_WEB_FAILED, 0, "out of memory");
        return;
    }
    wslay_event_config_set_no_buffering(s->ctx, 1);
    put_frame(s, CSN_FRAME_WEB_SWITCHED, &sw, sizeof(sw), "", 0);
    if (csn_timer_set(s->program->loop, &s->timer, csn_deadline_in_ms(PING_MS), on_timer, s) < 0)
        s->is_cut = true;
    turn(s);
}

/* False: nothing more is there now. */
static bool read_head(csn_socket *s)
{
    csn_upgrade_answer answer;
    size_t n = 0;
    CURLcode code;
    int r;

    if (csn_buf_reserve(&s->head, 4096) < 0) {
        put_failure(s, CSN_WEB_FAILED, 0, "out of memory");
        return false;
    }
    code = curl_easy_recv(s->easy, s->head.data + s->head.len, 4096, &n);
    if (code == CURLE_AGAIN)
        return false;
    if (code != CURLE_OK || n == 0) {
        put_failure(s, CSN_WEB_CUT, 0, "closed in the handshake");
        return false;
    }
    csn_buf_grew(&s->head, n);
    r = csn_upgrade_parse(s->head.data, s->head.len, s->accept, &answer);
    if (r < 0 || (r == 1 && answer.status == 101 && !answer.is_switched))
        put_failure(s, CSN_WEB_PROTOCOL, 0, "no proper answer to the handshake");
    else if (r == 1 && !answer.is_switched)
        put_failure(s, CSN_WEB_OK, answer.status, "");
    else if (r == 1)
        open_it(s, answer.head_len);
    return r == 0;
}

static void send_request(csn_socket *s)
{
    size_t n = 0;
    CURLcode code;

    if (s->request.len == 0)
        return;
    code = curl_easy_send(s->easy, s->request.data, s->request.len, &n);
    if (code == CURLE_OK) {
        explicit_bzero(s->request.data, n);
        csn_buf_consume(&s->request, n);
    } else if (code != CURLE_AGAIN) {
        put_failure(s, CSN_WEB_CUT, 0, "closed in the handshake");
    }
}

static void on_net(csn_source *src, uint32_t events, void *user)
{
    csn_socket *s = user;

    (void) src;
    (void) events;
    if (s->ctx) {
        turn(s);
    } else if (!s->is_over) {
        send_request(s);
        while (!s->is_over && read_head(s))
            ; /* TLS may hold more than the descriptor tells */
    }
    arm(s);
}

/* Connected, or not: curl's part is over. */
static void on_connected(csn_curl_user *user, CURLcode code)
{
    csn_socket *s = csn_container_of(user, csn_socket, curl);
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (code == CURLE_OK &&
        (curl_easy_getinfo(s->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
         fd == CURL_SOCKET_BAD || (s->net_fd = csn_fd_dup(fd, 0)) < 0 ||
         csn_loop_add(s->program->loop, s->net_fd, EPOLLOUT, on_net, s, &s->net) < 0))
        code = CURLE_OUT_OF_MEMORY;
    if (code != CURLE_OK)
        put_failure(s, csn_curl_failure(code), 0,
                    s->words[0] ? s->words : curl_easy_strerror(code));
    arm(s);
}

/* ---- from the engine ---- */

/* False: it closed the channel, or speaks nonsense. */
static bool take_input(csn_socket *s)
{
    csn_remote_program *p = s->program;
    csn_msg msg = CSN_MSG_INIT;
    struct wslay_event_msg out;
    csn_web_piece piece = { 0 };
    const char *data;
    size_t len;
    int r = csn_frame_recv(s->channel, p->buffer, sizeof(p->buffer), CSN_SAID_ON_CHANNEL,
                           MSG_DONTWAIT, &msg);

    if (r == -EAGAIN || r == -EINTR)
        return true;
    if (r == 1) {
        csn_unpack u = csn_msg_rest(&msg, sizeof(piece));

        csn_msg_fixed(&msg, &piece, sizeof(piece));
        r = msg.head.type == CSN_FRAME_WEB_PIECE && s->ctx &&
                    csn_web_piece_unpack(&u, &piece, &data, &len) == 0 &&
                    csn_buf_append(&s->message, data, len) == 0
                ? 1
                : 0;
    }
    if (r == 1 && !(piece.flags & CSN_WEB_MORE)) {
        out = (struct wslay_event_msg){ .opcode = piece.flags & CSN_WEB_TEXT ? WSLAY_TEXT_FRAME
                                                                             : WSLAY_BINARY_FRAME,
                                        .msg = (const uint8_t *) s->message.data,
                                        .msg_length = s->message.len };
        r = wslay_event_queue_msg(s->ctx, &out) == 0 ? 1 : 0; /* copies it */
        csn_buf_clear(&s->message);
    }
    csn_msg_done(&msg);
    return r == 1;
}

static void on_channel(csn_source *src, uint32_t events, void *user)
{
    csn_socket *s = user;

    (void) src;
    if (events & EPOLLOUT)
        flush_outbox(s);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !take_input(s)) {
        if (s->ctx && !s->is_over && wslay_event_queue_close(s->ctx, 1000, NULL, 0) == 0)
            (void) wslay_event_send(s->ctx); /* as far as it goes */
        free_socket(s);
        return;
    }
    turn(s);
    arm(s);
}

/* ---- starting ---- */

/* RFC 6455: base64(SHA-1(key + this)). */
static int make_key(char key[32], char accept[32])
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char raw[16], digest[EVP_MAX_MD_SIZE];
    char text[24 + sizeof(magic)];
    unsigned len = 0;

    if (csn_random(raw, sizeof(raw)) < 0)
        return -EIO;
    EVP_EncodeBlock((unsigned char *) key, raw, sizeof(raw));
    memcpy(text, key, 24);
    memcpy(text + 24, magic, sizeof(magic));
    if (EVP_Digest(text, strlen(text), digest, &len, EVP_sha1(), NULL) != 1 || len != 20)
        return -EIO;
    EVP_EncodeBlock((unsigned char *) accept, digest, 20);
    return 0;
}

static int make_request(csn_socket *s, const csn_web_call *call)
{
    const csn_remote_program *p = s->program;
    char key[32];
    int r = make_key(key, s->accept);

    if (r < 0 || (r = csn_upgrade_request(&s->request, call->url, key)) < 0)
        return r;
    csn_buf_printf(&s->request, "User-Agent: %s\r\n", p->agent.data);
    if (call->offer[0])
        csn_buf_printf(&s->request, "Sec-WebSocket-Protocol: %s\r\n", call->offer);
    if ((call->dial.flags & CSN_WEB_WITH_KEY) && p->authorization.len > 0)
        csn_buf_printf(&s->request, "%s\r\n", p->authorization.data);
    if ((call->dial.flags & CSN_WEB_WITH_KEY) && p->extra.len > 0)
        csn_buf_printf(&s->request, "%s\r\n", p->extra.data);
    csn_buf_puts(&s->request, "\r\n");
    return s->request.error;
}

int csn_socket_dial(csn_remote_program *p, const csn_web_call *call, int channel)
{
    csn_socket *s = csn_calloc(1, sizeof(*s));

    if (!s) {
        csn_close(&channel);
        return -ENOMEM;
    }
    *s = (csn_socket){ .curl.ended = on_connected,
                       .program = p,
                       .request = CSN_BUF_INIT,
                       .head = CSN_BUF_INIT,
                       .piece = CSN_BUF_INIT,
                       .message = CSN_BUF_INIT_MAX(MESSAGE_MAX),
                       .net_fd = -1,
                       .channel = channel };
    csn_list_init(&s->outbox);
    csn_list_append(&p->sockets, &s->link);
    s->easy = curl_easy_init();
    if (!s->easy || make_request(s, call) < 0 ||
        csn_loop_add(p->loop, channel, 0, on_channel, s, &s->input) < 0 ||
        csn_timer_set(p->loop, &s->timer, csn_deadline_in_ms(call->dial.timeout_ms), on_timer, s) <
            0) {
        free_socket(s);
        return -ENOMEM;
    }
    csn_curl_set_connection(s->easy, p, call->url, call->dial.timeout_ms, &s->curl);
    curl_easy_setopt(s->easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(s->easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(s->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(s->easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->words);
    if (curl_multi_add_handle(p->multi, s->easy) != CURLM_OK) {
        free_socket(s);
        return -ENOMEM;
    }
    return 0;
}

void csn_sockets_end(csn_remote_program *p)
{
    csn_list_foreach (node, &p->sockets) {
        free_socket(csn_list_entry(node, csn_socket, link));
    }
}
