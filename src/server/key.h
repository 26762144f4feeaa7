/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: made, hashed, hinted at. A key's text is known to whoever it was shown to, once; the store has its SHA-256. */
#ifndef CSN_SERVER_KEY_H
#define CSN_SERVER_KEY_H

#include <stddef.h>

#include "store/keys.h"
#include "store/orgs.h"

enum { CSN_KEY_SIZE = 4 + 64 + 1, CSN_KEY_TEXT_MIN = 16, CSN_KEY_TEXT_MAX = 256 };

/* 0 or -errno. */
int csn_key_hash(const char *text, size_t len, unsigned char ret_hash[32]);

/* A new key of 256 random bits, "dtn_" and 64 hex digits. Of `row` id, hash, hint and created_ms are set. */
int csn_key_mint(char ret_text[CSN_KEY_SIZE], csn_key_row *row);

/* The same row for a text somebody else chose: CSN_E_INVALID unless it is 16 to 256 printable characters without space. */
int csn_key_adopt(const char *text, csn_key_row *row, csn_error *err);

/* The organisation of this name, made if it isn't there. */
int csn_org_ensure(csn_store *store, const char *name, csn_org_row *ret_row, csn_error *err);

#define CSN_ORG_DEFAULT "default"

#endif
