/* SPDX-License-Identifier: Apache-2.0 */
/* caisson-remote: speaks HTTP for one engine whose sandboxes are elsewhere, so that libcaisson and the command line need no
 * HTTP library and no stranger's byte is parsed as TLS or HTTP in an embedder's process.
 *
 * Theory of operation. Descriptor 0 is a SEQPACKET socket to the engine. The first frame is the credential; then requests
 * come in any number, run side by side on one loop, and are answered as they end. A request that was cancelled is not
 * answered. A WebSocket is dialled by a request with a channel of its own, which then carries its messages (socket.c).
 * When the engine is gone, be it by kill -9, requests under way are dropped, except those marked to be finished
 * (a create whose sandbox has no id yet); then the requests kept for the end are sent (delete what this engine made) and
 * the program ends. Both have a time limit. It never tells the credential to anybody but the servers it was told to. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "kern/caps.h"
#include "kern/landlock.h"
#include "kern/pidfd.h"
#include "remote.h"

enum { SOCK = 0, FILES_MAX = 4096, LAST_PAUSE_MS = 300 };

/* A request kept for the end. */
typedef struct last_request {
    csn_list link;
    uint32_t id;
    csn_timer timer; /* another try */
    csn_remote_program *program;
    bool is_waiting; /* for the answer of what would make it necessary */
    char method[8];
    char url[];
} last_request;

typedef struct held_answer {
    csn_list link;
    uint32_t id;
    csn_web_end end;
    size_t len;
    char rest[];
} held_answer;

/* ---- answers ---- */

static int send_answer(csn_remote_program *p, uint32_t id, const csn_web_end *end, const char *rest,
                       size_t len)
{
    csn_out out = { .type = CSN_FRAME_WEB_ANSWER,
                    .seq = id,
                    .fixed = end,
                    .fixed_len = sizeof(*end),
                    .rest = rest,
                    .rest_len = len,
                    .flags = MSG_DONTWAIT };

    return csn_frame_send(p->sock, &out);
}

static void flush_outbox(csn_remote_program *p)
{
    csn_list *node;

    while ((node = csn_list_first(&p->outbox))) {
        held_answer *held = csn_list_entry(node, held_answer, link);

        if (send_answer(p, held->id, &held->end, held->rest, held->len) == -EAGAIN)
            return;
        csn_list_remove(node); /* sent; or the engine is gone, which reading tells */
        free(held);
    }
    (void) csn_source_mod(p->source, EPOLLIN); /* fails only on a dead descriptor */
}

static void tell(csn_remote_program *p, uint32_t id, const csn_web_answer *answer)
{
    size_t cap = answer->body_len + strlen(answer->content_type) + strlen(answer->message) + 64;
    held_answer *held = csn_malloc(sizeof(*held) + cap);
    csn_pack pack = { .cap = cap };

    if (!held) /* the engine's time limit tells it */
        return;
    pack.data = held->rest;
    csn_web_answer_pack(&pack, answer);
    *held = (held_answer){ .id = id, .end = answer->end, .len = pack.len };
    csn_list_init(&held->link);
    if (csn_list_empty(&p->outbox) &&
        send_answer(p, id, &held->end, held->rest, held->len) != -EAGAIN) {
        free(held);
        return;
    }
    csn_list_append(&p->outbox, &held->link);
    (void) csn_source_mod(p->source, EPOLLIN | EPOLLOUT);
}

static void leave_if_idle(csn_remote_program *p);

static last_request *find_last(csn_remote_program *p, uint32_t id)
{
    csn_list_foreach (node, &p->lasts) {
        last_request *last = csn_list_entry(node, last_request, link);

        if (last->id == id)
            return last;
    }
    return NULL;
}

static void on_done(csn_transfer *t, csn_remote_program *p)
{
    last_request *last = t->last ? find_last(p, t->last) : NULL;

    if (last && t->answer.end.failure == CSN_WEB_OK && t->answer.end.status / 100 == 2)
        last->is_waiting = false;
    if (!p->is_leaving)
        tell(p, t->id, &t->answer);
    csn_transfer_free(t);
    leave_if_idle(p);
}

