/* SPDX-License-Identifier: Apache-2.0 */
/* GET /sandbox with a cursor and GET /sandbox/paginated with pages: both generations over the same filter. */
#include <stdlib.h>

#include "base/str.h"
#include "server/control.h"
#include "shape/filter.h"

typedef struct listing {
    csn_req *req;
    csn_filter filter;
    csn_buf url;
    csn_shape_sandbox *found; /* borrowed from the cells, for this turn of the loop */
    size_t n;
} listing;

static const char *query(const char *key, size_t i, void *user)
{
    return csn_req_query_at(user, key, i);
}

static void listing_done(listing *l)
{
    csn_filter_done(&l->filter);
    csn_buf_free(&l->url);
    free(l->found);
}

static int compare(const void *a, const void *b, void *user)
{
    return csn_filter_compare(user, a, b);
}

/* All that fit, in order. 0 or the status that was answered. */
static int collect(listing *l)
{
    csn_boxes *boxes = csn_req_server(l->req)->boxes;
    const char *org_id = csn_req_caller(l->req)->org_id;
    const char *url = csn_control_toolbox_url(l->req, &l->url);
    int error = 0;

    l->found = calloc(boxes->by_id.n + 1, sizeof(l->found[0]));
    if (!l->found) {
        csn_req_error(l->req, 503, NULL, "The server is out of memory");
        return 503;
    }
    csn_list_foreach (node, &boxes->cells) {
        csn_cell *cell = csn_list_entry(node, csn_cell, link);
        csn_shape_sandbox *s = &l->found[l->n];
        if (!csn_streq(cell->row.org_id, org_id))
            continue;
        csn_cell_shape(cell, url, s);
        if (csn_filter_fits(&l->filter, s, &cell->labels) &&
            csn_filter_is_after(&l->filter, s, &error))
            l->n++;
        if (error < 0) {
            csn_req_error(l->req, 400, NULL, "The cursor is not one of this list");
            return 400;
        }
    }
    qsort_r(l->found, l->n, sizeof(l->found[0]), compare, &l->filter);
    return 0;
}

static bool begin(csn_req *req, bool is_paginated, listing *l)
{
    csn_error err = { 0 };

    *l = (listing){ .req = req, .url = CSN_BUF_INIT };
    if (csn_filter_read(query, req, is_paginated, &l->filter, &err) < 0) {
        csn_control_fail(req, &err);
        return false;
    }
    return collect(l) == 0;
}

static void write_items(const listing *l, size_t from, size_t n, bool is_item, csn_jw *w)
{
    csn_jw_key(w, "items");
    csn_jw_begin_array(w);
    for (size_t i = from; i < from + n; i++)
        csn_shape_sandbox_write(&l->found[i], is_item, w);
    csn_jw_end_array(w);
}

static void list(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, cursor = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    listing l;

    if (begin(req, false, &l)) {
        size_t limit = (size_t) l.filter.limit, n = l.n < limit ? l.n : limit;
        csn_jw_begin_object(&w);
        write_items(&l, 0, n, true, &w);
        if (n < l.n)
            (void) csn_filter_cursor(&l.filter, &l.found[n - 1],
                                     &cursor); /* shows in `out` below */
        csn_jw_kstr(&w, "nextCursor", n < l.n && cursor.error == 0 ? cursor.data : NULL);
        csn_jw_end_object(&w);
        csn_control_json(req, 200, &out);
    }
    listing_done(&l);
}

static void list_pages(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    listing l;

    if (begin(req, true, &l)) {
        uint64_t limit = l.filter.limit > 0 ? (uint64_t) l.filter.limit : 1,
                 from = (uint64_t) (l.filter.page - 1) * limit;
        size_t start = from < l.n ? (size_t) from : l.n;
        size_t n = l.n - start < limit ? l.n - start : (size_t) limit;
        csn_jw_begin_object(&w);
        write_items(&l, start, n, false, &w);
        csn_jw_kint(&w, "total", (int64_t) l.n);
        csn_jw_kint(&w, "page", l.filter.page);
        csn_jw_kint(&w, "totalPages", (int64_t) ((l.n + limit - 1) / limit));
        csn_jw_end_object(&w);
        csn_control_json(req, 200, &out);
    }
    listing_done(&l);
}

/* ---- forks ---- */

static void write_cell(const csn_cell *cell, const char *url, csn_jw *w)
{
    csn_shape_sandbox s;

    csn_cell_shape(cell, url, &s);
    csn_shape_sandbox_write(&s, false, w);
}

static void forks(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_cell *parent = csn_control_cell(req, 0);

    if (!parent)
        return;
    (void) csn_control_toolbox_url(req, &url);
    csn_jw_begin_array(&w);
    csn_list_foreach (node, &parent->boxes->cells) {
        const csn_cell *cell = csn_list_entry(node, csn_cell, link);
        if (csn_streq(cell->row.parent_id, parent->row.id))
            write_cell(cell, url.data, &w);
    }
    csn_jw_end_array(&w);
    csn_control_json(req, 200, &out);
}

/* The one it was forked from, while that lives. */
static csn_cell *parent_of(const csn_cell *cell)
{
    return cell->row.parent_id[0]
               ? csn_boxes_find(cell->boxes, cell->row.org_id, cell->row.parent_id)
               : NULL;
}

static void parent(csn_req *req)
{
    const csn_cell *cell = csn_control_cell(req, 0);
    const csn_cell *from = cell ? parent_of(cell) : NULL;

    if (from)
        csn_control_answer(req, 200, from);
    else if (cell)
        csn_req_error(req, 404, NULL, "Sandbox has no parent");
}

static void ancestors(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    const csn_cell *cell = csn_control_cell(req, 0);

    if (!cell)
        return;
    (void) csn_control_toolbox_url(req, &url);
    csn_jw_begin_array(&w);
    while ((cell = parent_of(cell)) != NULL) /* a parent is older: this ends */
        write_cell(cell, url.data, &w);
    csn_jw_end_array(&w);
    csn_control_json(req, 200, &out);
}

#define GET(path, fn) \
    { \
        CSN_PLANE_API, CSN_GET, "/sandbox/{}/" path, CSN_SCOPE_KEY, CSN_BODY_NONE, 0, \
            CSN_ROUTE_TENANT, fn \
    }

static const csn_route routes[] = {
    GET("forks", forks),
    GET("parent", parent),
    GET("ancestors", ancestors),
    { CSN_PLANE_API, CSN_GET, "/sandbox", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, list },
    { CSN_PLANE_API, CSN_GET, "/sandbox/paginated", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0,
      list_pages },
};
const csn_route_table csn_routes_lists = CSN_ROUTE_TABLE(routes);
