#include "local/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"

enum { OUTBOX_MAX = 256 };

/* A frame the socket had no room for. */
typedef struct held_frame {
    csn_list link;
    uint32_t type, seq;
    size_t fixed_len, rest_len, n_fds;
    int fds[CSN_FRAME_FDS_MAX];
    char bytes[];
} held_frame;

void csn_conn_init(csn_conn *conn, csn_loop *loop, char **buffer)
{
    *conn = (csn_conn){ .fd = -1, .loop = loop, .buffer = buffer };
    csn_list_init(&conn->requests);
    csn_list_init(&conn->outbox);
}

bool csn_conn_is_open(const csn_conn *conn)
{
    return conn->fd >= 0;
}

static void free_held(held_frame *held)
{
    csn_close_many(held->fds, held->n_fds);
    free(held);
}

void csn_conn_close(csn_conn *conn)
{
    csn_list *node;

    conn->source = csn_source_remove(conn->source);
    csn_close(&conn->fd);
    while ((node = csn_list_pop(&conn->outbox)))
        free_held(csn_list_entry(node, held_frame, link));
    conn->n_outbox = 0;
}

static int send_held(csn_conn *conn, const held_frame *held)
{
    csn_out out = { .type = held->type,
                    .seq = held->seq,
                    .fixed = held->bytes,
                    .fixed_len = held->fixed_len,
                    .rest = held->bytes + held->fixed_len,
                    .rest_len = held->rest_len,
                    .fds = held->fds,
                    .n_fds = held->n_fds,
                    .flags = MSG_DONTWAIT };

    return csn_frame_send(conn->fd, &out);
}

static void flush(csn_conn *conn)
{
    csn_list *node;

    while ((node = csn_list_pop(&conn->outbox))) {
        held_frame *held = csn_list_entry(node, held_frame, link);
        if (send_held(conn, held) == -EAGAIN) {
            csn_list_prepend(&conn->outbox, node);
            return;
        }
        conn->n_outbox--; /* sent; or the peer is gone, which reading tells */
        free_held(held);
    }
    (void) csn_source_mod(conn->source, EPOLLIN); /* fails only on a dead descriptor */
}

/* Repeats `seq`, so it is found in the first few. */
static csn_request *find_request(csn_conn *conn, uint32_t seq)
{
    csn_list_foreach (node, &conn->requests) {
        csn_request *req = csn_list_entry(node, csn_request, link);
        if (req->seq == seq)
            return req;
    }
    return NULL;
}

static void handle(csn_conn *conn, csn_msg *msg)
{
    csn_request *req = msg->head.seq ? find_request(conn, msg->head.seq) : NULL;

    if (!req || msg->head.type == CSN_FRAME_EXITED) {
        if (conn->on_event)
            conn->on_event(conn, msg);
        return;
    }
    csn_list_remove(&req->link);
    if (!req->answer(req, msg))
        csn_list_append(&conn->requests, &req->link);
}

/* One frame. A handler may wait in a nested turn of the loop, which then receives into a buffer of its own. */
static int receive_one(csn_conn *conn)
{
    char *buffer = *conn->buffer ? *conn->buffer : csn_malloc(CSN_FRAME_MAX);
    csn_msg msg = CSN_MSG_INIT;
    int r;

    if (!buffer)
        return -EAGAIN; /* no memory now: level-triggered, so we are told again */
    *conn->buffer = NULL;
    r = csn_frame_recv(conn->fd, buffer, CSN_FRAME_MAX, CSN_SAID_TO_CLIENT, MSG_DONTWAIT, &msg);
    char **home = conn->buffer;
    if (r == 1)
        handle(conn, &msg);
    csn_msg_done(&msg);
    if (*home)
        free(buffer);
    else
        *home = buffer;
    return r;
}

static void on_ready(csn_source *src, uint32_t events, void *user)
{
    csn_conn *conn = user;

    (void) src;
    if (events & EPOLLOUT)
        flush(conn);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    int r = receive_one(conn);
    if (r == 0 || (r < 0 && r != -EAGAIN && r != -EINTR))
        conn->on_lost(conn);
}

