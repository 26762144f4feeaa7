/* SPDX-License-Identifier: Apache-2.0 */
/* What can be changed of a sandbox while it lives: labels, intervals, the public flag, the network; and its addresses. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "server/control.h"
#include "server/passes.h"

enum { CHANGES = CSN_ROUTE_AUDIT | CSN_ROUTE_TENANT, AUTO_ARCHIVE_MAX = 43200 };

/* ---- labels ---- */

static int set_labels(csn_cell *cell, const csn_json *labels, csn_error *err)
{
    csn_auto(map) csn_map map = { 0 };

    if (csn_map_read(labels, CSN_SHAPE_LABELS_MAX, CSN_SHAPE_LABEL_LEN, &map) < 0)
        return csn_fail(err, CSN_E_INVALID, "labels must be an object with string values");
    char *text = csn_map_text(&map), *old = cell->row.labels;
    if (!text)
        return csn_fail(err, CSN_E_NO_MEMORY, "set the labels");
    cell->row.labels = text;
    cell->row.updated_ms = csn_steady_ms();
    int r = csn_cell_save(cell, err);
    if (r < 0) {
        cell->row.labels = old;
        free(text);
        return r;
    }
    free(old);
    csn_map_done(&cell->labels);
    cell->labels = map;
    map = (csn_map){ 0 };
    return CSN_OK;
}

static void put_labels(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_cell *cell = csn_control_cell(req, 0);
    const csn_json *body = cell ? csn_req_json_body(req) : NULL;
    csn_error err = { 0 };

    if (!body)
        return;
    if (set_labels(cell, csn_json_get(body, "labels"), &err) < 0) {
        csn_control_fail(req, &err);
        return;
    }
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "labels");
    csn_map_write(&cell->labels, &w);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

/* ---- intervals ---- */

static void save_and_answer(csn_req *req, csn_cell *cell, csn_sandbox_row *row, int64_t *field,
                            int64_t value)
{
    csn_error err = { 0 };
    int64_t old = *field;

    *field = value;
    row->updated_ms = csn_steady_ms();
    if (csn_cell_save(cell, &err) < 0) {
        *field = old;
        csn_control_fail(req, &err);
        return;
    }
    csn_cell_plan(cell);
    csn_control_answer(req, 200, cell);
}

/* The number of minutes in the path. */
static bool read_minutes(csn_req *req, int64_t min, int64_t *ret)
{
    const int64_t max = INT64_C(10) * 366 * 24 * 60;

    if (csn_parse_i64(csn_str_of(csn_req_param(req, 1)), ret) == 0 && *ret >= min && *ret <= max)
        return true;
    csn_req_error(req, 400, NULL, "The interval must be a whole number of minutes, at least %lld",
                  (long long) min);
    return false;
}

static void autostop(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    int64_t n;

    if (cell && read_minutes(req, 0, &n)) {
        cell->row.active_ms = csn_steady_ms(); /* it counts from here */
        save_and_answer(req, cell, &cell->row, &cell->row.auto_stop_min, n);
    }
}

static void autoarchive(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    int64_t n;

    if (cell && read_minutes(req, 0, &n))
        save_and_answer(req, cell, &cell->row, &cell->row.auto_archive_min,
                        n == 0 || n > AUTO_ARCHIVE_MAX ? AUTO_ARCHIVE_MAX : n);
}

static void autodelete(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    int64_t n;

    if (cell && read_minutes(req, INT32_MIN, &n))
        save_and_answer(req, cell, &cell->row, &cell->row.auto_delete_min, n < 0 ? -1 : n);
}

static void autopause(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    int64_t n;

    if (!cell || !read_minutes(req, 0, &n))
        return;
    if (n == 0)
        csn_control_answer(req, 200, cell);
    else
        csn_req_error(req, 422, NULL, "Sandboxes of this server can't be paused");
}

static void ttl(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    int64_t n;

    if (cell && read_minutes(req, 0, &n))
        save_and_answer(req, cell, &cell->row, &cell->row.destroy_at_ms,
                        n ? cell->row.created_ms + n * 60000 : 0);
}

static void set_public(csn_req *req)
{
    const char *value = csn_req_param(req, 1);
    csn_cell *cell = csn_control_cell(req, 0);
    csn_error err = { 0 };

    if (!cell)
        return;
    if (!csn_streq(value, "true") && !csn_streq(value, "false")) {
        csn_req_error(req, 400, NULL, "public must be true or false");
        return;
    }
    bool old = cell->row.is_public;
    cell->row.is_public = value[0] == 't';
    if (csn_cell_save(cell, &err) < 0) {
        cell->row.is_public = old;
        csn_control_fail(req, &err);
        return;
    }
    csn_control_answer(req, 200, cell);
}

