/* SPDX-License-Identifier: Apache-2.0 */
#include "webline.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "base/time.h"
#include "kern/pidfd.h"
#include "wire/frame.h"

enum { END_GRACE_MS = 2000 };

struct csn_exchange {
    csn_list link;
    csn_webline *owner;
    uint32_t id;
    csn_exchange_done *done;
    void *user;
};

/* A frame the socket had no room for. */
typedef struct waiting_frame {
    csn_list link;
    uint32_t type, seq;
    size_t fixed_len, rest_len, n_fds;
    int fds[2];
    char bytes[];
} waiting_frame;

/* ---- sending ---- */

static void free_frame(waiting_frame *f)
{
    csn_list_remove(&f->link);
    csn_close_many(f->fds, f->n_fds);
    explicit_bzero(f->bytes, f->fixed_len + f->rest_len);
    free(f);
}

static void flush_frames(csn_webline *line)
{
    csn_list *node;

    while ((node = csn_list_first(&line->outbox))) {
        waiting_frame *f = csn_list_entry(node, waiting_frame, link);
        csn_out out = { .type = f->type,
                        .seq = f->seq,
                        .fixed = f->bytes,
                        .fixed_len = f->fixed_len,
                        .rest = f->bytes + f->fixed_len,
                        .rest_len = f->rest_len,
                        .fds = f->fds,
                        .n_fds = f->n_fds,
                        .flags = MSG_DONTWAIT };

        if (csn_frame_send(line->fd, &out) == -EAGAIN)
            return;
        free_frame(f); /* sent; or the helper is gone, which reading tells */
    }
    (void) csn_source_mod(line->source, EPOLLIN); /* fails only on a dead descriptor */
}

static int hold_frame(csn_webline *line, const csn_out *out)
{
    waiting_frame *f = csn_calloc(1, sizeof(*f) + out->fixed_len + out->rest_len);

    if (!f)
        return -ENOMEM;
    *f = (waiting_frame){
        .type = out->type, .seq = out->seq, .fixed_len = out->fixed_len, .rest_len = out->rest_len
    };
    csn_list_init(&f->link);
    if (out->fixed_len > 0)
        memcpy(f->bytes, out->fixed, out->fixed_len);
    if (out->rest_len > 0)
        memcpy(f->bytes + out->fixed_len, out->rest, out->rest_len);
    for (; f->n_fds < out->n_fds; f->n_fds++) {
        f->fds[f->n_fds] = csn_fd_dup(out->fds[f->n_fds], 0);
        if (f->fds[f->n_fds] < 0) {
            int r = f->fds[f->n_fds];

            free_frame(f);
            return r;
        }
    }
    csn_list_append(&line->outbox, &f->link);
    return csn_source_mod(line->source, EPOLLIN | EPOLLOUT);
}

static int send_frame(csn_webline *line, const csn_out *out)
{
    int r = csn_list_empty(&line->outbox) ? csn_frame_send(line->fd, out) : -EAGAIN;

    return r == -EAGAIN ? hold_frame(line, out) : r;
}

static uint32_t new_id(csn_webline *line)
{
    if (++line->next_id == 0)
        line->next_id = 1;
    return line->next_id;
}

csn_exchange *csn_webline_ask(csn_webline *line, const csn_web_request *request, int source_fd,
                              int sink_fd, csn_exchange_done *done, void *user, csn_error *err)
{
    csn_auto(mem) char *bytes = csn_malloc(CSN_FRAME_MAX);
    csn_exchange *ask = csn_calloc(1, sizeof(*ask));
    csn_pack p = { .data = bytes, .cap = CSN_FRAME_MAX - sizeof(csn_frame) - sizeof(csn_web_ask) };
    csn_web_ask fixed = request->ask;
    int fds[2], r;

    if (!ask || !bytes) {
        free(ask);
        (void) csn_fail(err, CSN_E_NO_MEMORY, "send a request");
        return NULL;
    }
    *ask = (csn_exchange){ .owner = line, .id = new_id(line), .done = done, .user = user };
    csn_web_request_pack(&p, request);
    csn_out out = { .type = CSN_FRAME_WEB_ASK,
                    .seq = ask->id,
                    .fixed = &fixed,
                    .fixed_len = sizeof(fixed),
                    .rest = p.data,
                    .rest_len = p.len,
                    .fds = fds,
                    .flags = MSG_DONTWAIT };
    if (source_fd >= 0) {
        fixed.flags |= CSN_WEB_HAS_SOURCE;
        fds[out.n_fds++] = source_fd;
    }
    if (sink_fd >= 0) {
        fixed.flags |= CSN_WEB_HAS_SINK;
        fds[out.n_fds++] = sink_fd;
    }
    r = p.error < 0 ? p.error : line->fd < 0 ? -EPIPE : send_frame(line, &out);
    if (r < 0) {
        free(ask);
        (void) csn_fail(err, r == -ENOMEM ? CSN_E_NO_MEMORY : CSN_E_LOST,
                        "send a request: caisson-remote is gone (%s)", csn_strerror(r));
        return NULL;
    }
    csn_list_append(&line->asks, &ask->link);
    return ask;
}

