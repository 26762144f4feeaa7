/* SPDX-License-Identifier: Apache-2.0 */
/* /proc, /dev, /tmp: what the kernel gives rather than an image (R8, R9). */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "inside_impl.h"
#include "keeper.h"
#include "kern/mount.h"
#include "kern/userns.h"

#define QUIET (CSN_ATTR_NOSUID | CSN_ATTR_NODEV)

enum {
    TTY_GID = 5,
    PTYS_MAX = 256,
    TMP_FILES_MAX = 100000,
    SHM_FILES_MAX = 10000,
    DEV_FILES_MAX = 64
};

static const struct {
    const char *host, *name;
    unsigned major_number, minor_number;
} nodes[CSN_NODES] = {
    { "/dev/null", "null", 1, 3 },       { "/dev/zero", "zero", 1, 5 },
    { "/dev/full", "full", 1, 7 },       { "/dev/random", "random", 1, 8 },
    { "/dev/urandom", "urandom", 1, 9 }, { "/dev/tty", "tty", 5, 0 },
};

bool csn_dev_is_made;

static int clone_node(size_t i, int *ret_fd)
{
    csn_auto(fd) int fd = -1;
    int r = csn_tree_clone(AT_FDCWD, nodes[i].host, false, &fd);

    if (r == 0)
        r = csn_chardev_verify(fd, nodes[i].major_number, nodes[i].minor_number);
    if (r == 0)
        *ret_fd = csn_take_fd(&fd);
    return r;
}

/* Over the host's, in our mount namespace only, until there is a root: what is taken from /dev from here on is ours. */
static int receive_dev(csn_inside *in)
{
    csn_auto(fd) int host = -1;
    char byte;
    size_t n = 0;
    ssize_t len = csn_recv_fds(in->setup_fd, &byte, 1, &in->dev_fd, 1, &n);

    if (len <= 0 || n != 1)
        return len < 0 ? (int) len : -EPIPE;
    host = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return host < 0 ? -errno : csn_mount_attach(in->dev_fd, host, "dev", CSN_TARGET_EXISTING);
}

int csn_inside_gather_nodes(csn_inside *in)
{
    int r = 0;

    if (csn_dev_is_made)
        return receive_dev(in);

    for (size_t i = 0; r == 0 && i < CSN_NODES; i++) {
        r = clone_node(i, &in->nodes[i]);
        if (r < 0)
            csn_inside_about(in, nodes[i].host);
    }
    return r;
}

/* --- /proc -------------------------------------------------------------------------------------------------------- */

/* Over the host's, in our mount namespace only: it moves to its place when there is a root. */
int csn_inside_mount_proc(csn_inside *in)
{
    csn_auto(fd) int host = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = host < 0 ? -errno : csn_mount_proc(CSN_PROC_HIDEPID, &in->proc_fd);

    if (r == 0)
        r = csn_mount_attach(in->proc_fd, host, "proc", CSN_TARGET_EXISTING);
    return r < 0 ? r : csn_userns_limits_open(in->proc_fd, &in->limits_fd);
}

/* By path, which is one call where a detached copy takes seven: /proc is ours, just mounted, and every name in it the
 * kernel's own. Not every kernel has every file; what is not there needs no cover. */
static int make_read_only(const char *path)
{
    int r = csn_mount_over(path, path, CSN_ATTR_RDONLY);

    return r == -ENOENT ? 0 : r;
}

/* Read-only where the device is the host's own: else its times could be set. */
static int cover_file(const char *path)
{
    int r = csn_mount_over(nodes[0].host, path, csn_dev_is_made ? 0 : CSN_ATTR_RDONLY);

    return r == -ENOENT ? 0 : r;
}

