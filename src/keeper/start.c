/* SPDX-License-Identifier: Apache-2.0 */
/* The child: cloned, given its plan, waited for, and in the end killed. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "inside_impl.h"
#include "kern/affinity.h"
#include "kern/missing.h"
#include "kern/pidfd.h"
#include "kern/spawn.h"
#include "setup.h"
#include "walls_off.h"

static uint64_t namespaces(const csn_keeper *k)
{
    /* The cgroup namespace is made by the child once it is in its cgroup. */
    uint64_t flags = CSN_CLONE_ALL_NS & ~CSN_CLONE_NEWCGROUP;

    if (csn_walls_off(k) & CSN_WALL_NETNS)
        flags &= ~CSN_CLONE_NEWNET;
    if (csn_walls_off(k) & CSN_WALL_USERNS)
        flags &= ~CSN_CLONE_NEWUSER;
    if (csn_walls_off(k) & CSN_WALL_NAMESPACES)
        flags &= ~(CSN_CLONE_NEWIPC | CSN_CLONE_NEWUTS | CSN_CLONE_NEWTIME);
    csn_late_namespaces = flags & (CSN_CLONE_NEWNET | CSN_CLONE_NEWIPC | CSN_CLONE_NEWUTS);
    return flags & ~csn_late_namespaces;
}

static int make_pair(int ends[2])
{
    int r = csn_fault_as("socketpair", EMFILE);

    if (r < 0)
        return r;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ? -errno : 0;
}

/* Before its plan: the child covers files of /proc with our null device, so that not even that is the host's. */
static int give_dev(csn_keeper *k)
{
    csn_auto(fd) int dev = -1;
    int r = csn_dev_make(&dev);

    if (r == 0)
        r = csn_send_fds(k->setup_fd, "", 1, &dev, 1);
    return r == -EPIPE || r == -ECONNRESET ? 0 : r; /* dead already: the report of why is waited for */
}

/* Where clone3 is refused (a container with an old profile) no child can be born in a cgroup: it is moved there while it
 * still waits for its plan. */
static pid_t clone_child(csn_keeper *k, bool *ret_is_outside)
{
    int group = csn_cgroup_clone_fd(&k->cgroup);
    pid_t pid = csn_clone(namespaces(k), group, &k->init_pidfd);

    *ret_is_outside = group >= 0 && pid == -ENOTSUP;
    return *ret_is_outside ? csn_clone(namespaces(k), -1, &k->init_pidfd) : pid;
}

int csn_clone_inside(csn_keeper *k, csn_error *err)
{
    int setup[2] = { -1, -1 }, control[2] = { -1, -1 };
    bool is_outside = false;
    int r = make_pair(setup);

    csn_dev_is_made =
        csn_way_find() == CSN_WAY_PRIVILEGED; /* then its plan brings a range of ids */
#ifdef CSN_TEST_HOOKS
    csn_walls_down = k->plan.walls_off;
#endif
    if (r == 0)
        r = make_pair(control);
    pid_t pid = r < 0 ? r : clone_child(k, &is_outside);
    if (pid == 0)
        csn_inside_run(setup[1], control[1]);
    if (pid > 0)
        csn_affinity_send_away(pid); /* we both have work to do */
    csn_close(&setup[1]);
    csn_close(&control[1]);
    if (pid < 0) {
        csn_close(&setup[0]);
        csn_close(&control[0]);
        return csn_fail_sys(err, pid, "clone into new namespaces");
    }
    k->init_pid = pid;
    k->setup_fd = setup[0];
    k->control_fd = control[0];
    r = is_outside ? csn_cgroup_attach(&k->cgroup, pid) : 0;
    if (r < 0)
        r = csn_fail_sys(err, r, "move the sandbox into its cgroup");
    else if (csn_dev_is_made && (r = give_dev(k)) < 0)
        r = csn_fail_sys(err, r, "make /dev");
    if (r < 0)
        csn_kill_child(k); /* all or nothing: it may be tried again */
    return r < 0 ? r : CSN_OK;
}

/* --- handing over ------------------------------------------------------------------------------------------------ */

int csn_forward_plan(csn_keeper *k)
{
    csn_affinity_share(k->init_pid); /* who gave us the plan is done with our own */
    return csn_send_fds(k->setup_fd, k->plan_bytes, k->plan_len, NULL, 0);
}

