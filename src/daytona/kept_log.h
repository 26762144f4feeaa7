/* SPDX-License-Identifier: Apache-2.0 */
/* What a background command or a terminal printed, as far as it is kept here, and who waits for more of it. */
#ifndef CSN_DAYTONA_KEPT_LOG_H
#define CSN_DAYTONA_KEPT_LOG_H

#include "base/buf.h"
#include "base/list.h"
#include "core/backend.h"

enum { CSN_KEPT_LOG_MAX = 16 << 20 }; /* the last bytes; what was before is dropped */

typedef struct csn_kept_log {
    csn_buf text;
    csn_buf runs; /* of one stream each, see kept_log.c */
    int64_t base; /* offset of the first byte that is kept */
    bool is_end;  /* nothing more comes */
    csn_list waiters;
    void (*wanted)(void *user); /* somebody waits for more; NULL: that comes by itself */
    void *user;
} csn_kept_log;

void csn_kept_log_init(csn_kept_log *log);
void csn_kept_log_done(csn_kept_log *log); /* whoever waits is told CSN_E_LOST */
int csn_kept_log_put(csn_kept_log *log, csn_stream stream, const char *data,
                     size_t len); /* -errno */
/* From `offset` on, or from where it is kept; of one stream. */
void csn_kept_log_read(const csn_kept_log *log, int64_t offset, void *data, size_t size,
                       csn_log_piece *ret);
/* Until it has grown beyond `offset`, or has ended; < 0: only the end. */
int csn_kept_log_wait(csn_kept_log *log, int64_t offset, csn_op *op, csn_error *err);
/* Tells those whose wait is over; after puts and at the end. They may free its owner: the last use of the log. */
void csn_kept_log_wake(csn_kept_log *log);

#endif
