/* SPDX-License-Identifier: Apache-2.0 */
/* A browser opens a page with the token in the query; the page's scripts, pictures and sockets come without. So the answer
 * sets a cookie, for that name alone. Not by path: there pages of all sandboxes share one origin, and each could use the
 * cookies of the others. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/preview.h"
#include "server/req_private.h"

bool csn_preview_is_our_cookie(csn_str part)
{
    static const char prefix[] = CSN_PREVIEW_COOKIE;

    part = csn_str_trim(part);
    return part.len > sizeof(prefix) - 1 && memcmp(part.data, prefix, sizeof(prefix) - 1) == 0;
}

/* A page of another sandbox may be of the same site: what it sends is not this one's wish. Following a link to here is. */
static bool is_of_own_page(const csn_req *req)
{
    const char *origin = csn_req_header(req, "Origin"),
               *site = csn_req_header(req, "Sec-Fetch-Site"),
               *mode = csn_req_header(req, "Sec-Fetch-Mode");
    const bool is_visit = csn_req_method(req) == CSN_GET && mode && csn_streq(mode, "navigate");

    if (origin && strcasecmp(origin, csn_req_origin(req)) != 0)
        return false;
    return !site || csn_streq(site, "same-origin") || csn_streq(site, "none") || is_visit;
}

bool csn_preview_cookie(const csn_req *req, const char *id, char *out, size_t size)
{
    char name[sizeof(CSN_PREVIEW_COOKIE) + 37];
    csn_str rest, part;

    if (!req->is_preview_host || !is_of_own_page(req))
        return false;
    int len = snprintf(name, sizeof(name), CSN_PREVIEW_COOKIE "%s=", id);
    for (size_t i = 0; i < req->n_headers; i++) {
        if (strcasecmp(req->headers[i].name, "Cookie") != 0)
            continue;
        rest = csn_str_of(req->headers[i].value);
        while (csn_str_split(&rest, ';', &part)) {
            part = csn_str_trim(part);
            if (part.len > (size_t) len && memcmp(part.data, name, (size_t) len) == 0)
                return csn_str_copy(out, size,
                                    csn_str_n(part.data + len, part.len - (size_t) len)) == 0;
        }
    }
    return false;
}

void csn_preview_set_cookie(csn_req *req, const char *id, const char *token, int64_t left_ms)
{
    char value[256];
    const bool is_tls = strncmp(csn_req_origin(req), "https://", 8) == 0;

    if (!req->is_preview_host)
        return;
    (void) snprintf(value, sizeof(value),
                    CSN_PREVIEW_COOKIE "%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Lax%s", id,
                    token, (long long) (left_ms / 1000), is_tls ? "; Secure" : ""); /* fits */
    csn_req_add_header(req, "Set-Cookie", value);
}