/* A sandbox gets its network, or none, when it is made. What would open or narrow it later is refused, never pretended. */
static void network(csn_req *req)
{
    csn_cell *cell = csn_control_cell(req, 0);
    const csn_json *body = cell ? csn_req_json_body(req) : NULL;
    csn_error err = { 0 };

    if (!body)
        return;
    const char *cidrs = csn_json_get_str(body, "networkAllowList", "");
    const char *domains = csn_json_get_str(body, "domainAllowList", "");
    bool is_blocked = csn_json_get_bool(body, "networkBlockAll", cell->row.is_blocked);
    if ((*cidrs && csn_shape_check_cidrs(cidrs, &err) < 0) ||
        (*domains && csn_shape_check_domains(domains, &err) < 0))
        csn_control_fail(req, &err);
    else if (*cidrs || *domains)
        csn_req_error(req, 422, NULL,
                      "This server can't enforce allow lists; use networkBlockAll at creation");
    else if (is_blocked != cell->row.is_blocked && cell->boxes->server->config.has_network)
        csn_req_error(req, 422, NULL,
                      "The network of a sandbox can't be changed while it lives; create one with "
                      "networkBlockAll");
    else {
        cell->row.is_blocked = is_blocked;
        if (csn_cell_save(cell, &err) < 0)
            csn_control_fail(req, &err);
        else
            csn_control_answer(req, 200, cell);
    }
}

/* ---- addresses ---- */

static void preview_url(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_cell *cell = csn_control_cell(req, 0);
    const char *token;
    csn_error err = { 0 };
    uint64_t port;

    if (!cell)
        return;
    if (csn_parse_u64(csn_str_of(csn_req_param(req, 1)), &port) < 0 || port < 1 || port > 65535) {
        csn_req_error(req, 400, NULL, "The port must be a number from 1 to 65535");
        return;
    }
    if (csn_pass_of_port(cell, (unsigned) port, &token, &err) < 0) {
        csn_control_fail(req, &err);
        return;
    }
    if (port == 2280) /* the toolbox itself */
        csn_buf_printf(&url, "%s/toolbox/%s", csn_req_origin(req), cell->row.id);
    else
        csn_buf_printf(&url, "%s/preview/%s/%u", csn_req_origin(req), cell->row.id,
                       (unsigned) port);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "sandboxId", cell->row.id);
    csn_jw_kstr(&w, "url", url.data);
    csn_jw_kstr(&w, "token", token);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

static void answer_url(csn_req *req, const char *format_tail, const char *id)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_buf_puts(&url, csn_req_origin(req));
    if (id)
        csn_buf_printf(&url, "/api/sandbox/%s", id);
    csn_buf_puts(&url, format_tail);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "url", url.data);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

static void toolbox_url(csn_req *req)
{
    if (csn_control_cell(req, 0))
        answer_url(req, "/toolbox", NULL);
}

static void build_logs_url(csn_req *req)
{
    const csn_cell *cell = csn_control_cell(req, 0);

    if (cell)
        answer_url(req, "/build-logs", cell->row.id);
}

/* Images are registered, not built: there is nothing to tell. */
static void build_logs(csn_req *req)
{
    if (csn_control_cell(req, 0))
        csn_req_text(req, 200, "text/plain; charset=utf-8", "", 0);
}

#define POST(path, fn) \
    { \
        CSN_PLANE_API, CSN_POST, "/sandbox/{}/" path, CSN_SCOPE_KEY, CSN_BODY_WHOLE, 1 << 20, \
            CHANGES, fn \
    }
#define GET(path, fn) \
    { \
        CSN_PLANE_API, CSN_GET, "/sandbox/{}/" path, CSN_SCOPE_KEY, CSN_BODY_NONE, 0, \
            CSN_ROUTE_TENANT, fn \
    }

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_PUT, "/sandbox/{}/labels", CSN_SCOPE_KEY, CSN_BODY_WHOLE, 1 << 20, CHANGES,
      put_labels },
    POST("autostop/{}", autostop),
    POST("autoarchive/{}", autoarchive),
    POST("autodelete/{}", autodelete),
    POST("autopause/{}", autopause),
    POST("ttl/{}", ttl),
    POST("public/{}", set_public),
    POST("network-settings", network),
    GET("ports/{}/preview-url", preview_url),
    GET("toolbox-proxy-url", toolbox_url),
    GET("build-logs-url", build_logs_url),
    GET("build-logs", build_logs),
};
const csn_route_table csn_routes_settings = CSN_ROUTE_TABLE(routes);
