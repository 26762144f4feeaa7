/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: the creator's, and for detached sandboxes those that come to boxes/<id>/sock. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"
#include "serve.h"

enum {
    OUT_BYTES_MAX = 8 << 20,   /* a LIST of all commands fits */
    CLIENTS_WAITING_MAX = 128, /* beyond it clients are refused: they don't wait to connect */
};

/* --- answering --------------------------------------------------------------------------------------------------- */

static void free_pending(csn_pending *p)
{
    csn_list_remove(&p->link);
    csn_close_many(p->fds, p->n_fds);
    free(p);
}

static csn_pending *make_pending(const csn_out *out)
{
    const csn_frame head = { .type = out->type,
                             .seq = out->seq,
                             .len = (uint32_t) (out->fixed_len + out->rest_len) };
    csn_pending *p = csn_calloc(1, sizeof(*p) + sizeof(head) + head.len);

    if (!p)
        return NULL;
    memcpy(p->bytes, &head, sizeof(head));
    memcpy(p->bytes + sizeof(head), out->fixed, out->fixed_len);
    if (out->rest_len > 0)
        memcpy(p->bytes + sizeof(head) + out->fixed_len, out->rest, out->rest_len);
    p->len = sizeof(head) + head.len;
    for (size_t i = 0; i < out->n_fds; i++) {
        p->fds[i] = csn_fd_dup(out->fds[i], 3);
        p->n_fds = i + 1;
    }
    return p;
}

/* No room in the socket: the frame waits here, and nothing more is read from this client until it is gone. */
static void queue(csn_client *client, const csn_out *out)
{
    csn_pending *p = client->out_bytes < OUT_BYTES_MAX ? make_pending(out) : NULL;

    if (!p || csn_source_mod(client->src, EPOLLOUT) < 0) {
        if (p)
            free_pending(p);
        (void) shutdown(client->fd, SHUT_RDWR); /* read as its end by the loop */
        return;
    }
    csn_list_append(&client->out, &p->link);
    client->out_bytes += p->len;
}

void csn_reply(csn_client *client, const csn_out *out)
{
    csn_out now = *out;
    int r = -EAGAIN;

    now.flags = MSG_DONTWAIT;
    if (csn_list_empty(&client->out))
        r = csn_frame_send(client->fd, &now);
    if (r == -EAGAIN)
        queue(client, out);
    /* Other failures: it is gone, and the loop will say so. */
}

void csn_reply_done(csn_client *client, uint32_t seq, int64_t value)
{
    const csn_done done = { .value = value };

    csn_reply(client,
              &(csn_out){
                  .type = CSN_FRAME_DONE, .seq = seq, .fixed = &done, .fixed_len = sizeof(done) });
}

static csn_wire_error to_wire(const csn_error *err)
{
    csn_wire_error w = { .code = err->code, .sys_errno = err->sys_errno };

    memcpy(w.message, err->message, sizeof(w.message) - 1);
    return w;
}

void csn_reply_error(csn_client *client, uint32_t seq, const csn_error *err)
{
    const csn_wire_error w = to_wire(err);

    csn_reply(
        client,
        &(csn_out){ .type = CSN_FRAME_ERROR, .seq = seq, .fixed = &w, .fixed_len = sizeof(w) });
}

void csn_frame_error(int fd, uint32_t seq, const csn_error *err)
{
    const csn_wire_error w = to_wire(err);

    /* Gone: nobody is left to be told. */
    (void) csn_frame_send(fd, &(csn_out){ .type = CSN_FRAME_ERROR,
                                          .seq = seq,
                                          .fixed = &w,
                                          .fixed_len = sizeof(w),
                                          .flags = MSG_DONTWAIT });
}

static void flush_pending(csn_client *client)
{
    csn_list *node;

    while ((node = csn_list_first(&client->out))) {
        csn_pending *p = csn_list_entry(node, csn_pending, link);
        ssize_t r = csn_send_fds(client->fd, p->bytes, p->len, p->fds, p->n_fds);
        if (r == -EAGAIN)
            return;
        client->out_bytes -= p->len;
        free_pending(p);
        if (r < 0)
            break; /* its end follows */
    }
    if (csn_source_mod(client->src, EPOLLIN) < 0)
        (void) shutdown(client->fd, SHUT_RDWR);
}

/* --- coming and going -------------------------------------------------------------------------------------------- */

static void free_client(csn_client *client)
{
    csn_list *node;

    while ((node = csn_list_pop(&client->waiters)))
        free(csn_list_entry(node, csn_waiter, link));
    while ((node = csn_list_first(&client->out)))
        free_pending(csn_list_entry(node, csn_pending, link));
    csn_list_remove(&client->link);
    client->k->n_clients--;
    client->src = csn_source_remove(client->src);
    csn_close(&client->fd);
    free(client);
}

