/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "caps.h"
#include "cgroup.h"
#include "landlock.h"
#include "lines.h"
#include "missing.h"
#include "mount.h"
#include "net.h"
#include "overlay.h"
#include "pidfd.h"
#include "seccomp.h"
#include "spawn.h"
#include "userns.h"

#define TRY_MS     5000
#define RANGE_BASE 0x40000000u

/* Who it hurts when it isn't there. */
enum weight {
    WALL,     /* FAILED: no sandbox */
    LIMIT,    /* LIMITED: sandboxes with less */
    OPTIONAL, /* MISSING: one feature less */
};

enum { NOT_FOR_US = 1 }; /* nothing that this user's sandboxes are made of: left out */

struct check {
    const char *name;
    enum weight weight;
    int (*run)(csn_probe_item *item); /* 0, -errno or NOT_FOR_US; may fill detail and remedy */
    const char *remedy;
};

/* ---- tries ---- */

/* Runs `body` in a child with new namespaces and our own id mapped to itself; 0 or -errno. */
static int try_in(uint64_t flags, int (*body)(void))
{
    csn_idmap uid = { geteuid(), geteuid(), 1 }, gid = { getegid(), getegid(), 1 };
    csn_auto(fd) int go_in = -1, go_out = -1, pidfd = -1;
    csn_child_end end = { 0 };
    int p[2], r = 0;
    char byte;

    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    go_in = p[0];
    go_out = p[1];
    pid_t pid = csn_clone(flags, -1, &pidfd);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        csn_close(&go_out);
        if (csn_read(go_in, &byte, 1) != 1)
            _exit(EIO);
        r = csn_clone_late();
        if (r == 0 && body)
            r = body();
        _exit(r < 0 ? -r : 0);
    }
    if (flags & CSN_CLONE_NEWUSER)
        r = csn_userns_map(pid, &uid, 1, &gid, 1, true);
    if (r == 0)
        r = csn_write_all(go_out, "x", 1);
    if (r == 0)
        r = csn_pidfd_reap_until(pidfd, csn_deadline_in_ms(TRY_MS), &end);
    if (r < 0) {
        (void) csn_pidfd_signal(pidfd, SIGKILL); /* our child; it may be gone already */
        (void) csn_pidfd_reap(pidfd, false, NULL);
        return r;
    }
    return end.by_signal ? -EINTR : -end.status;
}

static int check_userns(csn_probe_item *item)
{
    char value[8] = "";
    int r = try_in(CSN_CLONE_NEWUSER, NULL);

    if (r == 0)
        return 0;
    if (csn_small_read(AT_FDCWD, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", value,
                       sizeof(value)) > 0 &&
        value[0] == '1') {
        (void) snprintf(item->detail, sizeof(item->detail), "AppArmor restricts it");
        item->remedy = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, "
                       "or the AppArmor profile of the package";
    } else if (csn_small_read(AT_FDCWD, "/proc/sys/kernel/unprivileged_userns_clone", value,
                              sizeof(value)) > 0 &&
               value[0] == '0') {
        item->remedy = "sudo sysctl -w kernel.unprivileged_userns_clone=1";
    }
    return r;
}

static int check_ns(uint64_t flag)
{
    return try_in(CSN_CLONE_NEWUSER | flag, NULL);
}

#define NS_CHECK(kind, flag) \
    static int check_##kind##_ns(csn_probe_item *item) \
    { \
        (void) item; \
        return check_ns(flag); \
    }

NS_CHECK(mount, CSN_CLONE_NEWNS)
NS_CHECK(pid, CSN_CLONE_NEWPID)
NS_CHECK(net, CSN_CLONE_NEWNET)
NS_CHECK(ipc, CSN_CLONE_NEWIPC)
NS_CHECK(uts, CSN_CLONE_NEWUTS)
NS_CHECK(cgroup, CSN_CLONE_NEWCGROUP)
NS_CHECK(time, CSN_CLONE_NEWTIME)

