/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "fsconf.h"
#include "missing.h"

#define VALUE_MAX 255 /* fsconfig() takes no longer string */

static int check_name(const char *name)
{
    if (!name || name[0] == '\0' || name[0] == '/' || strpbrk(name, ":,\\") ||
        strlen(name) > VALUE_MAX)
        return -EINVAL;
    return 0;
}

/* "a:b:c", as every kernel understands it. -E2BIG when it doesn't fit. */
static int join_lower(const csn_overlay *overlay, char out[VALUE_MAX + 1])
{
    size_t len = 0;

    for (size_t i = 0; i < overlay->n_lower; i++) {
        size_t n = strlen(overlay->lower[i]);
        if (len + (i > 0) + n > VALUE_MAX)
            return -E2BIG;
        if (i > 0)
            out[len++] = ':';
        memcpy(out + len, overlay->lower[i], n);
        len += n;
    }
    out[len] = '\0';
    return 0;
}

/* Linux 6.8+ takes the layers one by one, so many long names fit. Older kernels refuse that with EINVAL: here, or before 6.5
 * not until the mount is made. */
static int set_lower(int fs, const csn_overlay *overlay, bool *ret_is_joined)
{
    char joined[VALUE_MAX + 1];
    int r = join_lower(overlay, joined);

    *ret_is_joined = r == 0;
    if (r == 0)
        return csn_fs_set(fs, "lowerdir", joined);
    for (size_t i = 0; i < overlay->n_lower; i++) {
        r = csn_fs_set(fs, "lowerdir+", overlay->lower[i]);
        if (r < 0)
            return i == 0 && r == -EINVAL ? -E2BIG : r;
    }
    return 0;
}

static int check(const csn_overlay *overlay)
{
    int r = overlay->n_lower == 0 || overlay->n_lower > CSN_OVERLAY_MAX_LOWER ? -EINVAL : 0;

    for (size_t i = 0; r == 0 && i < overlay->n_lower; i++)
        r = check_name(overlay->lower[i]);
    if (r == 0 && overlay->upper)
        r = check_name(overlay->upper);
    if (r == 0 && overlay->upper)
        r = check_name(overlay->work);
    if (r == 0 && !overlay->upper && overlay->n_lower < 2)
        r = -EINVAL; /* overlayfs wants two layers: clone the one tree instead */
    return r;
}

static int set_upper(int fs, const csn_overlay *overlay)
{
    int r = csn_fs_set(fs, "upperdir", overlay->upper);

    if (r == 0)
        r = csn_fs_set(fs, "workdir", overlay->work);
    if (r == 0 && overlay->is_volatile)
        r = csn_fs_flag(fs, "volatile");
    return r;
}

int csn_mount_overlay(const csn_overlay *overlay, int *ret_fd)
{
    csn_auto(fd) int fs = -1;
    bool is_joined = false;
    int r = check(overlay);

    if (r == 0)
        r = csn_fs_begin("overlay", &fs);
    if (r == 0)
        r = set_lower(fs, overlay, &is_joined);
    if (r == 0 && overlay->upper)
        r = set_upper(fs, overlay);
    if (r == 0 && overlay->userxattr)
        r = csn_fs_flag(fs, "userxattr");
    if (r < 0)
        return r;
    r = csn_fs_finish(fs, overlay->attr, ret_fd);
    return r == -EINVAL && !is_joined ? -E2BIG : r;
}

/* The mark on the directory says that there are such files in it. One that is opaque hides more than they could. */
static int make_file(int dirfd, const char *name)
{
    csn_auto(fd) int fd =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || fsetxattr(fd, "user.overlay.whiteout", "y", 1, 0) < 0)
        return -errno;
    if (fsetxattr(dirfd, "user.overlay.opaque", "x", 1, XATTR_CREATE) < 0 && errno != EEXIST)
        return -errno;
    return 0;
}

int csn_whiteout_make(int dirfd, const char *name)
{
    if (mknodat(dirfd, name, S_IFCHR | 0600, makedev(0, 0)) == 0)
        return 0;
    return errno == EPERM ? make_file(dirfd, name) : -errno;
}

bool csn_whiteout_is_file(int fd)
{
    char value[4];

    return fgetxattr(fd, "user.overlay.whiteout", value, sizeof(value)) > 0;
}

/* A memfd is a file of a tmpfs that is always there. */
bool csn_tmpfs_has_user_xattrs(void)
{
    csn_auto(fd) int fd = memfd_create("probe", MFD_CLOEXEC);

#ifdef CSN_TEST_HOOKS
    if (secure_getenv("CSN_NO_TMPFS_XATTRS"))
        return false;
#endif
    return fd < 0 || fsetxattr(fd, "user.caisson", "1", 1, 0) == 0;
}
