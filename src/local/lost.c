/* SPDX-License-Identifier: Apache-2.0 */
/* A box whose keeper hung up, or was hung up on.
 *
 * Theory of operation. First the keeper's process must be gone, then the box's directory is cleaned up under its lock, and only
 * then requests and commands hear of it: who is told that a sandbox has ended finds nothing of it. Both steps are turns of the
 * loop. Until they are over the box looks as before, without a connection, and verbs wait in its line (gate.c). Only an engine
 * that closes waits here: csn_local_box_lose_now(). */
#include <errno.h>
#include <unistd.h>

#include "base/time.h"
#include "local/local.h"

enum { LOCK_WAIT_MS = 5000, LOCK_STEP_MS = 1 };

/* Ephemeral boxes and those whose deletion was asked for: what the keeper did not remove itself. False: somebody holds the
 * directory's lock. */
static bool clean_up(csn_local_box *box, bool must_wait)
{
    csn_local *local = csn_local_of(&box->base);
    bool is_gone = csn_box_is_removed(box->dir_fd);

    if (!is_gone && (box->base.wish.is_ephemeral || box->is_deleting)) {
        int r = must_wait ? csn_box_lock_now(box->dir_fd) : csn_box_lock(box->dir_fd);
        if (r == -EWOULDBLOCK && !csn_deadline_passed(box->lock_deadline_ns))
            return false;
        if (r == 0 && !csn_box_has_keeper(box->dir_fd))
            is_gone = csn_box_remove(local, &box->base.wish, box->dir_fd, NULL) >= 0;
        if (r == 0)
            csn_box_unlock(box->dir_fd);
        if (r == -ENOENT) /* while we waited for the lock, another engine's sweep removed it */
            is_gone = true;
    }
    box->base.state = is_gone ? CSN_STATE_DELETED : CSN_STATE_STOPPED;
    return true;
}

static void on_retry(csn_timer *timer, void *user);

/* The last step. The box's reference is that of csn_local_box_lost(). */
static void end_lost(csn_local_box *box, bool must_wait)
{
    if (box->dir_fd < 0) /* borrowed: what became of it is its lender's to say */
        box->base.state = CSN_STATE_STOPPED;
    else if (!box->is_busy && !clean_up(box, must_wait)) { /* a launch cleans up itself */
        if (csn_timer_set(box->conn.loop, &box->lock_timer, csn_deadline_in_ms(LOCK_STEP_MS),
                          on_retry, box) == 0)
            return;
        box->base.state = CSN_STATE_STOPPED; /* no descriptor is left: the sweep finds it */
    }
    csn_local_exec_lost(box);
    csn_conn_fail_all(&box->conn);
    csn_gate_open(box);
    if (box->lease_fd < 0 || box->base.state == CSN_STATE_DELETED)
        csn_lease_drop(box); /* what is ours and stopped goes with the engine */
    csn_box_unref(&box->base);
}

static void on_retry(csn_timer *timer, void *user)
{
    (void) timer;
    end_lost(user, false);
}

static void on_gone(bool is_alive, void *user)
{
    csn_local_box *box = user;

    if (is_alive) /* it hung up on us and lives: that is its right */
        csn_orphan_add(csn_local_of(&box->base), box->child, false);
    box->child = 0;
    box->lock_deadline_ns = csn_deadline_in_ms(LOCK_WAIT_MS);
    end_lost(box, false);
}

/* A keeper that has removed its box has nothing left to do but to exit, and nobody waits for that. One that is no child of
 * ours is watched through a pidfd taken when its end was asked for. */
void csn_local_box_lost(csn_local_box *box)
{
    csn_local *local = csn_local_of(&box->base);

    csn_conn_close(&box->conn);
    if (box->leaving.done || box->lock_timer.loop)
        return; /* it is under way */
    csn_box_ref(&box->base);
    if (!box->is_busy && box->dir_fd >= 0 && csn_box_is_removed(box->dir_fd)) {
        csn_orphan_add(local, box->child, true);
        box->child = 0;
    }
    box->leaving.pid = box->child;
    box->leaving.is_spared =
        box->child == 0 || (box->base.wish.is_detached && !box->is_busy && !box->is_deleting);
    csn_leaving_begin(&box->leaving, local->base.loop, on_gone, box);
}

void csn_local_box_lose_now(csn_local_box *box)
{
    csn_box_ref(&box->base);
    csn_leaving_now(&box->leaving);
    if (box->lock_timer.loop) {
        csn_timer_cancel(&box->lock_timer);
        end_lost(box, true);
    }
    csn_box_unref(&box->base);
}

void csn_local_box_leave(csn_local_box *box)
{
    csn_box_ref(&box->base);
    csn_conn_close(&box->conn);
    csn_orphan_add(csn_local_of(&box->base), box->child, false);
    box->child = 0;
    csn_local_exec_lost(box);
    csn_conn_fail_all(&box->conn);
    csn_box_unref(&box->base);
}
