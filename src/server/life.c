/* SPDX-License-Identifier: Apache-2.0 */
/* A cell's life: create, start, stop, archive, fork, snapshot, delete. The warden does it; here is who waits for what. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/cell.h"
#include "server/events.h"
#include "server/metrics.h"
#include "server/snaps.h"

/* One ask at the warden about a cell. */
typedef struct task {
    csn_cell *cell;
    csn_cell *other; /* of a fork: what it makes */
    struct {
        int64_t cpu_milli, memory_bytes, disk_bytes;
    } wanted; /* of a resize */
    csn_cell_done_fn *done;
    void *user;
} task;

static task *task_new(csn_cell *cell, csn_cell_done_fn *done, void *user)
{
    task *t = calloc(1, sizeof(*t));
    csn_error err = { 0 };

    if (!t) {
        (void) csn_fail(&err, CSN_E_NO_MEMORY, "sandbox '%s'", cell->row.id);
        done(cell, CSN_E_NO_MEMORY, &err, user);
        return NULL;
    }
    t->cell = cell;
    t->done = done;
    t->user = user;
    cell->n_pending++;
    return t;
}

/* Ends the task. A cell that was deleted meanwhile is told of as NULL, and its burial goes on. */
static void finish(task *t, int result, const csn_error *err)
{
    csn_cell *cell = t->cell;
    csn_error gone = { 0 };

    if (cell->is_dying) {
        (void) csn_fail(&gone, CSN_E_NOT_FOUND, "Sandbox was deleted meanwhile");
        t->done(NULL, CSN_E_NOT_FOUND, &gone, t->user);
    } else {
        t->done(cell, result, err, t->user);
    }
    cell->n_pending--;
    csn_cell_bury(cell);
    free(t);
}

static void fail_ask(int r, csn_warden_done_fn *on_done, task *t)
{
    csn_error err = { 0 };

    r = csn_warden_cannot(r, &err);
    on_done(r, &err, t);
}

/* ---- delete ---- */

static void retry_burial(csn_timer *timer, void *user)
{
    (void) timer;
    csn_cell_bury(user);
}

static void on_deleted(int result, const csn_error *err, void *user)
{
    csn_cell *cell = user;
    csn_server *s = cell->boxes->server;
    csn_error own = { 0 };

    cell->n_pending--;
    if (s->is_stopping)
        return; /* the next start goes on with it */
    if (result < 0 && result != CSN_E_NOT_FOUND) {
        csn_log(CSN_LOG_WARN, "a sandbox can't be deleted yet", "sandbox", cell->row.id, "error",
                err ? err->message : "", NULL);
        if (csn_timer_set(s->loop, &cell->timer, csn_deadline_in_ms(5000), retry_burial, cell) < 0)
            csn_log(CSN_LOG_ERROR, "no timer", "sandbox", cell->row.id, NULL);
        return; /* the row stays: a restart tries again too */
    }
    csn_snap_drop_image(s, cell->row.image); /* it may have been the last of a deleted snapshot */
    if (!cell->was_inserted) {
        csn_cell_free(cell);
        return;
    }
    cell->is_dirty = true; /* nothing of it is left: the next flush takes the row out */
    cell->was_inserted = false;
    if (cell->is_unwritten && csn_store_sandbox_remove(s->store, cell->row.id, &own) == CSN_OK)
        csn_cell_free(cell); /* alone: a flush is one change with all that others left */
}

void csn_cell_bury(csn_cell *cell)
{
    if (!cell->is_dying || cell->n_pending > 0 || cell->is_dirty)
        return;
    if (!cell->boxes->lull.is_here) {
        csn_lull_await(cell->boxes);
        return;
    }
    cell->n_pending++;
    int r = csn_warden_delete(cell->boxes->server->warden, cell->row.id, on_deleted, cell);
    if (r < 0) {
        csn_error err = { 0 };
        r = csn_warden_cannot(r, &err);
        on_deleted(r, &err, cell);
    }
}

static void move_to_dying(csn_cell *cell)
{
    csn_error why = { 0 };

    (void) csn_fail(&why, CSN_E_NOT_FOUND, "Sandbox was deleted");
    csn_cell_leave(cell);
    cell->is_dying = true;
    csn_list_append(&cell->boxes->dying, &cell->link);
    csn_cell_disconnect(cell, &why);
    csn_cell_set_state(cell, CSN_CELL_DESTROYING);
    csn_timer_cancel(&cell->timer);
    cell->is_dirty = false;
}

