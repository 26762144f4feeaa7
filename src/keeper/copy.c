/* SPDX-License-Identifier: Apache-2.0 */
/* Copying the upper layers of a sandbox (frozen, or stopped) into a layer. The walk keeps a list of the directories it
 * stands in, each with the names still to be copied; a directory gets its times when it is left. */

#include "copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fault.h"
#include "copy_file.h"
#include "kern/dents.h"
#include "kern/overlay.h"
#include "loop.h"
#include "remove.h"

enum { NAMES_MAX = 256 << 20, DEPTH_MAX = 10000 };

struct level {
    struct level *up;
    int src, dst; /* -1 on levels far up: opened again through ".." when the walk returns */
    struct stat st;
    csn_buf names; /* each with its NUL */
    size_t at;
};

struct copying {
    csn_copy_ids ids;
    csn_links links;
    unsigned depth;
};

static bool moves_owners(const struct copying *c)
{
    return c->ids.count || c->ids.all;
}

static uid_t moved(const struct copying *c, uid_t id)
{
    if (c->ids.all)
        return c->ids.all->uid;
    return c->ids.to +
           (id >= c->ids.from && id - c->ids.from < c->ids.count ? id - c->ids.from : 0);
}

/* --- what is left of a file besides its bytes --------------------------------------------------------------------- */

static bool is_wanted_attr(const char *name)
{
    static const char *const of_upper_only[] = { "user.overlay.origin", "user.overlay.impure",
                                                 "user.overlay.nlink", "user.overlay.upper",
                                                 "user.overlay.uuid" };

    if (strncmp(name, "user.", 5) != 0)
        return false;
    for (size_t i = 0; i < CSN_COUNT(of_upper_only); i++)
        if (!strcmp(name, of_upper_only[i]))
            return false;
    return true;
}

