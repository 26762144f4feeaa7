#include "core/sandbox.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/str.h"

int csn_sandbox_check(const csn_sandbox *sandbox, csn_error *err)
{
    if (!sandbox)
        return csn_fail(err, CSN_E_INVALID, "no sandbox was given");
    return csn_engine_check_handle(sandbox->engine, err);
}

csn_sandbox *csn_sandbox_of(csn_engine *engine, csn_box *box)
{
    csn_sandbox *sandbox = csn_calloc(1, sizeof(*sandbox));

    if (!sandbox)
        return NULL;
    csn_engine_hold(engine);
    *sandbox = (csn_sandbox){ .engine = engine, .box = csn_box_ref(box), .n_refs = 1 };
    return sandbox;
}

csn_sandbox *csn_sandbox_ref(csn_sandbox *sandbox)
{
    sandbox->n_refs++;
    return sandbox;
}

csn_sandbox *csn_sandbox_free(csn_sandbox *sandbox)
{
    if (!sandbox || --sandbox->n_refs > 0)
        return NULL;
    csn_box_unref(sandbox->box);
    csn_engine_let_go(sandbox->engine);
    free(sandbox);
    return NULL;
}

/* ---- operations that yield a sandbox ---- */

static void deliver_sandbox(csn_op *op, const csn_error *err)
{
    op->done.sandbox(op->result < 0 ? NULL : op->value.sandbox, op->result, err, op->user);
}

static void on_deleted(int result, const csn_error *err, void *user)
{
    csn_op *op = user;

    (void) result; /* nobody is left to tell; the next sweep finds what remains */
    (void) err;
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

/* It came to be, but nobody wants it: it goes before the caller is told. */
static bool undo_sandbox(csn_op *op)
{
    csn_sandbox *sandbox = op->value.sandbox;
    csn_box *box = sandbox->box;
    csn_op *step = NULL;
    bool is_under_way = false;

    if (box->backend && !op->engine->is_closing && !op->keeps_value)
        step = csn_op_new_plain(op->engine, on_deleted, op, NULL);
    if (step)
        is_under_way = csn_op_begun(step, box->ops->delete (box, step, NULL)) != NULL;
    op->value.sandbox = csn_sandbox_free(sandbox);
    return is_under_way;
}

static const csn_op_kind sandbox_kind = { .deliver = deliver_sandbox, .undo = undo_sandbox };

csn_op *csn_op_new_sandbox(csn_engine *engine, csn_sandbox_done_fn done, void *user, csn_error *err)
{
    csn_op *op = csn_op_new(engine, sizeof(*op), &sandbox_kind, user, err);

    if (op)
        op->done.sandbox = done;
    return op;
}

int csn_op_wait_sandbox(csn_op *op, csn_sandbox **ret_sandbox, csn_error *err)
{
    csn_op_value value;
    int r = csn_op_wait(op, &value, err);

    if (r >= 0)
        *ret_sandbox = value.sandbox;
    return r;
}

void csn_op_end_box(csn_box *box, int result, const csn_error *err, void *user)
{
    csn_op *op = user;
    csn_error no_memory = { 0 };

    if (op && box && !(op->value.sandbox = csn_sandbox_of(op->engine, box))) {
        result = csn_fail(&no_memory, CSN_E_NO_MEMORY, "make a sandbox handle");
        err = &no_memory;
        if (!op->keeps_value)
            (void) box->ops->delete (box, NULL, NULL); /* what remains is swept */
    }
    csn_box_unref(box);
    csn_op_end(op, result, err);
}

int csn_op_end_box_later(csn_op *op, csn_box *box, csn_error *err)
{
    int r;

    if (!(op->value.sandbox = csn_sandbox_of(op->engine, box)))
        return csn_fail(err, CSN_E_NO_MEMORY, "make a sandbox handle");
    r = csn_op_end_later(op, err);
    if (r < 0)
        op->value.sandbox = csn_sandbox_free(op->value.sandbox);
    else
        csn_box_unref(box);
    return r;
}

csn_op *csn_sandbox_begin(csn_engine *engine, csn_wish *wish, csn_sandbox_done_fn done, void *user,
                          csn_error *err)
{
    csn_op *op = csn_op_new_sandbox(engine, done, user, err);

    return op ? csn_op_begun(op, engine->backend->ops->create(engine->backend, wish, op, err))
              : NULL;
}

csn_op *csn_sandbox_create_async(csn_engine *engine, const csn_sandbox_options *opts,
                                 csn_sandbox_done_fn done, void *user, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };

    if (csn_engine_check_handle(engine, err) < 0 || csn_wish_read(opts, &wish, err) < 0 ||
        csn_engine_need(engine, create, "create a sandbox", err) < 0)
        return NULL;
    return csn_sandbox_begin(engine, &wish, done, user, err);
}

