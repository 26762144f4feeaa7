/* SPDX-License-Identifier: Apache-2.0 */
#include "tries.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "caps.h"
#include "missing.h"
#include "mount.h"
#include "net.h"
#include "overlay.h"
#include "pidfd.h"
#include "seccomp.h"
#include "spawn.h"
#include "userns.h"
#include "way.h"

enum { TRY_MS = 5000, INSIDE_UID = 1000, N_IDS = 65536 };

#define RANGE_BASE 0x40000000u /* ids that no sandbox is given */

/* --- namespaces ------------------------------------------------------------------------------------------------- */

static int map_ids(pid_t pid, bool is_privileged)
{
    const csn_idmap range = { 0, RANGE_BASE, N_IDS };
    csn_owner owner;

    if (is_privileged)
        return csn_userns_map(pid, &range, 1, &range, 1, false);
    if (csn_way_owner(&owner))
        return -EPERM;
    const csn_idmap uid = { INSIDE_UID, owner.uid, 1 }, gid = { INSIDE_UID, owner.gid, 1 };
    return csn_userns_map(pid, &uid, 1, &gid, 1, !owner.is_other);
}

static _Noreturn void run_child(int go, bool has_range, int (*body)(const void *arg),
                                const void *arg)
{
    char byte;
    int r = csn_read(go, &byte, 1) == 1 ? 0 : -EIO;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* else it ends by itself in a moment */
    if (r == 0 && has_range &&
        (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
        r = -errno;
    if (r == 0)
        r = csn_clone_late();
    if (r == 0 && body)
        r = body(arg);
    _exit(r < 0 ? -r : 0);
}

/* Runs `body` in a child with new namespaces. */
static int try_in(uint64_t flags, int (*body)(const void *arg), const void *arg)
{
    const bool is_privileged = csn_way_find() == CSN_WAY_PRIVILEGED;
    const bool has_userns = flags & CSN_CLONE_NEWUSER;
    csn_auto(fd) int go_in = -1, go_out = -1, pidfd = -1;
    csn_child_end end = { 0 };
    int p[2], r = 0;

    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    go_in = p[0];
    go_out = p[1];
    pid_t pid = csn_clone(flags, -1, &pidfd);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        csn_close(&go_out);
        run_child(go_in, has_userns && is_privileged, body, arg);
    }
    if (has_userns)
        r = map_ids(pid, is_privileged);
    if (r == 0)
        r = csn_write_all(go_out, "x", 1);
    if (r == 0)
        r = csn_pidfd_reap_until(pidfd, csn_deadline_in_ms(TRY_MS), &end);
    if (r < 0) {
        (void) csn_child_kill(pid, pidfd); /* whatever it was at */
        return r;
    }
    return end.by_signal ? -EINTR : -end.status;
}

int csn_try_namespaces(uint64_t flags)
{
    return try_in(CSN_CLONE_NEWUSER | flags, NULL, NULL);
}

static int make_private(const void *arg)
{
    (void) arg;
    return csn_mount_private();
}

int csn_try_rights(void)
{
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS, make_private, NULL);
}

/* Through a procfs of its own: the machine's may be read-only. */
static int forbid_nested(const void *arg)
{
    int proc = -1, r = csn_mount_proc(0, &proc);

    (void) arg;
    if (r == 0)
        r = csn_userns_forbid_nested(proc);
    if (r < 0)
        return r;
    return csn_unshare(CSN_CLONE_NEWUSER) == 0 ? -ENOTRECOVERABLE : 0;
}

int csn_try_no_nesting(void)
{
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS | CSN_CLONE_NEWPID, forbid_nested, NULL);
}

static int filter_network(const void *arg)
{
    (void) arg;
    return csn_net_filter(NULL, 0);
}

int csn_try_net_filter(void)
{
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNET, filter_network, NULL);
}

/* --- file systems ----------------------------------------------------------------------------------------------- */

static int stage_root(int *ret_fd)
{
    int r = csn_mount_private();

    if (r == 0)
        r = csn_mount_tmpfs(1 << 20, 64, 0755, CSN_ATTR_NOSUID | CSN_ATTR_NODEV, ret_fd);
    if (r == 0)
        r = csn_mount_attach(*ret_fd, AT_FDCWD, "/", CSN_TARGET_EXISTING);
    return r;
}

static int mount_overlay(const void *arg)
{
    csn_overlay overlay = { .lower = (const char *const[]){ "l" },
                            .n_lower = 1,
                            .upper = "u",
                            .work = "w",
                            .userxattr = true };
    int root = -1, over = -1, r = stage_root(&root);

    (void) arg;
    if (r < 0)
        return r;
    if (fchdir(root) < 0 || mkdir("l", 0755) < 0 || mkdir("u", 0755) < 0 || mkdir("w", 0755) < 0 ||
        mkdir("l/d", 0755) < 0)
        return -errno;
    r = csn_mount_overlay(&overlay, &over);
    if (r == 0 && mkdirat(over, "d/e", 0755) < 0) /* a copy up */
        r = -errno;
    return r;
}

