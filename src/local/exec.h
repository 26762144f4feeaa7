/* One command's inside, shared by exec.c (streams and its end), stdin.c (what goes in) and execlog.c (what the keeper
 * holds for it). */
#ifndef CSN_LOCAL_EXEC_H
#define CSN_LOCAL_EXEC_H

#include "base/buf.h"
#include "local/local.h"

typedef struct csn_local_exec csn_local_exec;

typedef struct csn_out_stream {
    int fd; /* our end of the pipe; -1: closed */
    csn_source *source;
    csn_stream stream;
    bool is_wide; /* the pipe was made larger */
    csn_local_exec *exec;
} csn_out_stream;

typedef struct csn_in_stream {
    csn_stdin kind;
    int fd; /* our end of the pipe, or the lent pty master; -1: closed */
    csn_source *source;
    const char *data; /* BYTES: borrowed */
    size_t len;
    int from_fd; /* FD: borrowed */
    csn_source *from_source; /* NULL: always readable, as regular files are */
    char *buffer;            /* FD: what was read and not yet written */
    size_t held, at;
    csn_loop *loop;
} csn_in_stream;

struct csn_local_exec {
    csn_exec base;
    csn_list link; /* in csn_local_box.execs */
    csn_request req;
    csn_request query; /* execlog.c: whether it has ended */
    bool is_querying;
    unsigned n_refs; /* the owner's, and one while a callback runs */
    bool is_owned;   /* not yet freed by its owner */
    bool
        is_starting; /* its start is not answered yet: until then it stays, so that it can be killed */
    bool is_opened;  /* somebody else's command */
    bool is_held;    /* background or PTY: the keeper holds the streams */
    bool is_paused;
    bool is_exited; /* EXITED came; its output may still be in the pipes */
    bool is_busy;   /* in a callback */
    int64_t linger_ms; /* after its end, for those who hold its streams; 0: none, or over */
    int unsent;        /* -errno: why it could not be sent to a sandbox that was being built */
    csn_timer linger;
    csn_out_stream out[2];
    csn_in_stream in;
    int log_fd, index_fd;
    int channel_fds[3]; /* lent: channel, stdout, stderr */
    int64_t log_bytes; /* as the keeper said last */
};

static inline csn_local_exec *csn_local_exec_of(csn_exec *exec)
{
    return csn_container_of(exec, csn_local_exec, base);
}

/* exec.c */
csn_local_exec *csn_exec_new(csn_local_box *box, const csn_exec_events *events, void *user);
void csn_exec_unref(csn_local_exec *x);
void csn_exec_take_state(csn_local_exec *x, const csn_process_state *state);
void csn_exec_end_if_drained(csn_local_exec *x);
void csn_exec_report_start(csn_local_exec *x, int r, const csn_error *err);

/* execlog.c: asks for the log; the answer reports the start. */
int csn_exec_ask_attach(csn_local_exec *x, csn_error *err);

/* stdin.c. Nothing here raises SIGPIPE in the host program. */
int csn_in_open(csn_in_stream *in, csn_loop *loop, const csn_exec_spec *spec, int *ret_far_fd);
int csn_in_start(csn_in_stream *in); /* once the command runs */
void csn_in_close(csn_in_stream *in);
ssize_t csn_write_quietly(int fd, const void *data, size_t len); /* count or -errno */

#endif
