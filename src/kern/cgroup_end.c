/* SPDX-License-Identifier: Apache-2.0 */
/* Killing what is in a group, and removing it. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "cgroup_impl.h"
#include "lines.h"
#include "pidfd.h"

#define KILL_MS   2000 /* R28 */
#define REMOVE_MS 2000 /* a dying process leaves its group a moment after it was reaped */
#define MAX_BYTES (1u << 20)
#define BATCH     128

/* There is no event for "group empty" that works on v1: look, and look again a little later. */
static void wait_a_bit(unsigned round)
{
    long us = 50L << (round < 7 ? round : 7);

    (void) nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL); /* shorter is fine */
}

/* Some members of a group; killing goes on until nobody is left, so not all need fit. */
struct batch {
    size_t n;
    int n_found; /* in the group, pinned or not */
    struct member {
        uint64_t pid;
        int pidfd;
        bool is_confirmed;
    } members[BATCH];
};

/* Calls `each` for every number in cgroup.procs. 0 is somebody outside our pid namespace. */
static int each_member(int dir_fd, void (*each)(struct batch *b, uint64_t pid), struct batch *b)
{
    csn_lines lines;
    csn_str line;
    uint64_t pid;
    int r = csn_lines_open(&lines, dir_fd, "cgroup.procs", MAX_BYTES);

    if (r < 0)
        return r;
    while ((r = csn_lines_next(&lines, &line)) > 0)
        if (csn_parse_u64(line, &pid) == 0 && pid <= INT32_MAX)
            each(b, pid);
    csn_lines_done(&lines);
    return r;
}

static void pin(struct batch *b, uint64_t pid)
{
    struct member *m = &b->members[b->n];

    b->n_found++;
    if (pid == 0 || b->n == BATCH)
        return;
    *m = (struct member){ .pid = pid, .pidfd = -1 };
    if (csn_pidfd_open((pid_t) pid, &m->pidfd) == 0)
        b->n++;
}

static void confirm(struct batch *b, uint64_t pid)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->members[i].pid == pid)
            b->members[i].is_confirmed = true;
}

/* A number could be given to somebody else between reading and signalling. So pin whoever has it,
 * read the list again, and if he is alive after that, it was his number that stood there. */
static void signal_members(struct batch *b, int sig)
{
    for (size_t i = 0; i < b->n; i++) {
        struct member *m = &b->members[i];
        if (m->is_confirmed && csn_pidfd_signal(m->pidfd, 0) == 0)
            (void) csn_pidfd_signal(m->pidfd, sig); /* gone is as good as signalled */
        csn_close(&m->pidfd);
    }
}

int csn_cg_signal_all(int dir_fd, int sig)
{
    struct batch b = { .n = 0 };
    int r = each_member(dir_fd, pin, &b);

    if (r == 0 && b.n && sig)
        r = each_member(dir_fd, confirm, &b);
    signal_members(&b, sig);
    return r < 0 ? r : b.n_found;
}

/* Frozen processes can't fork away from the list; they take SIGKILL when thawed. */
static int kill_one_by_one(const csn_cgroup *cg, int dir)
{
    int64_t deadline = csn_deadline_in_ms(KILL_MS);

    for (unsigned round = 0;; round++) {
        bool frozen = csn_cgroup_freeze(cg) == 0;
        int n = csn_cg_signal_all(dir, SIGKILL);
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

/* Somebody's group, which he can't remove while `caisson` is in it. On v2 what was switched on for us would stay on: that
 * is csn_cgroup_tidy()'s, which may write there. */
static void leave_group(const csn_cgroup *cg, uint32_t i)
{
    if (cg->in[i].own_fd >= 0)
        (void) unlinkat(cg->in[i].own_fd, CSN_CGROUP_PARENT,
                        AT_REMOVEDIR); /* others use it, or not ours to remove */
}

int csn_cgroup_remove(csn_cgroup *cg)
{
    int first = 0;

    for (uint32_t i = 0; i < cg->n; i++) {
        if (cg->in[i].parent_fd < 0)
            continue;
        int r = remove_group(cg->in[i].parent_fd, cg->id);
        if (first == 0)
            first = r; /* go on: what can be removed is removed */
        if (r == 0)
            leave_group(cg, i);
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

/* EACCES: the top of a hierarchy, and we are not root. */
static int tidy_one(int own, enum csn_cgroup_rung rung)
{
    csn_auto(fd) int parent = openat(own, CSN_CGROUP_PARENT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    uint32_t bits = parent >= 0 && rung == CSN_CGROUP_V2 ? csn_cg_v2_remembered(parent) : 0;

    if (unlinkat(own, CSN_CGROUP_PARENT, AT_REMOVEDIR) < 0)
        return errno == ENOENT || errno == EBUSY || errno == ENOTEMPTY || errno == EACCES ? 0 : -errno;
    if (rung == CSN_CGROUP_V2)
        csn_cg_v2_restore(own, bits);
    return 0;
}

int csn_cgroup_tidy(const csn_cgroup_host *host)
{
    int first = 0;

    for (uint32_t i = 0; i < host->n_hierarchies && i < CSN_CG_N; i++) {
        const csn_cgroup_hierarchy *h = &host->hierarchies[i];
        bool stays = host->rung == CSN_CGROUP_V1 && h->is_top;
        csn_auto(fd) int own = stays ? -1 : open(h->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = own < 0 ? 0 : tidy_one(own, host->rung);
        first = first ? first : r;
    }
    return first;
}
