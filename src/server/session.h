/* SPDX-License-Identifier: Apache-2.0 */
/* A session: one shell that lives from command to command.
 *
 * Theory of operation. The shell is a background command of the sandbox, so it outlives this server: the keeper holds its
 * stdin, through which it gets its script, and its stdout, on which it reports and nothing else. A user's command is one line
 * of that script (session_script.c), with its streams taken from a courier: a process that does nothing but hold three pipes
 * made for this command, a background command itself, so that the keeper writes what comes to a log. Every command has
 * streams of its own, also for the children it leaves behind, and what a program prints can never be taken for a report:
 * while it runs, the reporting end is out of its reach (close-on-exec, under a number above ten) and the nonce is not yet
 * read. Code that goes looking for it inside the shell can cheat about itself; a report that names another nonce is dropped.
 *
 * When a report comes, the courier is killed; the keeper reads all that is in the pipes before it says that the courier has
 * ended, and then the command has. The pipes stay open for children in the background until the last one closed them.
 *
 * If the shell itself ends, its status is the running command's, and the session has ended.
 *
 * What must be known of a session to go on with it is told to a `keep` function as it happens: which commands there are,
 * in which order, and how they ended. The rest a later server finds: the shell and the couriers, by a mark among their
 * arguments, and their output from its first byte. A command whose courier is there is told to the shell again, which does
 * nothing if it knows it. */
#ifndef CSN_SERVER_SESSION_H
#define CSN_SERVER_SESSION_H

#include <caisson/process.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/time.h"
#include "server/cmdlog.h"
#include "server/held.h"

enum {
    /* What a session remembers; beyond any of these finished commands are forgotten, oldest first. */
    CSN_SESSION_COMMANDS_MAX = 10000,
    CSN_SESSION_TEXTS_MAX = 16 << 20,
    CSN_SESSION_LOGS_MAX = 128 << 20,
    CSN_SESSION_QUEUE_MAX = 256,     /* waiting for their turn */
    CSN_SESSION_INPUT_MAX = 1 << 20, /* input that a command has not read yet */
    CSN_SESSION_TEXT_MAX = 16 << 20,
    CSN_SESSION_SCRIPT_MAX = 4 * CSN_SESSION_TEXT_MAX + 4096, /* for the shell, not yet read */
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

/* Whether a script too long for one write was passed on to the shell. */
typedef enum csn_session_told { CSN_TOLD_NOT, CSN_TOLD_IN_PART, CSN_TOLD_ALL } csn_session_told;

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
    bool is_finishing; /* the shell has reported; exit_code is set */
    bool is_courier_gone, is_log_closed;
    csn_session_told told;
    csn_held *courier; /* NULL: not yet, or no longer needed */
    csn_cmdlog log;
    csn_list echoes; /* of a restored one: not yet in the log */
    csn_list watches;
};

typedef enum csn_session_event {
    CSN_SESSION_BEGUN,
    CSN_SESSION_GONE,
    CSN_SESSION_COMMAND_NEW,
    CSN_SESSION_COMMAND_TOLD,
    CSN_SESSION_COMMAND_ENDED,
    CSN_SESSION_COMMAND_FORGOTTEN
} csn_session_event;

/* command: NULL for what concerns the session alone. */
typedef void csn_session_keep_fn(const csn_session *session, csn_session_event event,
                                 const csn_session_command *command, void *user);
/* Input was echoed into the command's log when `at` bytes of output had been given out. */
typedef void csn_session_echo_fn(const csn_session_command *command, int64_t at, const char *data,
                                 size_t len, void *user);

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
    csn_held *shell;
    char mark[33];    /* names it among the sandbox's commands */
    bool is_standing; /* the shell was started */
    bool is_ended;
    bool is_deleted; /* what it holds ends with it; else it is only let go of */
    int exit_code;
    char bye[33];  /* nonce of the last report when it is deleted */
    bool *is_gone; /* while a report is read: becomes true when we are freed in it */
    char line[80]; /* of the report, as far as it came */
    size_t line_len;
    csn_session_fn *started;
    void *started_user;
    csn_session_fn *deleted; /* being deleted: whom to tell */
    void *deleted_user;
    csn_timer grace;
    /* the sandbox was frozen for a copy: the running command's courier is due again */
    csn_timer again;
    csn_session_keep_fn *keep; /* NULL: it ends with us */
    csn_session_echo_fn *keep_echo;
    void *keep_user;
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

/* ---- coming back to one that an earlier server made (session_restore.c) ---- */

/* Without a shell for now. NULL: no memory. */
csn_session *csn_session_restore(csn_loop *loop, csn_sandbox *box, const char *id, const char *mark,
                                 int log_dir_fd);
/* Behind those that were restored before. exit_code: NULL: it has not ended. NULL: no memory. */
csn_session_command *csn_session_restore_command(csn_session *session, const char *id,
                                                 const char *text, const char *nonce, bool is_async,
                                                 bool no_echo, csn_session_told told,
                                                 const int *exit_code);
/* Input that was echoed into its log then; in this order. 0 or -ENOMEM. */
int csn_session_restore_echo(csn_session_command *command, int64_t at, const char *data,
                             size_t len);
/* number: of the courier, 0: it is not there. */
void csn_session_attach_command(csn_session_command *command, uint32_t number);
/* Then the shell: the session goes on. 0: it is not there, and the session has ended. */
void csn_session_attach(csn_session *session, uint32_t number);

/* ---- between its files ---- */

extern const csn_held_events csn_session_shell_events, csn_session_courier_events;
void csn_session_log(csn_session_command *command, csn_stream stream, const char *data, size_t len);
void csn_session_put_echoes(csn_session_command *command, int64_t up_to);
void csn_session_free_echoes(csn_session_command *command);
void csn_session_lose(csn_session *session); /* its shell is not there */
int csn_session_put_script(const csn_session_command *command, csn_buf *out);

/* "NONCE CODE" out of the shell's report: fills both or returns -EBADMSG. Split off for the fuzzer. */
int csn_session_parse_report(const char *line, size_t len, char ret_nonce[33], int *ret_code);

#endif