void csn_conn_poll(csn_conn *conn)
{
    int r = 1;

    while (r == 1 && csn_conn_is_open(conn))
        r = receive_one(conn);
    if (csn_conn_is_open(conn) && (r == 0 || (r < 0 && r != -EAGAIN && r != -EINTR)))
        conn->on_lost(conn);
}

int csn_conn_open(csn_conn *conn, int fd)
{
    int r = csn_loop_add(conn->loop, fd, EPOLLIN, on_ready, conn, &conn->source);

    if (r < 0)
        return r;
    conn->fd = fd;
    return 0;
}

static int hold(csn_conn *conn, const csn_out *out)
{
    held_frame *held;

    if (conn->n_outbox >= OUTBOX_MAX)
        return -EBUSY;
    held = csn_calloc(1, sizeof(*held) + out->fixed_len + out->rest_len);
    if (!held)
        return -ENOMEM;
    *held = (held_frame){ .type = out->type,
                          .seq = out->seq,
                          .fixed_len = out->fixed_len,
                          .rest_len = out->rest_len };
    if (out->fixed_len)
        memcpy(held->bytes, out->fixed, out->fixed_len);
    if (out->rest_len)
        memcpy(held->bytes + out->fixed_len, out->rest, out->rest_len);
    for (; held->n_fds < out->n_fds; held->n_fds++) {
        int fd = csn_fd_dup(out->fds[held->n_fds], 3);
        if (fd < 0) {
            free_held(held);
            return fd;
        }
        held->fds[held->n_fds] = fd;
    }
    csn_list_append(&conn->outbox, &held->link);
    conn->n_outbox++;
    return csn_source_mod(conn->source, EPOLLIN | EPOLLOUT);
}

int csn_conn_ask(csn_conn *conn, csn_out *out, csn_request *req, csn_answer_fn *answer)
{
    int r;

    if (!csn_conn_is_open(conn))
        return -ENOTCONN;
    if (++conn->next_seq == 0)
        conn->next_seq = 1;
    out->seq = conn->next_seq;
    out->flags = MSG_DONTWAIT;
    r = csn_list_empty(&conn->outbox) ? csn_frame_send(conn->fd, out) : -EAGAIN;
    if (r == -EAGAIN)
        r = hold(conn, out);
    if (r < 0)
        return r == -EPIPE || r == -ECONNRESET ? -ENOTCONN : r;
    if (req) {
        req->seq = out->seq;
        req->answer = answer;
        csn_list_append(&conn->requests, &req->link);
    }
    return 0;
}

void csn_conn_await_end(csn_conn *conn, csn_request *req, csn_answer_fn *answer)
{
    req->seq = 0; /* nobody's answer */
    req->answer = answer;
    csn_list_append(&conn->requests, &req->link);
}

void csn_conn_fail_all(csn_conn *conn)
{
    csn_list *node;

    while ((node = csn_list_pop(&conn->requests))) {
        csn_request *req = csn_list_entry(node, csn_request, link);
        (void) req->answer(req, NULL); /* nothing can follow */
    }
}

int csn_msg_result(const csn_msg *msg, uint32_t want, csn_error *err)
{
    csn_wire_error said;

    if (!msg)
        return csn_fail(err, CSN_E_LOST, "the sandbox's keeper is gone");
    if (msg->head.type == want)
        return CSN_OK;
    if (msg->head.type != CSN_FRAME_ERROR)
        return csn_fail(err, CSN_E_PROTOCOL, "the keeper answered with frame %u",
                        (unsigned) msg->head.type);
    csn_msg_fixed(msg, &said, sizeof(said));
    said.message[sizeof(said.message) - 1] = '\0';
    if (said.code >= 0)
        said.code = CSN_E_PROTOCOL;
    if (err)
        err->sys_errno = said.sys_errno;
    int r = csn_fail(err, said.code, "%s", said.message);
    if (err)
        err->sys_errno = said.sys_errno;
    return r;
}
