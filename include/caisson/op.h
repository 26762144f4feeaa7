/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_OP_H
#define CAISSON_OP_H

#include <stddef.h>
#include <stdint.h>

#include <caisson/api.h>
#include <caisson/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A verb under way. Every slow verb has two forms:
 *
 *   csn_x(…, err)                     waits for the end of it and returns CSN_OK or a CSN_E_…
 *   csn_x_async(…, done, user, err)   returns at once, with the operation; NULL: it was not begun, *err says why
 *
 * `done` runs once, later, inside csn_engine_dispatch() or a blocking verb of the same engine, never from inside the call
 * that began, cancelled or dropped the operation. It may call anything but csn_engine_free(). It may be NULL for verbs that
 * yield nothing. The handle is valid until `done` was called or the operation was dropped. csn_engine_free() ends what is
 * still under way: `done` runs with an error before it returns. */
typedef struct csn_op csn_op;

/* Gives it up: `done` runs, with CSN_E_CANCELLED, and what was made meanwhile is taken back: a sandbox or an image is gone
 * when `done` runs, a command has been killed. A verb that only changes or ends something (stop, delete, resize, labels) may
 * have done so. NULL is fine. */
CSN_API void csn_op_cancel(csn_op *op);

/* The same for callers who do not want to hear of it: `done` never runs, and what it would have been given is taken back. What
 * the verb was lent is not used any more once this returns. NULL is fine. */
CSN_API void csn_op_drop(csn_op *op);

/* Cancels it that many milliseconds from now, with CSN_E_TIMEOUT; 0: no deadline any more. A later call replaces an earlier
 * one. */
CSN_API int csn_op_set_timeout(csn_op *op, int64_t timeout_ms, csn_error *err);

/* Whose work it is: an owner takes all of its operations along. Embedded in the caller's own struct; zeroed it is empty.
 * An operation leaves its owner when it ends. */
typedef struct csn_op_owner {
    csn_op *first;
} csn_op_owner;

CSN_API void csn_op_set_owner(csn_op *op, csn_op_owner *owner); /* NULL: nobody */
CSN_API void csn_op_owner_cancel(csn_op_owner *owner);          /* each of them */
CSN_API void csn_op_owner_drop(csn_op_owner *owner); /* each of them; it is empty after */

/* Completion of a verb that yields nothing but success. err is NULL on success, valid during the call only. */
typedef void (*csn_done_fn)(int result, const csn_error *err, void *user);
/* Of one that counts. */
typedef void (*csn_count_done_fn)(int64_t n, int result, const csn_error *err, void *user);

#ifdef __cplusplus
}
#endif
#endif
