/* SPDX-License-Identifier: Apache-2.0 */
/* The output of background commands: logs/<n>.log holds the bytes of both streams in arrival order, logs/<n>.idx one
 * record of 16 bytes per piece: { u64 end_offset; u32 stream; u32 0 }. Offsets only grow. Bounded (R29): a command's log
 * keeps the first output_bytes of each stream, counts the rest and drops it, and all logs of a sandbox together take at
 * most a gibibyte: beyond it those of the oldest ended commands go, then what comes is cut; a terminal's log keeps the last 4 MiB by
 * punching holes before them, and its index is a single record without end. A command with a channel has no log: we
 * only keep the read ends of its pipes and our end of the channel, so that clients can come and go. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/fault.h"
#include "remove.h"
#include "serve.h"

enum {
    PIECE_BYTES = 64 << 10,
    PTY_KEEP_BYTES = 4 << 20,
    PTY_PUNCH_BYTES = 1 << 20, /* at once */
    INDEX_MAX = 256 << 10,     /* records; beyond, pieces of one stream are joined */
    DRAIN_PIECES = 64,         /* at the end: a pipe holds at most 1 MiB */
    ALL_LOGS_MAX = 1 << 30
};

typedef struct index_record {
    uint64_t end_offset;
    uint32_t stream, reserved;
} index_record;

static char piece[PIECE_BYTES];