void csn_exchange_cancel(csn_exchange *ask)
{
    if (!ask)
        return;
    csn_out out = { .type = CSN_FRAME_WEB_CANCEL, .seq = ask->id, .flags = MSG_DONTWAIT };
    if (ask->owner->fd >= 0)
        (void) send_frame(ask->owner, &out); /* else its answer finds nobody */
    csn_list_remove(&ask->link);
    free(ask);
}

int csn_webline_dial(csn_webline *line, const csn_web_call *call, int channel)
{
    char bytes[CSN_WEB_URL_MAX + CSN_WEB_OFFER_MAX + 64];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    csn_web_call_pack(&p, call);
    csn_out out = { .type = CSN_FRAME_WEB_DIAL,
                    .fixed = &call->dial,
                    .fixed_len = sizeof(call->dial),
                    .rest = p.data,
                    .rest_len = p.len,
                    .fds = &channel,
                    .n_fds = 1,
                    .flags = MSG_DONTWAIT };
    if (p.error < 0)
        return p.error;
    return line->fd < 0 ? -EPIPE : send_frame(line, &out);
}

uint32_t csn_webline_new_last(csn_webline *line)
{
    return new_id(line);
}

int csn_webline_set_last(csn_webline *line, uint32_t last, const char *method, const char *url)
{
    char bytes[CSN_WEB_URL_MAX + 64];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };
    csn_web_last packed = { .method = url ? method : "", .url = url };

    csn_web_last_pack(&p, &packed);
    csn_out out = { .type = CSN_FRAME_WEB_LAST,
                    .seq = last,
                    .rest = p.data,
                    .rest_len = p.len,
                    .flags = MSG_DONTWAIT };
    if (p.error < 0)
        return p.error;
    return line->fd < 0 ? -EPIPE : send_frame(line, &out);
}

/* ---- receiving ---- */

/* Callbacks may ask anew: those are refused, since fd is -1. */
static void answer_nobody(csn_webline *line)
{
    csn_list *node;

    while ((node = csn_list_pop(&line->asks))) {
        csn_exchange *ask = csn_list_entry(node, csn_exchange, link);

        ask->done(NULL, ask->user);
        free(ask);
    }
}

static void hang_up(csn_webline *line)
{
    csn_list *node;

    line->source = csn_source_remove(line->source);
    csn_close(&line->fd);
    while ((node = csn_list_first(&line->outbox)))
        free_frame(csn_list_entry(node, waiting_frame, link));
}

/* 0, or -EBADMSG. */
static int take_answer(csn_webline *line, csn_msg *msg)
{
    csn_unpack u = csn_msg_rest(msg, sizeof(csn_web_end));
    csn_web_answer answer;
    csn_web_end end;

    csn_msg_fixed(msg, &end, sizeof(end));
    if (csn_web_answer_unpack(&u, &end, &answer) < 0)
        return -EBADMSG;
    csn_list_foreach (node, &line->asks) {
        csn_exchange *ask = csn_list_entry(node, csn_exchange, link);

        if (ask->id != msg->head.seq)
            continue;
        csn_list_remove(node);
        ask->done(&answer, ask->user);
        free(ask);
        break;
    }
    return 0; /* nobody: it was cancelled meanwhile */
}

/* A callback may wait in a nested turn of the loop, which then receives into a buffer of its own. */
static void on_helper(csn_source *src, uint32_t events, void *user)
{
    csn_webline *line = user;
    csn_msg msg = CSN_MSG_INIT;
    char *buffer;
    int r;

    (void) src;
    if (events & EPOLLOUT)
        flush_frames(line);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    buffer = line->buffer ? line->buffer : csn_malloc(CSN_FRAME_MAX);
    if (!buffer)
        return; /* level-triggered: we are told again */
    line->buffer = NULL;
    r = csn_frame_recv(line->fd, buffer, CSN_FRAME_MAX, CSN_SAID_BY_REMOTE, MSG_DONTWAIT, &msg);
    if (r == 1)
        r = take_answer(line, &msg) < 0 ? -EBADMSG : 1;
    csn_msg_done(&msg);
    if (line->buffer)
        free(buffer);
    else
        line->buffer = buffer;
    if (r == 1 || r == -EAGAIN || r == -EINTR)
        return;
    hang_up(line);
    answer_nobody(line);
}

