/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a tree of any depth with three descriptors: down into the first directory that is not empty, up again by
 * "..", which must be the directory we came from. Follows no symlink and enters no other mount. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

enum { LEVELS_MAX = 128 * 1024, BUF_BYTES = 16 * 1024 };

static struct place {
    dev_t dev;
    ino_t ino;
} way[LEVELS_MAX];
static size_t depth;

static _Alignas(csn_dirent) char buf[BUF_BYTES];

static int note_place(int fd)
{
    struct stat st;

    if (depth == LEVELS_MAX)
        return -ENAMETOOLONG;
    if (fstat(fd, &st) < 0)
        return -errno;
    way[depth++] = (struct place){ st.st_dev, st.st_ino };
    return 0;
}

static int open_dir(int dirfd, const char *name)
{
    const uint64_t resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;

    return csn_sys_openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, resolve);
}

/* A directory without permissions is ours all the same. */
static int open_dir_anyway(int dirfd, const char *name)
{
    int place, r = open_dir(dirfd, name);

    if (r != -EACCES)
        return r == -EXDEV ? -EBUSY : r;
    place = csn_open_at(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (place < 0)
        return place;
    r = csn_chmod_fd(place, 0700);
    (void) close(place); /* only a place */
    return r < 0 ? r : open_dir(dirfd, name);
}

/* 0: gone; 1: a directory that is not empty; -errno. */
static int remove_once(int fd, const char *name, int is_dir)
{
    if (!is_dir && (unlinkat(fd, name, 0) == 0 || errno == ENOENT))
        return 0;
    if ((is_dir || errno == EISDIR) && (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
        return 0;
    return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

static int remove_entry(int fd, const char *name, int is_dir)
{
    int r = remove_once(fd, name, is_dir);

    if (r == -EACCES && fchmod(fd, 0700) == 0) /* the directory it is in is ours all the same */
        r = remove_once(fd, name, is_dir);
    return r;
}

/* Empties fd up to a directory to go down into, whose name it then returns in the buffer. A directory is tried only when
 * it is the one we just emptied, thus the first we see: to the kernel every try costs as much as the place is deep. */
static int empty_dir(int fd, int has_emptied, const char **ret_down)
{
    long n;

    *ret_down = NULL;
    while (lseek(fd, 0, SEEK_SET) == 0 && (n = csn_sys_getdents(fd, buf, sizeof(buf))) != 0) {
        int n_seen = 0;
        if (n < 0)
            return (int) n;
        for (long at = 0; at < n;) {
            const csn_dirent *e = (const void *) (buf + at);
            int is_dir = e->type == DT_DIR, r;
            at += e->size;
            if (csn_is_dots(e->name))
                continue;
            n_seen++;
            r = is_dir && !has_emptied ? 1 : remove_entry(fd, e->name, is_dir);
            if (r < 0)
                return r;
            if (r > 0) {
                *ret_down = e->name;
                return 0;
            }
            has_emptied = has_emptied && !is_dir;
        }
        if (n_seen == 0)
            return 0;
    }
    return 0;
}

/* ".." needs a directory that may be searched; its mode does not matter any more. */
static int open_up(int fd)
{
    int up = csn_open_at(fd, "..", O_RDONLY | O_DIRECTORY, 0);

    if (up == -EACCES && fchmod(fd, 0700) == 0)
        up = csn_open_at(fd, "..", O_RDONLY | O_DIRECTORY, 0);
    return up;
}

static int climb(int *fd)
{
    struct stat st;
    int up = open_up(*fd);

    (void) close(*fd); /* empty now */
    *fd = up;
    if (up < 0)
        return up;
    if (fstat(up, &st) < 0)
        return -errno;
    depth--;
    /* Somebody moved what we were in: not the tree we were asked to remove. */
    return way[depth - 1].dev == st.st_dev && way[depth - 1].ino == st.st_ino ? 0 : -EBUSY;
}

static int descend(int *fd, const char *name)
{
    int r, next = open_dir_anyway(*fd, name);

    if (next < 0)
        return next == -ENOENT || next == -ENOTDIR ? 0 : next; /* changed meanwhile: look again */
    (void) close(*fd);                                         /* ".." leads back */
    *fd = next;
    r = note_place(next);
    return r;
}

int csn_remove_tree(int dirfd, const char *name)
{
    const char *down;
    int r, has_emptied = 0, fd = open_dir_anyway(dirfd, name);
    unsigned n_turns = 0;

    if (fd < 0)
        return fd;
    depth = 0;
    r = note_place(fd);
    while (r == 0) {
        if (++n_turns % 256 == 0 && !csn_is_heard()) {
            r = -EPIPE;
            break;
        }
        r = empty_dir(fd, has_emptied, &down);
        if (r < 0 || (!down && depth == 1))
            break;
        has_emptied = down == NULL;
        r = down ? descend(&fd, down) : climb(&fd);
    }
    if (fd >= 0)
        (void) close(fd); /* empty, or given up */
    if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
        r = -errno;
    return r;
}