/* ---- frames ---- */

static csn_transfer *find_transfer(csn_remote_program *p, uint32_t id)
{
    csn_list_foreach (node, &p->transfers) {
        csn_transfer *t = csn_list_entry(node, csn_transfer, link);

        if (t->id == id)
            return t;
    }
    return NULL;
}

static int take_key(csn_remote_program *p, csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, 0);
    csn_web_key key;

    if (p->has_key || csn_web_key_unpack(&u, &key) < 0)
        return -EBADMSG;
    p->has_key = true;
    if (key.authorization[0])
        csn_buf_printf(&p->authorization, "Authorization: %s", key.authorization);
    csn_buf_puts(&p->extra, key.extra);
    csn_buf_puts(&p->agent, key.agent);
    csn_buf_puts(&p->option, key.option);
    explicit_bzero(p->buffer, sizeof(p->buffer)); /* the frame lay there */
    return p->authorization.error | p->extra.error | p->agent.error | p->option.error;
}

static int take_ask(csn_remote_program *p, csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, sizeof(csn_web_ask));
    csn_web_request req;
    csn_web_ask ask;
    size_t n_fds;

    csn_msg_fixed(msg, &ask, sizeof(ask));
    n_fds = (ask.flags & CSN_WEB_HAS_SOURCE ? 1u : 0) + (ask.flags & CSN_WEB_HAS_SINK ? 1u : 0);
    if (!p->has_key || n_fds != msg->n_fds || csn_web_request_unpack(&u, &ask, &req) < 0)
        return -EBADMSG;
    int source = ask.flags & CSN_WEB_HAS_SOURCE ? csn_msg_take_fd(msg, 0) : -1;
    int sink = ask.flags & CSN_WEB_HAS_SINK ? csn_msg_take_fd(msg, n_fds - 1) : -1;
    last_request *last = ask.last ? find_last(p, ask.last) : NULL;
    if (last)
        last->is_waiting = true;
    int r = csn_transfer_start(p, msg->head.seq, &req, source, sink, on_done);
    if (r < 0) {
        csn_web_answer answer = { .end = { .failure = CSN_WEB_FAILED, .retry_after_ms = -1 },
                                  .content_type = "",
                                  .message = "out of memory",
                                  .body = "" };
        tell(p, msg->head.seq, &answer);
    }
    return 0;
}

static int take_dial(csn_remote_program *p, csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, sizeof(csn_web_dial));
    csn_web_call call;
    csn_web_dial dial;

    csn_msg_fixed(msg, &dial, sizeof(dial));
    if (!p->has_key || msg->n_fds != 1 || csn_web_call_unpack(&u, &dial, &call) < 0)
        return -EBADMSG;
    (void) csn_socket_dial(p, &call, csn_msg_take_fd(msg, 0)); /* no memory: its channel closes */
    return 0;
}

static int take_last(csn_remote_program *p, csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, 0);
    csn_web_last last;

    if (csn_web_last_unpack(&u, &last) < 0)
        return -EBADMSG;
    last_request *known = find_last(p, msg->head.seq);
    if (known) {
        csn_list_remove(&known->link);
        free(known);
        p->n_lasts--;
    }
    if (!last.method[0])
        return 0;
    if (p->n_lasts >= CSN_WEB_LAST_MAX)
        return 0; /* that many are deleted by the service itself, when nobody uses them */
    last_request *keep = csn_calloc(1, sizeof(*keep) + strlen(last.url) + 1);
    if (!keep)
        return -ENOMEM;
    keep->id = msg->head.seq;
    keep->program = p;
    (void) csn_str_copy(keep->method, sizeof(keep->method), csn_str_of(last.method)); /* fits */
    memcpy(keep->url, last.url, strlen(last.url) + 1);
    csn_list_append(&p->lasts, &keep->link);
    p->n_lasts++;
    return 0;
}

