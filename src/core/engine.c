/* Theory of operation: an engine is one base/loop and one backend. Everything slow is a request of the backend whose
 * completion runs from the loop (core/op.h); csn_engine_fd() is the loop's own descriptor, so an embedder may nest it, and a
 * blocking verb is the other form plus turns of the loop until its operation is over. Which backend it is, src/engine says. */
#include "core/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "core/engine_loop.h"

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

/* ---- its options ---- */

enum { N_TEXTS = 7 };

static void list_texts(csn_engine_options *o, const char **texts[N_TEXTS])
{
    texts[0] = &o->state_dir;
    texts[1] = &o->libexec_dir;
    texts[2] = &o->remote_url;
    texts[3] = &o->remote_key;
    texts[4] = &o->remote_token;
    texts[5] = &o->remote_organization;
    texts[6] = &o->remote_target;
}

static int keep_options(csn_engine *engine, const csn_engine_options *opts)
{
    csn_engine_options o = *opts;
    const char **from[N_TEXTS], **to[N_TEXTS];

    list_texts(&o, from);
    engine->options = *opts;
    list_texts(&engine->options, to);
    for (size_t k = 0; k < N_TEXTS; k++)
        *to[k] = NULL;
    for (size_t k = 0; k < N_TEXTS; k++)
        if (*from[k] && !(*to[k] = csn_strdup(*from[k])))
            return CSN_E_NO_MEMORY;
    return CSN_OK;
}

static void free_engine(csn_engine *engine)
{
    const char **texts[N_TEXTS];

    list_texts(&engine->options, texts);
    for (size_t k = 0; k < N_TEXTS; k++) {
        char *text = (char *) *texts[k]; /* ours: see keep_options() */

        if (text)
            explicit_bzero(text, strlen(text)); /* two of them are secrets */
        free(text);
    }
    free(engine);
}

/* ---- its life ---- */

void csn_engine_hold(csn_engine *engine)
{
    engine->n_handles++;
}

void csn_engine_let_go(csn_engine *engine)
{
    if (--engine->n_handles == 0 && !engine->backend)
        free_engine(engine);
}

int csn_engine_new(const csn_engine_options *opts, csn_backend_open_fn *open,
                   csn_engine **ret_engine, csn_error *err)
{
    csn_engine *engine = csn_calloc(1, sizeof(*engine));
    int r;

    if (!engine)
        return csn_fail(err, CSN_E_NO_MEMORY, "open the engine");
    engine->pid = getpid();
    engine->optional_walls = opts->optional_walls;
    csn_list_init(&engine->ops);
    r = keep_options(engine, opts) < 0 ? -ENOMEM : csn_loop_new(&engine->loop);
    if (r < 0)
        r = csn_fail_sys(err, r, "open the engine: make its loop");
    else
        r = open(engine->loop, opts, &engine->backend, err);
    if (r < 0) {
        csn_engine_free(engine);
        return r;
    }
    engine->backend->engine = engine;
    *ret_engine = engine;
    return CSN_OK;
}

/* In a forked child nothing is touched: the descriptors are the parent's, and so are the sandboxes behind them. */
csn_engine *csn_engine_free(csn_engine *engine)
{
    if (!engine || engine->pid != getpid())
        return NULL;
    csn_engine_hold(engine);   /* operations let go of it when they end */
    csn_ops_end_ready(engine); /* whoever is told now may still do something about it */
    engine->is_closing = true;
    csn_ops_give_up_all(engine);
    if (engine->backend)
        engine->backend = engine->backend->ops->free(engine->backend);
    csn_ops_end_all(engine);
    engine->loop = csn_loop_free(engine->loop);
    csn_engine_let_go(engine);
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

int csn_engine_is_remote(const csn_engine *engine)
{
    return engine && engine->backend && engine->backend->ops->is_remote;
}

const char *csn_engine_state_dir(csn_engine *engine)
{
    return engine && engine->backend ? engine->backend->ops->place(engine->backend) : NULL;
}

static void deliver_count(csn_op *op, const csn_error *err)
{
    op->done.count(op->result < 0 ? 0 : op->value.n, op->result, err, op->user);
}

csn_op *csn_engine_gc_async(csn_engine *engine, csn_count_done_fn done, void *user, csn_error *err)
{
    static const csn_op_kind kind = { .deliver = deliver_count };
    csn_op *op;

    if (csn_engine_check_handle(engine, err) < 0 || csn_engine_need(engine, gc, "sweep", err) < 0 ||
        !(op = csn_op_new(engine, sizeof(*op), &kind, user, err)))
        return NULL;
    op->done.count = done;
    return csn_op_begun(op, engine->backend->ops->gc(engine->backend, op, err));
}

int csn_engine_gc(csn_engine *engine, uint32_t *ret_n_removed, csn_error *err)
{
    csn_op_value value;
    int r;

    err = CSN_OP_ERR(err);
    r = csn_op_wait(csn_engine_gc_async(engine, NULL, NULL, err), &value, err);
    if (r >= 0 && ret_n_removed)
        *ret_n_removed = (uint32_t) value.n;
    return r;
}

csn_loop *csn_engine_loop(csn_engine *engine)
{
    return engine->loop;
}

const char *csn_version(void)
{
    return CSN_VERSION;
}
