/* SPDX-License-Identifier: Apache-2.0 */
/* Names: which are ours, what the client called us, who it is.
 *
 * A page of a foreign site can make a browser send requests here, under a name of that site which its DNS suddenly
 * points at us. So a request must call us by a name that we know, by an address, or by a name of loopback; and a page that
 * opens a WebSocket must come from here too. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/req_private.h"

static csn_str authority_of(const char *url)
{
    const char *start = strstr(url, "://");

    start = start ? start + 3 : url;
    return csn_str_n(start, strcspn(start, "/?#"));
}

static bool is_same_name(csn_str name, csn_str host)
{
    csn_str other, port;

    return csn_url_host(host, &other, &port) == 0 && other.len == name.len &&
           strncasecmp(other.data, name.data, name.len) == 0;
}

static bool is_listed(const char *list, csn_str name)
{
    csn_str rest = csn_str_of(list), part;

    while (list && csn_str_split(&rest, ',', &part))
        if (is_same_name(name, csn_str_trim(part)))
            return true;
    return false;
}

bool csn_host_is_ours(const csn_listener *listener, csn_str host)
{
    const csn_config *config = &listener->server->config;
    csn_str name, port;

    if (csn_url_host(host, &name, &port) < 0)
        return false;
    if (config->is_proxy_trusted) /* which names lead here is the proxy's business */
        return true;
    if (csn_host_is_loopback(name) || csn_host_is_address(name))
        return true;
    return (config->public_url && is_same_name(name, authority_of(config->public_url))) ||
           (config->listen && is_same_name(name, csn_str_of(config->listen))) ||
           is_same_name(name, csn_str_of(listener->host_name)) || is_listed(config->hosts, name);
}

static const char *forwarded(const csn_req *req, const char *name)
{
    return csn_req_server(req)->config.is_proxy_trusted ? csn_req_header(req, name) : NULL;
}

static csn_str host_of(const csn_req *req)
{
    const char *host = forwarded(req, "X-Forwarded-Host");
    csn_str first;

    if (host && csn_http_list_at(csn_str_of(host), 0, &first))
        return first;
    return req->host;
}

bool csn_origin_is_fine(const csn_req *req, const char *origin)
{
    const csn_config *config = &csn_req_server(req)->config;
    csn_str name, port, host = host_of(req), ours, our_port;

    if (!origin)
        return true;
    if (!strstr(origin, "://") || csn_url_host(authority_of(origin), &name, &port) < 0)
        return false;
    if (csn_host_is_loopback(name))
        return true;
    if (config->public_url && is_same_name(name, authority_of(config->public_url)))
        return true;
    return csn_url_host(host, &ours, &our_port) == 0 && is_same_name(name, host);
}

static char *make_origin(const csn_req *req)
{
    const csn_config *config = &csn_req_server(req)->config;
    const char *proto = forwarded(req, "X-Forwarded-Proto");
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_str host = host_of(req), name, port;

    if (config->public_url) {
        csn_buf_puts(&url, config->public_url);
        while (url.len > 0 && url.data[url.len - 1] == '/')
            csn_buf_truncate(&url, url.len - 1);
        return csn_buf_take(&url, NULL);
    }
    if (csn_url_host(host, &name, &port) < 0)
        host = csn_str_of(config->listen ? config->listen : "127.0.0.1");
    csn_buf_puts(&url, proto && strcasecmp(proto, "https") == 0 ? "https://" : "http://");
    csn_buf_append(&url, host.data, host.len);
    return csn_buf_take(&url, NULL);
}

const char *csn_req_origin(const csn_req *req)
{
    csn_req *mine = (csn_req *) (uintptr_t) req; /* it remembers the text; nothing else changes */

    if (!mine->origin)
        mine->origin = make_origin(req);
    return mine->origin ? mine->origin : "";
}

/* The last line's last word is what our own proxy saw; whatever stands before it anyone can write. */
static bool take_forwarded(const csn_req *req, char *out, size_t size)
{
    const char *value = NULL;
    csn_str part, last = { "", 0 };

    for (size_t i = 0; i < req->n_headers; i++)
        if (strcasecmp(req->headers[i].name, "X-Forwarded-For") == 0)
            value = req->headers[i].value;
    csn_str rest = csn_str_of(value);
    while (value && csn_str_split(&rest, ',', &part))
        last = csn_str_trim(part);
    return csn_host_is_address(last) && csn_str_copy(out, size, last) == 0;
}

const char *csn_req_peer(const csn_req *req)
{
    csn_req *mine = (csn_req *) (uintptr_t) req; /* it remembers the text; nothing else changes */

    if (forwarded(req, "X-Forwarded-For"))
        (void) take_forwarded(req, mine->peer, sizeof(mine->peer)); /* else: the proxy's own */
    return req->peer;
}
