/* SPDX-License-Identifier: Apache-2.0 */
/* A process on its way out, watched by the loop: nobody waits for it but in csn_leaving_now(). Where no descriptor is left for
 * watching it, it is looked at again and again. */
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "local/local.h"

enum { LOOK_MS = 10 };

static bool is_gone(const csn_leaving *l)
{
    if (l->pid > 0)
        return csn_child_wait(l->pid, 0);
    return l->pidfd < 0 || csn_wait_fd(l->pidfd, POLLIN, 0) > 0;
}

/* `done` may begin another one. */
static void finish(csn_leaving *l, bool is_alive)
{
    csn_leaving_fn *done = l->done;

    l->done = NULL;
    l->src = csn_source_remove(l->src);
    csn_timer_cancel(&l->timer);
    csn_close(&l->pidfd);
    done(is_alive, l->user);
}

static void on_exit_seen(csn_source *src, uint32_t events, void *user)
{
    csn_leaving *l = user;

    (void) src;
    (void) events;
    if (is_gone(l))
        finish(l, false);
}

static void on_timer(csn_timer *timer, void *user);

static void wait_on(csn_leaving *l, int64_t until_ns)
{
    if (csn_timer_set(l->loop, &l->timer, until_ns, on_timer, l) < 0)
        csn_leaving_now(l); /* no descriptor at all: waited for here */
}

static void on_timer(csn_timer *timer, void *user)
{
    csn_leaving *l = user;
    const bool is_late = csn_deadline_passed(l->deadline_ns);

    (void) timer;
    if (!l->src && is_gone(l)) {
        finish(l, false);
    } else if (is_late && l->is_spared) {
        finish(l, true);
    } else {
        if (is_late)
            (void) kill(l->pid, SIGKILL); /* our unreaped child, so the number is still its own */
        if (!l->src)
            wait_on(l, csn_deadline_in_ms(LOOK_MS));
    }
}

void csn_leaving_begin(csn_leaving *l, csn_loop *loop, csn_leaving_fn *done, void *user)
{
    l->done = done;
    l->user = user;
    l->loop = loop;
    l->deadline_ns = csn_deadline_in_ms(CSN_LEAVING_WAIT_MS);
    if (is_gone(l)) {
        finish(l, false);
        return;
    }
    if (l->pidfd < 0)
        l->pidfd = (int) syscall(SYS_pidfd_open, l->pid, 0);
    if (l->pidfd < 0 || csn_loop_add(loop, l->pidfd, EPOLLIN, on_exit_seen, l, &l->src) < 0)
        l->src = NULL;
    wait_on(l, l->src ? l->deadline_ns : csn_deadline_in_ms(LOOK_MS));
}

void csn_leaving_now(csn_leaving *l)
{
    bool is_alive = false;

    if (!l->done)
        return;
    if (l->pid > 0 && !l->is_spared)
        csn_child_reap(l->pid, csn_remaining_ms(l->deadline_ns));
    else if (l->pid > 0)
        is_alive = !csn_child_wait(l->pid, csn_remaining_ms(l->deadline_ns));
    else
        (void) csn_wait_fd(l->pidfd, POLLIN, l->deadline_ns); /* its lock tells, too */
    finish(l, is_alive);
}
