/* SPDX-License-Identifier: Apache-2.0 */
/* The outbound policy's link: slirp4netns, a user-mode network stack outside of the sandbox. */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "base/time.h"
#include "caps.h"
#include "landlock.h"
#include "net.h"
#include "pidfd.h"
#include "rlimit.h"
#include "spawn.h"

#define TUN "/dev/net/tun"

/* Its descriptors: the groups to join are closed before it starts. */
enum { USERNS_AT = 5, JOINS_AT = 6, NOBODY = 65534 };

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

/* The device is everybody's on most systems: udev makes it so. Where no udev runs it is as the kernel made it. */
int csn_slirp_check(const char **ret_missing, const char **ret_remedy)
{
    int r;

    *ret_missing = "slirp4netns";
    *ret_remedy = geteuid() == 0 ? "apt install slirp4netns" : "sudo apt install slirp4netns";
    if (!csn_slirp_find())
        return -ENOENT;
    *ret_missing = "Landlock";
    *ret_remedy = "a kernel with CONFIG_SECURITY_LANDLOCK, landlock among lsm=";
    r = csn_landlock_abi();
    if (r < 0)
        return r;
    if (access(TUN, R_OK | W_OK) == 0)
        return 0;
    r = -errno;
    *ret_missing = r == -EACCES ? "access to /dev/net/tun" : "/dev/net/tun";
    *ret_remedy = r == -EACCES     ? "sudo chmod 666 /dev/net/tun"
                  : geteuid() == 0 ? "modprobe tun"
                                   : "sudo modprobe tun";
    return r;
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

/* ---- its own walls ---- */

/* All that it reads: itself, its libraries, the resolver's configuration. */
static const struct {
    const char *path;
    unsigned rights;
} given[] = {
    { "/usr", CSN_LANDLOCK_READ | CSN_LANDLOCK_EXEC },
    { "/lib", CSN_LANDLOCK_READ | CSN_LANDLOCK_EXEC },
    { "/lib64", CSN_LANDLOCK_READ | CSN_LANDLOCK_EXEC },
    { "/etc", CSN_LANDLOCK_READ },
    { "/run/systemd/resolve", CSN_LANDLOCK_READ },
    { "/run/NetworkManager", CSN_LANDLOCK_READ },
    { "/run/resolvconf", CSN_LANDLOCK_READ },
    { "/proc", CSN_LANDLOCK_READ },
    { "/dev/urandom", CSN_LANDLOCK_READ },
    { TUN, CSN_LANDLOCK_READ | CSN_LANDLOCK_WFILE | CSN_LANDLOCK_DEV },
};

/* Not every system has every place. */
static int allow(csn_landlock *rs, const char *path, unsigned rights)
{
    csn_auto(fd) int fd = open(path, O_PATH | O_CLOEXEC);

    return fd < 0 ? 0 : csn_landlock_allow(rs, fd, rights);
}

/* Its own --enable-sandbox needs root. Landlock does the same without privilege, and refuses mount(2). */
static int confine(const char *program)
{
    csn_landlock rs = CSN_LANDLOCK_INIT;
    int r = csn_landlock_begin(&rs, CSN_LANDLOCK_SCOPE_UNIX | CSN_LANDLOCK_SCOPE_SIGNAL);

    if (r == 0)
        r = allow(&rs, program, CSN_LANDLOCK_READ | CSN_LANDLOCK_EXEC);
    for (size_t i = 0; r == 0 && i < CSN_COUNT(given); i++)
        r = allow(&rs, given[i].path, given[i].rights);
    if (r == 0)
        r = csn_no_new_privs();
    if (r == 0)
        r = csn_landlock_restrict(&rs);
    csn_landlock_done(&rs);
    return r;
}

/* Where no udev made the device everybody's, it gets one that is, in mounts of its own. */
static int show_tun(void)
{
    struct stat st;

    if (stat(TUN, &st) < 0)
        return -errno;
    if ((st.st_mode & 0006) == 0006)
        return 0;
    if (mount("tmpfs", "/dev/net", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755") < 0 ||
        mknod(TUN, S_IFCHR | 0666, st.st_rdev) < 0 || chmod(TUN, 0666) < 0)
        return -errno;
    return 0;
}

/* What it needs to make the link: in the sandbox's user namespace, nothing outside. */
#define LINK_CAPS (1ull << CAP_SYS_ADMIN | 1ull << CAP_NET_ADMIN)

/* Root's link is nobody of the sandbox it works for: an id that owns nothing, and rights over the sandbox only. Whoever
 * made the user namespace (we did) may still signal it. Changing ids forgets who dies with whom. */
static int become_nobody(int userns_fd)
{
    const pid_t parent = getppid();
    int r;

    if (setns(userns_fd, CLONE_NEWUSER) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(NOBODY, NOBODY, NOBODY) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return -errno;
    r = csn_caps_pass_on(LINK_CAPS);
    if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        r = -errno;
    return r == 0 && getppid() != parent ? -ESRCH : r;
}

static int join_groups(size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = csn_write_all((int) (JOINS_AT + i), "0", 1);
    return csn_close_range(JOINS_AT, ~0u) < 0 ? -errno : r;
}

struct prepare {
    const char *program;
    bool is_inside;
    size_t n_joins;
};

static int prepare(void *user)
{
    const struct prepare *p = user;
    int r = join_groups(p->n_joins);

    if (r == 0)
        r = csn_rlimit_apply(&(csn_rlimits){ .n_files = CSN_SLIRP_FILES });
    if (r == 0 && p->is_inside) {
        r = csn_own_mounts();
        if (r == 0)
            r = show_tun();
        if (r == 0)
            r = become_nobody(USERNS_AT);
    }
    return r < 0 ? r : confine(p->program);
}

/* ---- what it says ---- */

enum { SAID_MAX = 4096 };

/* Its standard error. It is kept as long as the sandbox lives, so it takes no more than it has room for. */
static int make_log(int *ret_fd)
{
    csn_auto(fd) int fd = memfd_create("slirp4netns", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, SAID_MAX) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return -errno;
    *ret_fd = csn_take_fd(&fd);
    return 0;
}

static void read_last_line(int log_fd, char *out, size_t out_size)
{
    char text[SAID_MAX + 1] = "";
    ssize_t n = pread(log_fd, text, SAID_MAX, 0);
    csn_str rest = csn_str_n(text, n < 0 ? 0 : strnlen(text, (size_t) n)), line, last = { NULL, 0 };

    while (csn_str_split(&rest, '\n', &line))
        if (csn_str_trim(line).len)
            last = csn_str_trim(line);
    last.len = last.len < out_size ? last.len : out_size - 1;
    (void) csn_str_copy(out, out_size, last); /* cut to fit */
}

static int start(const csn_slirp *slirp, int ready_fd, int log_fd, pid_t *pid, int *pidfd)
{
    char program[256];
    char configure[] = "--configure", mtu[] = "--mtu=65520", loop[] = "--disable-host-loopback";
    char seccomp[] = "--enable-seccomp", ready[] = "--ready-fd=3",
         cidr[] = "--cidr=" CSN_SLIRP_CIDR;
    char type[] = "--netns-type=path", netns[] = "/proc/self/fd/4", tap[] = "tap0";
    char userns[] = "--userns-path=/proc/self/fd/5";
    char *argv[] = { program,
                     configure,
                     mtu,
                     loop,
                     seccomp,
                     ready,
                     cidr,
                     type,
                     netns,
                     tap,
                     slirp->is_inside ? NULL : userns,
                     NULL }; /* it is there already */
    char *envp[] = { NULL };
    struct prepare how = { .program = program, .is_inside = slirp->is_inside };
    int keep[3 + CSN_CG_N] = { ready_fd, slirp->netns_fd, slirp->userns_fd };
    csn_auto(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    int r = csn_str_copy(program, sizeof(program), csn_str_of(slirp->program));
    if (r == 0 && slirp->cgroup)
        r = csn_cgroup_open_joins(slirp->cgroup, CSN_CG_LIMITS, keep + 3, &how.n_joins);
    if (r < 0)
        return r;
    r = csn_spawn_prepared(-1, argv, envp, (int[]){ null, null, log_fd }, keep, 3 + how.n_joins,
                           prepare, &how, pid, pidfd);
    csn_close_many(keep + 3, how.n_joins);
    return r;
}

int csn_slirp_start(const csn_slirp *slirp, int64_t deadline_ns, pid_t *ret_pid, int *ret_pidfd,
                    csn_slirp_end *ret_end)
{
    csn_auto(fd) int ready = -1, far = -1, pidfd = -1, log = -1;
    pid_t pid = 0;
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    ready = p[0];
    far = p[1];
    int r = make_log(&log);
    if (r == 0)
        r = start(slirp, far, log, &pid, &pidfd);
    if (r < 0)
        return r;
    csn_close(&far);
    r = wait_ready(ready, deadline_ns);
    if (r == 0) {
        *ret_pid = pid;
        *ret_pidfd = csn_take_fd(&pidfd);
        return 0;
    }
    *ret_end = (csn_slirp_end){ .said = "" };
    if (r != -ENETDOWN || csn_pidfd_reap_until(pidfd, deadline_ns, &ret_end->end) < 0) {
        (void) csn_pidfd_signal(pidfd, SIGKILL); /* our child: it may only be gone already */
        (void) csn_pidfd_reap(pidfd, false, &ret_end->end);
    }
    read_last_line(log, ret_end->said, sizeof(ret_end->said));
    return r;
}
