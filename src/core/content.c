/* SPDX-License-Identifier: Apache-2.0 */
/* Whole contents by file verbs: the guest opens the file and hands out its descriptor, the bytes flow between descriptors.
 *
 * Theory of operation. A put is stat, open a file beside the target, copy, rename; in place it is open and copy. A get is
 * open and copy. Each step is a file verb of the backend whose completion starts the next one. The copy runs in pieces of
 * PIECE bytes, one a turn of the loop; where the caller's descriptor is a pipe or a socket it waits for that in the loop.
 * One that is given up waits for the step under way, which is short, so that it knows what has to be removed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"
#include "core/engine.h"

enum { PIECE = 1 << 20, PIPE_PIECE = 4096 };

typedef enum copy_way { BY_RANGE, BY_SPLICE, BY_HAND } copy_way;

typedef struct content_op {
    csn_op *whole; /* the put or get */
    csn_op *step;  /* the file verb under way; NULL: none */
    csn_box *box;  /* counted */
    char *path;
    csn_buf temp; /* the file written first; empty: in place, or a get */
    csn_file_source from;
    uint32_t mode;
    bool is_put, is_there; /* is_there: the target exists, with its mode */
    csn_file_kind kind;
    size_t max;     /* of a get; 0: none */
    csn_buf data;   /* of a get into memory */
    bool is_memory; /* that */

    int inner; /* the guest's file */
    int outer; /* the caller's descriptor, ours by dup; -1: memory */
    bool outer_waits;
    copy_way way;
    char *piece;
    int64_t n;
    size_t hint; /* of a get: its size when it was opened */
    csn_timer turn;
    csn_source *watch;
    bool is_copying, is_cancelled;
    int result; /* while the file beside is removed */
    csn_error err;
} content_op;

/* ---- one step ---- */

typedef void step_done_fn(content_op *op, csn_op_value *value, int result, const csn_error *err);

typedef struct step_op {
    csn_op base;
    content_op *content;
    step_done_fn *next;
    bool yields_fd;
} step_op;

static void deliver_step(csn_op *base, const csn_error *err)
{
    step_op *step = csn_container_of(base, step_op, base);

    step->content->step = NULL;
    step->next(step->content, &base->value, base->result, err);
}

static void ignore_done(int result, const csn_error *err, void *user)
{
    (void) result; /* never called: deliver_step() is */
    (void) err;
    (void) user;
}

static bool undo_step(csn_op *base)
{
    step_op *step = csn_container_of(base, step_op, base);

    if (step->yields_fd)
        csn_close(&base->value.file.fd);
    return false;
}

static int call_step(content_op *op, const csn_file_call *call, step_done_fn *next, csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_step, .undo = undo_step };
    step_op *step = csn_op_new(op->whole->engine, sizeof(*step), &kind, NULL, err);
    int r;

    if (!step)
        return CSN_E_NO_MEMORY;
    step->base.done.plain = ignore_done;
    step->content = op;
    step->next = next;
    step->yields_fd = call->verb == CSN_FILE_OPEN;
    r = op->box->ops->file(op->box, call, &step->base, err);
    op->step = csn_op_begun(&step->base, r);
    return r;
}

/* ---- the end ---- */

static void free_op(content_op *op)
{
    csn_timer_cancel(&op->turn);
    op->watch = csn_source_remove(op->watch);
    csn_close(&op->inner);
    csn_close(&op->outer);
    csn_buf_free(&op->temp);
    csn_buf_free(&op->data);
    free(op->piece);
    free(op->path);
    csn_box_unref(op->box);
    free(op);
}

static void finish(content_op *op, int result, const csn_error *err)
{
    csn_op *whole = op->whole;
    csn_error own = err ? *err : (csn_error){ 0 };
    size_t len = 0;

    whole->value.content.n = op->n;
    if (result >= 0 && op->is_memory &&
        !(whole->value.content.data = csn_buf_take(&op->data, &len)))
        result = csn_fail(&own, CSN_E_NO_MEMORY, "read '%.180s'", op->path);
    free_op(op);
    csn_op_end(whole, result, &own);
}

static void on_removed(content_op *op, csn_op_value *value, int result, const csn_error *err)
{
    (void) value; /* what failed first is told */
    (void) result;
    (void) err;
    finish(op, op->result, &op->err);
}

