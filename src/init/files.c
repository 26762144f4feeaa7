/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that touch one file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

static int open_flags(uint32_t flags)
{
    const int may_read = (flags & CSN_OPEN_READ) != 0, may_write = (flags & CSN_OPEN_WRITE) != 0;
    int out = O_NONBLOCK; /* a FIFO must not hang us */

    if (!may_read && !may_write)
        return -EINVAL;
    if (!may_write && (flags & ~(uint32_t) CSN_OPEN_READ))
        return -EINVAL;
    out |= may_read && may_write ? O_RDWR : may_write ? O_WRONLY : O_RDONLY;
    if (flags & CSN_OPEN_CREATE)
        out |= O_CREAT | (flags & CSN_OPEN_EXCLUSIVE ? O_EXCL : 0);
    if (flags & CSN_OPEN_APPEND)
        out |= O_APPEND;
    return out;
}

/* Decided on the descriptor; only then is anything cut. */
static int hand_out(int fd, uint32_t flags)
{
    struct stat st;
    int r;

    if (fstat(fd, &st) < 0)
        return -errno;
    r = csn_check_regular(&st);
    if (r < 0)
        return r;
    if ((flags & CSN_OPEN_TRUNCATE) && st.st_size > 0) {
        if (ftruncate(fd, 0) < 0)
            return -errno;
        st.st_size = 0;
    }
    (void) fcntl(fd, F_SETFL, flags & CSN_OPEN_APPEND ? O_APPEND : 0); /* without O_NONBLOCK */
    return csn_tell_fd(fd, st.st_size);
}

int csn_verb_open(const csn_filereq *req, csn_file_done *done)
{
    const unsigned mode = req->mode > 0 ? (unsigned) req->mode & 0777 : 0644;
    int r, fd, flags = open_flags(req->flags);

    (void) done;
    if (flags < 0)
        return flags;
    fd = csn_open_at(AT_FDCWD, req->path, flags, mode);
    if (fd == -ENOENT && (flags & O_CREAT)) {
        r = csn_make_parents(req->path);
        fd = r < 0 ? r : csn_open_at(AT_FDCWD, req->path, flags, mode);
    }
    if (fd < 0)
        return fd;
    r = hand_out(fd, req->flags);
    (void) close(fd); /* the client has its own by now */
    return r;
}

int csn_verb_stat(const csn_filereq *req, csn_file_done *done)
{
    int r, fd = csn_open_at(AT_FDCWD, req->path, O_PATH | (req->flags & 1 ? 0 : O_NOFOLLOW), 0);
    struct stat st;

    (void) done;
    if (fd < 0)
        return fd;
    r = fstat(fd, &st) < 0 ? -errno : csn_tell_stat(fd, "", req->path, &st);
    (void) close(fd); /* was only looked at */
    return r;
}

int csn_verb_mkdir(const csn_filereq *req, csn_file_done *done)
{
    (void) done;
    return csn_make_dirs(req->path, req->mode > 0 ? (unsigned) req->mode & 01777 : 0755);
}

int csn_verb_move(const csn_filereq *req, csn_file_done *done)
{
    char from[256], to[256];
    int from_dir = -1, to_dir = -1;
    const unsigned how = req->flags & CSN_MOVE_NO_REPLACE ? RENAME_NOREPLACE : 0;
    int r = csn_open_parent(AT_FDCWD, req->path, from, &from_dir);

    (void) done;
    if (r == 0)
        r = req->flags & CSN_MOVE_FOLLOW ? csn_open_real_parent(req->arg, to, &to_dir)
                                         : csn_open_parent(AT_FDCWD, req->arg, to, &to_dir);
    if (r ==
        0) /* what is replaced goes with this process: to free it may take longer than all else */
        (void) csn_open_at(to_dir, to, O_PATH | O_NOFOLLOW, 0);
    if (r == 0)
        r = csn_sys_rename(from_dir, from, to_dir, to, how);
    if (r == -EXDEV) /* another mount, or a directory of a read-only layer */
        r = csn_move_by_copy(from_dir, from, to_dir, to, how);
    if (from_dir >= 0)
        (void) close(from_dir); /* only a place */
    if (to_dir >= 0)
        (void) close(to_dir);
    return r;
}

int csn_verb_delete(const csn_filereq *req, csn_file_done *done)
{
    char name[256];
    int dirfd, r = csn_open_parent(AT_FDCWD, req->path, name, &dirfd);

    (void) done;
    if (r < 0)
        return r;
    if (unlinkat(dirfd, name, 0) < 0)
        r = -errno;
    if (r == -EISDIR && !(req->flags & CSN_DELETE_NO_DIRECTORY))
        r = unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    if ((r == -ENOTEMPTY || r == -EEXIST) && (req->flags & CSN_DELETE_RECURSIVE))
        r = csn_remove_tree(dirfd, name);
    (void) close(dirfd); /* only a place */
    return r;
}

static int change_owner(int fd, const char *owner, const char *group)
{
    uid_t uid = (uid_t) -1;
    gid_t gid = (gid_t) -1;

    if (owner[0] && csn_user_id(owner, &uid) < 0)
        return -ESRCH;
    if (group[0] && csn_group_id(group, &gid) < 0)
        return -ESRCH;
    if (owner[0] == '\0' && group[0] == '\0')
        return 0;
    return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

int csn_verb_chmod(const csn_filereq *req, csn_file_done *done)
{
    int r, fd = csn_open_at(AT_FDCWD, req->path, O_PATH, 0);

    (void) done;
    if (fd < 0)
        return fd;
    r = change_owner(fd, req->arg, req->arg2); /* first: it takes setuid bits away */
    if (r == 0 && req->mode >= 0)
        r = csn_chmod_fd(fd, (unsigned) req->mode);
    (void) close(fd); /* only a place */
    return r;
}
