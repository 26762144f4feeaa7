/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sandbox. SIGTERM is a courtesy; what ends it is SIGKILL to init, which takes the PID namespace along
 * (R28). Then what it held goes, and only then those who asked are answered. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kern/watch.h"
#include "remove.h"
#include "serve.h"
#include "setup.h"
#include "survey.h"

enum { GRACE_DEFAULT_MS = 2000, GRACE_LOOK_MS = 10, LEASE_WAIT_MS = 200 };

static void on_grace(csn_timer *timer, void *user)
{
    csn_keeper *k = user;

    if (csn_deadline_passed(k->grace_until_ns) || csn_is_empty(k) ||
        csn_timer_set(k->loop, timer, csn_deadline_in_ms(GRACE_LOOK_MS), on_grace, k) < 0)
        csn_end_now(k, k->ending);
}

void csn_end_begin(csn_keeper *k, csn_ending ending, int grace_ms, bool delete_too)
{
    bool is_second = k->is_ending;

    k->is_deleted |= delete_too;
    k->is_ending = true;
    if (!k->ending)
        k->ending = ending;
    if (k->lender)
        csn_thaw(k); /* the frozen can't obey */
    if (grace_ms < 0 || csn_is_empty(k)) {
        csn_end_now(k, ending);
        return;
    }
    if (is_second)
        return; /* already on its way, with the first one's grace */
    k->grace_until_ns = csn_deadline_in_ms(grace_ms ? grace_ms : GRACE_DEFAULT_MS);
    csn_link_kill(k, 0, SIGTERM, false);
    if (csn_timer_set(k->loop, &k->grace_timer, csn_deadline_in_ms(GRACE_LOOK_MS), on_grace, k) < 0)
        csn_end_now(k, ending);
}

void csn_end_now(csn_keeper *k, csn_ending ending)
{
    k->is_ending = true;
    if (!k->ending)
        k->ending = ending;
    csn_loop_stop(k->loop, 0);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Only if it still is ours: a name or range may have been given to another box since. */
static void remove_link(csn_keeper *k, int dir_fd, const char *path)
{
    char target[64];
    ssize_t n = readlinkat(dir_fd, path, target, sizeof(target));

    if (n == (ssize_t) strlen(k->plan.id) && memcmp(target, k->plan.id, (size_t) n) == 0)
        (void) unlinkat(dir_fd, path, 0); /* what stays is swept */
}

/* Files of the sandbox's users are out of our reach since we gave up our capabilities; but we own their user namespace,
 * and whoever enters it has power over them, and over nothing else. */
static void remove_box(csn_keeper *k)
{
    char path[128];

    /* The lock that says we live is among what goes: until all is gone, a sweep must not take the rest for a left-over and
     * remove it without the name, which only the record knew. Not to be had: a creator has it, who cleans up itself. */
    (void) flock(k->box_fd, LOCK_EX | LOCK_NB);
    if (k->disk_rung == CSN_DISK_WATCH && k->userns_fd >= 0)
        (void) setns(k->userns_fd, CLONE_NEWUSER); /* else: what can't be removed is swept */
    (void) snprintf(path, sizeof(path), "boxes/%s", k->plan.id); /* fits */
    if (csn_tree_remove(k->place_fd, path) < 0)
        return; /* its record says what it is; the next engine goes on */
    if (k->plan.name[0]) {
        (void) snprintf(path, sizeof(path), "names/%s", k->plan.name); /* at most 64 bytes */
        remove_link(k, k->state_fd, path);
    }
    if (k->plan.id_index >= 0) { /* last: the range is free when nothing of it is left */
        (void) snprintf(path, sizeof(path), "ids/%lld", (long long) k->plan.id_index);
        remove_link(k, k->place_fd, path);
    }
}

static void answer_all(csn_keeper *k)
{
    csn_list_foreach (node, &k->clients) {
        csn_client *client = csn_list_entry(node, csn_client, link);
        if (client->wants_end)
            csn_reply_done(client, client->stop_seq, 0);
    }
}

/* Nothing is left that anybody could meet: what our own end still takes (the mounts above all) is not to be waited for. One
 * that stays has its lock, and is not stopped before that is free. */
static void hang_up(csn_keeper *k, bool on_who_waits)
{
    csn_list_foreach (node, &k->clients) {
        const csn_client *client = csn_list_entry(node, csn_client, link);
        if (client->wants_end == on_who_waits)
            (void) shutdown(client->fd, SHUT_RDWR); /* gone: fine */
    }
}

/* An attached sandbox goes with its engine, which holds a lock as long as it lives: that its connection is closed may also mean that a
 * start was given up. A process that dies closes its connection and lets go of the lock in one go, in either order. */
static bool is_left_alone(csn_keeper *k)
{
    int64_t deadline = csn_deadline_in_ms(LEASE_WAIT_MS);
    csn_auto(fd) int fd = -1;

    if (k->plan.flags & CSN_PLAN_DETACHED || !k->is_creator_gone)
        return false;
    fd = openat(k->box_fd, "lease", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    while (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0) {
        if (csn_deadline_passed(deadline))
            return false;
        (void) poll(NULL, 0, 1); /* a pause, nothing is polled */
    }
    return fd >= 0;
}

void csn_end_finish(csn_keeper *k)
{
    bool goes = k->is_deleted || k->plan.flags & CSN_PLAN_EPHEMERAL;

    if (k->lender)
        csn_thaw(k);
    k->control_src = csn_source_remove(k->control_src);
    k->pidfd_src = csn_source_remove(k->pidfd_src);
    csn_survey_stop(k);
    csn_kill_child(k);
    csn_commands_end_all(k, k->ending);
    csn_outbound_stop(k);
    csn_cgroups_remove(k);
    csn_commands_free_all(k);
    csn_disk_release(k); /* the loop device goes now */
    goes = goes || is_left_alone(k);
    if (goes)
        remove_box(k);
    answer_all(k);
    if (goes) {
        hang_up(k, false); /* first: once it was told, nobody can still talk to it */
        hang_up(k, true);
    }
    csn_setup_undo(k);
}
