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

/* Ends a blocking verb: `r` is what the started one answered. */
static int finish(csn_sandbox *sandbox, csn_waiter *w, int r, csn_error *err)
{
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_waiter_wait(w, sandbox->engine, NULL, err);
}

int csn_sandbox_start_start(csn_sandbox *sandbox, csn_done_fn done, void *user, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    return r < 0 ? r : sandbox->box->ops->start(sandbox->box, done, user, err);
}

int csn_sandbox_start(csn_sandbox *sandbox, csn_error *err)
{
    csn_waiter *w = csn_waiter_new(NULL, err);

    if (!w)
        return CSN_E_NO_MEMORY;
    return finish(sandbox, w, csn_sandbox_start_start(sandbox, csn_waiter_done, w, err), err);
}

int csn_sandbox_stop_start(csn_sandbox *sandbox, int grace_ms, csn_done_fn done, void *user,
                           csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    return sandbox->box->ops->stop(sandbox->box, grace_ms == 0 ? 2000 : grace_ms, done, user, err);
}

int csn_sandbox_stop(csn_sandbox *sandbox, int grace_ms, csn_error *err)
{
    csn_waiter *w = csn_waiter_new(NULL, err);

    if (!w)
        return CSN_E_NO_MEMORY;
    return finish(sandbox, w, csn_sandbox_stop_start(sandbox, grace_ms, csn_waiter_done, w, err),
                  err);
}

int csn_sandbox_delete_start(csn_sandbox *sandbox, csn_done_fn done, void *user, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    return r < 0 ? r : sandbox->box->ops->delete (sandbox->box, done, user, err);
}

int csn_sandbox_delete(csn_sandbox *sandbox, csn_error *err)
{
    csn_waiter *w = csn_waiter_new(NULL, err);

    if (!w)
        return CSN_E_NO_MEMORY;
    return finish(sandbox, w, csn_sandbox_delete_start(sandbox, csn_waiter_done, w, err), err);
}

int csn_sandbox_snapshot_start(csn_sandbox *sandbox, const char *image_name, csn_done_fn done,
                               void *user, csn_error *err)
{
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    if (!image_name || !csn_is_name(image_name) || strcmp(image_name, "host") == 0)
        return csn_fail(err, CSN_E_INVALID, "snapshot: '%.64s' is no name for an image",
                        image_name ? image_name : "");
    return sandbox->box->ops->snapshot(sandbox->box, image_name, done, user, err);
}

int csn_sandbox_snapshot(csn_sandbox *sandbox, const char *image_name, csn_error *err)
{
    csn_waiter *w = csn_waiter_new(NULL, err);

    if (!w)
        return CSN_E_NO_MEMORY;
    return finish(sandbox, w,
                  csn_sandbox_snapshot_start(sandbox, image_name, csn_waiter_done, w, err), err);
}

/* The parent's settings with the few that a fork may have of its own. */
static int fork_spec(const csn_box *parent, const csn_sandbox_options *opts, csn_wish *ret,
                     csn_error *err)
{
    csn_auto(wish) csn_wish own = { .id_index = -1 };
    int r = csn_wish_read(opts, &own, err);

    if (r < 0 || (r = csn_wish_copy(&parent->wish, ret, err)) < 0)
        return r;
    if (!opts) {
        ret->is_detached = parent->wish.is_detached;
        return CSN_OK;
    }
    ret->is_detached = own.is_detached;
    ret->is_shared = own.is_shared;
    ret->is_ephemeral = own.is_ephemeral;
    ret->ttl_ms = own.ttl_ms;
    ret->idle_stop_ms = own.idle_stop_ms;
    char *name = ret->name, **labels = ret->labels;
    ret->name = own.name;
    ret->labels = own.labels;
    own.name = name;
    own.labels = labels;
    return CSN_OK;
}

