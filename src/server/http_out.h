/* SPDX-License-Identifier: Apache-2.0 */
/* What waits to be sent on a connection: bytes and parts of files, in order. Bytes go out at once while nothing waits,
 * so an answer that fits the socket's buffer is never copied. */
#ifndef CSN_SERVER_HTTP_OUT_H
#define CSN_SERVER_HTTP_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"

enum { CSN_OUT_MARK = 64 << 10 }; /* more than this waiting: the writer shall wait too */

typedef struct csn_http_out {
    csn_list segs;
    size_t n_bytes;   /* waiting in memory */
    unsigned n_files; /* waiting as files */
    int64_t n_sent;   /* in all, for the clock that looks for progress */
} csn_http_out;

void csn_http_out_init(csn_http_out *out);
void csn_http_out_done(csn_http_out *out);
bool csn_http_out_is_empty(const csn_http_out *out);

/* Sends what the socket takes and keeps a copy of the rest. 0 or -errno; is_more: something follows at once. */
int csn_http_out_write(csn_http_out *out, int sock, const struct iovec *iov, int n_iov,
                       bool is_more);
/* Queues a part of a file; fd is taken. */
int csn_http_out_file(csn_http_out *out, int fd, int64_t offset, int64_t len);
/* Sends what waits, until the socket is full or a fair share was sent. 0, or -errno (-ENODATA: a file was shorter). */
int csn_http_out_flush(csn_http_out *out, int sock);

#endif
