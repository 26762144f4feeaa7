/* Stopping, deleting, asking how it goes, and changing what may be changed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "local/local.h"

/* A request whose answer is DONE. */
typedef struct plain {
    csn_request req;
    csn_local_box *box; /* counted */
    csn_op *op;         /* NULL: nobody waits */
    bool is_delete;
} plain;

static plain *plain_new(csn_local_box *box, csn_op *op, csn_error *err)
{
    plain *p = csn_calloc(1, sizeof(*p));

    if (!p) {
        csn_fail(err, CSN_E_NO_MEMORY, "start a request");
        return NULL;
    }
    csn_box_ref(&box->base);
    *p = (plain){ .box = box, .op = op };
    return p;
}

static void plain_finish(plain *p, int result, const csn_error *err)
{
    plain copy = *p;

    free(p);
    csn_op_end(copy.op, result, err);
    csn_box_unref(&copy.box->base);
}

static void plain_drop(plain *p)
{
    csn_box_unref(&p->box->base);
    free(p);
}

static bool on_plain(csn_request *req, csn_msg *msg)
{
    csn_error err = { 0 };

    plain_finish(csn_container_of(req, plain, req), csn_msg_result(msg, CSN_FRAME_DONE, &err), &err);
    return true;
}

/* It has ended when the keeper is gone, not when it says so: DONE comes a moment before. A keeper that dies without a
 * word has ended it just as well; what it left was cleaned up before we are told. */
static bool on_end(csn_request *req, csn_msg *msg)
{
    plain *p = csn_container_of(req, plain, req);
    csn_error err = { 0 };
    int r = CSN_OK;

    if (msg && msg->head.type == CSN_FRAME_DONE)
        return false;
    if (msg)
        r = csn_msg_result(msg, CSN_FRAME_DONE, &err);
    else if (p->is_delete && p->box->base.state != CSN_STATE_DELETED)
        r = csn_fail(&err, CSN_E_SYSTEM, "delete sandbox '%s': some of its files could not be removed",
                     p->box->base.wish.id);
    plain_finish(p, r, &err);
    return true;
}

/* Whether there is a keeper to be asked. The record need not be read again for that. CSN_OK, an error or CSN_GATE_WAIT. */
static int find_keeper(csn_local_box *box, csn_error *err)
{
    int r = CSN_OK;

    if (csn_conn_is_open(&box->conn))
        csn_conn_poll(&box->conn);
    if (!csn_conn_is_open(&box->conn))
        r = csn_local_box_refresh(&box->base, err);
    return r < 0 || csn_box_is_settled(box) ? r : CSN_GATE_WAIT;
}

/* CSN_E_LOST: there is none to be told, or it closed its door while we were speaking. */
static int ask_end(csn_local_box *box, int grace_ms, bool is_delete, csn_op *op, csn_error *err)
{
    csn_stop stop = { .grace_ms = grace_ms, .delete_too = is_delete };
    csn_out out = { .type = CSN_FRAME_STOP, .fixed = &stop, .fixed_len = sizeof(stop) };
    plain *p;
    int r;

    if (!csn_conn_is_open(&box->conn))
        return CSN_E_LOST;
    p = plain_new(box, op, err);
    if (!p)
        return CSN_E_NO_MEMORY;
    p->is_delete = is_delete;
    box->is_deleting |= is_delete;
    csn_local_of(&box->base)->has_ended_some = true;
    if (box->child == 0 && box->leaving.pidfd < 0)
        box->leaving.pidfd = (int) syscall(SYS_pidfd_open, box->base.keeper_pid, 0);
    r = csn_conn_ask(&box->conn, &out, &p->req, on_end);
    csn_keeper_stock_now(csn_local_of(&box->base));
    if (r >= 0)
        return CSN_OK;
    plain_drop(p);
    if (r != -ENOTCONN)
        return csn_fail_sys(err, r, "tell the keeper of sandbox '%s' to stop", box->base.wish.id);
    csn_local_box_lost(box);
    return csn_box_is_settled(box) ? CSN_E_LOST : CSN_GATE_WAIT;
}

