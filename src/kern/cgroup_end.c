/* SPDX-License-Identifier: Apache-2.0 */
/* Killing what is in a group, and removing it. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "cgroup_impl.h"
#include "lines.h"
#include "pidfd.h"

#define KILL_MS 2000   /* R28 */
#define REMOVE_MS 2000 /* a dying process leaves its group a moment after it was reaped */
#define MAX_BYTES (1u << 20)

/* There is no event for "group empty" that works on v1: look, and look again a little later. */
static void wait_a_bit(unsigned round)
{
    long us = 50L << (round < 7 ? round : 7);

    (void) nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL); /* shorter is fine */
}

/* True when `pid` is in our group now; says nothing if the number has been given to another. */
static bool is_member(pid_t pid, const char *id)
{
    char path[32], want[sizeof(CSN_CGROUP_PREFIX) + 1 + CSN_CGROUP_ID_MAX];
    bool found = false;
    csn_lines lines;
    csn_str line;

    (void) snprintf(path, sizeof(path), "/proc/%d/cgroup", (int) pid); /* both always fit */
    (void) snprintf(want, sizeof(want), "/" CSN_CGROUP_PREFIX "%s", id);
    if (csn_lines_open(&lines, AT_FDCWD, path, 65536) < 0)
        return false;
    while (!found && csn_lines_next(&lines, &line) > 0) {
        const char *at = memmem(line.data, line.len, want, strlen(want));
        const char *behind = at ? at + strlen(want) : NULL;
        found = at && (behind == line.data + line.len || *behind == '/');
    }
    csn_lines_done(&lines);
    return found;
}

/* The number could be recycled between reading and signalling. The pidfd pins whoever has it; if he
 * is a member and still alive after the look, the look was at him. */
static void signal_member(pid_t pid, const char *id, int sig)
{
    csn_auto(fd) int pidfd = -1;

    if (csn_pidfd_open(pid, &pidfd) < 0 || !is_member(pid, id))
        return;
    if (csn_pidfd_signal(pidfd, 0) == 0)
        (void) csn_pidfd_signal(pidfd, sig); /* gone is as good as signalled */
}

int csn_cg_signal_all(int dir_fd, const char *id, int sig)
{
    csn_lines lines;
    csn_str line;
    uint64_t pid;
    int n = 0, r = csn_lines_open(&lines, dir_fd, "cgroup.procs", MAX_BYTES);

    if (r < 0)
        return r;
    while ((r = csn_lines_next(&lines, &line)) > 0) {
        if (csn_parse_u64(line, &pid) < 0 || pid > INT32_MAX)
            continue;
        n++; /* 0: somebody outside our pid namespace; counted, can't be reached */
        if (pid > 0 && sig)
            signal_member((pid_t) pid, id, sig);
    }
    csn_lines_done(&lines);
    return r < 0 ? r : n;
}

/* Frozen processes can't fork away from the list; they take SIGKILL when thawed. */
static int kill_one_by_one(const csn_cgroup *cg, int dir)
{
    int64_t deadline = csn_deadline_in_ms(KILL_MS);

    for (unsigned round = 0;; round++) {
        bool frozen = csn_cgroup_freeze(cg) == 0;
        int n = csn_cg_signal_all(dir, cg->id, SIGKILL);
        if (frozen)
            (void) csn_cgroup_thaw(cg); /* thawing what we froze; retried in the next round */
        if (n <= 0)
            return n;
        if (csn_deadline_passed(deadline))
            return -EBUSY;
        wait_a_bit(round);
    }
}

int csn_cgroup_kill(const csn_cgroup *cg)
{
    int r = csn_fault("cgroup_kill");

    for (uint32_t i = 0; r == 0 && i < cg->n; i++) {
        if (cg->in[i].dir_fd < 0)
            continue;
        /* Linux 5.14+. Older: one by one. REMOVE-WHEN: floor >= 5.14 */
        r = cg->rung == CSN_CGROUP_V2 ? csn_cg_write(cg->in[i].dir_fd, "cgroup.kill", "1")
                                      : -ENOENT;
        if (r == -ENOENT)
            r = kill_one_by_one(cg, cg->in[i].dir_fd);
    }
    return r;
}

static int remove_group(int parent_fd, const char *name)
{
    int64_t deadline = csn_deadline_in_ms(REMOVE_MS);

    for (unsigned round = 0;; round++) {
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY || csn_deadline_passed(deadline))
            return -errno;
        wait_a_bit(round);
    }
}

int csn_cgroup_remove(csn_cgroup *cg)
{
    char name[sizeof(CSN_CGROUP_PREFIX) + CSN_CGROUP_ID_MAX];
    int first = 0;

    (void) snprintf(name, sizeof(name), CSN_CGROUP_PREFIX "%s", cg->id); /* always fits */
    for (uint32_t i = 0; i < cg->n; i++) {
        if (cg->in[i].parent_fd < 0)
            continue;
        int r = remove_group(cg->in[i].parent_fd, name);
        if (first == 0)
            first = r; /* go on: what can be removed is removed */
    }
    if (first == 0)
        csn_cgroup_done(cg);
    return first;
}

int csn_cgroup_sweep(const csn_cgroup_host *host, const char *id)
{
    csn_cgroup cg;
    int r = csn_cgroup_open(host, id, &cg);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    r = csn_cgroup_kill(&cg);
    if (r == 0)
        r = csn_cgroup_remove(&cg);
    csn_cgroup_done(&cg);
    return r;
}
