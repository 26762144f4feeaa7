#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

enum {
    STACK_BYTES = 256 << 10
}; /* the search through PATH holds a path and may hold a copy of argv */

/* Whatever fails to be read is taken as a right that is there. */
static int may_mount(void)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

    return syscall(SYS_capget, &header, data) < 0 || data[0].effective >> CAP_SYS_ADMIN & 1;
}

int csn_own_mounts(void)
{
    int r = csn_fault("own_mounts");

    if (r < 0)
        return r;
    if (unshare(CLONE_NEWNS) < 0)
        return errno == EPERM && !may_mount() ? 0 : -errno;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

int csn_close_range(unsigned first, unsigned last)
{
    if (syscall(SYS_close_range, first, last, 0) == 0)
        return 0;
    if (errno != ENOSYS && errno != EPERM)
        return -errno;
    /* Linux before 5.9, or a filter that doesn't know it: one by one, up to what the limit could have let us open */
    long max = sysconf(_SC_OPEN_MAX);
    if (max < 0 || max > 1 << 20)
        max = 1 << 20;
    for (unsigned fd = first; fd < (unsigned) max && fd <= last; fd++)
        (void) close((int) fd); /* most are not open */
    return 0;
}

int csn_fds_place(const int *fds, size_t n_fds)
{
    int moved[3 + CSN_MAX_FDS];

    if (n_fds > CSN_COUNT(moved))
        return -E2BIG;
    for (size_t i = 0; i < n_fds; i++) {
        moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, (int) n_fds);
        if (moved[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < n_fds; i++)
        if (dup2(moved[i], (int) i) < 0) /* clears close-on-exec */
            return -errno;
    return csn_close_range((unsigned) n_fds, ~0u);
}

typedef struct start {
    const csn_program *program;
    int error; /* what kept it from running; read by the parent, whose memory this is */
} start;

/* All signals are blocked meanwhile, and an exec keeps what is ignored. The C library's own two can't be set, nor need be. */
static void reset_signals(void)
{
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        (void) signal(sig, SIG_DFL);
    sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL); /* can't fail */
}

/* In the child, on a stack of its own, in the parent's memory: no allocation, no lock, and only `error` is written. */
__attribute__((no_sanitize("address", "undefined"))) static int run_program(void *user)
{
    start *s = user;
    const csn_program *p = s->program;
    int r = setpgid(0, 0) < 0 ? -errno : 0;

    if (r == 0)
        r = csn_own_mounts();
    if (r == 0)
        r = csn_fds_place(p->fds, p->n_fds);
    if (r == 0) {
        reset_signals();
        (void) execvpe(p->path, p->argv, p->envp); /* returns only to fail */
        r = -errno;
    }
    s->error = r;
    _exit(127);
}

static int clone_and_wait(start *s, pid_t *ret_pid, int *ret_pidfd)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    sigset_t all, before;
    int pidfd = -1;

    if (stack == MAP_FAILED)
        return -errno;
    sigfillset(&all);
    (void) pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler of ours runs in the child */
    pid_t pid = clone(run_program, stack + STACK_BYTES,
                      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s, &pidfd);
    int e = errno;
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void) munmap(stack, STACK_BYTES); /* nobody is on it any more */
    if (pid < 0)
        return -e;
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

int csn_program_start(const csn_program *program, pid_t *ret_pid, int *ret_pidfd)
{
    start s = { program, 0 };
    csn_auto(fd) int pidfd = -1;
    pid_t pid = -1;
    int r = csn_fault_as("spawn", EAGAIN);

    if (r == 0)
        r = clone_and_wait(&s, &pid, &pidfd);
    if (r < 0)
        return r;
    if (s.error < 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        return s.error;
    }
    *ret_pid = pid;
    *ret_pidfd = csn_take_fd(&pidfd);
    return 0;
}
