/* SPDX-License-Identifier: Apache-2.0 */
/* The limits each process is born with (R23, R24). What happens at the limits is told in tests/story. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

static enum verdict limit_above(const struct attack *self)
{
    struct rlimit r;
    if (getrlimit((int) self->arg[0], &r) < 0)
        return BREACH;
    if (r.rlim_max <= (rlim_t) self->arg[1])
        return CONTAINED;
    printf("hard limit %llu\n", (unsigned long long) r.rlim_max);
    return BREACH;
}

static enum verdict raise_limit(const struct attack *self)
{
    struct rlimit r;
    getrlimit((int) self->arg[0], &r);
    r.rlim_cur = r.rlim_max = r.rlim_max + 1;
    return setrlimit((int) self->arg[0], &r) == 0 ? BREACH : CONTAINED;
}

static enum verdict real_time(const struct attack *self)
{
    struct sched_param p = { .sched_priority = 1 };
    return sched_setscheduler(0, (int) self->arg[0], &p) == 0 ? BREACH : CONTAINED;
}

static enum verdict negative_nice(const struct attack *self)
{
    (void) self;
    return setpriority(PRIO_PROCESS, 0, -5) == 0 ? BREACH : CONTAINED;
}

static enum verdict real_time_io(const struct attack *self)
{
    (void) self;
    return call(SYS_ioprio_set, 1, 0, (1 << 13) | 4, 0, 0, 0) == 0 ? BREACH : CONTAINED;
}

/* They count for whoever made the user namespace, too: all of them here are none left there. */
static enum verdict hoard_inotify(const struct attack *self)
{
    char text[32];
    int n = 0;

    (void) self;
    if (read_text("/proc/sys/fs/inotify/max_user_instances", text, sizeof(text)) <= 0)
        return CANNOT_TELL;
    long all = strtol(text, NULL, 10);
    while (n < all && inotify_init1(IN_CLOEXEC) >= 0)
        n++;
    printf("%d of %ld\n", n, all);
    return n > all / 3 ? BREACH : CONTAINED;
}

/* Without our limits the host's own hold, which may be as low already. */
#define LIMIT(name, resource, number, host) \
    { \
        name, "R24", W_RLIMITS, 0, limit_above, { resource, number }, host \
    }

const struct attack attacks_limits[] = {
    LIMIT("core_dumps", RLIMIT_CORE, 1, "limit:4:1"), /* 1: none, where the host pipes them to a program */
    LIMIT("locked_memory", RLIMIT_MEMLOCK, 8 << 20, "limit:8:8388608"),
    LIMIT("open_files", RLIMIT_NOFILE, 16384, "limit:7:16384"),
    LIMIT("message_queues", RLIMIT_MSGQUEUE, 409600, "limit:12:409600"),
    LIMIT("pending_signals", RLIMIT_SIGPENDING, 16384, "limit:11:16384"),
    LIMIT("file_size", RLIMIT_FSIZE, 1L << 40, "limit:1:1099511627776"),
    { "real_time_priority", "R23", 0, 0, limit_above, { RLIMIT_RTPRIO, 0 }, NULL },
    { "hoard_inotify", "R31", W_NESTING, 0, hoard_inotify, { 0 }, NULL },
    { "raise_open_files", "R24", 0, 0, raise_limit, { RLIMIT_NOFILE }, NULL },
    /* The cpu cgroup gives no real-time, whatever the caller may. */
    { "sched_fifo", "R23", 0, 0, real_time, { SCHED_FIFO }, NULL },
    { "sched_rr", "R23", 0, 0, real_time, { SCHED_RR }, NULL },
    { "negative_nice", "R23", W_USERNS | W_CAPS, 0, negative_nice, { 0 }, NULL },
    { "real_time_io", "R23", W_USERNS | W_CAPS, 0, real_time_io, { 0 }, NULL },
    { 0 },
};