static int forbid_nested(void)
{
    int r = csn_userns_forbid_nested(-1);

    if (r < 0)
        return r;
    return unshare(CLONE_NEWUSER) == 0 ? -ENOTRECOVERABLE : 0;
}

static int check_nested(csn_probe_item *item)
{
    (void) item;
    return try_in(CSN_CLONE_NEWUSER, forbid_nested);
}

/* ---- file systems ---- */

static int stage_root(int *ret_fd)
{
    int r = csn_mount_private();

    if (r == 0)
        r = csn_mount_tmpfs(1 << 20, 64, 0755, CSN_ATTR_NOSUID | CSN_ATTR_NODEV, ret_fd);
    if (r == 0)
        r = csn_mount_attach(*ret_fd, AT_FDCWD, "/", CSN_TARGET_EXISTING);
    return r;
}

static int mount_overlay(void)
{
    csn_overlay overlay = { .lower = (const char *const[]){ "l" },
                            .n_lower = 1,
                            .upper = "u",
                            .work = "w",
                            .userxattr = true };
    int root = -1, over = -1, r = stage_root(&root);

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

static int mount_proc(void)
{
    int fd = -1;

    return csn_mount_proc(CSN_PROC_HIDEPID, &fd);
}

static int pivot(void)
{
    int root = -1, r = stage_root(&root);

    return r < 0 ? r : csn_pivot_into(root);
}

static int check_overlay(csn_probe_item *item)
{
    (void) item;
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS, mount_overlay);
}

static int check_proc(csn_probe_item *item)
{
    (void) item;
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS | CSN_CLONE_NEWPID, mount_proc);
}

static int check_pivot(csn_probe_item *item)
{
    (void) item;
    return try_in(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNS, pivot);
}

/* The tree that sandboxes on the host's image take: each file system learns it in a kernel of its own, tmpfs in 6.3. */
static int idmap_usr(void)
{
    csn_idmap map = { 0, RANGE_BASE, 65536 };
    int tree = -1, userns = -1;
    int r = csn_userns_make(&map, 1, &map, 1, &userns);

    if (r == 0)
        r = csn_tree_clone(AT_FDCWD, "/usr", false, &tree);
    return r < 0 ? r : csn_tree_idmap(tree, userns);
}

static int check_idmap(csn_probe_item *item)
{
    (void) item;
    return try_in(CSN_CLONE_NEWNS, idmap_usr);
}

/* ---- confinement ---- */

static int check_landlock(csn_probe_item *item)
{
    int abi = csn_landlock_abi();

    if (abi < 0)
        return abi;
    /* namespaces are the first wall for both, so that sandboxes start with all walls */
    (void) snprintf(item->detail, sizeof(item->detail), "ABI %d%s", abi,
                    abi < 6 ? ", no second wall for signals and abstract sockets (Linux 6.12)" : "");
    return 0;
}

static int install_filter(void)
{
    int r = csn_no_new_privs();

    if (r == 0)
        r = csn_seccomp_install(CSN_SECCOMP_DEFAULT, 0);
    if (r < 0)
        return r;
    return unshare(CLONE_NEWUSER) == 0 ? -ENOTRECOVERABLE : 0;
}

static int check_seccomp(csn_probe_item *item)
{
    size_t len = 0;

    (void) csn_seccomp_program(CSN_SECCOMP_DEFAULT, &len);
    (void) snprintf(item->detail, sizeof(item->detail), "%zu instructions", len);
    return try_in(0, install_filter);
}

/* What needs no namespace but a kernel that is new enough: exec of a memfd, pidfd, openat2. */
static int check_kernel(csn_probe_item *item)
{
    csn_auto(fd) int memfd = -1, root = -1;
    struct utsname name;
    int r = csn_memfd_sealed("probe", "#!", 2, &memfd);

    if (r == 0)
        r = csn_target_open(AT_FDCWD, "/", CSN_TARGET_EXISTING, &root);
    if (uname(&name) == 0)
        (void) snprintf(item->detail, sizeof(item->detail), "%.60s", name.release);
    return r;
}

