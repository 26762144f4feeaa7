/* SPDX-License-Identifier: Apache-2.0 */
/* One command in a sandbox of its own.
 *
 * Theory of operation. The operation is a chain of others: create, perhaps put a file, start; `step` is the one under way. Without
 * a file the sandbox is handed out before it stands, and the command is on its way while it is built. A chain that fails or is
 * given up behind the create deletes the sandbox before it ends. */
#include <caisson/once.h>

#include "base/err.h"
#include "core/process.h"

typedef struct once_op {
    csn_op base;
    csn_process_options command; /* what it points to is borrowed */
    csn_once_file file;          /* likewise; path NULL: none */
    csn_op *step;
    csn_sandbox *box; /* NULL: not made yet */
    int is_made;
    int *ret_is_made; /* of the blocking form, or NULL */
    int result;       /* of a failure, until the sandbox is gone */
    csn_error why;
} once_op;

static once_op *once_of(csn_op *op)
{
    return csn_container_of(op, once_op, base);
}

static void end(once_op *o, int r, const csn_error *err)
{
    if (o->ret_is_made && o->base.fate == CSN_OP_WANTED) /* else the caller may have gone on */
        *o->ret_is_made = o->is_made;
    csn_op_end(&o->base, r, err);
}

static void on_gone(int result, const csn_error *err, void *user)
{
    once_op *o = user;

    (void) result; /* why it failed counts; the next sweep finds what remains */
    (void) err;
    o->step = NULL;
    end(o, o->result, &o->why);
}

/* What was made goes first. */
static void fail(once_op *o, int r, const csn_error *err)
{
    o->result = r;
    o->why = *err;
    if (o->box && !o->base.engine->is_closing)
        o->step = csn_sandbox_delete_async(o->box, on_gone, o, NULL);
    if (!o->step)
        end(o, r, &o->why);
}

static void on_process(csn_process *process, int result, const csn_error *err, void *user)
{
    once_op *o = user;

    o->step = NULL;
    /* One that was handed out early tells by its first command why it could not be built. */
    o->is_made = result >= 0 || o->box->box->state != CSN_STATE_DELETED;
    if (result < 0) {
        fail(o, result, err);
        return;
    }
    o->base.value.process = process;
    end(o, CSN_OK, NULL);
}

static void start(once_op *o)
{
    csn_error err = { 0 };

    o->step = csn_process_begin(o->box, &o->command, true, on_process, o, &err);
    if (!o->step) {
        o->is_made = o->box->box->state != CSN_STATE_DELETED;
        fail(o, err.code, &err);
    }
}

static void fail_file(once_op *o, const csn_error *err)
{
    csn_error why = *err;

    fail(o, csn_fail_in(&why, why.code, "copy '%s' in", o->file.path), &why);
}

static void on_file(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    once_op *o = user;

    (void) data; /* NULL for put */
    (void) n;
    o->step = NULL;
    if (result < 0)
        fail_file(o, err);
    else
        start(o);
}

static void on_box(csn_sandbox *box, int result, const csn_error *err, void *user)
{
    once_op *o = user;
    csn_error why = { 0 };

    o->step = NULL;
    o->box = box;
    if (result < 0) {
        fail(o, result, err);
    } else if (o->base.fate != CSN_OP_WANTED) {
        fail(o, CSN_E_CANCELLED, &why);
    } else if (!o->file.path) {
        start(o);
    } else {
        o->step =
            csn_file_put_async(box, o->file.path, o->file.from, o->file.mode, on_file, o, &why);
        if (!o->step)
            fail_file(o, &why);
    }
}

static void give_up(csn_op *op)
{
    csn_op_cancel(once_of(op)->step); /* whose end ends this one */
}

static void deliver(csn_op *op, const csn_error *err)
{
    op->done.once(op->result < 0 ? NULL : op->value.process, once_of(op)->is_made, op->result, err,
                  op->user);
}

/* It runs, but nobody wants it. */
static bool undo(csn_op *op)
{
    once_op *o = once_of(op);

    op->value.process = csn_process_free(op->value.process);
    fail(o, CSN_E_CANCELLED, &(csn_error){ 0 });
    return true;
}

static void free_once(csn_op *op)
{
    csn_op_drop(once_of(op)->step); /* there is one only when the engine closes */
    csn_sandbox_free(once_of(op)->box);
}

static int check(const once_op *o, const csn_once_file *file, csn_error *err)
{
    if (o->command.is_background || o->command.is_pty)
        return csn_fail(err, CSN_E_INVALID,
                        "run a command once: not in the background and without a terminal");
    if (file && (!file->path || !file->from))
        return csn_fail(err, CSN_E_INVALID, "run a command once: the file has no path or source");
    return CSN_OK;
}

static int begin(once_op *o, const csn_sandbox_options *box, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    csn_sandbox_options ephemeral;
    int r = csn_options_read(&ephemeral, sizeof(ephemeral), box, "csn_sandbox_options", err);

    if (r >= 0 && ephemeral.is_detached)
        r = csn_fail(err, CSN_E_INVALID,
                     "run a command once: its sandbox can't be detached, it ends with it");
    ephemeral.size = sizeof(ephemeral);
    ephemeral.is_ephemeral = 1; /* its defaults, too */
    if (r < 0 || (r = csn_wish_read(&ephemeral, &wish, err)) < 0)
        return r;
    wish.is_once = true;
    wish.is_eager = !o->file.path;
    o->step = csn_sandbox_begin(o->base.engine, &wish, on_box, o, err);
    return o->step ? CSN_OK : CSN_E_SYSTEM;
}

static once_op *new_once(csn_engine *engine, const csn_sandbox_options *box,
                         const csn_process_options *command, const csn_once_file *file,
                         csn_once_done_fn done, void *user, csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver, .undo = undo, .free = free_once };
    once_op *o;

    if (csn_engine_check_handle(engine, err) < 0 ||
        csn_engine_need(engine, create, "create a sandbox", err) < 0 ||
        !(o = csn_op_new(engine, sizeof(*o), &kind, user, err)))
        return NULL;
    o->base.done.once = done;
    o->base.give_up = give_up;
    if (file)
        o->file = *file;
    int r = csn_options_read(&o->command, sizeof(o->command), command, "csn_process_options", err);
    if (r >= 0)
        r = check(o, file, err);
    o->command.size = sizeof(o->command);
    if (r >= 0)
        r = begin(o, box, err);
    return csn_op_begun(&o->base, r) ? o : NULL;
}

csn_op *csn_run_once_async(csn_engine *engine, const csn_sandbox_options *box,
                           const csn_process_options *command, const csn_once_file *file,
                           csn_once_done_fn done, void *user, csn_error *err)
{
    once_op *o = new_once(engine, box, command, file, done, user, err);

    return o ? &o->base : NULL;
}

int csn_run_once(csn_engine *engine, const csn_sandbox_options *box,
                 const csn_process_options *command, const csn_once_file *file,
                 csn_process **ret_process, int *ret_is_made, csn_error *err)
{
    csn_op_value value;
    once_op *o;
    int r;

    err = CSN_OP_ERR(err);
    if (ret_is_made)
        *ret_is_made = 0;
    o = new_once(engine, box, command, file, NULL, NULL, err);
    if (o)
        o->ret_is_made = ret_is_made;
    r = csn_op_wait(o ? &o->base : NULL, &value, err);
    if (r >= 0)
        *ret_process = value.process;
    return r;
}

csn_sandbox *csn_process_sandbox(const csn_process *process)
{
    return csn_process_check(process, NULL) < 0 ? NULL : process->sandbox;
}
