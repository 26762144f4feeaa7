/* SPDX-License-Identifier: Apache-2.0 */
/* The line to an engine's caisson-remote: starts it, asks it, ends it. Knows frames, not what a service means by them. */
#ifndef CSN_DAYTONA_WEBLINE_H
#define CSN_DAYTONA_WEBLINE_H

#include <caisson/error.h>

#include "base/list.h"
#include "base/loop.h"
#include "wire/web.h"

typedef struct csn_webline {
    csn_loop *loop; /* borrowed */
    int fd;         /* -1: closed, or the helper is gone */
    int pidfd;
    csn_source *source;
    csn_list asks;   /* sent or to be sent, not answered */
    csn_list outbox; /* frames the socket had no room for */
    uint32_t next_id;
    char *buffer; /* of CSN_FRAME_MAX; NULL while a callback may wait in turns of its own */
} csn_webline;

typedef struct csn_exchange csn_exchange;
/* Once, from the loop. `answer` is valid during the call; NULL: the helper is gone or the link was closed. */
typedef void csn_exchange_done(const csn_web_answer *answer, void *user);

/* Starts the helper and hands it the credential. */
int csn_webline_open(csn_webline *line, csn_loop *loop, const char *libexec, const csn_web_key *key,
                     csn_error *err);
/* What was asked is answered with NULL; then the helper is waited for, which sends its last requests, within its limits. */
void csn_webline_close(csn_webline *line);

/* `source_fd` and `sink_fd` are borrowed until the call returns, -1: none. NULL: it could not be sent, *err says why. */
csn_exchange *csn_webline_ask(csn_webline *line, const csn_web_request *request, int source_fd,
                              int sink_fd, csn_exchange_done *done, void *user, csn_error *err);
void csn_exchange_cancel(csn_exchange *ask); /* `done` does not run; NULL is fine */

/* A WebSocket; `channel` is the helper's end, borrowed until the call returns. 0 or -errno. */
int csn_webline_dial(csn_webline *line, const csn_web_call *call, int channel);

/* What the helper sends when this engine is gone, named by a number; a second one takes the first one's place, url NULL
 * takes it back. */
uint32_t csn_webline_new_last(csn_webline *line);
int csn_webline_set_last(csn_webline *line, uint32_t last, const char *method, const char *url);

#endif
