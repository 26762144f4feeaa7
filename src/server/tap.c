/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "base/fd.h"

enum { PIECE = 64 << 10, DRAIN_MAX = 2 << 20 };

void csn_tap_close(csn_tap *tap)
{
    tap->source = csn_source_remove(tap->source);
    csn_close(&tap->fd);
    if (tap->is_gone)
        *tap->is_gone = true;
    tap->is_gone = NULL;
}

/* One piece: bytes given, 0 when the tap is closed (and maybe freed), -EAGAIN when nothing is there. */
static ssize_t give_piece(csn_tap *tap)
{
    char data[PIECE] __attribute__((uninitialized)); /* zeroing it would cost more than reading */
    ssize_t n = tap->fd < 0 ? 0 : csn_read(tap->fd, data, sizeof(data));
    bool is_gone = false, *outer = tap->is_gone; /* fn may drain us in its turn */

    if (n == -EAGAIN)
        return n;
    if (n <= 0) {
        bool was_open = tap->fd >= 0;
        csn_tap_close(tap);
        if (was_open)
            tap->fn(tap, NULL, 0, tap->user);
        return 0;
    }
    tap->is_gone = &is_gone;
    tap->fn(tap, data, (size_t) n, tap->user);
    if (is_gone && outer)
        *outer = true;
    if (is_gone)
        return 0;
    tap->is_gone = outer;
    return n;
}

static void on_readable(csn_source *src, uint32_t events, void *user)
{
    (void) src;
    (void) events;
    (void) give_piece(user); /* one at a time: others have their turn */
}

bool csn_tap_drain(csn_tap *tap)
{
    ssize_t n = 1;

    for (ssize_t total = 0; n > 0 && total < DRAIN_MAX; total += n)
        n = give_piece(tap);
    return n != 0;
}

void csn_tap_pause(csn_tap *tap, bool is_paused)
{
    if (is_paused)
        tap->source = csn_source_remove(tap->source);
    else if (!tap->source && tap->fd >= 0 &&
             csn_loop_add(tap->loop, tap->fd, EPOLLIN, on_readable, tap, &tap->source) < 0)
        csn_tap_close(tap); /* nobody would ever read it: the writer should know */
}

int csn_tap_open(csn_tap *tap, csn_loop *loop, csn_tap_fn *fn, void *user, int *ret_far_fd)
{
    int ends[2], r = csn_stdio_pipe(ends);

    if (r < 0)
        return r;
    *tap = (csn_tap){ .fd = ends[0], .loop = loop, .fn = fn, .user = user };
    r = csn_fd_nonblock(ends[0], true);
    if (r == 0)
        r = csn_loop_add(loop, ends[0], EPOLLIN, on_readable, tap, &tap->source);
    if (r < 0) {
        csn_close(&ends[1]);
        csn_close(&tap->fd);
        return r;
    }
    *ret_far_fd = ends[1];
    return 0;
}
