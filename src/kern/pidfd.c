/* SPDX-License-Identifier: Apache-2.0 */
#include "pidfd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "missing.h"

enum { END_MS = 10 * 1000 }; /* a killed PID namespace takes its time on a busy machine */

int csn_pidfd_open(pid_t pid, int *ret_fd)
{
    int fd = (int) syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0)
        return -errno;
    *ret_fd = fd; /* the kernel makes them close-on-exec */
    return 0;
}

int csn_pidfd_signal(int pidfd, int sig)
{
    return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

static void fill_ending(const siginfo_t *info, csn_child_end *ret_ending)
{
    if (!ret_ending)
        return;
    *ret_ending = (csn_child_end){
        .pid = info->si_pid,
        .by_signal = info->si_code != CLD_EXITED,
        .core = info->si_code == CLD_DUMPED,
        .status = info->si_status,
    };
}

static int reap(idtype_t type, id_t id, int flags, siginfo_t *info)
{
    int r;

    info->si_pid = 0; /* stays 0 when WNOHANG finds nobody */
    do
        r = waitid(type, id, info, WEXITED | flags);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

int csn_pidfd_reap(int pidfd, bool nohang, csn_child_end *ret_ending)
{
    siginfo_t info;
    int r = reap((idtype_t) P_PIDFD, (id_t) pidfd, nohang ? WNOHANG : 0, &info);

    if (r < 0)
        return r;
    if (info.si_pid == 0)
        return -EAGAIN;
    fill_ending(&info, ret_ending);
    return 0;
}

int csn_pidfd_reap_until(int pidfd, int64_t deadline_ns, csn_child_end *ret_ending)
{
    int r = csn_wait_fd(pidfd, POLLIN, deadline_ns);

    if (r < 0)
        return r;
    if (r == 0)
        return -ETIMEDOUT;
    return csn_pidfd_reap(pidfd, true, ret_ending);
}

int csn_child_kill(pid_t pid, int pidfd)
{
    int r = csn_pidfd_signal(pidfd, SIGKILL);

    if (r < 0 && r != -ESRCH)
        (void) kill(pid, SIGKILL); /* our own child: it may only be gone already */
    return csn_pidfd_reap_until(pidfd, csn_deadline_in_ms(END_MS), NULL);
}

int csn_reap_any(csn_child_end *ret_ending)
{
    siginfo_t info;
    int r = reap(P_ALL, 0, WNOHANG, &info);

    if (r < 0)
        return r;
    if (info.si_pid == 0)
        return 0;
    fill_ending(&info, ret_ending);
    return 1;
}
