/* SPDX-License-Identifier: Apache-2.0 */
/* From a path to a route.
 *
 *   /api/…                                the control plane; at the root too, for those who forgot the prefix
 *   /toolbox/{sandbox}/…                  the toolbox; also /api/toolbox/{sandbox}/toolbox/…, as old clients call it
 *   /process/…                            the toolbox of the sandbox that the preview token names (Ruby's sockets)
 *   /preview/{sandbox}/{port}/…           what listens there, in the sandbox; port 2280 is the toolbox itself
 *   {port}-{sandbox}.…/…                  the same by the name we were called
 *
 * Where two patterns fit, the one with the earlier literal segment wins: "/sandbox/paginated" before "/sandbox/{}". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "server/req_private.h"

typedef struct entry {
    const csn_route *route;
    csn_plane plane; /* and n: what most entries are passed over by */
    uint32_t params; /* a bit per segment, the first one highest: smaller is more literal */
    size_t n;
    csn_str segments[CSN_URL_SEGMENTS_MAX];
} entry;

static struct {
    entry *entries;
    size_t n;
} routes_index; /* made once, never changed: the tables are constant */

static bool is_param(csn_str segment)
{
    return csn_str_is(segment, "{}");
}

static int add(const csn_route *route, entry *e)
{
    csn_url url;

    if (csn_url_parse(csn_str_of(route->pattern), &url) < 0)
        return -EINVAL;
    e->route = route;
    e->plane = route->plane;
    e->n = url.n_segments;
    for (size_t i = 0; i < e->n; i++) {
        e->segments[i] = url.segments[i];
        if (is_param(e->segments[i]))
            e->params |= UINT32_C(1) << (31 - i);
    }
    return __builtin_popcount(e->params) > CSN_PARAMS_MAX ? -EINVAL : 0;
}

int csn_router_open(csn_error *err)
{
    size_t n = 0;

    if (routes_index.entries)
        return CSN_OK;
    for (size_t t = 0; csn_route_tables[t]; t++)
        n += csn_route_tables[t]->n;
    entry *entries = csn_calloc(n ? n : 1, sizeof(*entries));
    if (!entries)
        return csn_fail_sys(err, -ENOMEM, "index the routes");
    n = 0;
    for (size_t t = 0; csn_route_tables[t]; t++) {
        for (size_t i = 0; i < csn_route_tables[t]->n; i++) {
            const csn_route *route = &csn_route_tables[t]->routes[i];
            int r = add(route, &entries[n++]);
            if (r < 0) {
                free(entries);
                return csn_fail_sys(err, r, "index route '%s'", route->pattern);
            }
        }
    }
    routes_index.entries = entries;
    routes_index.n = n;
    return CSN_OK;
}

