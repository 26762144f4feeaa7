/* SPDX-License-Identifier: Apache-2.0 */
/* Heads on their way through us: what concerns one connection alone stays on it (RFC 9110, 7.6.1), what lets a client in
 * here is not told to the sandbox, and what would speak for all of our origin is not told to the browser. */
#include <string.h>
#include <strings.h>

#include "server/preview.h"
#include "server/req_private.h"
#include "server/who.h"

static const char *const hop_by_hop[] = { "connection", "keep-alive", "proxy-connection",
                                          "te",         "trailer",    "transfer-encoding",
                                          "upgrade",    NULL };

static const char *const ours_in_requests[] = { "host",
                                                "content-length",
                                                "expect",
                                                "proxy-authorization",
                                                "forwarded",
                                                "x-daytona-preview-token",
                                                "x-daytona-skip-last-activity-update",
                                                "x-forwarded-for",
                                                "x-forwarded-host",
                                                "x-forwarded-prefix",
                                                "x-forwarded-proto",
                                                NULL };

/* A page of one sandbox shares its origin with others and with the API. */
static const char *const ours_in_answers[] = { "content-length",
                                               "alt-svc",
                                               "proxy-authenticate",
                                               "public-key-pins",
                                               "service-worker-allowed",
                                               "strict-transport-security",
                                               NULL };

static bool is_one_of(csn_str name, const char *const *list)
{
    for (; *list; list++)
        if (csn_http_same(name, *list))
            return true;
    return false;
}

/* ---- there ------------------------------------------------------------------------------------------------------- */

/* Also what the client itself says to be for this connection. */
static bool is_for_us(const csn_req *req, csn_str name)
{
    char text[64];

    if (is_one_of(name, hop_by_hop) || is_one_of(name, ours_in_requests))
        return true;
    if (csn_str_copy(text, sizeof(text), name) < 0)
        return false;
    for (size_t i = 0; i < req->n_headers; i++)
        if (strcasecmp(req->headers[i].name, "Connection") == 0 &&
            csn_http_list_has(csn_str_of(req->headers[i].value), text))
            return true;
    return false;
}

/* The sandbox may have a use for this header; our keys are none of its business. */
static bool is_our_key(const csn_req *req, const csn_req_header_view *hd)
{
    return strcasecmp(hd->name, "Authorization") == 0 &&
           csn_who_is_key(csn_req_server(req), hd->value);
}

static void put_query(const char *query, csn_buf *out)
{
    static const char secret[] = "DAYTONA_SANDBOX_AUTH_KEY";
    csn_str rest = csn_str_of(query), part;
    char mark = '?';

    while (*query && csn_str_split(&rest, '&', &part)) {
        csn_str key = part;
        ptrdiff_t eq = csn_str_find(part, '=');

        if (eq >= 0)
            key.len = (size_t) eq;
        if (key.len <= 3 * (sizeof(secret) - 1)) { /* it may be escaped */
            char decoded[3 * sizeof(secret)];
            if (csn_url_decode(key, true, decoded) >= 0 && strcmp(decoded, secret) == 0)
                continue;
        }
        csn_buf_putc(out, mark);
        csn_buf_append(out, part.data, part.len);
        mark = '&';
    }
}

/* Without the one that lets in here. */
static void put_cookies(const char *value, csn_buf *out)
{
    csn_str rest = csn_str_of(value), part;
    const char *before = "Cookie: ";

    while (csn_str_split(&rest, ';', &part)) {
        if (csn_preview_is_our_cookie(part))
            continue;
        part = csn_str_trim(part);
        csn_buf_puts(out, before);
        csn_buf_append(out, part.data, part.len);
        before = "; ";
    }
    if (before[0] == ';')
        csn_buf_puts(out, "\r\n");
}

static void put_forwarded(const csn_req *req, unsigned port, csn_buf *out)
{
    const char *origin = csn_req_origin(req), *host = strstr(origin, "://");

    if (host)
        csn_buf_printf(out, "X-Forwarded-Host: %s\r\nX-Forwarded-Proto: %.*s\r\n", host + 3,
                       (int) (host - origin), origin);
    csn_buf_printf(out, "X-Forwarded-For: %s\r\n", csn_req_peer(req));
    if (!req->is_preview_host)
        csn_buf_printf(out, "X-Forwarded-Prefix: /preview/%s/%u\r\n", csn_req_box_id(req), port);
}

