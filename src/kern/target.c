/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and making the place for a mount in a tree that is enemy ground (R7). */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "missing.h"
#include "mount.h"

#define RESOLVE   (CSN_RESOLVE_IN_ROOT | CSN_RESOLVE_NO_MAGICLINKS | CSN_RESOLVE_NO_SYMLINKS)
#define MAX_TRIES 16

/* EAGAIN: something was renamed during the walk, the kernel can't vouch for the result. */
static int open_beneath(int dirfd, const char *path, int flags)
{
    struct csn_open_how how = {
        .flags = (uint64_t) (unsigned) (flags | O_PATH | O_CLOEXEC),
        .resolve = dirfd == AT_FDCWD ? RESOLVE & ~CSN_RESOLVE_IN_ROOT : RESOLVE,
    };
    int fd = -1;

    for (int i = 0; i < MAX_TRIES; i++) {
        fd = (int) syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return fd < 0 ? -errno : fd;
}

static int step_into(int dirfd, const char *name, int *ret_fd)
{
    int fd = open_beneath(dirfd, name, O_DIRECTORY);

    if (fd == -ENOENT) {
        if (mkdirat(dirfd, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        fd = open_beneath(dirfd, name, O_DIRECTORY);
    }
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

static int make_file(int dirfd, const char *name, int *ret_fd)
{
    csn_auto(fd) int made =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

    if (made < 0 && errno != EEXIST)
        return -errno;
    int fd = open_beneath(dirfd, name, 0);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

/* One component at a time: each is a plain name in a directory we hold. */
static int make_target(int root_fd, const char *path, enum csn_target kind, int *ret_fd)
{
    csn_auto(fd) int here = open_beneath(root_fd, ".", O_DIRECTORY);
    csn_str rest = csn_str_of(path), part;
    int r = here < 0 ? here : 0;

    while (r == 0 && csn_str_split(&rest, '/', &part)) {
        char name[256];
        int next = -1;
        if (part.len == 0)
            continue;
        r = csn_str_copy(name, sizeof(name), part);
        if (r == 0 && (!strcmp(name, "..") || !strcmp(name, ".")))
            r = -EINVAL;
        bool is_last = rest.data == NULL;
        if (r == 0)
            r = is_last && kind == CSN_TARGET_FILE ? make_file(here, name, &next)
                                                   : step_into(here, name, &next);
        if (r == 0) {
            csn_close(&here);
            here = next;
        }
    }
    if (r == 0)
        *ret_fd = csn_take_fd(&here);
    return r;
}

int csn_target_open(int root_fd, const char *path, enum csn_target kind, int *ret_fd)
{
    int r = csn_fault("target");

    if (r < 0)
        return r;
    if (path[0] == '\0')
        return -EINVAL;
    int fd = open_beneath(root_fd, path, kind == CSN_TARGET_DIR ? O_DIRECTORY : 0);
    if (fd == -ENOENT && kind != CSN_TARGET_EXISTING && root_fd != AT_FDCWD)
        return make_target(root_fd, path, kind, ret_fd);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}
