/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_WIRE_H
#define CSN_WIRE_H

/* Theory of operation. Four kinds of SEQPACKET socket carry these frames:
 *
 *   client ⇄ keeper    one connection per client; the creator's is inherited (fd 3), others connect to boxes/<id>/sock
 *   keeper ⇄ init      one socketpair, made before the sandbox exists
 *   client ⇄ worker    one socketpair per file verb; the client passes the far end through keeper and init
 *   engine ⇄ remote    one socketpair per engine whose sandboxes are elsewhere: the helper speaks HTTP for it
 *
 * A frame is one csn_frame header and `len` body bytes, at most CSN_FRAME_MAX together, plus descriptors. A body that
 * does not fit travels in a sealed memfd, which is then the *last* descriptor (CSN_FRAME_MEMFD). All fields are native
 * (both ends run on one machine); all padding is explicit and zero. `seq` is chosen by the asker and repeated in every
 * answer. What comes from init and from workers is said by the attacker: lengths and ranges are checked, numbers are
 * clamped, a frame that is not allowed in the present state ends the connection (and for init, the sandbox).
 *
 * Bodies are a fixed struct below, for some types followed by packed fields (wire/pack.h). */

#include <stdint.h>

enum {
    CSN_FRAME_MAX = 64 * 1024,
    CSN_FRAME_FDS_MAX = 4,
    CSN_BLOB_MAX = 4 * 1024 * 1024, /* of a memfd body: argv and environment are bounded by the kernel at 2 MiB */
    CSN_PROCESS_MAX = 256,          /* commands at once in one sandbox */
    CSN_KEEPER_FD = 3,              /* a keeper's creator connection; also init's control socket */
};

enum { CSN_FRAME_MEMFD = 1 };

typedef struct csn_frame {
    uint32_t type; /* csn_frame_type */
    uint32_t seq;
    uint32_t len;
    uint32_t flags;
} csn_frame;

typedef enum csn_frame_type {
    /* client → keeper */
    CSN_FRAME_PLAN =
        1, /* first on the creator's connection: csn_plan packed (wire/plan.h). fds: [init memfd] */
    CSN_FRAME_SPAWN, /* csn_spawn + packed spec. fds: those in csn_spawn.fds, in the order stdin, stdout, stderr */
    CSN_FRAME_SIGNAL, /* csn_signal */
    CSN_FRAME_ATTACH, /* csn_process_ref → csn_process_state + fds: log, index, [stdin or pty master]; of a command
                          * with a channel: channel, stdout, [stderr] */
    CSN_FRAME_WAIT, /* csn_wait: answered by csn_process_state once the log is longer or the command has ended */
    CSN_FRAME_LIST, /* → one csn_process_state + packed command per process, then DONE */
    CSN_FRAME_STAT, /* → csn_box_state */
    CSN_FRAME_STOP, /* csn_stop: → DONE when every process has ended and cgroups are gone; the keeper then exits */
    CSN_FRAME_LEND, /* freeze and lend: → DONE + fds: directory of the upper layers, user namespace */
    CSN_FRAME_THAW,        /* ends a LEND; so does the end of the connection */
    CSN_FRAME_TIMERS,      /* csn_timers → DONE */
    CSN_FRAME_CLOSE_STDIN, /* csn_process_ref: the keeper lets go of its write end */
    CSN_FRAME_RESIZE,      /* csn_resize → DONE */

    /* engine → caisson-remote; the structs are in wire/web.h */
    CSN_FRAME_WEB_KEY = 32, /* packed csn_web_key, first */
    CSN_FRAME_WEB_ASK,      /* csn_web_ask + packed. fds: [source], [sink] */
    CSN_FRAME_WEB_CANCEL,   /* `seq` names the request; no answer comes any more */
    CSN_FRAME_WEB_LAST,     /* packed csn_web_last; `seq` names it */
    CSN_FRAME_WEB_DIAL, /* csn_web_dial + packed. fds: the helper's end of the socket's channel */

    /* caisson-remote → engine */
    CSN_FRAME_WEB_ANSWER = 48, /* csn_web_end + packed */
    /* On the channel of one WebSocket. Closing the channel closes the socket. */
    CSN_FRAME_WEB_SWITCHED = 52, /* csn_web_switch + packed, first: is it open? */
    CSN_FRAME_WEB_PIECE,         /* csn_web_piece + packed, both ways: (a part of) a message */
    CSN_FRAME_WEB_CLOSED,        /* csn_web_close + packed, last */

    /* keeper → client */
    CSN_FRAME_READY = 64, /* csn_box_state: answer to PLAN */
    CSN_FRAME_STARTED,    /* csn_started: answer to SPAWN */
    CSN_FRAME_EXITED,     /* csn_process_state, unasked, to the connection that spawned it */
    CSN_FRAME_STATE, /* csn_process_state or csn_box_state: answer to ATTACH, WAIT, LIST, STAT */
    CSN_FRAME_DONE,  /* csn_done: plain success */
    CSN_FRAME_ERROR, /* csn_wire_error: any request */

    /* keeper → init */
    CSN_FRAME_INIT_SPAWN =
        128, /* csn_init_spawn + the client's packed spec, untouched. fds: as csn_init_spawn.fds */
    CSN_FRAME_INIT_KILL, /* csn_init_kill */

    /* init, shepherds → keeper */
    CSN_FRAME_INIT_READY = 192, /* no body */
    CSN_FRAME_INIT_STARTED,     /* csn_init_started. fds: pty master for CSN_SPAWN_PTY */
    CSN_FRAME_INIT_FAILED,      /* csn_init_failed: the program did not start */
    CSN_FRAME_INIT_EXITED, /* csn_init_exited. FAILED or EXITED is the last word on a process, even before
                                 * STARTED. When a shepherd is killed while it speaks, init may say the end again: the
                                 * keeper ignores what it knows already */

    /* worker → client */
    CSN_FRAME_FILE_FD = 224, /* csn_file_done + fd; FILE_DONE follows */
    CSN_FRAME_FILE_ENTRY,    /* csn_file_entry + packed: path, target, owner, group */
    CSN_FRAME_FILE_MATCH,    /* csn_file_hit + packed: path, text (bytes) */
    CSN_FRAME_FILE_DONE      /* csn_file_done: the last frame */
} csn_frame_type;

