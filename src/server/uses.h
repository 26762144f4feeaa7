/* SPDX-License-Identifier: Apache-2.0 */
/* When keys were last used: for people to look at, so it is written later, and at most once a minute per key. */
#ifndef CSN_SERVER_USES_H
#define CSN_SERVER_USES_H

#include "store/keys.h"

void csn_uses_note(const csn_key_row *row, int64_t now_ms);
/* Writes what was noted, in one transaction. */
void csn_uses_flush(csn_store *store);

#endif
