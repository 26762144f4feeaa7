/* SPDX-License-Identifier: Apache-2.0 */
#include "server/boxes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/cell.h"
#include "server/fds.h"
#include "server/passes.h"

/* ---- lines ---- */

static csn_box_hold *line_ref(csn_box_hold *line)
{
    if (line)
        line->n_refs++;
    return line;
}

csn_box_hold *csn_boxes_release(csn_box_hold *hold)
{
    if (hold && --hold->n_refs == 0) {
        (void) csn_sandbox_free(hold->sandbox);
        free(hold);
    }
    return NULL;
}

csn_box_hold *csn_boxes_hold(csn_boxes *boxes, const char *id)
{
    csn_cell *cell = csn_table_get(&boxes->by_id, id);

    return cell ? line_ref(cell->line) : NULL;
}

/* The engine's id of a handle has 32 characters: the UUID without its dashes. */
static void bare_id(const char *uuid, char out[33])
{
    size_t n = 0;

    for (; *uuid && n < 32; uuid++)
        if (*uuid != '-')
            out[n++] = *uuid;
    out[n] = '\0';
}

csn_box_hold *csn_line_new(csn_boxes *boxes, const char *id, const char *user, int fd,
                           csn_error *err)
{
    csn_sandbox_options opts = { .size = sizeof(opts), .user = user, .timeout_ms = CSN_UNLIMITED };
    csn_box_hold *line = calloc(1, sizeof(*line));
    char bare[33];

    if (!line) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "connect to sandbox '%s'", id);
        csn_close(&fd);
        return NULL;
    }
    bare_id(id, bare);
    if (csn_sandbox_borrow(boxes->server->engine, bare, &opts, fd, &line->sandbox, err) < 0) {
        csn_close(&fd);
        free(line);
        return NULL;
    }
    line->n_refs = 1;
    return line;
}

static bool is_alive(const csn_box_hold *line)
{
    csn_sandbox_info info;

    return csn_sandbox_inspect(line->sandbox, &info, NULL) == CSN_OK &&
           info.state == CSN_STATE_STARTED;
}

bool csn_cell_is_lost(const csn_cell *cell)
{
    return cell->line && !is_alive(cell->line);
}

/* ---- opening ---- */

typedef struct waiter {
    csn_list link;
    csn_boxes_open_fn *done;
    void *user;
} waiter;

static void tell_waiters(csn_cell *cell, int result, const csn_error *err)
{
    csn_list told;
    csn_list *node;

    csn_list_init(&told);
    while ((node = csn_list_pop(&cell->waiters)) != NULL)
        csn_list_append(&told, node);
    csn_box_hold *line = line_ref(cell->line);
    char id[37];
    memcpy(id, cell->row.id, sizeof(id)); /* a waiter may delete the cell */
    while ((node = csn_list_pop(&told)) != NULL) {
        waiter *w = csn_list_entry(node, waiter, link);
        w->done(result == CSN_OK ? line->sandbox : NULL, id, result, err, w->user);
        free(w);
    }
    (void) csn_boxes_release(line);
}

void csn_cell_disconnect(csn_cell *cell, const csn_error *why)
{
    csn_boxes *b = cell->boxes;
    csn_box_hold *line = cell->line;

    cell->line = NULL;
    if (line)
        for (size_t i = 0; i < b->n_ended; i++)
            b->ended[i].fn(cell->row.id, b->ended[i].user);
    (void) csn_boxes_release(line);
    tell_waiters(cell, why->code, why);
}

void csn_boxes_disconnect_idle(csn_boxes *boxes)
{
    csn_list_foreach (node, &boxes->cells) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (cell->line && cell->line->n_refs == 1)
            cell->line = csn_boxes_release(cell->line);
    }
}