/* No keeper answers: with the directory's lock, end one that has no door, and remove the box if wished. */
static int end_unreachable(csn_local_box *box, csn_gated *verb, bool is_delete, csn_error *err)
{
    int r = csn_box_lock(box->dir_fd);

    if (r == -ENOENT) {
        box->base.state = CSN_STATE_DELETED;
        return CSN_OK;
    }
    if (r == -EWOULDBLOCK && !verb->is_late)
        return CSN_GATE_LOCKED;
    if (r < 0)
        return csn_fail(err, CSN_E_BUSY, "sandbox '%s' is being changed by somebody else",
                        box->base.wish.id);
    r = csn_box_has_keeper(box->dir_fd) ? csn_box_kill_keeper(box, verb, err) : CSN_OK;
    if (r == CSN_OK && is_delete)
        r = csn_box_remove(csn_local_of(&box->base), &box->base.wish, box->dir_fd, err);
    csn_box_unlock(box->dir_fd);
    if (r != CSN_OK)
        return r;
    box->base.state = is_delete ? CSN_STATE_DELETED : CSN_STATE_STOPPED;
    if (is_delete)
        csn_lease_drop(box); /* who asks has a reference of his own */
    return r;
}

static int stop(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    const bool is_delete = box->base.wish.is_ephemeral;
    int r;

    if (box->is_busy)
        return csn_fail(err, CSN_E_STATE, "stop sandbox '%s': it is being started",
                        box->base.wish.id);
    if ((r = find_keeper(box, err)) != CSN_OK)
        return r;
    if ((r = ask_end(box, verb->grace_ms, is_delete, op, err)) != CSN_E_LOST)
        return r;
    if ((box->base.state == CSN_STATE_STARTED || verb->has_sent_kill) &&
        (r = end_unreachable(box, verb, is_delete, err)) != CSN_OK)
        return r;
    return csn_op_end_later(op, err);
}

int csn_local_stop(csn_box *box, int grace_ms, csn_op *op, csn_error *err)
{
    return csn_gate_enter(csn_local_box_of(box), &(csn_gated){ .run = stop, .grace_ms = grace_ms },
                          op, err);
}

static int delete (csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    int r;

    if (box->is_busy) { /* a start under way is given up */
        box->is_deleting = true;
        csn_local_box_lost(box);
        if (box->is_busy)
            return CSN_GATE_WAIT;
    }
    if ((r = find_keeper(box, err)) != CSN_OK)
        return r;
    if ((r = ask_end(box, -1, true, op, err)) != CSN_E_LOST)
        return r;
    if ((box->base.state != CSN_STATE_DELETED || verb->has_sent_kill) &&
        (r = end_unreachable(box, verb, true, err)) != CSN_OK)
        return r;
    return csn_op_end_later(op, err);
}

int csn_local_delete(csn_box *box, csn_op *op, csn_error *err)
{
    return csn_gate_enter(csn_local_box_of(box), &(csn_gated){ .run = delete }, op, err);
}

typedef struct asked_stat {
    csn_request req;
    csn_local_box *box; /* counted */
    csn_op *op;         /* NULL: only the box's own knowledge is brought up to date */
    bool is_age;        /* it was given away just now: how long it had stood ready is noted */
} asked_stat;

static bool on_stat(csn_request *req, csn_msg *msg)
{
    asked_stat *a = csn_container_of(req, asked_stat, req);
    asked_stat copy = *a;
    csn_error err = { 0 };
    csn_box_state state;
    int r = csn_msg_result(msg, CSN_FRAME_STATE, &err);

    free(a);
    if (r >= 0 && msg->head.len != sizeof(state))
        r = csn_fail(&err, CSN_E_PROTOCOL, "the keeper's answer has %u bytes",
                     (unsigned) msg->head.len);
    if (r >= 0) {
        csn_msg_fixed(msg, &state, sizeof(state));
        csn_local_box_facts(copy.box, &state);
    }
    if (r >= 0 && copy.is_age)
        csn_standby_note_age(copy.box);
    if (r >= 0 && copy.op) {
        copy.op->value.stat.receipt = copy.box->base.facts;
        copy.op->value.stat.usage = (csn_usage){ .memory_bytes = state.memory_bytes,
                                                 .cpu_us = state.user_us + state.sys_us,
                                                 .n_processes = state.n_processes_now,
                                                 .disk_bytes = state.disk_bytes,
                                                 .disk_inodes = state.disk_inodes };
    }
    csn_op_end(copy.op, r, &err);
    csn_box_unref(&copy.box->base);
    return true;
}

