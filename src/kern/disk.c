/* SPDX-License-Identifier: Apache-2.0 */
/* How much a tree takes on disk (watch.h). The tree changes while we look, by hostile hands. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "dents.h"
#include "watch.h"

#define MAX_DEPTH 1024

#define KEPT 16 /* levels whose directories stay open */

/* The first levels are a stack of open directories. Below them one slot is shared: the way back up is
 * "..", believed only if it leads to the directory we came from. */
struct walk {
    csn_disk_usage usage;
    uint64_t max_entries;
    dev_t dev;
    int depth;
    struct {
        ino_t inode;
        int64_t position;
    } up[MAX_DEPTH];
    int fd[KEPT + 1]; /* owned, -1: unused */
    csn_dents dents[KEPT + 1];
};

static int slot_of(int depth)
{
    return depth < KEPT ? depth : KEPT;
}

static void use(struct walk *w, int fd)
{
    int slot = slot_of(w->depth);

    csn_close(&w->fd[slot]);
    w->fd[slot] = fd;
    csn_dents_begin(&w->dents[slot], fd);
}

static void descend(struct walk *w, const char *name)
{
    struct stat here, st;
    int slot = slot_of(w->depth), fd;

    if (w->depth + 1 == MAX_DEPTH || fstat(w->fd[slot], &here) < 0) {
        w->usage.is_partial = true;
        return;
    }
    fd = openat(w->fd[slot], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        w->usage.is_partial = w->usage.is_partial || errno != ENOENT;
        return;
    }
    if (fstat(fd, &st) < 0 || st.st_dev != w->dev) { /* a mount came between */
        csn_close(&fd);
        return;
    }
    w->up[w->depth].inode = here.st_ino;
    w->up[w->depth++].position = w->dents[slot].next;
    use(w, fd);
}

/* False when the walk can't go on. */
static bool ascend(struct walk *w)
{
    struct stat st;
    int fd;

    if (w->depth <= KEPT) {
        csn_close(&w->fd[w->depth--]);
        return true;
    }
    fd = openat(w->fd[KEPT], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    w->depth--;
    if (fstat(fd, &st) < 0 || st.st_dev != w->dev || st.st_ino != w->up[w->depth].inode) {
        csn_close(&fd);
        return false;
    }
    use(w, fd);
    return csn_dents_seek(&w->dents[KEPT], w->up[w->depth].position) == 0;
}

static void count(struct walk *w, const char *name)
{
    struct stat st;

    w->usage.n_seen++;
    if (fstatat(w->fd[slot_of(w->depth)], name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        st.st_dev != w->dev)
        return; /* just removed, or another file system */
    uint64_t bytes = (uint64_t) st.st_blocks * 512;
    w->usage.n_files++;
    if (S_ISDIR(st.st_mode)) {
        w->usage.bytes += bytes;
        descend(w, name);
    } else {
        w->usage.bytes += bytes / (st.st_nlink ? st.st_nlink : 1);
    }
}

static int walk_tree(struct walk *w)
{
    const char *name;

    for (;;) {
        int r = csn_dents_next(&w->dents[slot_of(w->depth)], &name, NULL);
        if (r < 0 && w->depth == 0)
            return r;
        if (r < 0)
            w->usage.is_partial = true; /* a directory removed while open: the rest still counts */
        if (r <= 0 && w->depth == 0)
            return 0;
        if (r <= 0 && !ascend(w)) {
            w->usage.is_partial = true;
            return 0;
        }
        if (r <= 0)
            continue;
        if (w->usage.n_seen >= w->max_entries) {
            w->usage.is_partial = true;
            return 0;
        }
        count(w, name);
    }
}

int csn_watch_disk(int dir_fd, uint64_t max_entries, csn_disk_usage *ret_usage)
{
    struct walk w;
    struct stat st;
    int r, fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    memset(&w.usage, 0, sizeof(w.usage));
    w.max_entries = max_entries;
    w.depth = 0;
    for (int i = 0; i <= KEPT; i++)
        w.fd[i] = -1;
    use(&w, fd);
    r = fstat(fd, &st) < 0 ? -errno : 0;
    w.dev = st.st_dev;
    if (r == 0)
        r = walk_tree(&w);
    csn_close_many(w.fd, KEPT + 1);
    if (r == 0)
        *ret_usage = w.usage;
    return r;
}
