/* Commands whose streams the keeper holds: background ones and terminals. The keeper writes what they say to
 * logs/<n>.log in arrival order and notes in logs/<n>.idx where each piece ends and which stream it came from; we read
 * both through descriptors it lends, from any offset, and ask it to tell us when there is more. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "local/exec.h"

typedef struct index_entry {
    uint64_t end;
    uint32_t stream, reserved;
} index_entry;

/* --- attaching --------------------------------------------------------------------------------------------------- */

static void take_lent(csn_local_exec *x, csn_msg *msg)
{
    csn_process_state state;

    csn_msg_fixed(msg, &state, sizeof(state));
    for (size_t i = 0; state.flags & CSN_SPAWN_CHANNEL && i < 3; i++)
        x->channel_fds[i] = csn_msg_take_fd(msg, i);
    x->log_fd = csn_msg_take_fd(msg, 0);
    x->index_fd = csn_msg_take_fd(msg, 1);
    x->in.fd = csn_msg_take_fd(msg, 2);
    if (x->in.fd >= 0)
        (void) csn_fd_nonblock(x->in.fd, true); /* else a full pipe would hold us up */
    csn_exec_take_state(x, &state);
    x->base.id = state.process;
    x->base.is_started = true;
    x->in.kind = state.flags & CSN_SPAWN_PTY ? CSN_STDIN_NONE : CSN_STDIN_PIPE;
    if (state.ended)
        x->is_exited = x->base.is_ended = true;
}

static bool on_attached(csn_request *req, csn_msg *msg)
{
    csn_local_exec *x = csn_container_of(req, csn_local_exec, req);
    csn_error err = { 0 };
    int r = csn_msg_result(msg, CSN_FRAME_STATE, &err);
    bool was_exited = x->is_exited;

    if (r >= 0 && msg->n_fds < 2)
        r = csn_fail(&err, CSN_E_PROTOCOL, "the keeper lent no log");
    if (r >= 0)
        take_lent(x, msg);
    x->n_refs++;
    csn_exec_report_start(x, r, &err);
    /* It ended between its start and now: the owner heard of the start first. */
    if (r >= 0 && x->base.is_ended && !was_exited && x->is_owned)
        x->base.events->ended(&x->base);
    csn_exec_unref(x);
    return true;
}

int csn_exec_ask_attach(csn_local_exec *x, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(x->base.box);
    csn_process_ref ref = { .process = x->base.id };
    csn_out out = { .type = CSN_FRAME_ATTACH, .fixed = &ref, .fixed_len = sizeof(ref) };
    int r = csn_conn_ask(&box->conn, &out, &x->req, on_attached);

    return r < 0 ? csn_fail_sys(err, r, "ask for the log of command %u", x->base.id) : CSN_OK;
}

int csn_local_attach(csn_box *base, uint32_t id, const csn_exec_events *events, void *user,
                     csn_exec **ret_exec, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);
    int r = csn_local_box_need(box, "open a command", err);

    if (r < 0)
        return r;
    csn_local_exec *x = csn_exec_new(box, events, user);
    if (!x)
        return csn_fail(err, CSN_E_NO_MEMORY, "open command %u", id);
    x->is_held = x->is_opened = true;
    x->base.id = id;
    r = csn_exec_ask_attach(x, err);
    x->is_starting = r >= 0;
    if (r < 0) {
        csn_exec_unref(x);
        return r;
    }
    *ret_exec = &x->base;
    return CSN_OK;
}

/* --- waiting ----------------------------------------------------------------------------------------------------- */

typedef struct log_wait {
    csn_request req;
    csn_local_exec *x; /* counted */
    csn_op *op;
} log_wait;

static bool on_wait(csn_request *req, csn_msg *msg)
{
    log_wait *w = csn_container_of(req, log_wait, req);
    log_wait copy = *w;
    csn_process_state state;
    csn_error err = { 0 };
    int r = csn_msg_result(msg, CSN_FRAME_STATE, &err);

    copy.op->give_up = NULL; /* it is over: whoever hears of the end may drop it */
    free(w);
    if (r >= 0) {
        csn_msg_fixed(msg, &state, sizeof(state));
        csn_exec_take_state(copy.x, &state);
        if (state.ended) {
            copy.x->is_exited = true;
            csn_exec_end_if_drained(copy.x);
        }
    }
    csn_op_end(copy.op, r, &err);
    csn_exec_unref(copy.x);
    return true;
}

