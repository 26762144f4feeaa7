/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a cell when nobody does anything: auto-stop, auto-archive, auto-delete, time to live; and the rows
 * that are written a little later, since nothing was promised about them. */
#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/cell.h"
#include "server/metrics.h"
#include "server/uses.h"

enum { FLUSH_MS = 5000, RETRY_MS = 5000, LOOK_MS = 3600 * 1000 };

#define MINUTE_MS INT64_C(60000)

typedef enum due_kind { DUE_NOTHING, DUE_STOP, DUE_ARCHIVE, DUE_DELETE } due_kind;

static void earlier(int64_t at_ms, due_kind kind, int64_t *due_ms, due_kind *due)
{
    if (*due == DUE_NOTHING || at_ms < *due_ms) {
        *due_ms = at_ms;
        *due = kind;
    }
}

static due_kind next_due(const csn_cell *cell, int64_t *due_ms)
{
    const csn_sandbox_row *row = &cell->row;
    due_kind due = DUE_NOTHING;

    if (row->destroy_at_ms)
        earlier(row->destroy_at_ms, DUE_DELETE, due_ms, &due);
    if (cell->state == CSN_CELL_STARTED && row->auto_stop_min > 0)
        earlier(row->active_ms + row->auto_stop_min * MINUTE_MS, DUE_STOP, due_ms, &due);
    if (cell->state != CSN_CELL_STOPPED && cell->state != CSN_CELL_ARCHIVED)
        return due;
    if (row->auto_delete_min >= 0)
        earlier(row->stopped_ms + row->auto_delete_min * MINUTE_MS, DUE_DELETE, due_ms, &due);
    if (cell->state == CSN_CELL_STOPPED && row->auto_archive_min > 0)
        earlier(row->stopped_ms + row->auto_archive_min * MINUTE_MS, DUE_ARCHIVE, due_ms, &due);
    return due;
}

static void on_auto_stopped(csn_cell *cell, int result, const csn_error *err, void *user)
{
    (void) user;
    if (cell && result < 0)
        csn_log(CSN_LOG_WARN, "auto-stop failed", "sandbox", cell->row.id, "error",
                err ? err->message : "", NULL);
}

static void on_timer(csn_timer *timer, void *user);

static void look_in(csn_cell *cell, int64_t ms)
{
    if (csn_timer_set(cell->boxes->server->loop, &cell->timer, csn_deadline_in_ms(ms), on_timer,
                      cell) < 0)
        csn_log(CSN_LOG_ERROR, "no timer", "sandbox", cell->row.id, NULL);
}

static void act(csn_cell *cell, due_kind due)
{
    csn_error err = { 0 };
    int r = CSN_OK;

    switch (due) {
    case DUE_STOP:
        csn_log(CSN_LOG_INFO, "auto-stop", "sandbox", cell->row.id, NULL);
        csn_metrics_count(CSN_COUNT_AUTO_STOPPED);
        csn_cell_stop(cell, false, on_auto_stopped, NULL);
        break;
    case DUE_ARCHIVE:
        r = csn_cell_archive(cell, &err);
        break;
    case DUE_DELETE:
        csn_log(CSN_LOG_INFO, "auto-delete", "sandbox", cell->row.id, NULL);
        csn_metrics_count(CSN_COUNT_AUTO_DELETED);
        r = csn_cell_delete(cell, &err);
        break;
    case DUE_NOTHING:
        break;
    }
    if (r < 0) {
        csn_log(CSN_LOG_WARN, "a timer's work failed", "sandbox", cell->row.id, "error",
                err.message, NULL);
        look_in(cell, RETRY_MS); /* it is still due: at once would be over and over */
    }
}

static void on_timer(csn_timer *timer, void *user)
{
    csn_cell *cell = user;
    int64_t due_ms = 0, now = csn_steady_ms();

    (void) timer;
    if (cell->n_requests > 0)
        cell->row.active_ms = now; /* a request that runs long is activity all the while */
    due_kind due = next_due(cell, &due_ms);
    if (due != DUE_NOTHING && due_ms <= now && cell->n_pending == 0)
        act(cell, due);
    else
        csn_cell_plan(cell);
}

/* The loop's clock stands while the machine sleeps, that of due times does not: look again at least every hour. */
void csn_cell_plan(csn_cell *cell)
{
    int64_t due_ms = 0, now = csn_steady_ms();

    csn_timer_cancel(&cell->timer);
    if (cell->is_dying || next_due(cell, &due_ms) == DUE_NOTHING)
        return;
    int64_t wait_ms = due_ms > now ? due_ms - now : 0;
    if (cell->n_pending > 0 && wait_ms < 1000)
        wait_ms = 1000; /* something else is under way */
    look_in(cell, wait_ms < LOOK_MS ? wait_ms : LOOK_MS);
}

/* ---- what is written later ---- */

static int flush_cells(csn_boxes *b, csn_error *err)
{
    csn_store *store = b->server->store;
    int r = CSN_OK;

    csn_list_foreach (node, &b->cells) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (r == CSN_OK && cell->is_dirty && cell->was_inserted)
            r = csn_store_sandbox_update(store, &cell->row, err);
    }
    csn_list_foreach (node, &b->dying) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (r == CSN_OK && cell->is_dirty)
            r = csn_store_sandbox_remove(store, cell->row.id, err);
    }
    return r;
}

static bool has_dirty(csn_list *cells)
{
    csn_list_foreach (node, cells)
        if (csn_list_entry(node, csn_cell, link)->is_dirty)
            return true;
    return false;
}

static void forget_flushed(csn_boxes *b)
{
    csn_list_foreach (node, &b->cells)
        csn_list_entry(node, csn_cell, link)->is_dirty = false;
    csn_list_foreach (node, &b->dying) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (cell->is_dirty)
            csn_cell_free(cell);
    }
}

void csn_boxes_flush(csn_boxes *b)
{
    csn_error err = { 0 };

    csn_uses_flush(b->server->store);
    if (!has_dirty(&b->cells) && !has_dirty(&b->dying))
        return;
    int r = csn_store_begin(b->server->store, &err);
    if (r == CSN_OK)
        r = flush_cells(b, &err);
    if (r == CSN_OK)
        r = csn_store_commit(b->server->store, &err);
    if (r == CSN_OK) {
        forget_flushed(b);
        return;
    }
    csn_store_rollback(b->server->store);
    csn_log(CSN_LOG_ERROR, "the database can't be written", "error", err.message, NULL);
}

static void on_flush(csn_timer *timer, void *user)
{
    csn_boxes *b = user;

    csn_boxes_flush(b);
    csn_store_reserve(b->server->store);
    csn_audit_sync();
    if (csn_timer_set(b->server->loop, timer, csn_deadline_in_ms(FLUSH_MS), on_flush, b) < 0)
        csn_log(CSN_LOG_ERROR, "no timer for the database", NULL);
}

void csn_boxes_start_flushing(csn_boxes *b)
{
    on_flush(&b->flush_timer, b);
}