/* The engine says that it does not run: believe it. */
static void found_stopped(csn_cell *cell, const csn_error *why)
{
    csn_error err = { 0 };

    csn_cell_disconnect(cell, why);
    if (cell->state != CSN_CELL_STARTED || cell->is_dying)
        return;
    csn_cell_set_state(cell, CSN_CELL_STOPPED);
    if (cell->row.auto_delete_min == 0 && csn_cell_delete(cell, &err) < 0)
        csn_log(CSN_LOG_ERROR, "a sandbox that ended can't be deleted", "sandbox", cell->row.id,
                "error", err.message, NULL);
}

static void on_lent(int fd, int result, const csn_error *err, void *user)
{
    csn_cell *cell = user;
    csn_error own = { 0 };

    cell->n_pending--;
    cell->is_connecting = false;
    if (cell->is_dying ||
        (cell->state != CSN_CELL_STARTED && cell->state != CSN_CELL_SNAPSHOTTING)) {
        csn_close(&fd);
        (void) csn_fail(&own, CSN_E_STATE, "sandbox is not running");
        tell_waiters(cell, CSN_E_STATE, &own);
    } else if (result < 0) {
        (void) csn_fail(&own, CSN_E_STATE, "sandbox is not running: %s", err ? err->message : "");
        if (result == CSN_E_STATE || result == CSN_E_NOT_FOUND || result == CSN_E_LOST)
            found_stopped(cell, &own);
        else
            tell_waiters(cell, result, err);
    } else {
        cell->line = csn_line_new(cell->boxes, cell->row.id, cell->row.user, fd, &own);
        tell_waiters(cell, cell->line ? CSN_OK : own.code, cell->line ? NULL : &own);
    }
    csn_cell_bury(cell);
}

static void connect_and_tell(csn_cell *cell, csn_boxes_open_fn *done, void *user)
{
    waiter *w = calloc(1, sizeof(*w));
    csn_error err = { 0 };

    if (!w) {
        (void) csn_fail(&err, CSN_E_NO_MEMORY, "connect to sandbox '%s'", cell->row.id);
        done(NULL, cell->row.id, CSN_E_NO_MEMORY, &err, user);
        return;
    }
    w->done = done;
    w->user = user;
    csn_list_append(&cell->waiters, &w->link);
    if (cell->is_connecting)
        return;
    if (csn_fds_are_short(cell->boxes->server)) {
        (void) csn_fds_fail(&err);
        tell_waiters(cell, err.code, &err);
        return;
    }
    cell->is_connecting = true;
    cell->n_pending++;
    int r = csn_warden_lend(cell->boxes->server->warden, cell->row.id, on_lent, cell);
    if (r < 0) {
        r = csn_warden_cannot(r, &err);
        on_lent(-1, r, &err, cell);
    }
}

static void open_cell(csn_cell *cell, csn_boxes_open_fn *done, void *user)
{
    csn_error err = { 0 };

    if (!cell) {
        (void) csn_fail(&err, CSN_E_NOT_FOUND, "Sandbox not found");
        done(NULL, NULL, CSN_E_NOT_FOUND, &err, user);
        return;
    }
    if (csn_cell_is_lost(cell)) {
        csn_box_hold *line = cell->line;
        cell->line = NULL; /* lost: the engine knows whether the sandbox still runs */
        for (size_t i = 0; i < cell->boxes->n_ended; i++)
            cell->boxes->ended[i].fn(cell->row.id, cell->boxes->ended[i].user);
        (void) csn_boxes_release(line);
    }
    if (cell->state != CSN_CELL_STARTED && cell->state != CSN_CELL_SNAPSHOTTING) {
        (void) csn_fail(&err, CSN_E_STATE,
                        "sandbox is not running: its state is %s; start it first",
                        csn_cell_state_name(cell->state));
        done(NULL, cell->row.id, CSN_E_STATE, &err, user);
    } else if (cell->line) {
        done(cell->line->sandbox, cell->row.id, CSN_OK, NULL, user);
    } else {
        connect_and_tell(cell, done, user);
    }
}

void csn_boxes_open(csn_boxes *boxes, const char *org_id, const char *id_or_name,
                    csn_boxes_open_fn *done, void *user)
{
    open_cell(csn_boxes_find(boxes, org_id, id_or_name), done, user);
}

