/* SPDX-License-Identifier: Apache-2.0 */
#include "server/context.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "server/context_source.h"
#include "server/ctxframe.h"
#include "server/ending.h"
#include "server/envs.h"

enum { OUT_MAX = 8 * CSN_CONTEXT_CODE_MAX, READ_PIECE = 64 << 10 };

struct csn_ctxrun {
    csn_list link; /* while it waits */
    csn_context *context;
    int64_t id;
    csn_buf frame; /* what the worker will be sent */
    size_t len;    /* of the code, as it is counted */
    int64_t timeout_ms;
    bool is_timed_out, is_cancelled;
    const csn_ctxrun_events *events;
    void *user;
};

/* The source runs with builtins of its own, so that user code that breaks them breaks itself. */
static const char boot[] = "import builtins,sys;sys.path[:]=[p for p in sys.path if p];"
                           "exec(compile(sys.argv[1],'<caisson-context>','exec'),"
                           "{'__name__':'caisson_context','__builtins__':dict(vars(builtins))})";

static void run_next(csn_context *c);

/* ---- ends ------------------------------------------------------------------------------------------------------- */

static void free_run(csn_ctxrun *run)
{
    csn_list_remove(&run->link);
    run->context->n_waiting_bytes -= run->len;
    csn_buf_free(&run->frame);
    free(run);
}

static void end_run(csn_context *c, csn_ctxrun_end how, const char *why)
{
    csn_ctxrun *run = c->running;

    csn_timer_cancel(&c->deadline);
    csn_timer_cancel(&c->grace);
    csn_ctxrun_pause(run, false);
    c->running = NULL;
    c->n_runs--;
    if (!run->is_cancelled)
        run->events->end(run, run->is_timed_out ? CSN_CTXRUN_TIMEOUT : how, why, run->user);
    free_run(run);
}

/* The worker is given up; whatever is left of it is killed. */
static void drop_worker(csn_context *c)
{
    csn_op_drop(c->worker_coming);
    c->worker_coming = NULL;
    c->worker = csn_process_free(c->worker);
    c->source = csn_source_remove(c->source);
    csn_close(&c->fd);
    csn_tap_close(&c->stdout_tap);
    csn_tap_close(&c->stderr_tap);
    csn_buf_free(&c->in);
    csn_buf_free(&c->out);
}

