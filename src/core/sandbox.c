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

csn_sandbox_promise *csn_sandbox_promise_new(csn_engine *engine, csn_sandbox_done_fn done,
                                             void *user, csn_error *err)
{
    csn_sandbox_promise *promise = csn_calloc(1, sizeof(*promise));

    if (!promise) {
        csn_fail(err, CSN_E_NO_MEMORY, "start a request");
        return NULL;
    }
    csn_engine_hold(engine);
    *promise = (csn_sandbox_promise){ .engine = engine, .done = done, .user = user };
    return promise;
}

csn_sandbox_promise *csn_sandbox_promise_free(csn_sandbox_promise *promise)
{
    csn_engine_let_go(promise->engine);
    free(promise);
    return NULL;
}

static void drop_box(int result, const csn_error *err, void *user)
{
    (void) result; /* nobody is left to tell; the next engine's sweep finds what remains */
    (void) err;
    csn_box_unref(user);
}

void csn_sandbox_promise_done(csn_box *box, int result, const csn_error *err, void *user)
{
    csn_sandbox_promise *promise = user;
    csn_sandbox *sandbox = box ? csn_sandbox_of(promise->engine, box) : NULL;
    csn_error no_memory = { 0 };

    if (box && !sandbox) {
        result = csn_fail(&no_memory, CSN_E_NO_MEMORY, "make a sandbox handle");
        err = &no_memory;
        if (box->ops->delete (csn_box_ref(box), drop_box, box, NULL) < 0)
            csn_box_unref(box);
    }
    csn_box_unref(box);
    promise->done(sandbox, result, err, promise->user);
    csn_sandbox_promise_free(promise);
}

/* The caller gave up waiting, but the sandbox came to be. */
static void drop_sandbox(csn_waiter *w)
{
    csn_sandbox *sandbox = w->value;

    if (!sandbox)
        return;
    if (sandbox->box->ops->delete (csn_box_ref(sandbox->box), drop_box, sandbox->box, NULL) < 0)
        csn_box_unref(sandbox->box);
    csn_sandbox_free(sandbox);
}

csn_waiter *csn_sandbox_waiter(csn_error *err)
{
    return csn_waiter_new(drop_sandbox, err);
}

void csn_sandbox_waiter_done(csn_sandbox *sandbox, int result, const csn_error *err, void *user)
{
    csn_waiter *w = user;

    w->value = sandbox;
    csn_waiter_finish(w, result, err);
}

int csn_sandbox_waiter_wait(csn_waiter *w, csn_engine *engine, csn_sandbox **ret_sandbox,
                            csn_error *err)
{
    csn_waiter got;
    int r = csn_waiter_wait(w, engine, &got, err);

    if (r < 0)
        return r;
    *ret_sandbox = got.value;
    return CSN_OK;
}

int csn_sandbox_create_start(csn_engine *engine, const csn_sandbox_options *opts,
                             csn_sandbox_done_fn done, void *user, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    int r = csn_engine_check_handle(engine, err);

    if (r < 0 || (r = csn_wish_read(opts, &wish, err)) < 0)
        return r;
    csn_sandbox_promise *promise = csn_sandbox_promise_new(engine, done, user, err);
    if (!promise)
        return CSN_E_NO_MEMORY;
    r = engine->backend->ops->create(engine->backend, &wish, csn_sandbox_promise_done, promise,
                                     err);
    if (r < 0)
        csn_sandbox_promise_free(promise);
    return r;
}

