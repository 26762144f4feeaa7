/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's command printed: pieces of both streams in arrival order, the first few KiB in memory and the rest in a
 * file of the front's own, so that ten thousand commands cost little and one flood costs no memory (R29).
 *
 * A reader has a cursor and sees every byte once, whatever is appended meanwhile. Beyond its ceiling the log is cut: later
 * bytes are counted and dropped, and the cut is visible. */
#ifndef CSN_SERVER_CMDLOG_H
#define CSN_SERVER_CMDLOG_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/process.h>

#include "base/buf.h"

enum { CSN_CMDLOG_MEMORY = 4096, CSN_CMDLOG_MAX = 64 << 20, CSN_CMDLOG_PIECE = 64 << 10 };

typedef struct csn_cmdlog {
    csn_buf head;      /* the first records; all of them while there is no file */
    int dir_fd;        /* borrowed; -1: memory only */
    char name[33];     /* of the file; "": none */
    int fd;            /* while something may still be appended */
    int64_t size;      /* of all records: head, then file */
    int64_t n_dropped; /* bytes beyond the ceiling */
    int64_t in_file;   /* what this log takes of the disk */
} csn_cmdlog;

/* All logs together may take this much of the disk; beyond it, or when the disk has little left, they are cut. */
extern int64_t csn_cmdlog_total_max;

/* Where a reader stands. Zero is the beginning. */
typedef struct csn_cmdlog_cursor {
    int64_t at;    /* offset among the records */
    uint32_t left; /* bytes of the present record still to give */
    csn_stream stream;
    csn_stream marked; /* the stream that the last marker named; 0: none yet */
    int fd;            /* its own descriptor of the file; 0 or -1: none */
    int64_t limit;     /* reads no further than here; 0: as far as the log goes */
} csn_cmdlog_cursor;

void csn_cmdlog_init(csn_cmdlog *log, int dir_fd);
void csn_cmdlog_append(csn_cmdlog *log, csn_stream stream, const char *data, size_t len);
void csn_cmdlog_close(
    csn_cmdlog *log); /* nothing more is likely to come; a later append opens it again */
void csn_cmdlog_done(csn_cmdlog *log); /* the file goes too */

/* Appends to `out` what comes next, at most CSN_CMDLOG_PIECE bytes of text. which: CSN_STDOUT or CSN_STDERR gives that stream's
 * text; 0 gives both. is_marked: three bytes 01 or 02 stand before each change of stream. Returns true when it gave
 * something or passed over something, false at the (present) end; -errno sticks in out->error. */
bool csn_cmdlog_read(const csn_cmdlog *log, csn_cmdlog_cursor *cursor, int which, bool is_marked,
                     csn_buf *out);
void csn_cmdlog_cursor_done(csn_cmdlog_cursor *cursor);

#endif