static int open_logs(csn_keeper *k)
{
    if (k->logs_fd >= 0)
        return 0;
    if (mkdirat(k->box_fd, "logs", 0700) < 0 && errno != EEXIST)
        return -errno;
    k->logs_fd = openat(k->box_fd, "logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return k->logs_fd < 0 ? -errno : 0;
}

static void name_file(const csn_command *cmd, const char *ending, char out[32])
{
    (void) snprintf(out, 32, "%u.%s", cmd->state.process, ending); /* fits */
}

static int open_file(csn_command *cmd, const char *ending, int *ret_fd)
{
    char name[32];

    name_file(cmd, ending, name);
    *ret_fd =
        openat(cmd->k->logs_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return *ret_fd < 0 ? -errno : 0;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

static int write_at(int fd, const void *data, size_t len, int64_t at)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        p += n;
        at += n;
        len -= (size_t) n;
    }
    return 0;
}

static int index_piece(csn_log_files *log, uint32_t stream, int64_t end)
{
    const index_record record = { (uint64_t) end, stream, 0 };
    bool joins = log->n_index >= INDEX_MAX && log->last_stream == stream;
    int64_t at = joins ? log->n_index - 1 : log->n_index;
    int r = write_at(log->index_fd, &record, sizeof(record), at * (int64_t) sizeof(record));

    if (r == 0 && !joins)
        log->n_index++;
    log->last_stream = stream;
    return r;
}

static void punch(csn_log_files *log)
{
    int64_t from = log->end - PTY_KEEP_BYTES;

    if (from - log->punched < PTY_PUNCH_BYTES)
        return;
    /* A file system without holes keeps it all; then the log is cut like any other. */
    if (fallocate(log->log_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, log->punched,
                  from - log->punched) == 0) {
        log->cmd->k->log_bytes -= from - log->punched;
        log->punched = from;
    }
}

static int64_t room_for(const csn_log_files *log, size_t stream_at)
{
    const csn_process_state *s = &log->cmd->state;

    if (s->flags & CSN_SPAWN_PTY)
        return log->end - log->punched < PTY_KEEP_BYTES + 2 * PTY_PUNCH_BYTES ? INT64_MAX : 0;
    return s->output_bytes < 0 ? INT64_MAX : s->output_bytes - log->n_kept[stream_at];
}

static bool make_room(csn_log_files *log, int64_t n)
{
    csn_keeper *k = log->cmd->k;

    while (k->log_bytes + n > ALL_LOGS_MAX)
        if (!csn_commands_forget_one(k, log->cmd))
            return false;
    return true;
}

/* `i`: 0 stdout or terminal, 1 stderr. */
static void take_piece(csn_log_files *log, size_t i, size_t n)
{
    csn_command *cmd = log->cmd;
    csn_process_state *s = &cmd->state;
    int64_t room = room_for(log, i), keep = (int64_t) n < room ? (int64_t) n : room;

    *(i == 0 ? &s->stdout_bytes : &s->stderr_bytes) += (int64_t) n;
    *(i == 0 ? &cmd->k->stdout_bytes : &cmd->k->stderr_bytes) += (int64_t) n;
    if (keep < 0)
        keep = 0;
    /* A host that can't hold the log is treated like a limit: counted and cut, nobody is blocked. */
    if (keep > 0 && !make_room(log, keep))
        keep = 0;
    if (keep > 0 && write_at(log->log_fd, piece, (size_t) keep, log->end) < 0)
        keep = 0;
    if (keep > 0 && !(s->flags & CSN_SPAWN_PTY) &&
        index_piece(log, i == 0 ? 1u : 2u, log->end + keep) < 0)
        keep = 0;
    log->end += keep;
    cmd->k->log_bytes += keep;
    log->n_kept[i] += keep;
    s->log_bytes = log->end;
    if (keep < (int64_t) n)
        s->is_cut = 1;
    if (s->flags & CSN_SPAWN_PTY)
        punch(log);
    if (s->is_cut && cmd->kill_on_limit && !s->ended && !cmd->reason)
        csn_command_kill(cmd, CSN_ENDED_OUTPUT_LIMIT);
}

static void close_stream(csn_log_files *log, size_t i)
{
    log->src[i] = csn_source_remove(log->src[i]);
    if (log->out_fd[i] != log->in_fd) /* a terminal's master stays: it is lent to clients */
        csn_close(&log->out_fd[i]);
    log->out_fd[i] = -1;
}

/* Reads once. False: nothing more is there, now or for ever. */
static bool pump(csn_log_files *log, size_t i)
{
    ssize_t n = log->out_fd[i] < 0 ? 0 : csn_read(log->out_fd[i], piece, sizeof(piece));

    if (n == -EAGAIN)
        return false;
    if (n <= 0) { /* EIO: the last one who held the terminal is gone */
        close_stream(log, i);
        return false;
    }
    take_piece(log, i, (size_t) n);
    return true;
}

bool csn_log_is_open(const csn_command *cmd)
{
    return cmd->log && (cmd->log->src[0] || cmd->log->src[1]);
}

static void on_output(csn_source *src, uint32_t events, void *user)
{
    csn_log_files *log = user;
    size_t i = src == log->src[0] ? 0 : 1;
    int64_t before = log->end;

    (void) events;
    (void) pump(log, i); /* one piece at a time: other sources have their turn */
    if (log->end != before || !csn_log_is_open(log->cmd))
        csn_command_log_grew(log->cmd);
}

void csn_log_drain(csn_command *cmd)
{
    if (cmd->state.flags & CSN_SPAWN_CHANNEL)
        return; /* what is in the pipes is for the client */
    for (size_t i = 0; i < 2; i++)
        for (int n = 0; n < DRAIN_PIECES && pump(cmd->log, i); n++)
            continue;
}

/* --- opening ----------------------------------------------------------------------------------------------------- */

static int watch_stream(csn_log_files *log, size_t i)
{
    int r = csn_fd_nonblock(log->out_fd[i], true);

    if (r < 0 || log->cmd->state.flags & CSN_SPAWN_CHANNEL)
        return r;
    return csn_loop_add(log->cmd->k->loop, log->out_fd[i], EPOLLIN, on_output, log, &log->src[i]);
}

static int make_out_pipe(csn_log_files *log, size_t i, int *ret_far)
{
    int ends[2], r = csn_stdio_pipe(ends);

    if (r < 0)
        return r;
    log->out_fd[i] = ends[0];
    *ret_far = ends[1];
    return watch_stream(log, i);
}

static int make_in_pipe(csn_log_files *log, int *ret_far)
{
    int ends[2], r = csn_stdio_pipe(ends);

    if (r < 0)
        return r;
    log->in_fd = ends[1];
    *ret_far = ends[0];
    return csn_fd_nonblock(log->in_fd, true);
}

static int make_channel(csn_log_files *log, int *ret_far)
{
    int ends[2];

    if (csn_fault_as("socketpair", EMFILE) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -EMFILE;
    log->in_fd = ends[0];
    *ret_far = ends[1];
    return 0;
}

/* A terminal has one stream: one record says so for every offset. */
static int index_pty(csn_log_files *log)
{
    return index_piece(log, 1, INT64_MAX);
}

int csn_log_open(csn_command *cmd, int ret_fds[4], csn_error *err)
{
    const uint32_t flags = cmd->state.flags;
    const bool has_files = !(flags & CSN_SPAWN_CHANNEL);
    csn_log_files *log = csn_calloc(1, sizeof(*log));
    int r = !log ? -ENOMEM : has_files ? open_logs(cmd->k) : 0;

    if (log) {
        *log = (csn_log_files){
            .cmd = cmd, .log_fd = -1, .index_fd = -1, .in_fd = -1, .out_fd = { -1, -1 }
        };
        cmd->log = log;
    }
    if (r == 0 && has_files)
        r = open_file(cmd, "log", &log->log_fd);
    if (r == 0 && has_files)
        r = open_file(cmd, "idx", &log->index_fd);
    if (r == 0 && !has_files)
        r = make_channel(log, &ret_fds[3]);
    if (r == 0 && flags & CSN_SPAWN_PTY)
        r = index_pty(log);
    if (r == 0 && !(flags & CSN_SPAWN_PTY)) {
        if (flags & CSN_SPAWN_STDIN_PIPE)
            r = make_in_pipe(log, &ret_fds[0]);
        if (r == 0)
            r = make_out_pipe(log, 0, &ret_fds[1]);
        if (r == 0 && !(flags & CSN_SPAWN_MERGED))
            r = make_out_pipe(log, 1, &ret_fds[2]);
    }
    if (r < 0) {
        csn_close_many(ret_fds, 4);
        return csn_fail_sys(err, r, "make the log of command %u", cmd->state.process);
    }
    return CSN_OK;
}

/* A descriptor from init: it must be what it should be, a terminal's master (R35). */
int csn_log_set_pty(csn_command *cmd, int master_fd)
{
    csn_log_files *log = cmd->log;
    struct stat st;
    int number;

    if (fstat(master_fd, &st) < 0 || !S_ISCHR(st.st_mode) ||
        ioctl(master_fd, TIOCGPTN, &number) < 0) {
        (void) close(master_fd); /* not wanted */
        return -ENOTTY;
    }
    log->in_fd = log->out_fd[0] = master_fd;
    return watch_stream(log, 0);
}

/* --- lending and ending ------------------------------------------------------------------------------------------ */

static int lend_channel(const csn_log_files *log, int ret_fds[3], size_t *ret_n)
{
    const int fds[] = { log->in_fd, log->out_fd[0], log->out_fd[1] };
    size_t n = 0;

    for (size_t i = 0; i < 3 && fds[i] >= 0; i++) {
        ret_fds[n] = csn_fd_dup(fds[i], 3);
        if (ret_fds[n] < 0) {
            int r = ret_fds[n];
            csn_close_many(ret_fds, n);
            return r;
        }
        n++;
    }
    *ret_n = n;
    return 0;
}

int csn_log_lend(csn_command *cmd, int ret_fds[3], size_t *ret_n)
{
    static const char *const endings[] = { "log", "idx" };
    size_t n = 0;

    if (cmd->state.flags & CSN_SPAWN_CHANNEL)
        return lend_channel(cmd->log, ret_fds, ret_n);
    for (size_t i = 0; i < 2; i++) {
        char name[32];
        name_file(cmd, endings[i], name);
        int fd = openat(cmd->k->logs_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) {
            int r = -errno;
            csn_close_many(ret_fds, n);
            return r;
        }
        ret_fds[n++] = fd;
    }
    if (cmd->log->in_fd >= 0) {
        int fd = csn_fd_dup(cmd->log->in_fd, 3);
        if (fd >= 0)
            ret_fds[n++] = fd;
    }
    *ret_n = n;
    return 0;
}

void csn_log_free(csn_command *cmd)
{
    static const char *const endings[] = { "log", "idx" };
    csn_log_files *log = cmd->log;

    if (!log)
        return;
    close_stream(log, 0);
    close_stream(log, 1);
    cmd->k->log_bytes -= log->end - log->punched;
    csn_close(&log->in_fd);
    csn_close(&log->log_fd);
    csn_close(&log->index_fd);
    for (size_t i = 0; cmd->k->logs_fd >= 0 && i < 2; i++) {
        char name[32];
        name_file(cmd, endings[i], name);
        (void) unlinkat(cmd->k->logs_fd, name, 0); /* nobody can ask for it any more */
    }
    free(log);
    cmd->log = NULL;
}

/* Command numbers start at 1 again: logs of an earlier run would be taken for ours. */
int csn_logs_clear(csn_keeper *k)
{
    int r = csn_tree_remove(k->box_fd, "logs");

    return r == -ENOENT ? 0 : r;
}
