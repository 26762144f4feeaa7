/* SPDX-License-Identifier: Apache-2.0 */
/* POST, GET and DELETE of sandboxes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/bury.h"
#include "server/control.h"
#include "server/disk.h"
#include "server/fds.h"
#include "server/snaps.h"
#include "store/volumes.h"

enum { AUTO_STOP_MIN = 15, AUTO_ARCHIVE_MIN = 10080, AUTO_ARCHIVE_MAX = 43200 };

/* A create on its way. */
typedef struct making {
    csn_req *req; /* NULL: the client left */
    csn_server *server;
    char org_id[37];
    csn_shape_create wish;
    bool has_looked; /* at the engine's images, for one that was missing */
} making;

static void making_free(making *m)
{
    csn_shape_create_done(&m->wish);
    free(m);
}

static void on_gone(csn_req *req, void *user)
{
    making *m = user;

    (void) req;
    m->req = NULL;
}

static void fail(making *m, int status, const csn_error *err)
{
    csn_req *req = m->req;

    making_free(m);
    if (!req)
        return;
    if (status)
        csn_control_fail_as(req, status, err);
    else
        csn_control_fail(req, err);
}

/* ---- from a wish to a row ---- */

static int resolve_volume(const making *m, csn_shape_mount *mount, csn_error *err)
{
    csn_volume_row row = { 0 };
    int r = csn_store_volume_get(m->server->store, m->org_id, mount->volume, &row, err);

    if (r == CSN_OK && !csn_streq(row.state, "ready"))
        r = csn_fail(err, CSN_E_INVALID, "Volume %.64s is not ready", mount->volume);
    if (r == CSN_OK)
        (void) snprintf(mount->volume, sizeof(mount->volume), "%s", row.id);
    csn_volume_row_done(&row);
    return r == CSN_E_NOT_FOUND ? csn_fail_in(err, CSN_E_INVALID, "volumes") : r;
}

static int resolve_volumes(making *m, csn_error *err)
{
    int r = CSN_OK;

    for (size_t i = 0; i < m->wish.n_mounts && r == CSN_OK; i++)
        r = resolve_volume(m, &m->wish.mounts[i], err);
    if (r == CSN_OK && m->wish.n_mounts > 0)
        r = csn_quota_volumes(m->server, m->org_id, 0, err);
    return r;
}

/* The image and the size it comes with. */
static int resolve_source(making *m, csn_snap *snap, csn_error *err)
{
    csn_shape_create *wish = &m->wish;
    char *ref = NULL;

    if (!wish->dockerfile)
        return csn_snap_find(m->server, m->org_id, wish->snapshot, snap, &wish->env, err);
    *snap = (csn_snap){ .cpu_milli = CSN_DEFAULT_CPU,
                        .memory_bytes = CSN_DEFAULT_MEMORY,
                        .disk_bytes = CSN_DEFAULT_DISK };
    int r = csn_shape_dockerfile_read(wish->dockerfile, &ref, &wish->env, err);
    if (r < 0)
        return r;
    r = csn_snap_image(m->server, m->org_id, ref, snap->image, &wish->env, err);
    free(ref);
    if (wish->cpu_milli)
        snap->cpu_milli = wish->cpu_milli;
    if (wish->memory_bytes)
        snap->memory_bytes = wish->memory_bytes;
    if (wish->disk_bytes)
        snap->disk_bytes = wish->disk_bytes;
    return r;
}

static void fill_times(csn_sandbox_row *row, const csn_shape_create *wish)
{
    row->created_ms = row->updated_ms = row->active_ms = csn_steady_ms();
    row->auto_stop_min = wish->has_auto_stop ? wish->auto_stop_min : AUTO_STOP_MIN;
    row->auto_archive_min = wish->has_auto_archive ? wish->auto_archive_min : AUTO_ARCHIVE_MIN;
    if (row->auto_archive_min == 0 || row->auto_archive_min > AUTO_ARCHIVE_MAX)
        row->auto_archive_min = AUTO_ARCHIVE_MAX;
    row->auto_delete_min =
        wish->has_auto_delete && wish->auto_delete_min >= 0 ? wish->auto_delete_min : -1;
    if (wish->ttl_min)
        row->destroy_at_ms = row->created_ms + wish->ttl_min * 60000;
}

static char *moved(char **text)
{
    char *taken = *text;

    *text = NULL;
    return taken;
}

