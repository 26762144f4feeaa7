#include "confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "kern/caps.h"
#include "kern/landlock.h"

/* This process keeps: its two descriptors, new files below the target, the four capabilities that files with owners take.
 * It gives up: every other file, programs, processes, network, the rest of the system calls. */

#define KEPT_CAPS \
    (1ull << CAP_CHOWN | 1ull << CAP_FOWNER | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FSETID)

enum { MEMORY_MAX = 2000 << 20, FILES_MAX = 1024 };

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define OUR_ARCH AUDIT_ARCH_RISCV64
#endif

/* Whatever isn't here answers EPERM. */
static const int allowed[] = {
    SYS_read,       SYS_write,     SYS_pread64,       SYS_pwrite64,       SYS_openat,
    SYS_openat2,    SYS_close,     SYS_fstat,         SYS_newfstatat,     SYS_statx,
    SYS_lseek,      SYS_mmap,      SYS_munmap,        SYS_mprotect,       SYS_brk,
    SYS_mremap,     SYS_madvise,   SYS_mkdirat,       SYS_mknodat,        SYS_symlinkat,
    SYS_linkat,     SYS_unlinkat,  SYS_fchmod,        SYS_fchownat,       SYS_fchown,
    SYS_utimensat,  SYS_fsetxattr, SYS_flistxattr,    SYS_fgetxattr,      SYS_getdents64,
    SYS_readlinkat, SYS_ftruncate, SYS_faccessat,     SYS_faccessat2,     SYS_ppoll,
    SYS_exit_group, SYS_exit,      SYS_rt_sigreturn,  SYS_rt_sigprocmask, SYS_rt_sigaction,
    SYS_futex,      SYS_getrandom, SYS_clock_gettime, SYS_fcntl,          SYS_getpid,
    SYS_gettid,     SYS_tgkill,    SYS_geteuid,       SYS_uname,          SYS_writev,
    SYS_readv,
#ifdef SYS_renameat2
    SYS_renameat2,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
#ifdef SYS_poll
    SYS_poll,
#endif
};

static int limit_resources(void)
{
    static const struct {
        int what;
        rlim_t max;
    } limits[] = {
        { RLIMIT_CORE, 0 },
        { RLIMIT_NOFILE, FILES_MAX },
        { RLIMIT_NPROC, 0 },
        { RLIMIT_AS, CSN_HAS_SANITIZER ? RLIM_INFINITY : MEMORY_MAX },
    };

    for (size_t i = 0; i < CSN_COUNT(limits); i++) {
        struct rlimit now, want;

        if (getrlimit((__rlimit_resource_t) limits[i].what, &now) < 0)
            return -errno;
        want.rlim_max = limits[i].max < now.rlim_max ? limits[i].max : now.rlim_max;
        want.rlim_cur = want.rlim_max;
        if (setrlimit((__rlimit_resource_t) limits[i].what, &want) < 0)
            return -errno;
    }
    return 0;
}

/* A wall of its own for root, and the only one on kernels without Landlock. */
static int change_root(int target_fd)
{
    if (geteuid() != 0)
        return 0;
    if (fchdir(target_fd) < 0)
        return -errno;
    if (chroot(".") == 0)
        return 0;
    return errno == EPERM ? -ENOTSUP : -errno; /* root of a container that may not */
}

static int restrict_files(int source_fd, int target_fd)
{
    csn_landlock rs = CSN_LANDLOCK_INIT;
    struct stat st;
    int r;

    if (fstat(source_fd, &st) < 0)
        return -errno;
    r = csn_landlock_begin(&rs, CSN_LANDLOCK_SCOPE_UNIX | CSN_LANDLOCK_SCOPE_SIGNAL |
                                    CSN_LANDLOCK_NO_TCP);
    if (r < 0)
        return r;
    r = csn_landlock_allow(&rs, target_fd,
                           CSN_LANDLOCK_READ | CSN_LANDLOCK_WRITE | CSN_LANDLOCK_NODES);
    if (r == 0 && S_ISDIR(st.st_mode))
        r = csn_landlock_allow(&rs, source_fd, CSN_LANDLOCK_READ);
    if (r == 0)
        return csn_landlock_restrict(&rs);
    csn_landlock_done(&rs);
    return r;
}

static int drop_privileges(void)
{
    int r = geteuid() == 0 ? csn_caps_keep(KEPT_CAPS) : csn_caps_clear();

    /* A container's root may lack the right to lower its bounding set; nothing is executed any more. */
    return r == -EPERM ? csn_caps_limit(KEPT_CAPS) : r;
}

#define STMT(code, k)          ((struct sock_filter) BPF_STMT(code, k))
#define JUMP(code, k, yes, no) ((struct sock_filter) BPF_JUMP(code, k, yes, no))

static int filter_calls(void)
{
#if defined(OUR_ARCH)
    enum { N = CSN_COUNT(allowed) };
    struct sock_filter f[N + 6];
    struct sock_fprog prog = { .len = CSN_COUNT(f), .filter = f };
    size_t n = 0;

    f[n++] = STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
    f[n++] = STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] = STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < N; i++)
        f[n++] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) allowed[i], (uint8_t) (N - i), 0);
    f[n++] = STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    f[n++] = STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (CSN_HAS_SANITIZER)
        return 0; /* their runtimes make calls of their own */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
#else
    return 0;
#endif
}

int csn_confine(int source_fd, int target_fd, csn_error *err)
{
    bool is_rooted;
    int r;

    r = limit_resources();
    if (r < 0)
        return csn_fail_sys(err, r, "limit memory and files");
    r = change_root(target_fd);
    if (r < 0 && r != -ENOTSUP)
        return csn_fail_sys(err, r, "change root");
    is_rooted = r == 0 && geteuid() == 0;
    r = csn_no_new_privs();
    if (r == 0)
        r = restrict_files(source_fd, target_fd);
    if (r < 0 && (!is_rooted || (r != -ENOSYS && r != -EOPNOTSUPP)))
        return csn_fail_sys(err, r, "restrict file access with Landlock");
    r = drop_privileges();
    if (r < 0)
        return csn_fail_sys(err, r, "drop privileges");
    r = filter_calls();
    return r < 0 ? csn_fail_sys(err, r, "filter system calls") : CSN_OK;
}
