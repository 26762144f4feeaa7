/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson key …`, done by the front's program so that the one who reads the database is never root. */
#ifndef CSN_SERVER_KEYCMD_H
#define CSN_SERVER_KEYCMD_H

#include "store/store.h"

#define CSN_KEYCMD_UNWRITTEN \
    "write to standard output" /* begins the message when what was asked for could not be printed */

/* argv: "create" [NAME], "ls", "rm" NAME|ID, with --org=NAME, --expires=MS (from now), --json. Prints. CSN_OK or CSN_E_…. */
int csn_keycmd_run(csn_store *store, char **argv, csn_error *err);

#endif
