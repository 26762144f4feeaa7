/* SPDX-License-Identifier: Apache-2.0 */
/* start, stop, archive, recover, fork, snapshot, resize, pause: which state allows what (WIRE 6.3). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/control.h"
#include "server/disk.h"
#include "server/fds.h"
#include "server/snaps.h"

enum { CHANGES = CSN_ROUTE_AUDIT | CSN_ROUTE_TENANT };

/* True when another change is under way: 409 was answered. */
static bool is_changing(csn_req *req, const csn_cell *cell)
{
    switch (cell->state) {
    case CSN_CELL_CREATING:
    case CSN_CELL_STOPPING:
    case CSN_CELL_STARTING:
    case CSN_CELL_SNAPSHOTTING:
    case CSN_CELL_DESTROYING:
        csn_req_error(req, 409, NULL, "Sandbox state change in progress");
        return true;
    case CSN_CELL_STARTED:
    case CSN_CELL_STOPPED:
    case CSN_CELL_ARCHIVED:
    case CSN_CELL_ERROR:
        break;
    }
    return false;
}

static void on_started(csn_cell *cell, int result, const csn_error *err, void *user)
{
    csn_req *req;

    if (result == CSN_OK || !cell || result == CSN_E_SYSTEM || result == CSN_E_NO_MEMORY) {
        csn_control_done(cell, result, err, user);
        return;
    }
    req = csn_wait_end(user);
    if (req)
        csn_req_error(req, 400, NULL, "Sandbox failed to start: %s", err->message);
}

/* except: not to be counted, or NULL. */
static int check_quota(const csn_cell *cell, const csn_cell *except, csn_error *err)
{
    const csn_sandbox_row *row = &cell->row;
    int r = csn_quota_check(cell->boxes, row->org_id, row->cpu_milli, row->memory_bytes,
                            row->disk_bytes, except, err);

    if (r == CSN_OK && cell->n_mounts > 0)
        r = csn_quota_volumes(cell->boxes->server, row->org_id, 0, err);
    return r;
}

static void start_cell(csn_req *req, csn_cell *cell)
{
    csn_error err = { 0 };

    if (check_quota(cell, cell, &err) < 0) {
        csn_control_fail(req, &err);
        return;
    }
    csn_wait *wait = csn_wait_new(req);
    if (wait)
        csn_cell_start(cell, on_started, wait);
}

static void start(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);

    if (!cell || is_changing(req, cell))
        return;
    if (cell->state == CSN_CELL_STARTED)
        csn_control_answer(req, 200, cell);
    else if (cell->state == CSN_CELL_ERROR)
        csn_req_error(req, 400, NULL, "Sandbox is in an error state: recover or delete it");
    else
        start_cell(req, cell);
}

static void recover(csn_req *req)
{
    const char *skip = csn_req_query(req, "skipStart");
    csn_cell *cell = csn_control_cell(req, 0);

    if (!cell || is_changing(req, cell))
        return;
    if (cell->state == CSN_CELL_STARTED)
        csn_req_error(req, 400, NULL, "Sandbox is not in an error state");
    else if (csn_streq(skip, "true") && cell->state != CSN_CELL_ERROR)
        csn_control_answer(req, 200, cell);
    else
        start_cell(req, cell);
}

/* ---- stop ---- */

/* What is left to say of an ephemeral one: it is gone when the answer is due. */
typedef struct stopping {
    csn_wait *wait;
    csn_buf gone; /* the object, as destroyed */
} stopping;

static void on_stopped(csn_cell *cell, int result, const csn_error *err, void *user)
{
    stopping *s = user;
    csn_req *req = csn_wait_end(s->wait);

    if (req && result < 0)
        csn_control_fail(req, err);
    else if (req && cell)
        csn_control_answer(req, 200, cell);
    else if (req)
        csn_control_json(req, 200, &s->gone);
    csn_buf_free(&s->gone);
    free(s);
}

static void write_gone(csn_req *req, const csn_cell *cell, csn_buf *out)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(out, false);
    csn_shape_sandbox shape;

    csn_cell_shape(cell, csn_control_toolbox_url(req, &url), &shape);
    shape.state = shape.desired_state = "destroyed";
    csn_shape_sandbox_write(&shape, false, &w);
}

