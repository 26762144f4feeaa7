#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"

/* Each level holds a descriptor. What lies deeper is moved up to the top and taken from there, so a tree of any depth
 * needs no more. */
enum { DEPTH_MAX = 48, TRIES_MAX = 16 };

static void dir_auto(DIR **dir)
{
    int saved = errno;

    if (*dir)
        (void) closedir(*dir); /* only read from */
    errno = saved;
}
#define AUTO_DIR __attribute__((cleanup(dir_auto))) DIR *

static int is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int open_dir(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int csn_tree_open_dir(int dirfd, const char *name, mode_t mode)
{
    int fd;

    fd = csn_fault_as("mkdir", ENOSPC);
    if (fd < 0)
        return fd;
    fd = open_dir(dirfd, name);
    if (fd != -ENOENT)
        return fd;
    if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
        return -errno;
    return open_dir(dirfd, name);
}

int csn_tree_rename(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
    int r = csn_fault_as("rename", ENOSPC);

    if (r < 0)
        return r;
    if (renameat(from_dirfd, from, to_dirfd, to) == 0)
        return 0;
    return errno == ENOTEMPTY ? -EEXIST : -errno;
}

/* A directory its owner may not enter is opened up first: without privilege that is all it takes. */
static int open_to_empty(int dirfd, const char *name)
{
    int fd;

    fd = open_dir(dirfd, name);
    if (fd != -EACCES)
        return fd;
    if (fchmodat(dirfd, name, 0700, 0) < 0)
        return -EACCES;
    return open_dir(dirfd, name);
}

static int empty_dir(int top, int fd, unsigned depth);

static int remove_dir(int top, int dirfd, const char *name, unsigned depth)
{
    csn_auto(fd) int fd = -1;
    int r;

    if (depth >= DEPTH_MAX) {
        char aside[33];

        r = csn_id_hex(aside, 16);
        if (r < 0)
            return r;
        return renameat(dirfd, name, top, aside) < 0 ? -errno : 0;
    }
    fd = open_to_empty(dirfd, name);
    if (fd < 0)
        return fd;
    r = empty_dir(top, fd, depth);
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && r == 0)
        r = -errno;
    return r;
}

static int remove_file(int dirfd, const char *name)
{
    if (unlinkat(dirfd, name, 0) == 0)
        return 0;
    if (errno == EACCES && fchmod(dirfd, 0700) == 0 && unlinkat(dirfd, name, 0) == 0)
        return 0;
    return -errno;
}

static int remove_entry(int top, int dirfd, const struct dirent *entry, unsigned depth)
{
    int r;

    if (entry->d_type != DT_DIR) {
        r = remove_file(dirfd, entry->d_name);
        if (r != -EISDIR) /* the file system doesn't say what its entries are */
            return r;
    }
    r = remove_dir(top, dirfd, entry->d_name, depth);
    if (r == -EACCES && fchmod(dirfd, 0700) == 0)
        r = remove_dir(top, dirfd, entry->d_name, depth);
    return r;
}

static int empty_dir(int top, int fd, unsigned depth)
{
    struct dirent *entry;
    int first = 0, copy;
    AUTO_DIR dir = NULL;

    copy = csn_fd_dup(fd, 3);
    if (copy < 0)
        return copy;
    dir = fdopendir(copy);
    if (!dir) {
        csn_close(&copy);
        return -ENOMEM;
    }
    while ((entry = readdir(dir))) {
        int r = is_dots(entry->d_name) ? 0 : remove_entry(top, fd, entry, depth + 1);

        if (r < 0 && r != -ENOENT && first == 0)
            first = r;
    }
    return first;
}

int csn_tree_remove(int dirfd, const char *name)
{
    csn_auto(fd) int top = -1;
    int r, n_tries = 0;

    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    top = open_to_empty(dirfd, name);
    if (top < 0)
        return top == -ENOENT ? 0 : top;
    do { /* again, as long as deep parts were moved up here or a listing skipped what moved meanwhile */
        r = empty_dir(top, top, 0);
        if (r < 0 && (r != -ENOTEMPTY || ++n_tries > TRIES_MAX))
            return r;
        r = unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
        if (r == -ENOTEMPTY && lseek(top, 0, SEEK_SET) < 0)
            return -errno;
    } while (r == -ENOTEMPTY);
    return r == -ENOENT ? 0 : r;
}

/* The descriptor is the list's, or -errno. */
static int open_list(int dirfd, const char *name, DIR **ret_dir)
{
    int fd = open_dir(dirfd, name);

    if (fd < 0)
        return fd;
    *ret_dir = fdopendir(fd);
    if (!*ret_dir) {
        csn_close(&fd);
        return -ENOMEM;
    }
    return fd;
}

static int measure_dir(int dirfd, const char *name, csn_tree_count *sum, unsigned depth)
{
    struct dirent *entry;
    AUTO_DIR dir = NULL;
    int fd = open_list(dirfd, name, &dir);

    if (fd < 0)
        return fd;
    while ((entry = readdir(dir))) {
        struct stat st;

        if (is_dots(entry->d_name) || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        sum->bytes += (int64_t) st.st_blocks * 512;
        sum->n_files++;
        if (S_ISDIR(st.st_mode) && depth < 4 * DEPTH_MAX)
            (void) measure_dir(fd, entry->d_name, sum, depth + 1); /* unreadable: not counted */
    }
    return 0;
}

static int give_entry(int fd, const char *name, uid_t uid, gid_t gid)
{
    struct stat st;

    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return csn_tree_give(fd, name, uid, gid);
    return fchownat(fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int csn_tree_give(int dirfd, const char *name, uid_t uid, gid_t gid)
{
    struct dirent *entry;
    AUTO_DIR dir = NULL;
    int fd = open_list(dirfd, name, &dir), r = fd < 0 ? fd : 0;

    if (r < 0)
        return r;
    while (r == 0 && (entry = readdir(dir)))
        if (!is_dots(entry->d_name))
            r = give_entry(fd, entry->d_name, uid, gid);
    if (r == 0 && fchown(fd, uid, gid) < 0)
        r = -errno;
    return r;
}

int csn_tree_measure(int dirfd, const char *name, csn_tree_count *ret)
{
    csn_tree_count sum = { 0, 0 };
    int r;

    r = measure_dir(dirfd, name, &sum, 0);
    if (r == 0)
        *ret = sum;
    return r;
}