static int check_memfd_exec(csn_probe_item *item)
{
    char value[8] = "";

    if (csn_small_read(AT_FDCWD, "/proc/sys/vm/memfd_noexec", value, sizeof(value)) <= 0 ||
        value[0] != '2')
        return 0;
    (void) snprintf(item->detail, sizeof(item->detail), "vm.memfd_noexec is 2");
    return -EACCES;
}

/* ---- ids and limits ---- */

static int check_ids(csn_probe_item *item)
{
    csn_idmap map = { 0, RANGE_BASE, 65536 };
    csn_auto(fd) int fd = -1;
    int r = csn_userns_make(&map, 1, &map, 1, &fd);

    (void) snprintf(item->detail, sizeof(item->detail), "%s",
                    r == 0 ? "65536 ids for each sandbox"
                           : "one id, shared by all sandboxes of this user");
    return r;
}

/* A range nobody else is likely to have: useradd gives them out from 100000 on, by and by. */
static const char *subid_remedy(void)
{
    static char text[192];
    unsigned uid = (unsigned) geteuid(), first = 0x10000000u + (uid % 0x1000u) * 65536u;

    (void) snprintf(text, sizeof(text), /* fits */
                    "%ssudo usermod --add-subuids %u-%u --add-subgids %u-%u \"$(id -un)\"",
                    csn_userns_have_helpers() ? "" : "sudo apt install uidmap && ", first,
                    first + 65535, first, first + 65535);
    return text;
}

static int check_subids(csn_probe_item *item)
{
    const char *user = getenv("USER");
    uint32_t start = 0, count = 0;

    if (geteuid() == 0)
        return NOT_FOR_US; /* takes ranges as it likes */
    int r = csn_userns_have_helpers() ? 0 : -ENOENT;

    if (r == 0)
        r = csn_subid_find("/etc/subuid", geteuid(), user, 65536, &start, &count);
    if (r == 0)
        r = csn_subid_find("/etc/subgid", geteuid(), user, 65536, &start, &count);
    if (r == 0)
        (void) snprintf(item->detail, sizeof(item->detail), "%u ids from %u", count, start);
    else
        item->remedy = subid_remedy();
    return r;
}

static int try_group(const csn_cgroup_host *host)
{
    char id[32];
    csn_cgroup cg;

    (void) snprintf(id, sizeof(id), "probe-%d", (int) getpid()); /* always fits */
    csn_cgroup_limits limits = { .controllers = host->controllers & CSN_CG_LIMITS,
                                 .memory_bytes = 64 << 20,
                                 .n_processes = 16,
                                 .cpu_milli = 1000 };
    int r = csn_cgroup_create(host, id, &limits, &cg);
    if (r < 0)
        return r;
    r = csn_cgroup_finish(&cg, &limits);
    int gone = csn_cgroup_remove(&cg);
    csn_cgroup_done(&cg);
    (void) csn_cgroup_tidy(host); /* others may use it */
    return r < 0 ? r : gone;
}

static int check_cgroup(csn_probe_item *item)
{
    csn_cgroup_host host;
    int r = csn_cgroup_probe(&host);

    if (r < 0)
        return r;
    if (host.rung == CSN_CGROUP_NONE) {
        (void) snprintf(item->detail, sizeof(item->detail), "none: rlimits, watching, whole processors");
        if (host.can_delegate)
            item->remedy = "systemd-run --user --scope caisson …";
        return -EACCES;
    }
    (void) snprintf(
        item->detail, sizeof(item->detail), "%s:%s%s%s", host.rung == CSN_CGROUP_V2 ? "v2" : "v1",
        host.controllers & CSN_CG_MEMORY ? " memory" : "",
        host.controllers & CSN_CG_PIDS ? " pids" : "", host.controllers & CSN_CG_CPU ? " cpu" : "");
    if ((host.controllers & CSN_CG_LIMITS) != CSN_CG_LIMITS)
        item->state = CSN_PROBE_LIMITED;
    return try_group(&host);
}

