/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation. `relay.py serve` stays in the sandbox with the driver; `relay.py connect` is a command of ours whose
 * stdin and stdout lead to it (a line, below). A line carries so much and no more, because what a command prints is a log at
 * its service: then the relay says so, we say that we shall say no more, and the next line goes on. On this side stand a
 * socket pair and two pipes: the worker has one end of each, we have the others. What comes is delivered in order; while an
 * end has no room the line pauses. What goes waits in the line's stdin, a pipe, and before it in the worker's socket. */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "frame.h"
#include "interp/relay_source.h"
#include "relay_line.h"

enum { KILL_MS = 10000, PATH_SIZE = 48, PROGRAM_MAX = 8 };

typedef struct relay_line {
    csn_relay *relay;
    csn_process *process; /* NULL: it is being started */
    csn_op *opening;      /* NULL: it was started, or waited for */
    csn_process *speaker; /* borrowed: the same, as soon as it says something */
    int in[2];            /* its stdin: what it reads, where we write */
    csn_source *in_source;
    csn_buf text; /* of the line of text that is coming */
} relay_line;

struct csn_relay {
    csn_sandbox *box; /* borrowed */
    csn_loop *loop;   /* borrowed */
    uint32_t number;
    int pid;         /* of relay.py, once it is ours; else 0 */
    int channel[2];  /* the worker's, ours; likewise: */
    int pipes[2][2]; /* stdout, stderr */
    csn_source *channel_source, *pipe_sources[2];
    relay_line *line, *old;
    csn_buf came;  /* frames to deliver */
    size_t n_done; /* of the first frame's data */
    csn_buf going; /* bytes for the line */
    int signal;    /* to be sent when it is our turn; 0: none */
    bool is_ours, is_turning, is_over;
    bool is_paused;  /* the line: something is still to be delivered */
    bool is_full;    /* the worker's channel */
    bool is_cut_off; /* the line has ended, nothing more comes */
};

static void deliver(csn_relay *r);
static void pump(csn_relay *r);

/* ---- the end ---- */

/* The worker reads the end of its channel. What comes after it is nobody's. */
static void end(csn_relay *r)
{
    if (r->is_over)
        return;
    r->is_over = true;
    r->channel_source = csn_source_remove(r->channel_source);
    csn_close(&r->channel[1]);
    for (int k = 0; k < 2; k++) {
        r->pipe_sources[k] = csn_source_remove(r->pipe_sources[k]);
        csn_close(&r->pipes[k][1]);
    }
}

static relay_line *free_line(relay_line *line)
{
    if (!line)
        return NULL;
    line->in_source = csn_source_remove(line->in_source);
    csn_op_drop(line->opening);
    line->process = csn_process_free(line->process);
    csn_close_many(line->in, 2);
    csn_buf_free(&line->text);
    free(line);
    return NULL;
}

csn_relay *csn_relay_free(csn_relay *r)
{
    if (!r)
        return NULL;
    end(r);
    r->line = free_line(r->line);
    r->old = free_line(r->old);
    csn_close(&r->channel[0]);
    for (int k = 0; k < 2; k++)
        csn_close(&r->pipes[k][0]);
    csn_buf_free(&r->came);
    csn_buf_free(&r->going);
    free(r);
    return NULL;
}

/* ---- what comes ---- */

static void on_room(csn_source *src, uint32_t events, void *user)
{
    csn_relay *r = user;

    (void) src;
    (void) events;
    for (int k = 0; k < 2; k++)
        r->pipe_sources[k] = csn_source_remove(r->pipe_sources[k]);
    deliver(r);
}

/* True: all of it is written. False: there is no room, or nobody reads any more. */
static bool write_pipe(csn_relay *r, int k, csn_str data)
{
    while (r->n_done < data.len) {
        ssize_t n = csn_write(r->pipes[k][1], data.data + r->n_done, data.len - r->n_done);

        if (n == -EAGAIN &&
            csn_loop_add(r->loop, r->pipes[k][1], EPOLLOUT, on_room, r, &r->pipe_sources[k]) == 0)
            return false;
        if (n < 0) {
            end(r);
            return false;
        }
        r->n_done += (size_t) n;
    }
    return true;
}

/* The worker's socket: read while its packets can go on, written once there is room. */
static void watch_channel(csn_relay *r)
{
    bool wants = r->is_ours && r->going.len == 0 && !r->line->in_source;

    if (!r->is_over &&
        csn_source_mod(r->channel_source, (wants ? EPOLLIN : 0) | (r->is_full ? EPOLLOUT : 0)) < 0)
        end(r);
}

