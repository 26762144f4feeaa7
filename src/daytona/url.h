/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of a service: taken apart as far as it matters who may see the key, put together without surprises. */
#ifndef CSN_DAYTONA_URL_H
#define CSN_DAYTONA_URL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

typedef struct csn_origin { /* views into the URL */
    bool is_https;
    csn_str host; /* as written, without brackets */
    unsigned port;
} csn_origin;

/* "http[s]://host[:port][/…]", no user part, no query, no fragment. 0 or -EINVAL. */
int csn_origin_parse(const char *url, csn_origin *ret);

bool csn_origin_is_loopback(const csn_origin *origin); /* 127.0.0.0/8, ::1, localhost */

/* Whether the key that is for `api` may go to `other`, a place that `api` named: its own origin; or both are read by nobody
 * on the way. Both are URLs that csn_origin_parse() takes. */
bool csn_url_may_have_key(const char *api, const char *other);

/* Appends text as one segment or query value: everything but unreserved characters as %XX. */
int csn_url_escape(csn_buf *out, const char *text);

#endif
