/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: tokens that let whoever has them in, to one port of one sandbox, until a time. Two kinds:
 *
 *   port token   given with a preview's URL, sent in a header, the query or a cookie. One per port; asking again gives the
 *                same one a new expiry. It ends when the sandbox stops.
 *   signed name  stands in a signed URL in place of the sandbox's id; a new one at every request.
 *
 * They are in memory and in the database, so that they outlive the server. */
#ifndef CSN_SERVER_PASSES_H
#define CSN_SERVER_PASSES_H

#include <stdint.h>

#include "server/cell.h"

enum { CSN_SIGNED_LEN = 16 };

/* Out of the database, behind the sandboxes. */
int csn_passes_load(csn_boxes *boxes, csn_error *err);
void csn_passes_done(void);

/* The token of this port, good for the configured life from now. *ret is borrowed. CSN_E_LIMIT: the organisation has
 * enough of them; or another error. */
int csn_pass_of_port(const csn_cell *cell, unsigned port, const char **ret, csn_error *err);
/* The sandbox's id and the port while the token is good, else NULL. */
const char *csn_pass_find(const char *token, unsigned *ret_port, int64_t *ret_left_ms);
/* The sandbox stopped. In the database its row says so. */
void csn_passes_end_ports(const csn_cell *cell);
/* The sandbox is gone, and its row will be. */
void csn_passes_end_all(const csn_cell *cell);

/* CSN_OK, CSN_E_LIMIT: the organisation has enough of them; or another error. */
int csn_signed_new(const csn_cell *cell, unsigned port, int64_t life_ms,
                   char ret_token[CSN_SIGNED_LEN + 1], csn_error *err);
/* The sandbox's id while the URL is good for this port, else NULL. */
const char *csn_signed_find(const char *token, unsigned port);
/* Nothing when there is none, or it is another sandbox's or port's. On failure it goes on. */
int csn_signed_expire(const csn_cell *cell, unsigned port, const char *token, csn_error *err);

#endif
