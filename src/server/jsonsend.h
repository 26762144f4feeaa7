/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON answer put together from finished JSON and from text still to be escaped. A long one is escaped while it is sent: a
 * byte can become six, and a slow client would have us hold them all. */
#ifndef CSN_SERVER_JSONSEND_H
#define CSN_SERVER_JSONSEND_H

#include "server/req.h"

enum { CSN_JSONSEND_PARTS = 8 };

typedef struct csn_jsonsend_part {
    const char *data;
    size_t len;
    bool is_text; /* becomes a JSON string, bad UTF-8 U+FFFD; else it is sent as it is */
} csn_jsonsend_part;

/* Answers. The parts' bytes must stay until `done`, which runs once, maybe at once: all was sent, or the client left. */
void csn_jsonsend(csn_req *req, int status, const csn_jsonsend_part *parts, size_t n,
                  void (*done)(void *user), void *user);

#endif
