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

/* An operation that yields a sandbox: ended by csn_op_end_box(). NULL: no memory. */
csn_op *csn_op_new_sandbox(csn_engine *engine, csn_sandbox_done_fn done, void *user,
                           csn_error *err);
/* A create of what is wished; `wish` is taken on success. */
csn_op *csn_sandbox_begin(csn_engine *engine, csn_wish *wish, csn_sandbox_done_fn done, void *user,
                          csn_error *err);
/* The blocking form of one. */
int csn_op_wait_sandbox(csn_op *op, csn_sandbox **ret_sandbox, csn_error *err);

/* Checks the handle and that the backend has the verb; CSN_OK or the reason. */
#define csn_sandbox_need(sandbox, verb, what, err) \
    (csn_sandbox_check(sandbox, err) < 0 ? CSN_E_INVALID \
     : (sandbox)->box->ops->verb         ? CSN_OK \
                                         : (sandbox)->box->ops->cannot((sandbox)->box, what, err))

#endif
