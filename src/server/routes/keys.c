/* SPDX-License-Identifier: Apache-2.0 */
/* /api-keys: made, listed, revoked. The text of a key is in the answer that makes it, and nowhere after. */
#include "store/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "server/control.h"
#include "server/key.h"
#include "server/revoke.h"
#include "shape/create.h"

/* Words that every client knows: some refuse others. */
static void write_permissions(csn_jw *w)
{
    static const char *const all[] = { "write:sandboxes", "delete:sandboxes", "write:volumes",
                                       "delete:volumes",  "write:snapshots",  "delete:snapshots" };

    csn_jw_key(w, "permissions");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < CSN_COUNT(all); i++)
        csn_jw_str(w, all[i]);
    csn_jw_end_array(w);
}

/* value: the key itself, or NULL for its hint. */
static void write_row(const csn_key_row *row, const char *value, csn_jw *w)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "name", row->name);
    csn_jw_kstr(w, "value", value ? value : row->hint);
    csn_shape_time(w, "createdAt", row->created_ms);
    write_permissions(w);
    csn_shape_time(w, "lastUsedAt", row->used_ms);
    csn_shape_time(w, "expiresAt", row->expires_ms);
    csn_jw_kstr(w, "userId", row->id);
    csn_jw_end_object(w);
}

static void list_row(const csn_key_row *row, void *user)
{
    write_row(row, NULL, user);
}

static void list(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_error err = { 0 };

    csn_jw_begin_array(&w);
    int r = csn_store_key_each(csn_req_server(req)->store, csn_req_caller(req)->org_id, list_row,
                               &w, &err);
    csn_jw_end_array(&w);
    if (r < 0)
        csn_control_fail(req, &err);
    else
        csn_control_json(req, 200, &out);
}

typedef struct search {
    const char *id, *name; /* one of them */
    csn_jw *w;
    bool is_found;
} search;

static void find_row(const csn_key_row *row, void *user)
{
    search *s = user;

    if (s->is_found || (s->id && !csn_streq(s->id, row->id)) ||
        (s->name && !csn_streq(s->name, row->name)))
        return;
    s->is_found = true;
    write_row(row, NULL, s->w);
}

static void answer_one(csn_req *req, search *s)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_error err = { 0 };

    s->w = &w;
    if (csn_store_key_each(csn_req_server(req)->store, csn_req_caller(req)->org_id, find_row, s,
                           &err) < 0)
        csn_control_fail(req, &err);
    else if (!s->is_found)
        csn_req_error(req, 404, NULL, "API key not found");
    else
        csn_control_json(req, 200, &out);
}

static void current(csn_req *req)
{
    search s = { .id = csn_req_caller(req)->key_id };

    answer_one(req, &s);
}

static void get(csn_req *req)
{
    search s = { .name = csn_req_param(req, 0) };

    answer_one(req, &s);
}

/* {name, expiresAt?}; permissions are taken as given: a key may do what this server has. */
static int read_wish(const csn_json *body, csn_key_row *row, csn_error *err)
{
    const char *name = csn_json_get_str(body, "name", "");
    const char *expires = csn_json_get_str(body, "expiresAt", NULL);

    if (!*name)
        return csn_fail(err, CSN_E_INVALID, "name is missing");
    int r = csn_shape_check_name(name, err);
    if (r < 0)
        return r;
    (void) snprintf(row->name, sizeof(row->name), "%s", name);
    if (expires && csn_parse_iso8601(expires, &row->expires_ms) < 0)
        return csn_fail(err, CSN_E_INVALID, "expiresAt must be an ISO 8601 time");
    if (expires && row->expires_ms <= csn_wall_ms())
        return csn_fail(err, CSN_E_INVALID, "expiresAt is in the past");
    return CSN_OK;
}

static void create(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    const csn_json *body = csn_req_json_body(req);
    char text[CSN_KEY_SIZE];
    csn_key_row row = { 0 };
    csn_error err = { 0 };

    if (!body)
        return;
    int r = read_wish(body, &row, &err);
    if (r == CSN_OK && csn_key_mint(text, &row) < 0)
        r = csn_fail(&err, CSN_E_SYSTEM, "make a key");
    memcpy(row.org_id, csn_req_caller(req)->org_id, sizeof(row.org_id));
    if (r == CSN_OK)
        r = csn_store_key_insert(csn_req_server(req)->store, &row, &err);
    if (r == CSN_E_EXISTS)
        csn_req_error(req, 409, NULL, "API key with name %s already exists", row.name);
    else if (r < 0)
        csn_control_fail(req, &err);
    else {
        write_row(&row, text, &w);
        csn_control_json(req, 201, &out);
    }
    explicit_bzero(text, sizeof(text));
}

static void remove_one(csn_req *req)
{
    csn_error err = { 0 };

    csn_revoke_soon(csn_req_server(req)); /* after our answer: it may be the key that asks */
    if (csn_store_key_remove(csn_req_server(req)->store, csn_req_caller(req)->org_id,
                             csn_req_param(req, 0), &err) < 0)
        csn_control_fail(req, &err);
    else
        csn_req_empty(req, 204);
}

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_GET, "/api-keys", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, list },
    { CSN_PLANE_API, CSN_GET, "/api-keys/current", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, current },
    { CSN_PLANE_API, CSN_GET, "/api-keys/{}", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, CSN_ROUTE_TENANT,
      get },
    { CSN_PLANE_API, CSN_POST, "/api-keys", CSN_SCOPE_ADMIN, CSN_BODY_WHOLE, 1 << 20,
      CSN_ROUTE_AUDIT, create },
    { CSN_PLANE_API, CSN_DELETE, "/api-keys/{}", CSN_SCOPE_ADMIN, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_AUDIT | CSN_ROUTE_TENANT, remove_one },
};
const csn_route_table csn_routes_keys = CSN_ROUTE_TABLE(routes);
