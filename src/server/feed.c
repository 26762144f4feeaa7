/* SPDX-License-Identifier: Apache-2.0 */
#include "server/feed.h"

#include <errno.h>
#include <sys/epoll.h>

#include "base/fd.h"

void csn_feed_close(csn_feed *feed)
{
    feed->source = csn_source_remove(feed->source);
    csn_close(&feed->fd);
    csn_buf_free(&feed->data);
}

static void pump(csn_feed *feed)
{
    while (feed->data.len > 0) {
        ssize_t n = csn_write(feed->fd, feed->data.data, feed->data.len);
        if (n == -EAGAIN)
            break;
        if (n < 0) { /* nobody reads it any more: no mistake of ours */
            csn_feed_close(feed);
            return;
        }
        csn_buf_consume(&feed->data, (size_t) n);
    }
    if (feed->data.len == 0)
        csn_buf_free(&feed->data); /* a large one is not kept for the next */
    if (csn_source_mod(feed->source, feed->data.len > 0 ? EPOLLOUT : 0) < 0)
        csn_feed_close(feed);
}

static void on_writable(csn_source *src, uint32_t events, void *user)
{
    (void) src;
    if (events & EPOLLERR)
        csn_feed_close(user);
    else
        pump(user);
}

int csn_feed_write(csn_feed *feed, const void *data, size_t len)
{
    size_t before = feed->data.len;
    int r = feed->fd < 0 ? -EPIPE : csn_buf_append(&feed->data, data, len);

    if (r < 0) {
        feed->data.error = 0;
        csn_buf_truncate(&feed->data, before);
        return r;
    }
    pump(feed);
    return feed->fd < 0 ? -EPIPE : 0;
}

int csn_feed_open(csn_feed *feed, csn_loop *loop, size_t max, int *ret_far_fd)
{
    int ends[2], r = csn_stdio_pipe(ends);

    if (r < 0)
        return r;
    *feed = (csn_feed){ .fd = ends[1], .loop = loop, .data = CSN_BUF_INIT_MAX(max) };
    r = csn_fd_nonblock(ends[1], true);
    if (r == 0)
        r = csn_loop_add(loop, ends[1], 0, on_writable, feed, &feed->source);
    if (r < 0) {
        csn_close(&ends[0]);
        csn_close(&feed->fd);
        return r;
    }
    *ret_far_fd = ends[0];
    return 0;
}
