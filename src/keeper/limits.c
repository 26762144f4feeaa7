/* SPDX-License-Identifier: Apache-2.0 */
/* The ladder of limits: what cgroups can do here, and what is left to the watcher. */

#include <errno.h>
#include <unistd.h>

#include "base/time.h"
#include "setup.h"

static const struct {
    uint32_t limit, controller;
    const char *name;
} ladder[] = {
    { CSN_LIMIT_MEMORY, CSN_CG_MEMORY, "memory" },
    { CSN_LIMIT_CPU, CSN_CG_CPU, "CPU" },
    { CSN_LIMIT_PIDS, CSN_CG_PIDS, "process" },
};

int csn_cgroups_look(csn_keeper *k)
{
    int r = k->is_host_known ? 0 : csn_cgroup_probe(&k->host);

    k->is_host_known = r == 0;
    return r;
}

static bool is_limited(const csn_plan *plan, uint32_t limit)
{
    return (limit == CSN_LIMIT_MEMORY && plan->memory_bytes > 0) ||
           (limit == CSN_LIMIT_CPU && plan->cpu_milli > 0) ||
           (limit == CSN_LIMIT_PIDS && plan->pids > 0);
}

/* Each hierarchy costs a directory to make and to remove, so short-lived sandboxes take only what limits them. */
static uint32_t choose(const csn_keeper *k)
{
    const uint32_t flags = k->plan.flags;
    bool is_short = (flags & CSN_PLAN_EPHEMERAL) && !(flags & CSN_PLAN_DETACHED);
    uint32_t want =
        CSN_CG_LIMITS | (is_short ? 0 : CSN_CG_FREEZER | CSN_CG_CPUACCT | CSN_CG_DEVICES);

    return want & k->host.controllers;
}

static int check_strict(csn_keeper *k, uint32_t have, csn_error *err)
{
    for (size_t i = 0; i < CSN_COUNT(ladder); i++) {
        if (have & ladder[i].controller)
            k->limits_kernel |= ladder[i].limit;
        else if (k->plan.strict & ladder[i].limit && is_limited(&k->plan, ladder[i].limit))
            return csn_fail(
                err, CSN_E_UNSUPPORTED,
                "the %s limit is strict, but no cgroup controller for it is usable here",
                ladder[i].name);
    }
    return CSN_OK;
}

static int make_groups(csn_keeper *k, const csn_cgroup_limits *limits)
{
    int r = csn_cgroup_create(&k->host, k->plan.id, limits, &k->cgroup);

    if (r == -EEXIST) { /* of a keeper that was killed: the lock is ours now */
        r = csn_cgroup_sweep(&k->host, k->plan.id);
        if (r == 0)
            r = csn_cgroup_create(&k->host, k->plan.id, limits, &k->cgroup);
    }
    if (r == 0 && k->host.rung == CSN_CGROUP_V1 && limits->controllers & CSN_CG_DEVICES)
        r = csn_cgroup_deny_devices(&k->cgroup);
    if (r == -EPERM &&
        !k->is_privileged) /* takes CAP_SYS_ADMIN; without privilege no other node can be made anyway */
        r = 0;
    return r; /* what was made is removed by this step's undo */
}

/* A limit of processes that its group is not below holds for it, too. */
int64_t csn_pids_limit(const csn_keeper *k)
{
    int64_t left = k->host.n_hierarchies > 0 ? k->host.hierarchies[0].left_pids : 0;

    return left > 0 && (k->plan.pids <= 0 || k->plan.pids > left) ? left : k->plan.pids;
}

static csn_cgroup_limits limits_of(const csn_keeper *k, uint32_t controllers)
{
    return (csn_cgroup_limits){
        .controllers = controllers,
        .memory_bytes = k->plan.memory_bytes,
        .n_processes = csn_pids_limit(k),
        .cpu_milli = k->plan.cpu_milli,
    };
}

int csn_cgroups_choose(csn_keeper *k, csn_error *err)
{
    int r = csn_cgroups_look(k);
    uint32_t have = r == 0 && k->host.rung != CSN_CGROUP_NONE ? choose(k) : 0;

    k->rung = CSN_RUNG_WATCH;
    if (have)
        k->rung = k->host.rung == CSN_CGROUP_V2 ? CSN_RUNG_CGROUP2 : CSN_RUNG_CGROUP1;
    if (k->disk_rung == CSN_DISK_TMPFS || k->disk_rung == CSN_DISK_LOOP)
        k->limits_kernel |= CSN_LIMIT_DISK;
    return check_strict(k, have, err);
}

