/* Sandboxes attached to another program: their keepers have no door, but a lock, and the kernel says who holds it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "local/local.h"

enum { LOCKS_MAX = 16 << 20 };

enum { FIELDS = 6, FIELD_KIND = 1, FIELD_MODE = 3, FIELD_PID, FIELD_FILE };

/* "12: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF"; a waiter has "->" before its kind and so doesn't fit. */
static pid_t holder_in(csn_str line, const char *file)
{
    csn_str fields[FIELDS], part;
    size_t n = 0;
    int64_t pid;

    while (n < FIELDS && csn_str_split(&line, ' ', &part))
        if (part.len > 0)
            fields[n++] = part;
    if (n < FIELDS || !csn_str_is(fields[FIELD_KIND], "FLOCK") ||
        !csn_str_is(fields[FIELD_MODE], "WRITE") || !csn_str_is(fields[FIELD_FILE], file) ||
        csn_parse_i64(fields[FIELD_PID], &pid) < 0 || pid > INT32_MAX)
        return 0;
    return (pid_t) pid;
}

pid_t csn_box_keeper_pid(int dir_fd)
{
    csn_auto(buf) csn_buf locks = CSN_BUF_INIT;
    char file[64];
    struct stat st;
    pid_t pid = 0;

    if (fstatat(dir_fd, "lock", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        csn_read_file(AT_FDCWD, "/proc/locks", &locks, LOCKS_MAX) < 0)
        return 0;
    (void) snprintf(file, sizeof(file), "%02x:%02x:%llu", major(st.st_dev), minor(st.st_dev),
                    (unsigned long long) st.st_ino); /* fits */
    csn_str rest = csn_str_n(locks.data, locks.len), line;
    while (pid <= 0 && csn_str_split(&rest, '\n', &line))
        pid = holder_in(line, file);
    return pid > 0 ? pid : 0;
}

static void on_killed(bool is_alive, void *user)
{
    csn_local_box *box = user;

    (void) is_alive; /* whoever sent the signal looks for itself */
    csn_gate_open(box);
    csn_box_unref(&box->base);
}

/* The number is looked up again once it is pinned by a descriptor: it can't have changed hands in between. */
int csn_box_kill_keeper(csn_local_box *box, csn_gated *verb, csn_error *err)
{
    const char *id = box->base.wish.id;
    pid_t pid = csn_box_keeper_pid(box->dir_fd);
    csn_auto(fd) int pidfd = pid > 0 ? (int) syscall(SYS_pidfd_open, pid, 0) : -1;

    if (verb->has_sent_kill && csn_box_has_keeper(box->dir_fd))
        return csn_fail(err, CSN_E_TIMEOUT, "the keeper of sandbox '%s' does not end", id);
    if (pidfd < 0 || csn_box_keeper_pid(box->dir_fd) != pid) {
        if (!csn_box_has_keeper(box->dir_fd))
            return CSN_OK; /* it went by itself */
        return csn_fail(err, CSN_E_BUSY, "sandbox '%s' is attached to another program that can't be reached",
                        id);
    }
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return csn_fail_sys(err, -errno, "end the keeper of sandbox '%s'", id);
    verb->has_sent_kill = true;
    csn_close(&box->leaving.pidfd);
    box->leaving.pidfd = csn_take_fd(&pidfd);
    box->leaving.pid = 0;
    box->leaving.is_spared = true; /* it has its signal */
    csn_box_ref(&box->base);
    csn_leaving_begin(&box->leaving, csn_local_of(&box->base)->base.loop, on_killed, box);
    return CSN_GATE_WAIT;
}
