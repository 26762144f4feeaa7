/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_MOUNT_H
#define CSN_KERN_MOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The descriptor-based mount API (Linux 5.2+, mount_setattr 5.12+). A mount is made detached, as a
 * descriptor, and attached by descriptor: no path that a guest or an image controls is ever walked
 * by name. All returned descriptors are close-on-exec; closing a detached one unmounts it. */

/* Attributes of a mount, for the `attr` arguments. */
#define CSN_ATTR_RDONLY      0x00000001u
#define CSN_ATTR_NOSUID      0x00000002u
#define CSN_ATTR_NODEV       0x00000004u
#define CSN_ATTR_NOEXEC      0x00000008u
#define CSN_ATTR_NOATIME     0x00000010u
#define CSN_ATTR_NOSYMFOLLOW 0x00200000u

/* Mount namespace: nothing we mount reaches the host, nothing the host mounts reaches us. */
int csn_mount_private(void);

/* 0 for size or inodes: no limit of its own. Page-rounded by the kernel. */
int csn_mount_tmpfs(uint64_t size_bytes, uint64_t n_inodes, unsigned mode, unsigned attr,
                    int *ret_fd);

#define CSN_PROC_HIDEPID    (1u << 0) /* hidepid=invisible: other users' processes don't show */
#define CSN_PROC_SUBSET_PID (1u << 1) /* nothing but process directories */
#define CSN_PROC_RDONLY     (1u << 2)

/* procfs of the caller's pid namespace; nosuid, nodev, noexec. */
int csn_mount_proc(unsigned flags, int *ret_fd);

/* A private devpts, ptmxmode 0666, mode 0620, `gid` as owner of terminals ((uint32_t) -1: unset).
 * `max` terminals at most (0: the kernel's own limit). */
int csn_mount_devpts(uint32_t gid, unsigned max, int *ret_fd);

/* A copy of the mount at dirfd/path ("" for dirfd itself) as a detached tree. */
int csn_tree_clone(int dirfd, const char *path, bool recursive, int *ret_fd);

/* Sets attributes. Those not named are left as they are: an attribute is never taken away. */
int csn_tree_attr(int fd, unsigned attr, bool recursive);

/* Shows on-disk ids through the map of `userns_fd`. -EINVAL/-EPERM: the file system or our
 * privilege doesn't allow it. `fd` must be detached and not yet idmapped. */
int csn_tree_idmap(int fd, int userns_fd);

enum csn_target {
    CSN_TARGET_EXISTING, /* must be there */
    CSN_TARGET_DIR,      /* missing directories are made, mode 0755 */
    CSN_TARGET_FILE,     /* missing parents are made, then an empty file, mode 0644 */
};

/* Resolves `path` below `root_fd` without following a symlink (R7) and makes what is missing.
 * *ret_fd is an O_PATH descriptor. -ELOOP: there is a symlink in it. AT_FDCWD as `root_fd` means our
 * own tree, where "/" is "/" and nothing is made. */
int csn_target_open(int root_fd, const char *path, enum csn_target kind, int *ret_fd);

/* Puts `mount_fd` there. `mount_fd` stays open and usable as a directory. Before Linux 6.15 `root_fd`
 * must itself be attached somewhere: attach the root first, over "/" of a private mount namespace
 * if there is no better place (csn_pivot_into() takes it from there). Between those two the kernel
 * takes us for chrooted and refuses new user namespaces. */
int csn_mount_attach(int mount_fd, int root_fd, const char *path, enum csn_target kind);

/* A bind mount by path in one call or two, for places where nobody else can change what the paths mean. */
int csn_mount_over(const char *src, const char *path, unsigned attr);

/* `root_fd`: an attached mount. Makes it "/", detaches the old root and stands in "/". */
int csn_pivot_into(int root_fd);

/* -EXDEV unless `fd` is on procfs and its root (fstatfs, inode number 1) (R8). */
int csn_proc_verify(int fd);

/* 0 when `fd` is character device major:minor, -ENODEV otherwise. */
int csn_chardev_verify(int fd, unsigned major_number, unsigned minor_number);

#endif
