/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors run out long before memory does: what is begun when few are left would fail halfway, or take the server along. */
#ifndef CSN_SERVER_FDS_H
#define CSN_SERVER_FDS_H

#include "server/req.h"
#include "server/server.h"

#define CSN_FDS_GONE \
    "The server has no descriptors left: try again when fewer sandboxes are in use, or have its " \
    "operator raise the limit of open files"

/* Fewer are left than the reserve, also after connections to sandboxes that nobody uses were closed. */
bool csn_fds_are_short(csn_server *server);
/* Then 503 with the reason, and true. */
bool csn_fds_refuse(csn_req *req);
int csn_fds_fail(csn_error *err);
/* The log says how far those of this process reach. */
void csn_fds_tell(void);

#endif