int csn_try_overlay(void)
{
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS, mount_overlay, NULL);
}

static int mount_proc(const void *arg)
{
    int fd = -1;

    (void) arg;
    return csn_mount_proc(CSN_PROC_HIDEPID, &fd);
}

int csn_try_proc(void)
{
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS | CSN_CLONE_NEWPID, mount_proc, NULL);
}

static int pivot(const void *arg)
{
    int root = -1, r = stage_root(&root);

    (void) arg;
    return r < 0 ? r : csn_pivot_into(root);
}

int csn_try_pivot(void)
{
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS, pivot, NULL);
}

int csn_try_id_range(void)
{
    const csn_idmap map = { 0, RANGE_BASE, N_IDS };
    csn_auto(fd) int fd = -1;

    return csn_userns_make(&map, 1, &map, 1, &fd);
}

static int map_tree(const void *path)
{
    const csn_idmap map = { 0, RANGE_BASE, N_IDS };
    int tree = -1, userns = -1;
    int r = csn_userns_make(&map, 1, &map, 1, &userns);

    if (r == 0)
        r = csn_tree_clone(AT_FDCWD, path, false, &tree);
    return r < 0 ? r : csn_tree_idmap(tree, userns);
}

int csn_try_idmap(const char *path)
{
    return try_in(CSN_CLONE_NEWNS, map_tree, path);
}

static int make_null(const void *arg)
{
    int dir = -1, r = csn_mount_tmpfs(1 << 16, 8, 0755, CSN_ATTR_NOSUID, &dir), null;

    (void) arg;
    if (r < 0)
        return r;
    if (mknodat(dir, "null", S_IFCHR | 0666, makedev(1, 3)) < 0)
        return -errno;
    null = openat(dir, "null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return null < 0 ? -errno : csn_chardev_verify(null, 1, 3);
}

int csn_try_devices(void)
{
    return try_in(CSN_CLONE_NEWNS, make_null, NULL);
}

int csn_try_write(const char *dir)
{
    static const char page[4096];
    csn_auto(fd) int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
    char name[32];
    int r;

    if (at < 0)
        return -errno;
    (void) snprintf(name, sizeof(name), ".probe-%d", (int) getpid()); /* fits */
    fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = csn_write_all(fd, page, sizeof(page));
    if (unlinkat(at, name, 0) < 0 && r == 0)
        r = -errno;
    return r;
}

/* --- the filter and the calls ----------------------------------------------------------------------------------- */

static int install_filter(const void *arg)
{
    int r = csn_no_new_privs();

    (void) arg;
    if (r == 0)
        r = csn_seccomp_install(CSN_SECCOMP_DEFAULT, 0);
    if (r < 0)
        return r;
    return csn_unshare(CSN_CLONE_NEWUSER) == 0 ? -ENOTRECOVERABLE : 0;
}

int csn_try_filter(void)
{
    return try_in(0, install_filter, NULL);
}

#define NO_FLAG 0x40000000L /* none of theirs */

/* Each is called so that it does nothing: a kernel that has it answers with another errno than these two. Those that ask
 * for the right to mount before they look at their arguments may say EPERM to anybody. */
static const struct {
    const char *name, *since;
    long number;
    long args[5];
    bool may_be_denied;
} calls[] = {
    { "memfd_create", "3.17", SYS_memfd_create, { 0, ~0L }, false },
    { "execveat", "3.19", SYS_execveat, { -1, 0, 0, 0, 0 }, false },
    { "openat2", "5.6", SYS_openat2, { -1, 0, 0, 0 }, false },
    { "unshare", "2.6.16", SYS_unshare, { 0 }, false },
    { "setns", "3.0", SYS_setns, { -1, 0 }, false },
    { "open_tree", "5.2", SYS_open_tree, { -1, 0, NO_FLAG }, false },
    { "fsopen", "5.2", SYS_fsopen, { 0, NO_FLAG }, true },
    { "fsconfig", "5.2", SYS_fsconfig, { -1, 0, 0, 0, 0 }, false },
    { "fsmount", "5.2", SYS_fsmount, { -1, NO_FLAG, 0 }, true },
    { "move_mount", "5.2", SYS_move_mount, { -1, 0, -1, 0, NO_FLAG }, true },
    { "mount_setattr", "5.12", SYS_mount_setattr, { -1, 0, NO_FLAG, 0, 0 }, false },
    { "pivot_root", "2.3", SYS_pivot_root, { 0, 0 }, true },
};

int csn_try_pidfd_signal(void)
{
    int r = csn_pidfd_signal(-1, 0);

    return r == -EBADF ? 0 : r;
}

int csn_try_calls(const char **ret_name, const char **ret_since)
{
    *ret_name = *ret_since = NULL;
    for (size_t i = 0; i < CSN_COUNT(calls); i++) {
        const long *a = calls[i].args;
        int error = syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4]) < 0 ? errno : 0;
        if (error == ENOSYS || (error == EPERM && !calls[i].may_be_denied)) {
            *ret_name = calls[i].name;
            *ret_since = calls[i].since;
            return -error;
        }
    }
    return 0;
}
