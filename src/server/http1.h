/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 requests as bytes: a strict reader without I/O and without memory of its own. What two readers could
 * understand differently is refused, since one of them may be a proxy in front of us. */
#ifndef CSN_SERVER_HTTP1_H
#define CSN_SERVER_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

enum {
    CSN_HTTP_LINE_MAX = 8 << 10,  /* the request line: 414 */
    CSN_HTTP_HEAD_MAX = 64 << 10, /* all lines of the head: 431 */
    CSN_HTTP_HEADERS_MAX = 100,   /* 431 */
};

typedef struct csn_http_header {
    csn_str name, value; /* the value without spaces around it */
} csn_http_header;

/* Borrowed from the bytes it was read from. */
typedef struct csn_http_head {
    csn_str method, target, host;
    int minor;              /* of HTTP/1.x: 0 or 1 */
    int64_t content_length; /* -1: none given */
    bool is_chunked, is_keep_alive, expects_continue, is_upgrade;
    size_t n_headers;
    csn_http_header headers[CSN_HTTP_HEADERS_MAX];
} csn_http_head;

/* Where the search for a head's end stands; zero at its first byte. */
typedef struct csn_http_scan {
    size_t at, line;
} csn_http_scan;

/* Empty lines that may stand before a request: how many bytes to skip. */
size_t csn_http_skip_empty(const char *data, size_t len);

/* The length of the head with its empty line; 0: more bytes are needed; negative: the status to refuse it with. `data`
 * is all of it so far; what was looked at isn't looked at again. */
ssize_t csn_http_scan_head(csn_http_scan *scan, const char *data, size_t len);

/* Reads a complete head: 0, or the status to refuse it with (400, 431, 505). */
int csn_http_parse_head(const char *data, size_t len, csn_http_head *ret);

/* The i-th part of a comma-separated list, trimmed; false: no more. Empty parts are skipped. */
bool csn_http_list_at(csn_str list, size_t i, csn_str *ret);
/* Is `token` one of a comma-separated list? The case does not matter. */
bool csn_http_list_has(csn_str list, const char *token);
bool csn_http_same(csn_str a, const char *b); /* equal but for case (ASCII) */

/* A request's body: cut out of the stream. */
typedef struct csn_http_body {
    int64_t left; /* of the whole body or of this chunk */
    uint16_t n_line;
    uint8_t state;
    bool is_chunked;
} csn_http_body;

void csn_http_body_init(csn_http_body *body, const csn_http_head *head);
/* All that comes until the connection ends. */
void csn_http_body_endless(csn_http_body *body);
bool csn_http_body_is_done(const csn_http_body *body);
/* Takes framing and at most one piece of the body from `data`: returns how many bytes were used (ret_piece lies among
 * them, maybe empty), or -EBADMSG. Uses all of `data` unless a piece or the body ended in it. */
ssize_t csn_http_body_take(csn_http_body *body, const char *data, size_t len, csn_str *ret_piece);

#endif
