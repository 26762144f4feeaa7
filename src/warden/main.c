/* SPDX-License-Identifier: Apache-2.0 */
/* caisson-warden: the half of the server that may do things.
 *
 * Theory of operation. It opens the engine in DIR/engine, binds the listening socket, makes DIR/front for the front and
 * starts that: caisson-serve, another user when we are root, with one end of a socket pair, the listening socket and a
 * lock of its own. Then it does what the front asks in messages of a fixed layout (message.h) and knows nothing of HTTP,
 * JSON, keys or organisations. The two live and die together: when the front is gone we end with status 1, when we are
 * gone the kernel ends the front. Sandboxes are detached: they outlive both and are found again.
 *
 * SIGTERM, SIGINT: the front is told to end and gets 7 s for it. Signals are read from a descriptor; there are no handlers. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "kern/caps.h"
#include "warden/warden.h"

enum { STOP_MS = 7000, JOBS_MS = 3000, SPARE_DEFAULT = 2 };

/* What keepers need to build a sandbox as root; the rest is given up before the front is started. */
#define KEPT_CAPS \
    (1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH | \
     1ull << CAP_FOWNER | 1ull << CAP_FSETID | 1ull << CAP_KILL | 1ull << CAP_SETGID | \
     1ull << CAP_SETUID | 1ull << CAP_SETPCAP | 1ull << CAP_NET_ADMIN | \
     1ull << CAP_NET_BIND_SERVICE | 1ull << CAP_NET_RAW | 1ull << CAP_SYS_CHROOT | \
     1ull << CAP_SYS_PTRACE | 1ull << CAP_SYS_ADMIN | 1ull << CAP_SYS_RESOURCE | \
     1ull << CAP_MKNOD | 1ull << CAP_SETFCAP)

static int say(const csn_error *err)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    csn_buf_printf(&line, "caisson: %s\n", err->message);
    (void) csn_write_all(2, line.data, line.len); /* nowhere else to say it */
    return 1;
}

/* The whole story of what this machine can't do is doctor's. */
static int refuse(const csn_error *err)
{
    static const char advice[] = "  try: caisson doctor\n";
    int status = say(err);

    if (csn_starts_with(err->message, "no sandbox starts here"))
        (void) csn_write_all(2, advice, sizeof(advice) - 1); /* likewise */
    return status;
}

static bool read_number(const char *arg, const char *name, int64_t max, int64_t *ret)
{
    return csn_starts_with(arg, name) && csn_parse_i64(csn_str_of(arg + strlen(name)), ret) == 0 &&
           *ret >= 0 && *ret <= max;
}

static int read_options(int argc, char **argv, csn_warden_options *o)
{
    const struct {
        const char *name;
        const char **value;
    } texts[] = { { "--state=", &o->state },
                  { "--listen=", &o->listen },
                  { "--user=", &o->user },
                  { "--libexec=", &o->libexec } };
    int i = 1;

    for (; i < argc && !csn_streq(argv[i], "--"); i++) {
        size_t k = 0;
        while (k < CSN_COUNT(texts) && !csn_starts_with(argv[i], texts[k].name))
            k++;
        if (k < CSN_COUNT(texts))
            *texts[k].value = argv[i] + strlen(texts[k].name);
        else if (csn_streq(argv[i], "--errand"))
            o->is_errand = true;
        else if (!read_number(argv[i], "--spare=", 16, &o->n_spare) &&
                 !read_number(argv[i], "--optional=", UINT32_MAX, &o->optional_walls) &&
                 !read_number(argv[i], "--strict=", UINT32_MAX, &o->strict))
            return -EINVAL;
    }
    o->front_argv = i < argc ? argv + i + 1 : NULL;
    return o->state && o->state[0] == '/' && (o->listen || o->is_errand) && o->libexec ? 0
                                                                                       : -EINVAL;
}

static void on_engine(csn_source *src, uint32_t events, void *user)
{
    csn_wd *wd = user;

    (void) src;
    (void) events;
    (void) csn_engine_dispatch(wd->engine, 0, NULL); /* what failed was told to whoever asked */
}

static void on_overdue(csn_timer *timer, void *user)
{
    csn_wd *wd = user;

    (void) timer;
    if (wd->is_front_gone) { /* what is under way still is told to the next server by the engine */
        csn_loop_stop(wd->loop, wd->status);
        return;
    }
    csn_log(CSN_LOG_WARN, "the front did not end in time; it is killed", NULL);
    (void) kill(wd->front_pid, SIGKILL); /* ours, not reaped yet */
}

