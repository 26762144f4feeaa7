/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that no kernel enforces here, sampled; and the sandbox's own timers. */

#include "kern/watch.h"

#include <errno.h>
#include <signal.h>
#include <sys/vfs.h>

#include "serve.h"
#include "survey.h"

enum {
    SAMPLE_MS = 250,       /* with cgroups: only refused clones are looked for */
    FAST_SAMPLE_MS = 100,  /* without: memory and processes, too */
    SLOW_SAMPLE_MS = 1000, /* nothing was started by us, but something may have stayed */
    DENIED_ROUNDS = 4,     /* a second at the process limit is a fork bomb */
    WATCH_EXTRA = 64,      /* processes looked at beyond the limit */
    CROWD_INSIDE = 64,     /* threads of a sandbox that can't be a storm */
    CROWD_WAITING = 3,     /* threads of others for each processor: a crowd */
    DISK_MIN_MS = 200,
    DISK_MAX_MS = 5000,
    DISK_SHARE = 20,     /* a walk may take a twentieth of the time */
    PARTIAL_ROUNDS = 20, /* measurements that did not see everything, in a row */
    FULL_BYTES = 64 << 10,
};

/* Whoever began after the measurement did is not judged by it: the next one sees what he does. */
static void kill_older(csn_keeper *k, int64_t began_ns, csn_ending reason)
{
    if (k->n_running == 0)
        csn_link_kill(k, 0, SIGKILL, true); /* daemons of commands that are over */
    csn_list_foreach (node, &k->commands) {
        csn_command *cmd = csn_list_entry(node, csn_command, link);
        if (cmd->start_ns <= began_ns)
            csn_command_kill(cmd, reason);
    }
}

static void kill_all(csn_keeper *k, csn_ending reason)
{
    kill_older(k, INT64_MAX, reason);
}

/* --- processes and memory ----------------------------------------------------------------------------------------- */

/* What the kernel keeps for the sandbox and charges to nobody. */
static uint64_t netlink_bytes(const csn_keeper *k)
{
    uint64_t bytes = 0;

    return k->netlink_fd >= 0 && csn_watch_netlink(k->netlink_fd, &bytes) == 0 ? bytes : 0;
}

/* A quarter of the memory limit, which on v1 the kernel holds TCP to by refusing to grow; beyond that, some. */
static bool is_over_budget(const csn_keeper *k, uint64_t uncharged)
{
    return k->plan.memory_bytes > 0 &&
           uncharged > (uint64_t) k->plan.memory_bytes / 4 + (uint64_t) k->plan.memory_bytes / 16;
}

static void sample_cgroup(csn_keeper *k)
{
    csn_cgroup_usage usage;

    if (csn_cgroup_usage_read(&k->cgroup, &usage) < 0)
        return;
    k->n_denied_rounds = usage.n_fork_denied > k->n_fork_denied ? k->n_denied_rounds + 1 : 0;
    if ((int64_t) usage.memory_peak_bytes > k->peak_memory_bytes)
        k->peak_memory_bytes = (int64_t) usage.memory_peak_bytes;
    k->n_fork_denied = usage.n_fork_denied;
    if (is_over_budget(k, usage.tcp_bytes + netlink_bytes(k)))
        kill_all(k, CSN_ENDED_OOM);
    if (k->n_denied_rounds >= DENIED_ROUNDS) {
        k->n_denied_rounds = 0;
        kill_all(k, CSN_ENDED_PIDS_LIMIT);
    }
}

static void sample_processes(csn_keeper *k)
{
    csn_watch_sample sample;
    unsigned max = k->plan.pids > 0 ? (unsigned) k->plan.pids + WATCH_EXTRA : 4096;

    if (csn_watch_processes(k->proc_fd, max, &sample) < 0)
        return;
    if (!(k->limits_kernel & CSN_LIMIT_MEMORY))
        sample.memory_bytes += netlink_bytes(k);
    if ((int64_t) sample.memory_bytes > k->peak_memory_bytes)
        k->peak_memory_bytes = (int64_t) sample.memory_bytes;
    if (!(k->limits_kernel & CSN_LIMIT_MEMORY) && k->plan.memory_bytes > 0 &&
        (int64_t) sample.memory_bytes > k->plan.memory_bytes)
        kill_all(k, CSN_ENDED_OOM);
    else if (!(k->limits_kernel & CSN_LIMIT_PIDS) && k->plan.pids > 0 &&
             (sample.is_partial || (int64_t) sample.n_threads > k->plan.pids))
        kill_all(k, CSN_ENDED_PIDS_LIMIT);
}