static bool send_packet(csn_relay *r, csn_str data)
{
    if (send(r->channel[1], data.data, data.len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return true;
    if (errno != EAGAIN) {
        end(r);
        return false;
    }
    r->is_full = true;
    watch_channel(r);
    return false;
}

static void take_turn(csn_relay *r, csn_str data)
{
    int64_t pid = 0;

    r->is_ours = csn_parse_i64(data, &pid) == 0 && pid > 1 && pid <= INT32_MAX;
    r->pid = (int) pid;
    if (!r->is_ours)
        end(r);
    else if (r->signal)
        csn_relay_signal(r, r->signal);
    else
        pump(r);
}

/* This line has carried enough: what we have begun to say, then that it was all, then the next one. */
static void turn(csn_relay *r)
{
    r->is_ours = false;
    r->is_turning = true;
    (void) csn_relay_put(&r->going, 'E', "", 0); /* sticky, seen when it is sent */
    pump(r);
}

/* False: it has to wait. */
static bool deliver_one(csn_relay *r, char kind, csn_str data)
{
    switch (kind) {
    case 'p':
        return data.len <= CSN_PACKET_MAX && send_packet(r, data);
    case 'o':
    case 'e':
        return write_pipe(r, kind == 'e', data);
    case 'r':
        take_turn(r, data);
        return true;
    case 'n':
        turn(r);
        return true;
    default: /* 'x': it has ended; 'g': it was not there */
        end(r);
        return false;
    }
}

static void deliver(csn_relay *r)
{
    size_t at = 0, n;
    csn_str data;
    char kind;

    while (!r->is_over) {
        csn_buf rest = r->came;

        rest.data += at;
        rest.len -= at;
        n = csn_relay_next(&rest, &kind, &data);
        if (n == 0 || !deliver_one(r, kind, data))
            break;
        r->n_done = 0;
        at += n;
    }
    csn_buf_consume(&r->came, at);
    if (r->is_cut_off && r->came.len == 0)
        end(r);
    if (r->is_paused && (r->is_over || r->came.len == 0)) {
        r->is_paused = false;
        if (r->line && r->line->speaker)
            (void) csn_process_resume(r->line->speaker); /* lost is told by its end */
    }
}

/* Whole lines become frames. */
static int take_text(relay_line *line, const char *data, size_t len)
{
    csn_relay *r = line->relay;
    csn_str rest, one;
    int e = csn_buf_append(&line->text, data, len);

    rest = csn_str_n(line->text.data, line->text.len);
    while (e == 0 && rest.len > 0 && memchr(rest.data, '\n', rest.len)) {
        (void) csn_str_split(&rest, '\n', &one);
        e = csn_relay_line_read(one, &r->came);
    }
    csn_buf_consume(&line->text, line->text.len - rest.len);
    return e;
}

static int on_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                     void *user)
{
    relay_line *line = user;
    csn_relay *r = line->relay;

    line->speaker = process;
    if (stream != CSN_STDOUT || line != r->line || r->is_over)
        return 0; /* a complaint of Python's: its end tells as much */
    if (take_text(line, data, len) < 0) {
        end(r);
        return 0;
    }
    if (!r->is_paused)
        deliver(r);
    r->is_paused = !r->is_over && r->came.len > 0;
    return r->is_paused;
}

static void on_exit_of(csn_process *process, const csn_receipt *receipt, void *user)
{
    relay_line *line = user;
    csn_relay *r = line->relay;

    (void) process;
    (void) receipt;
    if (line == r->old) {
        r->old = free_line(r->old);
        return;
    }
    line->speaker = NULL;
    r->is_cut_off = true;
    if (!r->is_paused)
        end(r);
}

/* ---- what goes ---- */

static void on_writable(csn_source *src, uint32_t events, void *user)
{
    csn_relay *r = user;

    (void) src;
    (void) events;
    r->line->in_source = csn_source_remove(r->line->in_source);
    pump(r);
}

/* True: nothing is left to write. */
static bool write_line(csn_relay *r)
{
    while (r->going.len > 0 || r->going.error < 0) {
        ssize_t n = r->going.error < 0 ? r->going.error
                                       : csn_write(r->line->in[1], r->going.data, r->going.len);

        if (n == -EAGAIN && csn_loop_add(r->loop, r->line->in[1], EPOLLOUT, on_writable, r,
                                         &r->line->in_source) == 0)
            return false;
        if (n < 0) {
            end(r);
            return false;
        }
        csn_buf_consume(&r->going, (size_t) n);
    }
    return true;
}

static int open_line(csn_relay *r, bool waits, csn_error *err);

/* The old line ends by itself, once the relay has read our last word. */
static void next_line(csn_relay *r)
{
    csn_error err = { 0 };

    free_line(r->old);
    r->old = r->line;
    r->line = NULL;
    csn_close(&r->old->in[1]);
    r->is_turning = false;
    if (open_line(r, false, &err) < 0)
        end(r);
}

static void send_all(csn_relay *r)
{
    char packet[CSN_PACKET_MAX];
    ssize_t n = 1;

    while (n > 0 && !r->is_over && !r->line->in_source && write_line(r)) {
        if (r->is_turning)
            next_line(r);
        if (r->is_over || !r->is_ours)
            return;
        n = recv(r->channel[1], packet, sizeof(packet), MSG_DONTWAIT);
        if (n > 0)
            (void) csn_relay_put(&r->going, 'P', packet, (size_t) n); /* sticky */
    }
}

static void pump(csn_relay *r)
{
    send_all(r);
    watch_channel(r);
}

static void on_channel(csn_source *src, uint32_t events, void *user)
{
    csn_relay *r = user;

    (void) src;
    if (events & EPOLLOUT) {
        r->is_full = false;
        deliver(r);
    }
    pump(r);
}

void csn_relay_signal(csn_relay *r, int number)
{
    char text[16];

    r->signal = r->is_ours ? 0 : number;
    if (!r->is_ours || r->is_over)
        return;
    (void) snprintf(text, sizeof(text), "%d", number);
    (void) csn_relay_put(&r->going, 'S', text, strlen(text)); /* sticky */
    pump(r);
}

void csn_relay_kill(csn_relay *r)
{
    char pid[16];
    static const char script[] =
        "kill -TERM \"$0\"; while kill -0 \"$0\" 2>/dev/null; do sleep 0.01; done";
    const char *const argv[] = { "/bin/sh", "-c", script, pid, NULL };
    csn_process_options o = {
        .size = sizeof(o), .argv = argv, .merge_stderr = 1, .timeout_ms = KILL_MS
    };
    csn_run_result result = { 0 };

    if (r->pid <= 0 || r->is_over)
        return;
    (void) snprintf(pid, sizeof(pid), "%d", r->pid);
    if (csn_run(r->box, &o, &result, NULL) >= 0) /* else it ends with the sandbox */
        csn_run_result_done(&result);
}

/* ---- lines ---- */

static void put_path(char path[PATH_SIZE], uint32_t number)
{
    (void) snprintf(path, PATH_SIZE, "/tmp/.caisson-interp-%u", number);
}

static void on_opened(csn_process *process, int result, const csn_error *err, void *user)
{
    relay_line *line = user;

    (void) err;
    line->opening = NULL;
    line->process = process;
    if (result < 0)
        end(line->relay);
}

static int open_line(csn_relay *r, bool waits, csn_error *err)
{
    char path[PATH_SIZE];
    const char *const argv[] = { "python3", "-c", (const char *) csn_relay_source,
                                 "connect", path, NULL };
    relay_line *line = csn_calloc(1, sizeof(*line));
    csn_process_options o = { .size = sizeof(o),
                              .argv = argv,
                              .cwd = "/",
                              .stdin_kind = CSN_STDIN_FD,
                              .timeout_ms = CSN_UNLIMITED,
                              .output_bytes = CSN_UNLIMITED,
                              .on_output = on_output,
                              .on_exit = on_exit_of,
                              .user_data = line };

    if (!line)
        return csn_fail_sys(err, -ENOMEM, "reach the interpreter process");
    *line = (relay_line){ .relay = r,
                          .in = { -1, -1 },
                          .text = CSN_BUF_INIT_MAX(CSN_RELAY_LINE_MAX + ((size_t) 1 << 20)) };
    r->line = line;
    put_path(path, r->number);
    if (pipe2(line->in, O_CLOEXEC | O_NONBLOCK) < 0)
        return csn_fail_sys(err, -errno, "reach the interpreter process");
    o.stdin_fd = line->in[0];
    if (waits)
        return csn_process_start(r->box, &o, &line->process, err);
    line->opening = csn_process_start_async(r->box, &o, on_opened, line, err);
    return line->opening ? CSN_OK : err->code;
}

/* ---- the beginning ---- */

static int open_ends(csn_relay *r)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, r->channel) < 0)
        return -errno;
    for (int k = 0; k < 2; k++)
        if (pipe2(r->pipes[k], O_CLOEXEC | O_NONBLOCK) < 0)
            return -errno;
    return csn_loop_add(r->loop, r->channel[1], 0, on_channel, r, &r->channel_source);
}

