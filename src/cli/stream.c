#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "out.h"
#include "session.h"

void cli_stream_init(cli_stream *s, int fd, bool raw)
{
    *s = (cli_stream){ .fd = fd, .is_escaped = !raw && cli_is_terminal(fd) };
}

/* Blocks when the reader is slow, which holds up the program inside: that is the back-pressure. A signal to us ends the
 * wait, so that a stalled reader can't keep us from cleaning up. */
static void put_all(cli_stream *s, const char *data, size_t len)
{
    while (len > 0 && !s->is_broken) {
        ssize_t n = write(s->fd, data, len);

        if (n >= 0) {
            data += n;
            len -= (size_t) n;
        } else if (errno == EAGAIN) {
            struct pollfd p = { .fd = s->fd, .events = POLLOUT };

            if (poll(&p, 1, -1) < 0 && cli_signal_pending())
                return;
        } else if (errno != EINTR) {
            s->is_broken = true;
            cli_output_failed(s->fd, -errno);
        } else if (cli_signal_pending()) {
            return;
        }
    }
}

/* How many bytes at the end are the beginning of a character. */
static size_t cut_tail(const char *data, size_t len)
{
    for (size_t n = 1; n <= 3 && n <= len; n++) {
        unsigned c;
        unsigned char first = (unsigned char) data[len - n];

        if (first >= 0xc0)
            return csn_utf8_next(data + len - n, n, &c) < 0 ? n : 0;
        if (first < 0x80)
            return 0;
    }
    return 0;
}

void cli_stream_put(cli_stream *s, const char *data, size_t len)
{
    csn_auto(buf) csn_buf in = CSN_BUF_INIT;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    if (s->is_broken || !len)
        return;
    if (!s->is_escaped) {
        put_all(s, data, len);
        return;
    }
    csn_buf_append(&in, s->held, s->n_held);
    csn_buf_append(&in, data, len);
    if (in.error < 0)
        cli_out_of_memory();
    s->n_held = cut_tail(in.data, in.len);
    memcpy(s->held, in.data + in.len - s->n_held, s->n_held);
    if (csn_escape_terminal(in.data, in.len - s->n_held, &out) < 0)
        cli_out_of_memory();
    put_all(s, out.data, out.len);
}

void cli_stream_finish(cli_stream *s)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    if (!s->n_held)
        return;
    (void) csn_escape_terminal(s->held, s->n_held,
                               &out); /* four bytes; on failure nothing is shown */
    s->n_held = 0;
    put_all(s, out.data, out.len);
}
