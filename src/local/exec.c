/* Commands.
 *
 * Attached: we make the pipes, the far ends travel through keeper and init, and what the program writes comes straight
 * to us. Both are read from one epoll set in the order they became readable, so the pieces of both streams arrive in order.
 * The command is over when EXITED comes: everything its main process wrote is then in the pipes, so they are read until
 * they are empty (or have given a pipe's worth), and nobody waits for daemons that keep them open.
 * Background and PTY: the keeper holds the streams, see execlog.c. */
#include "local/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "wire/spec.h"

enum { CHUNK = 64 * 1024, WIDE_PIPE = 1 << 20, DRAIN_MAX = 2 << 20 };

static void take_facts(csn_receipt *receipt, const csn_receipt *facts)
{
    receipt->walls = facts->walls;
    receipt->walls_missing = facts->walls_missing;
    receipt->limits_kernel = facts->limits_kernel;
    receipt->rung = facts->rung;
    receipt->disk_rung = facts->disk_rung;
    receipt->memory_limit_bytes = facts->memory_limit_bytes;
    receipt->cpu_limit_milli = facts->cpu_limit_milli;
    receipt->pids_limit = facts->pids_limit;
    receipt->disk_limit_bytes = facts->disk_limit_bytes;
    receipt->shares_host_uid = facts->shares_host_uid;
    receipt->cpu_rung = facts->cpu_rung;
    receipt->cpu_asked_milli = facts->cpu_asked_milli;
}

csn_local_exec *csn_exec_new(csn_local_box *box, const csn_exec_events *events, void *user)
{
    csn_local_exec *x = csn_calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->base = (csn_exec){ .box = csn_box_ref(&box->base), .events = events, .user = user };
    x->base.receipt.exit_code = -1;
    take_facts(&x->base.receipt, &box->base.facts);
    x->n_refs = 1;
    x->is_owned = true;
    x->log_fd = x->index_fd = x->in.fd = x->in.from_fd = -1;
    x->channel_fds[0] = x->channel_fds[1] = x->channel_fds[2] = -1;
    for (int i = 0; i < 2; i++)
        x->out[i] = (csn_out_stream){ .fd = -1, .stream = i ? CSN_STDERR : CSN_STDOUT, .exec = x };
    csn_list_append(&box->execs, &x->link);
    return x;
}

static void close_out(csn_out_stream *out)
{
    out->source = csn_source_remove(out->source);
    csn_close(&out->fd);
}

static void close_streams(csn_local_exec *x)
{
    csn_timer_cancel(&x->linger);
    close_out(&x->out[0]);
    close_out(&x->out[1]);
    csn_in_close(&x->in);
}

void csn_exec_unref(csn_local_exec *x)
{
    if (--x->n_refs > 0)
        return;
    csn_list_remove(&x->link);
    csn_list_remove(&x->req.link); /* an answer still to come is then nobody's */
    csn_list_remove(&x->query.link);
    close_streams(x);
    csn_close(&x->log_fd);
    csn_close(&x->index_fd);
    csn_close_many(x->channel_fds, 3);
    csn_box_unref(x->base.box);
    free(x);
}

csn_exec *csn_local_exec_free(csn_exec *base)
{
    csn_local_exec *x = csn_local_exec_of(base);

    x->is_owned = false;
    if (base->is_started && !x->is_exited && !x->is_held)
        (void) csn_local_exec_signal(base, SIGKILL, true, CSN_ENDED_KILLED, NULL, NULL);
    close_streams(x);
    if (!x->is_starting)
        csn_exec_unref(x);
    return NULL;
}

/* How a command stands. What the keeper counts for held ones we count ourselves for attached ones. */
void csn_exec_take_state(csn_local_exec *x, const csn_process_state *state)
{
    csn_receipt *r = &x->base.receipt;

    r->ended = (csn_ending) state->ended;
    r->exit_code = state->ended == CSN_ENDED_EXIT ? state->exit_code : -1;
    r->signal = state->ended == CSN_ENDED_SIGNAL ? state->signal : 0;
    r->wall_us = state->wall_us;
    r->user_us = state->user_us;
    r->sys_us = state->sys_us;
    r->peak_memory_bytes = state->peak_memory_bytes;
    r->bytes_written = state->bytes_written;
    r->outer_limit = state->outer_limit;
    r->n_processes = state->n_processes;
    r->timeout_ms = state->timeout_ms;
    r->output_limit_bytes = state->output_bytes;
    x->log_bytes = state->log_bytes;
    if (!x->is_held)
        return;
    r->stdout_bytes = state->stdout_bytes;
    r->stderr_bytes = state->stderr_bytes;
    r->is_output_cut = state->is_cut != 0;
}

