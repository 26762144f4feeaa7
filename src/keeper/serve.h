/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_SERVE_H
#define CSN_KEEPER_SERVE_H

/* What the keeper does once its sandbox stands. Handlers run in the loop; a handler that ends a client or the sandbox
 * returns right after. */

#include "keeper.h"

extern char csn_frame_bytes
    [CSN_FRAME_MAX]; /* main.c: the one receive buffer; a frame is done before the next */

/* --- clients.c: connections and their frames --------------------------------------------------------------------- */

typedef struct csn_waiter {
    csn_list link; /* in the client's list */
    csn_client *client;
    uint32_t process, seq;
    int64_t log_offset;
    bool is_for_close;
} csn_waiter;

typedef struct csn_pending {
    csn_list link;
    size_t len, n_fds;
    int fds[CSN_FRAME_FDS_MAX];
    char bytes[]; /* header and body */
} csn_pending;

struct csn_client {
    csn_list link;
    csn_keeper *k;
    int fd;
    csn_source *src;
    bool is_creator;
    bool wants_end; /* asked to STOP: answered at the very end */
    uint32_t stop_seq;
    csn_list waiters;
    unsigned n_waiters;
    csn_list out; /* csn_pending: while there is any, nothing is read from it */
    size_t out_bytes;
};

int csn_client_hear_early(csn_keeper *k, csn_error *err); /* a step of the setup: a command sent behind the plan */
int csn_client_add(csn_keeper *k, int fd, bool is_creator,
                   csn_client **ret_client); /* fd is taken on success */
void csn_client_drop(csn_client *client);
int csn_clients_listen(csn_keeper *k, csn_error *err);

/* Answers. A client that does not read is dropped rather than waited for; so after these it may be gone. */
void csn_reply(csn_client *client, const csn_out *out);
void csn_reply_done(csn_client *client, uint32_t seq, int64_t value);
void csn_reply_error(csn_client *client, uint32_t seq, const csn_error *err);
void csn_frame_error(int fd, uint32_t seq,
                     const csn_error *err); /* without a client: before there is one */

/* --- requests.c: what a client may ask --------------------------------------------------------------------------- */

void csn_request_handle(csn_client *client, csn_msg *msg);
void csn_box_state_fill(csn_keeper *k, csn_box_state *ret_state);

/* --- commands.c -------------------------------------------------------------------------------------------------- */

struct csn_command {
    csn_list link;
    csn_keeper *k;
    csn_client *owner; /* NULL: it is gone */
    uint32_t spawn_seq;
    bool is_started;
    csn_process_state state;
    csn_ending reason; /* why we killed it, 0: we did not */
    csn_timer deadline_timer, kill_timer;
    int64_t kill_until_ns; /* even a crowded machine is waited for no longer */
    int64_t start_ns, disk_at_start;
    uint64_t oom_at_start, denied_at_start, full_at_start;
    bool was_disk_full; /* when it began: then it was not this command that filled it */
    csn_log_files *log; /* background only */
    char *text;         /* argv joined, or the shell text */
    char *cwd;
    bool kill_on_limit;
};

void csn_command_spawn(csn_client *client, csn_msg *msg);
void csn_commands_begin(csn_keeper *k); /* the sandbox stands: the time of early ones counts from now */
csn_command *csn_command_find(csn_keeper *k, uint32_t number, bool or_ended);
/* SIGKILL to the whole tree; `reason` is what its receipt will say. The sandbox goes if the tree stays. */
void csn_command_kill(csn_command *cmd, csn_ending reason);
void csn_command_signal(csn_client *client, uint32_t seq, const csn_signal *sig);
void csn_command_log_grew(csn_command *cmd); /* or closed */
/* Is a WAIT over? */
bool csn_command_is_told(const csn_command *cmd, int64_t log_offset, bool is_for_close);
/* The oldest ended one but `except`, with its log. False: there is none. */
bool csn_commands_forget_one(csn_keeper *k, const csn_command *except);
void csn_commands_end_all(csn_keeper *k, csn_ending ending);
void csn_commands_free_all(csn_keeper *k);
void csn_commands_client_gone(csn_keeper *k, csn_client *client);
void csn_command_finish(csn_command *cmd, csn_ending ending, int exit_code, int sig);
csn_ending csn_command_classify(csn_command *cmd, int wait_status); /* endings.c */

/* --- link.c: what init says -------------------------------------------------------------------------------------- */

int csn_link_open(csn_keeper *k);
void csn_link_hear(csn_keeper *k); /* what init has said by now. Commands may be gone afterwards */
int csn_link_spawn(csn_keeper *k, const csn_init_spawn *spawn, csn_unpack spec, const int *fds,
                   size_t n_fds);
void csn_link_kill(csn_keeper *k, uint32_t process, int sig, bool whole_tree);

/* --- logs.c: background output ----------------------------------------------------------------------------------- */

struct csn_log_files {
    csn_command *cmd;
    int log_fd, index_fd;
    int in_fd;     /* stdin's write end, the pty master, or our end of the channel */
    int out_fd[2]; /* read ends: stdout or pty, stderr */
    csn_source *src[2];
    int64_t end;       /* offset of the log's end */
    int64_t n_kept[2]; /* bytes of each stream in the log */
    int64_t punched;   /* PTY: everything before is a hole */
    int64_t n_index;   /* records */
    uint32_t last_stream;
};

/* Makes the log and the pipes. *ret_fds are the far ends for init: stdin, stdout, stderr, channel; -1 where there is
 * none. */
int csn_log_open(csn_command *cmd, int ret_fds[4], csn_error *err);
int csn_log_set_pty(csn_command *cmd, int master_fd); /* taken */
void csn_log_drain(csn_command *cmd);                 /* what is there now */
bool csn_log_is_open(const csn_command *cmd);         /* somebody may still write to it */
void csn_log_free(csn_command *cmd);
int csn_log_lend(csn_command *cmd, int ret_fds[3],
                 size_t *ret_n); /* new descriptors for a client */
int csn_logs_clear(csn_keeper *k);

/* --- watch.c: limits that no kernel enforces, timers -------------------------------------------------------------- */

void csn_watch_start(csn_keeper *k);
void csn_watch_busy(
    csn_keeper *k);               /* a command or file worker was started: sample while any runs */
bool csn_is_empty(csn_keeper *k); /* nobody but init */
bool csn_is_crowded_out(csn_keeper *k); /* few are inside, and others keep every processor busy */
int64_t csn_disk_used(csn_keeper *k);
int64_t csn_disk_when_built(const csn_keeper *k); /* for commands that came before it stood */
bool csn_disk_is_full(csn_keeper *k);
void csn_timers_set(csn_keeper *k);
void csn_touch(csn_keeper *k); /* somebody used the sandbox */

/* --- end.c -------------------------------------------------------------------------------------------------------- */

/* SIGTERM to all, `grace_ms` to obey (< 0: none), then the end. */
void csn_end_begin(csn_keeper *k, csn_ending ending, int grace_ms, bool delete_too);
void csn_end_now(csn_keeper *k,
                 csn_ending ending); /* leaves the loop; the rest is csn_end_finish() */
void csn_end_finish(csn_keeper *k);  /* after the loop: kill, reap, remove, answer */

/* --- lend.c ------------------------------------------------------------------------------------------------------- */

void csn_lend(csn_client *client, uint32_t seq);
void csn_thaw(csn_keeper *k);

#endif