static void stop(csn_wd *wd)
{
    const csn_answer quit = { .kind = CSN_ANSWER_QUIT };

    if (wd->is_stopping)
        return;
    wd->is_stopping = true;
    csn_link_send(wd, &quit, -1);
    (void) csn_timer_set(wd->loop, &wd->stop_timer, csn_deadline_in_ms(STOP_MS), on_overdue, wd);
}

static void on_signal(csn_source *src, uint32_t events, void *user)
{
    csn_wd *wd = user;
    struct signalfd_siginfo info;

    (void) src;
    (void) events;
    while (csn_read(wd->signal_fd, &info, sizeof(info)) == sizeof(info))
        stop(wd);
}

static void on_front_end(csn_source *src, uint32_t events, void *user)
{
    csn_wd *wd = user;
    int status = 0;

    (void) src;
    (void) events;
    while (waitpid(wd->front_pid, &status, WNOHANG) < 0 && errno == EINTR)
        ;
    wd->is_front_gone = true;
    wd->status = wd->is_stopping && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
    wd->front_src = csn_source_remove(wd->front_src);
    csn_link_close(wd);
    (void) csn_timer_set(wd->loop, &wd->stop_timer, csn_deadline_in_ms(JOBS_MS), on_overdue, wd);
    csn_link_pace(
        wd); /* what was begun is finished: half a delete is more work for the next server */
    if (wd->is_stopping || !wd->is_ready) /* one that never was ready has said why */
        return;
    char text[32];
    (void) snprintf(text, sizeof(text), "%s %d", WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    csn_log(CSN_LOG_ERROR, "the front is gone", "by", text, NULL);
}

static int open_signals(csn_wd *wd, csn_error *err)
{
    struct sigaction hup;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
        sigaddset(&set, SIGHUP); /* under nohup the end of the terminal is none of ours */
    (void) signal(SIGXFSZ, SIG_IGN); /* EFBIG says it */
    (void) signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return csn_fail_sys(err, -errno, "block signals");
    wd->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return wd->signal_fd < 0 ? csn_fail_sys(err, -errno, "make a signalfd") : CSN_OK;
}

/* This process keeps: the engine, its sockets, what keepers inherit. It gives up: the terminal's group, core files,
 * and capabilities that no sandbox needs. (Not PR_SET_DUMPABLE: without root it would lock us out of our own /proc/self/fd,
 * through which keepers are reached.) */
static int settle(csn_error *err)
{
    const struct rlimit none = { 0, 0 };
    struct rlimit files;
    csn_caps caps;
    int r;

    (void) umask(077);
    if (chdir("/") < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ||
        prctl(PR_SET_NAME, "caisson-warden") < 0)
        return csn_fail_sys(err, -errno, "settle");
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files); /* then fewer sandboxes fit */
    }
    r = csn_caps_get(&caps);
    if (r == 0 && geteuid() == 0)
        r = csn_caps_keep(caps.permitted & KEPT_CAPS);
    if (r == -EPERM) /* a container's root that may not lower its bounding set */
        r = csn_caps_limit(KEPT_CAPS);
    return r < 0 ? csn_fail_sys(err, r, "drop capabilities") : CSN_OK;
}

static int open_engine(csn_wd *wd, const csn_warden_options *o, csn_error *err)
{
    csn_auto(buf) csn_buf state = CSN_BUF_INIT;
    csn_engine_options eo = { .size = sizeof(eo),
                              .libexec_dir = o->libexec,
                              .optional_walls = (uint32_t) o->optional_walls,
                              .n_spare = (uint32_t) o->n_spare };

    if (csn_buf_printf(&state, "%s/engine", o->state) < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "open the engine");
    eo.state_dir = state.data;
    int r = csn_engine_open(&eo, &wd->engine, err);
    /* Opening sweeps sandboxes; a server that was killed may also have left names and layers that belong to none. */
    if (r == CSN_OK && csn_engine_gc(wd->engine, NULL, err) < 0)
        csn_log(CSN_LOG_WARN, "what an earlier server left can't be swept", "error",
                err ? err->message : "", NULL);
    return r;
}

