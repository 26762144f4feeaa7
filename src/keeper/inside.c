/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of the child, in R1's order. What is true of all: it is alone in its namespaces, process 1 of a new PID
 * namespace, and owns nothing of the host but the descriptors it was given. */

#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/time.h"
#include "inside_impl.h"
#include "keeper.h"
#include "kern/affinity.h"
#include "kern/caps.h"
#include "kern/lines.h"
#include "kern/missing.h"
#include "kern/mount.h"
#include "kern/net.h"
#include "kern/rlimit.h"
#include "kern/seccomp.h"
#include "kern/spawn.h"
#include "kern/userns.h"
#include "walls_off.h"

enum { CONTROL_FD = CSN_KEEPER_FD, SETUP_FD, FIRST_FREE_FD };
enum {
    FSIZE_SLACK = 1 << 20
}; /* so that a full disk says ENOSPC before a long file says SIGXFSZ */

enum { SPIN_NS = 250000 };

static char plan_bytes[CSN_FRAME_MAX];

void csn_inside_about(csn_inside *in, const char *what)
{
    size_t n = strlen(what);

    if (n >= sizeof(in->detail))
        n = sizeof(in->detail) - 1;
    memcpy(in->detail, what, n);
    in->detail[n] = '\0';
}

/* --- before the plan is known ------------------------------------------------------------------------------------ */

/* Control and setup become 3 and 4, by way of numbers that collide with neither. */
static int close_inherited(csn_inside *in)
{
    int setup = csn_fd_dup(in->setup_fd, 16), control = csn_fd_dup(in->control_fd, 16);

    if (setup < 0 || control < 0)
        return setup < 0 ? setup : control;
    if (dup3(control, CONTROL_FD, O_CLOEXEC) < 0 || dup3(setup, SETUP_FD, O_CLOEXEC) < 0)
        return -errno;
    in->control_fd = CONTROL_FD;
    in->setup_fd = SETUP_FD;
    return csn_close_range(FIRST_FREE_FD, ~0u);
}

static int new_session(csn_inside *in)
{
    (void) in;
    (void) umask(022); /* never fails */
    return setsid() < 0 ? -errno : 0;
}

uint64_t csn_late_namespaces;

static int make_namespaces(csn_inside *in)
{
    const csn_report report = { .kind = CSN_REPORT_NAMESPACED };
    int r = csn_clone_late();

    if (r < 0) {
        csn_inside_about(in, "time");
        return r;
    }
    r = csn_late_namespaces ? csn_unshare(csn_late_namespaces) : 0;
    return r < 0 ? r : csn_send_fds(in->setup_fd, &report, sizeof(report), NULL, 0);
}

static int make_private(csn_inside *in)
{
    (void) in;
    return csn_mount_private();
}

static int loopback(csn_inside *in)
{
    (void) in;
    return csn_net_loopback_up();
}

/* --- the plan ---------------------------------------------------------------------------------------------------- */

static void place_fd(csn_inside *in, uint32_t at, int fd)
{
    if (at == 0)
        in->image_fd = fd;
    else
        in->trees[in->n_trees++] = fd;
}

static int receive_fds(csn_inside *in)
{
    uint32_t want = 1 + in->go.n_trees;

    for (uint32_t at = 0; at < want;) {
        int fds[CSN_GO_FDS_MAX];
        char byte;
        size_t n = 0;
        ssize_t len = csn_recv_fds(in->setup_fd, &byte, 1, fds, CSN_GO_FDS_MAX, &n);
        if (len < 0)
            return (int) len;
        if (len == 0 || n == 0 || n > want - at)
            return -EPIPE;
        for (size_t i = 0; i < n; i++)
            place_fd(in, at++, fds[i]);
    }
    return 0;
}

static int receive_plan(csn_inside *in)
{
    ssize_t n = csn_recv_fds(in->setup_fd, plan_bytes, sizeof(plan_bytes), NULL, 0, NULL);
    csn_unpack u = { .data = plan_bytes, .len = n > 0 ? (size_t) n : 0 };
    int r;

    if (n <= 0)
        return n < 0 ? (int) n : -EPIPE; /* the keeper is gone or gave up */
    r = csn_plan_unpack(&u, &in->plan);
    if (r == 0)
        csn_fault_arm(in->plan.fault_at > CSN_FAULT_INSIDE
                          ? (long) (in->plan.fault_at - CSN_FAULT_INSIDE)
                          : 0);
    return r;
}

