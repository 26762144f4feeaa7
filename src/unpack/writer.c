#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "kern/overlay.h"

enum { NOBODY = 65534, ID_MAX = 65535, XATTR_MAX = 64 << 10 };

struct csn_late_dir {
    char *path;
    csn_meta meta;
};

int csn_layer_ids_find(csn_layer_ids *ret_ids, csn_error *err)
{
    const char *why_not;

    *ret_ids = (csn_layer_ids){ .is_kept = csn_way_find() == CSN_WAY_PRIVILEGED };
    why_not = ret_ids->is_kept ? NULL : csn_way_owner(&ret_ids->owner);
    return why_not ? csn_fail(err, CSN_E_UNSUPPORTED, "%s", why_not) : CSN_OK;
}

void csn_writer_init(csn_writer *w, int root_fd, csn_budget *budget, csn_layer_ids ids,
                     bool has_whiteouts)
{
    memset(w, 0, sizeof(*w));
    w->root_fd = root_fd;
    w->budget = budget;
    w->has_whiteouts = has_whiteouts;
    w->ids = ids;
    w->parent_fd = -1;
}

void csn_writer_done(csn_writer *w)
{
    for (size_t i = 0; i < w->n_late; i++)
        free(w->late[i].path);
    free(w->late);
    csn_close(&w->parent_fd);
    w->late = NULL;
    w->n_late = w->cap_late = 0;
}

static int fail_entry(csn_error *err, int r, const char *name)
{
    char shown[128];

    csn_entry_show(name, shown, sizeof(shown));
    switch (r) {
    case -EINVAL:
        return csn_fail(err, CSN_E_INVALID,
                        "entry '%s': such a name is refused (absolute, '..', or out of place)",
                        shown);
    case -ELOOP:
        return csn_fail(err, CSN_E_LIMIT, "entry '%s': nested too deeply", shown);
    case -ENAMETOOLONG:
        return csn_fail(err, CSN_E_LIMIT, "entry '%s': the name is too long", shown);
    case -ENOTEMPTY:
        return csn_fail(err, CSN_E_INVALID,
                        "entry '%s': takes the place of a directory with entries", shown);
    case -ENOTDIR:
        return csn_fail(err, CSN_E_INVALID, "entry '%s': its parent is a link or no directory",
                        shown);
    default:
        return csn_fail_sys(err, r, "entry '%s'", shown);
    }
}

static uid_t clamp_id(int64_t id)
{
    return id < 0 || id > ID_MAX ? NOBODY : (uid_t) id;
}

static bool gives_files(const csn_writer *w)
{
    return w->ids.is_kept || w->ids.owner.is_other;
}

static uid_t uid_of(const csn_writer *w, const csn_meta *meta)
{
    return w->ids.is_kept ? clamp_id(meta->uid) : w->ids.owner.uid;
}