static int make(csn_sandbox *box, csn_loop *loop, uint32_t number, csn_relay **ret_relay,
                csn_error *err)
{
    csn_relay *r = csn_calloc(1, sizeof(*r));
    int e = r ? 0 : -ENOMEM;

    if (r) {
        *r = (csn_relay){ .box = box,
                          .loop = loop,
                          .number = number,
                          .channel = { -1, -1 },
                          .pipes = { { -1, -1 }, { -1, -1 } },
                          .came = CSN_BUF_INIT,
                          .going = CSN_BUF_INIT };
        e = open_ends(r);
    }
    if (e < 0) {
        csn_relay_free(r);
        return csn_fail_sys(err, e, "reach the interpreter process");
    }
    *ret_relay = r;
    return CSN_OK;
}

int csn_relay_attach(csn_sandbox *box, csn_loop *loop, uint32_t number, csn_relay **ret_relay,
                     csn_error *err)
{
    csn_relay *r = NULL;
    int e = make(box, loop, number, &r, err);

    if (e >= 0)
        e = open_line(r, true, err);
    if (e < 0) {
        csn_relay_free(r);
        return e;
    }
    *ret_relay = r;
    return CSN_OK;
}

/* What Python says last says it best. */
static int fail_launch(const csn_run_result *result, csn_error *err)
{
    csn_str words = csn_str_trim(csn_str_n(result->merged, result->merged_len));
    const char *start = words.len ? memrchr(words.data, '\n', words.len) : NULL;

    if (result->receipt.ended == CSN_ENDED_TIMEOUT)
        return csn_fail(err, CSN_E_TIMEOUT, "it does not start");
    if (csn_receipt_status(&result->receipt) == 127)
        return csn_fail(err, CSN_E_NOT_FOUND, "run 'python3': no such program");
    if (start)
        words = csn_str_n(start + 1, words.len - (size_t) (start + 1 - words.data));
    return csn_fail(err, CSN_E_LOST, "the interpreter process could not be started%s%.*s",
                    words.len ? ": " : "", (int) (words.len < 160 ? words.len : 160), words.data);
}

