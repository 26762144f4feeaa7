/* SPDX-License-Identifier: Apache-2.0 */
/* MOVE where the kernel can't rename: onto another mount, or a directory of a read-only layer. A copy is made beside the
 * target, renamed to it, and then the source is removed. Owners, other names of a file and extended attributes are not
 * carried over; modes and times are. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

static int copy_bytes(int from, int to)
{
    for (;;) {
        ssize_t n = sendfile(to, from, NULL, 1 << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        if (!csn_is_heard())
            return -EPIPE;
    }
}

static int copy_file(int from_dir, const char *from, int to_dir, const char *to)
{
    int in, r, out = -1;
    struct stat st;

    in = csn_open_at(from_dir, from, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    if (in < 0)
        return in;
    r = fstat(in, &st) < 0 ? -errno : csn_check_regular(&st);
    if (r == 0)
        r = out = csn_open_at(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (r >= 0)
        r = copy_bytes(in, out);
    if (r == 0 && fchmod(out, st.st_mode & 0777) < 0)
        r = -errno;
    if (r == 0)
        (void) futimens(out, (struct timespec[]){ st.st_atim, st.st_mtim }); /* a courtesy */
    (void) close(in);                                                        /* was only read */
    if (out >= 0)
        (void) close(out); /* write errors were told by sendfile() */
    return r;
}

static int copy_link(int from_dir, const char *from, int to_dir, const char *to)
{
    char target[4096];
    ssize_t n = readlinkat(from_dir, from, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to_dir, to) < 0 ? -errno : 0;
}

/* Anything but the contents of a directory. */
static int copy_node(int from_dir, const char *from, int to_dir, const char *to,
                     const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        return copy_file(from_dir, from, to_dir, to);
    if (S_ISLNK(st->st_mode))
        return copy_link(from_dir, from, to_dir, to);
    if (S_ISDIR(st->st_mode))
        return mkdirat(to_dir, to, 0700) < 0 ? -errno : 0;
    if (S_ISFIFO(st->st_mode))
        return mknodat(to_dir, to, S_IFIFO | (st->st_mode & 0777), 0) < 0 ? -errno : 0;
    return 0; /* a socket without its program is nothing */
}

struct copy {
    int to_dir;        /* the new top */
    size_t prefix_len; /* of the walk's paths, up to and with the '/' behind the top */
};

static int copy_one(const csn_found *found, void *user)
{
    const struct copy *c = user;

    return copy_node(found->dirfd, found->name, c->to_dir, found->path + c->prefix_len, &found->st);
}

static int dress_one(const csn_found *found, void *user)
{
    const struct copy *c = user;
    const char *to = found->path + c->prefix_len;

    if (!S_ISDIR(found->st.st_mode) || (found->st.st_mode & 0777) == 0700)
        return 0;
    return fchmodat(c->to_dir, to, found->st.st_mode & 01777, 0) < 0 ? -errno : 0;
}

/* Works from inside the source's directory, so that the walk's paths are "./name/…". */
static int copy_tree(const char *from, int to_dir, const char *to, const struct stat *st)
{
    char start[260] = "./";
    struct copy c = { .prefix_len = strlen(from) + 3 };
    int is_cut = 0, r;

    memcpy(start + 2, from, strlen(from) + 1);
    c.to_dir = csn_open_at(to_dir, to, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (c.to_dir < 0)
        return c.to_dir;
    r = csn_walk_tree(start, copy_one, &c, &is_cut);
    if (r == 0)
        r = csn_walk_tree(start, dress_one, &c, &is_cut);
    if (r == 0)
        r = csn_chmod_fd(c.to_dir, st->st_mode & 01777);
    (void) close(c.to_dir); /* only a place */
    return r < 0 ? r : is_cut ? -EBUSY : 0;
}

int csn_move_by_copy(int from_dir, const char *from, int to_dir, const char *to, unsigned how)
{
    char temp[32];
    struct stat st;
    int r, fd = -1;

    if ((how & RENAME_NOREPLACE) && fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST; /* before all the work; the rename looks again */
    /* A name nobody has: the file itself is not wanted. */
    r = csn_temp_file(to_dir, temp, &fd);
    if (r < 0)
        return r;
    (void) close(fd);
    (void) unlinkat(to_dir, temp, 0);
    if (fchdir(from_dir) < 0 || fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    r = copy_node(from_dir, from, to_dir, temp, &st);
    if (r == 0 && S_ISDIR(st.st_mode))
        r = copy_tree(from, to_dir, temp, &st);
    if (r == 0)
        r = csn_sys_rename(to_dir, temp, to_dir, to, how);
    if (r < 0 && unlinkat(to_dir, temp, 0) < 0 && errno == EISDIR)
        (void) csn_remove_tree(to_dir, temp); /* the source is untouched */
    if (r < 0)
        return r;
    if (unlinkat(from_dir, from, 0) == 0)
        return 0;
    return errno == EISDIR ? csn_remove_tree(from_dir, from) : -errno;
}
