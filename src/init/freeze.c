/* SPDX-License-Identifier: Apache-2.0 */
/* Everyone stands still for a copy of the files, where no cgroup can do it.
 *
 * Theory of operation. Shells with job control hear that a child has stopped, and go on without it. So nobody may see anybody
 * else stopped: parents are stopped before their children, and woken after them. Who had stopped by himself is left as he is.
 * That takes /proc to show everyone. Where it doesn't (commands have another user than init), and with too many who change too
 * fast, all are stopped and woken at once. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "init/init.h"
#include "init/sys.h"
#include "init/tree.h"

enum { PASSES_MAX = 20, PATIENCE_MS = 50, PIDS = 1 << 22 /* the largest pid_max */ };

static pid_t stopped[CSN_TREE_MAX]; /* by us: parents before their children */
static size_t n_stopped;
static uint8_t is_marked[PIDS / 8]; /* those; of its pages only the ones that are used are there */
static int is_everyone;             /* was stopped at once */

static int has_mark(pid_t pid)
{
    return pid > 0 && pid < PIDS && (is_marked[pid / 8] >> pid % 8 & 1);
}

static int is_still(char state)
{
    return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

/* Those init wakes at once. */
static int is_ours(pid_t pid)
{
    const csn_slot *slot = csn_slot_of_shepherd(pid);

    return (slot && !slot->is_alone) || csn_is_worker(pid);
}

static int can_see_everyone(void)
{
    pid_t parent;
    char state;

    for (size_t i = 0; i < csn_n_slots; i++) {
        const pid_t pid = csn_slots[i].process != 0 ? atomic_load(&csn_slots[i].main_pid) : 0;
        if (pid > 0 && csn_tree_stat(pid, &parent, &state) < 0 && kill(pid, 0) == 0)
            return 0;
    }
    return 1;
}

static int would_notice(pid_t parent)
{
    pid_t its_parent;
    char state;

    return parent > 1 && !is_ours(parent) && !has_mark(parent) &&
           csn_tree_stat(parent, &its_parent, &state) == 0 && !is_still(state);
}

static void stop(pid_t pid, int64_t deadline_ms)
{
    pid_t parent;
    char state;

    if (n_stopped == CSN_TREE_MAX || pid >= PIDS || kill(pid, SIGSTOP) < 0)
        return;
    stopped[n_stopped++] = pid;
    is_marked[pid / 8] |= (uint8_t) (1u << pid % 8);
    while (csn_tree_stat(pid, &parent, &state) == 0 && !is_still(state) &&
           csn_sys_now_ms() < deadline_ms)
        (void) sched_yield(); /* always 0 */
}

/* 1: it was stopped now, or has to wait for its parent. */
static int try_to_stop(pid_t pid, int64_t deadline_ms)
{
    pid_t parent;
    char state;

    if (pid <= 1 || has_mark(pid) || is_ours(pid) || csn_tree_stat(pid, &parent, &state) < 0 ||
        is_still(state))
        return 0;
    if (!would_notice(parent))
        stop(pid, deadline_ms);
    return 1;
}

/* How many were not still yet. -errno: /proc can't be read. */
static long look_once(int proc_fd, int64_t deadline_ms)
{
    static _Alignas(struct dirent64) char buf[8192];
    long n, n_found = 0;

    if (lseek(proc_fd, 0, SEEK_SET) < 0)
        return -1;
    while ((n = csn_sys_getdents(proc_fd, buf, sizeof(buf))) > 0)
        for (long at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *) (const void *) (buf + at);
            n_found += try_to_stop((pid_t) strtol(entry->d_name, NULL, 10), deadline_ms);
            at += entry->d_reclen;
        }
    return n < 0 ? n : n_found;
}

void csn_freeze(void)
{
    const int64_t deadline_ms = csn_sys_now_ms() + PATIENCE_MS;
    int fd = can_see_everyone() ? open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    long n = fd < 0 ? -1 : 1;

    csn_thaw(); /* whoever asked for it before is gone */
    for (int i = 0; n > 0 && i < PASSES_MAX; i++)
        n = look_once(fd, deadline_ms);
    if (n != 0) {
        is_everyone = 1;
        (void) kill(-1, SIGSTOP); /* nobody there: fine */
    }
    if (fd >= 0)
        (void) close(fd); /* was only read */
}

void csn_thaw(void)
{
    while (n_stopped > 0) {
        const pid_t pid = stopped[--n_stopped];

        is_marked[pid / 8] &= (uint8_t) ~(1u << pid % 8);
        (void) kill(pid, SIGCONT); /* gone meanwhile: fine */
    }
    if (is_everyone)
        (void) kill(-1, SIGCONT); /* as above */
    is_everyone = 0;
}
