/* SPDX-License-Identifier: Apache-2.0 */
/* The event channel (WIRE 8): who listens to the states of an organisation's sandboxes. */
#ifndef CSN_SERVER_EVENTS_H
#define CSN_SERVER_EVENTS_H

#include "server/req.h"
#include "server/server.h"

typedef struct csn_cell csn_cell;

int csn_events_new(csn_server *server, csn_events **ret, csn_error *err);
csn_events *csn_events_free(csn_events *events); /* NULL is fine; always NULL */

/* Closes the listeners whose key is no longer good (listen.h). */
void csn_events_sift(csn_server *server, bool (*is_fine)(const csn_caller *caller, void *user),
                     void *user);

/* The cell's state changed from `old`, or (old NULL) it was just made. Nothing happens without listeners. */
void csn_events_state(csn_server *server, const csn_cell *cell, const char *old);

#endif
