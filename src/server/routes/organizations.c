/* SPDX-License-Identifier: Apache-2.0 */
/* The key's organisation and user, as far as the CLI of the original asks. Clients check the types of all of it: what
 * has no meaning here is there all the same, and a time that never was is the first of all. */
#include "base/str.h"
#include "server/control.h"
#include "store/orgs.h"

static void write_never(csn_jw *w, const char *key)
{
    csn_jw_kstr(w, key, "1970-01-01T00:00:00.000Z");
}

/* No limits of this kind. */
static void write_rates(csn_jw *w)
{
    static const char *const keys[] = {
        "authenticatedRateLimit",           "sandboxCreateRateLimit",
        "sandboxLifecycleRateLimit",        "authenticatedRateLimitTtlSeconds",
        "sandboxCreateRateLimitTtlSeconds", "sandboxLifecycleRateLimitTtlSeconds"
    };

    for (size_t i = 0; i < CSN_COUNT(keys); i++)
        csn_jw_kstr(w, keys[i], NULL);
}

static void write_org(const csn_req *req, const csn_org_row *row, csn_jw *w)
{
    const csn_config *c = &csn_req_server(req)->config;
    csn_size most = csn_machine_largest(csn_req_server(req));

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", row->id);
    csn_jw_kstr(w, "name", row->name);
    csn_jw_kstr(w, "createdBy", row->id);
    csn_jw_kbool(w, "personal", true);
    csn_shape_time(w, "createdAt", row->created_ms);
    csn_shape_time(w, "updatedAt", row->created_ms);
    csn_jw_kbool(w, "suspended", false);
    write_never(w, "suspendedAt");
    csn_jw_kstr(w, "suspensionReason", "");
    write_never(w, "suspendedUntil");
    csn_jw_kint(w, "suspensionCleanupGracePeriodHours", 0);
    csn_shape_milli(w, "maxCpuPerSandbox", most.cpu_milli);
    csn_shape_gib(w, "maxMemoryPerSandbox", most.memory_bytes);
    csn_shape_gib(w, "maxDiskPerSandbox", most.disk_bytes);
    csn_jw_kint(w, "secretQuota", 0);
    csn_jw_kint(w, "maxSecretsPerSandbox", 0);
    csn_jw_kint(w, "snapshotDeactivationTimeoutMinutes", 0);
    csn_jw_kbool(w, "sandboxLimitedNetworkEgress", !c->has_network);
    csn_jw_kbool(w, "previewWarningEnabled", false);
    csn_jw_kbool(w, "ssoEnabled", false);
    csn_jw_kbool(w, "scimEnabled", false);
    csn_jw_kstr(w, "defaultRegionId", c->region);
    csn_jw_key(w, "experimentalConfig");
    csn_jw_begin_object(w);
    csn_jw_end_object(w);
    csn_jw_kstr(w, "otelConfig", NULL);
    write_rates(w);
    csn_jw_end_object(w);
}

static bool own_org(csn_req *req, csn_org_row *row)
{
    csn_error err = { 0 };

    if (csn_store_org_get(csn_req_server(req)->store, csn_req_caller(req)->org_id, row, &err) == 0)
        return true;
    csn_control_fail(req, &err);
    return false;
}

static void list(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_org_row row;

    if (!own_org(req, &row))
        return;
    csn_jw_begin_array(&w);
    write_org(req, &row, &w);
    csn_jw_end_array(&w);
    csn_control_json(req, 200, &out);
}

static void get(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_org_row row;

    if (!own_org(req, &row))
        return;
    if (!csn_streq(csn_req_param(req, 0), row.id)) {
        csn_req_error(req, 404, NULL, "Organization not found");
        return;
    }
    write_org(req, &row, &w);
    csn_control_json(req, 200, &out);
}

static void me(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_org_row row;

    if (!own_org(req, &row))
        return;
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "id", csn_req_caller(req)->user_id);
    csn_jw_kstr(&w, "name", row.name);
    csn_jw_kstr(&w, "email", "");
    csn_jw_kbool(&w, "emailVerified", false);
    csn_jw_key(&w, "publicKeys");
    csn_jw_begin_array(&w);
    csn_jw_end_array(&w);
    csn_shape_time(&w, "createdAt", row.created_ms);
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_GET, "/organizations", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, list },
    { CSN_PLANE_API, CSN_GET, "/organizations/{}", CSN_SCOPE_KEY, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get },
    { CSN_PLANE_API, CSN_GET, "/users/me", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, me },
};
const csn_route_table csn_routes_organizations = CSN_ROUTE_TABLE(routes);
