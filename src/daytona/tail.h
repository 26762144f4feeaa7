/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a session's command, from its first byte to the command's end: as it grows, by a WebSocket; where the service
 * has none for us, by asking again and again. */
#ifndef CSN_DAYTONA_TAIL_H
#define CSN_DAYTONA_TAIL_H

#include "daytona.h"

typedef struct csn_tail csn_tail;

/* From the loop; each may free the tail. */
typedef struct csn_tail_events {
    /* The log's raw bytes (marks.h). True: pause, until csn_tail_resume(). */
    bool (*bytes)(const char *data, size_t len, void *user);
    /* Once, after the last byte. result < 0: nobody knows any more how the command ended. */
    void (*ended)(int result, int exit_code, const csn_error *err, void *user);
} csn_tail_events;

enum { CSN_TAIL_LOG_MAX = 128 << 20 };
/* url: of the command, ".../command/ID"; from: so many bytes of the log are known. NULL: *err says why. */
csn_tail *csn_tail_start(csn_daytona *d, const char *url, int64_t from,
                         const csn_tail_events *events, void *user, csn_error *err);
csn_tail *csn_tail_free(csn_tail *tail); /* NULL is fine; always NULL */
void csn_tail_resume(csn_tail *tail);

#endif