static bool fits(const entry *e, const csn_str *segments, size_t n)
{
    if (e->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (is_param(e->segments[i]) ? segments[i].len == 0
                                     : !csn_str_eq(e->segments[i], segments[i]))
            return false;
    return true;
}

static bool is_for(const csn_route *route, csn_method method)
{
    return route->method == method || (method == CSN_HEAD && route->method == CSN_GET);
}

typedef struct found {
    const entry *best;
    const csn_str *segments;
    unsigned allowed; /* methods of routes with this path, a bit each */
    csn_str place[3]; /* that the host's name gave */
} found;

static void look(found *f, csn_plane plane, csn_method method, const csn_str *segments, size_t n)
{
    for (size_t i = 0; i < routes_index.n; i++) {
        const entry *e = &routes_index.entries[i];

        if (e->plane != plane || !fits(e, segments, n))
            continue;
        f->allowed |= 1u << e->route->method;
        if (is_for(e->route, method) && (!f->best || e->params < f->best->params)) {
            f->best = e;
            f->segments = segments;
        }
    }
}

static const char *keep_decoded(csn_req *req, csn_str raw)
{
    char *text = req->params_at;
    ssize_t n = csn_url_decode(raw, false, text);

    if (n < 0)
        return NULL;
    req->params_at += n + 1;
    return text;
}

/* 0, or -EBADMSG for a name that can't be decoded. */
static int look_in_toolbox(csn_req *req, found *f, const csn_url *url, size_t at)
{
    req->plane = CSN_PLANE_TOOLBOX;
    if (at < url->n_segments) {
        req->box_name = keep_decoded(req, url->segments[at++]);
        if (!req->box_name)
            return -EBADMSG;
    }
    if (at < url->n_segments && csn_str_is(url->segments[at], "toolbox"))
        at++;
    req->inner_path = at < url->n_segments ? url->segments[at].data - 1 : "/";
    look(f, CSN_PLANE_TOOLBOX, req->method, url->segments + at, url->n_segments - at);
    return 0;
}

/* place: "preview", the sandbox, the port; what is asked for begins with the segment `at`. */
static int look_in_preview(csn_req *req, found *f, const csn_str place[3], const csn_url *url,
                           size_t at)
{
    req->box_name = keep_decoded(req, place[1]);
    if (!req->box_name)
        return -EBADMSG;
    if (csn_str_is(place[2], "2280")) {
        req->plane = CSN_PLANE_TOOLBOX;
        req->inner_path = at < url->n_segments ? url->segments[at].data - 1 : "/";
        look(f, CSN_PLANE_TOOLBOX, req->method, url->segments + at, url->n_segments - at);
        return 0;
    }
    req->preview_path = at > 0 ? place[2].data + place[2].len : req->path;
    look(f, CSN_PLANE_ROOT, req->method, place, 3);
    return 0;
}

/* "3000-8f7a….localhost": a port and a UUID, or a signed name, in front of the first dot. */
static bool read_preview_host(csn_str host, csn_str place[3])
{
    ptrdiff_t dash = csn_str_find(host, '-'), dot = csn_str_find(host, '.');
    uint64_t port;

    const size_t id_len = dash > 0 && dot > dash ? (size_t) (dot - dash) - 1 : 0;

    if (id_len != 36 && id_len != 16)
        return false;
    place[0] = CSN_STR("preview");
    place[1] = csn_str_n(host.data + dash + 1, id_len);
    place[2] = csn_str_n(host.data, (size_t) dash);
    return csn_parse_u64(place[2], &port) == 0 && port <= 65535;
}

static void look_at_root(csn_req *req, found *f, const csn_url *url)
{
    look(f, CSN_PLANE_ROOT, req->method, url->segments, url->n_segments);
    if (!f->best)
        look(f, CSN_PLANE_API, req->method, url->segments, url->n_segments);
    if (f->best || f->allowed || url->n_segments == 0 || !csn_str_is(url->segments[0], "process"))
        return;
    req->plane = CSN_PLANE_TOOLBOX;
    look(f, CSN_PLANE_TOOLBOX, req->method, url->segments, url->n_segments);
}

static int find(csn_req *req, found *f, const csn_url *url)
{
    size_t skip = url->n_segments > 0 && csn_str_is(url->segments[0], "api");

    req->is_preview_host = read_preview_host(req->host, f->place);
    if (req->is_preview_host)
        return look_in_preview(req, f, f->place, url, 0);
    if (url->n_segments > 2 && csn_str_is(url->segments[0], "preview"))
        return look_in_preview(req, f, url->segments, url, 3);
    if (url->n_segments > skip && csn_str_is(url->segments[skip], "toolbox"))
        return look_in_toolbox(req, f, url, skip + 1);
    if (skip > 0)
        look(f, CSN_PLANE_API, req->method, url->segments + 1, url->n_segments - 1);
    else
        look_at_root(req, f, url);
    return 0;
}

static int keep_params(csn_req *req, const found *f)
{
    for (size_t i = 0; i < f->best->n; i++) {
        if (!is_param(f->best->segments[i]))
            continue;
        const char *text = keep_decoded(req, f->segments[i]);
        if (!text)
            return -EBADMSG;
        req->params[req->n_params++] = text;
    }
    return 0;
}

static void refuse_method(csn_req *req, unsigned allowed)
{
    static const char *const names[] = {
        [CSN_GET] = "GET, HEAD", [CSN_POST] = "POST",     [CSN_PUT] = "PUT",
        [CSN_PATCH] = "PATCH",   [CSN_DELETE] = "DELETE", [CSN_OPTIONS] = "OPTIONS"
    };
    csn_auto(buf) csn_buf list = CSN_BUF_INIT;

    for (size_t i = 1; i < CSN_COUNT(names); i++)
        if ((allowed & (1u << i)) && names[i])
            csn_buf_printf(&list, "%s%s", list.len ? ", " : "", names[i]);
    csn_req_add_header(req, "Allow", list.data);
    csn_req_error(req, 405, NULL, "Cannot %s %s", req->method_name, req->path);
}

void csn_router_dispatch(csn_req *req)
{
    csn_url url;
    found f = { 0 };

    req->plane = CSN_PLANE_API;
    if (req->host.len > 0 && !csn_host_is_ours(req->conn->listener, req->host)) {
        csn_req_error(req, 421, NULL, "'%.200s' is not a name of this server", req->host.data);
        return;
    }
    int r = csn_url_parse(csn_str_of(req->path), &url);
    if (r == 0)
        r = find(req, &f, &url);
    if (r == 0 && f.best)
        r = keep_params(req, &f);
    if (r < 0) {
        csn_req_error(req, 400, NULL, "The path can't be decoded");
    } else if (f.best) {
        req->route = f.best->route;
        req->plane = req->route->plane;
        req->body.max = req->route->body_max ? req->route->body_max : req->body.max;
        csn_auth_check(req, csn_http_conn_accept);
    } else if (f.allowed) {
        refuse_method(req, f.allowed);
    } else {
        csn_req_error(req, 404, NULL, "Cannot %s %s", req->method_name, req->path);
    }
}
