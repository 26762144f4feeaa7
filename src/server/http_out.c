/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"

enum { SEG_MIN = 4 << 10, FLUSH_SHARE = 4 << 20, IOV_MAX_HERE = 16 };

typedef struct seg {
    csn_list link;
    int fd;              /* -1: bytes */
    int64_t offset, len; /* of the file: what is left */
    size_t at, end, cap; /* of the bytes: data[at … end-1] is left */
    char data[];
} seg;

static seg *seg_of(csn_list *node)
{
    return csn_list_entry(node, seg, link);
}

void csn_http_out_init(csn_http_out *out)
{
    *out = (csn_http_out){ 0 };
    csn_list_init(&out->segs);
}

static bool drop_first(csn_http_out *out)
{
    csn_list *node = csn_list_pop(&out->segs);

    if (!node)
        return false;
    seg *s = seg_of(node);
    if (s->fd >= 0)
        out->n_files--;
    csn_close(&s->fd);
    free(s);
    return true;
}

void csn_http_out_done(csn_http_out *out)
{
    while (drop_first(out))
        ;
    out->n_bytes = 0;
}

bool csn_http_out_is_empty(const csn_http_out *out)
{
    return csn_list_empty(&out->segs);
}

static seg *add_seg(csn_http_out *out, size_t cap)
{
    seg *s = csn_malloc(sizeof(*s) + cap);

    if (!s)
        return NULL;
    *s = (seg){ .fd = -1, .cap = cap };
    csn_list_append(&out->segs, &s->link);
    return s;
}

/* One with room for at least a byte. */
static seg *open_seg(csn_http_out *out, size_t len)
{
    if (!csn_http_out_is_empty(out)) {
        seg *last = seg_of(out->segs.prev);
        if (last->fd < 0 && last->end < last->cap)
            return last;
    }
    return add_seg(out, len > SEG_MIN ? len : SEG_MIN);
}

static int queue_bytes(csn_http_out *out, const char *data, size_t len)
{
    while (len > 0) {
        seg *last = open_seg(out, len);
        if (!last)
            return -ENOMEM;
        size_t n = last->cap - last->end < len ? last->cap - last->end : len;
        memcpy(last->data + last->end, data, n);
        last->end += n;
        out->n_bytes += n;
        data += n;
        len -= n;
    }
    return 0;
}

static ssize_t send_iov(int sock, const struct iovec *iov, int n_iov, bool is_more)
{
    struct msghdr msg = { .msg_iov = (struct iovec *) iov, .msg_iovlen = (size_t) n_iov };
    ssize_t n;

    do {
        n = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | (is_more ? MSG_MORE : 0));
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

int csn_http_out_write(csn_http_out *out, int sock, const struct iovec *iov, int n_iov,
                       bool is_more)
{
    ssize_t sent = 0;

    if (csn_http_out_is_empty(out)) {
        sent = send_iov(sock, iov, n_iov, is_more);
        if (sent < 0 && sent != -EAGAIN)
            return (int) sent;
        sent = sent < 0 ? 0 : sent;
        out->n_sent += sent;
    }
    for (int i = 0; i < n_iov; i++) {
        size_t skip = (size_t) sent < iov[i].iov_len ? (size_t) sent : iov[i].iov_len;
        sent -= (ssize_t) skip;
        int r = queue_bytes(out, (const char *) iov[i].iov_base + skip, iov[i].iov_len - skip);
        if (r < 0)
            return r;
    }
    return 0;
}

int csn_http_out_file(csn_http_out *out, int fd, int64_t offset, int64_t len)
{
    seg *s = add_seg(out, 0);

    if (!s) {
        csn_close(&fd);
        return -ENOMEM;
    }
    s->fd = fd;
    s->offset = offset;
    s->len = len;
    out->n_files++;
    return 0;
}

/* All bytes up to the next file in one call. */
static ssize_t send_bytes(csn_http_out *out, int sock)
{
    struct iovec iov[IOV_MAX_HERE];
    int n = 0;

    csn_list_foreach (node, &out->segs) {
        seg *s = seg_of(node);
        if (s->fd >= 0 || n == IOV_MAX_HERE)
            break;
        iov[n++] = (struct iovec){ s->data + s->at, s->end - s->at };
    }
    return send_iov(sock, iov, n, out->n_files > 0);
}

static void took_bytes(csn_http_out *out, size_t sent)
{
    out->n_bytes -= sent;
    while (sent > 0) {
        seg *s = seg_of(out->segs.next);
        size_t n = s->end - s->at < sent ? s->end - s->at : sent;

        s->at += n;
        sent -= n;
        if (s->at == s->end)
            drop_first(out);
    }
}

static ssize_t send_file(csn_http_out *out, seg *s, int sock)
{
    off_t offset = s->offset;
    size_t want = s->len < (1 << 20) ? (size_t) s->len : 1 << 20;
    ssize_t n = want > 0 ? sendfile(sock, s->fd, &offset, want) : 0;

    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 0 && want > 0)
        return -ENODATA;
    s->offset += n;
    s->len -= n;
    if (s->len == 0)
        drop_first(out);
    return n;
}

int csn_http_out_flush(csn_http_out *out, int sock)
{
    int64_t share = FLUSH_SHARE;

    while (!csn_http_out_is_empty(out) && share > 0) {
        seg *first = seg_of(out->segs.next);
        bool is_file = first->fd >= 0; /* it may be freed by the next line */
        ssize_t n = is_file ? send_file(out, first, sock) : send_bytes(out, sock);

        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return (int) n;
        if (!is_file)
            took_bytes(out, (size_t) n);
        out->n_sent += n;
        share -= n;
    }
    return 0;
}
