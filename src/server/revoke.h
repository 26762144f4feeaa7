/* SPDX-License-Identifier: Apache-2.0 */
/* What is open ends with its key. */
#ifndef CSN_SERVER_REVOKE_H
#define CSN_SERVER_REVOKE_H

#include "server/server.h"

/* Looks every second, while anything is open, whether the keys it was opened with are still good. */
void csn_revoke_start(csn_server *server);
/* A key was revoked by us: looks as soon as the loop turns. */
void csn_revoke_soon(csn_server *server);
void csn_revoke_stop(void);

#endif
