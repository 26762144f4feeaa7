/* SPDX-License-Identifier: Apache-2.0 */
/* The limits each process is born with (R23, R24). What happens at the limits is told in tests/story. */
#include "attack.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

const struct attack attacks_limits[] = {
    { "core_dumps", "R24", W_RLIMITS, 0, limit_above, { RLIMIT_CORE, 0 } },
    { "locked_memory", "R24", W_RLIMITS, 0, limit_above, { RLIMIT_MEMLOCK, 8 << 20 } },
    { "open_files", "R24", W_RLIMITS, 0, limit_above, { RLIMIT_NOFILE, 16384 } },
    { "message_queues", "R24", W_RLIMITS, 0, limit_above, { RLIMIT_MSGQUEUE, 409600 } },
    { "pending_signals", "R24", W_RLIMITS, 0, limit_above, { RLIMIT_SIGPENDING, 16384 } },
    { "real_time_priority", "R23", 0, 0, limit_above, { RLIMIT_RTPRIO, 0 } },
    { "raise_open_files", "R24", 0, 0, raise_limit, { RLIMIT_NOFILE } },
    { "sched_fifo", "R23", 0, 0, real_time, { SCHED_FIFO } },
    { "sched_rr", "R23", 0, 0, real_time, { SCHED_RR } },
    { "negative_nice", "R23", 0, 0, negative_nice, { 0 } },
    { "real_time_io", "R23", 0, 0, real_time_io, { 0 } },
    { 0 },
};
