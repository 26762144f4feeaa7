/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_PROCESS_H
#define CAISSON_PROCESS_H

#include <caisson/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct csn_process csn_process;

typedef enum csn_stream {
    CSN_STDOUT = 1,
    CSN_STDERR = 2
} csn_stream; /* a PTY's output is CSN_STDOUT */

/* Output as it arrives, inside csn_engine_dispatch() or a blocking verb, in arrival order over both streams. Return 0 to
 * go on, 1 to pause: nothing more is read (the program blocks when its pipe is full) until csn_process_resume(). */
typedef int (*csn_output_fn)(csn_process *process, csn_stream stream, const void *data, size_t len,
                             void *user);
/* The command has ended; receipt is valid during the call. Runs once, after the last output. */
typedef void (*csn_exit_fn)(csn_process *process, const csn_receipt *receipt, void *user);

typedef enum csn_stdin {
    CSN_STDIN_NONE = 0,
    CSN_STDIN_BYTES,
    CSN_STDIN_FD,
    CSN_STDIN_PIPE
} csn_stdin;

typedef enum csn_output_policy {
    CSN_OUTPUT_CUT =
        0, /* beyond output_bytes: read on, count, drop; the program neither blocks nor dies */
    CSN_OUTPUT_KILL /* beyond output_bytes: the whole tree is killed, ended = output-limit */
} csn_output_policy;

typedef struct csn_process_options {
    size_t size;
    const char *const *argv; /* NULL at the end; or */
    const char *shell;       /* text for /bin/sh -c. Exactly one of argv and shell */
    const char *const *env;  /* added to the sandbox's; NULL: none */
    const char *cwd;         /* NULL: the sandbox's */
    const char *user;        /* NULL: the sandbox's; "root" only in the profile "root inside" */
    csn_stdin stdin_kind;
    const void *stdin_data; /* BYTES: borrowed until the process ends */
    size_t stdin_len;
    int stdin_fd;         /* FD: a regular file or pipe, read by the library, never handed in */
    int64_t timeout_ms;   /* 0: the sandbox's default; CSN_UNLIMITED: none. Kills the whole tree */
    int64_t output_bytes; /* 0: the sandbox's default; CSN_UNLIMITED. Per stream */
    csn_output_policy output_policy;
    int is_pty;          /* a terminal of its own; implies is_background's log (last 4 MiB kept) */
    uint16_t rows, cols; /* 0: 24 × 80 */
    int is_background; /* the keeper holds its output in a log; it outlives this handle and this program */
    int merge_stderr; /* stderr into the same pipe as stdout: exact order, streams not told apart */
    csn_output_fn on_output; /* NULL: collected, see csn_process_output() */
    csn_exit_fn on_exit;     /* NULL: none */
    void *user_data;
    int has_channel; /* with is_background: a private socket and raw pipes instead of a log, see below */
    const int *own_fds; /* attached only: stdin, stdout and stderr of the command (-1: /dev/null) are these three
                         * descriptors of the caller's, pipes made for it; the library neither reads nor writes them */
    /* Attached only: after its end read on until its children have closed the streams, at most that long; 0: what is there at its
     * end is all. */
    int64_t linger_ms;
} csn_process_options;

/* Starts a command; returns once it runs or could not be started. Errors: CSN_E_NOT_FOUND (program, cwd),
 * CSN_E_DENIED (not executable; user), CSN_E_STATE (not started), CSN_E_LIMIT (too many commands), CSN_E_LOST. */
CSN_API int csn_process_start(csn_sandbox *sandbox, const csn_process_options *opts,
                              csn_process **ret_process, csn_error *err);
typedef void (*csn_process_done_fn)(csn_process *process, int result, const csn_error *err,
                                    void *user);
/* The process is handed out, and on_output may run, once it runs. A cancelled start leaves no command. */
CSN_API csn_op *csn_process_start_async(csn_sandbox *sandbox, const csn_process_options *opts,
                                        csn_process_done_fn done, void *user, csn_error *err);

CSN_API csn_process *
csn_process_free(csn_process *process); /* an attached command still running is killed */
CSN_API uint32_t csn_process_id(const csn_process *process); /* number within the sandbox, from 1 */

/* Waits for the end. deadline_ms: 0 forever; on CSN_E_TIMEOUT the command goes on. */
CSN_API int csn_process_wait(csn_process *process, int64_t deadline_ms, csn_receipt *ret_receipt,
                             csn_error *err);
/* After on_exit. Cancelling it ends the wait, not the command; csn_process_free() cancels it. */
CSN_API csn_op *csn_process_wait_async(csn_process *process, csn_receipt_done_fn done, void *user,
                                       csn_error *err);