static int launch(csn_sandbox *box, uint32_t number, const char *const *program, int64_t timeout_ms,
                  csn_error *err)
{
    char path[PATH_SIZE];
    const char *argv[PROGRAM_MAX + 6] = { "python3", "-c", (const char *) csn_relay_source, "serve",
                                          path };
    csn_process_options o = {
        .size = sizeof(o), .argv = argv, .merge_stderr = 1, .timeout_ms = timeout_ms
    };
    csn_run_result result = { 0 };
    int r;

    for (size_t k = 0; k < PROGRAM_MAX && program[k]; k++)
        argv[5 + k] = program[k];
    put_path(path, number);
    r = csn_run(box, &o, &result, err);
    if (r < 0)
        return r;
    if (!csn_str_is(csn_str_trim(csn_str_n(result.merged, result.merged_len)), "caisson-relay"))
        r = fail_launch(&result, err);
    csn_run_result_done(&result);
    return r;
}

int csn_relay_start(csn_sandbox *box, csn_loop *loop, const char *const *program,
                    int64_t timeout_ms, csn_relay **ret_relay, csn_error *err)
{
    uint32_t number = 0;
    int r = csn_random(&number, sizeof(number));

    if (r < 0)
        return csn_fail_sys(err, r, "name the interpreter process");
    number |= 1; /* 0 is none */
    r = launch(box, number, program, timeout_ms, err);
    return r < 0 ? r : csn_relay_attach(box, loop, number, ret_relay, err);
}

uint32_t csn_relay_number(const csn_relay *r)
{
    return r->number;
}

bool csn_relay_is_ours(const csn_relay *r)
{
    return r->is_ours;
}

int csn_relay_channel(const csn_relay *r)
{
    return r->channel[0];
}

int csn_relay_pipe(const csn_relay *r, csn_stream stream)
{
    return r->pipes[stream == CSN_STDERR][0];
}