void csn_boxes_open_by_id(csn_boxes *boxes, const char *id, csn_boxes_open_fn *done, void *user)
{
    open_cell(csn_table_get(&boxes->by_id, id), done, user);
}

/* ---- facts ---- */

void csn_boxes_touch(csn_boxes *boxes, const char *id)
{
    csn_cell *cell = csn_table_get(&boxes->by_id, id);

    if (!cell)
        return;
    cell->row.active_ms = csn_steady_ms();
    cell->is_dirty = true; /* the flush writes it, and the timer looks when it fires */
}

static char *joined(const char *key, const char *value)
{
    char *text;

    return asprintf(&text, "%s=%s", key, value) < 0 ? NULL : text;
}

static bool make_env(csn_cell *cell)
{
    const csn_sandbox_row *row = &cell->row;
    const char *const ours[][2] = {
        { "DAYTONA_SANDBOX_ID", row->id },
        { "DAYTONA_SANDBOX_SNAPSHOT", row->snapshot ? row->snapshot : row->image },
        { "DAYTONA_SANDBOX_USER", row->user },
        { "DAYTONA_ORGANIZATION_ID", row->org_id },
        { "DAYTONA_REGION_ID", row->target },
    };
    size_t n = 0;

    cell->facts_env = calloc(CSN_COUNT(ours) + cell->env.n + 1, sizeof(cell->facts_env[0]));
    if (!cell->facts_env)
        return false;
    for (size_t i = 0; i < CSN_COUNT(ours); i++) {
        if (csn_map_get(&cell->env, ours[i][0]))
            continue; /* what was given at creation wins */
        cell->facts_env[n] = joined(ours[i][0], ours[i][1]);
        if (!cell->facts_env[n++])
            goto out_of_memory;
    }
    for (size_t i = 0; i < cell->env.n; i++) {
        cell->facts_env[n] = joined(cell->env.items[i].key, cell->env.items[i].value);
        if (!cell->facts_env[n++])
            goto out_of_memory;
    }
    return true;
out_of_memory:
    csn_cell_forget_facts(cell);
    return false;
}

const csn_box_facts *csn_boxes_facts(csn_boxes *boxes, const char *id)
{
    csn_cell *cell = csn_table_get(&boxes->by_id, id);

    if (!cell || (!cell->facts_env && !make_env(cell)))
        return NULL;
    const csn_sandbox_row *row = &cell->row;
    const char *home = csn_streq(row->user, "root") ? "/root" : "/home/daytona";
    cell->facts = (csn_box_facts){
        .id = row->id,
        .org_id = row->org_id,
        .user = row->user,
        .work_dir = home,
        .home_dir = home,
        .snapshot = row->snapshot ? row->snapshot : row->image,
        .region = row->target,
        .env = cell->facts_env,
        .memory_bytes = row->memory_bytes,
        .cpu_milli = row->cpu_milli,
        .disk_bytes = row->disk_bytes,
    };
    return &cell->facts;
}

static int change_env(csn_map *env, const char *const *changes, csn_error *err)
{
    for (size_t i = 0; changes[i]; i++) {
        const char *equals = strchr(changes[i], '=');
        char name[256];
        size_t len = equals ? (size_t) (equals - changes[i]) : strlen(changes[i]);
        if (csn_str_copy(name, sizeof(name), csn_str_n(changes[i], len)) < 0 ||
            !csn_is_env_name(name))
            return csn_fail(err, CSN_E_INVALID, "'%.100s' is no name of a variable", changes[i]);
        if (!equals)
            csn_map_unset(env, name);
        else if (csn_map_set(env, name, equals + 1) < 0)
            return csn_fail(err, CSN_E_NO_MEMORY, "change the environment");
    }
    if (env->n > CSN_SHAPE_ENV_MAX)
        return csn_fail(err, CSN_E_LIMIT, "more than %d variables", CSN_SHAPE_ENV_MAX);
    return CSN_OK;
}

