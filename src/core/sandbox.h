/* The sandbox handle's inside, for the files of core/. */
#ifndef CSN_CORE_SANDBOX_H
#define CSN_CORE_SANDBOX_H

#include <caisson/sandbox.h>

#include "core/backend.h"
#include "core/engine.h"

struct csn_sandbox {
    csn_engine *engine; /* held */
    csn_box *box;       /* counted */
    unsigned n_refs;    /* the caller's and those of its processes and requests */
};

/* CSN_OK, or CSN_E_INVALID for NULL, a closed engine and a handle carried over a fork. */
int csn_sandbox_check(const csn_sandbox *sandbox, csn_error *err);
csn_sandbox *csn_sandbox_of(csn_engine *engine, csn_box *box); /* box: counted; NULL: no memory */
csn_sandbox *csn_sandbox_ref(csn_sandbox *sandbox);

/* A started verb that yields a sandbox: `done` and where to call it. */
typedef struct csn_sandbox_promise {
    csn_engine *engine; /* held */
    csn_sandbox_done_fn done;
    void *user;
} csn_sandbox_promise;
csn_sandbox_promise *csn_sandbox_promise_new(csn_engine *engine, csn_sandbox_done_fn done, void *user,
                                       csn_error *err);
csn_sandbox_promise *csn_sandbox_promise_free(csn_sandbox_promise *promise);
/* A csn_box_done_fn. */
void csn_sandbox_promise_done(csn_box *box, int result, const csn_error *err, void *user);
/* For the blocking twins: waits and yields the sandbox, or drops it when interrupted. */
csn_waiter *csn_sandbox_waiter(csn_error *err);
void csn_sandbox_waiter_done(csn_sandbox *sandbox, int result, const csn_error *err, void *user);
int csn_sandbox_waiter_wait(csn_waiter *w, csn_engine *engine, csn_sandbox **ret_sandbox,
                            csn_error *err);

#endif