/* One piece to the owner. Bytes taken, 0 at the end, -EAGAIN when there is nothing. */
static ssize_t take_piece(csn_out_stream *out, char *buffer)
{
    csn_local_exec *x = out->exec;
    ssize_t n = csn_read(out->fd, buffer, CHUNK);

    if (n == 0 || (n < 0 && n != -EAGAIN)) {
        close_out(out);
        return 0;
    }
    if (n == CHUNK && !out->is_wide) { /* a flood: fewer, larger turns. Refused beyond the user's quota: fine */
        (void) fcntl(out->fd, F_SETPIPE_SZ, WIDE_PIPE);
        out->is_wide = true;
    }
    if (n > 0 && x->is_owned && x->base.events->output(&x->base, out->stream, buffer, (size_t) n) == 1)
        x->is_paused = true;
    return n;
}

static void on_output(csn_source *src, uint32_t events, void *user);

/* Watches what isn't watched. A failure is harmless: the drain at the end reads it. */
static void listen_again(csn_local_exec *x)
{
    csn_box *box = x->base.box;

    for (int i = 0; box->backend && i < 2; i++)
        if (x->out[i].fd >= 0 && !x->out[i].source)
            (void) csn_loop_add(csn_local_of(box)->base.loop, x->out[i].fd, EPOLLIN, on_output,
                                &x->out[i], &x->out[i].source);
}

/* While it is paused, or while a callback waits in a turn of its own, the source is taken out: a level that stays high
 * would keep the loop spinning. */
static void on_output(csn_source *src, uint32_t events, void *user)
{
    csn_out_stream *out = user;
    csn_local_exec *x = out->exec;
    char buffer[CHUNK] __attribute__((uninitialized)); /* zeroing it would cost more than reading */

    (void) src;
    (void) events;
    if (x->is_paused || x->is_busy) {
        out->source = csn_source_remove(out->source);
        return;
    }
    x->n_refs++;
    x->is_busy = true;
    (void) take_piece(out, buffer);
    x->is_busy = false;
    if (!x->is_paused && x->is_owned)
        listen_again(x);
    csn_exec_end_if_drained(x);
    csn_exec_unref(x); /* NOLINT(clang-analyzer-unix.Malloc): counted above, so this is the last use at most */
}

/* The rest, both streams by turns. False: paused in the middle. */
static bool drain(csn_local_exec *x)
{
    char buffer[CHUNK] __attribute__((uninitialized)); /* zeroing it would cost more than reading */
    size_t n_read = 0;
    bool is_any = true;

    while (is_any && n_read < DRAIN_MAX) {
        is_any = false;
        for (int i = 0; i < 2; i++) {
            if (x->out[i].fd < 0 || x->is_paused || !x->is_owned)
                continue;
            ssize_t n = take_piece(&x->out[i], buffer);
            if (n <= 0)
                continue;
            is_any = true;
            n_read += (size_t) n;
        }
    }
    return !x->is_paused;
}

static void on_lingered(csn_timer *timer, void *user)
{
    csn_local_exec *x = user;

    (void) timer;
    x->linger_ms = 0;
    csn_exec_end_if_drained(x);
}

/* Whether to wait for those who still hold its streams. */
static bool lingers(csn_local_exec *x)
{
    if (x->linger_ms <= 0 || !x->is_owned || !x->base.box->backend ||
        x->base.receipt.ended != CSN_ENDED_EXIT || (x->out[0].fd < 0 && x->out[1].fd < 0))
        return false;
    if (!x->linger.loop &&
        csn_timer_set(csn_local_of(x->base.box)->base.loop, &x->linger,
                      csn_deadline_in_ms(x->linger_ms), on_lingered, x) < 0)
        return false;
    listen_again(x);
    return true;
}

void csn_exec_end_if_drained(csn_local_exec *x)
{
    if (!x->is_exited || x->base.is_ended || x->is_busy || x->is_paused)
        return;
    x->n_refs++;
    x->is_busy = true;
    bool is_drained = drain(x);
    x->is_busy = false;
    if (is_drained && !lingers(x)) {
        close_streams(x);
        x->base.is_ended = true;
        if (x->is_owned)
            x->base.events->ended(&x->base);
    }
    csn_exec_unref(x);
}

