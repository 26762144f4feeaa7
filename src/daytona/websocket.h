/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket of the service, by way of caisson-remote: its messages come through a channel of its own. */
#ifndef CSN_DAYTONA_WEBSOCKET_H
#define CSN_DAYTONA_WEBSOCKET_H

#include <stdbool.h>

#include "webline.h"

typedef struct csn_websocket csn_websocket;

/* All from the loop; each may free the socket. */
typedef struct csn_websocket_events {
    void (*opened)(void *user);
    /* (A part of) a message. True: pause, nothing more comes until csn_websocket_resume(). */
    bool (*piece)(bool is_text, bool is_whole, const char *data, size_t len, void *user);
    /* It was not opened: `status` is what the service answered instead, 0: nothing (the connection failed). */
    void (*refused)(int status, void *user);
    /* It was open. code 1006: cut off. The reason is the service's: any bytes. */
    void (*closed)(int code, const char *reason, size_t len, void *user);
} csn_websocket_events;

/* url: http:// or https://, of an origin that may have the key. `offer`: subprotocols, or "". `events` is borrowed. NULL: *err says why. */
csn_websocket *csn_websocket_dial(csn_webline *line, const char *url, const char *offer,
                                  const csn_websocket_events *events, void *user, csn_error *err);
csn_websocket *csn_websocket_free(csn_websocket *ws); /* closes it; NULL is fine; always NULL */
void csn_websocket_resume(csn_websocket *ws);
/* One binary message of at most CSN_WEB_PIECE_MAX bytes. 0, -EAGAIN: later, or -EPIPE: it is gone. */
int csn_websocket_send(csn_websocket *ws, const void *data, size_t len);

#endif
