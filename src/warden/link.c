/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the front. One message at a time, in order; while too many asks are under way or too many answers wait, it is
 * not read, so a front that asks without end only fills its own socket. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/warden.h"

enum { JOBS_MAX = 1024, QUEUE_MAX = 4096, ASKS_PER_TURN = 32 };

typedef struct queued {
    csn_list link;
    csn_answer answer;
    int fd;
} queued;

static void lose_front(csn_wd *wd)
{
    csn_link_close(wd); /* the front's end follows, and its pidfd tells */
}

static bool is_full(const csn_wd *wd)
{
    return wd->n_jobs >= JOBS_MAX || wd->n_queued >= QUEUE_MAX;
}

void csn_link_pace(csn_wd *wd)
{
    uint32_t events = (is_full(wd) ? 0 : EPOLLIN) | (wd->n_queued ? EPOLLOUT : 0);

    if (wd->is_front_gone && wd->n_jobs == 0)
        csn_loop_stop(wd->loop, wd->status);
    if (wd->link_src)
        (void) csn_source_mod(wd->link_src,
                              events); /* the descriptor is in the set: it can't fail */
}

static void flush(csn_wd *wd)
{
    csn_list *node;

    while (wd->link_fd >= 0 && (node = csn_list_first(&wd->queue))) {
        queued *q = csn_list_entry(node, queued, link);
        int r = csn_send_fds(wd->link_fd, &q->answer, sizeof(q->answer), &q->fd, q->fd >= 0);
        if (r == -EAGAIN || r == -ENOBUFS)
            return;
        csn_list_remove(&q->link);
        wd->n_queued--;
        csn_close(&q->fd);
        free(q);
        if (r < 0)
            lose_front(wd);
    }
}

void csn_link_send(csn_wd *wd, const csn_answer *answer, int fd)
{
    queued *q = wd->link_fd >= 0 ? calloc(1, sizeof(*q)) : NULL;

    if (!q) {
        csn_close(&fd);
        if (wd->link_fd >= 0) { /* an answer that is not given would be waited for for ever */
            csn_log(CSN_LOG_ERROR, "out of memory", NULL);
            lose_front(wd);
        }
        return;
    }
    q->answer = *answer;
    q->answer.magic = CSN_ASK_MAGIC;
    q->fd = fd;
    csn_list_append(&wd->queue, &q->link);
    wd->n_queued++;
    flush(wd);
    csn_link_pace(wd);
}

void csn_link_done(csn_wd *wd, uint64_t serial, int result, const csn_error *err, int fd)
{
    csn_answer answer = { .kind = CSN_ANSWER_DONE, .serial = serial, .result = result };

    if (result < 0 && err) {
        answer.sys_errno = err->sys_errno;
        (void) snprintf(answer.message, sizeof(answer.message), "%s", err->message);
    }
    csn_link_send(wd, &answer, fd);
}

static bool read_one(csn_wd *wd)
{
    static csn_ask ask;
    size_t n_fds = 0;
    ssize_t n = csn_recv_fds_flags(wd->link_fd, &ask, sizeof(ask), NULL, 0, &n_fds, MSG_DONTWAIT);

    if (n == -EAGAIN || n == -EINTR)
        return false;
    if (n > 0 && csn_ask_check(&ask, (size_t) n) == 0) {
        csn_serve_ask(wd, &ask);
        return wd->link_fd >= 0;
    }
    if (n != 0) {
        csn_log(CSN_LOG_ERROR, "the front sent what it must not; it is ended", NULL);
        (void) kill(wd->front_pid,
                    SIGKILL); /* ours, not reaped yet; it need not mind a closed line */
    }
    lose_front(wd);
    return false;
}

static void on_link(csn_source *src, uint32_t events, void *user)
{
    csn_wd *wd = user;

    (void) src;
    if (events & EPOLLOUT)
        flush(wd);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        for (int i = 0; i < ASKS_PER_TURN && !is_full(wd) && wd->link_fd >= 0 && read_one(wd); i++)
            ;
    csn_link_pace(wd);
}

int csn_link_open(csn_wd *wd)
{
    int r = csn_fd_nonblock(wd->link_fd, true);

    return r < 0 ? r : csn_loop_add(wd->loop, wd->link_fd, EPOLLIN, on_link, wd, &wd->link_src);
}

void csn_link_close(csn_wd *wd)
{
    csn_list *node;

    wd->link_src = csn_source_remove(wd->link_src);
    csn_close(&wd->link_fd);
    while ((node = csn_list_pop(&wd->queue))) {
        queued *q = csn_list_entry(node, queued, link);
        csn_close(&q->fd);
        free(q);
    }
    wd->n_queued = 0;
}
