/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket, server side: messages whole and bounded, pings answered at once, back-pressure by bytes queued. */
#ifndef CSN_SERVER_WS_H
#define CSN_SERVER_WS_H

#include "server/req.h"

typedef struct csn_ws_events {
    /* A whole message (at most CSN_WS_MESSAGE_MAX bytes). Never called after on_closed. */
    void (*on_message)(csn_ws *ws, bool is_text, const char *data, size_t len, void *user);
    void (*on_drain)(csn_ws *ws,
                     void *user); /* may be NULL: called when less than the mark is queued again */
    /* The end, once: the peer closed (code it gave, or 1005), left without a word (1006), or our own close is through.
     * The ws is freed when this returns. */
    void (*on_closed)(csn_ws *ws, int code, void *user);
} csn_ws_events;

enum { CSN_WS_MESSAGE_MAX = 16 << 20, CSN_WS_QUEUE_MARK = 256 << 10 };

/* Is this request an upgrade to a WebSocket? (Otherwise answer 426 or the plain variant of the route.) */
bool csn_req_wants_ws(const csn_req *req);
/* The i-th offered subprotocol token; NULL: no more. */
const char *csn_req_ws_offer(const csn_req *req, size_t i);
/* Answers 101. subprotocol: one of those offered, or NULL (then the first offered one is echoed, if any). NULL when the
 * handshake was bad: an error was answered. The request is no longer the caller's either way. */
csn_ws *csn_req_upgrade(csn_req *req, const char *subprotocol, const csn_ws_events *events,
                        void *user);

/* False when more than CSN_WS_QUEUE_MARK bytes wait: stop until on_drain. After a close, and when the peer has
 * gone, it does nothing and says false; on_closed follows. */
bool csn_ws_send(csn_ws *ws, bool is_text, const void *data, size_t len);
/* Sends a close frame after what is queued; reason (may be NULL) is cut to 123 bytes. on_closed follows, also if the peer
 * never answers. */
void csn_ws_close(csn_ws *ws, int code, const char *reason);
/* Larger messages than this are refused with 1009; for a peer that hasn't said yet who it is. At most CSN_WS_MESSAGE_MAX. */
void csn_ws_set_max(csn_ws *ws, size_t max_message);

#endif
