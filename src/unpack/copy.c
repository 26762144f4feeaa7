#include "copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "leash.h"

/* Files with several names: the first is copied, the others are linked to it. */
typedef struct seen {
    dev_t dev;
    ino_t ino;
    char *path; /* NULL: a free place */
} seen;

typedef struct copy {
    csn_writer *w;
    dev_t dev; /* of the top: we stay on it */
    ino_t avoid[2];
    seen *seen;
    size_t n_seen, cap_seen; /* cap is a power of two, at most half full */
    char path[CSN_ENTRY_PATH_MAX];
} copy;

static void copy_auto(copy *c)
{
    for (size_t i = 0; i < c->cap_seen; i++)
        free(c->seen[i].path);
    free(c->seen);
}

static seen *find_seen(seen *table, size_t cap, dev_t dev, ino_t ino)
{
    size_t i = (size_t) ((uint64_t) ino * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (cap - 1);

    while (table[i].path && (table[i].ino != ino || table[i].dev != dev))
        i = (i + 1) & (cap - 1);
    return &table[i];
}

static int grow_seen(copy *c)
{
    size_t cap = c->cap_seen ? c->cap_seen * 2 : 256;
    seen *table = csn_calloc(cap, sizeof(*table));

    if (!table)
        return -ENOMEM;
    for (size_t i = 0; i < c->cap_seen; i++)
        if (c->seen[i].path)
            *find_seen(table, cap, c->seen[i].dev, c->seen[i].ino) = c->seen[i];
    free(c->seen);
    c->seen = table;
    c->cap_seen = cap;
    return 0;
}

/* The first name of this file, or NULL and it is remembered. */
static int first_name(copy *c, const struct stat *st, const char **ret)
{
    seen *place;
    int r;

    *ret = NULL;
    r = c->n_seen * 2 >= c->cap_seen ? grow_seen(c) : 0;
    if (r < 0)
        return r;
    place = find_seen(c->seen, c->cap_seen, st->st_dev, st->st_ino);
    if (place->path) {
        *ret = place->path;
        return 0;
    }
    place->path = csn_strdup(c->path);
    if (!place->path)
        return -ENOMEM;
    place->dev = st->st_dev;
    place->ino = st->st_ino;
    c->n_seen++;
    return 0;
}

static csn_meta meta_of(const struct stat *st)
{
    return (csn_meta){
        .mode = st->st_mode & 07777, .uid = st->st_uid, .gid = st->st_gid, .mtime = st->st_mtim
    };
}

static int fail_path(copy *c, int r, csn_error *err)
{
    char shown[160];

    return csn_fail_sys(err, r, "copy '%s'", csn_entry_show(c->path, shown, sizeof(shown)));
}

static int copy_xattrs(int from, int to)
{
    char names[4096], value[4096];
    ssize_t len = flistxattr(from, names, sizeof(names));

    for (ssize_t at = 0; at < len; at += (ssize_t) strlen(names + at) + 1) {
        ssize_t n = fgetxattr(from, names + at, value, sizeof(value));
        int r = n < 0 ? 0 : csn_writer_xattr(to, names + at, value, (size_t) n);

        if (r < 0)
            return r;
    }
    return 0;
}

/* At most `size` bytes, the size that was charged: a file that grows meanwhile is cut there. */
static int copy_bytes(int from, int to, int64_t size)
{
    static char block[256 << 10];

    while (size > 0) {
        size_t want = size < (int64_t) sizeof(block) ? (size_t) size : sizeof(block);
        ssize_t n = csn_read(from, block, want);
        int r = n > 0 ? csn_write_all(to, block, (size_t) n) : (int) n;

        if (r < 0)
            return r;
        if (n == 0) /* it shrank */
            break;
        if (!csn_leash_holds())
            return -ECANCELED;
        size -= n;
    }
    return 0;
}

static int copy_file(copy *c, int dirfd, const char *name, csn_error *err)
{
    csn_auto(fd) int from = -1;
    const char *first = NULL;
    struct stat st;
    csn_meta meta;
    int r, to = -1;

    from = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return fail_path(c, -errno, err);
    if (!S_ISREG(st.st_mode)) /* it changed under us */
        return fail_path(c, -ESTALE, err);
    r = st.st_nlink > 1 ? first_name(c, &st, &first) : 0;
    if (r < 0)
        return fail_path(c, r, err);
    if (first)
        return csn_writer_hardlink(c->w, c->path, first, err);
    r = csn_writer_begin_file(c->w, c->path, st.st_size, &to, err);
    if (r < 0)
        return r;
    r = copy_bytes(from, to, st.st_size);
    if (r == 0)
        r = copy_xattrs(from, to);
    meta = meta_of(&st);
    if (r < 0) {
        csn_close(&to);
        return fail_path(c, r, err);
    }
    return csn_writer_end_file(c->w, to, c->path, st.st_size, &meta, err);
}

static int copy_link(copy *c, int dirfd, const char *name, const struct stat *st, csn_error *err)
{
    csn_meta meta = meta_of(st);
    char target[PATH_MAX];
    ssize_t n;

    n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    if (n < 0)
        return fail_path(c, -errno, err);
    target[n] = '\0';
    return csn_writer_symlink(c->w, c->path, target, &meta, err);
}

static int copy_entries(copy *c, DIR *dir, csn_error *err);

static int copy_dir(copy *c, int dirfd, const char *name, csn_error *err)
{
    csn_auto(fd) int fd = -1, to = -1;
    struct stat st;
    csn_meta meta;
    int r, copy_fd;
    DIR *dir;

    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_path(c, -errno, err);
    meta = meta_of(&st);
    r = csn_writer_dir(c->w, *c->path ? c->path : ".", &meta, err);
    if (r < 0 || st.st_dev != c->dev || st.st_ino == c->avoid[0] || st.st_ino == c->avoid[1])
        return r;
    to = csn_writer_open_dir(c->w, *c->path ? c->path : ".");
    r = to < 0 ? to : copy_xattrs(fd, to);
    if (r < 0)
        return fail_path(c, r, err);
    copy_fd = csn_take_fd(&fd);
    dir = fdopendir(copy_fd);
    if (!dir) {
        csn_close(&copy_fd);
        return fail_path(c, -ENOMEM, err);
    }
    r = copy_entries(c, dir, err);
    (void) closedir(dir); /* only read from */
    return r;
}

static int copy_entry(copy *c, int dirfd, const char *name, csn_error *err)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_path(c, -errno, err);
    if (S_ISREG(st.st_mode))
        return copy_file(c, dirfd, name, err);
    if (S_ISDIR(st.st_mode))
        return copy_dir(c, dirfd, name, err);
    if (S_ISLNK(st.st_mode))
        return copy_link(c, dirfd, name, &st, err);
    c->w->budget->n_skipped++; /* devices, FIFOs, sockets: a sandbox makes its own */
    return csn_budget_file(c->w->budget, err);
}