/* The keeper is mapping our ids just now: to sleep and be woken again would take longer than that. */
static int receive_go(csn_inside *in)
{
    const int64_t until = csn_deadline_in_ns(SPIN_NS);
    ssize_t n;

    do
        n = csn_recv_fds_flags(in->setup_fd, &in->go, sizeof(in->go), NULL, 0, NULL, MSG_DONTWAIT);
    while (n == -EAGAIN && !csn_deadline_passed(until));
    if (n == -EAGAIN)
        n = csn_recv_fds(in->setup_fd, &in->go, sizeof(in->go), NULL, 0, NULL);

    if (n != (ssize_t) sizeof(in->go))
        return n < 0 ? (int) n : -EPIPE;
    return in->go.n_trees > CSN_TREES_MAX ? -EBADMSG : receive_fds(in);
}

/* From here on everything counts. The cgroup namespace comes after: its root is the group one is in when it is made. */
static int join_cgroups(csn_inside *in)
{
    csn_cgroup group;
    csn_join join = { 0 };
    int fds[CSN_GO_FDS_MAX];
    size_t n = 0;
    ssize_t len = csn_recv_fds(in->setup_fd, &join, sizeof(join), fds, CSN_GO_FDS_MAX, &n);
    int r = 0;

    if (len != (ssize_t) sizeof(join) || join.n_tasks != n || n > CSN_CG_N)
        return len < 0 ? (int) len : -EPIPE;
    csn_cgroup_init(&group);
    group.rung = CSN_CGROUP_V1;
    group.n = join.n_tasks;
    for (uint32_t i = 0; i < group.n; i++)
        group.in[i].tasks_fd = fds[i];
    if (group.n > 0)
        r = csn_cgroup_join(&group);
    csn_cgroup_done(&group);
    return r;
}

static int new_cgroup_namespace(csn_inside *in)
{
    (void) in;
    return csn_unshare(CSN_CLONE_NEWCGROUP);
}

/* The saved id stays the keeper's until set_ids(): by it a v1 cgroup that belongs to the keeper lets us in. */
static int become_user(void)
{
    if (setgroups(0, NULL) < 0 || setresgid(CSN_INSIDE_UID, CSN_INSIDE_UID, CSN_INSIDE_UID) < 0 ||
        setresuid(CSN_INSIDE_UID, CSN_INSIDE_UID, (uid_t) -1) < 0)
        return -errno;
    return 0;
}

/* With a range of ids the child still has the keeper's, which don't exist inside. */
static int become_root(csn_inside *in)
{
    if (!in->go.has_ids)
        return in->go.is_other ? become_user() : 0;
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return -errno;
    return 0;
}