int csn_sandbox_create(csn_engine *engine, const csn_sandbox_options *opts,
                       csn_sandbox **ret_sandbox, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait_sandbox(csn_sandbox_create_async(engine, opts, NULL, NULL, err), ret_sandbox,
                               err);
}

csn_op *csn_sandbox_open_async(csn_engine *engine, const char *id_or_name, csn_sandbox_done_fn done,
                               void *user, csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 ||
        csn_engine_need(engine, find, "find a sandbox", err) < 0)
        return NULL;
    if (!id_or_name || !id_or_name[0]) {
        (void) csn_fail(err, CSN_E_INVALID, "open a sandbox: no id or name was given");
        return NULL;
    }
    if (!(op = csn_op_new_sandbox(engine, done, user, err)))
        return NULL;
    op->keeps_value = true; /* it was there before: only the handle goes */
    return csn_op_begun(op, engine->backend->ops->find(engine->backend, id_or_name, op, err));
}

int csn_sandbox_open(csn_engine *engine, const char *id_or_name, csn_sandbox **ret_sandbox,
                     csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait_sandbox(csn_sandbox_open_async(engine, id_or_name, NULL, NULL, err),
                               ret_sandbox, err);
}

int csn_sandbox_lend(csn_sandbox *sandbox, int *ret_fd, csn_error *err)
{
    int r = csn_sandbox_need(sandbox, lend, "lend a sandbox", err);

    return r < 0 ? r : sandbox->box->ops->lend(sandbox->box, ret_fd, err);
}

int csn_sandbox_borrow(csn_engine *engine, const char *id, const csn_sandbox_options *opts, int fd,
                       csn_sandbox **ret_sandbox, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    csn_box *box;
    int r = csn_engine_check_handle(engine, err);

    if (r < 0 || (r = csn_engine_need(engine, borrow, "borrow a sandbox", err)) < 0 ||
        (r = csn_wish_read(opts, &wish, err)) < 0)
        return r;
    if (!id || csn_str_copy(wish.id, CSN_ID_SIZE, csn_str_of(id)) < 0)
        return csn_fail(err, CSN_E_INVALID, "borrow a sandbox: its id has at most %d characters",
                        CSN_ID_SIZE - 1);
    r = engine->backend->ops->borrow(engine->backend, &wish, fd, &box, err);
    if (r < 0)
        return r;
    csn_sandbox *sandbox = csn_sandbox_of(engine, box);
    csn_box_unref(box);
    if (!sandbox)
        return csn_fail(err, CSN_E_NO_MEMORY, "borrow sandbox '%s'", id);
    *ret_sandbox = sandbox;
    return CSN_OK;
}

const char *csn_sandbox_id(const csn_sandbox *sandbox)
{
    return sandbox ? sandbox->box->wish.id : "";
}

/* ---- looking at them ---- */

typedef struct inspect_op {
    csn_op base;
    csn_sandbox *sandbox; /* counted */
} inspect_op;

static void fill_info(const csn_box *box, csn_sandbox_info *ret_info)
{
    csn_wish_info(&box->wish, box->state, ret_info);
    if (box->state != CSN_STATE_STARTED)
        return;
    ret_info->keeper_pid = box->keeper_pid;
    ret_info->init_pid = box->init_pid;
}

static void deliver_info(csn_op *op, const csn_error *err)
{
    inspect_op *look = csn_container_of(op, inspect_op, base);
    csn_sandbox_info info;

    if (op->result >= 0)
        fill_info(look->sandbox->box, &info);
    op->done.info(op->result < 0 ? NULL : &info, op->result, err, op->user);
}

static void free_info(csn_op *op)
{
    csn_sandbox_free(csn_container_of(op, inspect_op, base)->sandbox);
}

