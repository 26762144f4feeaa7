/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in volumes counts against a quota, and no kernel keeps count of a directory for us.
 *
 * Theory of operation. Volumes that a running sandbox has mounted are weighed in rounds, one after the other, by a child of
 * the warden; so is a volume whose sandbox changed its state, since it may have been written to a moment before. A round
 * that took long is followed by a long pause: weighing takes a hundredth of one processor at most. An organisation found
 * above its quota gets no new volume and no sandbox with one, and those that run with one are stopped: what they write
 * is nobody else's to bear. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/cell.h"
#include "store/volumes.h"

enum { FIRST_MS = 1000, PAUSE_MS = 5000, PAUSE_MAX_MS = 600 * 1000, PAUSE_FACTOR = 100 };

typedef struct weight {
    csn_list link;
    csn_boxes *boxes;
    char id[37];
    int64_t bytes;
} weight;

static void on_round(csn_timer *timer, void *user);
static void weigh_next(csn_boxes *b);

static void arm(csn_boxes *b, int64_t ms)
{
    if (b->is_weighing || b->weigh_timer.loop || b->server->is_stopping)
        return;
    if (csn_timer_set(b->server->loop, &b->weigh_timer, csn_deadline_in_ms(ms), on_round, b) < 0)
        csn_log(CSN_LOG_ERROR, "no timer to weigh volumes", NULL);
}

static void add(csn_boxes *b, const char *id)
{
    csn_list_foreach (node, &b->to_weigh)
        if (csn_streq(csn_list_entry(node, weight, link)->id, id))
            return;
    weight *w = calloc(1, sizeof(*w));
    if (!w)
        return; /* the next round finds it, while it is mounted */
    w->boxes = b;
    (void) snprintf(w->id, sizeof(w->id), "%.36s", id);
    csn_list_append(&b->to_weigh, &w->link);
}

static void add_mounts(const csn_cell *cell)
{
    for (size_t i = 0; i < cell->n_mounts; i++)
        add(cell->boxes, cell->mounts[i].volume);
}

static bool is_writing(const csn_cell *cell)
{
    return cell->n_mounts > 0 && cell->state != CSN_CELL_STOPPED &&
           cell->state != CSN_CELL_ARCHIVED && cell->state != CSN_CELL_ERROR;
}

static bool has_writers(csn_boxes *b)
{
    csn_list_foreach (node, &b->cells)
        if (is_writing(csn_list_entry(node, csn_cell, link)))
            return true;
    return false;
}

static void on_stopped(csn_cell *cell, int result, const csn_error *err, void *user)
{
    (void) user;
    if (cell && result < 0)
        csn_log(CSN_LOG_WARN, "a sandbox can't be stopped", "sandbox", cell->row.id, "error",
                err ? err->message : "", NULL);
}

static void stop_those_above(csn_boxes *b)
{
    csn_list_foreach (node, &b->cells) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        csn_error err = { 0 };
        if (cell->n_mounts == 0 || cell->state != CSN_CELL_STARTED || cell->n_pending > 0 ||
            csn_quota_volumes(b->server, cell->row.org_id, 0, &err) != CSN_E_DENIED)
            continue;
        csn_log(CSN_LOG_WARN, "its volumes hold too much: a sandbox is stopped", "sandbox",
                cell->row.id, "organisation", cell->row.org_id, "why", err.message, NULL);
        csn_cell_stop(cell, false, on_stopped, NULL);
    }
}

static void end_round(csn_boxes *b)
{
    int64_t took_ms = (csn_now_ns() - b->weigh_ns) / CSN_NS_PER_MS;
    int64_t pause = took_ms * PAUSE_FACTOR;

    b->is_weighing = false;
    stop_those_above(b);
    if (pause < PAUSE_MS)
        pause = PAUSE_MS;
    if (pause > PAUSE_MAX_MS)
        pause = PAUSE_MAX_MS;
    if (has_writers(b) || !csn_list_empty(&b->to_weigh))
        arm(b, pause);
}

static void on_size(const char *name, int64_t size_bytes, void *user)
{
    weight *w = user;

    (void) name;
    w->bytes = size_bytes;
}

static void on_weighed(int result, const csn_error *err, void *user)
{
    weight *w = user;
    csn_boxes *b = w->boxes;
    csn_error own = { 0 };

    if (result == CSN_OK)
        result = csn_store_volume_weighed(b->server->store, w->id, w->bytes, &own);
    if (result < 0 && result != CSN_E_NOT_FOUND && result != CSN_E_LOST)
        csn_log(CSN_LOG_WARN, "a volume can't be weighed", "volume", w->id, "error",
                own.code ? own.message
                : err    ? err->message
                         : "",
                NULL);
    free(w);
    if (result != CSN_E_LOST) /* else the server ends */
        weigh_next(b);
}

static void weigh_next(csn_boxes *b)
{
    csn_list *node;

    while ((node = csn_list_pop(&b->to_weigh))) {
        weight *w = csn_list_entry(node, weight, link);
        if (csn_warden_volume_size(b->server->warden, w->id, on_size, on_weighed, w) == CSN_OK)
            return;
        free(w);
    }
    end_round(b);
}

static void on_round(csn_timer *timer, void *user)
{
    csn_boxes *b = user;

    (void) timer;
    if (b->server->is_stopping)
        return;
    csn_list_foreach (node, &b->cells) {
        const csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (is_writing(cell))
            add_mounts(cell);
    }
    b->is_weighing = true;
    b->weigh_ns = csn_now_ns();
    weigh_next(b);
}

void csn_weigh_note(const csn_cell *cell)
{
    if (cell->n_mounts == 0 ||
        csn_quota_of(cell->boxes->server, cell->row.org_id, CSN_QUOTA_VOLUME_DISK) <= 0)
        return;
    add_mounts(cell);
    arm(cell->boxes, FIRST_MS);
}

void csn_weigh_done(csn_boxes *b)
{
    csn_list *node;

    csn_timer_cancel(&b->weigh_timer);
    while ((node = csn_list_pop(&b->to_weigh)))
        free(csn_list_entry(node, weight, link));
}
