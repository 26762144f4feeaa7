/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "server/cell.h"
#include "server/events.h"
#include "server/passes.h"

static const struct {
    const char *name, *desired;
} states[] = {
    [CSN_CELL_CREATING] = { "creating", "started" },
    [CSN_CELL_STARTED] = { "started", "started" },
    [CSN_CELL_STOPPING] = { "stopping", "stopped" },
    [CSN_CELL_STOPPED] = { "stopped", "stopped" },
    [CSN_CELL_STARTING] = { "starting", "started" },
    [CSN_CELL_ARCHIVED] = { "archived", "archived" },
    [CSN_CELL_SNAPSHOTTING] = { "snapshotting", "started" },
    [CSN_CELL_ERROR] = { "error", "started" },
    [CSN_CELL_DESTROYING] = { "destroying", "destroyed" },
};

const char *csn_cell_state_name(csn_cell_state state)
{
    return states[state].name;
}

static csn_cell_state state_of(const char *name)
{
    for (size_t i = 0; i < CSN_COUNT(states); i++)
        if (csn_streq(states[i].name, name))
            return (csn_cell_state) i;
    return CSN_CELL_ERROR;
}

void csn_cell_forget_facts(csn_cell *cell)
{
    if (!cell->facts_env)
        return;
    for (size_t i = 0; cell->facts_env[i]; i++)
        free((char *) (uintptr_t) cell->facts_env[i]);
    free(cell->facts_env);
    cell->facts_env = NULL;
}

void csn_cell_free(csn_cell *cell)
{
    if (!cell)
        return;
    if (cell->on_removed) /* nothing is left of it, or the server ends and the request has gone */
        cell->on_removed(NULL, CSN_OK, NULL, cell->on_removed_user);
    csn_timer_cancel(&cell->timer);
    csn_list_remove(&cell->link);
    (void) csn_boxes_release(cell->line);
    csn_cell_forget_facts(cell);
    csn_sandbox_row_done(&cell->row);
    csn_map_done(&cell->env);
    csn_map_done(&cell->labels);
    free(cell->mounts);
    free(cell->name);
    free(cell->name_key);
    free(cell);
}

static int read_mounts(csn_cell *cell)
{
    csn_shape_mount mounts[CSN_SHAPE_MOUNTS_MAX];
    int r = csn_shape_mounts_parse(cell->row.mounts, mounts, &cell->n_mounts);

    if (r < 0 || cell->n_mounts == 0)
        return r;
    cell->mounts = calloc(cell->n_mounts, sizeof(mounts[0]));
    if (!cell->mounts)
        return -ENOMEM;
    memcpy(cell->mounts, mounts, cell->n_mounts * sizeof(mounts[0]));
    return 0;
}

static int read_row(csn_cell *cell)
{
    const csn_sandbox_row *row = &cell->row;
    int r = csn_map_parse(row->env, &cell->env);

    if (r == 0)
        r = csn_map_parse(row->labels, &cell->labels);
    if (r == 0)
        r = read_mounts(cell);
    if (r < 0)
        return r;
    cell->state = state_of(row->state);
    cell->name = strdup(row->name ? row->name : row->id);
    return cell->name ? 0 : -ENOMEM;
}

csn_cell *csn_cell_new(csn_boxes *boxes, csn_sandbox_row *row)
{
    csn_cell *cell = calloc(1, sizeof(*cell));

    if (!cell) {
        csn_sandbox_row_done(row);
        return NULL;
    }
    cell->boxes = boxes;
    csn_list_init(&cell->link);
    csn_list_init(&cell->waiters);
    cell->row = *row;
    *row = (csn_sandbox_row){ 0 };
    if (read_row(cell) == 0)
        return cell;
    csn_cell_free(cell);
    return NULL;
}

/* The key of by_name: an organisation's id has no slash. */
static char *key_of(const char *org_id, const char *name)
{
    char *key;

    return asprintf(&key, "%s/%s", org_id, name) < 0 ? NULL : key;
}

