/* SPDX-License-Identifier: Apache-2.0 */
/* The first failure is told: what stopped the child, not what its death did to the keeper. */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "csn_test.h"
#include "drive.h"
#include "kern/missing.h"

enum { RUNS = 30 };

/* From here on, for us and the keepers that we start, the call `nr` with one of the bits in `mask` set in its first
 * argument (0: always) is answered by `action`. */
static void filter(uint32_t nr, uint32_t mask, uint32_t action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | (mask ? BPF_JSET : BPF_JGE) | BPF_K, mask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0), 0);
}

/* Starts a keeper RUNS times, each of which must fail with exactly this. */
static void check_cause(uint32_t flags, const char *want)
{
    const char *state = make_state();
    static box b;

    for (int i = 0; i < RUNS; i++) {
        csn_wire_error e;
        new_box(&b, state, flags);
        start_keeper(&b);
        send_plan(&b);
        expect(&b, CSN_FRAME_ERROR);
        csn_msg_fixed(&b.msg, &e, sizeof(e));
        CHECK_STR(e.message, want);
        CHECK_INT(waitpid(b.keeper, NULL, 0), b.keeper);
        b.keeper = 0;
        end_quietly(&b);
    }
}

TEST(thirty_sandboxes_without_a_network_namespace_name_one_cause)
{
    filter(SYS_unshare, CSN_CLONE_NEWNET, SECCOMP_RET_ERRNO | ENOSPC);
    check_cause(CSN_PLAN_EPHEMERAL, "make namespaces: a limit on namespaces is reached");
}

TEST(and_so_do_thirty_that_stay)
{
    filter(SYS_unshare, CSN_CLONE_NEWNET, SECCOMP_RET_ERRNO | ENOSPC);
    check_cause(CSN_PLAN_DETACHED, "make namespaces: a limit on namespaces is reached");
}

TEST(a_mount_that_is_refused_is_the_cause)
{
    filter(SYS_mount, 0, SECCOMP_RET_ERRNO | EPERM);
    check_cause(CSN_PLAN_EPHEMERAL, "make mounts private: Operation not permitted");
}

TEST(a_time_namespace_that_the_child_could_not_make_is_reported)
{
    filter(SYS_clone3, 0, SECCOMP_RET_ERRNO | ENOSYS);
    filter(SYS_unshare, CSN_CLONE_NEWTIME, SECCOMP_RET_ERRNO | EINVAL);
    check_cause(CSN_PLAN_EPHEMERAL, "make namespaces 'time': Invalid argument");
}

TEST(a_child_that_is_killed_is_told_by_its_signal)
{
    filter(SYS_setsid, 0, SECCOMP_RET_KILL_PROCESS);
    check_cause(CSN_PLAN_EPHEMERAL, "init was killed by signal 31 while it started");
}

/* A user namespace in which we are an ordinary user and no namespace of this kind can be made. */
static void enter_limited(const char *limit)
{
    const unsigned gid = (unsigned) getegid(); /* inside it has no name yet */
    char map[64];

    snprintf(map, sizeof(map), "1000 %u 1", (unsigned) geteuid());
    if (geteuid() == 0)
        SKIP("user: root would map itself; the run as an ordinary user tries this");
    CHECK_INT(syscall(SYS_unshare, CSN_CLONE_NEWUSER), 0);
    CHECK_INT(csn_write_file(AT_FDCWD, "/proc/self/setgroups", "deny", 4), 0);
    CHECK_INT(csn_write_file(AT_FDCWD, "/proc/self/uid_map", map, strlen(map)), 0);
    snprintf(map, sizeof(map), "1000 %u 1", gid);
    CHECK_INT(csn_write_file(AT_FDCWD, "/proc/self/gid_map", map, strlen(map)), 0);
    CHECK_INT(csn_write_file(AT_FDCWD, limit, "0", 1), 0);
}

TEST(a_limit_of_no_network_namespaces_is_named_thirty_times)
{
    enter_limited("/proc/sys/user/max_net_namespaces");
    check_cause(CSN_PLAN_EPHEMERAL, "make namespaces: a limit on namespaces is reached");
}

TEST(a_limit_of_no_cgroup_namespaces_which_is_met_late_is_named_thirty_times)
{
    enter_limited("/proc/sys/user/max_cgroup_namespaces");
    check_cause(CSN_PLAN_EPHEMERAL, "make a cgroup namespace: a limit on namespaces is reached");
}