/* The answer, when it comes, is nobody's. */
static void give_up_wait(csn_op *op)
{
    log_wait *w = op->request;

    csn_list_remove(&w->req.link);
    csn_exec_unref(w->x);
    free(w);
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

int csn_local_exec_wait(csn_exec *base, int64_t offset, bool until_closed, csn_op *op,
                        csn_error *err)
{
    csn_local_exec *x = csn_local_exec_of(base);
    csn_local_box *box = csn_local_box_of(base->box);
    csn_wait wait = { .process = base->id,
                      .flags = until_closed ? CSN_WAIT_CLOSED : 0,
                      .log_offset = offset };
    csn_out out = { .type = CSN_FRAME_WAIT, .fixed = &wait, .fixed_len = sizeof(wait) };
    log_wait *w;
    int r;

    if (base->is_ended && !until_closed)
        return csn_op_end_later(op, err);
    if (!(w = csn_calloc(1, sizeof(*w))))
        return csn_fail(err, CSN_E_NO_MEMORY, "wait for command %u", base->id);
    *w = (log_wait){ .x = x, .op = op };
    r = csn_conn_ask(&box->conn, &out, &w->req, on_wait);
    if (r < 0) {
        free(w);
        return csn_fail_sys(err, r, "wait for command %u", base->id);
    }
    x->n_refs++;
    op->give_up = give_up_wait;
    op->request = w;
    return CSN_OK;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

static bool on_query(csn_request *req, csn_msg *msg)
{
    csn_local_exec *x = csn_container_of(req, csn_local_exec, query);
    csn_process_state state;

    x->is_querying = false;
    if (!msg || msg->head.type != CSN_FRAME_STATE)
        return true;
    csn_msg_fixed(msg, &state, sizeof(state));
    csn_exec_take_state(x, &state);
    x->is_exited |= state.ended != 0;
    return true;
}

/* Whether it has ended is told unasked only to who started it; anybody else must ask. The answer is not waited for: the next
 * reading knows it, and whoever waits for the log to grow is told of the end as well. */
static void ask_state(csn_local_exec *x)
{
    csn_local_box *box = csn_local_box_of(x->base.box);
    csn_process_ref ref = { .process = x->base.id };
    csn_out out = { .type = CSN_FRAME_ATTACH, .fixed = &ref, .fixed_len = sizeof(ref) };

    if (csn_conn_is_open(&box->conn))
        csn_conn_poll(&box->conn); /* it may have come already */
    if (!x->is_exited && !x->is_querying)
        x->is_querying = csn_conn_ask(&box->conn, &out, &x->query, on_query) == 0;
}

/* The first piece that ends behind `offset`: 1, 0 (there is none), -errno. *ret_end of the log in any case. */
static int find_piece(csn_local_exec *x, int64_t offset, index_entry *ret, int64_t *ret_start)
{
    struct stat st;
    index_entry e = { 0 };

    if (fstat(x->index_fd, &st) < 0)
        return -errno;
    int64_t low = 0, high = st.st_size / (int64_t) sizeof(e);
    const int64_t n = high;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (pread(x->index_fd, &e, sizeof(e), mid * (int64_t) sizeof(e)) != sizeof(e))
            return -EIO;
        if ((int64_t) e.end > offset)
            high = mid;
        else
            low = mid + 1;
    }
    if (low == n)
        return 0;
    *ret_start = 0;
    if (low > 0) {
        if (pread(x->index_fd, &e, sizeof(e), (low - 1) * (int64_t) sizeof(e)) != sizeof(e))
            return -EIO;
        *ret_start = (int64_t) e.end;
    }
    return pread(x->index_fd, ret, sizeof(*ret), low * (int64_t) sizeof(e)) == sizeof(e) ? 1 : -EIO;
}

/* The head of a long terminal log is a hole by now. */
static int64_t skip_hole(csn_local_exec *x, int64_t offset, int64_t end)
{
    off_t data = lseek(x->log_fd, offset, SEEK_DATA);

    return data > offset && data <= end ? (int64_t) data : offset;
}

static int read_piece(csn_local_exec *x, int64_t offset, void *data, size_t size, csn_log_piece *ret)
{
    index_entry piece = { 0 };
    int64_t start = 0;
    int r = find_piece(x, offset, &piece, &start);

    *ret = (csn_log_piece){ .offset = offset, .stream = CSN_STDOUT };
    if (r <= 0)
        return r;
    ret->offset = skip_hole(x, offset < start ? start : offset, (int64_t) piece.end);
    ret->stream = piece.stream == CSN_STDERR ? CSN_STDERR : CSN_STDOUT;
    if ((uint64_t) ((int64_t) piece.end - ret->offset) < size)
        size = (size_t) ((int64_t) piece.end - ret->offset);
    ssize_t n = pread(x->log_fd, data, size, ret->offset);
    if (n < 0)
        return -errno;
    ret->len = (size_t) n;
    return 0;
}

int csn_local_exec_read_log(csn_exec *base, int64_t offset, void *data, size_t size,
                            csn_log_piece *ret_piece, csn_error *err)
{
    csn_local_exec *x = csn_local_exec_of(base);
    bool knew_end = x->is_exited;
    int r;

    if (!x->is_held || x->log_fd < 0)
        return csn_fail(err, CSN_E_STATE, "command %u has no log: it does not run in the background",
                        base->id);
    r = read_piece(x, offset, data, size, ret_piece);
    if (r == 0 && ret_piece->len == 0 && !knew_end) { /* first the end, then the log again: nothing is missed */
        ask_state(x);
        r = read_piece(x, offset, data, size, ret_piece);
    }
    if (r < 0)
        return csn_fail_sys(err, r, "read the log of command %u", base->id);
    ret_piece->is_end = ret_piece->len == 0 &&
                        (x->is_exited || !csn_conn_is_open(&csn_local_box_of(base->box)->conn));
    return CSN_OK;
}

/* --- writing and signals ------------------------------------------------------------------------------------------ */

int csn_local_exec_write(csn_exec *base, const void *data, size_t len, size_t *ret_n, csn_error *err)
{
    csn_local_exec *x = csn_local_exec_of(base);
    bool is_ours = x->in.kind == CSN_STDIN_PIPE || (x->is_held && x->in.fd >= 0);
    ssize_t n;

    if (!is_ours || x->in.fd < 0)
        return csn_fail(err, CSN_E_STATE, "command %u: its stdin is not open for writing", base->id);
    n = csn_write_quietly(x->in.fd, data, len);
    if (n == -EAGAIN)
        n = 0;
    if (n == -EPIPE || n == -EIO)
        return csn_fail(err, CSN_E_STATE, "command %u no longer reads its stdin", base->id);
    if (n < 0)
        return csn_fail_sys(err, (int) n, "write to command %u", base->id);
    *ret_n = (size_t) n;
    return CSN_OK;
}

int csn_local_exec_close_stdin(csn_exec *base, csn_error *err)
{
    csn_local_exec *x = csn_local_exec_of(base);
    csn_local_box *box = csn_local_box_of(base->box);
    csn_process_ref ref = { .process = base->id };
    csn_out out = { .type = CSN_FRAME_CLOSE_STDIN, .fixed = &ref, .fixed_len = sizeof(ref) };
    const char end_of_transmission = 4;
    size_t n;
    int r;

    if (x->is_held && x->in.kind != CSN_STDIN_PIPE) /* a terminal has no end, only a key for it */
        return csn_local_exec_write(base, &end_of_transmission, 1, &n, err);
    csn_in_close(&x->in);
    if (!x->is_held)
        return CSN_OK;
    r = csn_conn_ask(&box->conn, &out, NULL, NULL);
    return r < 0 ? csn_fail_sys(err, r, "close the stdin of command %u", base->id) : CSN_OK;
}

/* 0: the channel, else a csn_stream. */
int csn_local_exec_channel(csn_exec *base, int which)
{
    return which >= 0 && which < 3 ? csn_local_exec_of(base)->channel_fds[which] : -1;
}

int csn_local_exec_resize(csn_exec *base, uint16_t rows, uint16_t cols, csn_error *err)
{
    csn_local_exec *x = csn_local_exec_of(base);
    struct winsize size = { .ws_row = rows, .ws_col = cols };

    if (!x->is_held || x->in.fd < 0 || x->in.kind == CSN_STDIN_PIPE)
        return csn_fail(err, CSN_E_STATE, "command %u has no terminal", base->id);
    if (ioctl(x->in.fd, TIOCSWINSZ, &size) < 0)
        return csn_fail_sys(err, -errno, "resize the terminal of command %u", base->id);
    return CSN_OK;
}

typedef struct plain {
    csn_request req;
    csn_op *op;
} plain;

static bool on_plain(csn_request *req, csn_msg *msg)
{
    plain copy = *csn_container_of(req, plain, req);
    csn_error err = { 0 };
    int r = csn_msg_result(msg, CSN_FRAME_DONE, &err);

    free(csn_container_of(req, plain, req));
    csn_op_end(copy.op, r, &err);
    return true;
}

int csn_local_exec_signal(csn_exec *base, int signal, bool whole_tree, csn_ending ending,
                          csn_op *op, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base->box);
    csn_signal frame = { .process = base->id,
                         .signal = signal,
                         .whole_tree = whole_tree,
                         .ending = (uint32_t) ending };
    csn_out out = { .type = CSN_FRAME_SIGNAL, .fixed = &frame, .fixed_len = sizeof(frame) };
    plain *p = op ? csn_calloc(1, sizeof(*p)) : NULL;
    int r;

    if (op && !p)
        return csn_fail(err, CSN_E_NO_MEMORY, "signal command %u", base->id);
    if (p)
        *p = (plain){ .op = op };
    r = csn_conn_ask(&box->conn, &out, p ? &p->req : NULL, on_plain);
    if (r < 0) {
        free(p);
        return r == -ENOTCONN ? csn_fail(err, CSN_E_LOST, "the sandbox's keeper is gone")
                              : csn_fail_sys(err, r, "signal command %u", base->id);
    }
    return CSN_OK;
}

