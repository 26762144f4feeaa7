/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#include "wire/web.h"

static bool is_host(csn_str host)
{
    for (size_t i = 0; i < host.len; i++)
        if (!isalnum((unsigned char) host.data[i]) && !strchr(".-_:", host.data[i]))
            return false;
    return host.len > 0 && host.len < 256;
}

int csn_origin_parse(const char *url, csn_origin *ret)
{
    csn_origin o = { 0 };
    csn_str rest = csn_str_of(url), authority, port = { 0 };
    uint64_t number;
    size_t end;

    if (!csn_web_is_url(url) || strchr(url, '?') || strchr(url, '#') || strchr(url, '\\'))
        return -EINVAL;
    o.is_https = csn_str_starts_with(rest, CSN_STR("https://"));
    o.port = o.is_https ? 443 : 80;
    rest = csn_str_of(url + (o.is_https ? 8 : 7));
    end = strcspn(rest.data, "/");
    authority = csn_str_n(rest.data, end);
    if (csn_str_find(authority, '@') >= 0)
        return -EINVAL;
    if (authority.len > 0 && authority.data[0] == '[') {
        ptrdiff_t close = csn_str_find(authority, ']');

        if (close < 2)
            return -EINVAL;
        o.host = csn_str_n(authority.data + 1, (size_t) close - 1);
        port = csn_str_n(authority.data + close + 1, authority.len - (size_t) close - 1);
    } else {
        ptrdiff_t colon = csn_str_find(authority, ':');

        o.host = colon < 0 ? authority : csn_str_n(authority.data, (size_t) colon);
        if (colon >= 0)
            port = csn_str_n(authority.data + colon, authority.len - (size_t) colon);
        if (csn_str_find(o.host, ':') >= 0)
            return -EINVAL;
    }
    if (!is_host(o.host))
        return -EINVAL;
    if (port.len > 0) {
        if (port.data[0] != ':' ||
            csn_parse_u64(csn_str_n(port.data + 1, port.len - 1), &number) < 0 || number < 1 ||
            number > 65535)
            return -EINVAL;
        o.port = (unsigned) number;
    }
    *ret = o;
    return 0;
}

static bool is_host_name(csn_str host, const char *name)
{
    return host.len == strlen(name) && strncasecmp(host.data, name, host.len) == 0;
}

/* "127." and three more numbers, nothing else: "127.example.com" is a name. */
bool csn_origin_is_loopback(const csn_origin *o)
{
    csn_str rest = o->host, part;
    uint64_t number;
    int n = 0;

    if (is_host_name(o->host, "localhost") || is_host_name(o->host, "::1"))
        return true;
    while (csn_str_split(&rest, '.', &part)) {
        if (csn_parse_u64(part, &number) < 0 || number > 255 || (n == 0 && number != 127))
            return false;
        n++;
    }
    return n == 4;
}

bool csn_url_may_have_key(const char *api, const char *other)
{
    csn_origin a, b;

    if (csn_origin_parse(api, &a) < 0 || csn_origin_parse(other, &b) < 0)
        return false;
    if (a.is_https == b.is_https && a.port == b.port && a.host.len == b.host.len &&
        strncasecmp(a.host.data, b.host.data, a.host.len) == 0)
        return true;
    return (a.is_https || csn_origin_is_loopback(&a)) && (b.is_https || csn_origin_is_loopback(&b));
}

int csn_url_escape(csn_buf *out, const char *text)
{
    for (; *text; text++)
        if (isalnum((unsigned char) *text) || strchr("-._~", *text))
            csn_buf_putc(out, *text);
        else
            csn_buf_printf(out, "%%%02X", (unsigned) (unsigned char) *text);
    return out->error;
}
