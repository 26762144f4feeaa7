/* SPDX-License-Identifier: Apache-2.0 */
#include "userns.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "missing.h"
#include "mount.h"
#include "pidfd.h"
#include "spawn.h"

enum { SHARE = 4 };

/* R8: nothing on the way is a symlink or mounted over. */
static int open_in_proc(int proc_fd, const char *path, int flags, int *ret_fd)
{
    struct csn_open_how how = {
        .flags = (uint64_t) (unsigned) (flags | O_CLOEXEC),
        .resolve = CSN_RESOLVE_BENEATH | CSN_RESOLVE_NO_SYMLINKS | CSN_RESOLVE_NO_XDEV,
    };
    int fd = (int) syscall(SYS_openat2, proc_fd, path, &how, sizeof(how));

    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int write_proc(int proc_fd, const char *path, const char *text, size_t len)
{
    csn_auto(fd) int fd = -1;
    int r = csn_fault_as("write_proc", EPERM);

    if (r == 0)
        r = open_in_proc(proc_fd, path, O_WRONLY, &fd);
    if (r < 0)
        return r;
    ssize_t n = csn_write(fd, text, len);
    return n < 0 ? (int) n : 0;
}

static int open_proc(int *ret_fd)
{
    csn_auto(fd) int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    int r = csn_proc_verify(fd);
    if (r < 0)
        return r;
    *ret_fd = csn_take_fd(&fd);
    return 0;
}

static int write_map(int proc_fd, pid_t pid, const char *file, const csn_idmap *map, size_t n)
{
    char path[48], text[CSN_IDMAP_MAX * 36];
    size_t len = 0;

    if (n > CSN_IDMAP_MAX)
        return -E2BIG;
    for (size_t i = 0; i < n; i++)
        len += (size_t) snprintf(text + len, sizeof(text) - len, "%u %u %u\n", map[i].inside,
                                 map[i].outside, map[i].count);
    (void) snprintf(path, sizeof(path), "%d/%s", (int) pid, file); /* always fits */
    return write_proc(proc_fd, path, text, len);
}

int csn_userns_map(pid_t pid, const csn_idmap *uids, size_t n_uids, const csn_idmap *gids,
                   size_t n_gids, bool deny_setgroups)
{
    csn_auto(fd) int proc = -1;
    char path[48];
    int r = open_proc(&proc);

    (void) snprintf(path, sizeof(path), "%d/setgroups", (int) pid); /* always fits */
    if (r == 0 && deny_setgroups)
        r = write_proc(proc, path, "deny", 4);
    if (r == 0)
        r = write_map(proc, pid, "gid_map", gids, n_gids);
    if (r == 0)
        r = write_map(proc, pid, "uid_map", uids, n_uids);
    return r;
}

/* Each name is a plain one in a directory that was verified. */
static int write_limit(int dir_fd, const char *name, unsigned long limit)
{
    csn_auto(fd) int fd = csn_fault_as("write_proc", EPERM);
    char text[24];

    if (fd < 0)
        return fd;
    fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) /* a kind of namespace this kernel hasn't got can't be made either */
        return errno == ENOENT ? 0 : -errno;
    int len = snprintf(text, sizeof(text), "%lu", limit); /* always fits */
    ssize_t n = csn_write(fd, text, (size_t) len);
    return n < 0 ? (int) n : 0;
}

int csn_userns_limits_open(int proc_fd, int *ret_fd)
{
    csn_auto(fd) int own = -1;
    int r = proc_fd >= 0 ? csn_proc_verify(proc_fd) : open_proc(&own);

    return r < 0 ? r
                 : open_in_proc(proc_fd >= 0 ? proc_fd : own, "sys/user", O_PATH | O_DIRECTORY,
                                ret_fd);
}

int csn_userns_limits_zero(int limits_fd, bool is_last)
{
    static const struct {
        const char *file;
        bool is_last;
    } kinds[] = {
        { "max_user_namespaces", false },  { "max_pid_namespaces", false },
        { "max_net_namespaces", false },   { "max_ipc_namespaces", false },
        { "max_uts_namespaces", false },   { "max_time_namespaces", false },
        { "max_cgroup_namespaces", true }, { "max_mnt_namespaces", true },
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < CSN_COUNT(kinds); i++)
        if (kinds[i].is_last == is_last)
            r = write_limit(limits_fd, kinds[i].file, 0);
    return r;
}

/* The host's own number, which everybody's are taken from. */
static unsigned long read_host_limit(int limits_fd, const char *path)
{
    csn_auto(fd) int fd = openat(limits_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char text[24] = "";
    ssize_t n = fd < 0 ? -1 : csn_read(fd, text, sizeof(text) - 1);

    return n > 0 ? strtoul(text, NULL, 10) : 0;
}

int csn_userns_limits_share(int limits_fd)
{
    static const struct {
        const char *host, *own;
    } kinds[] = {
        { "../fs/inotify/max_user_instances", "max_inotify_instances" },
        { "../fs/inotify/max_user_watches", "max_inotify_watches" },
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < CSN_COUNT(kinds); i++) {
        unsigned long share = read_host_limit(limits_fd, kinds[i].host) / SHARE;
        r = write_limit(limits_fd, kinds[i].own, share > 0 ? share : 1);
    }
    return r;
}

int csn_userns_forbid_nested(int proc_fd)
{
    csn_auto(fd) int dir = -1;
    int r = csn_userns_limits_open(proc_fd, &dir);

    if (r == 0)
        r = csn_userns_limits_zero(dir, false);
    return r < 0 ? r : csn_userns_limits_zero(dir, true);
}

static int open_userns(pid_t pid, int *ret_fd)
{
    char path[48];

    (void) snprintf(path, sizeof(path), "/proc/%d/ns/user", (int) pid); /* always fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int csn_userns_make(const csn_idmap *uids, size_t n_uids, const csn_idmap *gids, size_t n_gids,
                    int *ret_fd)
{
    csn_auto(fd) int pidfd = -1;
    pid_t pid = csn_clone(CSN_CLONE_NEWUSER, -1, &pidfd);

    if (pid < 0)
        return pid;
    if (pid == 0)
        for (;;)
            (void) pause(); /* until killed */
    int r = csn_userns_map(pid, uids, n_uids, gids, n_gids, false);
    if (r == -EPERM) /* more than our own id: for that there are helpers */
        r = csn_userns_map_helper(pid, uids, n_uids, gids, n_gids, csn_deadline_in_ms(5000));
    if (r == 0)
        r = open_userns(pid, ret_fd);
    (void) csn_child_kill(pid, pidfd); /* it only waits */
    return r;
}
