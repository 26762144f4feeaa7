/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a request on their way into a sandbox.
 *
 * Theory of operation. Begin, data, end, begin, … come as fast as the client sends; opening a file inside takes a turn of
 * the loop. So what arrives while a file is being opened waits in memory, and csn_upload_busy() tells the sender to stop:
 * no more waits than one piece of the body.
 *
 * A file of at most CSN_UPLOAD_SMALL bytes is opened when all of it is there, cut to nothing and written in one step. A
 * larger one is written beside its place and moved there when complete, so that a client that leaves in the middle, or
 * a full disk, costs neither the old contents nor leaves half of the new. What a move would break is written in place
 * instead: a file with several names, one of another owner, or one in a directory that may not be written. New files
 * have mode 0644, missing directories 0755; an existing file keeps its mode, and a symlink is followed. */
#ifndef CSN_SERVER_UPLOAD_H
#define CSN_SERVER_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/req.h"

enum { CSN_UPLOAD_SMALL = 256 << 10 };

typedef struct csn_upload csn_upload;

typedef struct csn_upload_events {
    /* A file is complete, or failed: then err says how, else it is NULL. In the order they began. */
    void (*on_file)(const char *path, int64_t n_bytes, const csn_error *err, void *user);
    /* It was busy and is no more. */
    void (*on_idle)(void *user);
} csn_upload_events;

/* NULL: out of memory. */
csn_upload *csn_upload_new(csn_req *req, const csn_upload_events *events, void *user);
/* Ends it, also in the middle: nothing half done stays. No event comes after. */
void csn_upload_close(csn_upload *upload);

/* path: as the client wrote it; copied. on_file may be called from inside any of these. */
void csn_upload_begin(csn_upload *upload, const char *path);
void csn_upload_data(csn_upload *upload, const char *data, size_t len);
void csn_upload_end(csn_upload *upload);
void csn_upload_break(csn_upload *upload, const csn_error *err); /* instead of the end */

/* How much to feed it next, at best: the page cache takes pieces that begin at a multiple of their size much faster. */
size_t csn_upload_wish(const csn_upload *upload);

bool csn_upload_busy(const csn_upload *upload); /* feed it no more until on_idle */
bool csn_upload_done(const csn_upload *upload); /* every file that began was told */

#endif
