/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots (WIRE 11.1, 11.2): an organisation's own, and the general ones of the engine's images. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "base/time.h"
#include "server/control.h"
#include "server/snaplist.h"
#include "server/snaps.h"

static void answer_row(csn_req *req, const csn_snapshot_row *row)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_shape_snapshot s;

    csn_snap_row_shape(csn_req_server(req), row, &s);
    csn_shape_snapshot_write(&s, &w);
    csn_control_json(req, 200, &out);
}

static void answer_general(csn_req *req, const csn_snap *snap)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_shape_snapshot s;

    csn_snap_shape(csn_req_server(req), snap, &s);
    csn_shape_snapshot_write(&s, &w);
    csn_control_json(req, 200, &out);
}

static int find_row(csn_req *req, csn_snapshot_row *row, csn_error *err)
{
    return csn_store_snapshot_get(csn_req_server(req)->store, csn_req_caller(req)->org_id,
                                  csn_req_param(req, 0), row, err);
}

/* ---- look ---- */

/* Then with the engine's newest images; what was missing may be there now. */
static void get_after_look(int result, const csn_error *err, void *user)
{
    csn_req *req = csn_wait_end(user);
    csn_snap snap;

    (void) result;
    (void) err;
    if (!req)
        return;
    if (csn_snap_general_find(csn_req_server(req), csn_req_param(req, 0), &snap))
        answer_general(req, &snap);
    else
        csn_req_error(req, 404, NULL, "Snapshot with ID or name %.128s not found",
                      csn_req_param(req, 0));
}

static void get(csn_req *req)
{
    csn_snapshot_row row = { 0 };
    csn_error err = { 0 };
    csn_snap snap;
    int r = find_row(req, &row, &err);

    if (r == CSN_OK) {
        answer_row(req, &row);
    } else if (r != CSN_E_NOT_FOUND) {
        csn_control_fail(req, &err);
    } else if (csn_snap_general_find(csn_req_server(req), csn_req_param(req, 0), &snap)) {
        answer_general(req, &snap);
    } else {
        csn_wait *wait = csn_wait_new(req);
        if (wait)
            csn_boxes_look_at_images(csn_req_server(req)->boxes, get_after_look, wait);
    }
    csn_snapshot_row_done(&row);
}

typedef struct page {
    csn_server *server;
    csn_snaplist list;
    const char *name, *source; /* filters, or NULL */
} page;

static void add(page *p, const csn_shape_snapshot *s)
{
    if ((!p->name || strstr(s->name, p->name)) && (!p->source || csn_streq(p->source, s->source_id)))
        csn_snaplist_add(&p->list, s);
}

static void add_row(const csn_snapshot_row *row, void *user)
{
    page *p = user;
    csn_shape_snapshot s;

    csn_snap_row_shape(p->server, row, &s);
    add(p, &s);
}

static bool read_number(csn_req *req, const char *key, int64_t def, int64_t max, int64_t *ret)
{
    const char *text = csn_req_query(req, key);

    *ret = def;
    if (!text || !*text)
        return true;
    if (csn_parse_i64(csn_str_of(text), ret) == 0 && *ret >= 1 && *ret <= max)
        return true;
    csn_req_error(req, 400, NULL, "%s must be a number from 1 to %lld", key, (long long) max);
    return false;
}

/* All that the filters let through: an organisation's quota bounds its own, the disk the general ones. */
static int collect(csn_req *req, page *p, csn_error *err)
{
    csn_shape_snapshot s;
    csn_snap snap;
    int r = csn_store_snapshot_each(p->server->store, csn_req_caller(req)->org_id, add_row, p, err);

    for (size_t i = 0; r == CSN_OK && csn_snap_general(p->server, i, &snap); i++) {
        csn_snap_shape(p->server, &snap, &s);
        add(p, &s);
    }
    if (r == CSN_OK && p->list.error < 0)
        return csn_fail_sys(err, p->list.error, "list snapshots");
    return r;
}

static void answer_page(csn_req *req, const csn_snaplist *list, int64_t number, int64_t limit)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    int64_t n = (int64_t) list->n;

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "items");
    csn_jw_begin_array(&w);
    csn_snaplist_write(list, (size_t) ((number - 1) * limit), (size_t) limit, &w);
    csn_jw_end_array(&w);
    csn_jw_kint(&w, "total", n);
    csn_jw_kint(&w, "page", number);
    csn_jw_kint(&w, "totalPages", (n + limit - 1) / limit);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

