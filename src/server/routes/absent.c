/* SPDX-License-Identifier: Apache-2.0 */
/* What the SDKs can ask for and this server has not: said by name. A bare 404 would read as if the sandbox were gone. */
#include "server/control.h"

enum { NOT_HERE = 501, UNAVAILABLE = 503 };

static void lsp(csn_req *req)
{
    csn_req_error(
        req, NOT_HERE, "NOT_IMPLEMENTED",
        "This server starts no language servers (LSP); run one as a command, in a session");
}

/* As the original answers where its desktop is missing. */
static void computer_use(csn_req *req)
{
    csn_req_error(req, UNAVAILABLE, "SERVICE_UNAVAILABLE",
                  "Computer use is not available: sandboxes of this server have no desktop");
}

static void ssh(csn_req *req)
{
    if (csn_control_cell(req, 0))
        csn_req_error(req, NOT_HERE, "NOT_IMPLEMENTED",
                      "This server gives no SSH access; use process.exec, sessions or a PTY");
}

static void signing_key(csn_req *req)
{
    if (csn_control_cell(req, 0))
        csn_req_error(req, NOT_HERE, "NOT_IMPLEMENTED",
                      "This server signs no file URLs; use the toolbox with a key");
}

static void box_secrets(csn_req *req)
{
    if (csn_control_cell(req, 0))
        csn_req_error(req, NOT_HERE, "NOT_IMPLEMENTED", "This server keeps no secrets; use env");
}

static void secrets(csn_req *req)
{
    csn_req_error(req, NOT_HERE, "NOT_IMPLEMENTED", "This server keeps no secrets; use env");
}

static void warm_pools(csn_req *req)
{
    csn_req_error(req, NOT_HERE, "NOT_IMPLEMENTED",
                  "This server has no warm pools to configure: it keeps sandboxes ready by itself");
}

/* The past is not recorded: an empty series, as the original answers without a telemetry store. */
static void metrics(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    if (!csn_control_cell(req, 0))
        return;
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "series");
    csn_jw_begin_array(&w);
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

#define API(method, pattern, flags, handle) \
    { \
        CSN_PLANE_API, method, pattern, CSN_SCOPE_KEY, CSN_BODY_WHOLE, 1 << 20, flags, handle \
    }
#define BOX(method, pattern, handle) \
    { \
        CSN_PLANE_TOOLBOX, method, pattern, CSN_SCOPE_BOX, CSN_BODY_WHOLE, 1 << 20, \
            CSN_ROUTE_TENANT, handle \
    }

static const csn_route routes[] = {
    API(CSN_GET, "/sandbox/{}/telemetry/metrics", CSN_ROUTE_TENANT, metrics),
    API(CSN_POST, "/sandbox/{}/ssh-access", CSN_ROUTE_TENANT, ssh),
    API(CSN_DELETE, "/sandbox/{}/ssh-access", CSN_ROUTE_TENANT, ssh),
    API(CSN_GET, "/sandbox/{}/signing-key", CSN_ROUTE_TENANT, signing_key),
    API(CSN_POST, "/sandbox/{}/signing-key/rotate", CSN_ROUTE_TENANT, signing_key),
    API(CSN_PUT, "/sandbox/{}/secrets", CSN_ROUTE_TENANT, box_secrets),
    API(CSN_GET, "/secret", 0, secrets),
    API(CSN_POST, "/secret", 0, secrets),
    API(CSN_GET, "/secret/paginated", 0, secrets),
    API(CSN_GET, "/warm-pools", 0, warm_pools),
    API(CSN_POST, "/warm-pools", 0, warm_pools),
    BOX(CSN_GET, "/lsp/{}", lsp),
    BOX(CSN_POST, "/lsp/{}", lsp),
    BOX(CSN_GET, "/computeruse/{}", computer_use),
    BOX(CSN_POST, "/computeruse/{}", computer_use),
    BOX(CSN_GET, "/computeruse/{}/{}", computer_use),
    BOX(CSN_POST, "/computeruse/{}/{}", computer_use),
};
const csn_route_table csn_routes_absent = CSN_ROUTE_TABLE(routes);