static void lose_worker(csn_context *c, const char *why)
{
    drop_worker(c);
    if (c->running)
        end_run(c, CSN_CTXRUN_LOST, why);
    run_next(c);
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

static void on_output(csn_tap *tap, const char *data, size_t len, void *user)
{
    csn_context *c = user;
    csn_ctxrun *run = c->running;

    if (len > 0 && run && !run->is_cancelled)
        run->events->output(run, tap == &c->stderr_tap ? CSN_STDERR : CSN_STDOUT, data, len,
                            run->user);
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static void on_done(csn_context *c, const csn_ctxframe *frame)
{
    csn_ctxrun *run = c->running;

    if (!run || frame->id != run->id)
        return; /* of a run that was given up */
    (void) csn_tap_drain(&c->stdout_tap);
    (void) csn_tap_drain(&c->stderr_tap);
    if (c->running != run)
        return; /* it was cancelled for what it printed */
    if (frame->has_error && !run->is_cancelled && !run->is_timed_out)
        run->events->error(run, frame->name, frame->value, frame->traceback, run->user);
    end_run(c, CSN_CTXRUN_COMPLETED, NULL);
    run_next(c);
}

static int take_frames(csn_context *c)
{
    csn_ctxframe frame;
    int r;

    while ((r = csn_ctxframe_take(&c->in, &frame)) == 1) {
        int fd = c->fd;
        if (frame.is_done)
            on_done(c, &frame);
        csn_json_free(frame.doc);
        if (c->fd != fd)
            return 0; /* another worker's by now */
    }
    return r;
}

static int flush(csn_context *c)
{
    while (c->out.len > 0) {
        if (!c->source)
            return -EPIPE;
        ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (n < 0 && errno == EAGAIN)
            return csn_source_mod(c->source, EPOLLIN | EPOLLOUT);
        csn_buf_consume(&c->out, n < 0 ? 0 : (size_t) n);
    }
    csn_buf_free(&c->out);
    c->out = (csn_buf) CSN_BUF_INIT_MAX(OUT_MAX);
    return csn_source_mod(c->source, EPOLLIN);
}

/* Closed from inside: the end of the worker, which is told with its reason, or a trick. */
static void hang_up(csn_context *c)
{
    c->source = csn_source_remove(c->source);
    if (c->worker)
        (void) csn_process_signal_async(c->worker, SIGKILL, 1, NULL, NULL, NULL);
}

/* ECONNRESET: with code it never read. */
static bool is_closed(int r)
{
    return r == -EPIPE || r == -ECONNRESET;
}

static void on_socket(csn_source *src, uint32_t events, void *user)
{
    csn_context *c = user;
    int r = events & EPOLLOUT ? flush(c) : 0;

    (void) src;
    if (r == 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        r = csn_buf_reserve(&c->in, READ_PIECE);
        ssize_t n = r < 0 ? r : csn_read(c->fd, c->in.data + c->in.len, READ_PIECE);
        if (n > 0)
            csn_buf_grew(&c->in, (size_t) n);
        r = n == -EAGAIN ? 0 : n == 0 ? -EPIPE : n < 0 ? (int) n : take_frames(c);
    }
    if (is_closed(r))
        hang_up(c);
    else if (r < 0)
        lose_worker(c, "the interpreter sent what it must not");
}

/* ---- the worker ------------------------------------------------------------------------------------------------- */

static void on_worker_exit(csn_process *process, const csn_receipt *receipt, void *user)
{
    csn_context *c = user;
    char why[200];

    (void) process;
    (void) csn_tap_drain(&c->stdout_tap); /* its last words */
    (void) csn_tap_drain(&c->stderr_tap);
    csn_ending_text(receipt, "the interpreter", why, sizeof(why));
    lose_worker(c, why);
}

static void on_worker(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_context *c = user;

    c->worker_coming = NULL;
    c->worker = process;
    if (result == CSN_E_NOT_FOUND)
        lose_worker(c, "python3 or the context's directory is not in this sandbox");
    else if (result < 0)
        lose_worker(c, err->message);
    else if (!c->source)
        hang_up(c);
}

static int start_worker(csn_context *c, csn_error *err)
{
    const char *argv[] = { "python3", "-u", "-c", boot, (const char *) csn_context_source, NULL };
    int far[3] = { -1, -1, -1 }, ends[2], r;

    r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ? -errno : 0;
    if (r == 0) {
        c->fd = ends[0];
        far[0] = ends[1];
        r = csn_fd_nonblock(c->fd, true);
    }
    if (r == 0)
        r = csn_loop_add(c->loop, c->fd, EPOLLIN, on_socket, c, &c->source);
    if (r == 0)
        r = csn_tap_open(&c->stdout_tap, c->loop, on_output, c, &far[1]);
    if (r == 0)
        r = csn_tap_open(&c->stderr_tap, c->loop, on_output, c, &far[2]);
    c->in = (csn_buf) CSN_BUF_INIT_MAX(CSN_CTXFRAME_MAX + 2 * READ_PIECE);
    c->out = (csn_buf) CSN_BUF_INIT_MAX(OUT_MAX);
    csn_process_options o = { .size = sizeof(o),
                              .argv = argv,
                              .env = (const char *const *) c->env,
                              .cwd = c->cwd,
                              .own_fds = far,
                              .timeout_ms = CSN_UNLIMITED,
                              .on_exit = on_worker_exit,
                              .user_data = c };
    if (r < 0)
        r = csn_fail_sys(err, r, "make the interpreter's streams");
    else if (!(c->worker_coming = csn_process_start_async(c->box, &o, on_worker, c, err)))
        r = err->code;
    csn_close_many(far, 3);
    return r;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void on_grace_over(csn_timer *timer, void *user)
{
    (void) timer;
    lose_worker(user, "the interpreter was killed");
}

static void interrupt_run(csn_context *c)
{
    csn_error err;

    if (!c->worker || !csn_process_signal_async(c->worker, SIGINT, 0, NULL, NULL, &err) ||
        csn_timer_set(c->loop, &c->grace, csn_deadline_in_ms(CSN_CONTEXT_GRACE_MS), on_grace_over,
                      c) < 0)
        lose_worker(c, "the interpreter was killed");
}

static void on_deadline(csn_timer *timer, void *user)
{
    csn_context *c = user;

    (void) timer;
    c->running->is_timed_out = true;
    interrupt_run(c);
}

static int begin_run(csn_context *c, csn_ctxrun *run, csn_error *err)
{
    int r = CSN_OK, e;

    if (c->fd >= 0 && !c->source)
        drop_worker(c); /* it has closed its socket and is on its way out */
    if (c->fd < 0)
        r = start_worker(c, err);
    if (r < 0)
        return r;
    e = csn_buf_append(&c->out, run->frame.data, run->frame.len);
    csn_buf_free(&run->frame);
    if (e == 0)
        e = flush(c);
    if (is_closed(e)) {
        hang_up(c);
        e = 0;
    }
    if (e == 0 && run->timeout_ms > 0)
        e = csn_timer_set(c->loop, &c->deadline, csn_deadline_in_ms(run->timeout_ms), on_deadline,
                          c);
    return e < 0 ? csn_fail_sys(err, e, "pass the code to the interpreter") : CSN_OK;
}

static void run_next(csn_context *c)
{
    csn_error err = { 0 };
    csn_list *first;

    while (!c->running && !c->is_failing && (first = csn_list_pop(&c->runs))) {
        c->running = csn_list_entry(first, csn_ctxrun, link);
        if (begin_run(c, c->running, &err) >= 0)
            return;
        drop_worker(c);
        end_run(c, CSN_CTXRUN_LOST, err.message);
    }
}

int csn_context_run(csn_context *c, const char *code, size_t len, const csn_json *envs,
                    int64_t timeout_ms, const csn_ctxrun_events *events, void *user,
                    csn_ctxrun **ret, csn_error *err)
{
    csn_ctxrun *run;

    if (c->n_runs >= CSN_CONTEXT_QUEUE_MAX ||
        (c->n_runs > 0 && c->n_waiting_bytes + len > CSN_CONTEXT_WAITING_MAX))
        return csn_fail(err, CSN_E_LIMIT,
                        "%zu runs are waiting in context '%.64s', no more are taken", c->n_runs,
                        c->id);
    if (len > CSN_CONTEXT_CODE_MAX)
        return csn_fail(err, CSN_E_TOO_LARGE, "the code is longer than %d bytes",
                        CSN_CONTEXT_CODE_MAX);
    if (!(run = csn_calloc(1, sizeof(*run))))
        return csn_fail(err, CSN_E_NO_MEMORY, "remember the run");
    *run = (csn_ctxrun){ .context = c,
                         .id = ++c->last_id,
                         .frame = CSN_BUF_INIT_MAX(OUT_MAX / 2),
                         .len = len,
                         .timeout_ms = timeout_ms,
                         .events = events,
                         .user = user };
    c->n_waiting_bytes += len;
    csn_list_init(&run->link);
    csn_ctxframe_put(&run->frame, run->id, code, len, envs);
    if (run->frame.error < 0) {
        free_run(run);
        return csn_fail(err, CSN_E_NO_MEMORY, "remember the run");
    }
    csn_list_append(&c->runs, &run->link);
    c->n_runs++;
    *ret = run; /* before it may end */
    run_next(c);
    return CSN_OK;
}

void csn_ctxrun_cancel(csn_ctxrun *run)
{
    csn_context *c = run->context;

    run->is_cancelled = true;
    if (c->running == run) {
        csn_ctxrun_pause(run, false);
        if (!run->is_timed_out) /* else that is under way */
            interrupt_run(c);
        return;
    }
    c->n_runs--;
    free_run(run);
}

void csn_ctxrun_pause(csn_ctxrun *run, bool is_paused)
{
    csn_context *c = run->context;

    if (c->running != run)
        return;
    csn_tap_pause(&c->stdout_tap, is_paused);
    csn_tap_pause(&c->stderr_tap, is_paused);
}

/* ---- the context ------------------------------------------------------------------------------------------------ */

csn_context *csn_context_new(csn_loop *loop, csn_sandbox *box, const char *id, const char *cwd,
                             const char *const *env)
{
    csn_context *c = csn_calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    *c = (csn_context){ .loop = loop,
                        .box = box,
                        .id = csn_strdup(id),
                        .cwd = csn_strdup(cwd),
                        .env = csn_envs_copy(env),
                        .created_ms = csn_wall_ms(),
                        .fd = -1,
                        .in = CSN_BUF_INIT,
                        .out = CSN_BUF_INIT,
                        .stdout_tap = CSN_TAP_INIT,
                        .stderr_tap = CSN_TAP_INIT };
    csn_list_init(&c->link);
    csn_list_init(&c->runs);
    return c->id && c->cwd && c->env ? c : csn_context_free(c);
}

csn_context *csn_context_free(csn_context *c)
{
    csn_list *first;

    if (!c)
        return NULL;
    c->is_failing = true;
    csn_list_remove(&c->link);
    drop_worker(c);
    if (c->running)
        end_run(c, CSN_CTXRUN_LOST, "the context was deleted");
    while ((first = csn_list_pop(&c->runs))) {
        c->running = csn_list_entry(first, csn_ctxrun, link);
        end_run(c, CSN_CTXRUN_LOST, "the context was deleted");
    }
    csn_envs_free(c->env);
    free(c->id);
    free(c->cwd);
    free(c);
    return NULL;
}
