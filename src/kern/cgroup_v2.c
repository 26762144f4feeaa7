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
#define PREPARE_ROUNDS 16

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
        r = optional(csn_small_read_u64(dir, "pids.current", &u->n_processes));
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

/* One pass over our own group; new processes may appear meanwhile. The number moved or -errno. */
static int move_all(int from, int to)
{
    csn_lines lines;
    csn_str line;
    uint64_t pid;
    int n = 0, r = csn_lines_open(&lines, from, "cgroup.procs", 1u << 20);

    if (r < 0)
        return r;
    while ((r = csn_lines_next(&lines, &line)) > 0) {
        if (csn_parse_u64(line, &pid) < 0 || pid == 0)
            continue;
        r = csn_cg_write_i64(to, "cgroup.procs", (int64_t) pid);
        if (r < 0 && r != -ESRCH)
            break;
        n++;
    }
    csn_lines_done(&lines);
    return r < 0 ? r : n;
}

int csn_cg_v2_empty(int own)
{
    csn_auto(fd) int leaf = -1;
    int r = 1;

    if (mkdirat(own, CSN_CGROUP_ENGINE, 0755) < 0 && errno != EEXIST)
        return -errno;
    leaf = openat(own, CSN_CGROUP_ENGINE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (leaf < 0)
        return -errno;
    for (int i = 0; r > 0 && i < PREPARE_ROUNDS; i++)
        r = move_all(own, leaf);
    return r > 0 ? -EBUSY : r;
}

static bool is_enabled(int own, uint32_t controllers)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = { { CSN_CG_MEMORY, "memory" }, { CSN_CG_PIDS, "pids" }, { CSN_CG_CPU, "cpu" } };
    char text[512];
    uint32_t on = 0;
    int n = csn_small_read(own, "cgroup.subtree_control", text, sizeof(text));

    if (n < 0)
        return false;
    csn_str rest = csn_str_trim(csn_str_n(text, (size_t) n));
    for (csn_str word = csn_lines_field(&rest, ' '); word.len; word = csn_lines_field(&rest, ' '))
        for (size_t i = 0; i < CSN_COUNT(names); i++)
            if (csn_str_is(word, names[i].name))
                on |= names[i].bit;
    return (on & controllers & CSN_CG_LIMITS) == (controllers & CSN_CG_LIMITS);
}

static int enable(int own, uint32_t controllers)
{
    int r = 0;

    if (controllers & CSN_CG_MEMORY)
        r = csn_cg_write(own, "cgroup.subtree_control", "+memory");
    if (r == 0 && controllers & CSN_CG_PIDS)
        r = csn_cg_write(own, "cgroup.subtree_control", "+pids");
    if (r == 0 && controllers & CSN_CG_CPU)
        r = csn_cg_write(own, "cgroup.subtree_control", "+cpu");
    return r;
}

/* In our own group, and below it in `caisson`. */
static int prepare_own(int own, uint32_t wanted)
{
    int r = is_enabled(own, wanted) ? 0 : enable(own, wanted);

    if (r != -EBUSY) /* only the host's root group may have processes and controllers both */
        return r;
    r = csn_cg_v2_empty(own);
    return r < 0 ? r : enable(own, wanted);
}

int csn_cgroup_prepare(const csn_cgroup_host *host)
{
    if (host->rung != CSN_CGROUP_V2)
        return 0;
    csn_auto(fd) int own = open(host->hierarchies[0].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    csn_auto(fd) int parent = -1;
    if (own < 0)
        return -errno;
    uint32_t wanted = host->hierarchies[0].controllers;
    int r = prepare_own(own, wanted);
    if (r < 0)
        return r;
    if (mkdirat(own, CSN_CGROUP_PARENT, 0755) < 0 && errno != EEXIST)
        return -errno;
    parent = openat(own, CSN_CGROUP_PARENT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return -errno;
    return is_enabled(parent, wanted) ? 0 : enable(parent, wanted);
}
