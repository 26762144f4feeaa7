/* SPDX-License-Identifier: Apache-2.0 */
/* Work nobody waits for (ending deleted sandboxes, making the next ready ones) takes the processors from those who do
 * wait. It is put off until a moment passes without a request, but neither for long nor in masses: what was deleted is
 * to be gone soon. */
#include "base/log.h"
#include "base/time.h"
#include "server/cell.h"
#include "server/listen.h"

enum { QUIET_MS = 5, PATIENCE_MS = 250, CROWD = 32 };

void csn_lull_work(csn_boxes *b)
{
    csn_timer_cancel(&b->lull.timer);
    b->lull.n_put_off = 0;
    b->lull.is_here = true;
    csn_list_foreach (node, &b->dying)
        csn_cell_bury(csn_list_entry(node, csn_cell, link));
    b->lull.is_here = false;
    csn_warm_fill(b);
}

static bool is_quiet(csn_boxes *b)
{
    csn_listener_stats stats = csn_listener_get_stats(b->server->listener);
    bool is_same = stats.n_requests == b->lull.n_requests;

    b->lull.n_requests = stats.n_requests;
    return is_same && stats.n_waiting == 0;
}

static void look(csn_timer *timer, void *user);

static void look_later(csn_boxes *b)
{
    if (csn_timer_set(b->server->loop, &b->lull.timer, csn_deadline_in_ms(QUIET_MS), look, b) < 0) {
        csn_log(CSN_LOG_WARN, "no timer to wait for a lull", NULL);
        csn_lull_work(b);
    }
}

static void look(csn_timer *timer, void *user)
{
    csn_boxes *b = user;

    (void) timer;
    if (is_quiet(b) || csn_deadline_passed(b->lull.deadline_ns))
        csn_lull_work(b);
    else
        look_later(b);
}

void csn_lull_await(csn_boxes *b)
{
    if (!b->server->listener || b->server->is_stopping || b->lull.n_put_off >= CROWD) {
        csn_lull_work(b);
        return;
    }
    if (b->lull.n_put_off++ > 0)
        return;
    b->lull.deadline_ns = csn_deadline_in_ms(PATIENCE_MS);
    (void) is_quiet(b); /* from here on */
    look_later(b);
}
