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
    csn_list jobs;       /* of images and volumes: image/engine_view.h */
    bool is_interrupted; /* atomically set from outside */
    uint32_t optional_walls;
};

/* CSN_OK, or CSN_E_INVALID for NULL and for a handle carried over a fork. */
int csn_engine_check_handle(csn_engine *engine, csn_error *err);

/* For handles: keep the struct, not the engine, alive. */
void csn_engine_hold(csn_engine *engine);
void csn_engine_let_go(csn_engine *engine);

/* Runs the loop until *is_done or the deadline (CSN_E_TIMEOUT); CSN_E_CANCELLED after csn_engine_interrupt(). */
int csn_engine_wait_until(csn_engine *engine, const bool *is_done, int64_t deadline_ns,
                          csn_error *err);

/* What a blocking verb leaves with the started one. When the wait is given up the late completion finds is_abandoned
 * and frees the waiter. `drop` (may be NULL) frees the value wherever nobody takes it. */
typedef struct csn_waiter {
    bool is_done, is_abandoned, is_cut;
    int result;
    csn_error err;
    void *value;
    int fd;
    int64_t n;
    void (*drop)(struct csn_waiter *w);
} csn_waiter;

csn_waiter *csn_waiter_new(void (*drop)(csn_waiter *w), csn_error *err); /* NULL: no memory */
/* Waits; the waiter is gone after, its contents are in *ret (may be NULL) on success. */
int csn_waiter_wait(csn_waiter *w, csn_engine *engine, csn_waiter *ret, csn_error *err);
/* Completions call this last; the waiter may be gone after it. */
void csn_waiter_finish(csn_waiter *w, int result, const csn_error *err);
void csn_waiter_done(int result, const csn_error *err, void *user); /* a csn_done_fn */

#endif
