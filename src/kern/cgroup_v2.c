/* SPDX-License-Identifier: Apache-2.0 */
/* Version 2: one directory for everything. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cgroup_impl.h"
#include "lines.h"

#define PERIOD_US      100000
#define MIN_QUOTA_US   1000

static int limit_memory(int dir, int64_t bytes)
{
    int r = csn_cg_write_i64(dir, "memory.max", bytes);

    if (r < 0)
        return r;
    r = csn_cg_write(dir, "memory.swap.max", "0");
    if (r == -ENOENT)
        r = 0;  /* a kernel without swap */
    if (r == 0) /* out of memory ends a program, not the sandbox's init with it */
        r = csn_cg_write(dir, "memory.oom.group", "0");
    return r == -ENOENT ? 0 : r;
}

static int limit_cpu(int dir, const csn_cgroup_limits *limits)
{
    int64_t quota = limits->cpu_milli * PERIOD_US / 1000;
    char text[48];
    int r = 0;

    if (quota < MIN_QUOTA_US)
        quota = MIN_QUOTA_US;
    (void) snprintf(text, sizeof(text), "%lld %d", (long long) quota, PERIOD_US); /* always fits */
    if (limits->cpu_milli > 0)
        r = csn_cg_write(dir, "cpu.max", text);
    if (r == 0 && limits->cpu_weight)
        r = csn_cg_write_i64(dir, "cpu.weight", limits->cpu_weight);
    return r;
}

int csn_cg_v2_limit(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits)
{
    int r = 0;

    if (controllers & CSN_CG_MEMORY && limits->memory_bytes > 0)
        r = limit_memory(dir_fd, limits->memory_bytes);
    if (r == 0 && controllers & CSN_CG_PIDS && limits->n_processes > 0)
        r = csn_cg_write_i64(dir_fd, "pids.max", limits->n_processes);
    return r;
}

int csn_cg_v2_finish(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits)
{
    return controllers & CSN_CG_CPU ? limit_cpu(dir_fd, limits) : 0;
}

/* Files of controllers that are off, or newer than this kernel, read as 0. */
static int optional(int r)
{
    return r == -ENOENT ? 0 : r;
}

int csn_cg_v2_usage(int dir, csn_cgroup_usage *u)
{
    int r = optional(csn_small_read_u64(dir, "memory.current", &u->memory_bytes));

    if (r == 0) /* 5.19+ */
        r = optional(csn_small_read_u64(dir, "memory.peak", &u->memory_peak_bytes));
    if (r == 0)
        r = optional(csn_keyed_read_u64(dir, "memory.events", "oom_kill", &u->n_oom_kills));
    if (r == 0)
        r = optional(csn_keyed_read_u64(dir, "memory.events", "max", &u->n_memory_full));
    if (r == 0)
        r = optional(csn_small_read_u64(dir, "pids.current", &u->n_processes));
    if (r == 0) /* 6.1+ */
        r = optional(csn_small_read_u64(dir, "pids.peak", &u->n_processes_peak));
    if (r == 0)
        r = optional(csn_keyed_read_u64(dir, "pids.events", "max", &u->n_fork_denied));
    if (r == 0)
        r = optional(csn_keyed_read_u64(dir, "cpu.stat", "usage_usec", &u->cpu_usec));
    if (r == 0)
        r = optional(csn_keyed_read_u64(dir, "cpu.stat", "nr_throttled", &u->n_throttled));
    return r;
}

int csn_cg_v2_freeze(int dir_fd, bool freeze)
{
    int r = csn_cg_write(dir_fd, "cgroup.freeze", freeze ? "1" : "0");

    return r == -ENOENT ? -ENOTSUP : r; /* 5.2+ */
}
