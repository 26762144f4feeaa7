/* SPDX-License-Identifier: Apache-2.0 */
/* Why did it end? The first reason that holds: what we did to it, what the kernel's counters say, what it did itself. */

#include <signal.h>
#include <sys/wait.h>

#include "serve.h"

enum { CHARGE_SLACK = 1 << 20 }; /* memory is counted in batches: so near to a limit it was met */

/* A shell answers 128 + 9 for a child that was killed. */
static bool looks_ended_by(int status, int sig)
{
    return (WIFSIGNALED(status) && WTERMSIG(status) == sig) ||
           (WIFEXITED(status) && WEXITSTATUS(status) == 128 + sig);
}

static bool looks_killed(int status)
{
    return looks_ended_by(status, SIGKILL);
}

/* A disk that is only counted has no end, and an image has a least size; but one file alone would have been more than all of
 * it may be. */
static bool met_file_limit(const csn_keeper *k, int status)
{
    return k->disk_rung != CSN_DISK_TMPFS && k->plan.disk_bytes > 0 &&
           looks_ended_by(status, SIGXFSZ);
}

/* Without a cgroup nobody counts refusals; but a command that failed while more processes than allowed are about failed
 * for want of another, and may have done so between two looks of the watch. */
static bool is_overcrowded(const csn_keeper *k)
{
    csn_watch_sample sample;

    return !(k->limits_kernel & CSN_LIMIT_PIDS) && k->plan.pids > 0 && k->proc_fd >= 0 &&
           csn_watch_processes(k->proc_fd, (unsigned) k->plan.pids + 1, &sample) == 0 &&
           (sample.is_partial || (int64_t) sample.n_threads > k->plan.pids);
}

/* The kernel counts a kill where the program was, not where the limit was. The limit of a group around ours, when it is the
 * narrower one or ours was not met; 0: ours. */
static int64_t limit_around(int64_t outer, int64_t own, bool met_own)
{
    return outer > 0 && (own <= 0 || outer <= own || !met_own) ? outer : 0;
}

static csn_ending blame_limits(csn_command *cmd, int status)
{
    csn_keeper *k = cmd->k;
    csn_cgroup_usage usage;

    if (k->cgroup.n > 0 && csn_cgroup_usage_read(&k->cgroup, &usage) == 0) {
        k->n_oom_kills = usage.n_oom_kills;
        k->n_fork_denied = usage.n_fork_denied;
        k->n_memory_full = usage.n_memory_full;
        k->n_processes_peak = usage.n_processes_peak;
        if ((int64_t) usage.memory_peak_bytes > k->peak_memory_bytes)
            k->peak_memory_bytes = (int64_t) usage.memory_peak_bytes;
    }
    if (k->n_oom_kills > cmd->oom_at_start && looks_killed(status)) {
        bool met_own = k->n_memory_full > cmd->full_at_start ||
                       k->peak_memory_bytes + CHARGE_SLACK >= k->plan.memory_bytes;
        cmd->state.outer_limit = limit_around(k->outer.memory_bytes, k->plan.memory_bytes, met_own);
        return CSN_ENDED_OOM;
    }
    if (k->n_fork_denied > cmd->denied_at_start || is_overcrowded(k)) {
        bool met_own = k->n_processes_peak == 0 || (int64_t) k->n_processes_peak >= k->plan.pids;
        cmd->state.outer_limit = limit_around(k->outer.n_processes, k->plan.pids, met_own);
        return CSN_ENDED_PIDS_LIMIT;
    }
    if ((csn_disk_is_full(k) && !cmd->was_disk_full) || met_file_limit(k, status))
        return CSN_ENDED_DISK_FULL;
    return CSN_ENDED_RUNNING;
}

csn_ending csn_command_classify(csn_command *cmd, int wait_status)
{
    csn_ending blamed;

    if (wait_status == 0)
        return CSN_ENDED_EXIT; /* whatever we were about to do, it was faster */
    if (cmd->reason && (wait_status == -1 || WIFSIGNALED(wait_status) || looks_killed(wait_status)))
        return cmd->reason;
    if (wait_status == -1)
        return CSN_ENDED_LOST;
    blamed = blame_limits(cmd, wait_status);
    if (blamed)
        return blamed;
    return WIFEXITED(wait_status) ? CSN_ENDED_EXIT : CSN_ENDED_SIGNAL;
}
