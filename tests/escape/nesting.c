/* SPDX-License-Identifier: Apache-2.0 */
/* New namespaces from inside reopen the kernel surface that the others close (R13, CVE-2022-0492). */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

/* ENOSPC is the answer of user.max_…_namespaces. */
static enum verdict made(long result)
{
    return result == -1 && errno == ENOSPC ? CONTAINED : refused(result);
}

static enum verdict by_unshare(const struct attack *self)
{
    return made(call(SYS_unshare, self->arg[0], 0, 0, 0, 0, 0));
}

static enum verdict reap(long pid)
{
    if (pid == 0)
        _exit(0);
    if (pid > 0) {
        waitpid((pid_t) pid, NULL, 0);
        return BREACH;
    }
    return made(-1);
}

static enum verdict by_clone(const struct attack *self)
{
    return reap(call(SYS_clone, self->arg[0] | SIGCHLD, 0, 0, 0, 0, 0));
}

static enum verdict by_clone3(const struct attack *self)
{
    struct clone_args args;
    memset(&args, 0, sizeof(args));
    args.flags = (unsigned long long) self->arg[0];
    args.exit_signal = SIGCHLD;
    return reap(call(435, (long) &args, sizeof(args), 0, 0, 0, 0));
}

static enum verdict by_setns(const struct attack *self)
{
    int fd = open((const char *) self->arg[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return CONTAINED;
    return refused(call(SYS_setns, fd, self->arg[0], 0, 0, 0, 0));
}

/* The sysctl behind seccomp: read from inside, it must stand at 0. */
static enum verdict sysctl_allows(const struct attack *self)
{
    char buf[32];
    if (read_text((const char *) self->arg[0], buf, sizeof(buf)) <= 0)
        return CONTAINED;
    return strcmp(buf, "0\n") == 0 ? CONTAINED : BREACH;
}

/* Anybody may make a user namespace; the others need a capability in the present one. */
#define NEST(suffix, flag, walls) \
    { "unshare_" suffix, "R13", walls, 0, by_unshare, { flag }, NULL }, \
        { "clone_" suffix, "R13", walls, 0, by_clone, { flag }, NULL }, \
    { \
        "clone3_" suffix, "R13", walls, 0, by_clone3, { flag }, NULL \
    }
#define ALL (W_SECCOMP | W_NESTING | W_CAPS)
#define SYSCTL(suffix) \
    { \
        "max_" suffix "_namespaces", "R13", W_NESTING, 0, sysctl_allows, \
            { (long) "/proc/sys/user/max_" suffix "_namespaces" }, NULL \
    }

const struct attack attacks_nesting[] = {
    NEST("user", CLONE_NEWUSER, W_SECCOMP | W_NESTING),
    NEST("mount", CLONE_NEWNS, ALL),
    NEST("pid", CLONE_NEWPID, ALL),
    NEST("net", CLONE_NEWNET, ALL),
    NEST("ipc", CLONE_NEWIPC, ALL),
    NEST("uts", CLONE_NEWUTS, ALL),
    NEST("cgroup", CLONE_NEWCGROUP, ALL),
    { "unshare_time", "R13", ALL, 0, by_unshare, { 0x80 }, NULL },
    { "setns_own_net",
      "R13",
      W_SECCOMP | W_CAPS,
      0,
      by_setns,
      { CLONE_NEWNET, (long) "/proc/self/ns/net" },
      NULL },
    { "setns_own_uts",
      "R13",
      W_SECCOMP | W_CAPS,
      0,
      by_setns,
      { CLONE_NEWUTS, (long) "/proc/self/ns/uts" },
      NULL },
    SYSCTL("user"),
    SYSCTL("mnt"),
    SYSCTL("pid"),
    SYSCTL("net"),
    SYSCTL("ipc"),
    SYSCTL("uts"),
    SYSCTL("cgroup"),
    SYSCTL("time"),
    { 0 },
};
