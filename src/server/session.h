/* SPDX-License-Identifier: Apache-2.0 */
/* A session: one shell that lives from command to command.
 *
 * Theory of operation. The shell is an attached command of the sandbox (so it ends with this server) that reads its script
 * from a pipe of ours; its own stdout is a pipe too, on which it reports, and nothing else. A user's command is one line of
 * that script,
 *
 *     { eval 'TEXT'; } </proc/P/fd/0 >/proc/P/fd/1 2>/proc/P/fd/2
 *     command printf '%s %s\n' NONCE $?
 *
 * where P is a courier: a process that does nothing but hold three pipes made for this command. So every command has streams
 * of its own, also for the children it leaves behind, and what a program prints can never be taken for a report: while it
 * runs, the reporting end is out of its reach (close-on-exec, under a number above ten) and the nonce is not yet read. Code
 * that goes looking for it inside the shell can cheat about itself; a report that names another nonce is dropped.
 *
 * When a report comes, all that the command wrote is in its pipes; they are emptied before anyone is told. The pipes stay
 * open for children in the background until the last one closed them. The courier is killed when the command ends.
 *
 * If the shell itself ends, its status is the running command's, and the session has ended. */
#ifndef CSN_SERVER_SESSION_H
#define CSN_SERVER_SESSION_H

#include <caisson/process.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/time.h"
#include "server/cmdlog.h"
#include "server/feed.h"
#include "server/tap.h"

enum {
    /* What a session remembers; beyond any of these finished commands are forgotten, oldest first. */
    CSN_SESSION_COMMANDS_MAX = 10000,
    CSN_SESSION_TEXTS_MAX = 16 << 20,
    CSN_SESSION_LOGS_MAX = 128 << 20,
    CSN_SESSION_QUEUE_MAX = 256,     /* waiting for their turn */
    CSN_SESSION_INPUT_MAX = 1 << 20, /* input that a command has not read yet */
    CSN_SESSION_TEXT_MAX = 16 << 20,
    CSN_SESSION_GRACE_MS = 5000
};

typedef struct csn_session csn_session;
typedef struct csn_session_command csn_session_command;

/* Somebody who wants to know when a command's log grew or it ended. Embedded, zero before use. */
typedef struct csn_session_watch csn_session_watch;
struct csn_session_watch {
    csn_list link;
    void (*changed)(csn_session_watch *watch, csn_session_command *command);
};

struct csn_session_command {
    csn_list link; /* in csn_session.commands, oldest first */
    csn_session *session;
    char id[37];
    char *text;
    bool is_async, no_echo;
    bool is_started, is_ended;
    bool is_dropped; /* the session is being deleted: watchers let go */
    int exit_code;   /* once is_ended; -1: it was never run */
    char nonce[33];
    bool has_pid; /* the courier said who it is */
    char pid[12];
    csn_process *courier;
    csn_op *courier_coming;
    csn_cmdlog log;
    csn_tap out, err;
    csn_feed in;
    csn_list watches;
};

typedef void csn_session_fn(csn_session *session, int result, const csn_error *err, void *user);

struct csn_session {
    csn_list link; /* the owner's */
    csn_loop *loop;
    csn_sandbox *box; /* borrowed; must live as long */
    char *id;
    char *cwd;
    char **env;
    int log_dir_fd; /* borrowed; -1: logs in memory */
    csn_list commands;
    size_t n_commands, n_waiting;
    size_t text_bytes;
    int64_t log_bytes;
    csn_session_command *running;
    csn_process *shell;
    csn_op *shell_coming;
    bool is_sh; /* bash is not there, sh is */
    bool is_ended;
    int exit_code;
    char bye[33]; /* nonce of the last report when it is deleted */
    csn_feed script;
    csn_tap report, complaints;
    char line[80]; /* of the report, as far as it came */
    size_t line_len;
    csn_session_fn *started;
    void *started_user;
    csn_session_fn *deleted; /* being deleted: whom to tell */
    void *deleted_user;
    csn_timer grace;
    /* the sandbox was frozen for a copy: the running command's courier is due again */
    csn_timer again;
};

/* Starts the shell; `started` runs once, from the loop. env, cwd, id: copied. NULL: it could not even be tried, see err. On
 * failure (result < 0) the session is freed after `started` returned. */
csn_session *csn_session_new(csn_loop *loop, csn_sandbox *box, const char *id,
                             const char *const *env, const char *cwd, int log_dir_fd,
                             csn_session_fn *started, void *user, csn_error *err);

/* Queues a command. CSN_OK, CSN_E_STATE (ended), CSN_E_LIMIT (too many wait), CSN_E_TOO_LARGE, CSN_E_NO_MEMORY. */
int csn_session_exec(csn_session *session, const char *text, bool is_async, bool no_echo,
                     csn_session_command **ret, csn_error *err);
csn_session_command *csn_session_find(csn_session *session, const char *command_id);
/* Text for a running async command, a newline added if it ends in none. CSN_E_STATE: it has ended. CSN_E_LIMIT: it does
 * not read what it has. */
int csn_session_input(csn_session_command *command, const char *data, size_t len, csn_error *err);

void csn_session_watch_add(csn_session_command *command, csn_session_watch *watch);
void csn_session_watch_remove(csn_session_watch *watch);

/* SIGTERM to everyone, time to comply, SIGKILL; `deleted` runs once nothing is left, and the session is freed. */
void csn_session_delete(csn_session *session, csn_session_fn *deleted, void *user);
csn_session *
csn_session_free(csn_session *session); /* at once; whoever waits is told (is_dropped) */

/* "NONCE CODE" out of the shell's report: fills both or returns -EBADMSG. Split off for the fuzzer. */
int csn_session_parse_report(const char *line, size_t len, char ret_nonce[33], int *ret_code);

#endif