/* ---- the helper ---- */

/* What it may know of our environment: how to get out and whom to trust. */
static const char *const kept_env[] = {
    "http_proxy",   "https_proxy",   "all_proxy",    "no_proxy",      "HTTP_PROXY",
    "HTTPS_PROXY",  "ALL_PROXY",     "NO_PROXY",     "SSL_CERT_FILE", "SSL_CERT_DIR",
#ifdef __SANITIZE_ADDRESS__
    "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
#endif
};

extern char **environ;

static void keep_environment(char *env[CSN_COUNT(kept_env) + 1])
{
    size_t n = 0;

    for (size_t i = 0; i < CSN_COUNT(kept_env); i++) {
        size_t len = strlen(kept_env[i]);

        for (char **e = environ; e && *e; e++) {
            if (strncmp(*e, kept_env[i], len) != 0 || (*e)[len] != '=')
                continue;
            env[n++] = *e;
            break;
        }
    }
    env[n] = NULL;
}

static int start_helper(csn_webline *line, const char *libexec, int far, csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char name[] = "caisson-remote", *argv[] = { name, NULL }, *env[CSN_COUNT(kept_env) + 1];
    int fds[] = { far, null, null }; /* nobody waits for its end because it holds our stderr */
    csn_program program = { .argv = argv, .envp = env, .fds = fds, .n_fds = 3 };
    pid_t pid;
    int r;

    csn_buf_printf(&path, "%s/caisson-remote", libexec);
    keep_environment(env);
    program.path = path.data;
#ifdef __SANITIZE_ADDRESS__
    if (fcntl(STDERR_FILENO, F_GETFD) >= 0)
        fds[2] = STDERR_FILENO;
#endif
    if (null < 0)
        return csn_fail_sys(err, -errno, "open /dev/null");
    r = path.error < 0 ? path.error : csn_program_start(&program, &pid, &line->pidfd);
    return r < 0 ? csn_fail_sys(err, r, "start '%s'", path.data) : CSN_OK;
}

static int send_key(csn_webline *line, const csn_web_key *key)
{
    char bytes[2 * CSN_WEB_KEY_MAX];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };
    int r;

    csn_web_key_pack(&p, key);
    csn_out out = {
        .type = CSN_FRAME_WEB_KEY, .rest = p.data, .rest_len = p.len, .flags = MSG_DONTWAIT
    };
    r = p.error < 0 ? p.error : csn_frame_send(line->fd, &out);
    explicit_bzero(bytes, sizeof(bytes));
    return r;
}

int csn_webline_open(csn_webline *line, csn_loop *loop, const char *libexec, const csn_web_key *key,
                     csn_error *err)
{
    csn_auto(fd) int far = -1;
    int pair[2], r;

    *line = (csn_webline){ .loop = loop, .fd = -1, .pidfd = -1 };
    csn_list_init(&line->asks);
    csn_list_init(&line->outbox);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return csn_fail_sys(err, -errno, "make a socket for caisson-remote");
    line->fd = pair[0];
    far = pair[1];
    r = start_helper(line, libexec, far, err);
    if (r < 0) {
        csn_close(&line->fd);
        return r;
    }
    r = send_key(line, key);
    if (r == 0)
        r = csn_loop_add(loop, line->fd, EPOLLIN, on_helper, line, &line->source);
    if (r == 0)
        return CSN_OK;
    csn_webline_close(line);
    return csn_fail_sys(err, r, "speak to caisson-remote");
}

void csn_webline_close(csn_webline *line)
{
    const int64_t deadline = csn_deadline_in_ms(CSN_WEB_FINISH_MS + CSN_WEB_LAST_MS + END_GRACE_MS);
    csn_child_end end;

    hang_up(line);
    answer_nobody(line);
    if (line->pidfd >= 0 && csn_pidfd_reap_until(line->pidfd, deadline, &end) == -ETIMEDOUT) {
        (void) csn_pidfd_signal(line->pidfd, SIGKILL);
        (void) csn_pidfd_reap(line->pidfd, false, &end);
    }
    csn_close(&line->pidfd);
    free(line->buffer);
    line->buffer = NULL;
}
