/* Starting keepers and letting go of them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "kern/affinity.h"
#include "local/local.h"

enum { LATER_MS = 20 };

/* The keeper gets no mount namespace of its own, unlike other programs that we start (csn_program_start()): it attaches and
 * detaches nothing in the host's. What it makes are descriptors of detached mounts, its child attaches them in the sandbox's
 * namespace, and its filter has no mount call. It would hold on to what the host unmounts as long as the sandbox lives.
 *
 * Signals as at birth, a session of its own (a terminal's ^C is not for it), and nothing inherited but what it is given. */
static int prepare(posix_spawn_file_actions_t *fa, posix_spawnattr_t *attr, int null_fd, int sock)
{
    sigset_t all, none;
    int r = 0;

    sigfillset(&all);
    sigemptyset(&none);
    for (int fd = 0; r == 0 && fd < 3; fd++)
        r = posix_spawn_file_actions_adddup2(fa, null_fd, fd);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(fa, sock, CSN_KEEPER_FD);
    if (r == 0)
        r = posix_spawn_file_actions_addclosefrom_np(fa, CSN_KEEPER_FD + 1);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(attr, &all);
    if (r == 0)
        r = posix_spawnattr_setsigmask(attr, &none);
    if (r == 0)
        r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSID);
    return -r;
}

static int spawn(csn_local *local, int sock, pid_t *ret_pid)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    char name[] = "caisson-keeper", *argv[] = { name, NULL }, *envp[] = { NULL };
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    int r = csn_fault_as("posix_spawn", EAGAIN);

    if (r < 0)
        return r;
    if (csn_buf_printf(&path, "%s/caisson-keeper", local->libexec) < 0)
        return -ENOMEM;
    if ((r = posix_spawn_file_actions_init(&fa)) != 0)
        return -r;
    if ((r = posix_spawnattr_init(&attr)) != 0) {
        posix_spawn_file_actions_destroy(&fa);
        return -r;
    }
    r = prepare(&fa, &attr, local->null_fd, sock);
    if (r == 0)
        r = -posix_spawn(ret_pid, path.data, &fa, &attr, argv, envp);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&fa);
    return r;
}

/* The far end must not be 0, 1, 2 or 3, which the new program's descriptors are moved to one by one. */
static int lift(int *fd)
{
    if (*fd > CSN_KEEPER_FD)
        return 0;
    int higher = csn_fd_dup(*fd, CSN_KEEPER_FD + 1);
    if (higher < 0)
        return higher;
    csn_close(fd);
    *fd = higher;
    return 0;
}

static int start_keeper(csn_local *local, csn_keeper *ret_keeper)
{
    csn_auto(fd) int ours = -1;
    csn_auto(fd) int theirs = -1;
    int pair[2], r;

    local->has_ended_some = true; /* one day */
    if (local->null_fd < 0) {
        local->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (local->null_fd < 0)
            return -errno;
        if ((r = lift(&local->null_fd)) < 0)
            return r;
    }
    if ((r = csn_fault_as("socketpair", EMFILE)) < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    if ((r = lift(&theirs)) < 0 || (r = spawn(local, theirs, &ret_keeper->pid)) < 0)
        return r;
    csn_affinity_send_away(ret_keeper->pid); /* it builds while we claim */
    ret_keeper->fd = csn_take_fd(&ours);
    return 0;
}

/* A spare that died while it waited has hung up. */
static bool is_alive(const csn_keeper *keeper)
{
    struct pollfd p = { .fd = keeper->fd, .events = POLLIN };

    return poll(&p, 1, 0) == 0;
}

int csn_keeper_take(csn_local *local, csn_keeper *ret_keeper, csn_error *err)
{
    while (local->n_spares > 0) {
        csn_keeper *spare = &local->spares[--local->n_spares];
        if (is_alive(spare)) {
            *ret_keeper = *spare;
            return CSN_OK;
        }
        csn_keeper_end(local, spare);
    }
    int r = start_keeper(local, ret_keeper);
    return r < 0 ? csn_fail_sys(err, r, "start '%s/caisson-keeper'", local->libexec) : CSN_OK;
}

void csn_keeper_stock(csn_local *local)
{
    uint32_t wanted = local->n_spare_wanted;

    csn_orphans_reap(local);
    if (local->is_once && local->n_created < 2) /* perhaps it is the only one there ever is */
        return;
    if (wanted == 0 && !csn_standby_build(local))
        wanted = local->n_created >= 2;

    while (local->n_spares < wanted && local->n_spares < CSN_SPARES_MAX) {
        if (start_keeper(local, &local->spares[local->n_spares]) < 0)
            return; /* the create that needs one will say why */
        local->n_spares++;
    }
}

static void on_stock(csn_timer *timer, void *user)
{
    (void) timer;
    csn_keeper_stock(user);
}

/* Not while a sandbox is being built or its first command starts: a keeper that prepares itself takes as much of the
 * machine. The best time is when a sandbox ends, while we wait for that. */
static void stock_in_ms(csn_local *local, int ms)
{
    if (csn_timer_set(local->base.loop, &local->stock_timer, csn_deadline_in_ms(ms), on_stock,
                      local) < 0)
        return; /* without a spare the next create is slower, not wrong */
}

void csn_keeper_stock_later(csn_local *local)
{
    stock_in_ms(local, local->standby.is_hasty ? 0 : LATER_MS);
}

void csn_keeper_stock_now(csn_local *local)
{
    stock_in_ms(local, 0);
}

void csn_keeper_start_first(csn_local *local)
{
    if (start_keeper(local, &local->spares[0]) == 0)
        local->n_spares = 1;
}

bool csn_child_wait(pid_t pid, int wait_ms)
{
    if (pid <= 0 || waitpid(pid, NULL, WNOHANG) != 0)
        return true; /* reaped now, or by the host program's own SIGCHLD handling */
    csn_auto(fd) int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    return pidfd >= 0 && poll(&p, 1, wait_ms) > 0 && waitpid(pid, NULL, WNOHANG) != 0;
}

void csn_child_reap(pid_t pid, int kill_after_ms)
{
    if (csn_child_wait(pid, kill_after_ms))
        return;
    (void) kill(pid, SIGKILL); /* our unreaped child, so the number is still its own */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

void csn_keeper_end(csn_local *local, csn_keeper *keeper)
{
    csn_close(&keeper->fd);
    csn_orphan_add(local, keeper->pid, true);
    keeper->pid = 0;
}
