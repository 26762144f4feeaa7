/* Theory of operation: one ppoll() over our terminal and the engine's descriptor. Signals are blocked except inside
 * ppoll(), so none is missed between a look at the flags and the wait. Keys go to csn_process_write(), which takes what
 * fits; the rest is offered again. The keeper holds the terminal's other side and writes its output to a log: we ask to be
 * told when the log has grown and read on from where we were. The loop ends when the command has ended and its log is
 * read, or when a signal tells us to leave: then the command gets SIGHUP, as from a terminal that was closed. */
#include "pty.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/time.h"
#include "out.h"
#include "session.h"
#include "stream.h"
#include "term.h"

enum {
    RETRY_MS = 10, /* until keys that did not fit are offered again */
    LEAVE_MS = 2000,
    TAIL_MS = 1000 /* for the last of the log, after the command's end */
};

struct joint {
    csn_process *process;
    cli_stream out;
    bool has_terminal; /* stdin is one: raw, resized */
    bool has_input;
    bool is_over;   /* the command has ended: receipt */
    bool is_read;   /* and its log is at its end */
    bool is_asked;  /* we will be told when the log grows beyond offset */
    int64_t offset; /* what was read of the log */
    csn_receipt receipt;
    char keys[4096];
    size_t n_keys;
};

static volatile sig_atomic_t resized, continued;

static void on_event(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else
        continued = 1;
}

/* ^Z goes inside; a stop that comes from outside must find a sane terminal. */
static void on_stop(int number)
{
    (void) number;
    cli_term_restore();
    (void) raise(SIGSTOP);
}

/* Shows what the log has beyond what was shown; waits up to wait_ms for the first of it. */
static void read_on(struct joint *j, int wait_ms)
{
    while (!j->is_read) {
        csn_log_chunk chunk = { 0 };

        if (csn_process_read_log(j->process, j->offset, wait_ms, &chunk, NULL) < 0)
            return; /* interrupted or gone: on_exit_of() tells */
        cli_stream_put(&j->out, chunk.data, chunk.len);
        j->offset = chunk.next_offset;
        j->is_read = chunk.is_end;
        if (!chunk.len)
            return;
    }
}

static void on_grown(int result, const csn_error *err, void *user)
{
    struct joint *j = user;

    (void) result;
    (void) err;
    j->is_asked = false;
}

/* Reads what is there and asks for the next word. */
static void follow_log(struct joint *j)
{
    if (j->is_asked || j->is_over)
        return;
    read_on(j, 0);
    if (!j->is_read && csn_process_wait_log_async(j->process, j->offset, on_grown, j, NULL))
        j->is_asked = true;
}

static void on_exit_of(csn_process *process, const csn_receipt *receipt, void *user)
{
    struct joint *j = user;

    (void) process;
    j->receipt = *receipt;
    j->is_over = true;
}

/* Blocks the signals we look at and gives back the mask to wait with. */
static void watch_signals(sigset_t *ret_open)
{
    struct sigaction event = { .sa_handler = on_event };
    struct sigaction stop = { .sa_handler = on_stop };
    sigset_t block;

    (void) sigemptyset(&event.sa_mask);
    (void) sigemptyset(&stop.sa_mask);
    (void) sigemptyset(&block);
    (void) sigaddset(&block, SIGWINCH);
    (void) sigaddset(&block, SIGCONT);
    (void) sigaddset(&block, SIGINT);
    (void) sigaddset(&block, SIGTERM);
    (void) sigaddset(&block, SIGHUP);
    (void) sigaddset(&block, SIGQUIT);
    (void) sigaction(SIGWINCH, &event, NULL);
    (void) sigaction(SIGCONT, &event, NULL);
    (void) sigaction(SIGTSTP, &stop, NULL);
    (void) sigprocmask(SIG_BLOCK, &block, ret_open);
}

static void follow_size(struct joint *j)
{
    uint16_t rows, cols;

    resized = 0;
    cli_term_size(STDIN_FILENO, &rows, &cols);
    (void) csn_process_resize(j->process, rows, cols, NULL); /* it may just have ended */
}

static void look_at_flags(struct joint *j)
{
    if (!j->has_terminal)
        return;
    if (continued) {
        continued = 0;
        (void) cli_term_raw(STDIN_FILENO); /* if it is gone, the next read tells */
        resized = 1;
    }
    if (resized)
        follow_size(j);
}

static void read_keys(struct joint *j)
{
    ssize_t n = read(STDIN_FILENO, j->keys, sizeof(j->keys));

    if (n > 0) {
        j->n_keys = (size_t) n;
    } else if (n == 0) {
        j->keys[0] = 4; /* end of file is a key on a terminal: ^D */
        j->n_keys = 1;
        j->has_input = false;
    } else if (errno != EINTR && errno != EAGAIN) {
        j->has_input = false;
    }
}