static int ask_stat(csn_box *base, bool is_age, csn_op *op, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);
    csn_out out = { .type = CSN_FRAME_STAT };
    int r = csn_local_box_need(box, "ask how it goes", err);

    if (r < 0)
        return r;
    asked_stat *a = csn_calloc(1, sizeof(*a));
    if (!a)
        return csn_fail(err, CSN_E_NO_MEMORY, "ask how the sandbox is doing");
    *a = (asked_stat){ .box = box, .op = op, .is_age = is_age };
    r = csn_conn_ask(&box->conn, &out, &a->req, on_stat);
    if (r < 0) {
        free(a);
        return csn_fail_sys(err, r, "ask the keeper of sandbox '%s'", base->wish.id);
    }
    csn_box_ref(base);
    return CSN_OK;
}

int csn_local_stat(csn_box *base, csn_op *op, csn_error *err)
{
    return ask_stat(base, false, op, err);
}

int csn_local_ask_age(csn_local_box *box, csn_error *err)
{
    return ask_stat(&box->base, true, NULL, err);
}

/* While it is being built its directory's lock is the builder's. */
static int check_busy(csn_local_box *box, const char *verb, csn_error *err)
{
    return box->is_busy ? csn_fail(err, CSN_E_STATE, "%s sandbox '%s': it is being started", verb,
                                   box->base.wish.id)
                        : CSN_OK;
}

/* Rewrites the record under the directory's lock, from what it says now. CSN_OK, an error or why it must wait. */
static int change_record(csn_local_box *box, csn_gated *verb,
                         void (*change)(csn_wish *wish, csn_gated *verb), csn_error *err)
{
    int r = check_busy(box, "change", err);

    if (r < 0 || (r = csn_local_box_refresh(&box->base, err)) < 0)
        return r;
    if (!csn_box_is_settled(box))
        return CSN_GATE_WAIT;
    r = box->base.state == CSN_STATE_DELETED ? -ENOENT : csn_box_lock(box->dir_fd);
    if (r == -EWOULDBLOCK && !verb->is_late)
        return CSN_GATE_LOCKED;
    if (r < 0)
        return csn_fail(err, CSN_E_STATE, "change sandbox '%s': it is deleted or being changed",
                        box->base.wish.id);
    box->is_locked = true;
    r = csn_local_box_refresh(&box->base, err);
    box->is_locked = false;
    if (r >= 0) {
        change(&box->base.wish, verb);
        r = csn_record_write(box->dir_fd, &box->base.wish, !box->base.wish.is_ephemeral, err);
    }
    csn_box_unlock(box->dir_fd);
    return r;
}

/* Exchanges the lists: what was there before is freed with the verb. */
static void change_labels(csn_wish *wish, csn_gated *verb)
{
    char **old = wish->labels;

    wish->labels = verb->data;
    verb->data = old;
}

static int set_labels(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    int r = change_record(box, verb, change_labels, err);

    return r != CSN_OK ? r : csn_op_end_later(op, err);
}

static void free_labels(void *data)
{
    csn_list_free(data);
}

int csn_local_set_labels(csn_box *box, const char *const *labels, csn_op *op, csn_error *err)
{
    csn_gated verb = { .run = set_labels, .data = csn_list_copy(labels), .free_data = free_labels };

    if (!verb.data)
        return csn_fail(err, CSN_E_NO_MEMORY, "label sandbox '%s'", box->wish.id);
    return csn_gate_enter(csn_local_box_of(box), &verb, op, err);
}

static void change_timers(csn_wish *wish, csn_gated *verb)
{
    wish->ttl_ms = verb->timers.ttl_ms;
    wish->idle_stop_ms = verb->timers.idle_stop_ms;
}