static void put_body(const csn_req *req, csn_buf *out)
{
    const csn_http_body *body = &req->conn->body;

    if (body->is_chunked)
        csn_buf_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (csn_req_header(req, "Content-Length"))
        csn_buf_printf(out, "Content-Length: %lld\r\n", (long long) body->left);
}

void csn_preview_put_head(const csn_req *req, unsigned port, bool is_upgrade, csn_buf *out)
{
    const char *path = req->preview_path;

    csn_buf_printf(out, "%s %s", req->method_name, path[0] ? path : "/");
    put_query(req->raw_query, out);
    csn_buf_printf(out, " HTTP/1.1\r\nHost: localhost:%u\r\n", port);
    for (size_t i = 0; i < req->n_headers; i++) {
        const csn_req_header_view *hd = &req->headers[i];
        if (strcasecmp(hd->name, "Cookie") == 0)
            put_cookies(hd->value, out);
        else if (!is_for_us(req, csn_str_of(hd->name)) && !is_our_key(req, hd))
            csn_buf_printf(out, "%s: %s\r\n", hd->name, hd->value);
    }
    put_forwarded(req, port, out);
    put_body(req, out);
    if (is_upgrade)
        csn_buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n",
                       csn_req_header(req, "Upgrade"));
    else
        csn_buf_puts(out, "Connection: close\r\n\r\n");
}

/* ---- back -------------------------------------------------------------------------------------------------------- */

static bool is_for_client(const csn_http_answer *a, csn_str name)
{
    char text[64];

    if (is_one_of(name, hop_by_hop) || is_one_of(name, ours_in_answers))
        return false;
    if (csn_str_copy(text, sizeof(text), name) < 0)
        return true;
    for (size_t i = 0; i < a->head.n_headers; i++)
        if (csn_http_same(a->head.headers[i].name, "connection") &&
            csn_http_list_has(a->head.headers[i].value, text))
            return false;
    return true;
}

/* A path of its own root lies below ours. */
static bool is_path(const csn_http_header *hd)
{
    csn_str v = hd->value;

    return csn_http_same(hd->name, "location") && v.len > 0 && v.data[0] == '/' &&
           !(v.len > 1 && (v.data[1] == '/' || v.data[1] == '\\'));
}

static bool is_attribute(csn_str part, const char *name)
{
    ptrdiff_t eq = csn_str_find(part, '=');

    if (eq >= 0)
        part.len = (size_t) eq;
    return csn_http_same(csn_str_trim(part), name);
}

/* A cookie is for the preview that set it. By path others have the same host, and would be sent it; by name they are
 * its neighbours in the domain. */
static void put_cookie(const csn_req *req, csn_str value, csn_buf *out)
{
    const int prefix = (int) (req->preview_path - req->path);
    csn_str part;

    for (bool is_first = true; csn_str_split(&value, ';', &part); is_first = false) {
        part = csn_str_trim(part);
        if (!is_first && (is_attribute(part, "domain") ||
                          (!req->is_preview_host && is_attribute(part, "path"))))
            continue;
        csn_buf_puts(out, is_first ? "" : "; ");
        csn_buf_append(out, part.data, part.len);
    }
    if (!req->is_preview_host)
        csn_buf_printf(out, "; Path=%.*s/", prefix, req->path);
}

static void put_value(const csn_req *req, const csn_http_header *hd, csn_buf *out)
{
    if (csn_http_same(hd->name, "set-cookie")) {
        put_cookie(req, hd->value, out);
        return;
    }
    if (is_path(hd) && !req->is_preview_host) /* where the client is, as it wrote it */
        csn_buf_append(out, req->path, (size_t) (req->preview_path - req->path));
    csn_buf_append(out, hd->value.data, hd->value.len);
}

void csn_preview_put_lines(const csn_req *req, const csn_http_answer *answer, csn_buf *out)
{
    for (size_t i = 0; i < answer->head.n_headers; i++) {
        const csn_http_header *hd = &answer->head.headers[i];

        if (!is_for_client(answer, hd->name))
            continue;
        csn_buf_append(out, hd->name.data, hd->name.len);
        csn_buf_puts(out, ": ");
        put_value(req, hd, out);
        csn_buf_puts(out, "\r\n");
    }
    if (answer->status == 101)
        csn_buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n",
                       csn_req_header(req, "Upgrade"));
}