static int copy_attrs(int src, int dst)
{
    static char list[64 << 10], value[64 << 10];
    ssize_t n = flistxattr(src, list, sizeof(list));

    if (n < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (ssize_t at = 0; at < n; at += (ssize_t) strlen(list + at) + 1) {
        ssize_t len;
        if (!is_wanted_attr(list + at))
            continue;
        len = fgetxattr(src, list + at, value, sizeof(value));
        if (len == 1 && value[0] == 'x' && !strcmp(list + at, "user.overlay.opaque"))
            continue; /* csn_whiteout_make() sets it where it is needed */
        if (len < 0 || fsetxattr(dst, list + at, value, (size_t) len, 0) < 0)
            return -errno;
    }
    return 0;
}

/* Owner first: changing it takes set-user-ID bits away. */
static int dress(const struct copying *c, int src, int dst, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    int r;

    if (moves_owners(c) && fchown(dst, moved(c, st->st_uid), moved(c, st->st_gid)) < 0)
        return -errno;
    r = copy_attrs(src, dst);
    if (r < 0)
        return r;
    return fchmod(dst, st->st_mode & 07777) < 0 || futimens(dst, times) < 0 ? -errno : 0;
}

static int dress_by_name(const struct copying *c, int dir, const char *name, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };

    if (moves_owners(c) &&
        fchownat(dir, name, moved(c, st->st_uid), moved(c, st->st_gid), AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* --- one entry ---------------------------------------------------------------------------------------------------- */

static int copy_symlink(const struct copying *c, const struct level *l, const char *name,
                        const struct stat *st)
{
    char target[4096];
    ssize_t n = readlinkat(l->src, name, target, sizeof(target));

    if (n < 0 || (size_t) n >= sizeof(target))
        return n < 0 ? -errno : -ENAMETOOLONG;
    target[n] = '\0';
    return symlinkat(target, l->dst, name) < 0 ? -errno : dress_by_name(c, l->dst, name, st);
}

static int copy_node(const struct copying *c, const struct level *l, const char *name,
                     const struct stat *st)
{
    bool is_whiteout = S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);

    int r;

    if (is_whiteout)
        r = csn_whiteout_make(l->dst, name);
    else if (S_ISFIFO(st->st_mode))
        r = mknodat(l->dst, name, S_IFIFO | (st->st_mode & 0777), 0) < 0 ? -errno : 0;
    else
        return 0; /* sockets and devices mean nothing in a layer */
    return r < 0 ? r : dress_by_name(c, l->dst, name, st);
}

static int copy_regular(struct copying *c, const struct level *l, const char *name,
                        const struct stat *st)
{
    csn_auto(fd) int src = -1, dst = -1;
    int r;

    if (st->st_nlink > 1 && csn_links_try(&c->links, st, l->dst, name))
        return 0;
    src = openat(l->src, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOATIME);
    if (src < 0 && errno == EPERM)
        src = openat(l->src, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (src < 0)
        return -errno;
    if (st->st_size == 0 && csn_whiteout_is_file(src)) {
        r = csn_whiteout_make(l->dst, name);
        return r < 0 ? r : dress_by_name(c, l->dst, name, st);
    }
    dst = openat(l->dst, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (dst < 0)
        return -errno;
    r = csn_file_copy(src, dst, st->st_size);
    if (r == 0)
        r = dress(c, src, dst, st);
    if (r == 0 && st->st_nlink > 1)
        csn_links_add(&c->links, st, l->dst, name);
    return r;
}

/* --- the walk ----------------------------------------------------------------------------------------------------- */

static int list_names(struct level *l)
{
    csn_dents dents;
    const char *name;
    int r;

    l->names = (csn_buf) CSN_BUF_INIT_MAX(NAMES_MAX);
    csn_dents_begin(&dents, l->src);
    while ((r = csn_dents_next(&dents, &name, NULL)) > 0)
        (void) csn_buf_append(&l->names, name, strlen(name) + 1); /* sticky */
    return r < 0 ? r : l->names.error;
}

static void free_level(struct level *l)
{
    csn_close(&l->src);
    csn_close(&l->dst);
    csn_buf_free(&l->names);
    free(l);
}

/* Takes both descriptors. */
static int push(struct copying *c, struct level **top, int src, int dst)
{
    struct level *l = c->depth < DEPTH_MAX ? csn_calloc(1, sizeof(*l)) : NULL;
    int r;

    if (!l) {
        csn_close(&src);
        csn_close(&dst);
        return c->depth < DEPTH_MAX ? -ENOMEM : -ELOOP;
    }
    l->src = src;
    l->dst = dst;
    r = fstat(src, &l->st) < 0 ? -errno : list_names(l);
    if (r < 0) {
        free_level(l);
        return r;
    }
    if (*top) { /* one pair of descriptors for any depth */
        csn_close(&(*top)->src);
        csn_close(&(*top)->dst);
    }
    l->up = *top;
    *top = l;
    c->depth++;
    return 0;
}

static int enter(struct copying *c, struct level **top, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    csn_auto(fd) int src = openat((*top)->src, name, flags), dst = -1;

    if (src < 0)
        return -errno;
    if (mkdirat((*top)->dst, name, 0700) < 0)
        return -errno;
    dst = openat((*top)->dst, name, flags);
    if (dst < 0)
        return -errno;
    return push(c, top, csn_take_fd(&src), csn_take_fd(&dst));
}

/* The way back up; the source is frozen and the copy ours, and still it is looked at. */
static int reopen(struct level *up, const struct level *from)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    struct stat st;

    up->src = openat(from->src, "..", flags);
    up->dst = openat(from->dst, "..", flags);
    if (up->src < 0 || up->dst < 0 || fstat(up->src, &st) < 0)
        return -errno;
    return st.st_ino == up->st.st_ino && st.st_dev == up->st.st_dev ? 0 : -ESTALE;
}

static int leave(struct copying *c, struct level **top)
{
    struct level *l = *top;
    int r = dress(c, l->src, l->dst, &l->st);

    if (r == 0 && l->up)
        r = reopen(l->up, l);
    *top = l->up;
    c->depth--;
    free_level(l);
    return r;
}

static int copy_entry(struct copying *c, struct level **top, const char *name)
{
    struct level *l = *top;
    struct stat st;

    if (fstatat(l->src, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return enter(c, top, name);
    if (S_ISREG(st.st_mode))
        return copy_regular(c, l, name, &st);
    return S_ISLNK(st.st_mode) ? copy_symlink(c, l, name, &st) : copy_node(c, l, name, &st);
}

int csn_tree_copy(int src_fd, int dst_fd, csn_copy_ids ids)
{
    struct copying c = { .ids = ids };
    struct level *top = NULL;
    int src = csn_fd_dup(src_fd, 3), dst = csn_fd_dup(dst_fd, 3);
    int r = csn_links_begin(&c.links, dst_fd);

    if (r == 0)
        r = src < 0 ? src : dst < 0 ? dst : push(&c, &top, src, dst);
    while (r == 0 && top) {
        if (top->at >= top->names.len) {
            r = leave(&c, &top);
            continue;
        }
        const char *name = top->names.data + top->at;
        top->at += strlen(name) + 1;
        r = copy_entry(&c, &top, name);
    }
    while (top) {
        struct level *l = top;
        top = l->up;
        free_level(l);
    }
    csn_links_done(&c.links);
    return r;
}

/* --- the plan's mode ---------------------------------------------------------------------------------------------- */

static int copy_part(csn_keeper *k, int src, int dst, const char *part, csn_error *err)
{
    const csn_copy_ids ids = { .from = (uint32_t) k->plan.id_base,
                               .count = k->plan.id_base > 0 ? CSN_INSIDE_IDS : 0,
                               .all = k->owner.is_other ? &k->owner : NULL };
    char path[32];
    csn_auto(fd) int from = -1, to = -1;
    int r;

    (void) snprintf(path, sizeof(path), "%s/upper", part); /* root or usr: fits */
    from = openat(src, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return errno == ENOENT ? CSN_OK
                               : csn_fail_sys(err, -errno, "open the sandbox's '%s'", path);
    if (mkdirat(dst, part, 0700) < 0)
        return csn_fail_sys(err, -errno, "make '%s' in layer '%s'", part, k->plan.target);
    to = openat(dst, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (to < 0)
        return csn_fail_sys(err, -errno, "open '%s' in layer '%s'", part, k->plan.target);
    r = csn_tree_copy(from, to, ids);
    return r < 0 ? csn_fail_sys(err, r, "copy the sandbox's '%s'", path) : CSN_OK;
}

static int copy_parts(csn_keeper *k, int src, int state, const char *target, csn_error *err)
{
    csn_auto(fd) int dst = -1;
    int r;

    if (mkdirat(state, target, 0700) < 0 && errno != EEXIST)
        return csn_fail_sys(err, -errno, "make layer '%s'", k->plan.target);
    dst = openat(state, target, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dst < 0)
        return csn_fail_sys(err, -errno, "open layer '%s'", k->plan.target);
    r = copy_part(k, src, dst, "root", err);
    if (r == CSN_OK)
        r = copy_part(k, src, dst, "usr", err);
    if (r == CSN_OK && syncfs(dst) < 0)
        r = csn_fail_sys(err, -errno, "write layer '%s' to disk", k->plan.target);
    return r;
}

/* The disk of a stopped sandbox may be an image: what is copied are the files in it. */
static int open_image(int *src)
{
    struct stat st;
    int mounted = -1, r;

    if (fstat(*src, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    r = csn_loop_mount(*src, &mounted);
    if (r < 0)
        return r;
    csn_close(src);
    *src = mounted;
    return 0;
}

int csn_copy_run(csn_keeper *k, csn_msg *msg, csn_error *err)
{
    csn_auto(fd) int src = csn_msg_take_fd(msg, 0), ns = csn_msg_take_fd(msg, 1), state = -1;
    const char *why_not;
    char target[4096];
    int r;

    if (src < 0)
        return csn_fail(err, CSN_E_PROTOCOL, "a copy needs the descriptor of its source");
    r = open_image(&src);
    if (r < 0)
        return csn_fail_sys(err, r, "mount the sandbox's disk image");
    /* A bare name is a layer's; other places below the state directory are named in full. */
    if (snprintf(target, sizeof(target), "%s%s", strchr(k->plan.target, '/') ? "" : "layers/",
                 k->plan.target) >= (int) sizeof(target))
        return csn_fail(err, CSN_E_INVALID, "the name of the copy is too long");
    state = openat(AT_FDCWD, k->plan.state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return csn_fail_sys(err, -errno, "open the state directory '%s'", k->plan.state_dir);
    if (k->plan.id_base == 0 && (why_not = csn_way_owner(&k->owner)))
        return csn_fail(err, CSN_E_UNSUPPORTED, "%s", why_not);
    /* The caller's own files may be closed even to him; in the sandbox's user namespace he has power over them. Those of
     * other ids are there for a root only, who needs no more than it has. */
    if (k->plan.id_base == 0 && !k->owner.is_other && ns >= 0 && setns(ns, CLONE_NEWUSER) < 0)
        return csn_fail_sys(err, -errno, "enter the sandbox's user namespace");
    r = copy_parts(k, src, state, target, err);
    if (r != CSN_OK)
        (void) csn_tree_remove(state, target); /* half a layer is none */
    return r;
}