static void list_page(csn_req *req, int64_t number, int64_t limit)
{
    page p = { .server = csn_req_server(req) };
    csn_error err = { 0 };
    csn_snap_order by;
    bool is_down;

    if (!csn_snap_order_read(csn_req_query(req, "sort"), csn_req_query(req, "order"), &by, &is_down)) {
        csn_req_error(req, 400, NULL,
                      "sort must be one of name, state, lastUsedAt, createdAt; order asc or desc");
        return;
    }
    p.name = csn_req_query(req, "name");
    p.source = csn_req_query(req, "sourceSandboxId");
    if (collect(req, &p, &err) == CSN_OK) {
        csn_snaplist_sort(&p.list, by, is_down);
        answer_page(req, &p.list, number, limit);
    } else {
        csn_control_fail(req, &err);
    }
    csn_snaplist_done(&p.list);
}

static void list_after_look(int result, const csn_error *err, void *user)
{
    csn_req *req = csn_wait_end(user);
    int64_t number, limit;

    (void) result; /* then the list is as old as the last look */
    (void) err;
    if (req && read_number(req, "page", 1, INT32_MAX, &number) &&
        read_number(req, "limit", 100, 200, &limit))
        list_page(req, number, limit);
}

static void list(csn_req *req)
{
    csn_wait *wait = csn_wait_new(req);

    if (wait)
        csn_boxes_look_at_images(csn_req_server(req)->boxes, list_after_look, wait);
}

/* ---- create: a name for an image that is there ---- */

static int find_image(csn_req *req, const csn_shape_snapshot_create *c, csn_snapshot_row *row,
                      csn_error *err)
{
    csn_server *server = csn_req_server(req);
    csn_auto(map) csn_map env = { 0 };
    char *ref = c->image_ref ? strdup(c->image_ref) : NULL;
    int r = CSN_OK;

    if (c->dockerfile)
        r = csn_shape_dockerfile_read(c->dockerfile, &ref, &env, err);
    else if (!ref)
        r = csn_fail(err, CSN_E_NO_MEMORY, "create a snapshot");
    if (r == CSN_OK)
        r = csn_snap_image(server, csn_req_caller(req)->org_id, ref, row->image, &env, err);
    row->image_ref = ref;
    if (r == CSN_OK && env.n > 0) {
        row->env = csn_map_text(&env);
        if (!row->env)
            r = csn_fail(err, CSN_E_NO_MEMORY, "create a snapshot");
    }
    return r;
}

static int fill(csn_req *req, const csn_shape_snapshot_create *c, csn_snapshot_row *row,
                csn_error *err)
{
    csn_auto(buf) csn_buf entrypoint = CSN_BUF_INIT;
    int r = find_image(req, c, row, err);

    if (r < 0)
        return r;
    if (c->entrypoint && csn_json_dump(c->entrypoint, false, &entrypoint) == 0)
        row->entrypoint = csn_buf_take(&entrypoint, NULL);
    row->name = strdup(c->name);
    if (!row->name || csn_id_uuid(row->id) < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "create a snapshot");
    memcpy(row->org_id, csn_req_caller(req)->org_id, sizeof(row->org_id));
    (void) snprintf(row->state, sizeof(row->state), "active");
    row->cpu_milli = c->cpu_milli ? c->cpu_milli : CSN_DEFAULT_CPU;
    row->memory_bytes = c->memory_bytes ? c->memory_bytes : CSN_DEFAULT_MEMORY;
    row->disk_bytes = c->disk_bytes ? c->disk_bytes : CSN_DEFAULT_DISK;
    row->created_ms = row->updated_ms = csn_wall_ms();
    row->size_bytes = csn_snap_size(csn_req_server(req), row->image);
    return CSN_OK;
}

static void create_after_look(int result, const csn_error *look_err, void *user)
{
    csn_req *req = csn_wait_end(user);
    csn_shape_snapshot_create c;
    csn_snapshot_row row = { 0 };
    csn_error err = { 0 };
    csn_snap general;

    (void) result;
    (void) look_err;
    const csn_json *body = req ? csn_req_json_body(req) : NULL;
    if (!body)
        return;
    int r = csn_shape_snapshot_read(body, &c, &err);
    if (r == CSN_OK && csn_snap_general_find(csn_req_server(req), c.name, &general))
        r = csn_fail(&err, CSN_E_EXISTS, "Snapshot with name %.128s already exists", c.name);
    if (r == CSN_OK)
        r = fill(req, &c, &row, &err);
    if (r == CSN_OK)
        r = csn_quota_snapshots(csn_req_server(req), row.org_id, row.size_bytes, &err);
    if (r == CSN_OK)
        r = csn_store_snapshot_insert(csn_req_server(req)->store, &row, &err);
    if (r == CSN_E_EXISTS)
        csn_req_error(req, 409, NULL, "Snapshot with name %s already exists", c.name);
    else if (r == CSN_E_NOT_FOUND)
        csn_control_fail_as(req, 400, &err);
    else if (r < 0)
        csn_control_fail(req, &err);
    else
        answer_row(req, &row);
    csn_snapshot_row_done(&row);
}

