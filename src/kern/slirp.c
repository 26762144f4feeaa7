/* SPDX-License-Identifier: Apache-2.0 */
/* The outbound policy's link: slirp4netns, a user-mode network stack outside of the sandbox. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "net.h"
#include "pidfd.h"
#include "spawn.h"

/* Only what root put there: the program sees the sandbox's traffic. */
const char *csn_slirp_find(void)
{
    static const char *const paths[] = { "/usr/bin/slirp4netns", "/usr/local/bin/slirp4netns" };
    struct stat st;

    for (size_t i = 0; i < CSN_COUNT(paths); i++)
        if (stat(paths[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
            !(st.st_mode & (S_IWGRP | S_IWOTH)) && access(paths[i], X_OK) == 0)
            return paths[i];
    return NULL;
}

/* It writes "1" when the link is up and closes when it fails. */
static int wait_ready(int fd, int64_t deadline_ns)
{
    char byte = 0;
    int r = csn_wait_fd(fd, POLLIN, deadline_ns);

    if (r <= 0)
        return r < 0 ? r : -ETIMEDOUT;
    ssize_t n = csn_read(fd, &byte, 1);
    return n == 1 && byte == '1' ? 0 : -ENETDOWN;
}

static int start(const csn_slirp *slirp, int ready_fd, pid_t *pid, int *pidfd)
{
    char program[256];
    char configure[] = "--configure", mtu[] = "--mtu=65520", loop[] = "--disable-host-loopback";
    char sandbox[] = "--enable-sandbox", seccomp[] = "--enable-seccomp", ready[] = "--ready-fd=3";
    char cidr[] = "--cidr=" CSN_SLIRP_CIDR, type[] = "--netns-type=path";
    char userns[] = "--userns-path=/proc/self/fd/5", netns[] = "/proc/self/fd/4", tap[] = "tap0";
    char *argv[] = { program, configure, mtu,    loop,  sandbox, seccomp, ready,
                     cidr,    type,      userns, netns, tap,     NULL };
    char *envp[] = { NULL };
    csn_auto(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    int r = csn_str_copy(program, sizeof(program), csn_str_of(slirp->program));
    if (r < 0)
        return r;
    return csn_spawn_program(argv, envp, (int[]){ null, null, null },
                             (int[]){ ready_fd, slirp->netns_fd, slirp->userns_fd }, 3, pid, pidfd);
}

int csn_slirp_start(const csn_slirp *slirp, int64_t deadline_ns, pid_t *ret_pid, int *ret_pidfd)
{
    csn_auto(fd) int ready = -1, far = -1, pidfd = -1;
    pid_t pid;
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    ready = p[0];
    far = p[1];
    int r = start(slirp, far, &pid, &pidfd);
    if (r < 0)
        return r;
    csn_close(&far);
    r = wait_ready(ready, deadline_ns);
    if (r < 0) {
        (void) csn_pidfd_signal(pidfd, SIGKILL); /* our child: it may only be gone already */
        (void) csn_pidfd_reap(pidfd, false, NULL);
        return r;
    }
    *ret_pid = pid;
    *ret_pidfd = csn_take_fd(&pidfd);
    return 0;
}
