/* SPDX-License-Identifier: Apache-2.0 */
/* REPLACE: reads the file once, writes a new one beside it and renames. Memory does not grow with the file; a match may
 * lie across the border of two reads, since what could begin one is kept for the next. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "init/worker.h"

enum { IN_BYTES = 256 * 1024, OUT_BYTES = 64 * 1024 };
/* The whole file is written anew, holes too: a sparse terabyte would fill the disk (R35). */
#define FILE_BYTES_MAX (INT64_C(1) << 30)

static char in[IN_BYTES], out[OUT_BYTES];

struct replace {
    const char *from, *to;
    size_t from_len, to_len;
    int fd; /* of the new file */
    size_t out_len;
    int64_t n;
};

static int flush_out(struct replace *p)
{
    int r = csn_write_all(p->fd, out, p->out_len);

    p->out_len = 0;
    return r;
}

static int emit(struct replace *p, const char *data, size_t len)
{
    int r = 0;

    if (len > sizeof(out) - p->out_len)
        r = flush_out(p);
    if (r < 0 || len == 0)
        return r;
    if (len > sizeof(out))
        return csn_write_all(p->fd, data, len);
    memcpy(out + p->out_len, data, len);
    p->out_len += len;
    return 0;
}

/* Returns how many bytes at the end of in[0 … len) must wait for what follows, or -errno. */
static ssize_t rewrite_piece(struct replace *p, size_t len, int is_end)
{
    const char *at = in, *end = in + len, *hit;
    size_t keep;
    int r;

    while ((hit = memmem(at, (size_t) (end - at), p->from, p->from_len))) {
        r = emit(p, at, (size_t) (hit - at));
        if (r == 0)
            r = emit(p, p->to, p->to_len);
        if (r < 0)
            return r;
        p->n++;
        at = hit + p->from_len;
    }
    keep = (size_t) (end - at);
    if (is_end)
        keep = 0;
    else if (keep > p->from_len - 1)
        keep = p->from_len - 1;
    r = emit(p, at, (size_t) (end - at) - keep);
    if (r < 0)
        return r;
    memmove(in, end - keep, keep);
    return (ssize_t) keep;
}

static int rewrite(struct replace *p, int fd)
{
    size_t len = 0;

    for (;;) {
        ssize_t keep, n = read(fd, in + len, sizeof(in) - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        keep = rewrite_piece(p, len + (size_t) n, n == 0);
        if (keep < 0)
            return (int) keep;
        if (n == 0)
            return flush_out(p);
        if (!csn_is_heard())
            return -EPIPE;
        len = (size_t) keep;
    }
}

/* The new file looks like the old one, but for its contents. */
static int dress(int fd, const struct stat *st)
{
    if ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
        fchown(fd, st->st_uid, st->st_gid) < 0 && errno != EPERM)
        return -errno; /* EPERM: not root; then it becomes ours, as with any editor */
    return fchmod(fd, st->st_mode & 0777) < 0 ? -errno : 0;
}

static int replace_in(struct replace *p, int dirfd, const char *name, int fd, const struct stat *st)
{
    char temp[32];
    int r = csn_temp_file(dirfd, temp, &p->fd);

    if (r < 0)
        return r;
    r = rewrite(p, fd);
    if (r == 0 && p->n > 0)
        r = dress(p->fd, st);
    (void) close(p->fd); /* written through write(), which told of every error */
    if (r == 0 && p->n > 0)
        r = renameat(dirfd, temp, dirfd, name) < 0 ? -errno : 0;
    if (r < 0 || p->n == 0)
        (void) unlinkat(dirfd, temp, 0); /* nothing to change, or it failed: the old file stays */
    return r;
}

static int replace_at(struct replace *p, int dirfd, const char *name)
{
    int r, fd = csn_open_at(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    struct stat st;

    if (fd < 0)
        return fd;
    r = fstat(fd, &st) < 0 ? -errno : csn_check_regular(&st);
    if (r == 0 && st.st_size > FILE_BYTES_MAX)
        r = -EFBIG;
    if (r == 0 && faccessat(dirfd, name, W_OK, 0) < 0)
        r = -errno; /* renaming over it would pass by its mode */
    if (r == 0)
        r = replace_in(p, dirfd, name, fd, &st);
    (void) close(fd); /* was only read */
    return r;
}

int csn_verb_replace(const csn_filereq *req, csn_file_done *done)
{
    struct replace p = { .from = req->arg,
                         .to = req->arg2,
                         .from_len = strlen(req->arg),
                         .to_len = strlen(req->arg2),
                         .fd = -1 };
    char name[256];
    int r, dirfd;

    if (p.from_len > IN_BYTES / 2)
        return -E2BIG;
    r = csn_open_real_parent(req->path, name, &dirfd);
    if (r < 0)
        return r == -EINVAL ? -EISDIR : r;
    r = replace_at(&p, dirfd, name);
    (void) close(dirfd); /* only a place */
    done->value = r == 0 ? p.n : 0;
    return r;
}
