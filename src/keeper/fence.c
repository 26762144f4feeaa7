/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock round the sandbox's own tree (R12): everything may be read and executed, written only where an ordinary
 * system is written; /proc and /dev never gain or lose a file. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "inside_impl.h"
#include "keeper.h"
#include "kern/landlock.h"

struct entry { /* linux_dirent64 */
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

static const struct {
    const char *path;
    unsigned rights;
} given[] = {
    { "/", CSN_LANDLOCK_READ | CSN_LANDLOCK_EXEC },
    { "/dev", CSN_LANDLOCK_DEV | CSN_LANDLOCK_WFILE },
    { "/dev/shm", CSN_LANDLOCK_WRITE },
    { "/proc",
      CSN_LANDLOCK_WFILE }, /* /proc/self/comm and its like; /proc/sys is read-only by its mount */
};

/* Belong to the system rather than to its user: only the profile "root inside" writes there. */
static bool is_of_system(const char *name)
{
    static const char *const names[] = { "bin",   "boot",   "etc",  "lib", "lib32",
                                         "lib64", "libx32", "sbin", "usr" };

    for (size_t i = 0; i < CSN_COUNT(names); i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static int allow(csn_landlock *rs, const char *path, unsigned rights)
{
    csn_auto(fd) int fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return csn_landlock_allow(rs, fd, rights);
}

static int allow_entry(csn_inside *in, csn_landlock *rs, const struct entry *e)
{
    if (e->type != DT_DIR || e->name[0] == '.' || !strcmp(e->name, "proc") ||
        !strcmp(e->name, "dev") || !strcmp(e->name, "sys"))
        return 0;
    if (!(in->plan.flags & CSN_PLAN_ROOT_INSIDE) && is_of_system(e->name))
        return 0;
    return allow(rs, e->name, CSN_LANDLOCK_WRITE); /* the working directory is / */
}

static int allow_top(csn_inside *in, csn_landlock *rs)
{
    _Alignas(struct entry) char buf[4096];
    csn_auto(fd) int root = openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n = -1;
    int r = root < 0 ? -errno : 0;

    while (r == 0 && (n = syscall(SYS_getdents64, root, buf, sizeof(buf))) > 0)
        for (long at = 0; r == 0 && at < n;) {
            const struct entry *e = (const void *) (buf + at);
            r = allow_entry(in, rs, e);
            at += e->len;
        }
    return r == 0 && n < 0 ? -errno : r;
}

int csn_inside_landlock(csn_inside *in)
{
    csn_landlock rs = CSN_LANDLOCK_INIT;
    int r = csn_landlock_begin(&rs, CSN_LANDLOCK_SCOPE_UNIX | CSN_LANDLOCK_SCOPE_SIGNAL);

    for (size_t i = 0; r == 0 && i < CSN_COUNT(given); i++)
        r = allow(&rs, given[i].path, given[i].rights);
    if (r == 0)
        r = allow_top(in, &rs);
    for (uint32_t i = 0; r == 0 && i < in->plan.n_mounts; i++)
        if (!in->plan.mounts[i].is_read_only)
            r = allow(&rs, in->plan.mounts[i].path, CSN_LANDLOCK_WRITE);
    if (r == 0)
        r = csn_landlock_restrict(&rs);
    csn_landlock_done(&rs);
    return r;
}
