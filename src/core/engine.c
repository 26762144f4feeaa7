/* Theory of operation: an engine is one base/loop and one backend. Everything slow is a request of the backend whose
 * completion runs from the loop; csn_engine_fd() is the loop's own descriptor, so an embedder may nest it, and a
 * blocking verb is the started one plus turns of the loop until its waiter is done. */
#include "core/engine.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "image/engine_view.h"

int csn_engine_check_handle(csn_engine *engine, csn_error *err)
{
    if (!engine)
        return csn_fail(err, CSN_E_INVALID, "no engine was given");
    if (engine->pid != getpid())
        return csn_fail(err, CSN_E_INVALID,
                        "the engine belongs to process %d: open one of your own after fork()",
                        (int) engine->pid);
    if (!engine->backend)
        return csn_fail(err, CSN_E_INVALID, "the engine was closed");
    return CSN_OK;
}

void csn_engine_hold(csn_engine *engine)
{
    engine->n_handles++;
}

void csn_engine_let_go(csn_engine *engine)
{
    if (--engine->n_handles == 0 && !engine->backend)
        free(engine);
}

int csn_engine_open(const csn_engine_options *opts, csn_engine **ret_engine, csn_error *err)
{
    csn_engine_options o;
    int r;

    r = csn_options_read(&o, sizeof(o), opts, "csn_engine_options", err);
    if (r < 0)
        return r;
    csn_engine *engine = csn_calloc(1, sizeof(*engine));
    if (!engine)
        return csn_fail(err, CSN_E_NO_MEMORY, "open the engine");
    engine->pid = getpid();
    engine->optional_walls = o.optional_walls;
    csn_list_init(&engine->jobs);
    r = csn_loop_new(&engine->loop);
    if (r < 0)
        r = csn_fail_sys(err, r, "open the engine: make its loop");
    else if (o.remote_url)
        r = csn_daytona_open(engine->loop, &o, &engine->backend, err);
    else if (o.is_guest)
        r = csn_guest_open(engine->loop, &engine->backend, err);
    else
        r = csn_local_open(engine->loop, &o, &engine->backend, err);
    if (r < 0) {
        csn_engine_free(engine);
        return r;
    }
    csn_list_init(&engine->backend->contents);
    *ret_engine = engine;
    return CSN_OK;
}

/* In a forked child nothing is touched: the descriptors are the parent's, and so are the sandboxes behind them. */
csn_engine *csn_engine_free(csn_engine *engine)
{
    if (!engine || engine->pid != getpid())
        return NULL;
    for (csn_list *node; (node = csn_list_pop(&engine->jobs));) {
        csn_job *job = csn_list_entry(node, csn_job, link);

        job->cancel(job);
    }
    if (engine->backend) {
        csn_content_cancel(engine->backend, NULL);
        engine->backend = engine->backend->ops->free(engine->backend);
    }
    engine->loop = csn_loop_free(engine->loop);
    if (engine->n_handles == 0)
        free(engine);
    return NULL;
}

int csn_engine_fd(csn_engine *engine)
{
    int r = csn_engine_check_handle(engine, NULL);

    return r < 0 ? r : csn_loop_fd(engine->loop);
}

int csn_engine_dispatch(csn_engine *engine, int timeout_ms, csn_error *err)
{
    int r = csn_engine_check_handle(engine, err);

    if (r < 0)
        return r;
    const int64_t deadline = csn_deadline_in_ms(timeout_ms);
    do /* the loop may wake for a timer that was moved: nothing happened then */
        r = csn_loop_run_once(engine->loop, deadline);
    while (r == 0 && !csn_deadline_passed(deadline) &&
           !__atomic_load_n(&engine->is_interrupted, __ATOMIC_SEQ_CST));
    return r < 0 ? csn_fail_sys(err, r, "wait for events") : r;
}

void csn_engine_interrupt(csn_engine *engine)
{
    if (!engine || !engine->loop)
        return;
    __atomic_store_n(&engine->is_interrupted, true, __ATOMIC_SEQ_CST);
    csn_loop_wake(engine->loop);
}