int csn_boxes_set_env(csn_boxes *boxes, const char *id, const char *const *changes, csn_error *err)
{
    csn_cell *cell = csn_table_get(&boxes->by_id, id);
    csn_auto(map) csn_map env = { 0 };

    if (!cell)
        return csn_fail(err, CSN_E_NOT_FOUND, "Sandbox not found");
    int r = csn_map_copy(&cell->env, &env);
    if (r < 0)
        return csn_fail_sys(err, r, "change the environment");
    r = change_env(&env, changes, err);
    if (r < 0)
        return r;
    char *text = csn_map_text(&env), *old = cell->row.env;
    if (!text)
        return csn_fail(err, CSN_E_NO_MEMORY, "change the environment");
    cell->row.env = text;
    r = csn_cell_save(cell, err);
    if (r < 0) {
        cell->row.env = old;
        free(text);
        return r;
    }
    free(old);
    csn_map_done(&cell->env);
    cell->env = env;
    env = (csn_map){ 0 };
    csn_cell_forget_facts(cell);
    return CSN_OK;
}

void csn_boxes_on_ended(csn_boxes *boxes, csn_boxes_ended_fn *fn, void *user)
{
    if (boxes->n_ended == CSN_BOXES_LISTENERS_MAX)
        return; /* a fixed number of rooms listen; more is our own mistake */
    boxes->ended[boxes->n_ended].fn = fn;
    boxes->ended[boxes->n_ended++].user = user;
}

/* ---- the whole ---- */

static void load_row(csn_sandbox_row *row, void *user)
{
    csn_boxes *b = user;
    char id[37];
    bool is_dying = csn_streq(row->state, "destroying");

    memcpy(id, row->id, sizeof(id));
    csn_cell *cell = csn_cell_new(b, row);
    if (!cell) {
        csn_log(CSN_LOG_ERROR, "a row of the database makes no sense", "sandbox", id, NULL);
        return;
    }
    cell->was_inserted = true;
    if (is_dying) {
        cell->is_dying = true;
        csn_list_append(&b->dying, &cell->link);
    } else if (csn_cell_enter(cell) < 0) {
        csn_log(CSN_LOG_ERROR, "a row of the database is there twice", "sandbox", id, NULL);
        csn_cell_free(cell);
    }
}

int csn_boxes_new(csn_server *server, csn_boxes **ret, csn_error *err)
{
    csn_boxes *b = calloc(1, sizeof(*b));

    if (!b)
        return csn_fail(err, CSN_E_NO_MEMORY, "read the sandboxes");
    b->server = server;
    csn_list_init(&b->cells);
    csn_list_init(&b->to_weigh);
    csn_list_init(&b->dying);
    csn_list_init(&b->warm);
    b->n_warm_wanted = server->config.n_warm;
    int r = csn_store_sandbox_each(server->store, load_row, b, err);
    if (r == CSN_OK)
        r = csn_passes_load(b, err);
    if (r < 0) {
        (void) csn_boxes_free(b);
        return r;
    }
    *ret = b;
    return CSN_OK;
}

bool csn_boxes_ready(const csn_boxes *boxes)
{
    return boxes->is_ready;
}

csn_boxes *csn_boxes_free(csn_boxes *b)
{
    csn_list *node;

    if (!b)
        return NULL;
    if (b->is_ready)
        csn_boxes_flush(b);
    csn_timer_cancel(&b->flush_timer);
    csn_timer_cancel(&b->warm_timer);
    csn_timer_cancel(&b->cool_timer);
    csn_timer_cancel(&b->lull.timer);
    csn_passes_done();
    csn_warm_done(b);
    csn_weigh_done(b);
    while ((node = csn_list_pop(&b->cells)) != NULL)
        csn_cell_free(csn_list_entry(node, csn_cell, link));
    while ((node = csn_list_pop(&b->dying)) != NULL)
        csn_cell_free(csn_list_entry(node, csn_cell, link));
    csn_table_done(&b->by_id);
    csn_table_done(&b->by_name);
    free(b->images);
    free(b);
    return NULL;
}