static void on_sample(csn_timer *timer, void *user);

static void set_sample(csn_keeper *k)
{
    int ms = k->proc_fd >= 0 ? (k->n_running > 0 ? FAST_SAMPLE_MS : SLOW_SAMPLE_MS) : SAMPLE_MS;

    if (k->proc_fd < 0 && k->n_running == 0)
        return; /* the kernel does the rest */
    if (csn_timer_set(k->loop, &k->watch_timer, csn_deadline_in_ms(ms), on_sample, k) < 0)
        csn_end_now(k, CSN_ENDED_LOST); /* unwatched it may not go on */
}

static void on_sample(csn_timer *timer, void *user)
{
    csn_keeper *k = user;

    (void) timer;
    if (k->cgroup.n > 0)
        sample_cgroup(k);
    if (k->proc_fd >= 0)
        sample_processes(k);
    set_sample(k);
}

/* Threads inside, init's too; `max` or more: at least so many. False: it can't be told. */
static bool count_inside(csn_keeper *k, unsigned max, uint64_t *ret_n)
{
    csn_cgroup_usage usage;
    csn_watch_sample sample;

    if (k->limits_kernel & CSN_LIMIT_PIDS) {
        if (csn_cgroup_usage_read(&k->cgroup, &usage) < 0)
            return false;
        *ret_n = usage.n_processes;
        return true;
    }
    if (k->proc_fd < 0 || csn_watch_processes(k->proc_fd, max, &sample) < 0)
        return false;
    *ret_n = sample.n_threads;
    return true;
}

bool csn_is_empty(csn_keeper *k)
{
    uint64_t n;

    return k->n_running == 0 && count_inside(k, 16, &n) && n <= 1;
}

/* Many inside may be a storm that outruns its end, and crowds the machine itself: that is no excuse. */
bool csn_is_crowded_out(csn_keeper *k)
{
    uint64_t n_inside;
    unsigned n_runnable;

    return count_inside(k, CROWD_INSIDE + 1, &n_inside) && n_inside <= CROWD_INSIDE &&
           csn_watch_machine(&n_runnable) == 0 &&
           n_runnable > n_inside + CROWD_WAITING * k->n_processors;
}

/* --- disk --------------------------------------------------------------------------------------------------------- */

static bool is_over(const csn_keeper *k)
{
    return (k->plan.disk_bytes > 0 && k->disk_bytes > k->plan.disk_bytes) ||
           (k->plan.disk_inodes > 0 && k->disk_inodes > k->plan.disk_inodes);
}

static void on_disk(csn_timer *timer, void *user);

static void set_disk(csn_keeper *k, int64_t ms)
{
    if (csn_timer_set(k->loop, &k->disk_timer, csn_deadline_in_ms(ms), on_disk, k) < 0)
        csn_end_now(k, CSN_ENDED_LOST);
}

/* Whoever was ended for the disk writes on until he is gone, and what he wrote is whole in a measurement that began later. */
static bool is_excused(const csn_keeper *k)
{
    csn_list_foreach (node, &k->commands)
        if (csn_list_entry(node, csn_command, link)->reason == CSN_ENDED_DISK_FULL)
            return true;
    return k->disk_ended_ns > k->disk_look_ns;
}

/* A command is ended for what it wrote, never for what it found: only a disk that grew since the last measurement counts,
 * and only where nobody else can have done it. */
static void judge_disk(csn_keeper *k, int64_t bytes_before, int64_t inodes_before, int64_t began_ns)
{
    bool has_grown = k->disk_bytes > bytes_before || k->disk_inodes > inodes_before;
    bool is_judged = is_over(k) && has_grown && !is_excused(k);

    k->disk_look_ns = began_ns;
    if (is_judged)
        k->disk_ended_ns = csn_now_ns();
    if (is_judged || k->n_partial_rounds >= PARTIAL_ROUNDS)
        kill_older(k, began_ns, CSN_ENDED_DISK_FULL);
}

static void on_surveyed(csn_keeper *k, const csn_disk_usage *usage, int64_t took_ns)
{
    int64_t next_ms = took_ns / CSN_NS_PER_MS * DISK_SHARE;
    int64_t bytes_before = k->disk_bytes, inodes_before = k->disk_inodes;

    if (usage) {
        k->disk_bytes = (int64_t) usage->bytes;
        k->disk_inodes = (int64_t) usage->n_seen;
    }
    /* Now and then a tree moves under our eyes; one that is never seen whole hides something. */
    k->n_partial_rounds = usage && !usage->is_partial ? 0 : k->n_partial_rounds + 1;
    judge_disk(k, bytes_before, inodes_before, csn_now_ns() - took_ns);
    if (csn_is_empty(k))
        return; /* nobody who could write; the next command wakes us */
    if (next_ms < DISK_MIN_MS)
        next_ms = k->n_running > 0 ? DISK_MIN_MS : DISK_MAX_MS;
    set_disk(k, next_ms > DISK_MAX_MS ? DISK_MAX_MS : next_ms);
}