void csn_client_drop(csn_client *client)
{
    csn_keeper *k = client->k;
    bool ends_all = client->is_creator && !(k->plan.flags & CSN_PLAN_DETACHED);

    k->is_creator_gone |= client->is_creator;
    if (k->lender == client)
        csn_thaw(k);
    csn_commands_client_gone(k, client);
    free_client(client);
    if (ends_all)
        csn_end_now(k, CSN_ENDED_KILLED);
}

static void on_client(csn_source *src, uint32_t events, void *user)
{
    csn_client *client = user;
    csn_auto(msg) csn_msg msg = CSN_MSG_INIT;
    int r;

    (void) src;
    if (events & EPOLLOUT) {
        flush_pending(client);
        return;
    }
    if (!(events & EPOLLIN)) {
        csn_client_drop(client);
        return;
    }
    r = csn_frame_recv(client->fd, csn_frame_bytes, sizeof(csn_frame_bytes), CSN_SAID_BY_CLIENT,
                       MSG_DONTWAIT, &msg);
    if (r == -EAGAIN)
        return;
    if (r <= 0)
        csn_client_drop(client); /* its end, or a frame that must not be */
    else
        csn_request_handle(client, &msg);
}

/* Whether the next frame is an attached command, without taking it. */
static bool has_command(int fd)
{
    struct {
        csn_frame head;
        csn_spawn spawn;
    } next;
    struct iovec iov = { &next, sizeof(next) };
    struct msghdr raw = { .msg_iov = &iov, .msg_iovlen = 1 }; /* no room for descriptors: they stay where they are */

    return recvmsg(fd, &raw, MSG_PEEK | MSG_DONTWAIT) == (ssize_t) sizeof(next) &&
           next.head.type == CSN_FRAME_SPAWN && next.head.flags == 0 &&
           next.spawn.kind == CSN_SPAWN_EXEC &&
           !(next.spawn.flags & (CSN_SPAWN_BACKGROUND | CSN_SPAWN_PTY));
}

/* A creator in a hurry sends its command behind the plan. Init finds it when it begins; until then there is nobody who
 * could run it. Our own walls stand, or it waits for the loop like everything else. */
int csn_client_hear_early(csn_keeper *k, csn_error *err)
{
    csn_list *first = csn_list_first(&k->clients);
    csn_client *creator = first ? csn_list_entry(first, csn_client, link) : NULL;

    if (creator && k->is_confined && has_command(creator->fd))
        on_client(creator->src, EPOLLIN, creator);
    return csn_list_empty(&k->clients)
               ? csn_fail(err, CSN_E_PROTOCOL, "the creator's first command can't be read")
               : CSN_OK;
}

int csn_client_add(csn_keeper *k, int fd, bool is_creator, csn_client **ret_client)
{
    csn_client *client = csn_calloc(1, sizeof(*client));
    int r;

    if (!client)
        return -ENOMEM;
    client->k = k;
    client->fd = fd;
    client->is_creator = is_creator;
    csn_list_init(&client->waiters);
    csn_list_init(&client->out);
    r = csn_fd_nonblock(fd, true);
    if (r == 0)
        r = csn_loop_add(k->loop, fd, EPOLLIN, on_client, client, &client->src);
    if (r < 0) {
        free(client);
        return r;
    }
    csn_list_append(&k->clients, &client->link);
    k->n_clients++;
    if (ret_client)
        *ret_client = client;
    return 0;
}

/* Whoever may reach the socket's directory is our user already; checked all the same (R41). */
static bool is_friend(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void on_connect(csn_source *src, uint32_t events, void *user)
{
    csn_keeper *k = user;
    csn_auto(fd) int fd = accept4(csn_source_fd(src), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void) events;
    if (fd < 0 || !is_friend(fd) || k->n_clients >= CSN_CLIENTS_MAX || k->is_ending)
        return;
    if (csn_client_add(k, fd, false, NULL) == 0) {
        (void) csn_take_fd(&fd); /* the client's now */
        csn_touch(k);
    }
}

/* The directory's name may be longer than a socket address: it is reached through its descriptor. */
static int bind_socket(csn_keeper *k)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    mode_t before;
    int r;

    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/sock",
                    k->box_fd); /* fits */
    if (unlinkat(k->box_fd, "sock", 0) < 0 && errno != ENOENT)
        return -errno;
    k->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (k->listen_fd < 0)
        return -errno;
    before = umask(0177);
    r = bind(k->listen_fd, (struct sockaddr *) &addr, sizeof(addr)) < 0 ? -errno : 0;
    (void) umask(before); /* never fails */
    return r == 0 && listen(k->listen_fd, CLIENTS_WAITING_MAX) < 0 ? -errno : r;
}

int csn_clients_listen(csn_keeper *k, csn_error *err)
{
    int r = csn_fault("listen");

    if (r == 0)
        r = bind_socket(k);
    if (r == 0)
        r = csn_loop_add(k->loop, k->listen_fd, EPOLLIN, on_connect, k, &k->listen_src);
    return r < 0 ? csn_fail_sys(err, r, "listen for clients of sandbox '%s'", k->plan.id) : CSN_OK;
}