static int fill_row(making *m, const csn_snap *snap, csn_sandbox_row *row, csn_error *err)
{
    csn_shape_create *wish = &m->wish;

    memcpy(row->org_id, m->org_id, sizeof(row->org_id));
    (void) snprintf(row->state, sizeof(row->state), "creating");
    if (csn_id_uuid(row->id) < 0)
        return csn_fail(err, CSN_E_SYSTEM, "no random bytes");
    row->snapshot = wish->dockerfile ? NULL : strdup(snap->name);
    row->image = strdup(snap->image);
    row->user = wish->user ? moved(&wish->user) : strdup("daytona");
    row->target = wish->target ? moved(&wish->target) : strdup(m->server->config.region);
    row->env = csn_map_text(&wish->env);
    row->labels = csn_map_text(&wish->labels);
    row->mounts = csn_shape_mounts_text(wish->mounts, wish->n_mounts);
    row->cpu_milli = snap->cpu_milli;
    row->memory_bytes = snap->memory_bytes;
    row->disk_bytes = snap->disk_bytes;
    row->is_public = wish->is_public;
    row->is_blocked = wish->is_blocked;
    row->dockerfile = moved(&wish->dockerfile);
    row->allow_list = moved(&wish->allow_list);
    row->domain_list = moved(&wish->domain_list);
    fill_times(row, wish);
    bool is_whole = (row->snapshot || row->dockerfile) && row->image && row->user && row->target &&
                    row->env && row->labels && row->mounts;
    return is_whole ? CSN_OK : csn_fail(err, CSN_E_NO_MEMORY, "create a sandbox");
}

/* Who gets less is told in the answer: by its numbers, and by what was asked for beside them. */
static int fit_machine(making *m, csn_snap *snap, csn_error *err)
{
    csn_auto(buf) csn_buf told = CSN_BUF_INIT;
    csn_size size = { snap->cpu_milli, snap->memory_bytes, snap->disk_bytes };
    int r = csn_machine_fit(m->server, &size, &told, err);

    if (r < 0)
        return r;
    if (told.len > 0 && m->req)
        csn_req_add_header(m->req, CSN_GRANTED_HEADER, told.data);
    snap->cpu_milli = size.cpu_milli;
    snap->memory_bytes = size.memory_bytes;
    snap->disk_bytes = size.disk_bytes;
    return CSN_OK;
}

/* ---- making it ---- */

static void on_created(csn_cell *cell, int result, const csn_error *err, void *user)
{
    making *m = user;
    csn_error own = { 0 };

    if (result < 0) {
        own = *err;
        if (result != CSN_E_NOT_FOUND) /* an image or volume that went, or a delete meanwhile */
            csn_log(CSN_LOG_WARN, "a sandbox can't be created", "error", err->message, NULL);
        fail(m, result == CSN_E_NOT_FOUND ? 400 : 0, &own);
        return;
    }
    csn_req *req = m->req;
    making_free(m);
    if (req)
        csn_control_answer(req, 200, cell);
    else if (csn_cell_delete(cell, &own) < 0) /* nobody knows of it */
        csn_log(CSN_LOG_WARN, "a sandbox nobody waited for stays", "sandbox", cell->row.id, NULL);
}

static csn_cell *make_cell(making *m, const csn_snap *snap, csn_error *err)
{
    csn_boxes *boxes = m->server->boxes;
    csn_sandbox_row row = { 0 };
    csn_box_hold *line = NULL;
    char *given = moved(&m->wish.name), id[37];

    if (fill_row(m, snap, &row, err) < 0) {
        free(given);
        csn_sandbox_row_done(&row);
        return NULL;
    }
    row.name = given;
    bool is_taken = given && csn_boxes_find(boxes, m->org_id, given);
    if (!is_taken)
        (void) csn_warm_take(boxes, &row, &line);
    if (!row.name)
        row.name = strdup(row.id);
    memcpy(id, row.id, sizeof(id));
    csn_cell *cell = row.name && !is_taken ? csn_cell_new(boxes, &row) : NULL;
    if (is_taken)
        (void) csn_fail(err, CSN_E_EXISTS, "Sandbox with name %.128s already exists", row.name);
    else if (!cell)
        (void) csn_fail(err, CSN_E_NO_MEMORY, "create a sandbox");
    csn_sandbox_row_done(&row);
    if (cell) {
        cell->line = line;
        int r = csn_cell_enter(cell);
        if (r == 0)
            return cell;
        (void) csn_fail(err, r == -EEXIST ? CSN_E_EXISTS : CSN_E_NO_MEMORY,
                        "Sandbox with name %.128s already exists", cell->name);
        csn_cell_free(cell);
    } else {
        (void) csn_boxes_release(line);
    }
    if (line) /* a ready one runs already, and now it is nobody's */
        csn_bury(boxes->server, CSN_BURY_SANDBOX, id);
    return NULL;
}

static void make(making *m);

static void on_looked(int result, const csn_error *err, void *user)
{
    (void) result; /* then it is still missing */
    (void) err;
    make(user);
}

