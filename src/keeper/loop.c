/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "kern/fsconf.h"
#include "kern/mount.h"
#include "kern/pidfd.h"
#include "kern/spawn.h"

#ifndef LOOP_CONFIGURE /* Linux 5.8 */
#define LOOP_CONFIGURE 0x4C0A
struct loop_config {
    uint32_t fd, block_size;
    struct loop_info64 info;
    uint64_t reserved[8];
};
#endif

enum { MKFS_WAIT_MS = 15000, MIN_BYTES = 16 << 20, TRIES = 32 };

static const char *find_mkfs(void)
{
    static const char *const places[] = { "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
                                          "/usr/bin/mkfs.ext4" };

    for (size_t i = 0; i < CSN_COUNT(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

/* The image is its descriptor 3: no path of the state directory shows in a process list. */
static int run_mkfs(csn_keeper *k, const char *mkfs, int image)
{
    char program[64], inodes[32], owner[64], flag_n[] = "-N", quiet[] = "-qF", none[] = "-m0",
                                             blocks[] = "-b4096", flag_e[] = "-E";
    char file[] = "/proc/self/fd/3";
    char *argv[] = { program, quiet, none, blocks, flag_n, inodes, flag_e, owner, file, NULL },
         *envp[] = { NULL };
    int64_t n = k->plan.disk_inodes > 0 ? k->plan.disk_inodes + 64 : 65536;
    csn_auto(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC), pidfd = -1;
    const int stdio[3] = { null, null, null };
    csn_child_end end;
    pid_t pid;
    int r;

    (void) snprintf(program, sizeof(program), "%s", mkfs); /* one of the places above */
    (void) snprintf(inodes, sizeof(inodes), "%lld", (long long) n);
    (void) snprintf(owner, sizeof(owner), "root_owner=%lld:%lld,lazy_itable_init=1,nodiscard",
                    (long long) k->plan.id_base, (long long) k->plan.id_base);
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

static int make_image(csn_keeper *k, csn_error *err)
{
    int64_t bytes = k->plan.disk_bytes < MIN_BYTES ? MIN_BYTES : k->plan.disk_bytes;
    const char *mkfs = find_mkfs();
    csn_auto(fd) int fd = -1;
    int r = 0;

    if (!mkfs)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "a strict disk limit needs mkfs.ext4 (Debian: e2fsprogs)");
    fd = openat(k->box_fd, "disk.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || ftruncate(fd, bytes) < 0)
        r = -errno;
    if (r == 0)
        r = run_mkfs(k, mkfs, fd);
    if (r == 0 && renameat(k->box_fd, "disk.new", k->box_fd, "disk.img") < 0)
        r = -errno;
    if (r < 0) {
        (void) unlinkat(k->box_fd, "disk.new", 0); /* half a disk is none */
        return csn_fail_sys(err, r, "make the disk image of sandbox '%s'", k->plan.id);
    }
    return CSN_OK;
}

/* Somebody else may take the free device between the question and the use. */
static int attach_loop(int image, char path[32], int *ret_fd)
{
    struct loop_config config = { .fd = (uint32_t) image };
    csn_auto(fd) int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int r = csn_fault_as("loop", ENODEV);

    if (control < 0 || r < 0)
        return r < 0 ? r : -errno;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    for (int i = 0; i < TRIES; i++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE);
        if (n < 0)
            return -errno;
        (void) snprintf(path, 32, "/dev/loop%d", n); /* fits */
        csn_auto(fd) int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0 && errno != ENXIO && errno != EBUSY)
            return -errno;
        if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            *ret_fd = csn_take_fd(&fd);
            return 0;
        }
        if (fd >= 0 && errno != EBUSY)
            return -errno;
    }
    return -EBUSY;
}

static int mount_image(int image, int *ret_fd)
{
    csn_auto(fd) int loop = -1, fs = -1;
    char path[32];
    int r = attach_loop(image, path, &loop);

    if (r == 0)
        r = csn_fs_begin("ext4", &fs);
    if (r == 0)
        r = csn_fs_set(fs, "source", path);
    /* The device is held by the mount from now on, and goes with it. */
    return r < 0 ? r : csn_fs_finish(fs, CSN_ATTR_NOSUID | CSN_ATTR_NODEV, ret_fd);
}

int csn_loop_disk_open(csn_keeper *k, int *ret_fd, csn_error *err)
{
    csn_auto(fd) int image = openat(k->box_fd, "disk.img", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    int r;

    if (image < 0) {
        r = make_image(k, err);
        if (r != CSN_OK)
            return r;
        image = openat(k->box_fd, "disk.img", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    r = image < 0 ? -errno : mount_image(image, ret_fd);
    return r < 0 ? csn_fail_sys(err, r, "mount the disk image of sandbox '%s'", k->plan.id)
                 : CSN_OK;
}
