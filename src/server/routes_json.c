/* SPDX-License-Identifier: Apache-2.0 */
#include "server/routes_json.h"

#include "base/fd.h"
#include "base/json.h"
#include "server/route.h"

static const char *const planes[] = {
    [CSN_PLANE_API] = "api", [CSN_PLANE_TOOLBOX] = "toolbox", [CSN_PLANE_ROOT] = "root"
};
static const char *const scopes[] = { [CSN_SCOPE_PUBLIC] = "public",
                                      [CSN_SCOPE_KEY] = "key",
                                      [CSN_SCOPE_ADMIN] = "admin",
                                      [CSN_SCOPE_BOX] = "box" };
static const char *const methods[] = {
    [CSN_GET] = "GET",       [CSN_POST] = "POST", [CSN_PUT] = "PUT",        [CSN_PATCH] = "PATCH",
    [CSN_DELETE] = "DELETE", [CSN_HEAD] = "HEAD", [CSN_OPTIONS] = "OPTIONS"
};
static const char *const bodies[] = {
    [CSN_BODY_NONE] = "none", [CSN_BODY_WHOLE] = "whole", [CSN_BODY_STREAM] = "stream"
};

static void write_route(csn_jw *w, const csn_route *r)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "plane", planes[r->plane]);
    csn_jw_kstr(w, "method", methods[r->method]);
    csn_jw_kstr(w, "pattern", r->pattern);
    csn_jw_kstr(w, "scope", scopes[r->scope]);
    csn_jw_kstr(w, "body", bodies[r->body]);
    csn_jw_kbool(w, "ws", r->flags & CSN_ROUTE_WS);
    csn_jw_kbool(w, "audit", r->flags & CSN_ROUTE_AUDIT);
    csn_jw_kbool(w, "tenant", r->flags & CSN_ROUTE_TENANT);
    csn_jw_end_object(w);
}

int csn_routes_print(void)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);

    csn_jw_begin_array(&w);
    for (const csn_route_table *const *t = csn_route_tables; *t; t++)
        for (size_t i = 0; i < (*t)->n; i++)
            write_route(&w, &(*t)->routes[i]);
    csn_jw_end_array(&w);
    csn_buf_putc(&out, '\n');
    return out.error < 0 ? out.error : csn_write_all(1, out.data, out.len);
}