static void stop(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);

    if (!cell || is_changing(req, cell))
        return;
    if (cell->state != CSN_CELL_STARTED) {
        csn_req_error(req, 400, NULL, "Sandbox is not started");
        return;
    }
    stopping *s = calloc(1, sizeof(*s));
    csn_wait *wait = s ? csn_wait_new(req) : NULL;
    if (!wait) {
        if (!s)
            csn_req_error(req, 503, NULL, "The server is out of memory");
        free(s);
        return;
    }
    s->wait = wait;
    s->gone = (csn_buf) CSN_BUF_INIT;
    if (cell->row.auto_delete_min == 0)
        write_gone(req, cell, &s->gone);
    csn_cell_stop(cell, csn_streq(csn_req_query(req, "force"), "true"), on_stopped, s);
}

static void archive(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    csn_error err = { 0 };

    if (!cell || is_changing(req, cell))
        return;
    if (cell->state != CSN_CELL_STOPPED && cell->state != CSN_CELL_ARCHIVED)
        csn_req_error(req, 400, NULL, "Sandbox is not stopped");
    else if (cell->row.auto_delete_min == 0)
        csn_req_error(req, 400, NULL, "Ephemeral sandboxes cannot be archived");
    else if (cell->state == CSN_CELL_STOPPED && csn_cell_archive(cell, &err) < 0)
        csn_control_fail(req, &err);
    else
        csn_control_answer(req, 200, cell);
}

static void pause_cell(csn_req *req)
{
    if (csn_control_cell(req, 0))
        csn_req_error(req, 422, NULL, "Sandboxes of this server can't be paused; stop it instead");
}

/* ---- resize ---- */

/* NULL: it may have them. */
static const char *why_not(const csn_cell *cell, int64_t cpu, int64_t memory, int64_t disk)
{
    const csn_sandbox_row *row = &cell->row;
    bool is_started = cell->state == CSN_CELL_STARTED;

    if (cpu == row->cpu_milli && memory == row->memory_bytes && disk == row->disk_bytes)
        return "Nothing changes: the sandbox has these resources already";
    if (disk < row->disk_bytes)
        return "Disk size cannot be decreased";
    if (disk > row->disk_bytes && is_started)
        return "Disk can only be resized while the sandbox is stopped";
    if (is_started && (cpu < row->cpu_milli || memory < row->memory_bytes))
        return "CPU and memory can only be increased while the sandbox is started";
    return NULL;
}

/* False: it was refused. */
static bool fit_machine(csn_req *req, int64_t *cpu, int64_t *memory, int64_t *disk)
{
    csn_auto(buf) csn_buf told = CSN_BUF_INIT;
    csn_size size = { *cpu, *memory, *disk };
    csn_error err = { 0 };

    if (csn_machine_fit(csn_req_server(req), &size, &told, &err) < 0) {
        csn_control_fail(req, &err);
        return false;
    }
    if (told.len > 0)
        csn_req_add_header(req, CSN_GRANTED_HEADER, told.data);
    *cpu = size.cpu_milli;
    *memory = size.memory_bytes;
    *disk = size.disk_bytes;
    return true;
}

static void resize(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    const csn_json *body = cell && !is_changing(req, cell) ? csn_req_json_body(req) : NULL;
    csn_error err = { 0 };

    if (!body)
        return;
    int64_t cpu = cell->row.cpu_milli, memory = cell->row.memory_bytes, disk = cell->row.disk_bytes;
    int r = csn_shape_read_resources(body, &cpu, &memory, &disk, &err);
    if (r == CSN_OK && !fit_machine(req, &cpu, &memory, &disk))
        return;
    const char *why = r < 0 ? err.message : why_not(cell, cpu, memory, disk);
    if (why) {
        csn_req_error(req, 400, NULL, "%s", why);
        return;
    }
    if (csn_quota_check(cell->boxes, cell->row.org_id, cpu, memory, disk, cell, &err) < 0) {
        csn_control_fail(req, &err);
        return;
    }
    csn_wait *wait = csn_wait_new(req);
    if (wait)
        csn_cell_resize(cell, cpu, memory, disk, csn_control_done, wait);
}

/* ---- fork ---- */

static char *copy_of(const char *text, bool *is_short)
{
    char *copy = text ? strdup(text) : NULL;

    *is_short |= text && !copy;
    return copy;
}

