/* SPDX-License-Identifier: Apache-2.0 */
/* Errors as the two planes say them, and the engine's errors as statuses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "server/fds.h"
#include "server/req_private.h"

static const struct status {
    int status;
    const char *reason;
    const char *code;
} statuses[] = {
    { 101, "Switching Protocols", NULL },
    { 200, "OK", NULL },
    { 201, "Created", NULL },
    { 202, "Accepted", NULL },
    { 204, "No Content", NULL },
    { 206, "Partial Content", NULL },
    { 302, "Found", NULL },
    { 304, "Not Modified", NULL },
    { 307, "Temporary Redirect", NULL },
    { 400, "Bad Request", "BAD_REQUEST" },
    { 401, "Unauthorized", "UNAUTHORIZED" },
    { 403, "Forbidden", "FORBIDDEN" },
    { 404, "Not Found", "NOT_FOUND" },
    { 405, "Method Not Allowed", "METHOD_NOT_ALLOWED" },
    { 408, "Request Timeout", "REQUEST_TIMEOUT" },
    { 409, "Conflict", "CONFLICT" },
    { 410, "Gone", "GONE" },
    { 411, "Length Required", "BAD_REQUEST" },
    { 413, "Content Too Large", "CONTENT_TOO_LARGE" },
    { 414, "URI Too Long", "BAD_REQUEST" },
    { 415, "Unsupported Media Type", "UNSUPPORTED_MEDIA_TYPE" },
    { 416, "Range Not Satisfiable", "BAD_REQUEST" },
    { 417, "Expectation Failed", "BAD_REQUEST" },
    { 421, "Misdirected Request", "MISDIRECTED_REQUEST" },
    { 422, "Unprocessable Entity", "UNPROCESSABLE_ENTITY" },
    { 426, "Upgrade Required", "UPGRADE_REQUIRED" },
    { 429, "Too Many Requests", "TOO_MANY_REQUESTS" },
    { 431, "Request Header Fields Too Large", "BAD_REQUEST" },
    { 500, "Internal Server Error", "INTERNAL_SERVER_ERROR" },
    { 501, "Not Implemented", "NOT_IMPLEMENTED" },
    { 502, "Bad Gateway", "BAD_GATEWAY" },
    { 503, "Service Unavailable", "SERVICE_UNAVAILABLE" },
    { 504, "Gateway Timeout", "GATEWAY_TIMEOUT" },
    { 505, "HTTP Version Not Supported", "BAD_REQUEST" },
    { 507, "Insufficient Storage", "INSUFFICIENT_STORAGE" },
};

static const struct status *find(int status)
{
    for (size_t i = 0; i < CSN_COUNT(statuses); i++)
        if (statuses[i].status == status)
            return &statuses[i];
    return NULL;
}

const char *csn_http_reason(int status)
{
    const struct status *s = find(status);

    return s ? s->reason : "Unknown";
}

static const char *code_of(int status)
{
    const struct status *s = find(status);

    return s && s->code ? s->code : "INTERNAL_SERVER_ERROR";
}

void csn_error_body(const csn_req *req, int status, const char *code, const char *message,
                    csn_buf *out)
{
    char now[CSN_ISO8601_SIZE];
    csn_jw w = CSN_JW_INIT(out, false);
    bool is_toolbox = req->plane == CSN_PLANE_TOOLBOX;

    csn_jw_begin_object(&w);
    csn_jw_kint(&w, "statusCode", status);
    if (!is_toolbox)
        csn_jw_kstr(&w, "error", csn_http_reason(status));
    csn_jw_kstr(&w, "message", message);
    csn_jw_kstr(&w, "code", code ? code : code_of(status));
    csn_jw_kstr(&w, "source", is_toolbox ? "DAYTONA_DAEMON" : "DAYTONA_API");
    csn_jw_kstr(&w, "timestamp", csn_iso8601(csn_wall_ms(), now));
    csn_jw_kstr(&w, "path", is_toolbox ? req->inner_path : req->path);
    if (is_toolbox)
        csn_jw_kstr(&w, "method", req->method_name);
    csn_jw_end_object(&w);
}

static int status_of(const csn_req *req, const csn_error *err)
{
    switch (err->code) {
    case CSN_E_INVALID:
    case CSN_E_NOT_REGULAR:
        return 400;
    case CSN_E_NOT_FOUND:
        return 404;
    case CSN_E_EXISTS:
    case CSN_E_STATE:
    case CSN_E_BUSY:
        return 409;
    case CSN_E_TIMEOUT:
        return 408;
    case CSN_E_LIMIT: /* a quota of the organisation, or a limit of the sandbox itself */
        return req->plane == CSN_PLANE_TOOLBOX ? 422 : 403;
    case CSN_E_DENIED:
        return 403;
    case CSN_E_UNSUPPORTED:
        return 501;
    case CSN_E_LOST:
        return 410;
    case CSN_E_TOO_LARGE:
        return 413;
    case CSN_E_NO_MEMORY:
    case CSN_E_CANCELLED:
        return 503;
    default:
        return 500;
    }
}