static int take_frame(csn_remote_program *p, csn_msg *msg)
{
    switch (msg->head.type) {
    case CSN_FRAME_WEB_KEY:
        return take_key(p, msg);
    case CSN_FRAME_WEB_ASK:
        return take_ask(p, msg);
    case CSN_FRAME_WEB_CANCEL:
        csn_transfer_free(find_transfer(p, msg->head.seq));
        return 0;
    case CSN_FRAME_WEB_DIAL:
        return take_dial(p, msg);
    default:
        return take_last(p, msg);
    }
}

/* ---- the end ---- */

static void send_last(last_request *last);

static void on_last_again(csn_timer *timer, void *user)
{
    (void) timer;
    send_last(user);
}

/* A sandbox that is busy, or a service that is: once more, until the time is over. */
static void on_last_done(csn_transfer *t, csn_remote_program *p)
{
    int32_t status = t->answer.end.status;
    bool wants_more =
        status == 409 || status == 429 || status >= 500 || t->answer.end.failure == CSN_WEB_CUT;
    last_request *last = find_last(p, t->id);

    csn_transfer_free(t);
    if (last && wants_more) {
        (void) csn_timer_set(p->loop, &last->timer, csn_deadline_in_ms(LAST_PAUSE_MS),
                             on_last_again, last);
        return;
    }
    if (last) {
        csn_list_remove(&last->link);
        free(last);
    }
    leave_if_idle(p);
}

static void send_last(last_request *last)
{
    csn_web_request req = { .ask = { .flags = CSN_WEB_WITH_KEY,
                                     .timeout_ms = CSN_WEB_LAST_MS,
                                     .max_bytes = CSN_WEB_BODY_MAX },
                            .method = last->method,
                            .url = last->url,
                            .content_type = "",
                            .head = "",
                            .tail = "" };

    if (csn_transfer_start(last->program, last->id, &req, -1, -1, on_last_done) < 0) {
        csn_list_remove(&last->link);
        free(last);
    }
}

static void on_time_over(csn_timer *timer, void *user)
{
    csn_remote_program *p = user;

    (void) timer;
    if (p->is_at_last) {
        csn_loop_stop(p->loop, 0);
        return;
    }
    csn_list_foreach (node, &p->transfers) {
        csn_transfer_free(csn_list_entry(node, csn_transfer, link));
    }
    leave_if_idle(p);
}

static void drop_waiting(csn_remote_program *p)
{
    csn_list_foreach (node, &p->lasts) {
        last_request *last = csn_list_entry(node, last_request, link);

        if (!last->is_waiting)
            continue;
        csn_list_remove(node);
        free(last);
    }
}

static void leave_if_idle(csn_remote_program *p)
{
    if (!p->is_leaving || !csn_list_empty(&p->transfers))
        return;
    drop_waiting(p);
    if (p->is_at_last || csn_list_empty(&p->lasts)) {
        if (csn_list_empty(&p->lasts))
            csn_loop_stop(p->loop, 0);
        return;
    }
    p->is_at_last = true;
    (void) csn_timer_set(p->loop, &p->end_timer, csn_deadline_in_ms(CSN_WEB_LAST_MS), on_time_over,
                         p);
    csn_list_foreach (node, &p->lasts) {
        send_last(csn_list_entry(node, last_request, link));
    }
    if (csn_list_empty(&p->transfers)) /* no memory for any */
        csn_loop_stop(p->loop, 1);
}

static void begin_to_leave(csn_remote_program *p)
{
    csn_list *node;

    p->is_leaving = true;
    p->source = csn_source_remove(p->source);
    while ((node = csn_list_pop(&p->outbox)))
        free(csn_list_entry(node, held_answer, link));
    csn_sockets_end(p);
    csn_list_foreach (at, &p->transfers) {
        csn_transfer *t = csn_list_entry(at, csn_transfer, link);

        if (!(t->flags & CSN_WEB_FINISH))
            csn_transfer_free(t);
    }
    (void) csn_timer_set(p->loop, &p->end_timer, csn_deadline_in_ms(CSN_WEB_FINISH_MS),
                         on_time_over, p);
    leave_if_idle(p);
}

