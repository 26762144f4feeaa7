/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for Prometheus. No label names a tenant or a sandbox: their number must not grow the answer. */
#ifndef CSN_SERVER_METRICS_H
#define CSN_SERVER_METRICS_H

#include "base/buf.h"
#include "server/req.h"
#include "server/server.h"

/* One request is over; a csn_listener_seen_fn. */
void csn_metrics_request(const csn_req *req, int status, void *user);

/* Counted where it happens. */
typedef enum csn_count {
    CSN_COUNT_CREATED,
    CSN_COUNT_CREATED_WARM,
    CSN_COUNT_CREATE_FAILED,
    CSN_COUNT_DELETED,
    CSN_COUNT_AUTO_STOPPED,
    CSN_COUNT_AUTO_DELETED,
    CSN_COUNT_AUTH_FAILED,
    CSN_COUNT_LAST_ /* how many there are */
} csn_count;
void csn_metrics_count(csn_count what);

void csn_metrics_write(csn_server *server, csn_buf *out);

#endif