/* --- commands ------------------------------------------------------------------------------------------------- */

enum { CSN_SPAWN_EXEC = 1, CSN_SPAWN_FILES = 2 };

enum { /* csn_spawn.flags */
    CSN_SPAWN_SHELL = 1,      /* spec argv[0] is text for /bin/sh -c */
    CSN_SPAWN_PTY = 2,
    CSN_SPAWN_BACKGROUND = 4, /* the keeper holds the streams (implied by PTY) */
    CSN_SPAWN_MERGED = 8,     /* stderr is stdout */
    CSN_SPAWN_STDIN_PIPE = 16, /* background: the keeper makes a stdin pipe and lends its write end */
    CSN_SPAWN_ROOT = 32,      /* run as inside root; refused outside the profile "root inside" */
    CSN_SPAWN_LAST = 128,     /* when it has ended, the sandbox ends as by STOP without grace */
    CSN_SPAWN_CHANNEL = 64    /* background: no log; descriptor 3 is a SEQPACKET socket, its other end and the read ends
                               * of the output pipes are kept by the keeper and lent to clients */
};

enum { CSN_FD_STDIN = 1, CSN_FD_STDOUT = 2, CSN_FD_STDERR = 4, CSN_FD_CHANNEL = 8 }; /* absent stdio is /dev/null */

/* The packed spec of an EXEC: wire/spec.h. Of FILES: wire/filereq.h. */
typedef struct csn_spawn {
    uint32_t kind;
    uint32_t flags;
    uint32_t fds;
    uint16_t rows, cols;
    int64_t timeout_ms;    /* ≤ 0: none */
    int64_t output_bytes;  /* background: kept in the log; < 0: no limit */
    uint32_t kill_on_output_limit;
    uint32_t reserved;
} csn_spawn;

typedef struct csn_started {
    uint32_t process;
    uint32_t reserved;
} csn_started;

typedef struct csn_signal {
    uint32_t process;
    int32_t signal;
    uint32_t whole_tree;
    uint32_t ending; /* csn_ending to report when this kills it (0: none): output-limit is noticed by the client */
} csn_signal;

typedef struct csn_process_ref {
    uint32_t process;
    uint32_t reserved;
} csn_process_ref;

enum {
    CSN_WAIT_CLOSED = 1
}; /* csn_wait.flags: after its end, too, until nobody can write to its log */

typedef struct csn_wait {
    uint32_t process;
    uint32_t flags;
    int64_t log_offset; /* < 0: only the end */
} csn_wait;

