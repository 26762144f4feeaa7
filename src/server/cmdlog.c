/* SPDX-License-Identifier: Apache-2.0 */
/* Records are { u32: length, top bit: stderr } and that many bytes. A record never straddles memory and file. */
#include "server/cmdlog.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"

enum { HEAD_SIZE = 4, RECORD_MAX = 1 << 20, ROOM_STEP = 1 << 20, ROOM_KEPT = 512 << 20 };
#define IS_STDERR (UINT32_C(1) << 31)

void csn_cmdlog_init(csn_cmdlog *log, int dir_fd)
{
    *log = (csn_cmdlog){ .head = CSN_BUF_INIT_MAX(CSN_CMDLOG_MAX + 2 * HEAD_SIZE),
                         .dir_fd = dir_fd,
                         .fd = -1 };
}

/* A file of a random name; it goes with the log, or with everything else when the server starts again. */
static int open_file(csn_cmdlog *log)
{
    if (log->fd >= 0)
        return 0;
    if (!log->name[0] && csn_id_hex(log->name, 16) < 0)
        return -EIO;
    log->fd = openat(log->dir_fd, log->name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                     0600);
    return log->fd < 0 ? -errno : 0;
}

/* All files together, and what must stay free for others: the database lies on the same disk. */
static int64_t n_in_files;
int64_t csn_cmdlog_total_max = INT64_C(4) << 30;

static bool has_room(const csn_cmdlog *log, size_t len)
{
    struct statfs fs;

    if (n_in_files + (int64_t) len > csn_cmdlog_total_max)
        return false;
    /* Looked at now and then: a session may write by the byte. */
    if (log->in_file / ROOM_STEP == (log->in_file + (int64_t) len) / ROOM_STEP && log->in_file > 0)
        return true;
    return fstatfs(log->dir_fd, &fs) < 0 ||
           (uint64_t) fs.f_bavail * (uint64_t) fs.f_bsize > ROOM_KEPT;
}

static int append_record(csn_cmdlog *log, uint32_t head, const char *data, size_t len)
{
    char record[HEAD_SIZE];

    memcpy(record, &head, HEAD_SIZE);
    if (log->dir_fd < 0 ||
        (!log->name[0] && log->head.len + HEAD_SIZE + len <= CSN_CMDLOG_MEMORY)) {
        size_t before = log->head.len;
        if (csn_buf_append(&log->head, record, HEAD_SIZE) == 0 &&
            csn_buf_append(&log->head, data, len) == 0)
            return 0;
        log->head.error = 0; /* this piece is dropped, what was there is not */
        csn_buf_truncate(&log->head, before);
        return -ENOMEM;
    }
    if (!has_room(log, HEAD_SIZE + len))
        return -ENOSPC;
    int r = open_file(log);
    if (r < 0)
        return r;
    log->in_file += (int64_t) (HEAD_SIZE + len);
    n_in_files += (int64_t) (HEAD_SIZE + len);
    r = csn_write_all(log->fd, record, HEAD_SIZE);
    return r < 0
               ? r
               : csn_write_all(log->fd, data, len); /* a torn record is the last, and beyond size */
}

void csn_cmdlog_append(csn_cmdlog *log, csn_stream stream, const char *data, size_t len)
{
    while (len > 0) {
        size_t n = len < RECORD_MAX ? len : RECORD_MAX;
        uint32_t head = (uint32_t) n | (stream == CSN_STDERR ? IS_STDERR : 0);

        if (log->n_dropped > 0 || log->size + HEAD_SIZE + (int64_t) n > CSN_CMDLOG_MAX ||
            append_record(log, head, data, n) < 0)
            log->n_dropped += (int64_t) n; /* from here on: what follows a gap would mislead */
        else
            log->size += HEAD_SIZE + (int64_t) n;
        data += n;
        len -= n;
    }
}

void csn_cmdlog_close(csn_cmdlog *log)
{
    csn_close(&log->fd);
}

void csn_cmdlog_done(csn_cmdlog *log)
{
    csn_close(&log->fd);
    if (log->name[0])
        (void) unlinkat(log->dir_fd, log->name, 0); /* else swept at the next start */
    log->name[0] = '\0';
    n_in_files -= log->in_file;
    log->in_file = 0;
    csn_buf_free(&log->head);
    log->size = 0;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

void csn_cmdlog_cursor_done(csn_cmdlog_cursor *cursor)
{
    if (cursor->fd > 0)
        csn_close(&cursor->fd);
    cursor->fd = 0;
}

/* Reads `len` bytes of records at `at`; they are there. */
static int read_at(const csn_cmdlog *log, csn_cmdlog_cursor *cursor, int64_t at, char *out,
                   size_t len)
{
    int64_t in_file = at - (int64_t) log->head.len;

    if (in_file < 0) {
        memcpy(out, log->head.data + at, len);
        return 0;
    }
    if (cursor->fd <= 0)
        cursor->fd = openat(log->dir_fd, log->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (cursor->fd < 0)
        return -errno;
    while (len > 0) {
        ssize_t n = pread(cursor->fd, out, len, in_file);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        out += n;
        in_file += n;
        len -= (size_t) n;
    }
    return 0;
}

static int next_record(const csn_cmdlog *log, csn_cmdlog_cursor *c)
{
    uint32_t head;
    char bytes[HEAD_SIZE] = { 0 };
    int r = read_at(log, c, c->at, bytes, HEAD_SIZE);

    if (r < 0)
        return r;
    memcpy(&head, bytes, HEAD_SIZE);
    c->left = head & ~IS_STDERR;
    c->stream = head & IS_STDERR ? CSN_STDERR : CSN_STDOUT;
    c->at += HEAD_SIZE;
    return c->at + (int64_t) c->left > log->size ? -EIO : 0;
}

static int give(const csn_cmdlog *log, csn_cmdlog_cursor *c, size_t n, bool is_marked, csn_buf *out)
{
    if (is_marked && c->marked != c->stream) {
        (void) csn_buf_append(out, c->stream == CSN_STDERR ? "\2\2\2" : "\1\1\1", 3); /* sticky */
        c->marked = c->stream;
    }
    int r = csn_buf_reserve(out, n);
    if (r == 0)
        r = read_at(log, c, c->at, out->data + out->len, n);
    if (r == 0)
        csn_buf_grew(out, n);
    return r;
}

bool csn_cmdlog_read(const csn_cmdlog *log, csn_cmdlog_cursor *c, int which, bool is_marked,
                     csn_buf *out)
{
    size_t room = CSN_CMDLOG_PIECE;
    int64_t begin = c->at, end = c->limit > 0 && c->limit < log->size ? c->limit : log->size;
    int r = out->error;

    while (r == 0 && room > 0 && (c->left > 0 || c->at < end)) {
        if (c->left == 0)
            r = next_record(log, c);
        size_t n = c->left < room ? c->left : room;
        if (r == 0 && n > 0 && (!which || which == (int) c->stream))
            r = give(log, c, n, is_marked, out);
        if (r < 0)
            break;
        c->at += (int64_t) n;
        c->left -= (uint32_t) n;
        room -= n;
    }
    if (r < 0)
        out->error = r;
    return r == 0 && c->at != begin;
}
