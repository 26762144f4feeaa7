/* SPDX-License-Identifier: Apache-2.0 */
/* LIST: the entries of a directory, and of those below it as deep as was asked. With CSN_LIST_FOLLOW a symlink is told as
 * what it leads to, and not at all when it leads nowhere; the way down never goes through one. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

enum { LINK_BYTES = 4096, DIR_BUF_BYTES = 32 * 1024 };

struct list {
    uint32_t max;
    int depth;
    int follows;
    size_t prefix_len; /* of the walk's paths: what was asked for, and its '/' */
    csn_file_done *done;
};

int csn_tell_stat(int dirfd, const char *name, const char *path, const struct stat *st)
{
    static char target[LINK_BYTES];
    ssize_t n = 0;

    if (S_ISLNK(st->st_mode))
        n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return csn_tell_entry(path, st, target);
}

/* What a symlink leads to. 0 or -errno. */
static int stat_target(int dirfd, const char *name, struct stat *st)
{
    int r, fd = csn_open_at(dirfd, name, O_PATH, 0);

    if (fd < 0)
        return fd;
    r = fstat(fd, st) < 0 ? -errno : 0;
    (void) close(fd); /* was only looked at */
    return r;
}

static int tell_one(struct list *l, int dirfd, const char *name, const char *path,
                    const struct stat *seen)
{
    struct stat st = *seen;
    int r;

    if (l->follows && S_ISLNK(st.st_mode) && stat_target(dirfd, name, &st) < 0)
        return 0;
    if (l->done->value >= l->max) {
        l->done->is_cut = 1;
        return -ECANCELED;
    }
    r = csn_tell_stat(dirfd, name, path, &st);
    if (r == 0)
        l->done->value++;
    return r;
}

static int tell_found(const csn_found *found, void *user)
{
    struct list *l = user;
    int r = tell_one(l, found->dirfd, found->name, found->path + l->prefix_len, &found->st);

    if (r < 0)
        return r;
    return found->depth < (size_t) l->depth ? 0 : CSN_WALK_STAY;
}

/* One buffer of entries. 0 or -errno; what vanished meanwhile is passed over. */
static int tell_batch(struct list *l, int fd, char *buf, long n)
{
    for (long at = 0; at < n;) {
        const csn_dirent *e = (const void *) (buf + at);
        struct stat st;
        int r;
        at += e->size;
        if (csn_is_dots(e->name) || fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        r = tell_one(l, fd, e->name, e->name, &st);
        if (r < 0)
            return r;
    }
    return 0;
}

static int list_flat(struct list *l, const char *path)
{
    static _Alignas(csn_dirent) char buf[DIR_BUF_BYTES];
    int fd = csn_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    long r = 1;

    if (fd < 0)
        return fd;
    while (r > 0) {
        r = csn_sys_getdents(fd, buf, sizeof(buf));
        if (r > 0) {
            int told = tell_batch(l, fd, buf, r);
            r = told < 0 ? told : r;
        }
    }
    (void) close(fd); /* was only read */
    return (int) r;
}

int csn_verb_list(const csn_filereq *req, csn_file_done *done)
{
    struct list l = {
        .max = req->max_results ? req->max_results : CSN_RESULTS_DEFAULT,
        .depth = req->mode,
        .follows = (req->flags & CSN_LIST_FOLLOW) != 0,
        .done = done,
    };
    size_t len = strlen(req->path);
    int r, is_cut = 0;

    l.prefix_len = len + (req->path[len - 1] != '/');
    if (l.depth <= 1)
        r = list_flat(&l, req->path);
    else
        r = csn_walk_tree(req->path, tell_found, &l, &is_cut);
    done->is_cut |= (uint32_t) is_cut;
    return r == -ECANCELED ? 0 : r;
}
