/* SPDX-License-Identifier: Apache-2.0 */
#include "fsname.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/vfs.h>

#include "base/auto.h"

/* The kernel's numbers (linux/magic.h has most of them); those that a state directory is found on. */
static const struct {
    uint32_t magic;
    const char *name;
} known[] = {
    { 0x794c7630, "overlay" }, { 0x858458f6, "ramfs" },    { 0x01021994, "tmpfs" },
    { 0x00006969, "nfs" },     { 0x65735546, "fuse" },     { 0x01021997, "9p" },
    { 0xff534d42, "cifs" },    { 0xfe534d42, "smb" },      { 0x2fc12fc1, "zfs" },
    { 0x0000ef53, "ext4" },    { 0x58465342, "xfs" },      { 0x9123683e, "btrfs" },
    { 0xf2f52010, "f2fs" },    { 0xca451a4e, "bcachefs" }, { 0x00004d44, "vfat" },
    { 0x2011bab0, "exfat" },   { 0x00c36400, "ceph" },     { 0x0bd00bd0, "lustre" },
    { 0x47504653, "gpfs" },    { 0x0000f15f, "ecryptfs" }, { 0x61756673, "aufs" },
    { 0x786f4256, "vboxsf" },  { 0x73717368, "squashfs" }, { 0x5346414f, "afs" },
    { 0x7366746e, "ntfs3" },   { 0x01161970, "gfs2" },     { 0x7461636f, "ocfs2" },
};

const char *csn_fs_name(int fd, char out[CSN_FS_NAME_SIZE])
{
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0) {
        (void) snprintf(out, CSN_FS_NAME_SIZE, "an unknown file system"); /* fits */
        return out;
    }
    for (size_t i = 0; i < CSN_COUNT(known); i++)
        if (known[i].magic == (uint32_t) fs.f_type) {
            (void) snprintf(out, CSN_FS_NAME_SIZE, "%s", known[i].name); /* fits */
            return out;
        }
    (void) snprintf(out, CSN_FS_NAME_SIZE, "type 0x%x", (unsigned) fs.f_type); /* fits */
    return out;
}