void csn_local_exec_exited(csn_local_box *box, const csn_process_state *state)
{
    csn_list_foreach (node, &box->execs) {
        csn_local_exec *x = csn_list_entry(node, csn_local_exec, link);
        if (x->base.id != state->process || !x->base.is_started || x->is_exited)
            continue;
        take_facts(&x->base.receipt, &box->base.facts); /* a borrowed box learns them after its first spawn */
        csn_exec_take_state(x, state);
        x->is_exited = true;
        csn_exec_end_if_drained(x);
        return; /* the list may be another one now */
    }
}

void csn_local_exec_lost(csn_local_box *box)
{
    for (bool is_any = true; is_any;) {
        is_any = false;
        csn_list_foreach (node, &box->execs) { /* NOLINT(clang-analyzer-unix.Malloc): freed ones left it */
            csn_local_exec *x = csn_list_entry(node, csn_local_exec, link);
            if (x->is_exited || !x->base.is_started)
                continue;
            x->base.receipt.ended = CSN_ENDED_LOST;
            x->is_exited = true;
            csn_exec_end_if_drained(x);
            is_any = true;
            break; /* the list may be another one now */
        }
    }
}

void csn_local_exec_resume(csn_exec *base)
{
    csn_local_exec *x = csn_local_exec_of(base);

    if (!x->is_paused)
        return;
    x->is_paused = false;
    if (x->is_busy)
        return; /* from inside the callback: who called it looks again */
    listen_again(x);
    csn_exec_end_if_drained(x);
}

void csn_exec_report_start(csn_local_exec *x, int r, const csn_error *err)
{
    x->is_starting = false;
    x->n_refs++;
    if (x->is_owned) {
        x->base.events->started(&x->base, r, r < 0 ? err : NULL);
    } else {
        if (r >= 0 && !x->is_opened)
            (void) csn_local_exec_signal(&x->base, SIGKILL, true, CSN_ENDED_KILLED, NULL, NULL);
        csn_exec_unref(x); /* the owner's */
    }
    csn_exec_unref(x);
}

static int fail_unsent(const csn_box *box, int r, csn_error *err)
{
    return csn_fail_sys(err, r, "run a command in sandbox '%s'", box->wish.id);
}

static bool on_started(csn_request *req, csn_msg *msg)
{
    csn_local_exec *x = csn_container_of(req, csn_local_exec, req);
    csn_error err = { 0 };
    csn_started started;
    int r = csn_msg_result(msg, CSN_FRAME_STARTED, &err);

    if (!msg && csn_local_box_of(x->base.box)->failure.code)
        r = (err = csn_local_box_of(x->base.box)->failure).code;
    if (r >= 0) {
        csn_msg_fixed(msg, &started, sizeof(started));
        x->base.id = started.process;
        x->base.is_started = true;
        take_facts(&x->base.receipt, &x->base.box->facts); /* unknown when an early one was sent */
        int e = csn_in_start(&x->in);
        if (e < 0)
            csn_in_close(&x->in); /* the command reads an early end rather than waiting for ever */
    }
    if (r >= 0 && x->is_held) /* it isn't of much use before its log can be read */
        r = csn_exec_ask_attach(x, &err);
    if (r < 0 || !x->is_held)
        csn_exec_report_start(x, r, &err);
    return true;
}

/* A command that could not even be sent to a sandbox that is being built: if it can't be built, that is why. */
static bool on_built(csn_request *req, csn_msg *msg)
{
    csn_local_exec *x = csn_container_of(req, csn_local_exec, req);
    csn_error err = { 0 };

    if (!msg && csn_local_box_of(x->base.box)->failure.code)
        err = csn_local_box_of(x->base.box)->failure;
    else
        (void) fail_unsent(x->base.box, x->unsent, &err);
    csn_exec_report_start(x, err.code, &err);
    return true;
}

/* Keepers answer in order: this one when the sandbox stands. 0: on_built() follows. */
static int await_build(csn_local_exec *x, int error)
{
    csn_conn *conn = &csn_local_box_of(x->base.box)->conn;
    int r;

    x->unsent = error;
    r = csn_conn_ask(conn, &(csn_out){ .type = CSN_FRAME_STAT }, &x->req, on_built);
    if (r == -ENOTCONN) { /* it has ended: that it is told, and why, ends the start */
        csn_conn_await_end(conn, &x->req, on_built);
        r = 0;
    }
    return r < 0 ? error : 0;
}

