/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes (WIRE 12): a directory of the engine, known there by its id. */
#include "store/volumes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"
#include "base/time.h"
#include "server/bury.h"
#include "server/control.h"
#include "server/disk.h"
#include "shape/volume.h"

static void write_row(const csn_volume_row *row, csn_jw *w)
{
    csn_shape_volume v = { .id = row->id,
                           .name = row->name,
                           .org_id = row->org_id,
                           .state = row->state,
                           .created_ms = row->created_ms,
                           .updated_ms = row->updated_ms,
                           .used_ms = row->used_ms };

    csn_shape_volume_write(&v, w);
}

static void answer(csn_req *req, const csn_volume_row *row)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    write_row(row, &w);
    csn_control_json(req, 200, &out);
}

/* ---- create ---- */

typedef struct making {
    csn_wait *wait;
    csn_server *server;
    csn_volume_row row;
} making;

static void on_made(int result, const csn_error *err, void *user)
{
    making *m = user;
    csn_req *req = csn_wait_end(m->wait);

    if (result < 0)
        (void) csn_store_volume_remove(m->server->store, m->row.id,
                                       NULL); /* or the next start does */
    if (req && result < 0)
        csn_control_fail(req, err);
    else if (req)
        answer(req, &m->row);
    csn_volume_row_done(&m->row);
    free(m);
}

static int fill(making *m, const csn_req *req, const char *name)
{
    csn_volume_row *row = &m->row;

    if (csn_id_uuid(row->id) < 0)
        return -1;
    row->name = strdup(name ? name : row->id);
    memcpy(row->org_id, csn_req_caller(req)->org_id, sizeof(row->org_id));
    (void) snprintf(row->state, sizeof(row->state), "ready");
    row->created_ms = row->updated_ms = csn_wall_ms();
    return row->name ? 0 : -1;
}

/* The row first: a volume without one would be a leak, a row without its volume is made whole at the next start. */
static void make(csn_req *req, making *m)
{
    csn_error err = { 0 };
    int r = csn_store_volume_insert(m->server->store, &m->row, &err);

    if (r == CSN_E_EXISTS)
        csn_req_error(req, 400, NULL, "Volume with name %s already exists", m->row.name);
    else if (r < 0)
        csn_control_fail(req, &err);
    m->wait = r == CSN_OK ? csn_wait_new(req) : NULL;
    if (!m->wait) {
        if (r == CSN_OK)
            (void) csn_store_volume_remove(m->server->store, m->row.id, NULL); /* never told */
        csn_volume_row_done(&m->row);
        free(m);
        return;
    }
    r = csn_warden_volume_create(m->server->warden, m->row.id, on_made, m);
    if (r < 0) {
        r = csn_warden_cannot(r, &err);
        on_made(r, &err, m);
    }
}

static void create(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *name;
    csn_error err = { 0 };

    if (!body || csn_disk_refuses(req))
        return;
    if (csn_shape_volume_read(body, &name, &err) < 0 ||
        csn_quota_volumes(csn_req_server(req), csn_req_caller(req)->org_id, 1, &err) < 0) {
        csn_control_fail(req, &err);
        return;
    }
    making *m = calloc(1, sizeof(*m));
    if (!m || fill(m, req, name) < 0) {
        free(m);
        csn_req_error(req, 503, NULL, "The server is out of memory");
        return;
    }
    m->server = csn_req_server(req);
    make(req, m);
}

/* ---- look ---- */

static void list_row(const csn_volume_row *row, void *user)
{
    if (row->name)
        write_row(row, user);
}

static void list(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_error err = { 0 };

    csn_jw_begin_array(&w);
    int r = csn_store_volume_each(csn_req_server(req)->store, csn_req_caller(req)->org_id, list_row,
                                  &w, &err);
    csn_jw_end_array(&w);
    if (r < 0)
        csn_control_fail(req, &err);
    else
        csn_control_json(req, 200, &out);
}

static void get_with(csn_req *req, int (*find)(csn_store *, const char *, const char *,
                                               csn_volume_row *, csn_error *))
{
    csn_volume_row row = { 0 };
    csn_error err = { 0 };
    int r = find(csn_req_server(req)->store, csn_req_caller(req)->org_id, csn_req_param(req, 0),
                 &row, &err);

    if (r < 0)
        csn_control_fail(req, &err);
    else
        answer(req, &row);
    csn_volume_row_done(&row);
}

static void get(csn_req *req)
{
    get_with(req, csn_store_volume_get);
}

static void get_by_name(csn_req *req)
{
    get_with(req, csn_store_volume_by_name);
}

/* ---- delete ---- */

static bool is_in_use(csn_boxes *boxes, const char *id)
{
    csn_list_foreach (node, &boxes->cells) {
        const csn_cell *cell = csn_list_entry(node, csn_cell, link);
        for (size_t i = 0; i < cell->n_mounts; i++)
            if (csn_streq(cell->mounts[i].volume, id))
                return true;
    }
    return false;
}

/* Its name is free and its row says so when the answer goes out; the files follow. */
static int delete_row(csn_req *req, csn_volume_row *row, csn_error *err)
{
    csn_server *server = csn_req_server(req);

    free(row->name);
    row->name = NULL;
    (void) snprintf(row->state, sizeof(row->state), "deleting");
    row->updated_ms = csn_wall_ms();
    int r = csn_store_volume_update(server->store, row, err);
    if (r == CSN_OK)
        csn_bury(server, CSN_BURY_VOLUME, row->id);
    return r;
}

static void remove_one(csn_req *req)
{
    csn_server *server = csn_req_server(req);
    csn_volume_row row = { 0 };
    csn_error err = { 0 };
    int r = csn_store_volume_get(server->store, csn_req_caller(req)->org_id, csn_req_param(req, 0),
                                 &row, &err);

    if (r < 0)
        csn_control_fail(req, &err);
    else if (is_in_use(server->boxes, row.id))
        csn_req_error(req, 409, NULL, "Volume is in use by a sandbox");
    else if (delete_row(req, &row, &err) < 0)
        csn_control_fail(req, &err);
    else
        csn_req_empty(req, 200);
    csn_volume_row_done(&row);
}

enum { CHANGES = CSN_ROUTE_AUDIT | CSN_ROUTE_TENANT };

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_GET, "/volumes", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, list },
    { CSN_PLANE_API, CSN_POST, "/volumes", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 1 << 20, CSN_ROUTE_AUDIT,
      create },
    { CSN_PLANE_API, CSN_GET, "/volumes/{}", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, CSN_ROUTE_TENANT,
      get },
    { CSN_PLANE_API, CSN_GET, "/volumes/by-name/{}", CSN_SCOPE_KEY, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get_by_name },
    { CSN_PLANE_API, CSN_DELETE, "/volumes/{}", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 0, CHANGES,
      remove_one },
};
const csn_route_table csn_routes_volumes = CSN_ROUTE_TABLE(routes);
