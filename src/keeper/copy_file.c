/* SPDX-License-Identifier: Apache-2.0 */
#include "copy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"

#define CLONE_FILE _IOW(0x94, 9, int) /* FICLONE; <linux/fs.h> fights with <sys/mount.h> */

enum { PIECE_BYTES = 256 << 10, LINKS_MAX = 1 << 16 };

static int copy_by_hand(int src, int dst, int64_t at, int64_t end)
{
    static char piece[PIECE_BYTES];

    while (at < end) {
        size_t want = end - at < PIECE_BYTES ? (size_t) (end - at) : PIECE_BYTES;
        ssize_t n = pread(src, piece, want, at), done = 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0; /* shorter than it said */
        while (done < n) {
            ssize_t w = pwrite(dst, piece + done, (size_t) (n - done), at + done);
            if (w < 0 && errno != EINTR)
                return -errno;
            done += w > 0 ? w : 0;
        }
        at += n;
    }
    return 0;
}

static int copy_range(int src, int dst, int64_t at, int64_t end)
{
    off_t from = at, to = at;

    while (from < end) {
        ssize_t n = copy_file_range(src, &from, dst, &to, (size_t) (end - from), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
            return copy_by_hand(src, dst, from, end);
        if (n <= 0)
            return n < 0 ? -errno : 0;
    }
    return 0;
}

int csn_file_copy(int src, int dst, int64_t size)
{
    int64_t at = 0;
    int r = 0;

    if (size == 0 || ioctl(dst, CLONE_FILE, src) == 0)
        return 0;
    while (r == 0 && at < size) {
        int64_t data = lseek(src, at, SEEK_DATA), hole;
        if (data < 0 && errno == ENXIO)
            break; /* only a hole is left */
        if (data < 0)
            data = at; /* a file system that can't tell */
        hole = lseek(src, data, SEEK_HOLE);
        if (hole < 0 || hole > size)
            hole = size;
        r = copy_range(src, dst, data, hole);
        at = hole > at ? hole : size;
    }
    return r == 0 && ftruncate(dst, size) < 0 ? -errno : r;
}

/* --- links -------------------------------------------------------------------------------------------------------- */

struct csn_link {
    dev_t dev;
    ino_t ino;
    char *path; /* of the first copy, below the root */
};

int csn_links_begin(csn_links *links, int root_fd)
{
    *links = (csn_links){ .root_fd = root_fd };
    return 0;
}

static struct csn_link *find(csn_links *links, const struct stat *st)
{
    for (size_t i = 0; i < links->n; i++)
        if (links->table[i].ino == st->st_ino && links->table[i].dev == st->st_dev)
            return &links->table[i];
    return NULL;
}

bool csn_links_try(csn_links *links, const struct stat *st, int dir, const char *name)
{
    const struct csn_link *l = find(links, st);

    return l && linkat(links->root_fd, l->path, dir, name, 0) == 0;
}

/* Where the copy is, as the kernel sees it: no path has to be carried through the walk. */
static char *path_below(int root_fd, int dir, const char *name)
{
    char link[64], root[4096], path[4096 + 256];
    ssize_t n, len;

    (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", root_fd); /* fits */
    n = readlink(link, root, sizeof(root) - 1);
    (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
    len = readlink(link, path, 4095);
    if (n <= 0 || len < n || memcmp(root, path, (size_t) n) != 0)
        return NULL;
    path[len] = '\0';
    if ((size_t) snprintf(path + len, sizeof(path) - (size_t) len, "/%s", name) >=
        sizeof(path) - (size_t) len)
        return NULL;
    return csn_strdup(path + n + 1);
}

void csn_links_add(csn_links *links, const struct stat *st, int dir, const char *name)
{
    if (links->n >= LINKS_MAX)
        return;
    if (links->n == links->cap) {
        size_t cap = links->cap ? links->cap * 2 : 64;
        struct csn_link *table = csn_realloc_array(links->table, cap, sizeof(*table));
        if (!table)
            return;
        links->table = table;
        links->cap = cap;
    }
    char *path = path_below(links->root_fd, dir, name);
    if (path)
        links->table[links->n++] = (struct csn_link){ st->st_dev, st->st_ino, path };
}

void csn_links_done(csn_links *links)
{
    for (size_t i = 0; i < links->n; i++)
        free(links->table[i].path);
    free(links->table);
    *links = (csn_links){ .root_fd = -1 };
}
