/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in a sandbox of a service. Two kinds: merged ones are one request (exec.c), the others have a session of their own
 * with streams told apart, live (session.c). */
#ifndef CSN_DAYTONA_COMMAND_H
#define CSN_DAYTONA_COMMAND_H

#include "daytona.h"

/* What one kind does; NULL: it can't. */
typedef struct csn_command_kind {
    csn_exec *(*free)(csn_exec *exec);
    int (*signal)(csn_exec *exec, int signal, bool whole_tree, csn_ending ending, csn_op *op,
                  csn_error *err);
    void (*resume)(csn_exec *exec);
    int (*write)(csn_exec *exec, const void *data, size_t len, size_t *ret_n, csn_error *err);
    int (*close_stdin)(csn_exec *exec, csn_error *err);
} csn_command_kind;

/* At the start of each kind's own struct. */
typedef struct csn_daytona_command {
    csn_exec base;
    const csn_command_kind *kind;
} csn_daytona_command;

/* The table's part. */
int csn_daytona_exec(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                     void *user, csn_exec **ret_exec, csn_error *err);
csn_exec *csn_daytona_exec_free(csn_exec *exec);
int csn_daytona_exec_signal(csn_exec *exec, int signal, bool whole_tree, csn_ending ending,
                            csn_op *op, csn_error *err);
void csn_daytona_exec_resume(csn_exec *exec);
int csn_daytona_exec_write(csn_exec *exec, const void *data, size_t len, size_t *ret_n,
                           csn_error *err);
int csn_daytona_exec_close_stdin(csn_exec *exec, csn_error *err);
int csn_daytona_exec_channel(csn_exec *exec, int which);
void csn_daytona_end_execs(csn_daytona *d); /* the engine closes: each is told */

/* The kinds; the sandbox is started. */
int csn_execute_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                      void *user, csn_exec **ret_exec, csn_error *err);
int csn_session_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                      void *user, csn_exec **ret_exec, csn_error *err);

#endif
