/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request and its answer, as a route's handler sees them.
 *
 * Theory of operation. The transport (listen, conn, http1) reads a request's head, the router finds its route, auth
 * says who asks, and then the handler is called once: for BODY_NONE and BODY_WHOLE when the body is complete, for
 * BODY_STREAM as soon as the head is. It may answer at once or keep the request and answer later from any callback of
 * the same loop. Exactly one of two things ends a request:
 *
 *   - the handler answered it (csn_req_json, _empty, _text, _error, or begin … end, or an upgrade): the request is no longer
 *     the handler's when that call returns, and `on_gone` is never called after;
 *   - the client left first: `on_gone` is called once. The handler cancels its work there; the request is freed when
 *     on_gone returns. A handler that never set on_gone must not keep the request beyond its own return.
 *
 * All strings are borrowed from the request and live as long as it does. */
#ifndef CSN_SERVER_REQ_H
#define CSN_SERVER_REQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <caisson/error.h>
#include <caisson/sandbox.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

typedef struct csn_req csn_req;
typedef struct csn_server csn_server;
typedef struct csn_route csn_route;
typedef struct csn_ws csn_ws;

typedef enum csn_method {
    CSN_GET = 1,
    CSN_POST,
    CSN_PUT,
    CSN_PATCH,
    CSN_DELETE,
    CSN_HEAD,
    CSN_OPTIONS
} csn_method;

/* Who asks; filled by auth before the handler runs. Empty strings on public routes. */
typedef struct csn_caller {
    char org_id[37];
    char key_id[37];
    char user_id[37];
    bool is_admin;
} csn_caller;

/* ---- what was asked ---------------------------------------------------------------------------------------------- */

csn_server *csn_req_server(const csn_req *req);
const csn_route *csn_req_route(const csn_req *req);
csn_method csn_req_method(const csn_req *req);
const char *csn_req_id(const csn_req *req);   /* the request id, also sent as X-Request-Id */
const char *csn_req_path(const csn_req *req); /* as sent, without the query, for error bodies */
const csn_caller *csn_req_caller(const csn_req *req);
/* The decoded i-th `{}` of the route's pattern, NUL-terminated (a decoded NUL was refused); never NULL for i below their number. */
const char *csn_req_param(const csn_req *req, size_t i);
/* First value of a query key, decoded; NULL: absent. */
const char *csn_req_query(const csn_req *req, const char *key);
/* Its i-th value; NULL: no more. Repeated keys are lists. */
const char *csn_req_query_at(const csn_req *req, const char *key, size_t i);
/* A header's value, trimmed; NULL: absent. The name's case does not matter. */
const char *csn_req_header(const csn_req *req, const char *name);
/* "http://host:port" as the client reached us (or --public-url); no slash at the end. */
const char *csn_req_origin(const csn_req *req);

/* The whole body of BODY_WHOLE (NUL-terminated beyond len). */
csn_str csn_req_body(const csn_req *req);
/* It, parsed once: an object, or NULL after an answer of 400 was sent (then just return). An empty body reads as {}. */
const csn_json *csn_req_json_body(csn_req *req);

/* Routes of scope CSN_SCOPE_BOX: the sandbox, connected and started. Borrowed. */
csn_sandbox *csn_req_box(const csn_req *req);
const char *csn_req_box_id(const csn_req *req); /* its UUID */

/* ---- keeping it -------------------------------------------------------------------------------------------------- */

typedef void csn_gone_fn(csn_req *req, void *user);
void csn_req_keep(csn_req *req, csn_gone_fn *on_gone, void *user);

/* ---- the body as a stream (BODY_STREAM) ------------------------------------------------------------------------- */

/* data: returns true to go on, false to be left alone until csn_req_body_resume(); all of `data` counts as taken either way.
 * len 0: the body is complete. Not called after the request was answered. */
typedef bool csn_body_fn(csn_req *req, const char *data, size_t len, void *user);
void csn_req_body_start(csn_req *req, csn_body_fn *on_body,
                        void *user); /* sends 100 Continue if asked */
void csn_req_body_resume(csn_req *req);
/* The next piece may be as long as this, and had better be no longer. 0: as it comes. */
enum { CSN_REQ_PIECE_MAX = 512 << 10 };
void csn_req_body_wish(csn_req *req, size_t len);

/* ---- answering --------------------------------------------------------------------------------------------------- */

/* Before the answer; may repeat. The value must hold no CR, LF or NUL (it is refused then, and the answer becomes 500). */
void csn_req_add_header(csn_req *req, const char *name, const char *value);

void csn_req_json(csn_req *req, int status, csn_buf *body); /* body is taken: empty after */
void csn_req_empty(csn_req *req, int status);
void csn_req_text(csn_req *req, int status, const char *content_type, const void *data, size_t len);
/* Control plane or toolbox body, after the route's plane (WIRE 4). code may be NULL: derived from the status. */
void csn_req_error(csn_req *req, int status, const char *code, const char *fmt, ...)
    CSN_PRINTF(4, 5);
/* An engine error as an answer: CSN_E_NOT_FOUND 404, CSN_E_INVALID 400, CSN_E_EXISTS 409 … */
void csn_req_fail(csn_req *req, const csn_error *err);
bool csn_is_out_of_space(const csn_error *err);

/* A streamed answer: begin, any number of writes, end. length < 0: chunked. */
void csn_req_begin(csn_req *req, int status, const char *content_type, int64_t length);
/* Queues the bytes (copied). Returns false when enough is queued: wait for on_drain before writing more. */
bool csn_req_write(csn_req *req, const void *data, size_t len);
/* The next `len` bytes of a regular file, taken over and closed when sent; at most one waits at a time (see on_drain).
 * A file that turns out shorter cuts the connection. */
void csn_req_write_fd(csn_req *req, int fd, int64_t offset, int64_t len);
typedef void csn_drain_fn(csn_req *req, void *user);
void csn_req_on_drain(csn_req *req, csn_drain_fn *on_drain, void *user);
void csn_req_end(csn_req *req);
/* The answer can't be completed: the connection is cut so that the client notices. */
void csn_req_abort(csn_req *req);

#endif