csn_op *csn_sandbox_inspect_async(csn_sandbox *sandbox, csn_sandbox_info_done_fn done, void *user,
                                  csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_info, .free = free_info };
    inspect_op *look;

    if (csn_sandbox_check(sandbox, err) < 0 ||
        !(look = csn_op_new(sandbox->engine, sizeof(*look), &kind, user, err)))
        return NULL;
    look->base.done.info = done;
    look->sandbox = csn_sandbox_ref(sandbox);
    return csn_op_begun(&look->base, sandbox->box->ops->refresh(sandbox->box, &look->base, err));
}

int csn_sandbox_inspect(csn_sandbox *sandbox, csn_sandbox_info *ret_info, csn_error *err)
{
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_sandbox_inspect_async(sandbox, NULL, NULL, err), NULL, err);
    if (r >= 0)
        fill_info(sandbox->box, ret_info);
    return r;
}

csn_op *csn_sandbox_list_async(csn_engine *engine, csn_sandbox_list_fn fn, csn_done_fn done,
                               void *user, csn_error *err)
{
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 ||
        csn_engine_need(engine, list, "list sandboxes", err) < 0)
        return NULL;
    if (!fn) {
        (void) csn_fail(err, CSN_E_INVALID, "list sandboxes: no callback was given");
        return NULL;
    }
    if (!(op = csn_op_new_plain(engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, engine->backend->ops->list(engine->backend, fn, user, op, err));
}

int csn_sandbox_list(csn_engine *engine, csn_sandbox_list_fn fn, void *user, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_sandbox_list_async(engine, fn, NULL, user, err), NULL, err);
}

/* ---- changing them ---- */

csn_op *csn_sandbox_set_labels_async(csn_sandbox *sandbox, const char *const *labels,
                                     csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, set_labels, "change labels", err) < 0 ||
        csn_list_check(labels, "labels", err) < 0 ||
        !(op = csn_op_new_plain(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op, sandbox->box->ops->set_labels(sandbox->box, labels, op, err));
}

int csn_sandbox_set_labels(csn_sandbox *sandbox, const char *const *labels, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_sandbox_set_labels_async(sandbox, labels, NULL, NULL, err), NULL, err);
}

csn_op *csn_sandbox_resize_async(csn_sandbox *sandbox, int64_t memory_bytes, int64_t cpu_milli,
                                 int64_t disk_bytes, csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, resize, "resize a sandbox", err) < 0)
        return NULL;
    if (!memory_bytes && !cpu_milli && !disk_bytes) {
        (void) csn_fail(err, CSN_E_INVALID, "resize sandbox '%s': nothing would change",
                        sandbox->box->wish.id);
        return NULL;
    }
    if (!(op = csn_op_new_plain(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(
        op, sandbox->box->ops->resize(sandbox->box, memory_bytes, cpu_milli, disk_bytes, op, err));
}

int csn_sandbox_resize(csn_sandbox *sandbox, int64_t memory_bytes, int64_t cpu_milli,
                       int64_t disk_bytes, csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(
        csn_sandbox_resize_async(sandbox, memory_bytes, cpu_milli, disk_bytes, NULL, NULL, err),
        NULL, err);
}

csn_op *csn_sandbox_set_timers_async(csn_sandbox *sandbox, int64_t ttl_ms, int64_t idle_stop_ms,
                                     csn_done_fn done, void *user, csn_error *err)
{
    csn_op *op;

    if (csn_sandbox_need(sandbox, set_timers, "change timers", err) < 0)
        return NULL;
    if (ttl_ms < 0 || idle_stop_ms < 0) {
        (void) csn_fail(err, CSN_E_INVALID, "a timer is negative");
        return NULL;
    }
    if (!(op = csn_op_new_plain(sandbox->engine, done, user, err)))
        return NULL;
    return csn_op_begun(op,
                        sandbox->box->ops->set_timers(sandbox->box, ttl_ms, idle_stop_ms, op, err));
}

int csn_sandbox_set_timers(csn_sandbox *sandbox, int64_t ttl_ms, int64_t idle_stop_ms,
                           csn_error *err)
{
    err = CSN_OP_ERR(err);
    return csn_op_wait(csn_sandbox_set_timers_async(sandbox, ttl_ms, idle_stop_ms, NULL, NULL, err),
                       NULL, err);
}
