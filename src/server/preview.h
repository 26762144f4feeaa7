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

#endif