static int send_descriptors(csn_keeper *k, const int *fds, size_t n)
{
    int r = 0;

    for (size_t at = 0; r == 0 && at < n; at += CSN_GO_FDS_MAX) {
        size_t now = n - at < CSN_GO_FDS_MAX ? n - at : CSN_GO_FDS_MAX;
        r = csn_send_fds(k->setup_fd, "", 1, fds + at, now);
    }
    return r;
}

/* The last thing the child waits for. On v2 it was born in its group. */
int csn_let_join(csn_keeper *k, csn_error *err)
{
    csn_join join = { .n_tasks = k->rung == CSN_RUNG_CGROUP1 ? k->cgroup.n : 0 };
    int fds[CSN_CG_N], r;

    for (uint32_t i = 0; i < join.n_tasks; i++)
        fds[i] = k->cgroup.in[i].tasks_fd;
    r = csn_send_fds(k->setup_fd, &join, sizeof(join), fds, join.n_tasks);
    csn_cgroup_close_tasks(&k->cgroup);
    return r < 0 ? csn_fail_sys(err, r, "let the child join its cgroups") : CSN_OK;
}

int csn_start_child(csn_keeper *k, csn_error *err)
{
    int fds[1 + CSN_TREES_MAX], *trees = fds + 1;
    csn_go go = {
        .is_privileged = k->is_privileged,
        .has_ids = k->is_privileged || k->plan.flags & CSN_PLAN_ROOT_INSIDE,
        .is_other = !k->is_privileged && k->owner.is_other,
        .wants_proc = csn_needs_proc(k),
        .n_processors = csn_cpu_processors(k),
        .layers_with_usr = csn_layers_with_usr(k),
    };
    int r = CSN_OK;

    fds[0] = k->init_image_fd;
    for (size_t i = 0; i < CSN_TREES_MAX; i++)
        trees[i] = -1;
    if (k->is_privileged)
        r = csn_layers_clone(k, trees, &go.n_trees, go.layers_with_usr, err);
    if (r == CSN_OK) {
        int e = csn_send_fds(k->setup_fd, &go, sizeof(go), NULL, 0);
        if (e == 0)
            e = send_descriptors(k, fds, 1 + go.n_trees);
        if (e < 0)
            r = csn_fail_sys(err, e, "hand the plan to the child");
    }
    csn_close_many(trees, CSN_TREES_MAX);
    return r;
}

/* --- waiting ----------------------------------------------------------------------------------------------------- */

/* The child says where it stands. 0: go on; CSN_E_…: it failed. */
static int take_report(csn_keeper *k, csn_error *err)
{
    csn_report report;
    int fds[2] = { -1, -1 };
    size_t n = 0;
    ssize_t len =
        csn_recv_fds_flags(k->setup_fd, &report, sizeof(report), fds, 2, &n, MSG_DONTWAIT);

    if (len == -EAGAIN)
        return CSN_OK;
    if (len != (ssize_t) sizeof(report)) { /* closed: init was executed, or died */
        csn_close(&k->setup_fd);
        return CSN_OK;
    }
    report.detail[sizeof(report.detail) - 1] = '\0';
    if (report.kind == CSN_REPORT_NAMESPACED) {
        k->is_namespaced = true;
        return CSN_OK;
    }
    if (report.kind != CSN_REPORT_BUILT) {
        csn_close_many(fds, n);
        k->has_child_failed = true;
        if (report.error == -EINVAL && csn_inside_is_upper_step(report.step) &&
            k->disk_rung == CSN_DISK_WATCH) /* so far it could not be tried */
            return csn_fail_unfit(k, "can't be the writable layer of a sandbox that stays", err);
        return csn_fail_sys(err, report.error, "%s%s%s%s", csn_inside_step_name(report.step),
                            report.detail[0] ? " '" : "", report.detail,
                            report.detail[0] ? "'" : "");
    }
    k->walls_missing |= report.walls_missing;
    k->built_ns = report.built_ns;
    k->disk_at_built = report.disk_bytes;
    size_t at = 0;
    if (csn_plan_is_in_memory(&k->plan) && at < n)
        k->disk_fd = fds[at++];
    if (at < n)
        k->proc_fd = fds[at++];
    for (; at < n; at++)
        csn_close(&fds[at]);
    return CSN_OK;
}

int csn_await_namespaces(csn_keeper *k, csn_error *err)
{
    const int64_t deadline = csn_deadline_in_ms(CSN_START_WAIT_MS);
    int r = CSN_OK;

    while (r == CSN_OK && !k->is_namespaced) {
        if (k->setup_fd < 0 || csn_wait_fd(k->setup_fd, POLLIN, deadline) != 1)
            return csn_fail(err, CSN_E_SYSTEM, "the sandbox's namespaces were not made");
        r = take_report(k, err);
    }
    return r;
}

