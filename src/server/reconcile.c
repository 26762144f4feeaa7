/* SPDX-License-Identifier: Apache-2.0 */
/* After a start: rows say what was wished, the engine says what is. Nothing is answered before they agree.
 *
 *   row           engine       then
 *   creating      there        as the engine says: it was made, perhaps nobody was told
 *   creating      –            gone: it was never acknowledged
 *   any           started      started
 *   any           stopped      stopped (archived stays archived; an ephemeral one is deleted)
 *   any           –            error, and an ephemeral one is gone
 *   destroying    any          deleted
 *   –             any          deleted: nobody was told of it, or its delete was */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/time.h"
#include "server/bury.h"
#include "server/cell.h"
#include "server/snaps.h"
#include "store/volumes.h"

typedef struct seen {
    struct seen *next;
    csn_box_seen box;
    bool is_known;
} seen;

typedef struct reconciling {
    csn_boxes *boxes;
    seen *all;
    csn_table by_id;
    bool is_short; /* of memory */
    void (*done)(int result, const csn_error *err, void *user);
    void *user;
} reconciling;

static void on_seen(const csn_box_seen *box, void *user)
{
    reconciling *rec = user;
    seen *s = calloc(1, sizeof(*s));

    if (!s) {
        rec->is_short = true;
        return;
    }
    s->box = *box;
    s->next = rec->all;
    rec->all = s;
    if (csn_table_put(&rec->by_id, s->box.id, s) < 0)
        rec->is_short = true;
}

static void must_delete(csn_cell *cell)
{
    csn_error err = { 0 };

    if (csn_cell_delete(cell, &err) < 0)
        csn_log(CSN_LOG_ERROR, "a sandbox can't be deleted", "sandbox", cell->row.id, "error",
                err.message, NULL);
}

static void compare_missing(csn_cell *cell)
{
    if (cell->state == CSN_CELL_CREATING || cell->row.auto_delete_min == 0) {
        must_delete(cell);
        return;
    }
    if (cell->state != CSN_CELL_ERROR)
        csn_cell_lost(cell);
}

static void compare(csn_cell *cell, seen *s)
{
    if (!s || s->box.state == CSN_STATE_DELETED || s->box.state == CSN_STATE_DELETING) {
        compare_missing(cell);
        return;
    }
    s->is_known = true;
    bool runs = s->box.state == CSN_STATE_STARTED;
    if (runs && cell->state != CSN_CELL_STARTED)
        csn_cell_set_state(cell, CSN_CELL_STARTED);
    else if (!runs && cell->row.auto_delete_min == 0)
        must_delete(cell);
    else if (!runs && cell->state != CSN_CELL_STOPPED && cell->state != CSN_CELL_ARCHIVED)
        csn_cell_set_state(cell, CSN_CELL_STOPPED);
    else
        csn_cell_plan(cell);
}

static void delete_strays(reconciling *rec)
{
    for (seen *s = rec->all; s; s = s->next)
        if (!s->is_known && csn_is_uuid(s->box.id))
            csn_bury(rec->boxes->server, CSN_BURY_SANDBOX, s->box.id);
}

/* ---- volumes ---- */

static void on_volume_there(int result, const csn_error *err, void *user)
{
    (void) user;
    if (result < 0 && result != CSN_E_EXISTS)
        csn_log(CSN_LOG_WARN, "a volume can't be made", "error", err ? err->message : "", NULL);
}

/* A row is written before its volume is made, and its volume deleted before the row goes: both are done again. */
static void compare_volume(const csn_volume_row *row, void *user)
{
    csn_boxes *b = user;

    if (row->name)
        (void) csn_warden_volume_create(b->server->warden, row->id, on_volume_there, NULL);
    else
        csn_bury(b->server, CSN_BURY_VOLUME, row->id);
}

static int compare_all(reconciling *rec, csn_error *err)
{
    csn_boxes *b = rec->boxes;

    csn_list_foreach (node, &b->cells) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        compare(cell, csn_table_get(&rec->by_id, cell->row.id));
    }
    csn_list_foreach (node, &b->dying) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        seen *s = csn_table_get(&rec->by_id, cell->row.id);
        if (s)
            s->is_known = true;
        csn_cell_bury(cell);
    }
    delete_strays(rec);
    return csn_store_volume_each(b->server->store, NULL, compare_volume, b, err);
}

static void end(reconciling *rec, int result, const csn_error *err)
{
    csn_boxes *b = rec->boxes;
    void (*done)(int, const csn_error *, void *) = rec->done;
    void *user = rec->user;

    for (seen *s = rec->all, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    csn_table_done(&rec->by_id);
    free(rec);
    b->is_ready = result == CSN_OK;
    if (b->is_ready) {
        csn_snap_drop_strays(b->server);
        csn_boxes_start_flushing(b);
        csn_warm_fill(b);
    }
    done(result, err, user);
}

static void on_images(int result, const csn_error *err, void *user)
{
    end(user, result, err);
}

static void on_listed(int result, const csn_error *err, void *user)
{
    reconciling *rec = user;
    csn_error own = { 0 };

    if (result == CSN_OK && rec->is_short)
        result = csn_fail(&own, CSN_E_NO_MEMORY, "compare the sandboxes");
    else if (result == CSN_OK)
        result = compare_all(rec, &own);
    if (result < 0) {
        end(rec, result, own.code ? &own : err);
        return;
    }
    csn_boxes_look_at_images(rec->boxes, on_images, rec);
}

void csn_boxes_reconcile(csn_boxes *boxes,
                         void (*done)(int result, const csn_error *err, void *user), void *user)
{
    csn_error err = { 0 };
    reconciling *rec = calloc(1, sizeof(*rec));

    if (!rec) {
        (void) csn_fail(&err, CSN_E_NO_MEMORY, "compare the sandboxes");
        done(CSN_E_NO_MEMORY, &err, user);
        return;
    }
    rec->boxes = boxes;
    rec->done = done;
    rec->user = user;
    int r = csn_warden_list(boxes->server->warden, on_seen, on_listed, rec);
    if (r < 0) {
        r = csn_warden_cannot(r, &err);
        end(rec, r, &err);
    }
}
