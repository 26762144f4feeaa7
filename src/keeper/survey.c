/* SPDX-License-Identifier: Apache-2.0 */
#include "survey.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/program.h"
#include "kern/pidfd.h"
#include "kern/spawn.h"

enum { ENTRIES_DEFAULT = 1000000 };

static _Noreturn void measure(csn_keeper *k, int out)
{
    uint64_t max = k->plan.disk_inodes > 0 ? (uint64_t) k->plan.disk_inodes * 2 : ENTRIES_DEFAULT;
    const int fds[] = { k->userns_fd, k->disk_fd, out };
    csn_disk_usage usage;

    /* Nothing else stays: a keeper that dies is gone for its clients at once, and so is its lock. */
    if (csn_fds_place(fds, CSN_COUNT(fds)) < 0)
        _exit(1);
    /* Our capabilities are gone; over the sandbox's files its own user namespace gives them back. */
    if (setns(0, CLONE_NEWUSER) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        _exit(1);
    if (csn_watch_disk(1, max, &usage) < 0 || csn_write_all(2, &usage, sizeof(usage)) < 0)
        _exit(1);
    _exit(0);
}

void csn_survey_stop(csn_keeper *k)
{
    csn_child_end end;

    k->survey_src = csn_source_remove(k->survey_src);
    csn_close(&k->survey_fd);
    if (k->survey_pidfd < 0)
        return;
    (void) csn_pidfd_signal(k->survey_pidfd, SIGKILL); /* it only reads; or is done already */
    (void) csn_pidfd_reap(k->survey_pidfd, false, &end);
    csn_close(&k->survey_pidfd);
}

static void on_measured(csn_source *src, uint32_t events, void *user)
{
    csn_keeper *k = user;
    csn_disk_usage usage;
    ssize_t n = csn_read_all(k->survey_fd, &usage, sizeof(usage));

    (void) src;
    (void) events;
    csn_survey_stop(k);
    k->survey_done(k, n == (ssize_t) sizeof(usage) ? &usage : NULL,
                   csn_now_ns() - k->survey_began_ns);
}

int csn_survey_start(csn_keeper *k, csn_survey_fn *done)
{
    int ends[2], r;
    pid_t pid;

    if (k->survey_pidfd >= 0)
        return 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    k->survey_fd = ends[0];
    k->survey_done = done;
    k->survey_began_ns = csn_now_ns();
    pid = csn_clone(0, -1, &k->survey_pidfd);
    if (pid == 0)
        measure(k, ends[1]);
    csn_close(&ends[1]);
    r = pid < 0 ? pid
                : csn_loop_add(k->loop, k->survey_fd, EPOLLIN, on_measured, k, &k->survey_src);
    if (r < 0)
        csn_survey_stop(k);
    return r;
}