static void create(csn_req *req)
{
    csn_wait *wait = csn_req_json_body(req) ? csn_wait_new(req) : NULL;

    if (wait)
        csn_boxes_look_at_images(csn_req_server(req)->boxes, create_after_look, wait);
}

/* ---- change ---- */

/* A row to change, or an answer: 403 for general ones, 404. */
static bool own_row(csn_req *req, csn_snapshot_row *row)
{
    csn_error err = { 0 };
    csn_snap snap;
    int r = find_row(req, row, &err);

    if (r == CSN_OK)
        return true;
    if (r == CSN_E_NOT_FOUND &&
        csn_snap_general_find(csn_req_server(req), csn_req_param(req, 0), &snap))
        csn_req_error(req, 403, NULL, "General snapshots belong to the server");
    else
        csn_control_fail(req, &err);
    return false;
}

static void remove_one(csn_req *req)
{
    csn_server *server = csn_req_server(req);
    csn_snapshot_row row = { 0 };
    csn_error err = { 0 };

    if (own_row(req, &row)) {
        if (csn_store_snapshot_remove(server->store, row.id, &err) < 0) {
            csn_control_fail(req, &err);
        } else {
            csn_snap_drop_image(server, row.image);
            csn_req_empty(req, 200);
        }
    }
    csn_snapshot_row_done(&row);
}

static int set_state(csn_req *req, csn_snapshot_row *row, const char *state)
{
    csn_error err = { 0 };

    (void) snprintf(row->state, sizeof(row->state), "%s", state);
    row->updated_ms = csn_wall_ms();
    int r = csn_store_snapshot_update(csn_req_server(req)->store, row, &err);
    if (r < 0)
        csn_control_fail(req, &err);
    return r;
}

static void activate(csn_req *req)
{
    csn_snapshot_row row = { 0 };

    if (own_row(req, &row)) {
        if (csn_streq(row.state, "active"))
            csn_req_error(req, 400, NULL, "Snapshot %s is already active", row.name);
        else if (set_state(req, &row, "active") == CSN_OK)
            answer_row(req, &row);
    }
    csn_snapshot_row_done(&row);
}

static void deactivate(csn_req *req)
{
    csn_snapshot_row row = { 0 };

    if (own_row(req, &row) && set_state(req, &row, "inactive") == CSN_OK)
        csn_req_empty(req, 204);
    csn_snapshot_row_done(&row);
}

/* ---- build logs: nothing is built here ---- */

static bool is_there(csn_req *req)
{
    csn_snapshot_row row = { 0 };
    csn_snap snap;
    csn_error err = { 0 };
    bool is = find_row(req, &row, &err) == CSN_OK ||
              csn_snap_general_find(csn_req_server(req), csn_req_param(req, 0), &snap);

    csn_snapshot_row_done(&row);
    if (!is)
        csn_req_error(req, 404, NULL, "Snapshot not found");
    return is;
}

static void build_logs_url(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_snapshot_row row = { 0 };
    csn_error err = { 0 };

    if (!is_there(req))
        return;
    const char *id = csn_req_param(req, 0);
    if (find_row(req, &row, &err) == CSN_OK)
        id = row.id;
    csn_buf_printf(&url, "%s/api/snapshots/%s/build-logs", csn_req_origin(req),
                   csn_is_uuid(id) ? id : "-");
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "url", url.data);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
    csn_snapshot_row_done(&row);
}

static void build_logs(csn_req *req)
{
    if (is_there(req))
        csn_req_text(req, 200, "text/plain; charset=utf-8", "", 0);
}

enum { CHANGES = CSN_ROUTE_AUDIT | CSN_ROUTE_TENANT };

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_GET, "/snapshots", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, list },
    { CSN_PLANE_API, CSN_POST, "/snapshots", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 1 << 20,
      CSN_ROUTE_AUDIT, create },
    { CSN_PLANE_API, CSN_GET, "/snapshots/{}", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, CSN_ROUTE_TENANT,
      get },
    { CSN_PLANE_API, CSN_DELETE, "/snapshots/{}", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 0, CHANGES,
      remove_one },
    { CSN_PLANE_API, CSN_POST, "/snapshots/{}/activate", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 0, CHANGES,
      activate },
    { CSN_PLANE_API, CSN_POST, "/snapshots/{}/deactivate", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 0,
      CHANGES, deactivate },
    { CSN_PLANE_API, CSN_GET, "/snapshots/{}/build-logs-url", CSN_SCOPE_KEY, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, build_logs_url },
    { CSN_PLANE_API, CSN_GET, "/snapshots/{}/build-logs", CSN_SCOPE_KEY, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, build_logs },
};
const csn_route_table csn_routes_snapshots = CSN_ROUTE_TABLE(routes);