/* What was collected so far (no on_output): separate streams, or both in arrival order. Borrowed until the next call. */
CSN_API int csn_process_output(csn_process *process, csn_stream stream, const char **ret_data,
                               size_t *ret_len);
CSN_API int csn_process_output_merged(csn_process *process, const char **ret_data, size_t *ret_len);

/* stdin of CSN_STDIN_PIPE and PTYs: takes what fits without blocking, *ret_n ≤ len. */
CSN_API int csn_process_write(csn_process *process, const void *data, size_t len, size_t *ret_n,
                              csn_error *err);
CSN_API int csn_process_close_stdin(csn_process *process, csn_error *err);
CSN_API int csn_process_resume(csn_process *process);
CSN_API int csn_process_resize(csn_process *process, uint16_t rows, uint16_t cols, csn_error *err);
/* Signal to the command's main process, or with whole_tree to every descendant. */
CSN_API int csn_process_signal(csn_process *process, int signal, int whole_tree, csn_error *err);
/* `done`: the signal was sent. */
CSN_API csn_op *csn_process_signal_async(csn_process *process, int signal, int whole_tree,
                                         csn_done_fn done, void *user, csn_error *err);

/* Background commands and PTYs, from any program: open by number, read the log from any byte offset. */
CSN_API int csn_process_open(csn_sandbox *sandbox, uint32_t id, csn_process **ret_process,
                             csn_error *err);
CSN_API csn_op *csn_process_open_async(csn_sandbox *sandbox, uint32_t id, csn_process_done_fn done,
                                       void *user, csn_error *err);

/* Commands started with has_channel. Inside, descriptor 3 is a SOCK_SEQPACKET socket; outside, csn_process_channel() is
 * its other end, and csn_process_pipe() the read end (not blocking) of stdout or stderr. All three are borrowed from the
 * handle, -1: none. The keeper keeps its own copies: a command lives on while nobody holds a handle, and blocks when a
 * pipe is full; who comes later with csn_process_open() reads what is still there. One reader at a time. */
CSN_API int csn_process_channel(const csn_process *process);
CSN_API int csn_process_pipe(const csn_process *process, csn_stream stream);

typedef struct csn_log_chunk {
    const char *data;    /* borrowed until the next read */
    size_t len;          /* 0: nothing there yet, or the end */
    csn_stream stream;   /* the stream all of `data` came from */
    int64_t next_offset; /* ask for this next */
    int is_end;          /* the command has ended and everything was read */
} csn_log_chunk;
/* offset counts bytes of both streams in arrival order. wait_ms: how long to wait for more (0: not, -1: for ever). */
CSN_API int csn_process_read_log(csn_process *process, int64_t offset, int wait_ms,
                                 csn_log_chunk *ret_chunk, csn_error *err);
/* Done when the log has grown beyond offset or the command has ended. */
CSN_API csn_op *csn_process_wait_log_async(csn_process *process, int64_t offset, csn_done_fn done,
                                           void *user, csn_error *err);

/* Done when the log has grown beyond offset, also after the command's end, or nobody can write to it any more: processes
 * that opened the command's streams may outlive it. */
CSN_API csn_op *csn_process_wait_closed_async(csn_process *process, int64_t offset,
                                              csn_done_fn done, void *user, csn_error *err);

typedef struct csn_process_info {
    uint32_t id;
    const char *command; /* argv joined or the shell text, cut to 4096 bytes */
    int is_background, is_pty, is_running;
    int64_t started_ms;
    csn_receipt receipt;
} csn_process_info;
typedef void (*csn_process_list_fn)(const csn_process_info *info, void *user);
CSN_API int csn_process_list(csn_sandbox *sandbox, csn_process_list_fn fn, void *user,
                             csn_error *err);
/* `fn` runs for each of them before `done`; both get `user`. */
CSN_API csn_op *csn_process_list_async(csn_sandbox *sandbox, csn_process_list_fn fn,
                                       csn_done_fn done, void *user, csn_error *err);

/* Start, wait, collect: what most callers want. The result's buffers are the result's. */
typedef struct csn_run_result {
    csn_receipt receipt;
    char *out, *err, *merged; /* NUL-terminated, never NULL */
    size_t out_len, err_len, merged_len;
} csn_run_result;
CSN_API int csn_run(csn_sandbox *sandbox, const csn_process_options *opts,
                    csn_run_result *ret_result, csn_error *err);
CSN_API void csn_run_result_done(csn_run_result *result);

#ifdef __cplusplus
}
#endif
#endif
