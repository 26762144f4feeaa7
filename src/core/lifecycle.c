/* Which state follows which, seen from outside: start, stop, delete, snapshot, fork, and how a sandbox is doing. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/str.h"
#include "core/sandbox.h"

static const char *const state_names[] = {
    [CSN_STATE_CREATING] = "creating", [CSN_STATE_STARTED] = "started",
    [CSN_STATE_STOPPED] = "stopped",   [CSN_STATE_DELETING] = "deleting",
    [CSN_STATE_DELETED] = "deleted",
};

const char *csn_state_name(csn_state state)
{
    return (size_t) state < CSN_COUNT(state_names) ? state_names[state] : "unknown";
}

csn_op *csn_sandbox_start_async(csn_sandbox *sandbox, csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, start, "start a stopped sandbox", err) < 0 ||
        !(op = csn_op_new_plain(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, sandbox->box->ops->start(sandbox->box, op, err));
}

int csn_sandbox_start(csn_sandbox *sandbox, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_sandbox_start_async(sandbox, NULL, NULL, err), NULL, err);
}

csn_op *csn_sandbox_stop_async(csn_sandbox *sandbox, int grace_ms, csn_done_fn done, void *user,
                               csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, stop, "stop a sandbox", err) < 0 ||
        !(op = csn_op_new_plain(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(
        op, sandbox->box->ops->stop(sandbox->box, grace_ms == 0 ? 2000 : grace_ms, op, err));
}

int csn_sandbox_stop(csn_sandbox *sandbox, int grace_ms, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_sandbox_stop_async(sandbox, grace_ms, NULL, NULL, err), NULL, err);
}

csn_op *csn_sandbox_delete_async(csn_sandbox *sandbox, csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, delete, "delete a sandbox", err) < 0 ||
        !(op = csn_op_new_plain(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, sandbox->box->ops->delete (sandbox->box, op, err));
}

int csn_sandbox_delete(csn_sandbox *sandbox, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_sandbox_delete_async(sandbox, NULL, NULL, err), NULL, err);
}

/* ---- snapshot ---- */

typedef struct snapshot_op {
    csn_op base;
    csn_backend *backend; /* borrowed: operations end before it goes */
    char image[65];
} snapshot_op;

static void deliver_done(csn_op *op, const csn_error *err)
{
    op->done.plain(op->result, err, op->user);
}

static void on_image_removed(int result, const csn_error *err, void *user)
{
    (void) result; /* nobody is left to tell */
    (void) err;
    csn_op_end(user, CSN_E_CANCELLED, NULL);
}

/* The image was made, but nobody wants it. */
static bool undo_snapshot(csn_op *op)
{
    snapshot_op *snap = csn_container_of(op, snapshot_op, base);
    csn_op *step;

    if (op->engine->is_closing || !snap->backend->ops->image_remove ||
        !(step = csn_op_new_plain(op->engine, on_image_removed, op, NULL)))
        return false;
    return csn_op_begun(step, snap->backend->ops->image_remove(snap->backend, snap->image, step,
                                                               NULL)) != NULL;
}

csn_op *csn_sandbox_snapshot_async(csn_sandbox *sandbox, const char *image_name, csn_done_fn done,
                                   void *user, csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_done, .undo = undo_snapshot };
    snapshot_op *snap;

    if (csn_sandbox_need(sandbox, snapshot, "take a snapshot", err) < 0)
        return NULL;
    if (!image_name || !csn_is_name(image_name) || strcmp(image_name, "host") == 0) {
        (void) csn_fail(err, CSN_E_INVALID, "snapshot: '%.64s' is no name for an image",
                        image_name ? image_name : "");
        return NULL;
    }
    if (!(snap = csn_op_new(sandbox->engine, sizeof(*snap), &kind, user, err)))
        return NULL;
    snap->base.done.plain = done;
    snap->backend = sandbox->engine->backend;
    (void) csn_str_copy(snap->image, sizeof(snap->image),
                        csn_str_of(image_name)); /* checked above */
    return csn_op_begun(&snap->base,
                        sandbox->box->ops->snapshot(sandbox->box, image_name, &snap->base, err));
}

int csn_sandbox_snapshot(csn_sandbox *sandbox, const char *image_name, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_sandbox_snapshot_async(sandbox, image_name, NULL, NULL, err), NULL, err);
}

/* ---- fork ---- */

csn_op *csn_sandbox_fork_async(csn_sandbox *sandbox, const csn_sandbox_options *opts,
                               csn_sandbox_done_fn done, void *user, csn_error *err)
{
    csn_auto(wish) csn_wish own = { .id_index = -1 };
    csn_op *op;

    if (csn_sandbox_need(sandbox, fork, "fork a sandbox", err) < 0 ||
        csn_wish_read(opts, &own, err) < 0 ||
        !(op = csn_op_new_sandbox(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, sandbox->box->ops->fork(sandbox->box, opts ? &own : NULL, op, err));
}

int csn_sandbox_fork(csn_sandbox *sandbox, const csn_sandbox_options *opts,
                     csn_sandbox **ret_sandbox, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait_sandbox(csn_sandbox_fork_async(sandbox, opts, NULL, NULL, err), ret_sandbox,
                               err);
}

/* ---- how it is doing ---- */

static void deliver_receipt(csn_op *op, const csn_error *err)
{
    op->done.receipt(op->result < 0 ? NULL : &op->value.stat.receipt, op->result, err, op->user);
}

static void deliver_usage(csn_op *op, const csn_error *err)
{
    op->done.usage(op->result < 0 ? NULL : &op->value.stat.usage, op->result, err, op->user);
}

static csn_op *ask_stat(csn_sandbox *sandbox, const csn_op_kind *kind, csn_op_done done, void *user,
                        csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, stat, "tell what a sandbox uses", err) < 0 ||
        !(op = csn_op_new(sandbox->engine, sizeof(*op), kind, user, err)))
        return NULL;
    op->done = done;
    return csn_op_begun(op, sandbox->box->ops->stat(sandbox->box, op, err));
}

csn_op *csn_sandbox_receipt_async(csn_sandbox *sandbox, csn_receipt_done_fn done, void *user,
                                  csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_receipt };

    return ask_stat(sandbox, &kind, (csn_op_done){ .receipt = done }, user, err);
}

csn_op *csn_sandbox_usage_async(csn_sandbox *sandbox, csn_usage_done_fn done, void *user,
                                csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_usage };

    return ask_stat(sandbox, &kind, (csn_op_done){ .usage = done }, user, err);
}

int csn_sandbox_receipt(csn_sandbox *sandbox, csn_receipt *ret_receipt, csn_error *err)
{
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_sandbox_receipt_async(sandbox, NULL, NULL, err), &value, err);
    if (r >= 0)
        *ret_receipt = value.stat.receipt;
    return r;
}

int csn_sandbox_usage(csn_sandbox *sandbox, csn_usage *ret_usage, csn_error *err)
{
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_sandbox_usage_async(sandbox, NULL, NULL, err), &value, err);
    if (r >= 0)
        *ret_usage = value.stat.usage;
    return r;
}
