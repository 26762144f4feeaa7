/* SPDX-License-Identifier: Apache-2.0 */
#include "walls_off.h"

#ifdef CSN_TEST_HOOKS

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "keeper.h"
#include "kern/mount.h"
#include "kern/userns.h"

uint32_t csn_walls_down;

static int nothing(csn_inside *in)
{
    (void) in;
    return 0;
}

/* Neither masked nor hidden. */
static int bare_proc(csn_inside *in)
{
    csn_auto(fd) int host = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = host < 0 ? -errno : csn_mount_proc(0, &in->proc_fd);

    if (r == 0)
        r = csn_mount_attach(in->proc_fd, host, "proc", CSN_TARGET_EXISTING);
    return r < 0 ? r : csn_userns_limits_open(in->proc_fd, &in->limits_fd);
}

static int place_bare_proc(csn_inside *in)
{
    int r = in->go.wants_proc ? csn_mount_proc(CSN_PROC_RDONLY, &in->watch_proc_fd) : 0;

    return r < 0 ? r : csn_mount_attach(in->proc_fd, in->root_fd, "proc", CSN_TARGET_EXISTING);
}

/* The host's own tree, writable where its permissions say so. What we need besides lies on file systems of our own: the
 * steps that would write into a root of ours are left out. */
static int host_root(csn_inside *in)
{
    int r = csn_tree_clone(AT_FDCWD, "/", true, &in->root_fd);

    if (r == 0 && mkdirat(in->stage_fd, "new", 0755) < 0)
        r = -errno;
    return r < 0 ? r : csn_mount_attach(in->root_fd, in->stage_fd, "new", CSN_TARGET_EXISTING);
}

static int home_in_memory(csn_inside *in)
{
    csn_auto(fd) int home = -1;
    int r = csn_mount_tmpfs(64 << 20, 1000, 0755, CSN_ATTR_NOSUID | CSN_ATTR_NODEV, &home);

    if (r == 0)
        r = csn_mount_attach(home, in->root_fd, "home", CSN_TARGET_EXISTING);
    return r < 0 ? r : csn_inside_make_home(in);
}

static int host_dev(csn_inside *in)
{
    csn_auto(fd) int dev = -1;
    int r = in->dev_fd >= 0 && umount2("/dev", MNT_DETACH) < 0 ? -errno : 0;

    if (r == 0)
        r = csn_tree_clone(AT_FDCWD, "/dev", true, &dev);
    csn_close_many(in->nodes, CSN_NODES);
    return r < 0 ? r : csn_mount_attach(dev, in->root_fd, "dev", CSN_TARGET_EXISTING);
}

/* Without a user namespace the ids inside are the host's, and the child's is 0. */
static int stay_host_root(csn_inside *in)
{
    (void) in;
    return fchownat(AT_FDCWD, "/home/daytona", 0, 0, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Through every exec, whatever the uid. */
static int keep_caps(csn_inside *in)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

    (void) in;
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (size_t i = 0; i < 2; i++)
        data[i].inheritable = data[i].effective = data[i].permitted;
    if (syscall(SYS_capset, &header, data) < 0)
        return -errno;
    for (unsigned cap = 0; cap < 64; cap++)
        if (data[cap / 32].permitted >> cap % 32 & 1 &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return -errno;
    return 0;
}

static const struct {
    const char *step; /* of inside.c */
    uint32_t wall;
    csn_step_fn run;
} instead[] = {
    { "bring up loopback", CSN_WALL_NETNS, nothing },
    { "mount /proc", CSN_WALL_PROC, bare_proc },
    { "mask /proc", CSN_WALL_PROC, nothing },
    { "place /proc", CSN_WALL_PROC, place_bare_proc },
    { "mount /", CSN_WALL_ROOT, host_root },
    { "mount /usr", CSN_WALL_ROOT, nothing },
    { "make a home", CSN_WALL_ROOT, home_in_memory },
    { "write names", CSN_WALL_ROOT, nothing },
    { "mount /dev", CSN_WALL_DEV, host_dev },
    { "set the host name", CSN_WALL_NAMESPACES, nothing }, /* it is the host's */
    { "make a cgroup namespace", CSN_WALL_NAMESPACES, nothing },
    /* Without a user namespace of its own it would be forbidden to the whole host. */
    { "forbid most namespaces", CSN_WALL_NO_NESTING | CSN_WALL_USERNS, nothing },
    { "forbid nested namespaces", CSN_WALL_NO_NESTING | CSN_WALL_USERNS, nothing },
    { "set rlimits", CSN_WALL_RLIMITS, nothing },
    { "apply landlock", CSN_WALL_LANDLOCK, nothing },
    { "set user and group", CSN_WALL_USERNS, stay_host_root },
    { "drop capabilities", CSN_WALL_CAPS, keep_caps },
    { "set no_new_privs", CSN_WALL_NO_NEW_PRIVS, nothing },
    { "install the system call filter", CSN_WALL_SECCOMP, nothing },
};

csn_step_fn csn_walls_step(const char *name, csn_step_fn run)
{
    for (size_t i = 0; i < CSN_COUNT(instead); i++)
        if (csn_walls_down & instead[i].wall && !strcmp(name, instead[i].step))
            return instead[i].run;
    return run;
}

#endif
