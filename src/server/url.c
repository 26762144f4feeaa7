/* SPDX-License-Identifier: Apache-2.0 */
#include "server/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char) (c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static int split_segments(csn_url *url)
{
    csn_str rest = csn_str_n(url->path.data + 1, url->path.len - 1), part;

    while (csn_str_split(&rest, '/', &part)) {
        if (!rest.data && part.len == 0)
            break; /* "/a/" is "/a" */
        if (url->n_segments == CSN_URL_SEGMENTS_MAX)
            return -EBADMSG;
        url->segments[url->n_segments++] = part;
    }
    return 0;
}

/* What a client sends that takes us for a proxy; servers must understand it. */
static void take_authority(csn_str *target, csn_url *url)
{
    const size_t n = 7;

    if (target->len < n || strncasecmp(target->data, "http://", n) != 0)
        return;
    csn_str rest = csn_str_n(target->data + n, target->len - n);
    ptrdiff_t slash = csn_str_find(rest, '/');
    if (slash <= 0)
        return;
    url->authority = csn_str_n(rest.data, (size_t) slash);
    *target = csn_str_n(rest.data + slash, rest.len - (size_t) slash);
}

int csn_url_parse(csn_str target, csn_url *ret)
{
    *ret = (csn_url){ .authority = { "", 0 }, .query = { "", 0 } };
    take_authority(&target, ret);
    if (target.len == 0 || target.data[0] != '/')
        return -EBADMSG;
    ptrdiff_t mark = csn_str_find(target, '?');
    ret->path = mark < 0 ? target : csn_str_n(target.data, (size_t) mark);
    if (mark >= 0)
        ret->query = csn_str_n(target.data + mark + 1, target.len - (size_t) mark - 1);
    return split_segments(ret);
}

ssize_t csn_url_decode(csn_str raw, bool is_query, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.data[i];

        if (c == '%') {
            int high = raw.len - i > 2 ? hex_of(raw.data[i + 1]) : -1;
            int low = raw.len - i > 2 ? hex_of(raw.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return -EBADMSG;
            c = (char) (high * 16 + low);
            i += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        if (c == '\0')
            return -EBADMSG;
        out[n++] = c;
    }
    out[n] = '\0';
    return (ssize_t) n;
}

static ssize_t decode_pair(csn_str part, csn_url_pair *ret, char *out)
{
    ptrdiff_t eq = csn_str_find(part, '=');
    csn_str key = eq < 0 ? part : csn_str_n(part.data, (size_t) eq);
    csn_str value =
        eq < 0 ? csn_str_n("", 0) : csn_str_n(part.data + eq + 1, part.len - (size_t) eq - 1);
    ssize_t n = csn_url_decode(key, true, out);

    if (n < 0)
        return n;
    ret->key = out;
    ret->value = out + n + 1;
    ssize_t m = csn_url_decode(value, true, out + n + 1);
    return m < 0 ? m : n + m + 2;
}

ssize_t csn_url_pairs(csn_str query, csn_url_pair *pairs, size_t max, char *out)
{
    csn_str part;
    size_t n = 0;

    while (csn_str_split(&query, '&', &part)) {
        if (part.len == 0)
            continue;
        if (n == max)
            return -EBADMSG;
        ssize_t used = decode_pair(part, &pairs[n], out);
        if (used < 0)
            return used;
        out += used;
        n++;
    }
    return (ssize_t) n;
}

static bool is_host_char(char c)
{
    return is_unreserved((unsigned char) c);
}

static int take_port(csn_str port)
{
    uint64_t n;

    return port.len == 0 || (csn_parse_u64(port, &n) == 0 && n <= 65535) ? 0 : -EBADMSG;
}

int csn_url_host(csn_str host, csn_str *ret_name, csn_str *ret_port)
{
    csn_str rest;
    bool is_v6 = host.len > 0 && host.data[0] == '[';
    ptrdiff_t end = csn_str_find(host, is_v6 ? ']' : ':');

    if (is_v6) {
        if (end < 0)
            return -EBADMSG;
        *ret_name = csn_str_n(host.data + 1, (size_t) end - 1);
        rest = csn_str_n(host.data + end + 1, host.len - (size_t) end - 1);
        if (!csn_host_is_address(*ret_name) || (rest.len > 0 && rest.data[0] != ':'))
            return -EBADMSG;
    } else {
        *ret_name = end < 0 ? host : csn_str_n(host.data, (size_t) end);
        rest = end < 0 ? csn_str_n("", 0) : csn_str_n(host.data + end, host.len - (size_t) end);
        for (size_t i = 0; i < ret_name->len; i++)
            if (!is_host_char(ret_name->data[i]))
                return -EBADMSG;
    }
    *ret_port = rest.len > 0 ? csn_str_n(rest.data + 1, rest.len - 1) : rest;
    return ret_name->len == 0 ? -EBADMSG : take_port(*ret_port);
}

bool csn_host_is_address(csn_str name)
{
    char text[64];
    struct in6_addr addr;

    if (csn_str_copy(text, sizeof(text), name) < 0)
        return false;
    return inet_pton(AF_INET, text, &addr) == 1 || inet_pton(AF_INET6, text, &addr) == 1;
}

bool csn_host_is_loopback(csn_str name)
{
    const char *tail = ".localhost";
    size_t n = strlen(tail);

    if (name.len == n - 1 && strncasecmp(name.data, tail + 1, n - 1) == 0)
        return true;
    if (name.len > n && strncasecmp(name.data + name.len - n, tail, n) == 0)
        return true;
    return csn_str_is(name, "::1") ||
           (csn_str_starts_with(name, CSN_STR("127.")) && csn_host_is_address(name));
}

void csn_url_encode(csn_buf *out, csn_str text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if (is_unreserved(c)) {
            csn_buf_putc(out, (char) c);
            continue;
        }
        csn_buf_putc(out, '%');
        csn_buf_putc(out, digits[c >> 4]);
        csn_buf_putc(out, digits[c & 15]);
    }
}