static void make(making *m)
{
    csn_error err = { 0 };
    csn_snap snap;
    int r = resolve_source(m, &snap, &err);

    if (r == CSN_E_NOT_FOUND && !m->has_looked) {
        m->has_looked = true;
        csn_boxes_look_at_images(m->server->boxes, on_looked, m);
        return;
    }
    if (r == CSN_OK)
        r = fit_machine(m, &snap, &err);
    if (r == CSN_OK)
        r = resolve_volumes(m, &err);
    if (r == CSN_OK)
        r = csn_quota_check(m->server->boxes, m->org_id, snap.cpu_milli, snap.memory_bytes,
                            snap.disk_bytes, NULL, &err);
    if (r < 0) {
        fail(m, r == CSN_E_NOT_FOUND || r == CSN_E_STATE ? 400 : 0, &err);
        return;
    }
    csn_cell *cell = make_cell(m, &snap, &err);
    if (!cell)
        fail(m, 0, &err);
    else
        csn_cell_create(cell, on_created, m);
}

static void create(csn_req *req)
{
    csn_error err = { 0 };
    const csn_json *body = csn_req_json_body(req);

    if (!body || csn_disk_refuses(req) || csn_fds_refuse(req))
        return;
    making *m = calloc(1, sizeof(*m));
    if (!m) {
        csn_req_error(req, 503, NULL, "The server is out of memory");
        return;
    }
    m->req = req;
    m->server = csn_req_server(req);
    memcpy(m->org_id, csn_req_caller(req)->org_id, sizeof(m->org_id));
    csn_req_keep(req, on_gone, m);
    if (csn_shape_create_read(body, &m->wish, &err) < 0)
        fail(m, 0, &err);
    else
        make(m);
}

/* ---- the others ---- */

static void on_checked(csn_sandbox *sandbox, const char *id, int result, const csn_error *err,
                       void *user)
{
    csn_req *req = csn_wait_end(user);
    const csn_cell *cell = req ? csn_control_cell(req, 0) : NULL;

    (void) sandbox; /* the cell's state tells how it ended */
    (void) id;
    (void) result;
    (void) err;
    if (cell)
        csn_control_answer(req, 200, cell);
}

/* One that ended by itself is found stopped, not started. */
static void get(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);

    if (!cell)
        return;
    if (!csn_cell_is_lost(cell)) {
        csn_control_answer(req, 200, cell);
        return;
    }
    csn_wait *wait = csn_wait_new(req);
    if (wait)
        csn_boxes_open(cell->boxes, cell->row.org_id, cell->row.id, on_checked, wait);
}

/* A delete on its way: its answer is written before, since the cell is nobody's after. */
typedef struct removing {
    csn_wait *wait;
    csn_buf answer;
} removing;

static void on_removed(csn_cell *cell, int result, const csn_error *err, void *user)
{
    removing *r = user;
    csn_req *req = csn_wait_end(r->wait);

    (void) cell;
    if (req && result < 0)
        csn_control_fail(req, err);
    else if (req)
        csn_control_json(req, 200, &r->answer);
    csn_buf_free(&r->answer);
    free(r);
}

/* Forks are whole copies here, so a parent with live forks may go. */
static void remove_one(csn_req *req)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_cell *cell = csn_control_cell(req, 0);
    removing *r = cell ? calloc(1, sizeof(*r)) : NULL;
    csn_shape_sandbox s;

    if (!r) {
        if (cell)
            csn_req_error(req, 503, NULL, "The server is out of memory");
        return;
    }
    r->answer = (csn_buf) CSN_BUF_INIT;
    r->wait = csn_wait_new(req);
    if (!r->wait) {
        free(r);
        return;
    }
    csn_jw w = CSN_JW_INIT(&r->answer, false);
    csn_cell_shape(cell, csn_control_toolbox_url(req, &url), &s);
    s.state = "destroying";
    s.desired_state = "destroyed";
    csn_shape_sandbox_write(&s, false, &w);
    csn_cell_remove(cell, on_removed, r);
}

static void touch(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);

    if (!cell)
        return;
    csn_boxes_touch(cell->boxes, cell->row.id);
    csn_req_empty(req, 201);
}

enum { CHANGES = CSN_ROUTE_AUDIT | CSN_ROUTE_TENANT };

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_POST, "/sandbox", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 1 << 20, CSN_ROUTE_AUDIT,
      create },
    { CSN_PLANE_API, CSN_GET, "/sandbox/{}", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, CSN_ROUTE_TENANT,
      get },
    { CSN_PLANE_API, CSN_DELETE, "/sandbox/{}", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 0, CHANGES,
      remove_one },
    { CSN_PLANE_API, CSN_POST, "/sandbox/{}/last-activity", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, touch },
};
const csn_route_table csn_routes_sandboxes = CSN_ROUTE_TABLE(routes);
