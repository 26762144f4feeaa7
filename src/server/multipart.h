/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data, both ways, without ever holding a part.
 *
 * Reader: feed it the body in pieces of any size; it calls back at each part's head, with each piece of its bytes and at
 * its end. Only the last few bytes that may be the start of a boundary are carried over. Writer: the heads of parts and
 * the end; the bytes of a part go straight from its file to the socket. */
#ifndef CSN_SERVER_MULTIPART_H
#define CSN_SERVER_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

typedef struct csn_multipart csn_multipart;

/* Of one part; strings live until on_end returned. */
typedef struct csn_part {
    const char *name;         /* Content-Disposition's name; "" if there was none */
    const char *filename;     /* filename* wins over filename; NULL: no file */
    const char *content_type; /* NULL: none given */
} csn_part;

typedef struct csn_multipart_events {
    /* Each returns 0 to go on or a negative number that ends the parse and is what feed returns. */
    int (*on_part)(const csn_part *part, void *user);
    int (*on_data)(const csn_part *part, const char *data, size_t len, void *user);
    int (*on_end)(const csn_part *part, void *user);
} csn_multipart_events;

enum { CSN_PART_HEAD_MAX = 16 << 10, CSN_PARTS_MAX = 20000, CSN_BOUNDARY_MAX = 70 };

/* content_type: the request's header. 0, -EINVAL (not multipart/form-data, or a bad boundary) or -ENOMEM. */
int csn_multipart_new(const char *content_type, const csn_multipart_events *events, void *user,
                      csn_multipart **ret);
csn_multipart *csn_multipart_free(csn_multipart *m); /* always NULL */
/* 0, -EBADMSG (malformed), -E2BIG (a part's head, or their number), -ENOMEM, or what a callback returned. Sticky. */
int csn_multipart_feed(csn_multipart *m, const char *data, size_t len);
/* The body is complete: 0, or -EBADMSG if the closing boundary was missing. */
int csn_multipart_finish(csn_multipart *m);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

enum { CSN_BOUNDARY_SIZE = 48 };
/* A boundary of 128 random bits. 0 or -errno. */
int csn_multipart_boundary(char out[CSN_BOUNDARY_SIZE]);
/* Appends the head of a part: name "file" or "error", the path as filename (Latin-1 with '_' for the rest) and as
 * filename* (UTF-8, percent-encoded: decodes to exactly `path`). length < 0: no Content-Length. is_first: no CRLF before. */
void csn_multipart_put_head(csn_buf *out, const char *boundary, bool is_first, const char *name,
                            const char *path, const char *content_type, int64_t length);
/* Appends the closing boundary. is_empty: no part was written. */
void csn_multipart_put_end(csn_buf *out, const char *boundary, bool is_empty);

#endif
