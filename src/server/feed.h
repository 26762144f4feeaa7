/* SPDX-License-Identifier: Apache-2.0 */
/* The writing end of a pipe whose other end is given to a command: what does not fit waits here, up to a ceiling. SIGPIPE
 * must be ignored by the process. */
#ifndef CSN_SERVER_FEED_H
#define CSN_SERVER_FEED_H

#include "base/buf.h"
#include "base/loop.h"

typedef struct csn_feed {
    int fd; /* -1: closed, by us or because nobody reads any more */
    csn_source *source;
    csn_loop *loop;
    csn_buf data;
} csn_feed;

#define CSN_FEED_INIT \
    { \
        .fd = -1, .data = CSN_BUF_INIT \
    }

/* Makes the pipe; the reading end is the caller's to hand on and close. max: bytes that may wait. 0 or -errno. */
int csn_feed_open(csn_feed *feed, csn_loop *loop, size_t max, int *ret_far_fd);
/* All of it or nothing: 0, -EPIPE (nobody reads), -E2BIG (too much waits), -ENOMEM. */
int csn_feed_write(csn_feed *feed, const void *data, size_t len);
void csn_feed_close(csn_feed *feed); /* what waits is dropped */

#endif