static int set_hostname(csn_inside *in)
{
    const char *name = in->plan.hostname[0] ? in->plan.hostname : "caisson";

    return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

/* --- fences ------------------------------------------------------------------------------------------------------ */

/* Stdio is the verified null device. proc_fd lives on for the next steps. */
static int pivot(csn_inside *in)
{
    csn_auto(fd) int null = openat(in->root_fd, "dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    int r;

    if (null < 0)
        return -errno;
    r = csn_chardev_verify(null, 1, 3);
    for (int fd = 0; r == 0 && fd <= 2; fd++)
        if (dup3(null, fd, 0) < 0)
            r = -errno;
    return r < 0 ? r : csn_pivot_into(in->root_fd);
}

static int forbid_most(csn_inside *in)
{
    in->limits_error = csn_userns_limits_zero(in->limits_fd, false);
    if (in->limits_error == 0)
        in->limits_error = csn_userns_limits_share(in->limits_fd);
    return 0;
}

static int forbid_nesting(csn_inside *in)
{
    return in->limits_error < 0 ? in->limits_error : csn_userns_limits_zero(in->limits_fd, true);
}

static int hold_processors(csn_inside *in)
{
    return in->go.n_processors > 0 ? csn_affinity_hold(in->go.n_processors) : 0;
}

/* As it is now, on the host: the file is the same for all. */
static uint64_t core_limit(const csn_inside *in)
{
    csn_auto(fd) int fd = openat(in->limits_fd, "../kernel/core_pattern", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char pattern[2] = "";

    if (fd >= 0)
        (void) csn_read(fd, pattern, 1); /* empty: no program */
    return csn_rlimit_core(pattern);
}

/* The kernel's table of open files is one for all, too. */
static uint64_t files_limit(const csn_inside *in)
{
    const csn_plan *plan = &in->plan;
    uint64_t file_max = 0;

    if (csn_small_read_u64(in->limits_fd, "../fs/file-max", &file_max) < 0)
        file_max = 0; /* masked: the fewest */
    return csn_rlimit_files(plan->open_files > 0 ? (uint64_t) plan->open_files : 0,
                            plan->pids > 0 ? (uint64_t) plan->pids : 0, file_max);
}

static int set_rlimits(csn_inside *in)
{
    const csn_plan *plan = &in->plan;
    csn_rlimits limits = {
        .core_bytes = core_limit(in),
        .n_files = files_limit(in),
        /* Behind the cgroup, which tells when it refuses; and without one, what a bomb can make until the watch looks.
         * Counted in our own user namespace since Linux 5.14, so the caller's other processes don't matter. */
        .n_processes = plan->pids > 0 ? (uint64_t) plan->pids * 2 : 0,
        .file_bytes = plan->disk_bytes > 0 ? (uint64_t) plan->disk_bytes + FSIZE_SLACK : 0,
    };

    return csn_rlimit_apply(&limits);
}

/* Leaving uid 0 empties the effective set; the next step needs it once more, to empty all others. */
static int raise_effective(void)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int set_ids(csn_inside *in)
{
    const uid_t id = in->plan.flags & CSN_PLAN_ROOT_INSIDE ? 0 : CSN_INSIDE_UID;

    if ((!in->go.has_ids && !in->go.is_other) || id == 0)
        return 0;
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresgid(id, id, id) < 0 ||
        setresuid(id, id, id) < 0)
        return -errno;
    return raise_effective();
}

static int drop_caps(csn_inside *in)
{
    return in->plan.flags & CSN_PLAN_ROOT_INSIDE ? csn_caps_keep(CSN_CAPS_ROOT_INSIDE)
                                                 : csn_caps_drop_all();
}

static int no_new_privs(csn_inside *in)
{
    (void) in;
    return csn_no_new_privs();
}

/* The keeper watches these; and should it be killed from now on, so are we. */
static int report_built(csn_inside *in)
{
    csn_report report = { .kind = CSN_REPORT_BUILT,
                          .walls_missing = in->missing,
                          .built_ns = csn_now_ns() };
    struct statfs fs;
    int fds[2];
    size_t n = 0;

    if (in->disk_fd >= 0 && fstatfs(in->disk_fd, &fs) == 0)
        report.disk_bytes = csn_fs_used(&fs);
    if (in->disk_fd >= 0)
        fds[n++] = in->disk_fd;
    if (in->watch_proc_fd >= 0)
        fds[n++] = in->watch_proc_fd;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return csn_send_fds(in->setup_fd, &report, sizeof(report), fds, n);
}

static int clear_descriptors(csn_inside *in)
{
    int image = csn_fd_dup(in->image_fd, FIRST_FREE_FD + 1);

    if (image < 0)
        return image;
    if (dup3(image, FIRST_FREE_FD, O_CLOEXEC) < 0 && image != FIRST_FREE_FD)
        return -errno;
    in->image_fd = FIRST_FREE_FD;
    if (csn_fd_cloexec(CONTROL_FD, false) < 0)
        return -errno;
    return csn_close_range(FIRST_FREE_FD + 1, ~0u);
}

static int install_seccomp(csn_inside *in)
{
    int r = in->go.n_processors > 0 ? csn_affinity_lock() : 0;

    if (r < 0)
        return r;
    return csn_seccomp_install(
        in->plan.flags & CSN_PLAN_PTRACE ? CSN_SECCOMP_DEBUG : CSN_SECCOMP_DEFAULT, 0);
}

static int exec_init(csn_inside *in)
{
    csn_report late = { .kind = CSN_REPORT_BUILT, .walls_missing = in->missing };
    char empty[] = "";
    char *argv[] = { empty, NULL }, *envp[] = { NULL };
    int r = 0;

    if (in->missing & CSN_WALL_SECCOMP) /* found out after the report */
        r = csn_send_fds(in->setup_fd, &late, sizeof(late), NULL, 0);
    return r < 0 ? r : csn_exec_fd(in->image_fd, argv, envp);
}

/* --- the order --------------------------------------------------------------------------------------------------- */

static const struct inside_step {
    const char *name;
    int (*run)(csn_inside *in);
    uint32_t wall; /* may be left out when the caller named this wall optional */
} steps[] = {
    { "close inherited descriptors", close_inherited, 0 },
    { "start a session", new_session, 0 },
    { "make namespaces", make_namespaces, 0 },
    { "make mounts private", make_private, 0 },
    { "bring up loopback", loopback, 0 },
    { "gather devices", csn_inside_gather_nodes, 0 },
    { "mount /proc", csn_inside_mount_proc, 0 },
    { "forbid most namespaces", forbid_most, 0 },
    { "mask /proc", csn_inside_mask_proc, 0 },
    { "wait for the plan", receive_plan, 0 },
    { "wait for ids and layers", receive_go, 0 },
    { "gather layers", csn_inside_gather, 0 },
    { "become root of the namespace", become_root, 0 },
    { "make a staging place", csn_inside_stage, 0 },
    { "mount /", csn_inside_mount_root, 0 },
    { "mount /usr", csn_inside_mount_usr, 0 },
    { "place /proc", csn_inside_place_proc, 0 },
    { "mount /dev", csn_inside_mount_dev, 0 },
    { "mount /tmp", csn_inside_mount_tmp, 0 },
    { "make a home", csn_inside_make_home, 0 },
    { "write names", csn_inside_write_names, 0 },
    { "mount volumes", csn_inside_mount_volumes, 0 },
    { "set the host name", set_hostname, 0 },
    { "join cgroups", join_cgroups, 0 },
    { "make a cgroup namespace", new_cgroup_namespace, 0 },
    { "pivot root", pivot, 0 }, /* from here on the host's tree is out of reach */
    { "forbid nested namespaces", forbid_nesting,
      CSN_WALL_NO_NESTING }, /* cloning a mount needs one: not earlier */
    { "hold to processors", hold_processors, 0 },
    { "set rlimits", set_rlimits, CSN_WALL_RLIMITS },
    { "apply landlock", csn_inside_landlock, CSN_WALL_LANDLOCK },
    { "set user and group", set_ids, 0 },
    { "drop capabilities", drop_caps, CSN_WALL_CAPS },
    { "set no_new_privs", no_new_privs, CSN_WALL_NO_NEW_PRIVS },
    { "report", report_built, 0 },
    { "close descriptors", clear_descriptors, 0 },
    { "install the system call filter", install_seccomp, CSN_WALL_SECCOMP }, /* last */
    { "start init", exec_init, 0 },
};

const char *csn_inside_step_name(uint32_t step)
{
    return step < CSN_COUNT(steps) ? steps[step].name : "build the sandbox";
}

bool csn_inside_is_upper_step(uint32_t step)
{
    return step < CSN_COUNT(steps) && steps[step].run == csn_inside_mount_root;
}

static _Noreturn void give_up(csn_inside *in, uint32_t step, int error)
{
    csn_report report = { .kind = CSN_REPORT_FAILED, .step = step, .error = error };

    memcpy(report.detail, in->detail, sizeof(report.detail));
    (void) csn_send_fds(in->setup_fd, &report, sizeof(report), NULL, 0); /* gone: nobody to tell */
    _exit(1);
}

_Noreturn void csn_inside_run(int setup_fd, int control_fd)
{
    static csn_inside in;

    in.setup_fd = setup_fd;
    in.control_fd = control_fd;
    in.image_fd = in.stage_fd = in.disk_fd = in.root_fd = in.proc_fd = -1;
    in.limits_fd = in.watch_proc_fd = in.dev_fd = -1;
    for (size_t i = 0; i < CSN_NODES; i++)
        in.nodes[i] = -1;
    for (size_t i = 0; i < CSN_TREES_MAX; i++)
        in.trees[i] = -1;
    for (uint32_t i = 0; i < CSN_COUNT(steps); i++) {
        int r = csn_fault(steps[i].name);
        if (r == 0)
            r = csn_walls_step(steps[i].name, steps[i].run)(&in);
        if (r < 0 && !(steps[i].wall & in.plan.optional_walls))
            give_up(&in, i, r);
        if (r < 0)
            in.missing |= steps[i].wall;
    }
    _exit(1); /* the last step does not return */
}