int csn_cell_enter(csn_cell *cell)
{
    csn_boxes *b = cell->boxes;

    cell->name_key = key_of(cell->row.org_id, cell->name);
    if (!cell->name_key)
        return -ENOMEM;
    int r = csn_table_put(&b->by_name, cell->name_key, cell);
    if (r < 0)
        return r;
    r = csn_table_put(&b->by_id, cell->row.id, cell);
    if (r < 0) {
        csn_cell_leave(cell);
        return r;
    }
    csn_list_append(&b->cells, &cell->link);
    return 0;
}

static void take_out(csn_table *table, const char *key, const csn_cell *cell)
{
    if (csn_table_get(table, key) == cell)
        (void) csn_table_remove(table, key);
}

void csn_cell_leave(csn_cell *cell)
{
    csn_boxes *b = cell->boxes;

    csn_timer_cancel(&cell->timer);
    csn_list_remove(&cell->link);
    if (cell->name_key)
        take_out(&b->by_name, cell->name_key, cell);
    take_out(&b->by_id, cell->row.id, cell);
    csn_passes_end_all(cell);
}

csn_cell *csn_boxes_find(csn_boxes *boxes, const char *org_id, const char *id_or_name)
{
    csn_cell *cell = csn_table_get(&boxes->by_id, id_or_name);

    if (cell && csn_streq(cell->row.org_id, org_id))
        return cell;
    char *key = key_of(org_id, id_or_name);
    cell = key ? csn_table_get(&boxes->by_name, key) : NULL;
    free(key);
    return cell;
}

void csn_cell_set_state(csn_cell *cell, csn_cell_state state)
{
    csn_cell_state old = cell->state;

    cell->state = state;
    (void) snprintf(cell->row.state, sizeof(cell->row.state), "%s", states[state].name);
    cell->row.updated_ms = csn_steady_ms();
    if (state == CSN_CELL_STARTED)
        cell->row.stopped_ms = 0;
    if (state == CSN_CELL_STOPPED && cell->row.stopped_ms == 0)
        cell->row.stopped_ms = cell->row.updated_ms;
    if (state == CSN_CELL_STARTED || state == CSN_CELL_STOPPED)
        cell->row.active_ms = cell->row.updated_ms;
    if (state == CSN_CELL_STOPPED || state == CSN_CELL_ERROR)
        csn_passes_end_ports(cell);
    cell->is_dirty = true;
    csn_cell_plan(cell);
    csn_weigh_note(cell);
    if (old != state)
        csn_events_state(cell->boxes->server, cell, states[old].name);
}

int csn_cell_save(csn_cell *cell, csn_error *err)
{
    int r = csn_store_sandbox_update(cell->boxes->server->store, &cell->row, err);

    if (r == CSN_OK)
        cell->is_dirty = false;
    return r;
}

void csn_cell_shape(const csn_cell *cell, const char *toolbox_url, csn_shape_sandbox *ret)
{
    const csn_sandbox_row *row = &cell->row;

    *ret = (csn_shape_sandbox){
        .id = row->id,
        .org_id = row->org_id,
        .name = cell->name,
        .user = row->user,
        .target = row->target,
        .toolbox_url = toolbox_url,
        .env = row->env,
        .labels = row->labels,
        .mounts = row->mounts,
        .state = states[cell->state].name,
        .desired_state = states[cell->state].desired,
        .snapshot = row->snapshot,
        .error_reason = row->error_reason,
        .allow_list = row->allow_list,
        .domain_list = row->domain_list,
        .dockerfile = row->dockerfile,
        .build_ref = row->image,
        .is_public = row->is_public,
        .is_blocked = row->is_blocked,
        .is_recoverable = cell->state == CSN_CELL_ERROR,
        .cpu_milli = row->cpu_milli,
        .memory_bytes = row->memory_bytes,
        .disk_bytes = row->disk_bytes,
        .auto_stop_min = row->auto_stop_min,
        .auto_archive_min = row->auto_archive_min,
        .auto_delete_min = row->auto_delete_min,
        .destroy_at_ms = row->destroy_at_ms,
        .created_ms = row->created_ms,
        .updated_ms = row->updated_ms,
        .active_ms = row->active_ms,
    };
}