int csn_engine_take_interrupt(csn_engine *engine)
{
    return engine && __atomic_exchange_n(&engine->is_interrupted, false, __ATOMIC_SEQ_CST);
}

int csn_engine_wait_until(csn_engine *engine, const bool *is_done, int64_t deadline_ns,
                          csn_error *err)
{
    while (!*is_done) {
        if (__atomic_exchange_n(&engine->is_interrupted, false, __ATOMIC_SEQ_CST))
            return csn_fail(err, CSN_E_CANCELLED, "interrupted");
        if (csn_deadline_passed(deadline_ns))
            return csn_fail(err, CSN_E_TIMEOUT, "the deadline passed");
        int r = csn_loop_run_once(engine->loop, deadline_ns);
        if (r < 0)
            return csn_fail_sys(err, r, "wait for events");
    }
    return CSN_OK;
}

int csn_engine_wait(csn_engine *engine, const bool *is_done, csn_error *err)
{
    return csn_engine_wait_until(engine, is_done, CSN_NO_DEADLINE, err);
}

csn_waiter *csn_waiter_new(void (*drop)(csn_waiter *w), csn_error *err)
{
    csn_waiter *w = csn_calloc(1, sizeof(*w));

    if (!w) {
        csn_fail(err, CSN_E_NO_MEMORY, "wait for an answer");
        return NULL;
    }
    w->fd = -1;
    w->drop = drop;
    return w;
}

int csn_waiter_wait(csn_waiter *w, csn_engine *engine, csn_waiter *ret, csn_error *err)
{
    int r = csn_engine_wait_until(engine, &w->is_done, CSN_NO_DEADLINE, err);

    if (r < 0 && !w->is_done) {
        w->is_abandoned = true;
        return r;
    }
    r = w->result;
    if (r < 0 && err)
        *err = w->err;
    if (r >= 0 && ret)
        *ret = *w;
    else if (w->drop)
        w->drop(w);
    free(w);
    return r;
}

void csn_waiter_finish(csn_waiter *w, int result, const csn_error *err)
{
    w->result = result;
    if (err)
        w->err = *err;
    w->is_done = true;
    if (!w->is_abandoned)
        return;
    if (w->drop)
        w->drop(w);
    free(w);
}

void csn_waiter_done(int result, const csn_error *err, void *user)
{
    csn_waiter_finish(user, result, err);
}

int csn_engine_is_remote(const csn_engine *engine)
{
    return engine && engine->backend && engine->backend->ops->is_remote;
}

/* Images and volumes live in a state directory of this machine. */
int csn_engine_check_local(csn_engine *engine, csn_error *err)
{
    int r = csn_engine_check_handle(engine, err);

    if (r >= 0 && engine->backend->ops->is_remote)
        r = csn_fail(err, CSN_E_UNSUPPORTED,
                     "the remote backend can't manage images and volumes yet");
    return r;
}

const char *csn_engine_state_dir(csn_engine *engine)
{
    return engine && engine->backend ? engine->backend->ops->place(engine->backend) : NULL;
}

int csn_engine_gc(csn_engine *engine, uint32_t *ret_n_removed, csn_error *err)
{
    uint32_t n_removed = 0;
    int r = csn_engine_check_handle(engine, err);

    if (r < 0 || (r = engine->backend->ops->gc(engine->backend, &n_removed, err)) < 0)
        return r;
    if (ret_n_removed)
        *ret_n_removed = n_removed;
    return CSN_OK;
}

int csn_engine_state_fd(csn_engine *engine)
{
    return csn_local_state_fd(engine->backend);
}

csn_loop *csn_engine_loop(csn_engine *engine)
{
    return engine->loop;
}

int csn_engine_remove_tree(csn_engine *engine, const char *path, csn_error *err)
{
    return csn_local_remove_tree(engine->backend, path, err);
}

csn_list *csn_engine_jobs(csn_engine *engine)
{
    return &engine->jobs;
}

const char *csn_engine_libexec(csn_engine *engine)
{
    return csn_local_libexec(engine->backend);
}

const char *csn_version(void)
{
    return CSN_VERSION;
}
