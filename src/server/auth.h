/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, and may they? The router knows the route, auth.c knows keys and sandboxes; this is all they say to each other. */
#ifndef CSN_SERVER_AUTH_H
#define CSN_SERVER_AUTH_H

#include "server/req.h"

/* Called once for every request whose route is known (public routes too), before its body is read and before its
 * handler is. Ends, now or later, in exactly one of:
 *   - go(req): accepted. The setters below were called before, as the route's scope demands;
 *   - an answer (csn_req_error(req, 401, …)): refused. The body is never read, nor is a client waiting for
 *     100 Continue told to send it.
 * To answer later, csn_req_keep() the request as a handler would; go() forgets that on_gone again. */
void csn_auth_check(csn_req *req, void (*go)(csn_req *req));

/* The `{sandbox}` of /toolbox/{sandbox}/… and of previews, decoded: a UUID or a name. NULL: not a toolbox route, or one reached at the
 * root (/process/…), where only the preview token says which sandbox is meant. */
const char *csn_req_box_name(const csn_req *req);
/* Text of the client's address, without its port. Behind a trusted proxy: what that says. */
const char *csn_req_peer(const csn_req *req);

void csn_req_set_caller(csn_req *req, const csn_caller *caller); /* copied */
/* box: borrowed, valid until the request's done hook ran; id: its UUID, copied. */
void csn_req_set_box(csn_req *req, csn_sandbox *box, const char *id);

/* Called once when the request is over: answered (status: what it said) or gone (499). After an upgrade: when the socket
 * is closed. Here a held sandbox is let go, the audit line written, the metric counted. Runs last; must not answer. */
typedef void csn_req_done_fn(csn_req *req, int status, void *user);
void csn_req_on_done(csn_req *req, csn_req_done_fn *on_done, void *user);

/* Nanoseconds since its head was complete. For logs. */
int64_t csn_req_age_ns(const csn_req *req);

#endif