/* Our ends into the loop, the far ends into `far`: stdin, stdout, stderr. */
static int open_streams(csn_local_exec *x, const csn_exec_spec *spec, int far[3])
{
    csn_loop *loop = csn_local_of(x->base.box)->base.loop;
    int n_out = spec->is_merged ? 1 : 2, ends[2], r;

    r = csn_in_open(&x->in, loop, spec, &far[0]);
    for (int i = 0; r == 0 && i < n_out; i++) {
        if ((r = csn_stdio_pipe(ends)) < 0)
            return r;
        x->out[i].fd = ends[0];
        far[1 + i] = ends[1];
        if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) /* ours alone: the program's end blocks */
            r = -errno;
        if (r == 0)
            r = csn_loop_add(loop, ends[0], EPOLLIN, on_output, &x->out[i], &x->out[i].source);
    }
    return r;
}

static uint32_t flags_of(const csn_exec_spec *spec)
{
    return (spec->is_shell ? CSN_SPAWN_SHELL : 0u) | (spec->is_pty ? CSN_SPAWN_PTY : 0u) |
           (spec->is_background || spec->is_pty ? CSN_SPAWN_BACKGROUND : 0u) |
           (spec->is_merged ? CSN_SPAWN_MERGED : 0u) | (spec->has_channel ? CSN_SPAWN_CHANNEL : 0u) | (spec->as_root ? CSN_SPAWN_ROOT : 0u) |
           (spec->is_last ? CSN_SPAWN_LAST : 0u) |
           (spec->is_background && spec->stdin_kind == CSN_STDIN_PIPE ? CSN_SPAWN_STDIN_PIPE : 0u);
}

static int send_spawn(csn_local_exec *x, const csn_exec_spec *spec, const int far[3])
{
    csn_local_box *box = csn_local_box_of(x->base.box);
    const char *const *env = (const char *const *) spec->env;
    size_t size = csn_spec_size(spec->argv, env, spec->cwd), n_fds = 0;
    csn_auto(mem) char *bytes = size <= CSN_BLOB_MAX ? csn_malloc(size ? size : 1) : NULL;
    csn_pack p = { .data = bytes, .cap = size };
    csn_spawn spawn = { .kind = CSN_SPAWN_EXEC,
                        .flags = flags_of(spec),
                        .rows = spec->rows,
                        .cols = spec->cols,
                        .timeout_ms = spec->timeout_ms,
                        .output_bytes = spec->output_bytes,
                        .kill_on_output_limit = spec->kill_on_limit };
    int fds[3];

    if (!bytes)
        return size > CSN_BLOB_MAX ? -E2BIG : -ENOMEM;
    csn_spec_pack(&p, spec->argv, env, spec->cwd);
    if (p.error < 0)
        return p.error;
    for (unsigned i = 0; i < 3; i++) {
        if (far[i] < 0)
            continue;
        fds[n_fds++] = far[i];
        spawn.fds |= 1u << i; /* CSN_FD_STDIN, _STDOUT, _STDERR */
    }
    csn_out out = { .type = CSN_FRAME_SPAWN,
                    .fixed = &spawn,
                    .fixed_len = sizeof(spawn),
                    .rest = p.data,
                    .rest_len = p.len,
                    .fds = fds,
                    .n_fds = n_fds };
    return csn_conn_ask(&box->conn, &out, &x->req, on_started);
}

int csn_local_exec_start(csn_box *base, const csn_exec_spec *spec, const csn_exec_events *events,
                         void *user, csn_exec **ret_exec, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);
    int far[3] = { -1, -1, -1 };
    int r = box->is_early ? CSN_OK : csn_local_box_need(box, "run a command", err);

    if (r < 0)
        return r;
    csn_local_exec *x = csn_exec_new(box, events, user);
    if (!x)
        return csn_fail(err, CSN_E_NO_MEMORY, "run a command");
    x->is_held = spec->is_background || spec->is_pty;
    x->linger_ms = spec->linger_ms;
    r = x->is_held || spec->own_fds ? 0 : open_streams(x, spec, far);
    if (r == 0)
        r = send_spawn(x, spec, spec->own_fds ? spec->own_fds : far);
    csn_close_many(far, 3);
    if (r < 0 && box->is_early)
        r = await_build(x, r);
    x->is_starting = r >= 0;
    if (r < 0) {
        csn_exec_unref(x);
        if (r == -ENOTCONN) /* it ended, and we had not heard of it */
            csn_conn_poll(&box->conn);
        int why = r == -ENOTCONN ? csn_local_box_need(box, "run a command", err) : CSN_OK;
        return why < 0 ? why : fail_unsent(base, r, err);
    }
    *ret_exec = &x->base;
    return CSN_OK;
}
