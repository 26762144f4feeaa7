/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "kern/dents.h"
#include "kern/fsconf.h"
#include "kern/mount.h"
#include "kern/pidfd.h"
#include "kern/spawn.h"
#include "setup.h"

#ifndef LOOP_CONFIGURE /* Linux 5.8 */
#define LOOP_CONFIGURE 0x4C0A
struct loop_config {
    uint32_t fd, block_size;
    struct loop_info64 info;
    uint64_t reserved[8];
};
#endif

enum {
    MKFS_WAIT_MS = 60000,
    MIN_BYTES = 16 << 20,
    TRIES = 32,
    LOOP_MAJOR = 7,
    MISC_MAJOR = 10,
    CONTROL_MINOR = 237
};

#define GIB INT64_C(1073741824)

/* --- making one -------------------------------------------------------------------------------------------------- */

typedef struct image_spec {
    int dir_fd;
    const char *name, *new_name;
    int64_t bytes, n_inodes; /* < 1: as much as there is room for */
    int64_t owner;           /* of its root directory */
} image_spec;

static const char *find_mkfs(void)
{
    static const char *const places[] = { "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
                                          "/usr/bin/mkfs.ext4" };

    for (size_t i = 0; i < CSN_COUNT(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

/* Holes take no room: without a limit it is as large as what is free now, within reason. */
static int64_t choose_bytes(const image_spec *spec)
{
    struct statvfs fs;
    int64_t room;

    if (spec->bytes > 0)
        return spec->bytes < MIN_BYTES ? MIN_BYTES : spec->bytes;
    if (fstatvfs(spec->dir_fd, &fs) < 0 || fs.f_blocks == 0) /* one in memory that doesn't count */
        return 16 * GIB;
    room = (int64_t) (fs.f_bavail * fs.f_frsize);
    return room < GIB ? GIB : room > 64 * GIB ? 64 * GIB : room;
}

/* The image is its descriptor 3: no path of the state directory shows in a process list. */
static int run_mkfs(const image_spec *spec, const char *mkfs, int image)
{
    char program[64], inodes[32], owner[80], flag_n[] = "-N", quiet[] = "-qF", none[] = "-m0",
                                             blocks[] = "-b4096", flag_e[] = "-E",
                                             journal[] = "-Jsize=8";
    char file[] = "/proc/self/fd/3";
    /* A journal is no hole everywhere (ramfs), and would grow with the size to 1 GiB. */
    const bool is_small = spec->bytes > 0 && spec->bytes < GIB / 4;
    char *argv[] = { program,
                     quiet,
                     none,
                     blocks,
                     flag_n,
                     inodes,
                     flag_e,
                     owner,
                     is_small ? file : journal,
                     is_small ? NULL : file,
                     NULL },
         *envp[] = { NULL };
    int64_t n = spec->n_inodes > 0 ? spec->n_inodes + 64 : spec->bytes > 0 ? 65536 : 1 << 20;
    int64_t most =
        choose_bytes(spec) / 4096; /* each has a block at least, and they take room themselves */
    csn_auto(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC), pidfd = -1;
    const int stdio[3] = { null, null, null };
    csn_child_end end;
    pid_t pid;
    int r;

    (void) snprintf(program, sizeof(program), "%s", mkfs); /* one of the places above */
    (void) snprintf(inodes, sizeof(inodes), "%lld", (long long) (n < most ? n : most));
    (void) snprintf(owner, sizeof(owner), "root_owner=%lld:%lld,lazy_itable_init=1,nodiscard",
                    (long long) spec->owner, (long long) spec->owner);
    if (null < 0)
        return -errno;
    r = csn_spawn_program(argv, envp, stdio, &image, 1, &pid, &pidfd);
    if (r < 0)
        return r;
    r = csn_pidfd_reap_until(pidfd, csn_deadline_in_ms(MKFS_WAIT_MS), &end);
    if (r < 0) {
        (void) csn_pidfd_signal(pidfd, SIGKILL); /* the image is thrown away */
        (void) csn_pidfd_reap(pidfd, false, &end);
        return r;
    }
    return end.by_signal || end.status != 0 ? -EIO : 0;
}

/* -ENOEXEC: there is no mkfs.ext4. */
static int make_image(const image_spec *spec)
{
    const char *mkfs = find_mkfs();
    csn_auto(fd) int fd = -1;
    int r = mkfs ? 0 : -ENOEXEC;

    if (r == 0)
        fd = openat(spec->dir_fd, spec->new_name,
                    O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r == 0 && (fd < 0 || ftruncate(fd, choose_bytes(spec)) < 0))
        r = -errno;
    if (r == 0)
        r = run_mkfs(spec, mkfs, fd);
    if (r == 0 && renameat(spec->dir_fd, spec->new_name, spec->dir_fd, spec->name) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        (void) unlinkat(spec->dir_fd, spec->new_name, 0); /* half a disk is none */
    return r;
}

static int open_image(const image_spec *spec, int *ret_fd)
{
    *ret_fd = openat(spec->dir_fd, spec->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return *ret_fd < 0 ? -errno : 0;
}

/* --- mounting it -------------------------------------------------------------------------------------------------- */

typedef struct loop_device {
    int fd;
    int nodes_fd; /* a tmpfs with its node, where /dev has none; -1: not needed */
    char path[64];
} loop_device;

static void close_device(loop_device *d)
{
    csn_close(&d->fd);
    csn_close(&d->nodes_fd);
}

/* In a container /dev holds the nodes of the day it was started; numbers that came later are ours to make. */
static int open_own_node(mode_t kind, dev_t number, loop_device *ret)
{
    int r = ret->nodes_fd >= 0 ? 0
                               : csn_mount_tmpfs(64 << 10, 8, 0700,
                                                 CSN_ATTR_NOSUID | CSN_ATTR_NOEXEC, &ret->nodes_fd);

    if (r < 0)
        return r;
    if (unlinkat(ret->nodes_fd, "node", 0) < 0 && errno != ENOENT)
        return -errno;
    if (mknodat(ret->nodes_fd, "node", kind | 0600, number) < 0)
        return -errno;
    (void) snprintf(ret->path, sizeof(ret->path), "/proc/self/fd/%d/node",
                    ret->nodes_fd); /* fits */
    ret->fd = open(ret->path, O_RDWR | O_CLOEXEC);
    return ret->fd < 0 ? -errno : 0;
}

static int open_loop(unsigned n, loop_device *ret)
{
    csn_close(&ret->fd);
    (void) snprintf(ret->path, sizeof(ret->path), "/dev/loop%u", n); /* fits */
    ret->fd = open(ret->path, O_RDWR | O_CLOEXEC);
    if (ret->fd >= 0)
        return 0;
    return errno == ENOENT ? open_own_node(S_IFBLK, makedev(LOOP_MAJOR, n), ret) : -errno;
}

static int open_control(int *ret_fd)
{
    loop_device control = { -1, -1, "" };
    int r = 0;

    *ret_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (*ret_fd < 0)
        r = errno == ENOENT ? open_own_node(S_IFCHR, makedev(MISC_MAJOR, CONTROL_MINOR), &control)
                            : -errno;
    if (control.fd >= 0)
        *ret_fd = csn_take_fd(&control.fd);
    close_device(&control);
    return r;
}

/* Somebody else may take the free device between the question and the use. */
static int attach_loop(int image, loop_device *ret)
{
    struct loop_config config = { .fd = (uint32_t) image };
    csn_auto(fd) int control = -1;
    int r = csn_fault_as("loop", ENODEV);

    if (r == 0)
        r = open_control(&control);
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    for (int i = 0; r == 0 && i < TRIES; i++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE);
        if (n < 0)
            return -errno;
        r = open_loop((unsigned) n, ret);
        if (r == 0 && ioctl(ret->fd, LOOP_CONFIGURE, &config) == 0)
            return 0;
        if (r == 0)
            r = -errno;
        if (r == -ENXIO || r == -EBUSY)
            r = 0;
    }
    return r < 0 ? r : -EBUSY;
}

/* A second device on one file would be a second file system on the same blocks. -ENOENT: there is no first. */
static int find_loop(int image, loop_device *ret)
{
    csn_auto(fd) int dir = open("/sys/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct loop_info64 info;
    csn_dents dents;
    const char *name;
    struct stat st = { 0 };
    int r = dir < 0 || fstat(image, &st) < 0 ? -errno : 0;

    if (r == 0)
        csn_dents_begin(&dents, dir);
    while (r == 0 && (r = csn_dents_next(&dents, &name, NULL)) > 0) {
        r = 0;
        if (strncmp(name, "loop", 4) != 0 ||
            open_loop((unsigned) strtoul(name + 4, NULL, 10), ret) < 0)
            continue;
        if (ioctl(ret->fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == st.st_dev &&
            info.lo_inode == st.st_ino)
            return 0;
    }
    csn_close(&ret->fd);
    return r < 0 ? r : -ENOENT;
}

static int mount_device(const loop_device *d, int *ret_fd)
{
    csn_auto(fd) int fs = -1;
    int r = csn_fs_begin("ext4", &fs);

    if (r == 0)
        r = csn_fs_set(fs, "source", d->path);
    /* The device is held by the mount from now on, and goes with it. */
    return r < 0 ? r : csn_fs_finish(fs, CSN_ATTR_NOSUID | CSN_ATTR_NODEV, ret_fd);
}

/* With the file's lock: of two who begin at once the second finds the device of the first. */
int csn_loop_mount(int image, int *ret_fd)
{
    loop_device device = { -1, -1, "" };
    int r = flock(image, LOCK_EX) < 0 ? -errno : find_loop(image, &device);

    if (r == -ENOENT)
        r = attach_loop(image, &device);
    if (r == 0)
        r = mount_device(&device, ret_fd);
    close_device(&device);
    (void) flock(image, LOCK_UN); /* closing would do it, too */
    return r;
}

/* --- what it is for ----------------------------------------------------------------------------------------------- */

static int fail_make(csn_keeper *k, int r, csn_error *err)
{
    if (r != -ENOEXEC)
        return csn_fail_sys(err, r, "make the disk image of sandbox '%s'", k->plan.id);
    if (k->plan.strict & CSN_LIMIT_DISK)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "a strict disk limit needs mkfs.ext4 (Debian: e2fsprogs)");
    return csn_fail_unfit(k, "can't be a writable layer without mkfs.ext4 (Debian: e2fsprogs)",
                          err);
}

int csn_loop_disk_open(csn_keeper *k, int *ret_fd, csn_error *err)
{
    const image_spec spec = { .dir_fd = k->box_fd,
                              .name = "disk.img",
                              .new_name = "disk.new",
                              .bytes = k->plan.disk_bytes,
                              .n_inodes = k->plan.disk_inodes,
                              .owner = k->plan.id_base };
    csn_auto(fd) int image = -1;
    int r = open_image(&spec, &image);

    if (r == -ENOENT) {
        r = make_image(&spec);
        if (r < 0)
            return fail_make(k, r, err);
        r = open_image(&spec, &image);
    }
    if (r == 0)
        r = csn_loop_mount(image, ret_fd);
    return r < 0 ? csn_fail_sys(err, r, "mount the disk image of sandbox '%s'", k->plan.id)
                 : CSN_OK;
}

/* Of two who make it at once the one that is named last would win, and the other's files be lost: so under a lock. */
static int make_volume(const image_spec *spec, int *ret_fd)
{
    csn_auto(fd) int mounted = -1;
    int r = flock(spec->dir_fd, LOCK_EX) < 0 ? -errno : open_image(spec, ret_fd);

    if (r == -ENOENT) {
        r = make_image(spec);
        if (r == 0)
            r = open_image(spec, ret_fd);
        if (r == 0)
            r = csn_loop_mount(*ret_fd, &mounted);
        if (r == 0)
            (void) unlinkat(mounted, "lost+found",
                            AT_REMOVEDIR); /* nobody's files are to be seen; no harm if so */
    }
    (void) flock(spec->dir_fd, LOCK_UN); /* closing would do it, too */
    return r;
}

int csn_loop_volume_open(int volume_fd, int *ret_fd)
{
    const image_spec spec = {
        .dir_fd = volume_fd, .name = "data.img", .new_name = "data.new", .owner = CSN_INSIDE_UID
    };
    csn_auto(fd) int image = -1;
    int r = open_image(&spec, &image);

    if (r == -ENOENT)
        r = make_volume(&spec, &image);
    return r < 0 ? r : csn_loop_mount(image, ret_fd);
}
