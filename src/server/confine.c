/* SPDX-License-Identifier: Apache-2.0 */
/* This process keeps: the descriptors it was given, connections accepted on one of them, files below its data directory.
 * It gives up: every other file, new sockets, programs, processes, threads, executable memory, capabilities, being traced,
 * and every system call that is not in the list. */
#include "server/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "kern/caps.h"
#include "kern/landlock.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#ifndef HAS_SANITIZER
#define HAS_SANITIZER 0
#endif

#if HAS_SANITIZER
/* The search for leaks traces the process from another one, which the walls don't let in. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "the front's filter has no architecture token for this machine"
#endif

/* Whatever isn't here answers EPERM. */
static const int allowed[] = {
    /* bytes */
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_sendfile,
    SYS_splice,
    SYS_copy_file_range,
    SYS_lseek,
    SYS_close,
    SYS_dup,
    SYS_dup3,
    SYS_fcntl,
    SYS_pipe2,
    SYS_memfd_create,
    /* connections */
    SYS_accept4,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_recvfrom,
    SYS_sendto,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_setsockopt,
    SYS_getsockopt,
    /* waiting, time */
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_ppoll,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_restart_syscall,
    SYS_futex,
    SYS_sched_yield,
    /* files below the data directory; Landlock says which */
    SYS_openat,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fstatfs,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_renameat,
    SYS_renameat2,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_getcwd,
    SYS_flock,
    SYS_umask,
    SYS_utimensat,
    /* memory; mmap and mprotect are looked at below */
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    /* itself */
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_uname,
    SYS_sysinfo,
    SYS_prlimit64,
    SYS_sched_getaffinity,
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#ifdef SYS_epoll_pwait2
    SYS_epoll_pwait2,
#endif
#ifdef SYS_close_range
    SYS_close_range,
#endif
#ifdef __x86_64__ /* the old spellings some library still uses */
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_unlink,
    SYS_rename,
    SYS_mkdir,
    SYS_rmdir,
    SYS_readlink,
    SYS_poll,
    SYS_epoll_wait,
    SYS_dup2,
    SYS_pipe,
    SYS_time,
    SYS_getdents,
    SYS_chmod,
#endif
};

/* A terminal's input queue and line discipline are none of the front's business, whatever descriptor it is lent. */
static const uint32_t refused_ioctls[] = { 0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */,
                                           0x541d /* TIOCCONS */, 0x5423 /* TIOCSETD */ };

#define NR           offsetof(struct seccomp_data, nr)
#define ARG(i)       (offsetof(struct seccomp_data, args) + 8 * (i)) /* low half: little-endian */
#define LOAD(at)     ((struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at))
#define IS(k, y, n)  ((struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, y, n))
#define HAS(k, y, n) ((struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, y, n))
#define GIVE(action) ((struct sock_filter) BPF_STMT(BPF_RET | BPF_K, action))
#define REFUSE       (SECCOMP_RET_ERRNO | EPERM)

enum { MAX_CODE = CSN_COUNT(allowed) + 40 };

typedef struct program {
    struct sock_filter code[MAX_CODE];
    size_t n;
} program;

static void put(program *p, struct sock_filter f)
{
    p->code[p->n++] = f;
}

/* Of this call the low half of one argument decides: equal to `value` (or: without these bits) is allowed. */
static void put_call(program *p, int nr, unsigned arg, bool is_mask, uint32_t value)
{
    put(p, IS((uint32_t) nr, 0, 4));
    put(p, LOAD(ARG(arg)));
    put(p, is_mask ? HAS(value, 0, 1) : IS(value, 1, 0));
    put(p, GIVE(REFUSE));
    put(p, GIVE(SECCOMP_RET_ALLOW));
}

static void put_ioctl(program *p)
{
    enum { N = CSN_COUNT(refused_ioctls) };

    put(p, IS(SYS_ioctl, 0, N + 3));
    put(p, LOAD(ARG(1)));
    for (size_t i = 0; i < N; i++)
        put(p, IS(refused_ioctls[i], (uint8_t) (N - i), 0));
    put(p, GIVE(SECCOMP_RET_ALLOW));
    put(p, GIVE(REFUSE));
}

static int filter_calls(void)
{
    enum { N = CSN_COUNT(allowed) };
    static program p;
    struct sock_fprog prog = { .filter = p.code };

    p.n = 0;
    put(&p, LOAD(offsetof(struct seccomp_data, arch)));
    put(&p, IS(OUR_ARCH, 1, 0));
    put(&p, GIVE(SECCOMP_RET_KILL_PROCESS));
    put(&p, LOAD(NR));
    put_call(&p, SYS_mmap, 2, true, PROT_EXEC);
    put_call(&p, SYS_mprotect, 2, true, PROT_EXEC);
    put_call(&p, SYS_socketpair, 0, false, AF_UNIX);
    put_ioctl(&p);
    for (size_t i = 0; i < N; i++)
        put(&p, IS((uint32_t) allowed[i], (uint8_t) (N - i), 0));
    put(&p, GIVE(REFUSE));
    put(&p, GIVE(SECCOMP_RET_ALLOW));
    prog.len = (unsigned short) p.n;
    if (HAS_SANITIZER)
        return 0; /* their runtimes make calls of their own */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
}

static int restrict_files(const char *data_dir)
{
    csn_auto(fd) int fd = open(data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* jansson and SQLite seed themselves from it, and from the clock when they can't */
    csn_auto(fd) int random = open("/dev/urandom", O_PATH | O_CLOEXEC);
    csn_landlock rs = CSN_LANDLOCK_INIT;
    int r;

    if (fd < 0)
        return -errno;
    r = csn_landlock_begin(&rs, CSN_LANDLOCK_SCOPE_UNIX | CSN_LANDLOCK_SCOPE_SIGNAL |
                                    CSN_LANDLOCK_NO_TCP);
    if (r == 0)
        r = csn_landlock_allow(&rs, fd, CSN_LANDLOCK_READ | CSN_LANDLOCK_WRITE);
    if (r == 0 && random >= 0)
        r = csn_landlock_allow(&rs, random, CSN_LANDLOCK_READ);
    if (r == 0)
        r = csn_landlock_restrict(&rs);
    csn_landlock_done(&rs);
    return r;
}

static int limit_resources(void)
{
    const struct rlimit none = { 0, 0 };

    return setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NPROC, &none) < 0 ? -errno : 0;
}

int csn_front_confine(const char *data_dir, bool is_landlock_optional, csn_error *err)
{
    int r = limit_resources();

    if (r == 0)
        r = csn_caps_clear();
    if (r == 0)
        r = csn_no_new_privs();
    if (r == 0)
        r = csn_dumpable_set(false);
    if (r < 0)
        return csn_fail_sys(err, r, "give up rights");
    r = restrict_files(data_dir);
    bool is_missing = r == -ENOSYS || r == -EOPNOTSUPP;
    if (is_missing && !is_landlock_optional)
        return csn_fail(
            err, CSN_E_UNSUPPORTED,
            "this kernel has no Landlock, so whoever took over the front could read what "
            "its user can: enable it (lsm=landlock,…), or start with --optional landlock,keeper");
    if (is_missing)
        csn_log(CSN_LOG_WARN, "this kernel has no Landlock: the front can read what its user can",
                NULL);
    else if (r < 0)
        return csn_fail_sys(err, r, "restrict file access to '%.128s'", data_dir);
    r = filter_calls();
    return r < 0 ? csn_fail_sys(err, r, "filter system calls") : CSN_OK;
}