/* After a failure. A sandbox that is gone has no file to remove, and one of an engine that closes goes with it. */
static void give_up(content_op *op, int result, const csn_error *err)
{
    csn_file_call call = { .verb = CSN_FILE_DELETE, .path = op->temp.data };

    op->result = result;
    op->err = *err;
    op->is_copying = false;
    op->whole->give_up = NULL;
    csn_timer_cancel(&op->turn);
    op->watch = csn_source_remove(op->watch);
    csn_close(&op->inner);
    if (op->temp.len == 0 || op->whole->engine->is_closing || result == CSN_E_LOST ||
        !op->box->backend || call_step(op, &call, on_removed, NULL) < 0)
        finish(op, result, err);
}

/* True: nobody wants it any more, and it has been given up. */
static bool is_unwanted(content_op *op)
{
    csn_error err = { 0 };

    if (!op->is_cancelled)
        return false;
    (void) csn_fail(&err, CSN_E_CANCELLED, "'%.180s': cancelled", op->path);
    give_up(op, CSN_E_CANCELLED, &err);
    return true;
}

/* The caller's part of it: from now on neither data nor descriptor of his are used. */
static void on_given_up(csn_op *whole)
{
    content_op *op = whole->request;

    op->is_cancelled = true;
    if (op->step && op->temp.len > 0)
        return; /* whether the file beside is there, the step will tell */
    csn_op_drop(op->step);
    op->step = NULL;
    (void) is_unwanted(op);
}

static void on_moved(content_op *op, csn_op_value *value, int result, const csn_error *err)
{
    (void) value;
    if (result < 0)
        give_up(op, result, err);
    else
        finish(op, CSN_OK, NULL);
}

static int call_file(content_op *op, uint32_t verb, const char *path, const char *arg, int flags,
                     step_done_fn *next, csn_error *err)
{
    csn_file_call call = { .verb = verb,
                           .flags = (uint32_t) flags,
                           .mode = (int32_t) op->mode,
                           .path = path,
                           .arg = arg };

    return call_step(op, &call, next, err);
}

/* ---- the copy ---- */

/* Errors of the disk inside are limits; a caller's own descriptor may fail, too. */
static void fail_copy(content_op *op, int e)
{
    csn_error err = { 0 };
    int r;

    if (!op->is_put && (e == -E2BIG || e == -EFBIG))
        r = csn_fail(&err, CSN_E_TOO_LARGE, "'%.180s' has more than %zu bytes", op->path, op->max);
    else
        r = csn_fail_sys(&err, e, op->is_put ? "write '%.180s'" : "read '%.180s'", op->path);
    if (op->is_put && (e == -ENOSPC || e == -EDQUOT))
        r = err.code = CSN_E_LIMIT;
    if (r == CSN_E_TOO_LARGE)
        op->n = (int64_t) op->max + 1;
    give_up(op, r, &err);
}

static void end_copy(content_op *op)
{
    csn_error err = { 0 };
    int r;

    op->is_copying = false;
    csn_close(&op->inner); /* a program that is still open for writing can't be run */
    if (op->temp.len == 0) {
        finish(op, CSN_OK, NULL);
        return;
    }
    r = call_file(op, CSN_FILE_MOVE, op->temp.data, op->path, 0, on_moved, &err);
    if (r < 0)
        give_up(op, r, &err);
}

/* How much may come next: one byte more than the bound, so that too much is noticed. 0: that has come. */
static size_t next_size(const content_op *op, size_t piece)
{
    int64_t bound = op->is_put ? op->box->wish.disk_bytes : (int64_t) op->max;

    if (bound <= 0 || bound - op->n >= (int64_t) piece)
        return piece;
    return op->n > bound ? 0 : (size_t) (bound - op->n + 1);
}

static bool is_ready(int fd, short events)
{
    struct pollfd p = { fd, events, 0 };

    return poll(&p, 1, 0) > 0;
}

/* Any two descriptors: -EAGAIN when the caller's is not ready. */
static ssize_t copy_by_hand(content_op *op, int from, int to, size_t size)
{
    ssize_t n;
    int r;

    if (op->outer_waits && !is_ready(op->outer, op->is_put ? POLLIN : POLLOUT))
        return -EAGAIN;
    if (op->outer_waits && !op->is_put && size > PIPE_PIECE)
        size = PIPE_PIECE; /* what is ready takes that much without blocking */
    if (!op->piece && !(op->piece = csn_malloc(PIECE)))
        return -ENOMEM;
    n = csn_read(from, op->piece, size);
    if (n <= 0)
        return n;
    r = csn_write_all(to, op->piece, (size_t) n);
    return r < 0 ? r : n;
}

