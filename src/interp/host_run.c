/* A helper program on the host: started, fed, read, and surely gone. posix_spawn, since our host may have threads. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "model.h"

enum { TURN_MS = 50, PIECE = 64 * 1024 };

struct run {
    int in, out, err;
    const char *data;
    size_t len;
    csn_buf *out_buf, *err_buf;
};

static int make_pipe(int ours, int *ret_ours, int *ret_theirs)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_ours = ends[ours];
    *ret_theirs = ends[!ours];
    return csn_fd_nonblock(*ret_ours, true);
}

static int spawn(const char *const *argv, const char *const *env, const int theirs[3],
                 pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, reset;
    int r;

    sigemptyset(&none);
    sigemptyset(&reset);
    sigaddset(&reset, SIGPIPE);
    sigaddset(&reset, SIGINT);
    sigaddset(&reset, SIGTERM);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, theirs[i], i);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &reset);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    r = posix_spawnp(ret_pid, argv[0], &actions, &attr, (char *const *) argv, (char *const *) env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return -r;
}

/* Reads what is there; closes at the end. What is beyond the buffer's bound is read and dropped. */
static void drain(int *fd, csn_buf *buf)
{
    char piece[PIECE];
    ssize_t n;

    while (*fd >= 0 && (n = csn_read(*fd, piece, sizeof(piece))) != -EAGAIN) {
        if (n <= 0) {
            csn_close(fd);
            return;
        }
        if (buf && buf->len + (size_t) n <= buf->max)
            csn_buf_append(buf, piece, (size_t) n);
    }
}

static void feed(struct run *r)
{
    while (r->in >= 0) {
        ssize_t n = r->len ? csn_write(r->in, r->data, r->len) : 0;

        if (n == -EAGAIN)
            return;
        if (n <= 0) { /* all was written, or nobody reads it */
            csn_close(&r->in);
            return;
        }
        r->data += n;
        r->len -= (size_t) n;
    }
}

static int talk(struct run *r, int64_t deadline_ns, atomic_bool *stop)
{
    while (r->out >= 0 || r->err >= 0) {
        struct pollfd fds[3] = { { r->in, POLLOUT, 0 },
                                 { r->out, POLLIN, 0 },
                                 { r->err, POLLIN, 0 } };
        int left = csn_remaining_ms(deadline_ns);

        if (stop && atomic_load(stop))
            return -ECANCELED;
        if (csn_deadline_passed(deadline_ns))
            return -ETIMEDOUT;
        if (poll(fds, 3, left >= 0 && left < TURN_MS ? left : TURN_MS) < 0 && errno != EINTR)
            return -errno;
        feed(r);
        drain(&r->out, r->out_buf);
        drain(&r->err, r->err_buf);
    }
    return 0;
}

/* The streams are closed: it has a moment to end by itself. */
static int reap(pid_t pid, int64_t deadline_ns, int *ret_status)
{
    int64_t soon = csn_deadline_min(deadline_ns, csn_deadline_in_ms(5000));

    while (waitpid(pid, ret_status, WNOHANG) == 0) {
        if (csn_deadline_passed(soon))
            return -ETIMEDOUT;
        (void) poll(NULL, 0, 2); /* there is no pidfd in posix_spawn */
    }
    return 0;
}

int csn_host_run(const char *const *argv, const char *const *env, const char *input,
                 size_t input_len, int64_t deadline_ns, atomic_bool *stop, csn_buf *out,
                 csn_buf *err_out, int *ret_status)
{
    struct run run = { -1, -1, -1, input, input_len, out, err_out };
    int theirs[3] = { -1, -1, -1 }, status = 0;
    pid_t pid = -1;
    int r = make_pipe(1, &run.in, &theirs[0]);

    if (r == 0)
        r = make_pipe(0, &run.out, &theirs[1]);
    if (r == 0)
        r = make_pipe(0, &run.err, &theirs[2]);
    if (r == 0)
        r = spawn(argv, env, theirs, &pid);
    csn_close_many(theirs, 3);
    if (r == 0) {
        r = talk(&run, deadline_ns, stop);
        if (r == 0)
            r = reap(pid, deadline_ns, &status);
        (void) kill(-pid, SIGKILL); /* whoever is left of its group; none is fine */
        if (r < 0)
            (void) waitpid(pid, &status, 0); /* it was just killed */
    }
    csn_close(&run.in);
    csn_close(&run.out);
    csn_close(&run.err);
    if (r == 0)
        *ret_status = status;
    return r;
}