static int watch(csn_wd *wd, csn_error *err)
{
    int r = csn_link_open(wd);

    if (r == 0)
        r = csn_loop_add(wd->loop, wd->signal_fd, EPOLLIN, on_signal, wd, NULL);
    if (r == 0)
        r = csn_loop_add(wd->loop, wd->front_pidfd, EPOLLIN, on_front_end, wd, &wd->front_src);
    if (r == 0)
        r = csn_loop_add(wd->loop, csn_engine_fd(wd->engine), EPOLLIN, on_engine, wd,
                         &wd->engine_src);
    return r < 0 ? csn_fail_sys(err, r, "watch descriptors") : CSN_OK;
}

static int set_up(csn_wd *wd, csn_warden_options *o, csn_error *err)
{
    csn_front_user user = { 0 };
    csn_auto(fd) int front_fd = -1;
    int r = open_signals(wd, err);

    wd->libexec = o->libexec;
    wd->optional_walls = (uint32_t) o->optional_walls;
    wd->strict = (uint32_t) o->strict;
    if (r == CSN_OK)
        r = csn_front_user_find(o, &user, err);
    if (r == CSN_OK)
        r = csn_listen_open(o->listen, &wd->listen_fd, err);
    if (r == CSN_OK)
        r = csn_place_open(o, &user, &wd->lock_fd, &wd->front_lock_fd, &front_fd, err);
    if (r == CSN_OK)
        r = csn_place_check(o, front_fd, err);
    if (r == CSN_OK)
        r = settle(err);
    if (r == CSN_OK)
        r = open_engine(wd, o, err);
    if (r == CSN_OK)
        r = csn_trial_run(wd, o, err);
    if (r == CSN_OK)
        r = csn_front_start(wd, o, &user, front_fd, err);
    if (r == CSN_OK && (r = csn_loop_new(&wd->loop)) < 0)
        r = csn_fail_sys(err, r, "make a loop");
    if (r == CSN_OK && user.is_other && !o->user && csn_streq(user.name, "nobody"))
        csn_log(CSN_LOG_WARN, "the front runs as nobody, whom other services may share", "remedy",
                "useradd --system caisson, and give it the state directory's front/", NULL);
    if (r == CSN_OK) { /* the front's */
        csn_close(&wd->listen_fd);
        csn_close(&wd->front_lock_fd);
    }
    return r == CSN_OK ? watch(wd, err) : r;
}

static void tear_down(csn_wd *wd)
{
    csn_link_close(wd);
    wd->engine_src = csn_source_remove(wd->engine_src);
    if (wd->front_pid > 0 && !wd->is_front_gone) {
        (void) kill(wd->front_pid, SIGKILL);
        while (waitpid(wd->front_pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    wd->engine = csn_engine_free(wd->engine); /* jobs under way end in here */
    csn_timer_cancel(&wd->stop_timer);
    wd->loop = csn_loop_free(wd->loop);
    csn_close(&wd->front_pidfd);
    csn_close(&wd->signal_fd);
    csn_close(&wd->listen_fd);
    csn_close(&wd->front_lock_fd);
    csn_close(&wd->lock_fd);
}

static int run_errand(const csn_warden_options *o, csn_error *err)
{
    csn_front_user user = { 0 };
    csn_auto(fd) int front_fd = -1;
    int r = csn_front_user_find(o, &user, err);

    if (r == CSN_OK)
        r = csn_place_open(o, &user, NULL, NULL, &front_fd, err);
    if (r == CSN_OK)
        r = csn_place_check(o, front_fd, err);
    return r < 0 ? r : csn_front_exec(o, &user, front_fd, err);
}

int main(int argc, char **argv)
{
    csn_warden_options o = { .n_spare = SPARE_DEFAULT };
    csn_wd wd = { .lock_fd = -1,
                  .front_lock_fd = -1,
                  .listen_fd = -1,
                  .link_fd = -1,
                  .front_pidfd = -1,
                  .signal_fd = -1 };
    csn_error err = { 0 };
    int status;

    csn_list_init(&wd.queue);
    if (read_options(argc, argv, &o) < 0) {
        csn_fail(&err, CSN_E_INVALID, "caisson-warden is started by 'caisson serve', not by hand");
        (void) say(&err);
        return 2;
    }
    if (o.is_errand) {
        (void) run_errand(&o, &err); /* returns only to fail */
        return say(&err);
    }
    status = set_up(&wd, &o, &err) < 0 ? refuse(&err) : csn_loop_run(wd.loop);
    tear_down(&wd);
    return status < 0 ? 1 : status;
}