int csn_sandbox_create(csn_engine *engine, const csn_sandbox_options *opts,
                       csn_sandbox **ret_sandbox, csn_error *err)
{
    csn_waiter *w = csn_sandbox_waiter(err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    r = csn_sandbox_create_start(engine, opts, csn_sandbox_waiter_done, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_sandbox_waiter_wait(w, engine, ret_sandbox, err);
}

int csn_sandbox_open(csn_engine *engine, const char *id_or_name, csn_sandbox **ret_sandbox,
                     csn_error *err)
{
    csn_box *box;
    int r = csn_engine_check_handle(engine, err);

    if (r < 0)
        return r;
    if (!id_or_name || !id_or_name[0])
        return csn_fail(err, CSN_E_INVALID, "open a sandbox: no id or name was given");
    r = engine->backend->ops->find(engine->backend, id_or_name, &box, err);
    if (r < 0)
        return r;
    csn_sandbox *sandbox = csn_sandbox_of(engine, box);
    csn_box_unref(box);
    if (!sandbox)
        return csn_fail(err, CSN_E_NO_MEMORY, "open sandbox '%.64s'", id_or_name);
    *ret_sandbox = sandbox;
    return CSN_OK;
}

int csn_sandbox_lend(csn_sandbox *sandbox, int *ret_fd, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    return r < 0 ? r : sandbox->box->ops->lend(sandbox->box, ret_fd, err);
}

int csn_sandbox_borrow(csn_engine *engine, const char *id, const csn_sandbox_options *opts, int fd,
                       csn_sandbox **ret_sandbox, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    csn_box *box;
    int r = csn_engine_check_handle(engine, err);

    if (r < 0 || (r = csn_wish_read(opts, &wish, err)) < 0)
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

int csn_sandbox_inspect(csn_sandbox *sandbox, csn_sandbox_info *ret_info, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0 || (r = sandbox->box->ops->refresh(sandbox->box, err)) < 0)
        return r;
    csn_wish_info(&sandbox->box->wish, sandbox->box->state, ret_info);
    if (sandbox->box->state == CSN_STATE_STARTED) {
        ret_info->keeper_pid = sandbox->box->keeper_pid;
        ret_info->init_pid = sandbox->box->init_pid;
    }
    return CSN_OK;
}

int csn_sandbox_list(csn_engine *engine, csn_sandbox_list_fn fn, void *user, csn_error *err)
{
    int r = csn_engine_check_handle(engine, err);

    return r < 0 ? r : engine->backend->ops->list(engine->backend, fn, user, err);
}

int csn_sandbox_set_labels(csn_sandbox *sandbox, const char *const *labels, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0 || (r = csn_list_check(labels, "labels", err)) < 0)
        return r;
    return sandbox->box->ops->set_labels(sandbox->box, labels, err);
}

int csn_sandbox_resize_start(csn_sandbox *sandbox, int64_t memory_bytes, int64_t cpu_milli,
                             int64_t disk_bytes, csn_done_fn done, void *user, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    if (!memory_bytes && !cpu_milli && !disk_bytes)
        return csn_fail(err, CSN_E_INVALID, "resize sandbox '%s': nothing would change",
                        sandbox->box->wish.id);
    return sandbox->box->ops->resize(sandbox->box, memory_bytes, cpu_milli, disk_bytes, done, user,
                                     err);
}

int csn_sandbox_resize(csn_sandbox *sandbox, int64_t memory_bytes, int64_t cpu_milli,
                       int64_t disk_bytes, csn_error *err)
{
    csn_waiter *w = csn_waiter_new(NULL, err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    r = csn_sandbox_resize_start(sandbox, memory_bytes, cpu_milli, disk_bytes, csn_waiter_done, w,
                                 err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_waiter_wait(w, sandbox->engine, NULL, err);
}

int csn_sandbox_set_timers(csn_sandbox *sandbox, int64_t ttl_ms, int64_t idle_stop_ms,
                           csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    if (ttl_ms < 0 || idle_stop_ms < 0)
        return csn_fail(err, CSN_E_INVALID, "a timer is negative");
    csn_waiter *w = csn_waiter_new(NULL, err);
    if (!w)
        return CSN_E_NO_MEMORY;
    r = sandbox->box->ops->set_timers(sandbox->box, ttl_ms, idle_stop_ms, csn_waiter_done, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_waiter_wait(w, sandbox->engine, NULL, err);
}
