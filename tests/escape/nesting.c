/* SPDX-License-Identifier: Apache-2.0 */
/* New namespaces from inside reopen the kernel surface that the others close (R13, CVE-2022-0492). */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static enum verdict by_unshare(const struct attack *self)
{
    return refused(call(SYS_unshare, self->arg[0], 0, 0, 0, 0, 0));
}

static enum verdict reap(long pid)
{
    if (pid == 0)
        _exit(0);
    if (pid > 0) {
        waitpid((pid_t) pid, NULL, 0);
        return BREACH;
    }
    return refused(-1);
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

#define NEST(suffix, flag) \
    { "unshare_" suffix, "R13", W_SECCOMP | W_NESTING | W_CAPS, 0, by_unshare, { flag } }, \
        { "clone_" suffix, "R13", W_SECCOMP | W_NESTING | W_CAPS, 0, by_clone, { flag } }, \
        { "clone3_" suffix, "R13", W_SECCOMP | W_NESTING | W_CAPS, 0, by_clone3, { flag } }
#define SYSCTL(suffix) \
    { "max_" suffix "_namespaces", "R13", W_NESTING, 0, sysctl_allows, \
        { (long) "/proc/sys/user/max_" suffix "_namespaces" } }

const struct attack attacks_nesting[] = {
    NEST("user", CLONE_NEWUSER),
    NEST("mount", CLONE_NEWNS),
    NEST("pid", CLONE_NEWPID),
    NEST("net", CLONE_NEWNET),
    NEST("ipc", CLONE_NEWIPC),
    NEST("uts", CLONE_NEWUTS),
    NEST("cgroup", CLONE_NEWCGROUP),
    { "unshare_time", "R13", W_SECCOMP | W_NESTING | W_CAPS, 0, by_unshare, { 0x80 } },
    { "setns_own_net", "R13", W_SECCOMP | W_CAPS, 0, by_setns, { CLONE_NEWNET, (long) "/proc/self/ns/net" } },
    { "setns_own_uts", "R13", W_SECCOMP | W_CAPS, 0, by_setns, { CLONE_NEWUTS, (long) "/proc/self/ns/uts" } },
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
