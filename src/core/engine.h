/* The engine's inside, for the files of core/. */
#ifndef CSN_CORE_ENGINE_H
#define CSN_CORE_ENGINE_H

#include <stdbool.h>
#include <sys/types.h>

#include <caisson/engine.h>

#include "base/list.h"
#include "base/loop.h"
#include "core/backend.h"

struct csn_engine {
    pid_t pid; /* the process it was opened in */
    csn_loop *loop;
    csn_backend *backend; /* NULL once closed */
    unsigned n_handles;   /* sandboxes and processes that point here; the last one frees a closed engine */
    csn_list ops;         /* csn_op.link: what is under way */
    bool is_closing;
    bool is_interrupted; /* atomically set from outside */
    uint32_t optional_walls;
    csn_engine_options options; /* as it was opened; strings and all its own */
};

/* CSN_OK, or CSN_E_INVALID for NULL and for a handle carried over a fork. */
int csn_engine_check_handle(csn_engine *engine, csn_error *err);

/* For handles: keep the struct, not the engine, alive. */
void csn_engine_hold(csn_engine *engine);
void csn_engine_let_go(csn_engine *engine);

/* Runs the loop until *is_done or the deadline (CSN_E_TIMEOUT); CSN_E_CANCELLED after csn_engine_interrupt(). */
int csn_engine_wait_until(csn_engine *engine, const bool *is_done, int64_t deadline_ns,
                          csn_error *err);

/* CSN_OK, or how the backend says that it has no such verb. */
#define csn_engine_need(engine, verb, what, err) \
    ((engine)->backend->ops->verb ? CSN_OK : (engine)->backend->ops->cannot(NULL, what, err))

/* For src/engine: an engine around a backend that `open` makes. */
typedef int csn_backend_open_fn(csn_loop *loop, const csn_engine_options *opts,
                                csn_backend **ret_backend, csn_error *err);
int csn_engine_new(const csn_engine_options *opts, csn_backend_open_fn *open,
                   csn_engine **ret_engine, csn_error *err);

#endif
