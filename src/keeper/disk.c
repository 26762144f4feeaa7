/* SPDX-License-Identifier: Apache-2.0 */
/* The writable layers of a sandbox on disk. Those in memory are a tmpfs, made by the child. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "loop.h"
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

int csn_disk_prepare(csn_keeper *k, csn_error *err)
{
    int r;

    if (csn_plan_is_in_memory(&k->plan)) {
        k->disk_rung = CSN_DISK_TMPFS;
        return CSN_OK;
    }
    if (wants_image(k))
        return prepare_image(k, err);
    k->disk_rung = CSN_DISK_WATCH;
    r = make_dir(k, k->box_fd, "disk", err);
    if (r != CSN_OK)
        return r;
    k->disk_fd = openat(k->box_fd, "disk", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (k->disk_fd < 0)
        return csn_fail_sys(err, -errno, "open the disk of sandbox '%s'", k->plan.id);
    return make_uppers(k, err);
}

void csn_disk_release(csn_keeper *k)
{
    csn_close(&k->disk_fd);
}