static gid_t gid_of(const csn_writer *w, const csn_meta *meta)
{
    return w->ids.is_kept ? clamp_id(meta->gid) : w->ids.owner.gid;
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(int fd)
{
    return fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0 ? -errno : 0;
}

static int open_below(int dirfd, const char *part)
{
    int fd = openat(dirfd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* A directory that takes the place of a whiteout hides what lies below it in lower layers. */
static int make_dir(csn_writer *w, int dirfd, const char *part, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    bool opaque = false;
    struct stat st;
    int r;

    r = csn_budget_file(w->budget, err);
    if (r < 0)
        return r;
    if (fstatat(dirfd, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_whiteout(&st)) {
        opaque = true;
        if (unlinkat(dirfd, part, 0) < 0)
            return csn_fail_sys(err, -errno, "replace a whiteout");
    }
    if (mkdirat(dirfd, part, 0755) < 0)
        return csn_fail_sys(err, -errno, "make a directory");
    fd = open_below(dirfd, part);
    if (fd < 0 || fchmod(fd, 0755) < 0) /* mkdir heeds the umask */
        return csn_fail_sys(err, fd < 0 ? fd : -errno, "make a directory");
    if (w->ids.owner.is_other && fchown(fd, w->ids.owner.uid, w->ids.owner.gid) < 0)
        return csn_fail_sys(err, -errno, "give away a directory");
    r = opaque ? set_opaque(fd) : 0;
    return r < 0 ? csn_fail_sys(err, r, "mark a directory opaque") : CSN_OK;
}

/* Opens the directory `part` of an entry's parents; what is missing is made. */
static int step_into(csn_writer *w, int *fd, const char *part, const char *name, csn_error *err)
{
    struct stat st;
    int next, r;

    next = open_below(*fd, part);
    if (next == -ENOTDIR && fstatat(*fd, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_whiteout(&st))
        next = -ENOENT;
    if (next == -ENOENT) {
        r = make_dir(w, *fd, part, err);
        if (r < 0)
            return r;
        next = open_below(*fd, part);
    }
    if (next < 0)
        return fail_entry(err, next == -ELOOP ? -ENOTDIR : next, name);
    csn_close(fd);
    *fd = next;
    return CSN_OK;
}

static int open_parent(csn_writer *w, char *parent, const char *name, csn_error *err)
{
    csn_auto(fd) int fd = -1;
    int r = CSN_OK;

    if (w->parent_fd >= 0 && csn_streq(w->parent, parent))
        return CSN_OK;
    fd = csn_fd_dup(w->root_fd, 3);
    if (fd < 0)
        return fail_entry(err, fd, name);
    csn_close(&w->parent_fd);
    memcpy(w->parent, parent, strlen(parent) + 1);
    for (char *part = parent, *slash; r == CSN_OK && part && *part; part = slash) {
        slash = strchr(part, '/');
        if (slash)
            *slash++ = '\0';
        r = step_into(w, &fd, part, name, err);
    }
    if (r == CSN_OK)
        w->parent_fd = csn_take_fd(&fd);
    return r;
}

/* Checks the name and opens the parent as w->parent_fd. `path` holds the clean name, *ret_last points to its last part;
 * "" for the root itself. */
static int locate(csn_writer *w, const char *name, char path[CSN_ENTRY_PATH_MAX],
                  const char **ret_last, csn_error *err)
{
    char parent[CSN_ENTRY_PATH_MAX];
    const char *slash;
    size_t len;
    int r;

    r = csn_entry_path(name, (size_t) w->budget->max_depth, path);
    if (r < 0)
        return fail_entry(err, r, name);
    slash = strrchr(path, '/');
    len = slash ? (size_t) (slash - path) : 0;
    memcpy(parent, path, len);
    parent[len] = '\0';
    *ret_last = slash ? slash + 1 : path;
    return open_parent(w, parent, name, err);
}

/* Makes room for an entry where an earlier one has its name. */
static int clear_place(csn_writer *w, const char *last)
{
    if (unlinkat(w->parent_fd, last, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    return unlinkat(w->parent_fd, last, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int give(csn_writer *w, const char *last, const csn_meta *meta)
{
    if (!gives_files(w))
        return 0;
    if (fchownat(w->parent_fd, last, uid_of(w, meta), gid_of(w, meta), AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

/* `mtime` alone: the time of access is ours to choose. */
static int set_times(int dirfd, const char *last, const csn_meta *meta)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, meta->mtime };

    if (times[1].tv_nsec < 0 || times[1].tv_nsec > 999999999)
        times[1].tv_nsec = 0;
    return utimensat(dirfd, last, times, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL ? -errno : 0;
}

static int add_late(csn_writer *w, const char *path, const csn_meta *meta)
{
    if (w->n_late == w->cap_late) {
        size_t cap = w->cap_late ? w->cap_late * 2 : 64;
        struct csn_late_dir *more = csn_realloc_array(w->late, cap, sizeof(*more));

        if (!more)
            return -ENOMEM;
        w->late = more;
        w->cap_late = cap;
    }
    w->late[w->n_late].path = csn_strdup(path);
    if (!w->late[w->n_late].path)
        return -ENOMEM;
    w->late[w->n_late++].meta = *meta;
    return 0;
}

static bool is_mark(const csn_writer *w, const char *last)
{
    return w->has_whiteouts && csn_starts_with(last, ".wh.");
}

/* ".wh.x": x of the lower layers isn't there. Where this layer has an x of its own, that one only hides them. */
static int put_whiteout(csn_writer *w, const char *hidden)
{
    csn_auto(fd) int fd = -1;
    struct stat st;

    if (fstatat(w->parent_fd, hidden, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!S_ISDIR(st.st_mode))
            return 0;
        fd = open_below(w->parent_fd, hidden);
        return fd < 0 ? fd : set_opaque(fd);
    }
    /* The other form is for layers that are copied before they are used, as the machine's root does on an overlay. */
    if (w->ids.is_kept)
        return csn_whiteout_make(w->parent_fd, hidden);
    return mknodat(w->parent_fd, hidden, S_IFCHR | 0600, makedev(0, 0)) < 0 ? -errno : 0;
}

/* 1: the name was a mark and is done with. */
static int take_mark(csn_writer *w, const char *last)
{
    int r;

    if (!is_mark(w, last))
        return 0;
    if (csn_streq(last, ".wh..wh..opq"))
        r = set_opaque(w->parent_fd);
    else if (csn_starts_with(last, ".wh..wh.")) /* aufs' own: nothing to us */
        r = 0;
    else if (csn_streq(last, ".wh.") || csn_streq(last, ".wh..") || csn_streq(last, ".wh..."))
        r = -EINVAL;
    else
        r = put_whiteout(w, last + strlen(".wh."));
    return r < 0 ? r : 1;
}

int csn_writer_dir(csn_writer *w, const char *name, const csn_meta *meta, csn_error *err)
{
    char path[CSN_ENTRY_PATH_MAX];
    const char *last = "";
    struct stat st;
    int r;

    r = locate(w, name, path, &last, err);
    if (r < 0)
        return r;
    if (is_mark(w, last))
        return fail_entry(err, -EINVAL, name);
    if (*last) {
        bool is_there = fstatat(w->parent_fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0;

        if (is_there && !S_ISDIR(st.st_mode) && !is_whiteout(&st)) {
            r = clear_place(w, last);
            if (r < 0)
                return fail_entry(err, r, name);
        }
        if (!is_there || !S_ISDIR(st.st_mode))
            r = make_dir(w, w->parent_fd, last, err);
        if (r < 0)
            return r;
    }
    r = add_late(w, path, meta);
    return r < 0 ? fail_entry(err, r, name) : CSN_OK;
}

int csn_writer_symlink(csn_writer *w, const char *name, const char *target, const csn_meta *meta,
                       csn_error *err)
{
    char path[CSN_ENTRY_PATH_MAX];
    const char *last = "";
    int r;

    r = locate(w, name, path, &last, err);
    if (r == CSN_OK)
        r = csn_budget_file(w->budget, err);
    if (r < 0)
        return r;
    if (!*last || !*target || is_mark(w, last))
        return fail_entry(err, -EINVAL, name);
    r = clear_place(w, last);
    if (r == 0 && symlinkat(target, w->parent_fd, last) < 0)
        r = -errno;
    if (r == 0)
        r = give(w, last, meta);
    if (r == 0)
        r = set_times(w->parent_fd, last, meta);
    return r < 0 ? fail_entry(err, r, name) : CSN_OK;
}

/* Finds an entry that is there, part by part, no link followed: its parent's descriptor or -errno. */
static int find_parent(csn_writer *w, char *path, const char **ret_last)
{
    csn_auto(fd) int fd = -1;
    char *part = path, *slash;

    fd = csn_fd_dup(w->root_fd, 3);
    while (fd >= 0 && (slash = strchr(part, '/'))) {
        int next;

        *slash = '\0';
        next = open_below(fd, part);
        csn_close(&fd);
        fd = next;
        part = slash + 1;
    }
    *ret_last = part;
    return fd < 0 ? fd : csn_take_fd(&fd);
}

int csn_writer_hardlink(csn_writer *w, const char *name, const char *target, csn_error *err)
{
    char path[CSN_ENTRY_PATH_MAX], from[CSN_ENTRY_PATH_MAX];
    const char *last = "", *from_last = "";
    csn_auto(fd) int from_fd = -1;
    int r;

    r = locate(w, name, path, &last, err);
    if (r == CSN_OK)
        r = csn_budget_file(w->budget, err);
    if (r < 0)
        return r;
    r = take_mark(w, last); /* aufs made its marks as links to one file */
    if (r != 0)
        return r < 0 ? fail_entry(err, r, name) : CSN_OK;
    r = csn_entry_path(target, (size_t) w->budget->max_depth, from);
    if (r < 0 || !*last || !*from)
        return fail_entry(err, r < 0 ? r : -EINVAL, r < 0 ? target : name);
    if (csn_streq(path, from)) /* a link to itself: it is there */
        return CSN_OK;
    from_fd = find_parent(w, from, &from_last);
    if (from_fd < 0)
        return fail_entry(err, from_fd == -ELOOP ? -ENOTDIR : from_fd, target);
    r = faccessat(from_fd, from_last, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
                                                                     : clear_place(w, last);
    if (r == 0 && linkat(from_fd, from_last, w->parent_fd, last, 0) < 0)
        r = -errno;
    return r < 0 ? fail_entry(err, r, name) : CSN_OK;
}

int csn_writer_begin_file(csn_writer *w, const char *name, int64_t size, int *ret_fd,
                          csn_error *err)
{
    char path[CSN_ENTRY_PATH_MAX];
    const char *last = "";
    int r, fd;

    r = locate(w, name, path, &last, err);
    if (r == CSN_OK)
        r = csn_budget_file(w->budget, err);
    if (r < 0)
        return r;
    if (!*last)
        return fail_entry(err, -EINVAL, name);
    r = take_mark(w, last);
    if (r != 0) {
        *ret_fd = -1;
        return r < 0 ? fail_entry(err, r, name) : CSN_OK;
    }
    r = csn_budget_bytes(w->budget, size, err);
    if (r < 0)
        return r;
    r = clear_place(w, last);
    if (r < 0)
        return fail_entry(err, r, name);
    fd = openat(w->parent_fd, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_entry(err, -errno, name);
    *ret_fd = fd;
    return CSN_OK;
}

int csn_writer_end_file(csn_writer *w, int fd, const char *name, int64_t size, const csn_meta *meta,
                        csn_error *err)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, meta->mtime };
    mode_t mode = meta->mode & 0777;
    int r = 0;

    if (!w->ids.is_kept)
        mode |= 0400; /* a file its owner can't read could not be copied up */
    if (times[1].tv_nsec < 0 || times[1].tv_nsec > 999999999)
        times[1].tv_nsec = 0;
    if (ftruncate(fd, size) < 0 || /* the hole at the end of a sparse file */
        (gives_files(w) && fchown(fd, uid_of(w, meta), gid_of(w, meta)) < 0) ||
        fchmod(fd, mode) < 0 || (futimens(fd, times) < 0 && errno != EINVAL))
        r = -errno;
    if (close(fd) < 0 && r == 0)
        r = -errno;
    return r < 0 ? fail_entry(err, r, name) : CSN_OK;
}

int csn_writer_xattr(int fd, const char *name, const void *value, size_t len)
{
    if (!csn_starts_with(name, "user.") || csn_starts_with(name, "user.overlay.") ||
        len > XATTR_MAX)
        return 0;
    if (fsetxattr(fd, name, value, len, 0) == 0 || errno == ENOTSUP)
        return 0;
    return -errno;
}

int csn_writer_open_dir(csn_writer *w, const char *name)
{
    char path[CSN_ENTRY_PATH_MAX];
    csn_auto(fd) int parent = -1;
    const char *last = "";
    int r;

    r = csn_entry_path(name, (size_t) w->budget->max_depth, path);
    if (r < 0)
        return r;
    parent = find_parent(w, path, &last);
    if (parent < 0)
        return parent;
    return open_below(parent, *last ? last : ".");
}

static int finish_dir(csn_writer *w, const struct csn_late_dir *dir)
{
    csn_auto(fd) int fd = -1;
    mode_t mode = dir->meta.mode & 03777;
    struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, dir->meta.mtime };

    fd = *dir->path ? csn_writer_open_dir(w, dir->path) : csn_fd_dup(w->root_fd, 3);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) /* a later entry took its place */
        return 0;
    if (fd < 0)
        return fd;
    if (!w->ids.is_kept)
        mode |= 0700; /* so that its owner can remove it again */
    if (times[1].tv_nsec < 0 || times[1].tv_nsec > 999999999)
        times[1].tv_nsec = 0;
    if ((gives_files(w) && fchown(fd, uid_of(w, &dir->meta), gid_of(w, &dir->meta)) < 0) ||
        fchmod(fd, mode) < 0 || (futimens(fd, times) < 0 && errno != EINVAL))
        return -errno;
    return 0;
}

int csn_writer_finish(csn_writer *w, csn_error *err)
{
    csn_close(&w->parent_fd);
    for (size_t i = 0; i < w->n_late;
         i++) { /* in order: of two entries for one directory the later wins */
        int r = finish_dir(w, &w->late[i]);

        if (r < 0)
            return fail_entry(err, r, w->late[i].path);
    }
    return CSN_OK;
}
