/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in a sandbox of a service. Four kinds: merged ones are one request (exec.c), others have a session of their own with
 * streams told apart, live (session.c), background ones a session that stays (background.c), and terminals (terminal.c). */
#ifndef CSN_DAYTONA_COMMAND_H
#define CSN_DAYTONA_COMMAND_H

#include "call.h"

/* What one kind does; NULL: it can't. */
typedef struct csn_command_kind {
    csn_exec *(*free)(csn_exec *exec);
    int (*signal)(csn_exec *exec, int signal, bool whole_tree, csn_ending ending, csn_op *op,
                  csn_error *err);
    void (*resume)(csn_exec *exec);
    int (*write)(csn_exec *exec, const void *data, size_t len, size_t *ret_n, csn_error *err);
    int (*close_stdin)(csn_exec *exec, csn_error *err);
    int (*resize)(csn_exec *exec, uint16_t rows, uint16_t cols, csn_error *err);
    struct csn_kept_log *(*log)(csn_exec *exec);
    void (*close)(csn_exec *exec); /* the engine closes; it is in no list any more */
} csn_command_kind;

/* At the start of each kind's own struct. */
typedef struct csn_daytona_command {
    csn_exec base;
    const csn_command_kind *kind;
    csn_list link; /* in csn_daytona.execs; of those that have a `close` */
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
int csn_daytona_exec_resize(csn_exec *exec, uint16_t rows, uint16_t cols, csn_error *err);
int csn_daytona_exec_read_log(csn_exec *exec, int64_t offset, void *data, size_t size,
                              csn_log_piece *ret_piece, csn_error *err);
int csn_daytona_exec_wait(csn_exec *exec, int64_t offset, bool until_closed, csn_op *op,
                          csn_error *err);
int csn_daytona_attach(csn_box *box, uint32_t id, const csn_exec_events *events, void *user,
                       csn_exec **ret_exec, csn_error *err);
int csn_daytona_list_execs(csn_box *box, csn_process_list_fn fn, void *user, csn_op *op,
                           csn_error *err);
int csn_daytona_exec_channel(csn_exec *exec, int which);
void csn_daytona_end_execs(csn_daytona *d); /* the engine closes: each is told */

/* The kinds; the sandbox is started. */
int csn_execute_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                      void *user, csn_exec **ret_exec, csn_error *err);
int csn_background_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                         void *user, csn_exec **ret_exec, csn_error *err);
int csn_terminal_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                       void *user, csn_exec **ret_exec, csn_error *err);

/* What they share: `kill` inside, by a command of its own (op may be NULL); and a JSON request of at most ASK_MS, whose `done`
 * gets `user`. */
int csn_command_signal(csn_box *box, int pid, int number, bool whole_tree, csn_op *op,
                       csn_error *err);
csn_api_call *csn_command_post(csn_box *box, const char *what, const char *url, const csn_buf *body,
                               bool must_finish, csn_api_call_done *done, void *user,
                               csn_error *err);
int csn_session_start(csn_box *box, const csn_exec_spec *spec, const csn_exec_events *events,
                      void *user, csn_exec **ret_exec, csn_error *err);

#endif
