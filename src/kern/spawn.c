/* SPDX-License-Identifier: Apache-2.0 */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/program.h"
#include "missing.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static pid_t clone3(uint64_t flags, int cgroup_fd, int *pidfd)
{
    struct csn_clone_args args = {
        .flags = flags,
        .exit_signal = SIGCHLD,
        .pidfd = (uint64_t) (uintptr_t) pidfd,
        .cgroup = cgroup_fd >= 0 ? (uint64_t) cgroup_fd : 0,
    };
    size_t size = sizeof(args);

    if (pidfd)
        args.flags |= CSN_CLONE_PIDFD;
    if (cgroup_fd >= 0)
        args.flags |= CSN_CLONE_INTO_CGROUP;
    else
        size = offsetof(struct csn_clone_args, set_tid); /* what 5.3 knows */
    pid_t pid = (pid_t) syscall(SYS_clone3, &args, size);
    return pid < 0 ? -errno : pid;
}

static int late_error; /* in the child: of its own time namespace */

/* clone() has no bit for a time namespace: the child makes it and steps in. */
static int enter_new_time(void)
{
    int r = csn_unshare(CSN_CLONE_NEWTIME);

    if (r < 0)
        return r;
    csn_auto(fd) int fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
    return fd < 0 || syscall(SYS_setns, fd, CSN_CLONE_NEWTIME) < 0 ? -errno : 0;
}

int csn_clone_late(void)
{
    return late_error;
}

/* Containers with an old seccomp profile answer clone3 with ENOSYS. REMOVE-WHEN: never */
static pid_t clone_old(uint64_t flags, int *pidfd)
{
    uint64_t now = (flags & ~CSN_CLONE_NEWTIME) | SIGCHLD;

    if (pidfd)
        now |= CSN_CLONE_PIDFD;
    /* flags, stack, parent_tid (the pidfd's place), …: the first three are alike on x86_64 and aarch64 */
    pid_t pid = (pid_t) syscall(SYS_clone, (unsigned long) now, NULL, pidfd, NULL, NULL);
    if (pid < 0)
        return -errno;
    if (pid == 0 && flags & CSN_CLONE_NEWTIME)
        late_error = enter_new_time();
    return pid;
}

pid_t csn_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    int pidfd = -1, *want = ret_pidfd ? &pidfd : NULL;
    pid_t pid = (pid_t) csn_fault_as("clone", EAGAIN);

    if (pid < 0)
        return pid;
    pid = clone3(flags, cgroup_fd, want);
    if (cgroup_fd >= 0 && (pid == -ENOSYS || pid == -E2BIG))
        return -ENOTSUP;
    if (pid == -ENOSYS)
        pid = clone_old(flags, want);
    if (pid > 0 && ret_pidfd)
        *ret_pidfd = pidfd;
    return pid == -ENOSPC ? -EUSERS : pid; /* no disk has anything to do with it */
}

int csn_unshare(uint64_t flags)
{
    if (syscall(SYS_unshare, (unsigned long) flags) == 0)
        return 0;
    return errno == ENOSPC ? -EUSERS : -errno;
}

int csn_exec_fd(int fd, char *const argv[], char *const envp[])
{
    (void) syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH); /* returns only to fail */
    return -errno;
}

/* MFD_EXEC says what we mean where vm.memfd_noexec asks for it (6.3+); older kernels don't know it. */
static int make_memfd(const char *name)
{
    int fd = (int) syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    if (fd < 0 && errno == EINVAL)
        fd = (int) syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

int csn_memfd_sealed(const char *name, const void *bytes, size_t len, int *ret_fd)
{
    csn_auto(fd) int fd = csn_fault("memfd");

    if (fd < 0)
        return fd;
    fd = make_memfd(name);
    if (fd < 0)
        return fd;
    int r = csn_write_all(fd, bytes, len);
    if (r < 0)
        return r;
    /* the mode first: F_SEAL_EXEC would freeze it, and is missing before 6.3 */
    if (fchmod(fd, 0555) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        return -errno;
    *ret_fd = csn_take_fd(&fd);
    return 0;
}

int csn_memfd_check_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS ? 0 : -EPERM;
}

int csn_spawn_prepared(int program_fd, char *const argv[], char *const envp[], const int stdio[3],
                       const int *keep, size_t n_keep, int (*prepare)(void *user), void *user,
                       pid_t *ret_pid, int *ret_pidfd)
{
    int fds[3 + CSN_MAX_FDS] = { stdio[0], stdio[1], stdio[2] };
    size_t n_fds = 3;
    pid_t parent = getpid();
    int pidfd = -1;

    if (n_keep + (program_fd >= 0) > CSN_MAX_FDS)
        return -E2BIG;
    for (size_t i = 0; i < n_keep; i++)
        fds[n_fds++] = keep[i];
    if (program_fd >= 0)
        fds[n_fds++] = program_fd;
    pid_t pid = csn_clone(0, -1, &pidfd);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL); /* ours are blocked for the signalfd */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
            csn_fds_place(fds, n_fds) < 0 || prepare(user) < 0)
            _exit(127);
        if (program_fd >= 0 && fcntl((int) n_fds - 1, F_SETFD, FD_CLOEXEC) == 0)
            (void) csn_exec_fd((int) n_fds - 1, argv, envp); /* returns only to fail */
        else
            (void) execve(argv[0], argv, envp); /* returns only to fail */
        _exit(127);
    }
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

static int own_mounts(void *user)
{
    (void) user;
    return csn_own_mounts();
}

int csn_spawn_program(char *const argv[], char *const envp[], const int stdio[3], const int *keep,
                      size_t n_keep, pid_t *ret_pid, int *ret_pidfd)
{
    return csn_spawn_prepared(-1, argv, envp, stdio, keep, n_keep, own_mounts, NULL, ret_pid,
                              ret_pidfd);
}
