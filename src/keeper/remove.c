/* SPDX-License-Identifier: Apache-2.0 */
/* Removing trees that are enemy ground. Depth does not matter: a directory found in a directory is moved up next to
 * its parent, so the walk never goes deeper than one level, and every directory is moved at most once. */

#include "remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kern/dents.h"
#include "kern/userns.h"

struct removal {
    int top;
    dev_t dev;
    unsigned n_moved;
};

/* Its owner may have taken all rights away, also from himself. */
static int open_dir(int dirfd, const char *name, dev_t dev, int *ret_fd)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    csn_auto(fd) int fd = openat(dirfd, name, flags);
    struct stat st;

    if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0)
        fd = openat(dirfd, name, flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (dev && st.st_dev != dev)
        return -EXDEV;
    if ((st.st_mode & 0700) != 0700 && fchmod(fd, 0700) < 0)
        return -errno;
    *ret_fd = csn_take_fd(&fd);
    return 0;
}

static int move_up(struct removal *r, int dir, const char *name)
{
    char up[32];

    for (int tries = 0; tries < 1000; tries++) {
        (void) snprintf(up, sizeof(up), ".csn-%u", r->n_moved++); /* fits */
        if (renameat(dir, name, r->top, up) == 0)
            return 0;
        if (errno == EACCES && fchmodat(dir, name, 0700, 0) == 0 &&
            renameat(dir, name, r->top, up) == 0)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return -errno;
    }
    return -EEXIST;
}

static int empty_child(struct removal *r, const char *name);

/* One entry of `dir`, which is the top or a child of it. */
static int remove_entry(struct removal *r, int dir, const char *name, unsigned char type)
{
    if (type != DT_DIR && unlinkat(dir, name, 0) == 0)
        return 0;
    if (type != DT_DIR && errno != EISDIR)
        return errno == ENOENT ? 0 : -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES)
        return errno == ENOENT ? 0 : -errno;
    return dir == r->top ? empty_child(r, name) : move_up(r, dir, name);
}

/* Walks `dir` once. Returns how many entries it had, or -errno. */
static int empty_once(struct removal *r, int dir)
{
    unsigned char type;
    const char *name;
    csn_dents dents;
    int seen = 0, e;

    csn_dents_begin(&dents, dir);
    e = csn_dents_seek(&dents, 0);
    while (e == 0 && (e = csn_dents_next(&dents, &name, &type)) > 0) {
        seen = seen < INT32_MAX ? seen + 1 : seen;
        e = remove_entry(r, dir, name, type);
    }
    return e < 0 ? e : seen;
}

/* Removing while listing may skip entries: again until nothing is found. */
static int empty_dir(struct removal *r, int dir)
{
    int n;

    do
        n = empty_once(r, dir);
    while (n > 0);
    return n;
}

static int empty_child(struct removal *r, const char *name)
{
    csn_auto(fd) int child = -1;
    int e = open_dir(r->top, name, r->dev, &child);

    if (e == 0)
        e = empty_dir(r, child);
    if (e == 0 && unlinkat(r->top, name, AT_REMOVEDIR) < 0)
        e = -errno;
    return e;
}

int csn_tree_remove(int dirfd, const char *name)
{
    csn_auto(fd) int top = -1;
    struct removal removal = { .top = -1 };
    struct stat st;
    int e;

    e = open_dir(dirfd, name, 0, &top);
    if (e == -ENOTDIR || e == -ELOOP)
        return unlinkat(dirfd, name, 0) < 0 ? -errno : 0;
    if (e < 0)
        return e;
    if (fstat(top, &st) < 0)
        return -errno;
    removal.top = top;
    removal.dev = st.st_dev;
    e = empty_dir(&removal, top);
    if (e == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
        e = -errno;
    return e;
}

/* Without privilege the files of "root inside" belong to subordinate ids: only their user namespace has power over
 * them. Ordinary ones are the caller's own, but rights may be missing on directories: handled above. */
static int enter_ids(csn_error *err)
{
    uint32_t start = 0, n = 0;
    csn_idmap uids[2], gids[2];
    csn_auto(fd) int ns = -1;

    if (geteuid() == 0 || csn_subid_find("/etc/subuid", geteuid(), NULL, 1, &start, &n) < 0)
        return CSN_OK;
    uids[0] = (csn_idmap){ 0, geteuid(), 1 };
    uids[1] = (csn_idmap){ 1, start, n };
    if (csn_subid_find("/etc/subgid", geteuid(), NULL, 1, &start, &n) < 0)
        return CSN_OK;
    gids[0] = (csn_idmap){ 0, getegid(), 1 };
    gids[1] = (csn_idmap){ 1, start, n };
    /* Not installed or refused: then no file can belong to them either. */
    if (csn_userns_make(uids, 2, gids, 2, &ns) < 0)
        return CSN_OK;
    if (setns(ns, CLONE_NEWUSER) < 0)
        return csn_fail_sys(err, -errno, "enter a user namespace with the subordinate ids");
    return CSN_OK;
}

int csn_remove_run(csn_keeper *k, csn_error *err)
{
    csn_auto(fd) int state = openat(AT_FDCWD, k->plan.state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (state < 0)
        return csn_fail_sys(err, -errno, "open the state directory '%s'", k->plan.state_dir);
    r = csn_tree_remove(state, k->plan.target);
    if (r == -EACCES || r == -EPERM) {
        int in = enter_ids(err);
        if (in != CSN_OK)
            return in;
        r = csn_tree_remove(state, k->plan.target);
    }
    return r < 0 && r != -ENOENT ? csn_fail_sys(err, r, "remove '%s'", k->plan.target) : CSN_OK;
}
