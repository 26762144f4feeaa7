/* SPDX-License-Identifier: Apache-2.0 */
/* A walk through a tree with one open directory at a time, so that depth costs memory and not descriptors: each level
 * keeps where it was in its directory, and ".." leads back. And FIND, its simplest user. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

enum { LEVELS_MAX = CSN_PATH_BYTES / 2, BUF_BYTES = 8 * 1024 };

static struct level {
    dev_t dev;
    ino_t ino;
    int64_t off; /* where reading goes on */
    size_t path_len;
} levels[LEVELS_MAX];

static char path_buf[CSN_PATH_BYTES];
static _Alignas(csn_dirent) char buf[BUF_BYTES];

struct csn_walk {
    csn_walk_fn *fn;
    void *user;
    int fd;
    size_t depth;    /* levels in use */
    size_t path_len; /* of the present directory */
    unsigned n_seen;
    int is_cut;
};

static int push(csn_walk *w, size_t path_len)
{
    struct stat st;

    if (w->depth == LEVELS_MAX)
        return -ENAMETOOLONG;
    if (fstat(w->fd, &st) < 0)
        return -errno;
    levels[w->depth++] = (struct level){ st.st_dev, st.st_ino, 0, path_len };
    w->path_len = path_len;
    return 0;
}

/* Back to the parent. A directory that was moved away under us has no way back: the walk ends here, cut short. */
static int pop(csn_walk *w)
{
    const struct level *up;
    struct stat st;
    int fd;

    if (--w->depth == 0)
        return 0;
    up = &levels[w->depth - 1];
    fd = csn_open_at(w->fd, "..", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    (void) close(w->fd); /* done with it */
    w->fd = fd;
    if (fstat(fd, &st) < 0 || st.st_dev != up->dev || st.st_ino != up->ino) {
        w->is_cut = 1;
        w->depth = 0;
        return 0;
    }
    if (lseek(fd, up->off, SEEK_SET) < 0)
        return -errno;
    w->path_len = up->path_len;
    path_buf[w->path_len] = '\0';
    return 0;
}

/* The kernel's own tables are no files of the sandbox, and they change while one reads. */
static int is_procfs(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* 1: we are in it now; 0: it is passed over; -errno. */
static int enter(csn_walk *w, const char *name, size_t path_len, int64_t off)
{
    int fd = csn_sys_openat(w->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, 0);
    int r;

    if (fd < 0)
        return 0; /* may not be read, or vanished */
    if (w->depth == LEVELS_MAX || is_procfs(fd)) {
        w->is_cut |= w->depth == LEVELS_MAX;
        (void) close(fd); /* not entered */
        return 0;
    }
    levels[w->depth - 1].off = off;
    (void) close(w->fd); /* ".." leads back */
    w->fd = fd;
    r = push(w, path_len);
    return r < 0 ? r : 1;
}

/* 1: entered a directory, the buffer is stale. */
static int visit(csn_walk *w, const csn_dirent *e)
{
    size_t name_len = strlen(e->name), len = w->path_len;
    csn_found found = { .dirfd = w->fd, .name = e->name, .path = path_buf, .depth = w->depth };
    int r;

    if (++w->n_seen % 256 == 0 && !csn_is_heard())
        return -EPIPE;
    if (len + name_len + 2 > sizeof(path_buf)) {
        w->is_cut = 1; /* too deep to be told */
        return 0;
    }
    if (len == 0 || path_buf[len - 1] != '/')
        path_buf[len++] = '/';
    memcpy(path_buf + len, e->name, name_len + 1);
    if (fstatat(w->fd, e->name, &found.st, AT_SYMLINK_NOFOLLOW) < 0)
        r = 0; /* vanished */
    else
        r = w->fn(&found, w->user);
    if (r == CSN_WALK_STAY)
        r = 0;
    else if (r == 0 && S_ISDIR(found.st.st_mode))
        r = enter(w, e->name, len + name_len, e->off);
    if (r <= 0)
        path_buf[w->path_len] = '\0';
    return r;
}

/* Reads on in the present directory. 1: went into another; 0: it is finished; -errno. */
static int read_on(csn_walk *w)
{
    long n;

    while ((n = csn_sys_getdents(w->fd, buf, sizeof(buf))) > 0)
        for (long at = 0; at < n;) {
            const csn_dirent *e = (const void *) (buf + at);
            int r;
            at += e->size;
            r = csn_is_dots(e->name) ? 0 : visit(w, e);
            if (r != 0)
                return r;
        }
    return n < 0 && w->depth == 1 ? (int) n : 0;
}

int csn_walk_tree(const char *path, csn_walk_fn *fn, void *user, int *ret_is_cut)
{
    csn_walk w = { .fn = fn, .user = user };
    int r;

    if (strlen(path) + 1 >= sizeof(path_buf))
        return -ENAMETOOLONG;
    memcpy(path_buf, path, strlen(path) + 1);
    w.fd = csn_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (w.fd < 0)
        return w.fd;
    r = push(&w, strlen(path));
    while (r == 0 && w.depth > 0) {
        r = read_on(&w);
        if (r == 0)
            r = pop(&w);
        else if (r > 0)
            r = 0;
    }
    (void) close(w.fd); /* was only read */
    *ret_is_cut |= w.is_cut;
    return r;
}

/* --- FIND --------------------------------------------------------------------------------------------------------- */

struct find {
    const char *pattern;
    uint32_t max;
    csn_file_done *done;
};

static int find_one(const csn_found *found, void *user)
{
    static char target[4096];
    struct find *f = user;
    ssize_t n = 0;
    int r;

    if (fnmatch(f->pattern, found->name, 0) != 0)
        return 0;
    if (f->done->value >= f->max) {
        f->done->is_cut = 1;
        return -ECANCELED;
    }
    if (S_ISLNK(found->st.st_mode))
        n = readlinkat(found->dirfd, found->name, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    r = csn_tell_entry(found->path, &found->st, target);
    f->done->value++;
    return r;
}

int csn_verb_find(const csn_filereq *req, csn_file_done *done)
{
    struct find f = { req->arg, req->max_results ? req->max_results : CSN_RESULTS_DEFAULT, done };
    int is_cut = 0, r = csn_walk_tree(req->path, find_one, &f, &is_cut);

    done->is_cut |= (uint32_t) is_cut;
    return r == -ECANCELED ? 0 : r;
}
