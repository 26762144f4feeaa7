/* SPDX-License-Identifier: Apache-2.0 */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "fsconf.h"
#include "missing.h"

#define QUIET (CSN_ATTR_NOSUID | CSN_ATTR_NODEV | CSN_ATTR_NOEXEC)

int csn_mount_private(void)
{
    int r = csn_fault_as("mount_private", EPERM);

    if (r < 0)
        return r;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

int csn_mount_tmpfs(uint64_t size_bytes, uint64_t n_inodes, unsigned mode, unsigned attr,
                    int *ret_fd)
{
    csn_auto(fd) int fs = -1;
    int r = csn_fs_begin("tmpfs", &fs);

    if (r == 0)
        r = csn_fs_set_u64(fs, "size", size_bytes);
    if (r == 0 && n_inodes)
        r = csn_fs_set_u64(fs, "nr_inodes", n_inodes);
    if (r == 0)
        r = csn_fs_set_octal(fs, "mode", mode);
    return r < 0 ? r : csn_fs_finish(fs, attr, ret_fd);
}

int csn_mount_proc(unsigned flags, int *ret_fd)
{
    csn_auto(fd) int fs = -1;
    int r = csn_fs_begin("proc", &fs);

    if (r == 0 && flags & CSN_PROC_HIDEPID)
        r = csn_fs_set(fs, "hidepid", "2"); /* "invisible", in a spelling that 5.7 knows too */
    if (r == 0 && flags & CSN_PROC_SUBSET_PID)
        r = csn_fs_set(fs, "subset", "pid");
    unsigned attr = flags & CSN_PROC_RDONLY ? QUIET | CSN_ATTR_RDONLY : QUIET;
    return r < 0 ? r : csn_fs_finish(fs, attr, ret_fd);
}

int csn_mount_devpts(uint32_t gid, unsigned max, int *ret_fd)
{
    csn_auto(fd) int fs = -1;
    int r = csn_fs_begin("devpts", &fs);

    if (r == 0)
        r = csn_fs_flag(fs, "newinstance"); /* the only kind since 4.7; said for the older ones */
    if (r == 0)
        r = csn_fs_set(fs, "ptmxmode", "0666");
    if (r == 0)
        r = csn_fs_set(fs, "mode", "0620");
    if (r == 0 && gid != (uint32_t) -1)
        r = csn_fs_set_u64(fs, "gid", gid);
    if (r == 0 && max)
        r = csn_fs_set_u64(fs, "max", max);
    return r < 0 ? r : csn_fs_finish(fs, CSN_ATTR_NOSUID | CSN_ATTR_NOEXEC, ret_fd);
}

int csn_tree_clone(int dirfd, const char *path, bool recursive, int *ret_fd)
{
    unsigned flags = CSN_OPEN_TREE_CLONE | CSN_OPEN_TREE_CLOEXEC;
    int r = csn_fault_as("open_tree", EPERM);

    if (r < 0)
        return r;
    if (path[0] == '\0')
        flags |= AT_EMPTY_PATH;
    if (recursive)
        flags |= AT_RECURSIVE;
    int fd = (int) syscall(SYS_open_tree, dirfd, path, flags | AT_SYMLINK_NOFOLLOW);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int set_attr(int fd, const struct csn_mount_attr *attr, bool recursive)
{
    unsigned flags = AT_EMPTY_PATH | (recursive ? (unsigned) AT_RECURSIVE : 0);
    int r = csn_fault_as("mount_setattr", EPERM);

    if (r < 0)
        return r;
    return syscall(SYS_mount_setattr, fd, "", flags, attr, sizeof(*attr)) < 0 ? -errno : 0;
}

int csn_tree_attr(int fd, unsigned attr, bool recursive)
{
    struct csn_mount_attr a = { .attr_set = attr };

    return attr ? set_attr(fd, &a, recursive) : 0;
}

int csn_tree_idmap(int fd, int userns_fd)
{
    struct csn_mount_attr a = {
        .attr_set = CSN_MOUNT_ATTR_IDMAP,
        .userns_fd = (uint64_t) (unsigned) userns_fd,
    };

    return set_attr(fd, &a, false);
}

int csn_mount_attach(int mount_fd, int root_fd, const char *path, enum csn_target kind)
{
    csn_auto(fd) int target = -1;
    int r = csn_target_open(root_fd, path, kind, &target);

    if (r == 0)
        r = csn_fault_as("move_mount", EPERM);
    if (r < 0)
        return r;
    return syscall(SYS_move_mount, mount_fd, "", target, "",
                   CSN_MOVE_MOUNT_F_EMPTY_PATH | CSN_MOVE_MOUNT_T_EMPTY_PATH) < 0
               ? -errno
               : 0;
}

int csn_mount_over(const char *src, const char *path, unsigned attr)
{
    struct csn_mount_attr a = { .attr_set = attr };
    int r = csn_fault_as("mount", EPERM);

    if (r < 0)
        return r;
    if (mount(src, path, NULL, MS_BIND, NULL) < 0)
        return -errno;
    if (!attr)
        return 0;
    return syscall(SYS_mount_setattr, AT_FDCWD, path, 0, &a, sizeof(a)) < 0 ? -errno : 0;
}

/* pivot_root(".", ".") stacks the old root on the new one; detaching "." takes it off again, so no
 * directory for it is needed. */
int csn_pivot_into(int root_fd)
{
    int r = csn_fault_as("pivot_root", EPERM);

    if (r < 0)
        return r;
    if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
        return -errno;
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

int csn_proc_verify(int fd)
{
    struct statfs fs;
    struct stat st;

    if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
        return -errno;
    return fs.f_type == PROC_SUPER_MAGIC && st.st_ino == 1 ? 0 : -EXDEV;
}

int csn_chardev_verify(int fd, unsigned major_number, unsigned minor_number)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    return S_ISCHR(st.st_mode) && st.st_rdev == makedev(major_number, minor_number) ? 0 : -ENODEV;
}