/* What failed inside is for the log: it may name the host's paths. The client gets the kernel's word for it and the
 * request's id to ask with. */
static void fail_inside(csn_req *req, const csn_error *err)
{
    csn_log(CSN_LOG_ERROR, "a request failed", "request", req->id, "path", req->path, "code",
            csn_error_name(err->code), "error", err->message, NULL);
    if (err->sys_errno > 0)
        csn_req_error(req, 500, NULL, "Internal error (request %s): %s", req->id,
                      strerror(err->sys_errno));
    else
        csn_req_error(req, 500, NULL, "Internal error (request %s)", req->id);
}

bool csn_is_out_of_space(const csn_error *err)
{
    return err->sys_errno == ENOSPC || err->sys_errno == EDQUOT;
}

static void fail_for_space(csn_req *req, const csn_error *err)
{
    if (req->plane == CSN_PLANE_TOOLBOX) {
        csn_req_error(req, 507, NULL, "The sandbox's disk is full: delete files, or resize it");
        return;
    }
    csn_log(CSN_LOG_ERROR, "the disk is full", "request", req->id, "error", err->message, NULL);
    csn_req_error(req, 507, NULL,
                  "The server's disk is full (request %s): nothing was changed. Delete sandboxes, "
                  "snapshots or volumes, or have its operator free space",
                  req->id);
}

/* Sandboxes that end give theirs back; a limit of 0 is the operator's to raise, and 'caisson serve' does not start then. */
static void fail_for_namespaces(csn_req *req, const csn_error *err)
{
    csn_log(CSN_LOG_ERROR, "a limit on namespaces is reached", "request", req->id, "error",
            err->message, NULL);
    csn_req_error(
        req, 503, NULL,
        "The server can't make namespaces (request %s): a limit is reached. Delete or stop "
        "sandboxes, or have its operator raise user.max_*_namespaces",
        req->id);
}

/* Those of the toolbox are the sandbox's own, or csn_fds_fail() said it. */
static bool is_out_of_descriptors(const csn_req *req, const csn_error *err)
{
    return (err->sys_errno == EMFILE || err->sys_errno == ENFILE) &&
           req->plane != CSN_PLANE_TOOLBOX;
}

static void fail_for_descriptors(csn_req *req, const csn_error *err)
{
    csn_log(CSN_LOG_ERROR, "no descriptor is left", "request", req->id, "error", err->message,
            NULL);
    csn_req_add_header(req, "Retry-After", "1");
    csn_req_error(req, 503, NULL, CSN_FDS_GONE);
}

/* Nothing was changed, and in a moment it will work: another process is writing to the database, or there are too many
 * processes. Not the 409 of a sandbox that is at something else. */
static bool is_momentary(const csn_req *req, const csn_error *err)
{
    return err->sys_errno == EAGAIN && req->plane != CSN_PLANE_TOOLBOX;
}

static void fail_for_now(csn_req *req, const csn_error *err)
{
    csn_log(CSN_LOG_WARN, "a request has to come again", "request", req->id, "error", err->message,
            NULL);
    csn_req_add_header(req, "Retry-After", "1");
    csn_req_error(req, 503, NULL, "The server is busy: try again");
}

void csn_req_fail(csn_req *req, const csn_error *err)
{
    int status = status_of(req, err);

    if (csn_is_out_of_space(err))
        fail_for_space(req, err);
    else if (err->sys_errno == EUSERS)
        fail_for_namespaces(req, err);
    else if (is_out_of_descriptors(req, err))
        fail_for_descriptors(req, err);
    else if (is_momentary(req, err))
        fail_for_now(req, err);
    else if (status == 500)
        fail_inside(req, err);
    else
        csn_req_error(req, status, NULL, "%s", err->message);
}