/* The row says that it is being deleted and no longer has its name. Without room for that is_unwritten is set. */
static int write_dying(csn_cell *cell, csn_error *err)
{
    char *name = cell->row.name;
    char state[sizeof(cell->row.state)];

    memcpy(state, cell->row.state, sizeof(state));
    cell->row.name = NULL;
    (void) snprintf(cell->row.state, sizeof(cell->row.state), "destroying");
    int r = csn_store_sandbox_update(cell->boxes->server->store, &cell->row, err);
    if (r < 0 && csn_is_out_of_space(err)) {
        csn_log(CSN_LOG_WARN, "the disk is full: files are deleted before the row", "sandbox",
                cell->row.id, NULL);
        cell->is_unwritten = true;
        r = CSN_OK;
    }
    if (r < 0) {
        cell->row.name = name;
        memcpy(cell->row.state, state, sizeof(state));
        return r;
    }
    free(name);
    return CSN_OK;
}

int csn_cell_delete(csn_cell *cell, csn_error *err)
{
    int r = cell->was_inserted ? write_dying(cell, err) : CSN_OK;

    if (r < 0)
        return r;
    csn_metrics_count(CSN_COUNT_DELETED);
    move_to_dying(cell);
    csn_cell_bury(cell);
    return CSN_OK;
}

void csn_cell_remove(csn_cell *cell, csn_cell_done_fn *done, void *user)
{
    csn_error err = { 0 };

    cell->n_pending++; /* it stays until we have looked */
    int r = csn_cell_delete(cell, &err);
    cell->n_pending--;
    if (r == CSN_OK && cell->is_unwritten) {
        cell->on_removed = done;
        cell->on_removed_user = user;
    }
    bool is_waiting = cell->on_removed != NULL;
    if (r == CSN_OK)
        csn_cell_bury(cell);
    if (!is_waiting)
        done(NULL, r, &err, user);
}

/* ---- create ---- */

/* Nothing of it may stay: it was never acknowledged. */
static void undo_create(csn_cell *cell)
{
    csn_error err = { 0 };

    if (csn_cell_delete(cell, &err) < 0) {
        csn_log(CSN_LOG_ERROR, "a failed sandbox stays in the database", "sandbox", cell->row.id,
                "error", err.message, NULL);
        move_to_dying(cell);
        csn_cell_bury(cell);
    }
}

/* Told when it is made, as what it then is: SDKs take over what the event says, and it may reach them after the answer. */
static void tell_created(csn_cell *cell)
{
    csn_cell_state state = cell->state;

    cell->state = CSN_CELL_STARTED;
    csn_events_state(cell->boxes->server, cell, NULL);
    cell->state = state;
}

static void end_create(task *t, int result, const csn_error *err)
{
    csn_cell *cell = t->cell;

    if (result == CSN_OK && !cell->is_dying) {
        csn_metrics_count(CSN_COUNT_CREATED);
        tell_created(cell);
        csn_cell_set_state(cell, CSN_CELL_STARTED);
        finish(t, CSN_OK, NULL);
        return;
    }
    csn_metrics_count(CSN_COUNT_CREATE_FAILED);
    if (!cell->is_dying) {
        t->done(NULL, result, err, t->user);
        undo_create(cell);
        cell->n_pending--;
        csn_cell_bury(cell);
        free(t);
        return;
    }
    finish(t, result, err);
}

static int fail_unwritten(const csn_cell *cell, csn_error *err)
{
    if (cell->insert_errno)
        return csn_fail_sys(err, -cell->insert_errno, "remember the sandbox");
    return csn_fail(err, CSN_E_SYSTEM, "the sandbox can't be remembered");
}

static void on_created(int result, const csn_error *err, void *user)
{
    task *t = user;
    csn_error own = { 0 };

    if (result == CSN_OK && !t->cell->was_inserted) {
        result = fail_unwritten(t->cell, &own);
        end_create(t, result, &own);
        return;
    }
    end_create(t, result, err);
}