int csn_sandbox_fork_start(csn_sandbox *sandbox, const csn_sandbox_options *opts,
                           csn_sandbox_done_fn done, void *user, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0 || (r = sandbox->box->ops->refresh(sandbox->box, err)) < 0 ||
        (r = fork_spec(sandbox->box, opts, &wish, err)) < 0)
        return r;
    csn_sandbox_promise *promise = csn_sandbox_promise_new(sandbox->engine, done, user, err);
    if (!promise)
        return CSN_E_NO_MEMORY;
    r = sandbox->box->ops->fork(sandbox->box, &wish, csn_sandbox_promise_done, promise, err);
    if (r < 0)
        csn_sandbox_promise_free(promise);
    return r;
}

int csn_sandbox_fork(csn_sandbox *sandbox, const csn_sandbox_options *opts,
                     csn_sandbox **ret_sandbox, csn_error *err)
{
    csn_waiter *w = csn_sandbox_waiter(err);
    int r;

    if (!w)
        return CSN_E_NO_MEMORY;
    r = csn_sandbox_fork_start(sandbox, opts, csn_sandbox_waiter_done, w, err);
    if (r < 0) {
        free(w);
        return r;
    }
    return csn_sandbox_waiter_wait(w, sandbox->engine, ret_sandbox, err);
}

typedef struct stat_answer {
    csn_receipt receipt;
    csn_usage usage;
} stat_answer;

static void drop_answer(csn_waiter *w)
{
    free(w->value);
}

static void on_stat(const csn_receipt *receipt, const csn_usage *usage, int result,
                    const csn_error *err, void *user)
{
    csn_waiter *w = user;

    if (result >= 0)
        *(stat_answer *) w->value = (stat_answer){ *receipt, *usage };
    csn_waiter_finish(w, result, err);
}

static int ask_stat(csn_sandbox *sandbox, stat_answer *ret, csn_error *err)
{
    csn_waiter got, *w;
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    if (!(w = csn_waiter_new(drop_answer, err)))
        return CSN_E_NO_MEMORY;
    w->value = csn_calloc(1, sizeof(stat_answer));
    if (w->value)
        r = sandbox->box->ops->stat(sandbox->box, on_stat, w, err);
    else
        r = csn_fail(err, CSN_E_NO_MEMORY, "ask how the sandbox is doing");
    if (r < 0) {
        free(w->value);
        free(w);
        return r;
    }
    r = csn_waiter_wait(w, sandbox->engine, &got, err);
    if (r < 0)
        return r;
    *ret = *(stat_answer *) got.value;
    free(got.value);
    return CSN_OK;
}

int csn_sandbox_receipt(csn_sandbox *sandbox, csn_receipt *ret_receipt, csn_error *err)
{
    stat_answer answer;
    int r = ask_stat(sandbox, &answer, err);

    if (r >= 0)
        *ret_receipt = answer.receipt;
    return r;
}

int csn_sandbox_usage(csn_sandbox *sandbox, csn_usage *ret_usage, csn_error *err)
{
    stat_answer answer;
    int r = ask_stat(sandbox, &answer, err);

    if (r >= 0)
        *ret_usage = answer.usage;
    return r;
}

typedef struct usage_ask {
    csn_usage_done_fn done;
    void *user;
} usage_ask;

static void on_usage(const csn_receipt *receipt, const csn_usage *usage, int result,
                     const csn_error *err, void *user)
{
    usage_ask ask = *(usage_ask *) user;

    (void) receipt;
    free(user);
    ask.done(result < 0 ? NULL : usage, result, err, ask.user);
}

int csn_sandbox_usage_start(csn_sandbox *sandbox, csn_usage_done_fn done, void *user, csn_error *err)
{
    usage_ask *ask;
    int r = csn_sandbox_check(sandbox, err);

    if (r < 0)
        return r;
    if (!(ask = csn_malloc(sizeof(*ask))))
        return csn_fail(err, CSN_E_NO_MEMORY, "ask for a sandbox's usage");
    *ask = (usage_ask){ done, user };
    r = sandbox->box->ops->stat(sandbox->box, on_usage, ask, err);
    if (r < 0)
        free(ask);
    return r;
}
