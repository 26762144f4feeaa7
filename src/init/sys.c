/* SPDX-License-Identifier: Apache-2.0 */
#include "init/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long result(long r)
{
    return r < 0 ? -errno : r;
}

pid_t csn_sys_fork(void)
{
    return (pid_t) result(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

int csn_sys_openat(int dirfd, const char *path, int flags, unsigned mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t) (unsigned) (flags | O_CLOEXEC),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = resolve,
    };
    long r;
    int tries = 64; /* -EAGAIN: something on the way was renamed meanwhile */

    do
        r = result(syscall(SYS_openat2, dirfd, path, &how, sizeof(how)));
    while (r == -EINTR || (r == -EAGAIN && --tries > 0));
    return (int) r;
}

int csn_sys_rename(int from_dir, const char *from, int to_dir, const char *to, unsigned how)
{
    return (int) result(syscall(SYS_renameat2, from_dir, from, to_dir, to, how));
}

int csn_sys_close_range(unsigned first)
{
    long r = result(syscall(SYS_close_range, first, ~0u, 0));
    struct rlimit files;

    if (r != -ENOSYS && r != -EPERM)
        return (int) r;
    /* Linux before 5.9, or a filter over all of us that doesn't know it: one by one, up to what could be open */
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    for (rlim_t fd = first; fd < files.rlim_max && fd < 1 << 20; fd++)
        (void) close((int) fd); /* most are not open */
    return 0;
}

long csn_sys_getdents(int fd, void *buf, size_t size)
{
    return result(syscall(SYS_getdents64, fd, buf, size));
}

int csn_sys_getcwd(char *buf, size_t size)
{
    return (int) result(syscall(SYS_getcwd, buf, size));
}

int csn_sys_become(uid_t uid, gid_t gid)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

    /* By number: the libc's own would make all threads follow, and there is one. */
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -errno;
    if (uid != 0 && syscall(SYS_capset, &head, none) < 0)
        return -errno;
    /* A change of user resets it to what a sysctl says. */
    return (int) result(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
}

/* Of <linux/pidfd.h>, Linux 6.13. REMOVE-WHEN: floor >= 6.13 */
struct pidfd_info_v0 {
    uint64_t mask, cgroupid;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
#define PIDFD_INFO_OF_PID ((uint64_t) 1)
#define GET_PIDFD_INFO    _IOWR(0xff, 11, struct pidfd_info_v0)

int csn_sys_ppid(pid_t pid, pid_t *ret_ppid)
{
    struct pidfd_info_v0 info = { .mask = PIDFD_INFO_OF_PID };
    long fd = result(syscall(SYS_pidfd_open, pid, 0));
    long r;

    if (fd == -EINVAL ||
        fd == -ENOENT) /* the words of older and newer kernels for: not a process */
        return -ECHILD;
    if (fd < 0)
        return (int) fd;
    r = result(ioctl((int) fd, (int) GET_PIDFD_INFO, &info));
    (void) close((int) fd); /* only looked at */
    if (r < 0)
        return (int) r;
    *ret_ppid = (pid_t) info.ppid;
    return 0;
}

struct sched_attr_v0 { /* of <linux/sched/types.h>, which clashes with <sched.h> */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void csn_sys_be_quick(void)
{
    const struct sched_attr_v0 attr = {
        .size = sizeof(attr),
        .flags = 1, /* SCHED_FLAG_RESET_ON_FORK */
        .runtime_ns = 100000,
    };

    (void) syscall(SYS_sched_setattr, 0, &attr, 0); /* an older kernel: as good as before */
}

int64_t csn_sys_now_ms(void)
{
    struct timespec now = { 0, 0 };

    (void) clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail for this clock */
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int csn_sys_read_small(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = read(fd, buf, size - 1);
    if (n < 0)
        n = -errno;
    (void) close(fd); /* was only read */
    if (n >= 0)
        buf[n] = '\0';
    return (int) n;
}