static void on_disk(csn_timer *timer, void *user)
{
    csn_keeper *k = user;

    (void) timer;
    if (csn_survey_start(k, on_surveyed) < 0)
        set_disk(k, DISK_MIN_MS); /* no process to be had: again soon */
}

/* A file system of the sandbox's own knows its own usage. */
static bool has_own_fs(const csn_keeper *k)
{
    return k->disk_rung == CSN_DISK_TMPFS || k->disk_rung == CSN_DISK_LOOP;
}

int64_t csn_disk_used(csn_keeper *k)
{
    struct statfs fs;

    if (has_own_fs(k) && k->disk_fd >= 0 && fstatfs(k->disk_fd, &fs) == 0) {
        k->disk_bytes = csn_fs_used(&fs);
        k->disk_inodes = (int64_t) (fs.f_files - fs.f_ffree);
    }
    return k->disk_bytes;
}

int64_t csn_disk_when_built(const csn_keeper *k)
{
    return has_own_fs(k) ? k->disk_at_built : k->disk_bytes;
}

bool csn_disk_is_full(csn_keeper *k)
{
    struct statfs fs;

    if (!has_own_fs(k))
        return is_over(k);
    if (k->disk_fd < 0 || fstatfs(k->disk_fd, &fs) < 0)
        return false;
    return (fs.f_blocks > 0 && (int64_t) fs.f_bavail * (int64_t) fs.f_bsize < FULL_BYTES) ||
           (fs.f_files > 0 && fs.f_ffree == 0);
}

/* Never later than it would have been: short commands one after the other must not put it off for ever. */
static bool is_later(const csn_timer *timer, int64_t ms)
{
    return !timer->loop || timer->deadline_ns > csn_deadline_in_ms(ms);
}

void csn_watch_busy(csn_keeper *k)
{
    if (is_later(&k->watch_timer, k->proc_fd >= 0 ? FAST_SAMPLE_MS : SAMPLE_MS))
        set_sample(k);
    if (k->disk_rung == CSN_DISK_WATCH && is_later(&k->disk_timer, DISK_MIN_MS) &&
        k->survey_pidfd < 0)
        set_disk(k, DISK_MIN_MS);
}

void csn_watch_start(csn_keeper *k)
{
    if (k->disk_rung == CSN_DISK_WATCH)
        set_disk(k, 0);
    set_sample(k);
}

/* --- the sandbox's timers ------------------------------------------------------------------------------------------ */

static void on_ttl(csn_timer *timer, void *user)
{
    (void) timer;
    csn_end_begin(user, CSN_ENDED_KILLED, -1, true);
}

static void on_idle(csn_timer *timer, void *user)
{
    csn_keeper *k = user;
    int64_t due = k->last_use_ns + k->plan.idle_stop_ms * CSN_NS_PER_MS;

    (void) timer;
    if (k->n_running > 0 || k->lender)
        due = csn_deadline_in_ms(k->plan.idle_stop_ms);
    if (csn_deadline_passed(due))
        csn_end_begin(k, CSN_ENDED_KILLED, 0, false);
    else
        (void) csn_timer_set(k->loop, &k->idle_timer, due, on_idle, k); /* fails: it lives on */
}

void csn_timers_set(csn_keeper *k)
{
    int64_t ttl_left = k->plan.created_ms + k->plan.ttl_ms - csn_steady_ms();
    int r = 0;

    csn_timer_cancel(&k->ttl_timer);
    csn_timer_cancel(&k->idle_timer);
    if (k->plan.ttl_ms > 0)
        r = csn_timer_set(k->loop, &k->ttl_timer, csn_deadline_in_ms(ttl_left > 0 ? ttl_left : 0),
                          on_ttl, k);
    if (r == 0 && k->plan.idle_stop_ms > 0)
        r = csn_timer_set(k->loop, &k->idle_timer, csn_deadline_in_ms(k->plan.idle_stop_ms),
                          on_idle, k);
    if (r < 0)
        csn_end_now(k, CSN_ENDED_LOST);
}

void csn_touch(csn_keeper *k)
{
    if (k->plan.idle_stop_ms > 0)
        k->last_use_ns = csn_now_ns();
}
