/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to nobody any more is deleted in the engine, however often that has to be tried. */
#ifndef CSN_SERVER_BURY_H
#define CSN_SERVER_BURY_H

#include "server/server.h"

typedef enum csn_bury_kind {
    CSN_BURY_SANDBOX, /* without a row */
    CSN_BURY_VOLUME,  /* whose row says that it is being deleted: goes last */
    CSN_BURY_IMAGE /* of a deleted snapshot. In use: whoever deletes the last sandbox of it asks again */
} csn_bury_kind;

/* Goes on until nothing is left of it; without memory the next start does it. */
void csn_bury(csn_server *server, csn_bury_kind kind, const char *name);
void csn_bury_done(void); /* the server ends */

#endif