static int fork_row(const csn_cell *source, const char *name, csn_sandbox_row *row)
{
    const csn_sandbox_row *from = &source->row;
    bool is_short = false;

    *row = *from;
    if (csn_id_uuid(row->id) < 0)
        is_short = true;
    memcpy(row->parent_id, from->id, sizeof(row->parent_id));
    (void) snprintf(row->state, sizeof(row->state), "creating");
    row->created_ms = row->updated_ms = row->active_ms = csn_steady_ms();
    if (from->destroy_at_ms)
        row->destroy_at_ms = row->created_ms + (from->destroy_at_ms - from->created_ms);
    row->stopped_ms = 0;
    row->name = copy_of(name ? name : row->id, &is_short);
    row->snapshot = copy_of(from->snapshot, &is_short);
    row->image = copy_of(from->image, &is_short);
    row->user = copy_of(from->user, &is_short);
    row->target = copy_of(from->target, &is_short);
    row->env = copy_of(from->env, &is_short);
    row->labels = copy_of(from->labels, &is_short);
    row->mounts = copy_of(from->mounts, &is_short);
    row->dockerfile = copy_of(from->dockerfile, &is_short);
    row->allow_list = copy_of(from->allow_list, &is_short);
    row->domain_list = copy_of(from->domain_list, &is_short);
    row->error_reason = NULL;
    return is_short ? -ENOMEM : 0;
}

static csn_cell *make_fork(const csn_cell *source, const char *name, csn_error *err)
{
    csn_sandbox_row row;
    csn_cell *fork = NULL;

    if (fork_row(source, name, &row) == 0)
        fork = csn_cell_new(source->boxes, &row);
    csn_sandbox_row_done(&row);
    int r = fork ? csn_cell_enter(fork) : -ENOMEM;
    if (r == 0)
        return fork;
    csn_cell_free(fork);
    (void) csn_fail(err, r == -EEXIST ? CSN_E_EXISTS : CSN_E_NO_MEMORY,
                    r == -EEXIST ? "Sandbox with name %.128s already exists" : "fork %.128s",
                    name ? name : source->row.id);
    return NULL;
}

/* As a create: one whose client left before it was told of it is nobody's. */
static void on_forked(csn_cell *cell, int result, const csn_error *err, void *user)
{
    csn_wait *wait = user;
    csn_error own = { 0 };

    if (result == CSN_OK && cell && !wait->req && csn_cell_delete(cell, &own) < 0)
        csn_log(CSN_LOG_WARN, "a fork nobody waited for stays", "sandbox", cell->row.id, "error",
                own.message, NULL);
    csn_control_done(cell, result, err, wait);
}

static void fork_cell(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    const csn_json *body = cell ? csn_req_json_body(req) : NULL;
    csn_error err = { 0 };

    if (!body || is_changing(req, cell) || csn_disk_refuses(req) || csn_fds_refuse(req))
        return;
    const char *name = csn_json_get_str(body, "name", "");
    if (cell->state == CSN_CELL_ERROR) {
        csn_req_error(req, 400, NULL, "Sandbox is in an error state");
        return;
    }
    if (csn_shape_check_name(name, &err) < 0 || check_quota(cell, NULL, &err) < 0) {
        csn_control_fail(req, &err);
        return;
    }
    csn_cell *fork = make_fork(cell, *name ? name : NULL, &err);
    if (!fork) {
        csn_control_fail(req, &err);
        return;
    }
    csn_wait *wait = csn_wait_new(req);
    if (!wait) {
        csn_cell_leave(fork);
        csn_cell_free(fork);
        return;
    }
    csn_cell_fork(cell, fork, on_forked, wait);
}

/* ---- snapshot ---- */

typedef struct saving {
    csn_wait *wait;
    csn_server *server;
    csn_snapshot_row row;
} saving;

static void saving_free(saving *s)
{
    csn_snapshot_row_done(&s->row);
    free(s);
}

/* The row: last, and only if there is room for it. */
static void end_saving(saving *s, int result, const csn_error *err)
{
    csn_cell *cell = csn_boxes_find(s->server->boxes, s->row.org_id, s->row.source_id);
    csn_error own = { 0 };

    if (result == CSN_OK) {
        s->row.size_bytes = csn_snap_size(s->server, s->row.image);
        result = csn_quota_snapshots(s->server, s->row.org_id, s->row.size_bytes, &own);
        err = &own;
    }
    if (result == CSN_OK)
        result = csn_store_snapshot_insert(s->server->store, &s->row, &own);
    if (result == CSN_E_EXISTS)
        (void) csn_fail(&own, result, "Snapshot with name %.128s already exists", s->row.name);
    if (result < 0)
        csn_snap_drop_image(s->server, s->row.image);
    csn_control_done(cell, result, err, s->wait);
    saving_free(s);
}