/* Within the kernel where it can: between files, then by a pipe's buffers, then by hand. 0: the end. */
static ssize_t copy_some(content_op *op, size_t size)
{
    int from = op->is_put ? op->outer : op->inner, to = op->is_put ? op->inner : op->outer;
    ssize_t n;

    if (op->way == BY_RANGE) {
        n = copy_file_range(from, NULL, to, NULL, size, 0);
        if (n > 0)
            return n;
        op->way = BY_SPLICE; /* 0 is also what some file systems say when they can't */
    }
    if (op->way == BY_SPLICE) {
        n = splice(from, NULL, to, NULL, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n > 0)
            return n;
        if (n < 0 && errno == EAGAIN && op->outer_waits)
            return -EAGAIN;
        op->way = BY_HAND;
    }
    return copy_by_hand(op, from, to, size);
}

/* The next piece: how many bytes, 0 at the end, -errno. */
static ssize_t move_piece(content_op *op)
{
    size_t size = next_size(op, PIECE);
    ssize_t n;

    if (op->is_put && op->outer < 0) {
        size_t left = op->from.len - (size_t) op->n;

        if (size == 0 ||
            (op->box->wish.disk_bytes > 0 && op->from.len > (uint64_t) op->box->wish.disk_bytes))
            return -ENOSPC;
        size = left < PIECE ? left : PIECE;
        return size == 0 ? 0 : csn_write(op->inner, (const char *) op->from.data + op->n, size);
    }
    if (size == 0)
        return op->is_put ? -ENOSPC : -E2BIG;
    if (!op->is_memory)
        return copy_some(op, size);
    if (op->hint >= (size_t) op->n && op->hint - (size_t) op->n < size)
        size = op->hint - (size_t) op->n + 1; /* no more memory than it has bytes */
    if (csn_buf_reserve(&op->data, size) < 0)
        return op->data.error;
    n = csn_read(op->inner, op->data.data + op->data.len, size);
    if (n > 0)
        csn_buf_grew(&op->data, (size_t) n);
    return n;
}

static void copy_turn(content_op *op);

static void on_turn(csn_timer *timer, void *user)
{
    (void) timer;
    copy_turn(user);
}

static void on_outer(csn_source *src, uint32_t events, void *user)
{
    content_op *op = user;

    (void) src;
    (void) events; /* also an error: the next piece tells */
    op->watch = csn_source_remove(op->watch);
    copy_turn(op);
}

static void copy_turn(content_op *op)
{
    ssize_t n;
    int r;

    n = move_piece(op);
    if (n == 0) {
        end_copy(op);
        return;
    }
    if (n == -EAGAIN && op->outer_waits) {
        r = csn_loop_add(op->box->backend->loop, op->outer, op->is_put ? EPOLLIN : EPOLLOUT,
                         on_outer, op, &op->watch);
        if (r < 0)
            fail_copy(op, r);
        return;
    }
    if (n < 0) {
        fail_copy(op, (int) n);
        return;
    }
    op->n += n;
    if (op->is_put && op->outer < 0 && (size_t) op->n == op->from.len) {
        end_copy(op);
        return;
    }
    r = csn_timer_set(op->box->backend->loop, &op->turn, csn_now_ns(), on_turn, op);
    if (r < 0)
        fail_copy(op, r);
}

/* ---- the steps ---- */

/* Looks at a file to be read. True: it was refused for its size. */
static bool is_too_large(content_op *op)
{
    struct stat st;
    csn_error err = { 0 };
    int r;

    if (op->is_put || fstat(op->inner, &st) < 0)
        return false;
    op->hint = (size_t) st.st_size;
    if (op->max == 0 || op->hint <= op->max)
        return false;
    r = csn_fail(&err, CSN_E_TOO_LARGE, "'%.180s' has more than %zu bytes", op->path, op->max);
    op->n = (int64_t) st.st_size;
    give_up(op, r, &err);
    return true;
}

/* The name for the time being is nobody's business. */
static int tell_open(content_op *op, const csn_error *why, csn_error *err)
{
    *err = *why;
    if (!op->is_put || op->temp.len == 0)
        return why->code;
    if (why->sys_errno == 0)
        return csn_fail_in(err, why->code, "write '%.100s'", op->path);
    (void) csn_fail(err, why->code, "write '%.180s': %s", op->path, csn_strerror(why->sys_errno));
    err->sys_errno = why->sys_errno;
    return why->code;
}

static void on_opened(content_op *op, csn_op_value *value, int result, const csn_error *err)
{
    csn_error own = { 0 };

    if (result < 0) {
        result = tell_open(op, err, &own);
        csn_buf_clear(&op->temp); /* it was not made */
        give_up(op, result, &own);
        return;
    }
    op->inner = value->file.fd;
    if (is_unwanted(op) || is_too_large(op))
        return;
    op->is_copying = true;
    copy_turn(op);
}