static void offer_keys(struct joint *j)
{
    size_t n = 0;

    if (!j->n_keys)
        return;
    if (csn_process_write(j->process, j->keys, j->n_keys, &n, NULL) < 0)
        n = j->n_keys; /* nobody reads any more */
    memmove(j->keys, j->keys + n, j->n_keys - n);
    j->n_keys -= n;
}

/* One turn: 0, or the signal that tells us to leave, or -errno. */
static int turn(csn_engine *engine, struct joint *j, const sigset_t *open)
{
    struct pollfd fds[2] = { { .fd = csn_engine_fd(engine), .events = POLLIN },
                             { .fd = j->has_input && !j->n_keys ? STDIN_FILENO : -1,
                               .events = POLLIN } };
    struct timespec retry = { .tv_nsec = RETRY_MS * 1000000L };
    csn_error err = { 0 };
    int r = ppoll(fds, 2, j->n_keys ? &retry : NULL, open);

    if (r < 0 && errno != EINTR)
        return -errno;
    look_at_flags(j);
    r = csn_engine_dispatch(engine, 0, &err);
    follow_log(j);
    if (cli_signal_pending())
        return cli_signal_take();
    if (r < 0 && r != CSN_E_CANCELLED)
        return -EIO;
    if (fds[1].revents)
        read_keys(j);
    offer_keys(j);
    return j->out.is_broken ? SIGPIPE : 0;
}

/* The command has LEAVE_MS to end after the terminal's end. */
static void hang_up(csn_engine *engine, struct joint *j)
{
    int64_t deadline = csn_deadline_in_ms(LEAVE_MS);

    (void) csn_process_signal(j->process, SIGHUP, 1, NULL); /* it may just have ended */
    while (!j->is_over && !csn_deadline_passed(deadline))
        (void) csn_engine_dispatch(engine, csn_remaining_ms(deadline), NULL);
    if (!j->is_over)
        (void) csn_process_signal(j->process, SIGKILL, 1, NULL);
}

static int stay_until_end(csn_engine *engine, struct joint *j)
{
    sigset_t open;
    int r = 0;

    watch_signals(&open);
    if (j->has_terminal)
        follow_size(j); /* it may have changed since the start */
    follow_log(j);
    while (!j->is_over && r == 0)
        r = turn(engine, j, &open);
    (void) sigprocmask(SIG_SETMASK, &open, NULL);
    if (j->is_over) {
        read_on(j, TAIL_MS);
        return csn_receipt_status(&j->receipt);
    }
    hang_up(engine, j);
    return r > 0 ? 128 + r : CLI_ENGINE;
}

/* The program inside has to know what kind of terminal draws for it. */
static void add_term(csn_process_options *o, cli_list *env, char *room, size_t size)
{
    const char *term = getenv("TERM");

    for (size_t i = 0; o->env && o->env[i]; i++)
        cli_list_add(env, o->env[i]);
    (void) snprintf(room, size, "TERM=%s", term && *term ? term : "xterm-256color");
    cli_list_add(env, room);
    o->env = env->items;
}

int cli_pty_run(csn_engine *engine, csn_sandbox *box, const cli_command_values *v,
                csn_process_options *o)
{
    static struct joint j; /* a last word about the log may come as late as the engine's end */
    cli_list env = { 0 };
    char term[128];
    csn_error err = { 0 };
    int status, r;

    j = (struct joint){ .has_terminal = cli_is_terminal(STDIN_FILENO) };
    j.has_input = j.has_terminal || v->interactive || v->stdin_from;
    cli_stream_init(&j.out, STDOUT_FILENO, true); /* asking for a terminal is asking for raw */
    add_term(o, &env, term, sizeof(term));
    o->is_pty = 1;
    if (j.has_terminal)
        cli_term_size(STDIN_FILENO, &o->rows, &o->cols);
    o->on_exit = on_exit_of;
    o->user_data = &j;
    r = csn_process_start(box, o, &j.process, &err);
    free(env.items);
    if (r < 0)
        return cli_start_failed(&err);
    r = j.has_terminal ? cli_term_raw(STDIN_FILENO) : 0;
    status = r < 0 ? cli_fail_with(CSN_E_SYSTEM, NULL, "set the terminal: %s", csn_strerror(r))
                   : stay_until_end(engine, &j);
    cli_term_restore();
    if (j.is_over)
        cli_report_end(v, &j.receipt);
    csn_process_free(j.process);
    return status;
}
