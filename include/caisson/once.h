/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_ONCE_H
#define CAISSON_ONCE_H

#include <stdint.h>

#include <caisson/api.h>
#include <caisson/engine.h>
#include <caisson/error.h>
#include <caisson/files.h>
#include <caisson/op.h>
#include <caisson/process.h>
#include <caisson/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One command in a sandbox of its own, as `caisson run` does it.
 *
 * This is quicker than csn_sandbox_create(), csn_process_start() and csn_sandbox_delete(): the command is sent while the sandbox
 * is still being built, and when it has ended the sandbox ends without being told. An engine opened for one such command is
 * quickest with n_spare = 1. */

/* A file that is copied in before the command starts. The command then waits until the sandbox stands. */
typedef struct csn_once_file {
    const char *path; /* inside, absolute */
    const csn_file_source *from;
    uint32_t mode; /* 0: 0644 */
} csn_once_file;

/* `box`: NULL for the defaults; the sandbox is ephemeral, and attached to the engine. `command`: attached too, without a terminal.
 * `file`: NULL for none. On success *ret_process runs and is yours to csn_process_free(), which ends the sandbox if the command
 * has not; when the command has ended, what still runs beside it is killed, and the sandbox goes. Who must know that it is gone
 * calls csn_sandbox_delete(csn_process_sandbox(…)).
 *
 * On failure nothing remains. *ret_is_made (it may be NULL) is 1 if the sandbox was built and the file copied, so that the failure
 * is the command's. Errors: those of csn_sandbox_create() and csn_process_start(). */
CSN_API int csn_run_once(csn_engine *engine, const csn_sandbox_options *box,
                         const csn_process_options *command, const csn_once_file *file,
                         csn_process **ret_process, int *ret_is_made, csn_error *err);

/* process: yours, NULL on failure. */
typedef void (*csn_once_done_fn)(csn_process *process, int is_made, int result,
                                 const csn_error *err, void *user);
/* What `command` and `file` point to is borrowed until `done`. Cancelled or dropped, the sandbox is deleted first. */
CSN_API csn_op *csn_run_once_async(csn_engine *engine, const csn_sandbox_options *box,
                                   const csn_process_options *command, const csn_once_file *file,
                                   csn_once_done_fn done, void *user, csn_error *err);

/* The sandbox that a command runs in; borrowed from the process. */
CSN_API csn_sandbox *csn_process_sandbox(const csn_process *process);

#ifdef __cplusplus
}
#endif
#endif