/* --- listing ------------------------------------------------------------------------------------------------------ */

typedef struct listing {
    csn_request req;
    csn_local_box *box; /* counted */
    csn_process_list_fn fn;
    void *user;
    csn_op *op;
} listing;

static void show_one(listing *l, const csn_msg *msg)
{
    csn_unpack rest = csn_msg_rest(msg, sizeof(csn_process_state));
    csn_process_state s;
    csn_msg_fixed(msg, &s, sizeof(s));
    csn_local_exec look = { .base = { .receipt = l->box->base.facts }, .is_held = true };
    csn_receipt *r = &look.base.receipt;
    size_t len;
    const char *command = csn_unpack_bytes(&rest, &len);

    csn_exec_take_state(&look, &s);
    csn_process_info info = { .id = s.process,
                              .command = command,
                              .is_background = (s.flags & CSN_SPAWN_BACKGROUND) != 0,
                              .is_pty = (s.flags & CSN_SPAWN_PTY) != 0,
                              .is_running = s.ended == 0,
                              .started_ms = s.started_ms,
                              .receipt = *r };
    if (l->op->fate == CSN_OP_WANTED)
        l->fn(&info, l->user);
}

static bool on_listed(csn_request *req, csn_msg *msg)
{
    listing *l = csn_container_of(req, listing, req);
    csn_error err = { 0 };

    if (msg && msg->head.type == CSN_FRAME_STATE) {
        show_one(l, msg);
        return false;
    }
    listing copy = *l;
    int r = csn_msg_result(msg, CSN_FRAME_DONE, &err);
    free(l);
    csn_op_end(copy.op, r, &err);
    csn_box_unref(&copy.box->base);
    return true;
}

int csn_local_list_execs(csn_box *base, csn_process_list_fn fn, void *user, csn_op *op,
                         csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);
    csn_out out = { .type = CSN_FRAME_LIST };
    int r = csn_local_box_need(box, "list commands", err);

    if (r < 0)
        return r;
    listing *l = csn_calloc(1, sizeof(*l));
    if (!l)
        return csn_fail(err, CSN_E_NO_MEMORY, "list commands");
    *l = (listing){ .box = box, .fn = fn, .user = user, .op = op };
    r = csn_conn_ask(&box->conn, &out, &l->req, on_listed);
    if (r < 0) {
        free(l);
        return csn_fail_sys(err, r, "list the commands of sandbox '%s'", base->wish.id);
    }
    csn_box_ref(base);
    return CSN_OK;
}
