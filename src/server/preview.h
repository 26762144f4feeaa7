/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of sandboxes, from outside: a request is passed on to what listens there, and its answer passed back. */
#ifndef CSN_SERVER_PREVIEW_H
#define CSN_SERVER_PREVIEW_H

#include "server/http_answer.h"
#include "server/req.h"

/* Handles a request whose route is a preview: params are the sandbox and the port. */
void csn_preview_handle(csn_req *req);

/* preview_head.c: the request's head as the port gets it. is_upgrade: it asks to become something else. */
void csn_preview_put_head(const csn_req *req, unsigned port, bool is_upgrade, csn_buf *out);
/* The answer's header lines as the client gets them. */
void csn_preview_put_lines(const csn_req *req, const csn_http_answer *answer, csn_buf *out);

/* preview_cookie.c: what lets a page's own scripts, pictures and sockets in, by name ("3000-ID.localhost"). */
#define CSN_PREVIEW_COOKIE "daytona-sandbox-auth-"
enum { CSN_PREVIEW_TOKEN_SIZE = 33 };

bool csn_preview_is_our_cookie(csn_str part);
/* The token of this sandbox's cookie, if the request was sent by the preview's own page. */
bool csn_preview_cookie(const csn_req *req, const char *id, char *out, size_t size);
/* Into the answer; nothing by path. */
void csn_preview_set_cookie(csn_req *req, const char *id, const char *token, int64_t left_ms);

#endif
