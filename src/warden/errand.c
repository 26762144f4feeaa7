/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a volume or an image unlinks as many files as it has, and weighing one looks at them: that may take seconds, and
 * has no started form. A child with an engine of its own does it and writes what came of it into a pipe; we go on serving. We have one thread, so a fork
 * is sound; the child touches nothing it inherited but the pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caisson/image.h>
#include <caisson/volume.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/program.h"
#include "kern/spawn.h"
#include "warden/warden.h"

enum { PIPE_FD = 3 };

/* What the child tells. */
typedef struct report {
    csn_error err;
    int64_t size_bytes;
} report;

typedef struct errand {
    csn_wd *wd;
    csn_ask_verb verb;
    uint64_t serial;
    int pidfd, pipe_fd;
    pid_t pid;
    csn_source *src;
} errand;

static void errand_free(errand *e)
{
    csn_source_remove(e->src);
    csn_close(&e->pidfd);
    csn_close(&e->pipe_fd);
    e->wd->n_jobs--;
    csn_link_pace(e->wd);
    free(e);
}

static void on_end(csn_source *src, uint32_t events, void *user)
{
    errand *e = user;
    report told = { 0 };
    csn_error *err = &told.err;
    int r = CSN_E_SYSTEM;

    (void) src;
    (void) events;
    while (waitpid(e->pid, NULL, WNOHANG) < 0 && errno == EINTR)
        ;
    if (csn_read_all(e->pipe_fd, &told, sizeof(told)) == sizeof(told) && err->code <= CSN_OK) {
        r = err->code;
        err->message[sizeof(err->message) - 1] = '\0';
    } else {
        r = csn_fail(err, CSN_E_SYSTEM, "the child that works on it died");
    }
    if (r == CSN_OK && e->verb == CSN_ASK_VOLUME_SIZE) {
        const csn_answer size = { .kind = CSN_ANSWER_IMAGE,
                                  .serial = e->serial,
                                  .size_bytes = told.size_bytes };
        csn_link_send(e->wd, &size, -1);
    }
    csn_link_done(e->wd, e->serial, r, err, -1);
    errand_free(e);
}

static void take_size(const csn_volume_info *info, void *user)
{
    report *told = user;

    told->size_bytes = info->size_bytes;
}

static int work(csn_engine *engine, const csn_ask *ask, report *told)
{
    if (ask->verb == CSN_ASK_VOLUME_DELETE)
        return csn_volume_remove(engine, ask->other, &told->err);
    if (ask->verb == CSN_ASK_VOLUME_SIZE)
        return csn_volume_inspect(engine, ask->other, take_size, told, &told->err);
    return csn_image_remove(engine, ask->other, &told->err);
}

_Noreturn static void run(const csn_wd *wd, const csn_ask *ask, int pipe_fd)
{
    csn_engine_options o = { .size = sizeof(o),
                             .state_dir = csn_engine_state_dir(wd->engine),
                             .libexec_dir = wd->libexec,
                             .optional_walls = wd->optional_walls };
    report told = { 0 };
    csn_engine *engine = NULL;
    int r;

    /* the lock and the line are the warden's: who waits for its end must not wait for us */
    if (dup2(pipe_fd, PIPE_FD) < 0 || csn_close_range(PIPE_FD + 1, ~0u) < 0)
        _exit(1);
    r = csn_engine_open(&o, &engine, &told.err);
    if (r == CSN_OK)
        r = work(engine, ask, &told);
    csn_engine_free(engine);
    told.err.code = r;
    _exit(csn_write_all(PIPE_FD, &told, sizeof(told)) == 0 ? 0 : 1);
}

int csn_errand_start(csn_wd *wd, const csn_ask *ask, csn_error *err)
{
    int ends[2];
    errand *e = calloc(1, sizeof(*e));

    if (!e)
        return csn_fail(err, CSN_E_NO_MEMORY, "start a request");
    *e = (errand){ .wd = wd,
                   .verb = (csn_ask_verb) ask->verb,
                   .serial = ask->serial,
                   .pidfd = -1,
                   .pipe_fd = -1 };
    wd->n_jobs++;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        int r = -errno;
        errand_free(e);
        return csn_fail_sys(err, r, "make a pipe");
    }
    e->pipe_fd = ends[0];
    e->pid = csn_clone(0, -1, &e->pidfd);
    if (e->pid == 0)
        run(wd, ask, ends[1]);
    csn_close(&ends[1]);
    int r =
        e->pid < 0 ? (int) e->pid : csn_loop_add(wd->loop, e->pidfd, EPOLLIN, on_end, e, &e->src);
    if (r < 0) {
        errand_free(e);
        return csn_fail_sys(err, r, "start a child");
    }
    return CSN_OK;
}