static int copy_entries(copy *c, DIR *dir, csn_error *err)
{
    size_t len = strlen(c->path);
    struct dirent *entry;
    int r = CSN_OK;

    while (r == CSN_OK && (entry = readdir(dir))) {
        const char *name = entry->d_name;

        if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
            continue;
        if (!csn_leash_holds())
            return csn_fail(err, CSN_E_CANCELLED, "nobody waits for this any more");
        if (len + strlen(name) + 2 > sizeof(c->path))
            return fail_path(c, -ENAMETOOLONG, err);
        (void) snprintf(c->path + len, sizeof(c->path) - len, "%s%s", len ? "/" : "",
                        name); /* fits */
        r = copy_entry(c, dirfd(dir), name, err);
        c->path[len] = '\0';
    }
    return r;
}

int csn_copy_tree(int dirfd, const int avoid[2], csn_writer *w, csn_error *err)
{
    __attribute__((cleanup(copy_auto))) copy c = { .w = w };
    struct stat st;

    if (fstat(dirfd, &st) < 0)
        return csn_fail_sys(err, -errno, "look at the directory");
    c.dev = st.st_dev;
    for (size_t i = 0; i < CSN_COUNT(c.avoid); i++)
        if (avoid[i] >= 0 && fstat(avoid[i], &st) == 0 && st.st_dev == c.dev)
            c.avoid[i] = st.st_ino;
    return copy_dir(&c, dirfd, ".", err);
}