/* ---- features ---- */

static int check_slirp(csn_probe_item *item)
{
    const char *path = csn_slirp_find(), *missing;
    int r = csn_slirp_check(&missing, &item->remedy);

    (void) snprintf(item->detail, sizeof(item->detail), "%s%s", r < 0 ? "without " : "",
                    r < 0 ? missing : path);
    return r;
}

static int check_loop(csn_probe_item *item)
{
    csn_auto(fd) int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    (void) item;
    return fd < 0 ? -errno : 0;
}

#define NEW_KERNEL "a kernel from 5.14 on, with all namespaces built in"

static const struct check checks[] = {
    { "kernel", WALL, check_kernel, NEW_KERNEL },
    { "user namespace", WALL, check_userns, "sudo sysctl -w user.max_user_namespaces=10000" },
    { "mount namespace", WALL, check_mount_ns, NEW_KERNEL },
    { "pid namespace", WALL, check_pid_ns, NEW_KERNEL },
    { "network namespace", WALL, check_net_ns, NEW_KERNEL },
    { "ipc namespace", WALL, check_ipc_ns, NEW_KERNEL },
    { "uts namespace", WALL, check_uts_ns, NEW_KERNEL },
    { "cgroup namespace", WALL, check_cgroup_ns, NEW_KERNEL },
    { "time namespace", WALL, check_time_ns, NEW_KERNEL },
    { "no nested namespaces", WALL, check_nested, "a writable /proc/sys/user" },
    { "overlay in a user namespace", WALL, check_overlay, "a kernel from 5.11 on, with overlayfs" },
    { "own procfs", WALL, check_proc, "a /proc with nothing mounted over parts of it" },
    { "pivot_root", WALL, check_pivot, "a root that is not the initramfs" },
    { "landlock", WALL, check_landlock, "add landlock to the kernel's lsm= list" },
    { "seccomp", WALL, check_seccomp, "a kernel with CONFIG_SECCOMP_FILTER" },
    { "programs from memory", WALL, check_memfd_exec, "sudo sysctl -w vm.memfd_noexec=1" },
    { "own ids", LIMIT, check_ids, "sudo caisson …" },
    { "idmapped mounts", LIMIT, check_idmap, "sudo caisson …, on a kernel from 5.12 on" },
    { "cgroup", LIMIT, check_cgroup, "sudo caisson …, or start below a delegated cgroup" },
    { "subordinate ids", OPTIONAL, check_subids, NULL },
    { "outbound network", OPTIONAL, check_slirp, NULL },
    { "loop devices", OPTIONAL, check_loop, "sudo modprobe loop; sudo caisson …" },
};

static enum csn_probe_state state_of(enum weight weight)
{
    return weight == WALL    ? CSN_PROBE_FAILED
           : weight == LIMIT ? CSN_PROBE_LIMITED
                             : CSN_PROBE_MISSING;
}

int csn_probe_run(csn_probe_item *items, size_t max, size_t *ret_n)
{
    static const char *const kinds[] = { [WALL] = "wall", [LIMIT] = "limit", [OPTIONAL] = "extra" };
    size_t n = 0;

    for (const struct check *c = checks; c < checks + CSN_COUNT(checks) && n < max; c++) {
        csn_probe_item *item = &items[n];
        *item = (csn_probe_item){ .name = c->name, .kind = kinds[c->weight], .state = CSN_PROBE_OK };
        int r = c->run(item);
        if (r == NOT_FOR_US)
            continue;
        if (r < 0) {
            item->state = state_of(c->weight);
            item->error = -r;
        }
        if (item->state == CSN_PROBE_OK)
            item->remedy = NULL;
        else if (!item->remedy)
            item->remedy = c->remedy;
        n++;
    }
    *ret_n = n;
    return 0;
}
