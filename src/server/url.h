/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets: the raw path is split at '/' first and each segment decoded after, so that "a%2Fb" is one name. */
#ifndef CSN_SERVER_URL_H
#define CSN_SERVER_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

enum { CSN_URL_SEGMENTS_MAX = 24, CSN_URL_PAIRS_MAX = 512 };

typedef struct csn_url {
    csn_str authority; /* of an absolute target, else empty */
    csn_str path;      /* raw, starts with '/' */
    csn_str query;     /* raw, without '?' */
    size_t n_segments;
    csn_str segments[CSN_URL_SEGMENTS_MAX]; /* raw; a slash at the end makes none */
} csn_url;

/* "/a/b?x=y" or "http://host/a/b?x=y". 0 or -EBADMSG (another form, or too many segments). */
int csn_url_parse(csn_str target, csn_url *ret);

/* Percent-decodes into out[raw.len + 1], NUL-terminated; is_query: '+' is a space. Length, or -EBADMSG for a broken escape
 * or a NUL. May work in place. */
ssize_t csn_url_decode(csn_str raw, bool is_query, char *out);

typedef struct csn_url_pair {
    const char *key, *value;
} csn_url_pair;

/* Decodes a query into at most `max` pairs whose strings lie in out[query.len * 2 + 2]. Their number or -EBADMSG. */
ssize_t csn_url_pairs(csn_str query, csn_url_pair *pairs, size_t max, char *out);

/* "name", "name:80", "1.2.3.4:80", "[::1]:80" as in a Host header: the name without brackets. 0 or -EBADMSG. */
int csn_url_host(csn_str host, csn_str *ret_name, csn_str *ret_port);

/* Does the name always mean this machine, whatever any DNS says? */
bool csn_host_is_loopback(csn_str name);
/* An IPv4 or IPv6 address written as one. */
bool csn_host_is_address(csn_str name);

/* Appends text, percent-encoded but for unreserved characters. */
void csn_url_encode(csn_buf *out, csn_str text);

#endif