static int set_timers(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    csn_out out = { .type = CSN_FRAME_TIMERS,
                    .fixed = &verb->timers,
                    .fixed_len = sizeof(verb->timers) };
    int r = change_record(box, verb, change_timers, err);

    if (r != CSN_OK)
        return r;
    if (!csn_conn_is_open(&box->conn))
        return csn_op_end_later(op, err);
    plain *p = plain_new(box, op, err);
    if (!p)
        return CSN_E_NO_MEMORY;
    r = csn_conn_ask(&box->conn, &out, &p->req, on_plain);
    if (r < 0) {
        plain_drop(p);
        return csn_fail_sys(err, r, "set the timers of sandbox '%s'", box->base.wish.id);
    }
    return CSN_OK;
}

int csn_local_set_timers(csn_box *box, int64_t ttl_ms, int64_t idle_stop_ms, csn_op *op,
                         csn_error *err)
{
    csn_gated verb = { .run = set_timers,
                       .timers = { .ttl_ms = ttl_ms, .idle_stop_ms = idle_stop_ms } };

    return csn_gate_enter(csn_local_box_of(box), &verb, op, err);
}

/* New limits. The keeper is asked first: what it refuses is not written down. */
typedef struct resizing {
    csn_request req;
    csn_local_box *box; /* counted */
    csn_op *op;
    csn_gated verb;
} resizing;

static void change_limits(csn_wish *wish, csn_gated *verb)
{
    wish->memory_bytes = verb->memory_bytes ? verb->memory_bytes : wish->memory_bytes;
    wish->cpu_milli = verb->cpu_milli ? verb->cpu_milli : wish->cpu_milli;
    wish->disk_bytes = verb->disk_bytes ? verb->disk_bytes : wish->disk_bytes;
}

static int note_limits(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    int r = change_record(box, verb, change_limits, err);

    return r != CSN_OK ? r : csn_op_end_later(op, err);
}

static bool on_resized(csn_request *req, csn_msg *msg)
{
    resizing *z = csn_container_of(req, resizing, req);
    resizing copy = *z;
    csn_error err = { 0 };
    int r = csn_msg_result(msg, CSN_FRAME_DONE, &err);

    free(z);
    copy.verb.run = note_limits;
    if (r >= 0)
        r = csn_gate_enter(copy.box, &copy.verb, copy.op, &err);
    if (r < 0)
        csn_op_end(copy.op, r, &err);
    csn_box_unref(&copy.box->base);
    return true;
}

static int ask_resize(csn_local_box *box, const csn_gated *verb, csn_op *op, csn_error *err)
{
    csn_resize to = { .memory_bytes = verb->memory_bytes, .cpu_milli = verb->cpu_milli };
    csn_out out = { .type = CSN_FRAME_RESIZE, .fixed = &to, .fixed_len = sizeof(to) };
    resizing *z = csn_calloc(1, sizeof(*z));
    int r;

    if (!z)
        return csn_fail(err, CSN_E_NO_MEMORY, "start a request");
    *z = (resizing){ .box = box, .op = op, .verb = *verb };
    r = csn_conn_ask(&box->conn, &out, &z->req, on_resized);
    if (r < 0) {
        free(z);
        return csn_fail_sys(err, r, "resize sandbox '%s'", box->base.wish.id);
    }
    csn_box_ref(&box->base);
    return CSN_OK;
}

static int resize(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    int r = check_busy(box, "resize", err);

    if (r < 0 || (r = csn_local_box_refresh(&box->base, err)) < 0)
        return r;
    if (!csn_box_is_settled(box))
        return CSN_GATE_WAIT;
    if (box->base.state == CSN_STATE_STARTED && verb->disk_bytes)
        return csn_fail(err, CSN_E_STATE,
                        "resize sandbox '%s': its disk changes only while it is stopped",
                        box->base.wish.id);
    if (box->base.state == CSN_STATE_STARTED && (r = csn_local_box_need(box, "resize it", err)) < 0)
        return r;
    return csn_conn_is_open(&box->conn) ? ask_resize(box, verb, op, err)
                                        : note_limits(box, verb, op, err);
}

int csn_local_resize(csn_box *box, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                     csn_op *op, csn_error *err)
{
    csn_gated verb = { .run = resize,
                       .memory_bytes = memory_bytes,
                       .cpu_milli = cpu_milli,
                       .disk_bytes = disk_bytes };

    return csn_gate_enter(csn_local_box_of(box), &verb, op, err);
}
