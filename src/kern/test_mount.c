/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "kern/mount.h"
#include "kern/overlay.h"
#include "kern/test_confined.h"
#include "kern/userns.h"

/* Each test runs in a process of its own: a mount namespace of its own is all it needs. */
static bool is_root; /* outside; in a user namespace everyone is */

static void enter_private_mounts(void)
{
    csn_idmap uid = { 0, geteuid(), 1 }, gid = { 0, getegid(), 1 };

    is_root = geteuid() == 0;
    if (unshare(is_root ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
        SKIP("kernel: no right to make namespaces");
    if (!is_root)
        CHECK_INT(csn_userns_map(getpid(), &uid, 1, &gid, 1, true), 0);
    CHECK_INT(csn_mount_private(), 0);
}

static int a_root(void)
{
    int fd = -1;

    CHECK_INT(csn_mount_tmpfs(1 << 20, 64, 0755, CSN_ATTR_NOSUID | CSN_ATTR_NODEV, &fd), 0);
    CHECK_INT(csn_mount_attach(fd, AT_FDCWD, csn_test_dir(), CSN_TARGET_EXISTING), 0);
    return fd;
}

static void write_to(int dir, const char *name, const char *text)
{
    csn_auto(fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
}

static const char *read_from(int dir, const char *name)
{
    static char text[4096];
    csn_auto(fd) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : csn_read_all(fd, text, sizeof(text) - 1);

    CHECK(n >= 0);
    text[n] = '\0';
    return text;
}

TEST(a_tmpfs_is_bounded_in_bytes_and_in_files)
{
    struct statvfs fs;

    enter_private_mounts();
    int root = a_root();
    CHECK_INT(fstatvfs(root, &fs), 0);
    CHECK_INT(fs.f_blocks * fs.f_frsize, 1 << 20);
    CHECK_INT(fs.f_files, 64);
    CHECK(fs.f_flag & ST_NOSUID && fs.f_flag & ST_NODEV);
}

TEST(a_symlink_in_the_target_is_refused_and_missing_parts_are_made)
{
    struct stat st;
    int fs = -1, file = -1;

    enter_private_mounts();
    int root = a_root();
    CHECK_INT(symlinkat("/etc", root, "dev"), 0);
    CHECK_INT(symlinkat("/proc/self/root", root, "up"), 0);
    CHECK_INT(csn_mount_tmpfs(1 << 20, 64, 0755, 0, &fs), 0);
    write_to(fs, "mark", "x");
    CHECK_INT(csn_mount_attach(fs, root, "dev", CSN_TARGET_DIR), -ELOOP);
    CHECK_INT(csn_mount_attach(fs, root, "/up/tmp", CSN_TARGET_DIR), -ELOOP);
    CHECK_INT(csn_mount_attach(fs, root, "dev/x", CSN_TARGET_DIR), -ELOOP);
    CHECK_INT(csn_mount_attach(fs, root, "no/where", CSN_TARGET_EXISTING), -ENOENT);
    CHECK_INT(csn_mount_attach(fs, root, "a/../../b", CSN_TARGET_DIR), -EINVAL);
    CHECK_INT(csn_mount_attach(fs, root, "", CSN_TARGET_DIR), -EINVAL);
    CHECK_INT(csn_mount_attach(fs, root, "/a/b//c/", CSN_TARGET_DIR), 0);
    CHECK_INT(fstatat(root, "a/b/c/mark", &st, 0), 0);
    CHECK_INT(csn_target_open(root, "x/y/z", CSN_TARGET_FILE, &file), 0);
    CHECK_INT(fstatat(root, "x/y/z", &st, 0), 0);
    CHECK(S_ISREG(st.st_mode));
    CHECK_INT(csn_target_open(root, "/../../x/y", CSN_TARGET_EXISTING, &file), 0); /* stays below */
}

static int bind(const char *src, bool recursive, unsigned attr, int root_fd, const char *path,
                enum csn_target kind)
{
    csn_auto(fd) int tree = -1;
    int r = csn_tree_clone(AT_FDCWD, src, recursive, &tree);

    if (r == 0)
        r = csn_tree_attr(tree, attr, recursive);
    return r < 0 ? r : csn_mount_attach(tree, root_fd, path, kind);
}

TEST(a_bind_takes_the_attributes_it_is_given)
{
    struct statvfs fs;
    int made = -1;

    enter_private_mounts();
    int root = a_root();
    CHECK_INT(bind("/usr", true, CSN_ATTR_RDONLY | CSN_ATTR_NOSUID | CSN_ATTR_NODEV, root, "usr",
                   CSN_TARGET_DIR),
              0);
    csn_auto(fd) int usr = openat(root, "usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(fstatvfs(usr, &fs), 0);
    CHECK(fs.f_flag & ST_RDONLY);
    made = openat(usr, "csn-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(made < 0 ? errno : 0, EROFS);
    CHECK_INT(bind("/dev/null", false, 0, root, "dev/null", CSN_TARGET_FILE), 0);
    csn_auto(fd) int null = openat(root, "dev/null", O_PATH | O_CLOEXEC);
    CHECK_INT(csn_chardev_verify(null, 1, 3), 0);
    CHECK_INT(csn_chardev_verify(usr, 1, 3), -ENODEV);
}

TEST(a_private_devpts_numbers_from_zero)
{
    const gid_t gid = geteuid() == 0 ? 5 : 0; /* one that is mapped */
    int pts = -1;
    struct stat st;

    enter_private_mounts();
    int root = a_root();
    CHECK_INT(csn_mount_devpts(gid, 16, &pts), 0);
    CHECK_INT(csn_mount_attach(pts, root, "dev/pts", CSN_TARGET_DIR), 0);
    csn_auto(fd) int master = openat(root, "dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0);
    CHECK_INT(fstatat(root, "dev/pts/0", &st, 0), 0);
    CHECK_INT(st.st_gid, gid);
}

TEST(an_overlay_shows_no_host_path_and_leaves_its_lower_alone)
{
    csn_overlay overlay = {
        .lower = (const char *const[]){ "l1", "l0" },
        .n_lower = 2,
        .upper = "upper",
        .work = "work",
        .is_volatile = true,
        .attr = CSN_ATTR_NOSUID | CSN_ATTR_NODEV,
    };
    int over = -1;

    enter_private_mounts();
    int stage = a_root();
    CHECK_INT(fchdir(stage), 0);
    static const char *const dirs[] = { "l0", "l1", "upper", "work", "root" };
    for (size_t i = 0; i < CSN_COUNT(dirs); i++)
        CHECK_INT(mkdir(dirs[i], 0755), 0);
    write_to(stage, "l0/f", "low");
    write_to(stage, "l0/g", "low");
    write_to(stage, "l1/g", "high");
    CHECK_INT(csn_mount_overlay(&overlay, &over), 0);
    CHECK_INT(csn_mount_attach(over, stage, "root", CSN_TARGET_EXISTING), 0);
    CHECK_STR(read_from(over, "f"), "low");
    CHECK_STR(read_from(over, "g"), "high");
    write_to(over, "f", "new");
    CHECK_STR(read_from(stage, "l0/f"), "low");
    CHECK_STR(read_from(stage, "upper/f"), "new");
    CHECK(strstr(read_from(AT_FDCWD, "/proc/self/mountinfo"), "lowerdir=l1:l0,upperdir=upper"));

    overlay.upper = NULL;
    overlay.n_lower = 1;
    CHECK_INT(csn_mount_overlay(&overlay, &over), -EINVAL);
    overlay.lower = (const char *const[]){ "/etc", "l0" };
    overlay.n_lower = 2;
    CHECK_INT(csn_mount_overlay(&overlay, &over), -EINVAL);
}

TEST(many_long_layer_names_fit)
{
    static char names[100][16], *list[100];
    csn_overlay overlay = { .lower = (const char *const *) list, .n_lower = 100 };
    int over = -1, r;

    enter_private_mounts();
    if (fchdir(a_root()) < 0)
        FAIL("fchdir");
    csn_auto(fd) int big = -1;
    CHECK_INT(csn_mount_tmpfs(1 << 20, 4096, 0755, 0, &big), 0);
    CHECK_INT(fchdir(big), 0);
    for (size_t i = 0; i < 100; i++) {
        (void) snprintf(names[i], sizeof(names[i]), "layer-%zu", i);
        list[i] = names[i];
        CHECK_INT(mkdir(names[i], 0755), 0);
    }
    r = csn_mount_overlay(&overlay, &over);
    if (r == -E2BIG)
        SKIP("kernel: takes all names in one string");
    CHECK_INT(r, 0);
}

TEST(a_tree_shows_mapped_owners)
{
    csn_idmap map = { 0, 0x40000000, 65536 };
    csn_auto(fd) int userns = -1, tree = -1, dir = -1;
    struct stat st;

    if (geteuid() != 0)
        SKIP("user: needs root");
    enter_private_mounts();
    int root = a_root();
    CHECK_INT(mkdirat(root, "d", 0755), 0);
    write_to(root, "d/f", "x");
    CHECK_INT(fchownat(root, "d/f", 1000, 1000, 0), 0);
    if (csn_userns_make(&map, 1, &map, 1, &userns) < 0)
        SKIP("kernel: no right to make a user namespace with a map");
    dir = openat(root, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(csn_tree_clone(dir, "", false, &tree), 0);
    int r = csn_tree_idmap(tree, userns);
    if (r == -EINVAL)
        SKIP("kernel: a tmpfs can be mapped from 6.3 on");
    CHECK_INT(r, 0);
    CHECK_INT(fstatat(tree, "f", &st, 0), 0);
    CHECK_INT(st.st_uid, 0x40000000 + 1000);
}

TEST(after_the_pivot_nothing_of_the_old_root_is_left)
{
    enter_private_mounts();
    csn_auto(fd) int root = -1, proc = -1;

    CHECK_INT(csn_mount_tmpfs(1 << 20, 64, 0755, 0, &root), 0);
    if (csn_mount_proc(0, &proc) < 0)
        SKIP("%sno pid namespace of ours to show", is_root ? "" : "user: ");
    CHECK_INT(csn_proc_verify(proc), 0);
    CHECK_INT(csn_proc_verify(root), -EXDEV);
    /* over "/" itself: no directory on the host is needed as a place for it */
    CHECK_INT(csn_mount_attach(root, AT_FDCWD, "/", CSN_TARGET_EXISTING), 0);
    CHECK_INT(csn_mount_attach(proc, root, "proc", CSN_TARGET_DIR), 0);
    CHECK_INT(csn_pivot_into(root), 0);
    CHECK_INT(access("/proc/self/status", F_OK), 0);
    CHECK_INT(access("/usr", F_OK), -1);
    const char *info = read_from(AT_FDCWD, "/proc/self/mountinfo");
    int lines = 0;
    for (const char *p = info; *p; p++)
        lines += *p == '\n';
    CHECK_INT(lines, 2);
}

static int64_t took(int64_t *since)
{
    int64_t now = csn_now_ns(), us = (now - *since) / 1000;

    *since = now;
    return us;
}

TEST(how_long_it_takes)
{
    csn_auto(fd) int root = -1, proc = -1, pts = -1, usr = -1, over = -1;
    csn_overlay overlay = {
        .lower = (const char *const[]){ "usr" }, .n_lower = 1, .upper = "up", .work = "work"
    };
    long long us[8];

    enter_private_mounts();
    int64_t t = csn_now_ns();
    CHECK_INT(csn_mount_tmpfs(64 << 20, 4096, 0755, 0, &root), 0);
    us[0] = took(&t);
    CHECK_INT(csn_mount_attach(root, AT_FDCWD, "/", CSN_TARGET_EXISTING), 0);
    us[1] = took(&t);
    if (csn_mount_proc(CSN_PROC_HIDEPID, &proc) < 0)
        SKIP("%sno pid namespace of ours to show", is_root ? "" : "user: ");
    us[2] = took(&t);
    CHECK_INT(csn_mount_devpts(5, 16, &pts), 0);
    us[3] = took(&t);
    CHECK_INT(csn_tree_clone(AT_FDCWD, "/usr", false, &usr), 0);
    us[4] = took(&t);
    CHECK_INT(csn_mount_attach(usr, root, "usr", CSN_TARGET_DIR), 0);
    us[5] = took(&t);
    CHECK_INT(mkdirat(root, "up", 0755) + mkdirat(root, "work", 0755) + fchdir(root), 0);
    (void) took(&t);
    for (int i = 0; i < 20; i++) {
        csn_close(&over);
        CHECK_INT(csn_mount_overlay(&overlay, &over), 0);
    }
    us[6] = took(&t) / 20;
    CHECK_INT(csn_pivot_into(root), 0);
    us[7] = took(&t);
    csn_test_note(
        "us: tmpfs %lld, attach %lld, proc %lld, devpts %lld, clone %lld, attach new %lld, "
        "overlay %lld, pivot %lld",
        us[0], us[1], us[2], us[3], us[4], us[5], us[6], us[7]);
}
