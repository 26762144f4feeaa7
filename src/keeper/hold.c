/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's namespaces, held by descriptors. User and network namespace are entered later; the mount and network
 * namespace of an ephemeral sandbox are held for another reason: whoever drops the last reference takes the mounts and
 * devices down, a millisecond of work with several RCU grace periods. If that is init, all who wait for the end wait for
 * it. So it is us, in our own exit, when there is nothing more to tell. By then no process is left that could reach
 * anything in them. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "kern/watch.h"
#include "setup.h"

int csn_hold_open(pid_t pid, const char *name, int *ret_fd)
{
    char path[64];
    int r = csn_fault("open_ns");

    if (r < 0)
        return r;
    (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, name); /* fits */
    *ret_fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

static bool has_own_network(const csn_keeper *k)
{
    csn_auto(fd) int fd = -1;
    struct stat own, its;

    return csn_hold_open(k->init_pid, "net", &fd) == 0 && fstat(fd, &its) == 0 &&
           stat("/proc/self/ns/net", &own) == 0 && own.st_ino != its.st_ino;
}

int csn_hold(csn_keeper *k, csn_error *err)
{
    int r = csn_await_namespaces(k, err);

    if (r != CSN_OK)
        return r;
    if (has_own_network(k))
        (void) csn_watch_netlink_open(k->init_pid,
                                      &k->netlink_fd); /* hidden from us: not counted */
    if (!(k->plan.flags & CSN_PLAN_EPHEMERAL))
        return CSN_OK;
    (void) csn_hold_open(k->init_pid, "mnt", &k->mntns_fd); /* dead already: seen soon */
    if (k->netns_fd < 0)
        (void) csn_hold_open(k->init_pid, "net", &k->netns_fd);
    return CSN_OK;
}