static void on_engine(csn_source *src, uint32_t events, void *user)
{
    csn_remote_program *p = user;
    csn_msg msg = CSN_MSG_INIT;
    int r;

    (void) src;
    if (events & EPOLLOUT)
        flush_outbox(p);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    r = csn_frame_recv(p->sock, p->buffer, sizeof(p->buffer), CSN_SAID_TO_REMOTE, MSG_DONTWAIT,
                       &msg);
    if (r == -EAGAIN || r == -EINTR)
        return;
    if (r == 1)
        r = take_frame(p, &msg) < 0 ? -EBADMSG : 1;
    csn_msg_done(&msg);
    if (r != 1) /* gone, or it speaks nonsense */
        begin_to_leave(p);
}

/* The engine's process has ended. Its socket says so most often; but a child that it forked may hold that, too. */
static void on_parent(csn_source *src, uint32_t events, void *user)
{
    csn_remote_program *p = user;

    (void) events; /* readable: it ended */
    csn_source_remove(src);
    if (!p->is_leaving)
        begin_to_leave(p);
}

static void watch_parent(csn_remote_program *p)
{
    int fd = -1;

    if (csn_pidfd_open(getppid(), &fd) < 0 ||
        csn_loop_add(p->loop, fd, EPOLLIN, on_parent, p, NULL) < 0)
        csn_close(&fd); /* then the socket alone tells; once watched it stays open to our end */
}

/* ---- this process ---- */

/* This process keeps: reading files (resolver, certificates), sockets, the descriptors it is given. It gives up: changing and
 * executing files, capabilities, new privileges, core dumps, being looked into. */
static void confine_self(void)
{
    struct rlimit none = { 0, 0 }, files = { FILES_MAX, FILES_MAX }, old;
    csn_landlock rs = CSN_LANDLOCK_INIT;
    csn_auto(fd) int root = -1;

    /* Each of these is a second line behind TLS and the parsers; a kernel that has not one of them still serves. */
    (void) csn_no_new_privs();
#ifndef __SANITIZE_ADDRESS__ /* its leak check looks into the process */
    (void) csn_dumpable_set(false);
#endif
    (void) csn_caps_clear();
    (void) setrlimit(RLIMIT_CORE, &none);
    if (getrlimit(RLIMIT_NOFILE, &old) == 0) {
        files.rlim_max = old.rlim_max;
        files.rlim_cur = old.rlim_max < FILES_MAX ? old.rlim_max : FILES_MAX;
        (void) setrlimit(RLIMIT_NOFILE, &files);
    }
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root >= 0 && csn_landlock_begin(&rs, 0) == 0 &&
        csn_landlock_allow(&rs, root, CSN_LANDLOCK_READ) == 0)
        (void) csn_landlock_restrict(&rs);
    csn_landlock_done(&rs);
}

int main(int argc, char **argv)
{
    static csn_remote_program p = { .sock = SOCK,
                                    .authorization = CSN_BUF_INIT,
                                    .extra = CSN_BUF_INIT,
                                    .agent = CSN_BUF_INIT,
                                    .option = CSN_BUF_INIT };
    int type = 0, r;
    socklen_t len = sizeof(type);

    (void) argv;
    if (argc != 1 || getsockopt(SOCK, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        type != SOCK_SEQPACKET) {
        fputs("caisson-remote: a helper of caisson; an engine starts it\n", stderr);
        return 2;
    }
    (void) signal(SIGPIPE, SIG_IGN);
    confine_self();
    csn_list_init(&p.transfers);
    csn_list_init(&p.sockets);
    csn_list_init(&p.lasts);
    csn_list_init(&p.outbox);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || csn_loop_new(&p.loop) < 0 ||
        csn_multi_open(&p) < 0 || csn_loop_add(p.loop, SOCK, EPOLLIN, on_engine, &p, &p.source) < 0)
        return 1;
    watch_parent(&p);
    r = csn_loop_run(p.loop);
    curl_multi_cleanup(p.multi);
    csn_loop_free(p.loop);
    csn_buf_free(&p.authorization);
    csn_buf_free(&p.extra);
    csn_buf_free(&p.agent);
    csn_buf_free(&p.option);
    curl_global_cleanup();
    return r < 0 ? 1 : r;
}