/* Whoever could change it between this look and the mounts owns the host. */
static int check_null(void)
{
    csn_auto(fd) int fd = openat(AT_FDCWD, nodes[0].host, O_PATH | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? -errno : csn_chardev_verify(fd, nodes[0].major_number, nodes[0].minor_number);
}

int csn_inside_mask_proc(csn_inside *in)
{
    static const char *const read_only[] = { "/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs",
                                             "/proc/sysrq-trigger" };
    static const char *const files[] = { "/proc/kcore",       "/proc/keys",
                                         "/proc/kmsg",        "/proc/timer_list",
                                         "/proc/sched_debug", "/proc/latency_stats",
                                         "/proc/interrupts",  "/proc/kallsyms",
                                         "/proc/config.gz" };
    int r = check_null();

    for (size_t i = 0; r == 0 && i < CSN_COUNT(files); i++)
        r = cover_file(files[i]);
    for (size_t i = 0; r == 0 && i < CSN_COUNT(read_only); i++)
        r = make_read_only(read_only[i]);
    in->mask_error = r;
    return 0;
}

/* A directory is covered by an empty one of ours, which cannot be written. */
static int cover_dir(csn_inside *in, const char *name)
{
    csn_auto(fd) int copy = -1;
    int r;

    if (faccessat(in->proc_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (mkdirat(in->stage_fd, "empty", 0555) < 0 && errno != EEXIST)
        return -errno;
    r = csn_tree_clone(in->stage_fd, "empty", false, &copy);
    if (r == 0)
        r = csn_tree_attr(copy, QUIET | CSN_ATTR_RDONLY | CSN_ATTR_NOEXEC, false);
    return r < 0 ? r : csn_mount_attach(copy, in->proc_fd, name, CSN_TARGET_EXISTING);
}

int csn_inside_place_proc(csn_inside *in)
{
    static const char *const dirs[] = { "acpi", "scsi" };
    int r = in->plan.optional_walls & CSN_WALL_PROC ? 0 : in->mask_error;

    if (r == 0 && in->go.wants_proc)
        r = csn_mount_proc(CSN_PROC_RDONLY, &in->watch_proc_fd);
    if (r == 0)
        r = csn_mount_attach(in->proc_fd, in->root_fd, "proc", CSN_TARGET_DIR);
    for (size_t i = 0; r == 0 && i < CSN_COUNT(dirs); i++)
        r = cover_dir(in, dirs[i]);
    if (in->mask_error < 0)
        in->missing |= CSN_WALL_PROC;
    return r;
}

/* --- /dev --------------------------------------------------------------------------------------------------------- */

static int place_nodes(csn_inside *in, int dev)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < CSN_NODES; i++) {
        if (mknodat(dev, nodes[i].name, S_IFREG | 0666, 0) < 0)
            r = -errno;
        if (r == 0)
            r = csn_mount_attach(in->nodes[i], dev, nodes[i].name, CSN_TARGET_EXISTING);
        if (r < 0)
            csn_inside_about(in, nodes[i].host);
    }
    csn_close_many(in->nodes, CSN_NODES);
    return r;
}

static int make_links(int dev)
{
    static const struct {
        const char *target, *name;
    } links[] = {
        { "/proc/self/fd", "fd" },       { "/proc/self/fd/0", "stdin" },
        { "/proc/self/fd/1", "stdout" }, { "/proc/self/fd/2", "stderr" },
        { "pts/ptmx", "ptmx" },
    };

    for (size_t i = 0; i < CSN_COUNT(links); i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0)
            return -errno;
    return mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 ? -errno : 0;
}

static uint64_t bytes_of(int64_t limit)
{
    return limit > 0 ? (uint64_t) limit : 0;
}

static int make_dev(csn_inside *in, int *ret_dev)
{
    int r =
        csn_mount_tmpfs(64 << 10, DEV_FILES_MAX, 0755, CSN_ATTR_NOSUID | CSN_ATTR_NOEXEC, ret_dev);

    if (r == 0)
        r = csn_mount_attach(*ret_dev, in->root_fd, "dev", CSN_TARGET_DIR);
    if (r == 0)
        r = place_nodes(in, *ret_dev);
    if (r == 0)
        r = make_links(*ret_dev);
    return r < 0 ? r : csn_tree_attr(*ret_dev, CSN_ATTR_RDONLY, true); /* the nodes, too: they are the host's */
}

int csn_inside_mount_dev(csn_inside *in)
{
    csn_auto(fd) int dev = csn_take_fd(&in->dev_fd), pts = -1, shm = -1;
    int r =
        dev >= 0 ? csn_mount_attach(dev, in->root_fd, "dev", CSN_TARGET_DIR) : make_dev(in, &dev);

    if (r == 0)
        r = csn_mount_devpts(in->go.has_ids ? TTY_GID : (uint32_t) -1, PTYS_MAX, &pts);
    if (r == 0)
        r = csn_mount_attach(pts, dev, "pts", CSN_TARGET_EXISTING);
    if (r == 0)
        r = csn_mount_tmpfs(bytes_of(in->plan.shm_bytes), SHM_FILES_MAX, 01777, QUIET, &shm);
    if (r == 0)
        r = csn_mount_attach(shm, dev, "shm", CSN_TARGET_EXISTING);
    /* Complete: nobody, the sandbox's root included, adds to it. */
    return r < 0 ? r : csn_tree_attr(dev, CSN_ATTR_RDONLY, false);
}

/* Real nodes, which only the host's root can make: one mount instead of seven. Attached nowhere yet. */
int csn_dev_make(int *ret_fd)
{
    csn_auto(fd) int dev = -1;
    mode_t before = umask(0);
    int r = csn_mount_tmpfs(64 << 10, DEV_FILES_MAX, 0755, CSN_ATTR_NOSUID | CSN_ATTR_NOEXEC, &dev);

    for (size_t i = 0; r == 0 && i < CSN_NODES; i++)
        if (mknodat(dev, nodes[i].name, S_IFCHR | 0666,
                    makedev(nodes[i].major_number, nodes[i].minor_number)) < 0)
            r = -errno;
    if (r == 0)
        r = make_links(dev);
    (void) umask(before); /* never fails */
    if (r == 0)
        *ret_fd = csn_take_fd(&dev);
    return r;
}

int csn_inside_mount_tmp(csn_inside *in)
{
    csn_auto(fd) int tmp = -1;
    int r = csn_mount_tmpfs(bytes_of(in->plan.tmp_bytes), TMP_FILES_MAX, 01777, QUIET, &tmp);

    return r < 0 ? r : csn_mount_attach(tmp, in->root_fd, "tmp", CSN_TARGET_DIR);
}