static void on_looked(int result, const csn_error *err, void *user)
{
    end_saving(user, result, err);
}

/* How large it became the engine knows. */
static void on_saved(csn_cell *cell, int result, const csn_error *err, void *user)
{
    saving *s = user;

    (void) cell;
    if (result == CSN_OK)
        csn_boxes_look_at_images(s->server->boxes, on_looked, s);
    else
        end_saving(s, result, err);
}

static int fill_saving(saving *s, const csn_cell *cell, const char *name)
{
    csn_snapshot_row *row = &s->row;

    row->name = strdup(name);
    if (!row->name || csn_id_uuid(row->id) < 0)
        return -ENOMEM;
    memcpy(row->org_id, cell->row.org_id, sizeof(row->org_id));
    memcpy(row->source_id, cell->row.id, sizeof(row->source_id));
    (void) snprintf(row->image, sizeof(row->image), "snap-%s", row->id);
    (void) snprintf(row->state, sizeof(row->state), "active");
    row->cpu_milli = cell->row.cpu_milli;
    row->memory_bytes = cell->row.memory_bytes;
    row->disk_bytes = cell->row.disk_bytes;
    row->created_ms = row->updated_ms = csn_steady_ms();
    return 0;
}

static bool is_name_taken(csn_server *server, const csn_cell *cell, const char *name)
{
    csn_snapshot_row row = { 0 };
    csn_snap snap;
    bool is_taken =
        csn_store_snapshot_get(server->store, cell->row.org_id, name, &row, NULL) == CSN_OK;

    csn_snapshot_row_done(&row);
    return is_taken || csn_snap_general_find(server, name, &snap);
}

static void save_cell(csn_req *req, csn_cell *cell, const char *name)
{
    saving *s = calloc(1, sizeof(*s));

    if (!s || fill_saving(s, cell, name) < 0) {
        if (s)
            saving_free(s);
        csn_req_error(req, 503, NULL, "The server is out of memory");
        return;
    }
    s->server = csn_req_server(req);
    s->wait = csn_wait_new(req);
    if (!s->wait)
        saving_free(s);
    else
        csn_cell_snapshot(cell, s->row.image, on_saved, s);
}

static void snapshot(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    const csn_json *body = cell ? csn_req_json_body(req) : NULL;
    csn_error err = { 0 };

    if (!body || is_changing(req, cell) || csn_disk_refuses(req))
        return;
    const char *name = csn_json_get_str(body, "name", "");
    if (csn_shape_check_snapshot_name(name, &err) < 0)
        csn_control_fail(req, &err);
    else if (csn_json_get_bool(body, "includeMemory", false))
        csn_req_error(req, 422, NULL, "This server can't keep memory in a snapshot, only files");
    else if (cell->state == CSN_CELL_ERROR)
        csn_req_error(req, 400, NULL, "Sandbox is in an error state");
    else if (is_name_taken(csn_req_server(req), cell, name))
        csn_req_error(req, 409, NULL, "Snapshot with name %s already exists", name);
    else if (csn_quota_snapshots(csn_req_server(req), cell->row.org_id, 0, &err) < 0)
        csn_control_fail(req, &err);
    else
        save_cell(req, cell, name);
}

#define ROUTE(path, fn) \
    { \
        CSN_PLANE_API, CSN_POST, "/sandbox/{}/" path, CSN_SCOPE_KEY, CSN_BODY_WHOLE, 1 << 20, \
            CHANGES, fn \
    }

static const csn_route routes[] = {
    ROUTE("start", start),     ROUTE("stop", stop),         ROUTE("recover", recover),
    ROUTE("archive", archive), ROUTE("pause", pause_cell),  ROUTE("resize", resize),
    ROUTE("fork", fork_cell),  ROUTE("snapshot", snapshot),
};
const csn_route_table csn_routes_lifecycle = CSN_ROUTE_TABLE(routes);
