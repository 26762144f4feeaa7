/* SPDX-License-Identifier: Apache-2.0 */
/* Keys for those who don't come with a header: the event channel. */
#ifndef CSN_SERVER_WHO_H
#define CSN_SERVER_WHO_H

#include "server/req.h"

/* CSN_OK; CSN_E_DENIED: no good key; CSN_E_LIMIT: this address tried too often. text may be NULL. */
int csn_who_of_key(csn_server *server, const char *peer, const char *text, csn_caller *ret);
/* Is the value of an Authorization header a key of ours, good or not? For what must not get to see it. */
bool csn_who_is_key(csn_server *server, const char *authorization);

#endif
