/* What goes into a command: bytes in memory, a descriptor of the host program, or what csn_process_write() brings. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "local/exec.h"

enum { BUFFER_SIZE = 64 * 1024 };

/* A pipe has no MSG_NOSIGNAL, and the signal's disposition is the host program's: block it, take it away if it came. */
ssize_t csn_write_quietly(int fd, const void *data, size_t len)
{
    const struct timespec now = { 0, 0 };
    sigset_t pipe_set, old, pending;
    bool was_pending;
    ssize_t n;

    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    if (pthread_sigmask(SIG_BLOCK, &pipe_set, &old) != 0)
        return -EINVAL;
    n = csn_write(fd, data, len);
    if (n == -EPIPE && !was_pending)
        while (sigtimedwait(&pipe_set, NULL, &now) < 0 && errno == EINTR)
            ;
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL); /* the mask was valid a moment ago */
    return n;
}

void csn_in_close(csn_in_stream *in)
{
    in->source = csn_source_remove(in->source);
    in->from_source = csn_source_remove(in->from_source);
    csn_close(&in->fd);
    free(in->buffer);
    in->buffer = NULL;
}

/* Returns false when it is over, well or not: a command that closed its stdin is not an error. */
static bool pump_bytes(csn_in_stream *in)
{
    while (in->len > 0) {
        ssize_t n = csn_write_quietly(in->fd, in->data, in->len);
        if (n == -EAGAIN)
            return true;
        if (n < 0)
            return false;
        in->data += n;
        in->len -= (size_t) n;
    }
    return false;
}

static bool write_held(csn_in_stream *in)
{
    while (in->at < in->held) {
        ssize_t n = csn_write_quietly(in->fd, in->buffer + in->at, in->held - in->at);
        if (n == -EAGAIN)
            return true;
        if (n < 0)
            return false;
        in->at += (size_t) n;
    }
    return true;
}

static bool pump_fd(csn_in_stream *in, bool may_read)
{
    for (;;) {
        if (!write_held(in))
            return false;
        if (in->at < in->held || !may_read)
            return true;
        ssize_t n = csn_read(in->from_fd, in->buffer, BUFFER_SIZE);
        if (n == -EAGAIN)
            return true;
        if (n <= 0)
            return false;
        in->held = (size_t) n;
        in->at = 0;
        may_read = !in->from_source; /* a pipe or terminal may block the second time */
    }
}

/* Waits for the side that is missing: room in the pipe while something is held, else more to read. */
static void rearm(csn_in_stream *in)
{
    bool is_full = in->kind == CSN_STDIN_BYTES || in->at < in->held;

    if (in->source)
        (void) csn_source_mod(in->source, is_full || !in->from_source ? EPOLLOUT : 0);
    if (in->from_source)
        (void) csn_source_mod(in->from_source, is_full ? 0 : EPOLLIN);
}

static void on_room(csn_source *src, uint32_t events, void *user)
{
    csn_in_stream *in = user;
    bool goes_on;

    (void) src;
    if (events & EPOLLERR) /* nobody reads it any more */
        goes_on = false;
    else
        goes_on = in->kind == CSN_STDIN_BYTES ? pump_bytes(in) : pump_fd(in, !in->from_source);
    if (goes_on)
        rearm(in);
    else
        csn_in_close(in);
}

static void on_more(csn_source *src, uint32_t events, void *user)
{
    csn_in_stream *in = user;

    (void) src;
    (void) events;
    if (in->at < in->held) /* a hang-up is reported whether asked for or not; it can wait */
        return;
    if (pump_fd(in, true))
        rearm(in);
    else
        csn_in_close(in);
}

int csn_in_start(csn_in_stream *in)
{
    int r;

    if (in->fd < 0 || in->kind == CSN_STDIN_PIPE)
        return 0;
    if (in->kind == CSN_STDIN_BYTES && !pump_bytes(in)) { /* most of the time it fits at once */
        csn_in_close(in);
        return 0;
    }
    if (in->kind == CSN_STDIN_FD && !(in->buffer = csn_malloc(BUFFER_SIZE)))
        return -ENOMEM;
    r = csn_loop_add(in->loop, in->fd, EPOLLOUT, on_room, in, &in->source);
    if (r < 0 || in->kind != CSN_STDIN_FD)
        return r;
    r = csn_loop_add(in->loop, in->from_fd, EPOLLIN, on_more, in, &in->from_source);
    if (r == -EPERM) /* a regular file: always ready, and epoll doesn't take it */
        r = 0;
    if (r == 0)
        rearm(in);
    return r;
}

int csn_in_open(csn_in_stream *in, csn_loop *loop, const csn_exec_spec *spec, int *ret_far_fd)
{
    int ends[2], r;

    *in = (csn_in_stream){ .kind = spec->stdin_kind, .fd = -1, .from_fd = spec->stdin_fd, .loop = loop };
    if (spec->stdin_kind == CSN_STDIN_NONE)
        return 0;
    in->data = spec->stdin_data;
    in->len = spec->stdin_len;
    if ((r = csn_stdio_pipe(ends)) < 0)
        return r;
    in->fd = ends[1];
    *ret_far_fd = ends[0];
    return csn_fd_nonblock(in->fd, true);
}
