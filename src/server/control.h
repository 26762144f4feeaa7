/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane's routes have in common. */
#ifndef CSN_SERVER_CONTROL_H
#define CSN_SERVER_CONTROL_H

#include "server/cell.h"
#include "server/req.h"
#include "server/route.h"

/* The cell the i-th parameter names, of the caller's organisation. NULL: 404 was answered. */
csn_cell *csn_control_cell(csn_req *req, size_t i);

/* Answers with the sandbox object. */
void csn_control_answer(csn_req *req, int status, const csn_cell *cell);
/* A finished answer of a writer's text. */
void csn_control_json(csn_req *req, int status, csn_buf *out);
/* What was granted of what was asked for, where that is less: "cpu 2 of 64, memory 21.3 of 500 GiB". */
#define CSN_GRANTED_HEADER "X-Caisson-Granted"

/* csn_req_fail() with the control plane's statuses: CSN_E_UNSUPPORTED 422, CSN_E_STATE 400, CSN_E_DENIED 403. */
void csn_control_fail(csn_req *req, const csn_error *err);
/* The same for an error whose status is known already. */
void csn_control_fail_as(csn_req *req, int status, const csn_error *err);

/* A request that waits for the engine. */
typedef struct csn_wait {
    csn_req *req; /* NULL: the client left */
    void *data;   /* the route's own */
} csn_wait;
/* Keeps the request. NULL: 503 was answered. */
csn_wait *csn_wait_new(csn_req *req);
/* Forgets it: returns the request, or NULL when the client left. */
csn_req *csn_wait_end(csn_wait *wait);

/* A csn_cell_done_fn whose user is a csn_wait: answers 200 with the sandbox. */
void csn_control_done(csn_cell *cell, int result, const csn_error *err, void *user);

/* "http://host:port/toolbox" into out. */
const char *csn_control_toolbox_url(const csn_req *req, csn_buf *out);

#endif