static int fail_dead(csn_keeper *k, csn_error *err)
{
    csn_child_end end;
    int r = take_report(k, err);

    if (r != CSN_OK)
        return r;
    if (csn_pidfd_reap_until(k->init_pidfd, csn_deadline_in_ms(CSN_KILL_WAIT_MS), &end) == 0 &&
        end.by_signal)
        return csn_fail(err, CSN_E_SYSTEM, "init was killed by signal %d while it started",
                        end.status);
    return csn_fail(err, CSN_E_SYSTEM, "init ended before it was ready");
}

/* A step of ours failed while the child was building. If the child failed first, ours is only what its death did to us:
 * the cause is in its report. It is told that nothing more comes, so that it ends its own steps before we look: which of
 * two failures is named must not depend on who was faster. */
int csn_child_blame(csn_keeper *k, int failed, csn_error *err)
{
    const int64_t deadline = csn_deadline_in_ms(CSN_KILL_WAIT_MS);
    csn_error theirs = { 0, 0, "" };

    if (k->has_child_failed || k->init_pidfd < 0)
        return failed;
    if (k->setup_fd >= 0)
        (void) shutdown(k->setup_fd, SHUT_WR); /* hung up: its last words are still there */
    while (!k->has_child_failed && k->setup_fd >= 0 &&
           csn_wait_fd(k->setup_fd, POLLIN, deadline) == 1)
        (void) take_report(k, &theirs); /* the flag tells */
    if (!k->has_child_failed && k->setup_fd < 0 && k->built_ns == 0)
        (void) fail_dead(k, &theirs);                       /* killed */
    if (theirs.code == CSN_OK || theirs.sys_errno == EPIPE) /* it waited for us */
        return failed;
    if (err)
        *err = theirs;
    return theirs.code;
}

static void count_walls(csn_keeper *k)
{
    k->walls = (CSN_WALL_KEEPER << 1) - 1;
    if (!k->is_privileged) /* said by shares_host_uid */
        k->walls &= ~(uint32_t) CSN_WALL_ID_RANGE;
    k->walls_missing |= csn_walls_off(k);
    k->walls &= ~k->walls_missing;
}

static int take_ready(csn_keeper *k, csn_error *err)
{
    static char buf[256];
    csn_auto(msg) csn_msg msg = CSN_MSG_INIT;
    int r = csn_frame_recv(k->control_fd, buf, sizeof(buf), CSN_SAID_BY_INIT, MSG_DONTWAIT, &msg);

    if (r == 0)
        return fail_dead(k, err);
    if (r < 0 || msg.head.type != CSN_FRAME_INIT_READY)
        return csn_fail(err, CSN_E_PROTOCOL, "init said something else than that it is ready");
    r = csn_confine(k, err);
    if (r == CSN_OK)
        count_walls(k);
    csn_close(&k->init_image_fd); /* it runs; descriptors may be few */
    return r;
}

int csn_await_init(csn_keeper *k, csn_error *err)
{
    const int64_t deadline = csn_deadline_in_ms(CSN_START_WAIT_MS);

    for (;;) {
        struct pollfd fds[2] = { { .fd = k->setup_fd, .events = POLLIN },
                                 { .fd = k->control_fd, .events = POLLIN } };
        int n = poll(fds, 2, csn_remaining_ms(deadline));
        if (n < 0 && errno != EINTR)
            return csn_fail_sys(err, -errno, "wait for init");
        if (n == 0)
            return csn_fail(err, CSN_E_TIMEOUT, "init was not ready within %d ms",
                            CSN_START_WAIT_MS);
        if (n > 0 && fds[0].revents) {
            int r = take_report(k, err);
            if (r != CSN_OK)
                return r;
            continue; /* what the child reported comes before what init says */
        }
        if (n > 0 && fds[1].revents)
            return take_ready(k, err);
    }
}

void csn_kill_child(csn_keeper *k)
{
    if (k->init_pidfd >= 0) {
        (void) csn_child_kill(k->init_pid,
                              k->init_pidfd); /* its whole PID namespace ends before it */
    }
    csn_close(&k->init_pidfd);
    csn_close(&k->setup_fd);
    csn_close(&k->control_fd);
    csn_close(&k->proc_fd);
    k->is_cloned_early = k->is_namespaced = k->has_child_failed = false;
}
