/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock round the sandbox's own tree (R12): everything may be read and executed, written only where an ordinary
 * system is written; /proc and /dev never gain or lose a file. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "inside_impl.h"
#include "keeper.h"
#include "kern/dents.h"
#include "kern/landlock.h"

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

static int allow_dir(csn_inside *in, csn_landlock *rs, const char *name)
{
    if (name[0] == '.' || !strcmp(name, "proc") || !strcmp(name, "dev") || !strcmp(name, "sys"))
        return 0;
    if (!(in->plan.flags & CSN_PLAN_ROOT_INSIDE) && is_of_system(name))
        return 0;
    return allow(rs, name, CSN_LANDLOCK_WRITE); /* the working directory is / */
}

static int allow_top(csn_inside *in, csn_landlock *rs)
{
    csn_auto(fd) int root = openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned char type;
    const char *name;
    csn_dents dents;
    int r;

    if (root < 0)
        return -errno;
    csn_dents_begin(&dents, root);
    while ((r = csn_dents_next(&dents, &name, &type)) > 0) {
        r = type == DT_DIR ? allow_dir(in, rs, name) : 0;
        if (r < 0)
            break;
    }
    return r;
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