/* Inside somebody's limits ours can't be wider. The kernel (v1) refuses such a quota; elsewhere it would only be untrue. */
static void fit_outer(csn_keeper *k)
{
    csn_cgroup_outer_read(&k->host, &k->outer);
    if (k->outer.cpu_milli > 0 && k->plan.cpu_milli > k->outer.cpu_milli) {
        k->cpu_asked_milli = k->plan.cpu_milli;
        k->plan.cpu_milli = k->outer.cpu_milli;
    }
}

/* In a group that somebody wants to remove one day: where ours are, for the sweep after a keeper that was killed, which may
 * run in another. */
static int note_groups(csn_keeper *k)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && !k->has_note && i < k->host.n_hierarchies; i++)
        if (!k->host.hierarchies[i].is_top) {
            r = csn_cgroup_host_write(&k->host, k->box_fd, CSN_BOX_CGROUPS);
            k->has_note = true;
        }
    return r;
}

int csn_cgroups_make(csn_keeper *k, csn_error *err)
{
    fit_outer(k);
    const csn_cgroup_limits limits = limits_of(k, choose(k));
    int r = note_groups(k);

    if (r == 0)
        r = make_groups(k, &limits);
    return r < 0 ? csn_fail_sys(err, r, "make the cgroups of sandbox '%s'", k->plan.id) : CSN_OK;
}

int csn_cgroups_finish(csn_keeper *k, csn_error *err)
{
    const csn_cgroup_limits limits = limits_of(k, choose(k));
    int r = k->cgroup.n > 0 ? csn_cgroup_finish(&k->cgroup, &limits) : 0;

    return r < 0 ? csn_fail_sys(err, r, "finish the cgroups of sandbox '%s'", k->plan.id) : CSN_OK;
}

static uint32_t processors_of(int64_t cpu_milli)
{
    const int64_t max = 65536;
    int64_t n = cpu_milli <= 0 ? 0 : cpu_milli / 1000 + (cpu_milli % 1000 > 0);

    return (uint32_t) (n < max ? n : max);
}

uint32_t csn_cpu_processors(const csn_keeper *k)
{
    return k->limits_kernel & CSN_LIMIT_CPU ? 0 : processors_of(k->plan.cpu_milli);
}

csn_cpu_rung csn_cpu_rung_of(const csn_keeper *k)
{
    if (k->plan.cpu_milli <= 0)
        return CSN_CPU_NONE;
    if (k->limits_kernel & CSN_LIMIT_CPU)
        return CSN_CPU_QUOTA;
    return k->walls_missing & CSN_WALL_SECCOMP ? CSN_CPU_NONE : CSN_CPU_PROCESSORS; /* nothing keeps it there */
}

/* Where the kernel doesn't hold a limit, the watcher reads the new one from the plan. Processors are given when it
 * starts, to a single thread: a tree that runs can't be moved without somebody slipping away. */
int csn_cgroups_resize(csn_keeper *k, int64_t memory_bytes, int64_t cpu_milli, csn_error *err)
{
    const bool is_wide = k->outer.cpu_milli > 0 && cpu_milli > k->outer.cpu_milli;
    const int64_t cpu_asked = is_wide ? cpu_milli : 0;

    if (is_wide)
        cpu_milli = k->outer.cpu_milli;
    const csn_cgroup_limits limits = { .memory_bytes = memory_bytes, .cpu_milli = cpu_milli };
    if (cpu_milli && !(k->limits_kernel & CSN_LIMIT_CPU) &&
        processors_of(cpu_milli) != processors_of(k->plan.cpu_milli))
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "resize sandbox '%s': without cgroups its processors change when it is stopped only",
                        k->plan.id);
    int r = k->cgroup.n > 0 ? csn_cgroup_update(&k->cgroup, &limits) : 0;

    if (r == -EBUSY)
        return csn_fail(err, CSN_E_BUSY,
                        "resize sandbox '%s': it uses more memory than the %lld bytes it would get",
                        k->plan.id, (long long) memory_bytes);
    if (r < 0)
        return csn_fail_sys(err, r, "resize sandbox '%s'", k->plan.id);
    if (memory_bytes)
        k->plan.memory_bytes = memory_bytes;
    if (cpu_milli) {
        k->plan.cpu_milli = cpu_milli;
        k->cpu_asked_milli = cpu_asked;
    }
    return CSN_OK;
}

void csn_cgroups_remove(csn_keeper *k)
{
    int r = 0;

    /* Init is dead and took its PID namespace along; the groups are empty unless something is wrong. */
    if (k->cgroup.n > 0 && csn_cgroup_remove(&k->cgroup) < 0) {
        (void) csn_cgroup_kill(&k->cgroup); /* what stays is swept by the next engine */
        r = csn_cgroup_remove(&k->cgroup);
    }
    if (r == 0 && k->has_note)
        (void) unlinkat(k->box_fd, CSN_BOX_CGROUPS, 0); /* what stays is swept, too */
    k->has_note = false;
    csn_cgroup_done(&k->cgroup);
}
