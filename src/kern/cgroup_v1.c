/* SPDX-License-Identifier: Apache-2.0 */
/* Version 1 and hybrid hosts: a hierarchy per controller. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "cgroup_impl.h"
#include "lines.h"

#define PERIOD_US    100000
#define MIN_QUOTA_US 1000 /* the kernel's */

/* Memory with swap may never be below memory without: which of the two to write first depends on
 * whether the limit rises or falls, so try both orders. */
static int limit_memory(int dir, int64_t bytes)
{
    int r = csn_cg_write_i64(dir, "memory.limit_in_bytes", bytes);
    int swap = csn_cg_write_i64(dir, "memory.memsw.limit_in_bytes", bytes);

    if (r == -EINVAL && swap == 0)
        r = csn_cg_write_i64(dir, "memory.limit_in_bytes", bytes);
    if (r < 0)
        return r;
    if (swap == -ENOENT) /* swapaccount=0: at least don't swap by choice */
        swap = csn_cg_write_i64(dir, "memory.swappiness", 0);
    return swap == -ENOENT ? 0 : swap;
}

static int limit_cpu(int dir, const csn_cgroup_limits *limits)
{
    int64_t quota = limits->cpu_milli * PERIOD_US / 1000;
    int r = 0;

    if (limits->cpu_milli > 0)
        r = csn_cg_write_i64(dir, "cpu.cfs_quota_us", quota < MIN_QUOTA_US ? MIN_QUOTA_US : quota);
    if (r == 0 && limits->cpu_weight)
        r = csn_cg_write_i64(dir, "cpu.shares", (int64_t) limits->cpu_weight * 1024 / 100 + 2);
    return r;
}

int csn_cg_v1_limit(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits)
{
    int r = 0;

    if (controllers & CSN_CG_MEMORY && limits->memory_bytes > 0)
        r = limit_memory(dir_fd, limits->memory_bytes);
    if (r == 0 && controllers & CSN_CG_PIDS && limits->n_processes > 0)
        r = csn_cg_write_i64(dir_fd, "pids.max", limits->n_processes);
    return r;
}

int csn_cg_v1_finish(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits)
{
    int r = 0;

    if (controllers & CSN_CG_CPU)
        r = limit_cpu(dir_fd, limits);
    if (r == 0 && controllers & CSN_CG_MEMORY && limits->memory_bytes > 0)
        r = csn_cg_write_i64(dir_fd, "memory.kmem.tcp.limit_in_bytes", limits->memory_bytes / 4);
    return r == -ENOENT && !(controllers & CSN_CG_CPU) ? 0 : r; /* no TCP: nothing to bound */
}

static int usage_memory(int dir, csn_cgroup_usage *usage)
{
    int r = csn_small_read_u64(dir, "memory.usage_in_bytes", &usage->memory_bytes);

    if (r == 0)
        r = csn_small_read_u64(dir, "memory.max_usage_in_bytes", &usage->memory_peak_bytes);
    if (r == 0)
        r = csn_keyed_read_u64(dir, "memory.oom_control", "oom_kill", &usage->n_oom_kills);
    if (csn_small_read_u64(dir, "memory.kmem.tcp.usage_in_bytes", &usage->tcp_bytes) < 0)
        usage->tcp_bytes = 0;    /* a kernel without TCP */
    return r == -ENOENT ? 0 : r; /* oom_kill came with 4.13 */
}

static int usage_pids(int dir, csn_cgroup_usage *usage)
{
    int r = csn_small_read_u64(dir, "pids.current", &usage->n_processes);

    if (r == 0)
        r = csn_keyed_read_u64(dir, "pids.events", "max", &usage->n_fork_denied);
    if (r == 0) /* 6.1+ */
        r = csn_small_read_u64(dir, "pids.peak", &usage->n_processes_peak);
    return r == -ENOENT ? 0 : r;
}

int csn_cg_v1_usage(const csn_cgroup *cg, csn_cgroup_usage *usage)
{
    int memory = csn_cg_dir(cg, CSN_CG_MEMORY), pids = csn_cg_dir(cg, CSN_CG_PIDS);
    int acct = csn_cg_dir(cg, CSN_CG_CPUACCT), cpu = csn_cg_dir(cg, CSN_CG_CPU);
    uint64_t ns = 0;
    int r = memory >= 0 ? usage_memory(memory, usage) : 0;

    if (r == 0 && pids >= 0)
        r = usage_pids(pids, usage);
    if (r == 0 && acct >= 0) {
        r = csn_small_read_u64(acct, "cpuacct.usage", &ns);
        usage->cpu_usec = ns / 1000;
    }
    if (r == 0 && cpu >= 0)
        r = csn_keyed_read_u64(cpu, "cpu.stat", "nr_throttled", &usage->n_throttled);
    return r == -ENOENT ? 0 : r;
}

/* FROZEN may first be FREEZING: that already stops every fork that matters to us. */
int csn_cg_v1_freeze(int dir_fd, bool freeze)
{
    return csn_cg_write(dir_fd, "freezer.state", freeze ? "FROZEN" : "THAWED");
}

int csn_cgroup_deny_devices(const csn_cgroup *cg)
{
    /* no 'm': nodes can't be made, not even of these */
    static const char *const allowed[] = {
        "c 1:3 rw",   /* null */
        "c 1:5 rw",   /* zero */
        "c 1:7 rw",   /* full */
        "c 1:8 rw",   /* random */
        "c 1:9 rw",   /* urandom */
        "c 5:0 rw",   /* tty */
        "c 5:2 rw",   /* ptmx */
        "c 136:* rw", /* pts */
    };
    int dir = cg->rung == CSN_CGROUP_V1 ? csn_cg_dir(cg, CSN_CG_DEVICES) : -1;

    if (dir < 0)
        return -ENOTSUP;
    int r = csn_cg_write(dir, "devices.deny", "a");
    for (size_t i = 0; r == 0 && i < CSN_COUNT(allowed); i++)
        r = csn_cg_write(dir, "devices.allow", allowed[i]);
    return r;
}
