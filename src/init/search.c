/* SPDX-License-Identifier: Apache-2.0 */
/* SEARCH: lines that contain a text. Files are read in pieces of whole lines; of a line longer than a piece only its
 * beginning is kept, and enough of its end to see a match across the border. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

enum { PIECE_BYTES = 256 * 1024, BINARY_LOOK_BYTES = 512 };

static char piece[PIECE_BYTES];
static char long_head[CSN_TEXT_BYTES]; /* of a line longer than a piece */

struct search {
    const char *needle;
    size_t needle_len;
    uint32_t max;
    csn_file_done *done;
    /* of the present file */
    const char *path;
    int64_t line; /* the number of the line that begins at the piece's start */
    size_t long_head_len;
    int in_long, long_matches;
};

static int tell_line(struct search *s, int64_t line, const char *text, size_t len)
{
    if (s->done->value >= s->max) {
        s->done->is_cut = 1;
        return -ECANCELED;
    }
    if (len > 0 && text[len - 1] == '\r')
        len--;
    s->done->value++;
    return csn_tell_match(s->path, line, text, len < CSN_TEXT_BYTES ? len : CSN_TEXT_BYTES);
}

static int64_t count_lines(const char *at, const char *end)
{
    int64_t n = 0;

    while (at < end && (at = memchr(at, '\n', (size_t) (end - at)))) {
        n++;
        at++;
    }
    return n;
}

/* Whole lines, the last one perhaps without its end. */
static int search_lines(struct search *s, const char *at, const char *end)
{
    const char *hit;

    while (at < end && (hit = memmem(at, (size_t) (end - at), s->needle, s->needle_len))) {
        const char *start = memrchr(at, '\n', (size_t) (hit - at));
        const char *stop = memchr(hit, '\n', (size_t) (end - hit));
        int r;
        start = start ? start + 1 : at;
        stop = stop ? stop : end;
        s->line += count_lines(at, start);
        r = tell_line(s, s->line, start, (size_t) (stop - start));
        if (r < 0)
            return r;
        at = stop < end ? stop + 1 : end;
        s->line += stop < end;
    }
    s->line += count_lines(at, end);
    return 0;
}

static void note_long(struct search *s, size_t len)
{
    if (!s->in_long) {
        memcpy(long_head, piece, CSN_TEXT_BYTES);
        s->long_head_len = CSN_TEXT_BYTES;
    }
    s->in_long = 1;
    s->long_matches |= memmem(piece, len, s->needle, s->needle_len) != NULL;
}

/* The piece holds the end of a long line in its first `len` bytes. */
static int end_long(struct search *s, size_t len)
{
    int r = 0;

    note_long(s, len);
    if (s->long_matches)
        r = tell_line(s, s->line, long_head, s->long_head_len);
    s->in_long = s->long_matches = 0;
    s->line++;
    return r;
}

/* Takes what can be decided out of the first `len` bytes; returns how many stay for the next round, or -errno. */
static ssize_t digest(struct search *s, size_t len, int is_end)
{
    size_t start = 0, stop;
    const char *nl;
    int r = 0;

    if (s->in_long) {
        nl = memchr(piece, '\n', len);
        if (nl || is_end) {
            start = nl ? (size_t) (nl + 1 - piece) : len;
            r = end_long(s, nl ? start - 1 : len);
        }
    }
    if (r < 0)
        return r;
    nl = is_end || s->in_long ? NULL : memrchr(piece + start, '\n', len - start);
    stop = is_end ? len : nl ? (size_t) (nl + 1 - piece) : start;
    if (stop > start)
        r = search_lines(s, piece + start, piece + stop);
    if (r < 0)
        return r;
    if (stop == 0 && len == sizeof(piece)) { /* one line fills it all */
        note_long(s, len);
        stop = len - (s->needle_len - 1);
    }
    memmove(piece, piece + stop, len - stop);
    return (ssize_t) (len - stop);
}

/* A zero byte ends the text: with one near the beginning the file is binary, and a hole of a terabyte isn't read (R35). */
static int search_fd(struct search *s, int fd)
{
    size_t len = 0;
    int is_first = 1;

    s->line = 1;
    s->in_long = s->long_matches = 0;
    while (len < sizeof(piece)) { /* always: digest() makes room */
        ssize_t n = read(fd, piece + len, sizeof(piece) - len);
        if (n < 0)
            return errno == EINTR ? -EIO : 0; /* unreadable: passed over */
        const char *zero = memchr(piece + len, '\0', (size_t) n);
        if (is_first && zero && zero - piece < BINARY_LOOK_BYTES)
            return 0;
        is_first = 0;
        len = zero ? (size_t) (zero - piece) : len + (size_t) n;
        if (!csn_is_heard())
            return -EPIPE;
        n = digest(s, len, n == 0 || zero);
        if (n < 0)
            return (int) n;
        if (zero || (n == 0 && len == 0))
            return 0;
        len = (size_t) n;
    }
    return -EIO;
}

static int search_file(struct search *s, int dirfd, const char *name, const char *path, int flags)
{
    int r, fd = csn_open_at(dirfd, name, O_RDONLY | O_NONBLOCK | flags, 0);
    struct stat st;

    if (fd < 0)
        return fd;
    s->path = path;
    r = fstat(fd, &st) < 0 ? -errno : csn_check_regular(&st);
    if (r == 0)
        r = search_fd(s, fd);
    (void) close(fd); /* was only read */
    return r;
}

static int search_one(const csn_found *found, void *user)
{
    int r;

    if (!S_ISREG(found->st.st_mode))
        return 0;
    r = search_file(user, found->dirfd, found->name, found->path, O_NOFOLLOW);
    return r == -EPIPE || r == -ECANCELED || r == -ECONNRESET ? r : 0; /* unreadable: passed over */
}

int csn_verb_search(const csn_filereq *req, csn_file_done *done)
{
    struct search s = {
        .needle = req->arg,
        .needle_len = strlen(req->arg),
        .max = req->max_results ? req->max_results : CSN_RESULTS_DEFAULT,
        .done = done,
    };
    int is_cut = 0, r;

    if (s.needle_len > PIECE_BYTES / 2)
        return -E2BIG;
    r = search_file(&s, AT_FDCWD, req->path, req->path, 0);
    if (r == -EISDIR)
        r = csn_walk_tree(req->path, search_one, &s, &is_cut);
    done->is_cut |= (uint32_t) is_cut;
    return r == -ECANCELED ? 0 : r;
}