static void spec_of(const csn_cell *cell, csn_box_spec *spec)
{
    const csn_sandbox_row *row = &cell->row;

    *spec = (csn_box_spec){ 0 };
    (void) snprintf(spec->id, sizeof(spec->id), "%s", row->id);
    (void) snprintf(spec->image, sizeof(spec->image), "%s", row->image);
    (void) snprintf(spec->user, sizeof(spec->user), "%s", row->user);
    spec->has_network = cell->boxes->server->config.has_network && !row->is_blocked;
    spec->memory_bytes = row->memory_bytes;
    spec->cpu_milli = row->cpu_milli;
    spec->disk_bytes = row->disk_bytes;
    spec->n_mounts = cell->n_mounts;
    for (size_t i = 0; i < cell->n_mounts; i++) {
        (void) snprintf(spec->mounts[i].volume, sizeof(spec->mounts[i].volume), "%.64s",
                        cell->mounts[i].volume);
        (void) snprintf(spec->mounts[i].path, sizeof(spec->mounts[i].path), "%s",
                        cell->mounts[i].path);
        (void) snprintf(spec->mounts[i].subpath, sizeof(spec->mounts[i].subpath), "%s",
                        cell->mounts[i].subpath);
    }
}

static int insert(csn_cell *cell)
{
    csn_error err = { 0 };
    int r = csn_store_sandbox_insert(cell->boxes->server->store, &cell->row, &err);

    cell->was_inserted = r == CSN_OK;
    cell->insert_errno = err.sys_errno;
    if (r < 0)
        csn_log(CSN_LOG_ERROR, "a sandbox can't be written to the database", "sandbox",
                cell->row.id, "error", err.message, NULL);
    return r;
}

/* The warden works while the row goes to the disk. */
void csn_cell_create(csn_cell *cell, csn_cell_done_fn *done, void *user)
{
    csn_box_spec spec;
    task *t = task_new(cell, done, user);

    if (!t) {
        undo_create(cell);
        return;
    }
    if (cell->line) { /* a warm one: it runs already */
        csn_error err = { 0 };
        csn_metrics_count(CSN_COUNT_CREATED_WARM);
        if (insert(cell) < 0)
            (void) fail_unwritten(cell, &err);
        end_create(t, err.code, &err);
        return;
    }
    spec_of(cell, &spec);
    int r = csn_warden_create(cell->boxes->server->warden, &spec, on_created, t);
    (void) insert(cell); /* on_created looks at was_inserted */
    if (r < 0)
        fail_ask(r, on_created, t);
}

/* ---- start and stop ---- */

void csn_cell_lost(csn_cell *cell)
{
    free(cell->row.error_reason);
    cell->row.error_reason = strdup("the sandbox's files are gone"); /* or without words */
    csn_cell_set_state(cell, CSN_CELL_ERROR);
}

/* What the engine has done is so, whether or not it can be written now: the flush tries again, and a restart asks the
 * engine. */
static void save_done(csn_cell *cell)
{
    csn_error err = { 0 };

    if (csn_cell_save(cell, &err) == CSN_OK)
        return;
    cell->is_dirty = true;
    csn_log(CSN_LOG_WARN, "a row is written later", "sandbox", cell->row.id, "error", err.message,
            NULL);
}

static void on_started(int result, const csn_error *err, void *user)
{
    task *t = user;
    csn_cell *cell = t->cell;

    if (!cell->is_dying && result == CSN_E_NOT_FOUND) {
        csn_cell_lost(cell);
    } else if (!cell->is_dying && result < 0) {
        csn_cell_set_state(cell, CSN_CELL_STOPPED);
    } else if (!cell->is_dying) {
        csn_cell_set_state(cell, CSN_CELL_STARTED);
        save_done(cell);
    }
    finish(t, result, err);
}

void csn_cell_start(csn_cell *cell, csn_cell_done_fn *done, void *user)
{
    task *t = task_new(cell, done, user);

    if (!t)
        return;
    free(cell->row.error_reason);
    cell->row.error_reason = NULL;
    csn_cell_set_state(cell, CSN_CELL_STARTING);
    int r = csn_warden_start(cell->boxes->server->warden, cell->row.id, on_started, t);
    if (r < 0)
        fail_ask(r, on_started, t);
}

static void on_stopped(int result, const csn_error *err, void *user)
{
    task *t = user;
    csn_cell *cell = t->cell;
    csn_error own = { 0 };

    if (cell->is_dying) {
        finish(t, result, err);
        return;
    }
    if (result < 0) {
        csn_cell_set_state(cell, CSN_CELL_STARTED);
        finish(t, result, err);
        return;
    }
    csn_cell_set_state(cell, CSN_CELL_STOPPED);
    if (cell->row.auto_delete_min == 0) { /* ephemeral: the end */
        result = csn_cell_delete(cell, &own);
        if (result == CSN_OK) {
            t->done(NULL, CSN_OK, NULL, t->user);
            cell->n_pending--;
            csn_cell_bury(cell);
            free(t);
            return;
        }
    } else {
        save_done(cell);
    }
    finish(t, result, &own);
}

