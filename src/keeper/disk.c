/* SPDX-License-Identifier: Apache-2.0 */
/* The writable layers of a sandbox on disk. Those in memory are a tmpfs, made by the child. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fault.h"
#include "kern/fsname.h"
#include "kern/overlay.h"
#include "loop.h"
#include "remove.h"
#include "setup.h"

static int make_dir(csn_keeper *k, int dirfd, const char *name, csn_error *err)
{
    const uid_t owner = k->is_privileged ? (uid_t) k->plan.id_base : k->owner.uid;
    int r = csn_fault("mkdir");

    if (r == 0 && mkdirat(dirfd, name, 0755) < 0)
        r = -errno;
    if (r == -EEXIST)
        return CSN_OK; /* from an earlier run */
    if (r == 0 &&
        fchmodat(dirfd, name, 0755, 0) < 0) /* an upper layer's mode is /'s mode inside: no umask */
        r = -errno;
    if (r == 0 && (k->is_privileged || k->owner.is_other) &&
        fchownat(dirfd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    return r < 0 ? csn_fail_sys(err, r, "make '%s' for the disk of sandbox '%s'", name, k->plan.id)
                 : CSN_OK;
}

static int make_uppers(csn_keeper *k, csn_error *err)
{
    static const char *const dirs[] = { "root", "root/upper", "root/work",
                                        "usr",  "usr/upper",  "usr/work" };
    int r = CSN_OK;

    for (size_t i = 0; r == CSN_OK && i < CSN_COUNT(dirs); i++)
        r = make_dir(k, k->disk_fd, dirs[i], err);
    return r;
}

/* --- where the state directory can't be an upper layer ------------------------------------------------------------- */

int csn_fail_unfit(const csn_keeper *k, const char *why, csn_error *err)
{
    char name[CSN_FS_NAME_SIZE];

    /* All of it fits into a message: the remedy must not be cut off. */
    return csn_fail(
        err, CSN_E_UNSUPPORTED,
        "the state directory '%.60s' is on %s, which %s: set CAISSON_STATE (or --state) to one on ext4, "
        "xfs, btrfs or tmpfs",
        k->plan.state_dir, csn_fs_name(k->state_fd, name), why);
}

/* An overlay notes in attributes which directories were removed (kern/overlay.h). */
static int try_attributes(int disk_fd)
{
    static const char name[] = "user.caisson";

    if (fsetxattr(disk_fd, name, "1", 1, 0) < 0)
        return -errno;
    return fremovexattr(disk_fd, name) < 0 ? -errno : 0;
}

/* The same mount that the child will make. As root only: it takes a user namespace otherwise. */
static int try_overlay(int disk_fd)
{
    static const char *const dirs[] = { "try", "try/lower", "try/upper", "try/work" };
    const char *lower[] = { "try/lower" };
    const csn_overlay overlay = {
        .lower = lower, .n_lower = 1, .upper = "try/upper", .work = "try/work", .userxattr = true
    };
    csn_auto(fd) int mounted = -1;
    int r = fchdir(disk_fd) < 0 ? -errno : 0;

    for (size_t i = 0; r == 0 && i < CSN_COUNT(dirs); i++)
        if (mkdirat(disk_fd, dirs[i], 0700) < 0)
            r = -errno;
    if (r == 0)
        r = csn_mount_overlay(&overlay, &mounted);
    csn_close(&mounted);
    (void) csn_tree_remove(disk_fd, "try"); /* what stays is removed with the sandbox */
    return chdir("/") < 0 && r == 0 ? -errno : r;
}

/* A new disk is tried before anything is on it. -EINVAL: this file system can't be an upper layer. */
static int try_upper(const csn_keeper *k)
{
    int r = csn_fault("try_upper");

    if (r == 0)
        r = try_attributes(k->disk_fd);
    if (r == 0 && k->is_privileged)
        r = try_overlay(k->disk_fd);
    return r == -EOPNOTSUPP ? -EINVAL : r;
}

/* Once an image, always an image: files don't move when the limit is no longer strict. */
static bool wants_image(const csn_keeper *k)
{
    return (k->plan.strict & CSN_LIMIT_DISK && k->plan.disk_bytes > 0) ||
           faccessat(k->box_fd, "disk.img", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int prepare_image(csn_keeper *k, csn_error *err)
{
    int r;

    if (!k->is_privileged)
        return csn_fail(
            err, CSN_E_UNSUPPORTED,
            "the disk limit is strict, but without root no disk can be bounded by the kernel");
    k->disk_rung = CSN_DISK_LOOP;
    r = csn_loop_disk_open(k, &k->disk_fd, err);
    return r != CSN_OK ? r : make_uppers(k, err);
}

/* A file system of its own inside the state directory will do, where one can be mounted. */
static int replace_by_image(csn_keeper *k, csn_error *err)
{
    if (!k->is_privileged)
        return csn_fail_unfit(k, "can't be the writable layer of a sandbox that stays", err);
    csn_close(&k->disk_fd);
    if (unlinkat(k->box_fd, "disk", AT_REMOVEDIR) < 0)
        return csn_fail_sys(err, -errno, "remove the empty disk of sandbox '%s'", k->plan.id);
    return prepare_image(k, err);
}

int csn_disk_prepare(csn_keeper *k, csn_error *err)
{
    bool is_new;
    int r;

    if (csn_plan_is_in_memory(&k->plan)) {
        k->disk_rung = CSN_DISK_TMPFS;
        return CSN_OK;
    }
    if (wants_image(k))
        return prepare_image(k, err);
    k->disk_rung = CSN_DISK_WATCH;
    is_new = faccessat(k->box_fd, "disk", F_OK, AT_SYMLINK_NOFOLLOW) < 0;
    r = make_dir(k, k->box_fd, "disk", err);
    if (r != CSN_OK)
        return r;
    k->disk_fd = openat(k->box_fd, "disk", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (k->disk_fd < 0)
        return csn_fail_sys(err, -errno, "open the disk of sandbox '%s'", k->plan.id);
    r = is_new ? try_upper(k) : 0;
    if (r == -EINVAL)
        return replace_by_image(k, err);
    if (r < 0)
        return csn_fail_sys(err, r, "try the disk of sandbox '%s'", k->plan.id);
    return make_uppers(k, err);
}

void csn_disk_release(csn_keeper *k)
{
    csn_close(&k->disk_fd);
}
