#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "kern/pidfd.h"

enum { TEXT_MAX = 1 << 20 };

/* What a helper may know of our environment: where things are and how to get out, no more. */
static const char *const kept_env[] = {
    "PATH",         "TMPDIR",        "http_proxy",   "https_proxy", "no_proxy",
    "HTTP_PROXY",   "HTTPS_PROXY",   "NO_PROXY",     "HOME",
#ifdef __SANITIZE_ADDRESS__
    "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
#endif
};

typedef struct environment {
    char *vars[CSN_COUNT(kept_env) + 3];
    size_t n;
} environment;

static void environment_auto(environment *env)
{
    for (size_t i = 0; i < env->n; i++)
        free(env->vars[i]);
}

static int add_var(environment *env, const char *name, const char *value)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    csn_buf_printf(&text, "%s=%s", name, value);
    env->vars[env->n] = csn_buf_take(&text, NULL);
    return env->vars[env->n] ? (env->n++, 0) : -ENOMEM;
}

static int fill_environment(environment *env)
{
    int r = add_var(env, "LC_ALL", "C.UTF-8");

    for (size_t i = 0; r == 0 && i < CSN_COUNT(kept_env); i++) {
        const char *value = getenv(kept_env[i]);

        if (value)
            r = add_var(env, kept_env[i], value);
        else if (csn_streq(kept_env[i], "PATH"))
            r = add_var(env, "PATH",
                        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }
    return r;
}

static void finish_if_ended(csn_child *child)
{
    if (child->pid == 0 && child->out_fd < 0)
        child->done(child, child->user); /* may free the child */
}

static void on_output(csn_source *src, uint32_t events, void *user)
{
    csn_child *child = user;
    char block[4096];
    ssize_t n;

    (void) src;
    (void) events; /* readable or hung up: reading tells */
    n = csn_read(child->out_fd, block, sizeof(block));
    if (n == -EAGAIN)
        return;
    if (n > 0) {
        if (child->text.len + (size_t) n <= TEXT_MAX)
            csn_buf_append(&child->text, block, (size_t) n);
        return;
    }
    child->out_src = csn_source_remove(child->out_src);
    csn_close(&child->out_fd);
    finish_if_ended(child);
}

static void note_end(csn_child *child, const csn_child_end *end)
{
    child->exit_code = end->by_signal ? 128 + end->status : end->status;
    child->pid = 0;
}

static void on_exit_seen(csn_source *src, uint32_t events, void *user)
{
    csn_child *child = user;
    csn_child_end end = { 0 };
    int r;

    (void) src;
    (void) events; /* readable: it ended */
    r = csn_pidfd_reap(child->pidfd, true, &end);
    if (r == -EAGAIN)
        return;
    child->pid_src = csn_source_remove(child->pid_src);
    csn_close(&child->pidfd);
    if (r < 0) /* somebody else reaped it: what it said must do */
        end.status = 0;
    note_end(child, &end);
    finish_if_ended(child);
}

static int launch(csn_child *child, const char *path, char *const argv[], const int *fds,
                  size_t n_fds, size_t out)
{
    int theirs[CSN_MAX_FDS], ends[2];
    __attribute__((cleanup(environment_auto))) environment env = { .n = 0 };
    csn_program program = {
        .path = path, .argv = argv, .envp = env.vars, .fds = theirs, .n_fds = n_fds,
    };
    int r;

    r = fill_environment(&env);
    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    child->out_fd = ends[0];
    r = csn_fd_nonblock(ends[1], false);
    for (size_t i = 0; i < n_fds; i++)
        theirs[i] = i == out ? ends[1] : fds[i];
    if (r == 0)
        r = csn_program_start(&program, &child->pid, &child->pidfd);
    csn_close(&ends[1]);
    return r;
}

int csn_child_start(csn_child *child, csn_loop *loop, const char *program, char *const argv[],
                    const int *fds, size_t n_fds, size_t out, csn_child_fn *done, void *user,
                    csn_error *err)
{
    int r;

    child->done = done;
    child->user = user;
    r = n_fds > CSN_MAX_FDS ? -EINVAL : launch(child, program, argv, fds, n_fds, out);
    if (r == 0)
        r = csn_loop_add(loop, child->out_fd, EPOLLIN, on_output, child, &child->out_src);
    if (r == 0)
        r = csn_loop_add(loop, child->pidfd, EPOLLIN, on_exit_seen, child, &child->pid_src);
    if (r == 0)
        return CSN_OK;
    csn_child_done(child);
    return csn_fail_sys(err, r, "start '%s'", program);
}

void csn_child_done(csn_child *child)
{
    child->pid_src = csn_source_remove(child->pid_src);
    child->out_src = csn_source_remove(child->out_src);
    if (child->pid > 0) {
        (void) kill(-child->pid, SIGKILL); /* not reaped yet, so the number is still its own */
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        child->pid = 0;
    }
    csn_close(&child->pidfd);
    csn_close(&child->out_fd);
    csn_buf_free(&child->text);
}
