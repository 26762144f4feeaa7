/* SPDX-License-Identifier: Apache-2.0 */
/* Signed preview URLs: a name for one port of one sandbox that lets in whoever has it, until a time. They are kept in memory
 * and end with the server. */
#ifndef CSN_SERVER_SIGNED_H
#define CSN_SERVER_SIGNED_H

#include <stdint.h>

#include "server/cell.h"

enum { CSN_SIGNED_LEN = 16 };

/* CSN_OK, CSN_E_LIMIT: the organisation has enough of them; or another error. */
int csn_signed_new(const csn_cell *cell, unsigned port, int64_t expires_ms,
                   char ret_token[CSN_SIGNED_LEN + 1], csn_error *err);
/* The sandbox's id while the URL is good for this port, else NULL. */
const char *csn_signed_find(const char *token, unsigned port);
/* Nothing when there is none, or it is another sandbox's or port's. */
void csn_signed_expire(const csn_cell *cell, unsigned port, const char *token);

#endif
