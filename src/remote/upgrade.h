/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP of a WebSocket's beginning (RFC 6455, 4): curl makes the connection, these two make it a socket. No I/O. */
#ifndef CSN_REMOTE_UPGRADE_H
#define CSN_REMOTE_UPGRADE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { CSN_UPGRADE_HEAD_MAX = 32 * 1024 };

/* "GET /path HTTP/1.1", Host and what every upgrade has; the caller adds header lines and the empty one. `url` is one that
 * csn_web_is_url() takes. 0, -EINVAL (a user part, no host) or -ENOMEM. */
int csn_upgrade_request(csn_buf *out, const char *url, const char *key);

typedef struct csn_upgrade_answer {
    int status;
    size_t head_len;  /* what follows is the socket's */
    bool is_switched; /* 101, with `accept` and the right words */
} csn_upgrade_answer;

/* 1: the whole head is there; 0: not yet; -EBADMSG: that is no HTTP/1.1, or its head has no end. */
int csn_upgrade_parse(const char *data, size_t len, const char *accept, csn_upgrade_answer *ret);

#endif
