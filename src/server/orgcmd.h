/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson org …`, done by the front's program as `caisson key …` is. */
#ifndef CSN_SERVER_ORGCMD_H
#define CSN_SERVER_ORGCMD_H

#include "store/store.h"

/* argv: "ls" [--json], "set" --name=ORG --max-KIND=NUMBER… (0: any number; the organisation is made if it isn't there), "reset"
 * --name=ORG (the server's defaults again). Prints. CSN_OK or CSN_E_…, with CSN_KEYCMD_UNWRITTEN as keys have it. */
int csn_orgcmd_run(csn_store *store, char **argv, csn_error *err);

#endif
