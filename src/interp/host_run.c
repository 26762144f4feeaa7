/* A helper program on the host: started, fed, read, and surely gone. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/program.h"
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
static int reap(pid_t pid, int pidfd, int64_t deadline_ns, int *ret_status)
{
    int64_t soon = csn_deadline_min(deadline_ns, csn_deadline_in_ms(5000));
    int r = csn_wait_fd(pidfd, POLLIN, soon);

    if (r <= 0)
        return r < 0 ? r : -ETIMEDOUT;
    return waitpid(pid, ret_status, 0) < 0 ? -errno : 0;
}

int csn_host_run(const char *const *argv, const char *const *env, const char *input,
                 size_t input_len, int64_t deadline_ns, atomic_bool *stop, csn_buf *out,
                 csn_buf *err_out, int *ret_status)
{
    struct run run = { -1, -1, -1, input, input_len, out, err_out };
    int theirs[3] = { -1, -1, -1 }, status = 0;
    csn_program program = {
        .path = argv[0],
        .argv = (char *const *) argv,
        .envp = (char *const *) env,
        .fds = theirs,
        .n_fds = 3,
    };
    csn_auto(fd) int pidfd = -1;
    pid_t pid = -1;
    int r = make_pipe(1, &run.in, &theirs[0]);

    if (r == 0)
        r = make_pipe(0, &run.out, &theirs[1]);
    if (r == 0)
        r = make_pipe(0, &run.err, &theirs[2]);
    if (r == 0)
        r = csn_program_start(&program, &pid, &pidfd);
    csn_close_many(theirs, 3);
    if (r == 0) {
        r = talk(&run, deadline_ns, stop);
        if (r == 0)
            r = reap(pid, pidfd, deadline_ns, &status);
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