static void note_target(const csn_file_info *info, void *user)
{
    content_op *op = user;

    op->is_there = true;
    op->kind = info->kind;
    if (op->mode == 0)
        op->mode = info->mode;
}

/* Beside the target, so that the move is a rename; a name nobody else picks. */
static int name_temp(content_op *op)
{
    const char *slash = strrchr(op->path, '/');
    char id[17];
    int r = csn_id_hex(id, 8);

    if (r < 0)
        return r;
    csn_buf_append(&op->temp, op->path, slash ? (size_t) (slash - op->path) + 1 : 0);
    return csn_buf_printf(&op->temp, ".caisson-%s", id);
}

/* What is at the path now: a directory or a device can't be replaced by contents, and an existing file keeps its mode. */
static void on_looked(content_op *op, csn_op_value *value, int result, const csn_error *err)
{
    csn_error own = { 0 };

    (void) value;
    if (is_unwanted(op))
        return;
    if (result < 0 && result != CSN_E_NOT_FOUND) {
        give_up(op, result, err);
        return;
    }
    if (op->mode == 0)
        op->mode = 0644;
    if (op->is_there && op->kind != CSN_FILE_REGULAR)
        result = csn_fail(&own, CSN_E_NOT_REGULAR, "'%.180s' is not a regular file", op->path);
    else if ((result = name_temp(op)) < 0)
        result = csn_fail(&own, CSN_E_NO_MEMORY, "write '%.180s'", op->path);
    else
        result = call_file(op, CSN_FILE_OPEN, op->temp.data, NULL,
                           CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_EXCLUSIVE, on_opened, &own);
    if (result < 0) {
        csn_buf_clear(&op->temp);
        give_up(op, result, &own);
    }
}

/* ---- starting ---- */

static content_op *new_op(csn_box *box, const char *path, int fd, csn_op *whole, csn_error *err)
{
    content_op *op = csn_calloc(1, sizeof(*op));
    struct stat st;

    if (!op) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "'%.180s'", path);
        return NULL;
    }
    *op = (content_op){ .box = csn_box_ref(box),
                        .whole = whole,
                        .temp = CSN_BUF_INIT,
                        .data = CSN_BUF_INIT_MAX(SIZE_MAX / 4),
                        .inner = -1,
                        .outer = -1 };
    op->path = csn_strdup(path);
    if (fd >= 0)
        op->outer = csn_fd_dup(fd, 0);
    if (!op->path || (fd >= 0 && op->outer < 0)) {
        (void) csn_fail_sys(err, op->path ? op->outer : -ENOMEM, "'%.180s'", path);
        op->outer = op->outer < 0 ? -1 : op->outer;
        free_op(op);
        return NULL;
    }
    op->outer_waits = fd >= 0 && fstat(op->outer, &st) == 0 && !S_ISREG(st.st_mode);
    return op;
}

static int begun(content_op *op, int result)
{
    if (result < 0) {
        free_op(op);
        return result;
    }
    op->whole->give_up = on_given_up;
    op->whole->request = op;
    return CSN_OK;
}

int csn_content_put(csn_box *box, const csn_put_call *call, csn_op *whole, csn_error *err)
{
    content_op *op = new_op(box, call->path, call->from.is_fd ? call->from.fd : -1, whole, err);
    csn_file_call look = { .verb = CSN_FILE_STAT,
                           .flags = CSN_STAT_FOLLOW,
                           .on_file = note_target };

    if (!op)
        return CSN_E_NO_MEMORY;
    op->is_put = true;
    op->from = call->from;
    op->mode = call->mode;
    if (op->from.in_place) {
        op->mode = op->mode ? op->mode : 0644;
        return begun(op, call_file(op, CSN_FILE_OPEN, op->path, NULL,
                                   CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_TRUNCATE, on_opened,
                                   err));
    }
    look.path = op->path;
    look.user = op;
    return begun(op, call_step(op, &look, on_looked, err));
}

int csn_content_get(csn_box *box, const csn_get_call *call, csn_op *whole, csn_error *err)
{
    content_op *op = new_op(box, call->path, call->to.is_fd ? call->to.fd : -1, whole, err);

    if (!op)
        return CSN_E_NO_MEMORY;
    op->is_memory = !call->to.is_fd;
    op->max = call->to.max_bytes;
    return begun(op, call_file(op, CSN_FILE_OPEN, op->path, NULL, CSN_OPEN_READ, on_opened, err));
}
