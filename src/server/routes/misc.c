/* SPDX-License-Identifier: Apache-2.0 */
/* config, health, regions, and the numbers for Prometheus. */
#include <caisson/engine.h>

#include "base/str.h"
#include "base/time.h"
#include "server/control.h"
#include "server/disk.h"
#include "server/key.h"
#include "server/metrics.h"

static void config(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT, preview = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    const csn_config *c = &csn_req_server(req)->config;

    csn_buf_printf(&preview, "%s/preview/{{sandboxId}}/{{PORT}}", csn_req_origin(req));
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "version", csn_version());
    csn_jw_key(&w, "oidc");
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "issuer", "");
    csn_jw_kstr(&w, "clientId", "");
    csn_jw_kstr(&w, "audience", "");
    csn_jw_kstr(&w, "provider", "");
    csn_jw_end_object(&w);
    csn_jw_kbool(&w, "linkedAccountsEnabled", false);
    csn_jw_key(&w, "announcements");
    csn_jw_begin_object(&w);
    csn_jw_end_object(&w);
    csn_jw_kstr(&w, "proxyTemplateUrl", preview.data);
    csn_jw_kstr(&w, "proxyToolboxUrl", csn_control_toolbox_url(req, &url));
    csn_jw_kstr(&w, "defaultSnapshot", c->default_snapshot);
    csn_jw_kstr(&w, "dashboardUrl", csn_req_origin(req));
    csn_jw_kint(&w, "maxAutoArchiveInterval", 43200);
    csn_jw_kbool(&w, "maintananceMode", false); /* as it is spelled */
    csn_jw_kstr(&w, "environment", "production");
    csn_jw_end_object(&w);
    csn_control_json(req, 200, &out);
}

static void write_disk(csn_jw *w, const csn_disk *disk)
{
    csn_jw_kint(w, "diskFreeBytes", disk->free_bytes);
    csn_jw_kint(w, "diskReserveBytes", disk->reserve_bytes);
}

static void answer_status(csn_req *req, int status, const char *word, const char *walls_missing,
                          const csn_disk *disk)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "status", word);
    if (walls_missing)
        csn_jw_kstr(&w, "wallsMissing", walls_missing);
    if (disk)
        write_disk(&w, disk);
    csn_jw_end_object(&w);
    csn_control_json(req, status, &out);
}

static void health(csn_req *req)
{
    answer_status(req, 200, "ok", NULL, NULL);
}

static void ready(csn_req *req)
{
    const csn_server *server = csn_req_server(req);
    bool is = server->boxes && csn_boxes_ready(server->boxes) && !server->is_stopping;
    csn_disk disk = csn_disk_look(server);
    bool is_low = disk.free_bytes < disk.reserve_bytes;

    answer_status(req, is && !is_low ? 200 : 503,
                  !is      ? "not ready"
                  : is_low ? "disk full"
                           : "ok",
                  server->config.walls_missing, &disk);
}

static void regions(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    const char *name = csn_req_server(req)->config.region;
    const int64_t start_of_2026 = INT64_C(1767225600000);

    csn_jw_begin_array(&w);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "id", name);
    csn_jw_kstr(&w, "name", name);
    csn_jw_kstr(&w, "organizationId", NULL);
    csn_jw_kstr(&w, "regionType", "shared");
    csn_shape_time(&w, "createdAt", start_of_2026);
    csn_shape_time(&w, "updatedAt", start_of_2026);
    csn_jw_end_object(&w);
    csn_jw_end_array(&w);
    csn_control_json(req, 200, &out);
}

/* Where clients would put the files of an image build. */
static void push_access(csn_req *req)
{
    csn_req_error(req, 503, NULL,
                  "This server builds no images and has no object storage; register an image with "
                  "'caisson image import'");
}

/* The organisation of whoever runs the server: its first key is of it, and the configured one. */
static bool is_owner(const csn_req *req)
{
    csn_org_row row;

    return csn_store_org_get(csn_req_server(req)->store, csn_req_caller(req)->org_id, &row, NULL) ==
               CSN_OK &&
           csn_streq(row.name, CSN_ORG_DEFAULT);
}

static void metrics(csn_req *req)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    if (!is_owner(req)) {
        csn_req_error(req, 403, NULL,
                      "The numbers of the whole server are for keys of the organisation '%s'",
                      CSN_ORG_DEFAULT);
        return;
    }
    csn_metrics_write(csn_req_server(req), &out);
    if (out.error < 0)
        csn_req_error(req, 500, NULL, "The answer could not be written");
    else
        csn_req_text(req, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
}

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_GET, "/config", CSN_SCOPE_PUBLIC, CSN_BODY_NONE, 0, 0, config },
    { CSN_PLANE_API, CSN_GET, "/health", CSN_SCOPE_PUBLIC, CSN_BODY_NONE, 0, 0, health },
    { CSN_PLANE_API, CSN_GET, "/health/ready", CSN_SCOPE_PUBLIC, CSN_BODY_NONE, 0, 0, ready },
    { CSN_PLANE_API, CSN_GET, "/regions", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, regions },
    { CSN_PLANE_API, CSN_GET, "/shared-regions", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0, regions },
    { CSN_PLANE_API, CSN_GET, "/object-storage/push-access", CSN_SCOPE_KEY, CSN_BODY_NONE, 0, 0,
      push_access },
    { CSN_PLANE_ROOT, CSN_GET, "/metrics", CSN_SCOPE_ADMIN, CSN_BODY_NONE, 0, 0, metrics },
};
const csn_route_table csn_routes_misc = CSN_ROUTE_TABLE(routes);
