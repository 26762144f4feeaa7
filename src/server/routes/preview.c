/* SPDX-License-Identifier: Apache-2.0 */
/* /preview/{sandbox}/{port}/…: any method and, behind the port, any path; the router sees to the latter. And the names that
 * let others in for a while. */
#include "server/preview.h"

#include "server/control.h"
#include "server/passes.h"

enum { EXPIRES_S = 60, EXPIRES_S_MAX = 86400 };

static bool read_port(csn_req *req, unsigned *ret)
{
    uint64_t port;

    if (csn_parse_u64(csn_str_of(csn_req_param(req, 1)), &port) == 0 && port > 0 && port < 65536) {
        *ret = (unsigned) port;
        return true;
    }
    csn_req_error(req, 400, NULL, "The port must be a number from 1 to 65535");
    return false;
}

static bool read_seconds(csn_req *req, int64_t *ret)
{
    const char *text = csn_req_query(req, "expiresInSeconds");

    *ret = EXPIRES_S;
    if (!text || (csn_parse_i64(csn_str_of(text), ret) == 0 && *ret >= 1 && *ret <= EXPIRES_S_MAX))
        return true;
    csn_req_error(req, 400, NULL, "expiresInSeconds must be a number from 1 to %d",
                  (int) EXPIRES_S_MAX);
    return false;
}

static void sign(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    char token[CSN_SIGNED_LEN + 1];
    csn_cell *cell = csn_control_cell(req, 0);
    csn_error err = { 0 };
    unsigned port;
    int64_t seconds;

    if (!cell || !read_port(req, &port) || !read_seconds(req, &seconds))
        return;
    if (csn_signed_new(cell, port, seconds * 1000, token, &err) < 0) {
        csn_control_fail(req, &err);
        return;
    }
    csn_buf_printf(&url, "%s/preview/%s/%u", csn_req_origin(req), token, port);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "sandboxId", cell->row.id);
    csn_jw_kint(&w, "port", port);
    csn_jw_kstr(&w, "token", token);
    csn_jw_kstr(&w, "url", url.data);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

static void expire(csn_req *req)
{
    const csn_cell *cell = csn_control_cell(req, 0);
    csn_error err = { 0 };
    unsigned port;

    if (!cell || !read_port(req, &port))
        return;
    if (csn_signed_expire(cell, port, csn_req_param(req, 2), &err) < 0)
        csn_control_fail(req, &err);
    else
        csn_req_empty(req, 200);
}

#define PREVIEW(method) \
    { \
        CSN_PLANE_ROOT, method, "/preview/{}/{}", CSN_SCOPE_BOX, CSN_BODY_STREAM, 0, \
            CSN_ROUTE_TENANT | CSN_ROUTE_PREVIEW, csn_preview_handle \
    }

static const csn_route routes[] = {
    PREVIEW(CSN_GET),
    PREVIEW(CSN_POST),
    PREVIEW(CSN_PUT),
    PREVIEW(CSN_PATCH),
    PREVIEW(CSN_DELETE),
    PREVIEW(CSN_OPTIONS),
    { CSN_PLANE_API, CSN_GET, "/sandbox/{}/ports/{}/signed-preview-url", CSN_SCOPE_KEY,
      CSN_BODY_NONE, 0, CSN_ROUTE_TENANT | CSN_ROUTE_AUDIT, sign },
    { CSN_PLANE_API, CSN_POST, "/sandbox/{}/ports/{}/signed-preview-url/{}/expire", CSN_SCOPE_KEY,
      CSN_BODY_WHOLE, 1 << 20, CSN_ROUTE_TENANT | CSN_ROUTE_AUDIT, expire },
};
const csn_route_table csn_routes_preview = CSN_ROUTE_TABLE(routes);