void csn_cell_stop(csn_cell *cell, bool is_forced, csn_cell_done_fn *done, void *user)
{
    task *t = task_new(cell, done, user);
    csn_error why = { 0 };

    if (!t)
        return;
    (void) csn_fail(&why, CSN_E_STATE, "sandbox is being stopped");
    csn_cell_set_state(cell, CSN_CELL_STOPPING);
    csn_cell_disconnect(cell, &why);
    int r = csn_warden_stop(cell->boxes->server->warden, cell->row.id, is_forced ? -1 : 0,
                            on_stopped, t);
    if (r < 0)
        fail_ask(r, on_stopped, t);
}

/* There is no slower place to move files to: archived is a stopped sandbox that says so. */
int csn_cell_archive(csn_cell *cell, csn_error *err)
{
    csn_cell_set_state(cell, CSN_CELL_ARCHIVED);
    int r = csn_cell_save(cell, err);
    if (r < 0)
        csn_cell_set_state(cell, CSN_CELL_STOPPED);
    return r;
}

/* ---- fork and snapshot ---- */

static void on_forked(int result, const csn_error *err, void *user)
{
    task *t = user;
    csn_cell *source = t->other;

    source->n_pending--;
    csn_cell_bury(source);
    on_created(result, err, t);
}

void csn_cell_fork(csn_cell *source, csn_cell *fork, csn_cell_done_fn *done, void *user)
{
    task *t = task_new(fork, done, user);

    if (!t) {
        undo_create(fork);
        return;
    }
    t->other = source;
    source->n_pending++;
    int r =
        csn_warden_fork(fork->boxes->server->warden, source->row.id, fork->row.id, on_forked, t);
    (void) insert(fork); /* on_created looks at was_inserted */
    if (r < 0)
        fail_ask(r, on_forked, t);
}

static void on_snapshotted(int result, const csn_error *err, void *user)
{
    task *t = user;

    if (!t->cell->is_dying)
        csn_cell_set_state(t->cell, t->cell->row.stopped_ms ? CSN_CELL_STOPPED : CSN_CELL_STARTED);
    finish(t, result, err);
}

void csn_cell_snapshot(csn_cell *cell, const char *image, csn_cell_done_fn *done, void *user)
{
    task *t = task_new(cell, done, user);

    if (!t)
        return;
    csn_cell_set_state(cell, CSN_CELL_SNAPSHOTTING);
    int r = csn_warden_snapshot(cell->boxes->server->warden, cell->row.id, image, on_snapshotted, t);
    if (r < 0)
        fail_ask(r, on_snapshotted, t);
}

/* ---- resize ---- */

static void on_resized(int result, const csn_error *err, void *user)
{
    task *t = user;
    csn_sandbox_row *row = &t->cell->row;

    if (result == CSN_OK && !t->cell->is_dying) {
        row->cpu_milli = t->wanted.cpu_milli;
        row->memory_bytes = t->wanted.memory_bytes;
        row->disk_bytes = t->wanted.disk_bytes;
        csn_cell_forget_facts(t->cell);
        save_done(t->cell);
    }
    finish(t, result, err);
}

void csn_cell_resize(csn_cell *cell, int64_t cpu_milli, int64_t memory_bytes, int64_t disk_bytes,
                     csn_cell_done_fn *done, void *user)
{
    const csn_sandbox_row *row = &cell->row;
    task *t = task_new(cell, done, user);

    if (!t)
        return;
    t->wanted.cpu_milli = cpu_milli;
    t->wanted.memory_bytes = memory_bytes;
    t->wanted.disk_bytes = disk_bytes;
    int r = csn_warden_resize(cell->boxes->server->warden, row->id,
                              memory_bytes == row->memory_bytes ? 0 : memory_bytes,
                              cpu_milli == row->cpu_milli ? 0 : cpu_milli,
                              disk_bytes == row->disk_bytes ? 0 : disk_bytes, on_resized, t);
    if (r < 0)
        fail_ask(r, on_resized, t);
}
