#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "kern/pidfd.h"

enum { TEXT_MAX = 1 << 20, FDS_MAX = 8 };

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

/* posix_spawn's functions return the errno itself. */
static int spawn(csn_child *child, const char *program, char *const argv[], const int *fds,
                 size_t n_fds, char *const *envp)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int e;

    (void) sigemptyset(&none); /* can't fail */
    (void) sigfillset(&all);   /* can't fail */
    e = csn_fault_as("spawn", EAGAIN);
    if (e < 0)
        return e;
    e = posix_spawn_file_actions_init(&actions);
    if (e != 0)
        return -e;
    e = posix_spawnattr_init(&attr);
    if (e == 0) {
        for (size_t i = 0; e == 0 && i < n_fds; i++)
            e = posix_spawn_file_actions_adddup2(&actions, fds[i], (int) i);
        e = e ? e : posix_spawn_file_actions_addclosefrom_np(&actions, (int) n_fds);
        e = e ? e
              : posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
        e = e ? e : posix_spawnattr_setpgroup(&attr, 0);
        e = e ? e : posix_spawnattr_setsigmask(&attr, &none);
        e = e ? e : posix_spawnattr_setsigdefault(&attr, &all);
        e = e ? e : posix_spawnp(&child->pid, program, &actions, &attr, argv, envp);
        (void) posix_spawnattr_destroy(&attr); /* always 0 */
    }
    (void) posix_spawn_file_actions_destroy(&actions); /* always 0 */
    if (e != 0)
        child->pid = 0;
    return -e;
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

/* The new descriptors must not be below the places they are moved to: dup2 in order would run over them. */
static int lift(const int *fds, size_t n_fds, size_t out, int out_fd, int lifted[FDS_MAX])
{
    for (size_t i = 0; i < n_fds; i++) {
        lifted[i] = csn_fd_dup(i == out ? out_fd : fds[i], FDS_MAX);
        if (lifted[i] < 0)
            return lifted[i];
    }
    return 0;
}

static int launch(csn_child *child, const char *program, char *const argv[], const int *fds,
                  size_t n_fds, size_t out)
{
    int lifted[FDS_MAX] = { -1, -1, -1, -1, -1, -1, -1, -1 }, ends[2];
    __attribute__((cleanup(environment_auto))) environment env = { .n = 0 };
    int r;

    r = fill_environment(&env);
    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    child->out_fd = ends[0];
    r = csn_fd_nonblock(ends[1], false);
    if (r == 0)
        r = lift(fds, n_fds, out, ends[1], lifted);
    if (r == 0)
        r = spawn(child, program, argv, lifted, n_fds, env.vars);
    csn_close_many(lifted, FDS_MAX);
    csn_close(&ends[1]);
    return r < 0 ? r : csn_pidfd_open(child->pid, &child->pidfd);
}

int csn_child_start(csn_child *child, csn_loop *loop, const char *program, char *const argv[],
                    const int *fds, size_t n_fds, size_t out, csn_child_fn *done, void *user,
                    csn_error *err)
{
    int r;

    child->done = done;
    child->user = user;
    r = n_fds > FDS_MAX ? -EINVAL : launch(child, program, argv, fds, n_fds, out);
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