typedef struct csn_process_state {
    uint32_t process;
    uint32_t flags; /* CSN_SPAWN_… */
    uint32_t ended; /* csn_ending; 0: running */
    int32_t exit_code;
    int32_t signal;
    uint32_t is_cut;
    int64_t started_ms; /* Unix time */
    int64_t wall_us, user_us, sys_us;
    int64_t peak_memory_bytes, bytes_written, n_processes;
    int64_t log_bytes; /* offset of the log's end, both streams */
    int64_t stdout_bytes, stderr_bytes; /* produced; background only, else 0 */
    int64_t timeout_ms, output_bytes; /* in force */
    int64_t
        outer_limit; /* of memory or processes, of a group around ours: what it met; 0: our own */
} csn_process_state;

typedef struct csn_box_state {
    int32_t keeper_pid, init_pid; /* host pids */
    uint32_t walls, walls_missing;
    uint32_t limits_kernel, rung, disk_rung, shares_host_uid;
    int64_t memory_limit_bytes, cpu_limit_milli, pids_limit, disk_limit_bytes;
    int64_t started_ms, wall_us, user_us, sys_us;
    int64_t memory_bytes, peak_memory_bytes;
    int64_t n_processes_now, n_processes_total;
    int64_t disk_bytes, disk_inodes;
    int64_t stdout_bytes, stderr_bytes;
    uint32_t n_commands_running, ended; /* csn_ending of the sandbox, 0 while it runs */
    uint32_t cpu_rung, reserved;
    int64_t cpu_asked_milli; /* 0: cpu_limit_milli is what was asked for */
} csn_box_state;

typedef struct csn_stop {
    int32_t grace_ms; /* < 0: none */
    uint32_t delete_too; /* the keeper removes what it owns on disk, too */
} csn_stop;

typedef struct csn_timers {
    int64_t ttl_ms, idle_stop_ms;
} csn_timers;

typedef struct csn_resize {
    int64_t memory_bytes, cpu_milli; /* 0: as it is; < 0: none */
} csn_resize;

typedef struct csn_done {
    int64_t value;
} csn_done;

typedef struct csn_wire_error {
    int32_t code; /* CSN_E_… */
    int32_t sys_errno;
    char message[248];
} csn_wire_error;

/* --- keeper ⇄ init -------------------------------------------------------------------------------------------- */

typedef struct csn_init_spawn {
    uint32_t process; /* the keeper's number, also in INIT_… answers; 0 for FILES, which are not answered */
    uint32_t kind, flags, fds;
    uint16_t rows, cols;
    uint32_t uid, gid; /* inside */
    uint32_t reserved;
} csn_init_spawn;

typedef struct csn_init_kill {
    uint32_t process; /* 0: everyone but init; SIGSTOP and SIGCONT are then a freeze and its thaw */
    int32_t signal;
    uint32_t whole_tree; /* with SIGKILL: again and again until no descendant is left */
    uint32_t reserved;
} csn_init_kill;

typedef struct csn_init_started {
    uint32_t process;
    int32_t pid; /* inside */
} csn_init_started;

typedef struct csn_init_failed {
    uint32_t process;
    int32_t sys_errno;
    uint32_t stage; /* csn_spawn_stage */
    uint32_t reserved;
} csn_init_failed;

typedef enum csn_spawn_stage {
    CSN_STAGE_FORK = 1,
    CSN_STAGE_CWD,
    CSN_STAGE_USER,
    CSN_STAGE_TTY,
    CSN_STAGE_STDIO,
    CSN_STAGE_EXEC,
    CSN_STAGE_SPEC
} csn_spawn_stage;

typedef struct csn_init_exited {
    uint32_t process;
    int32_t wait_status; /* as waitpid gives it; -1: its shepherd was killed and nobody knows */
    int64_t user_us, sys_us;
    int64_t max_rss_bytes;
    int64_t n_tasks; /* created in the PID namespace while it ran */
} csn_init_exited;

/* --- files ---------------------------------------------------------------------------------------------------- */

typedef struct csn_file_entry {
    uint32_t kind; /* csn_file_kind */
    uint32_t mode, uid, gid;
    int64_t size_bytes, mtime_ns;
} csn_file_entry; /* packed: string path, target, owner, group (the last two empty when nameless) */

typedef struct csn_file_hit {
    int64_t line;
} csn_file_hit; /* packed: string path, bytes text */

typedef struct csn_file_done {
    int32_t sys_errno; /* 0: success; EISDIR, EINVAL (not regular) … */
    uint32_t is_cut;   /* more results than asked for */
    int64_t value;     /* REPLACE: replacements; FD: size */
} csn_file_done;

#endif
