/* SPDX-License-Identifier: Apache-2.0 */
/* Failed tries per address. A fixed table: an attacker fills it and gains nothing. */
#ifndef CSN_SERVER_TRIES_H
#define CSN_SERVER_TRIES_H

#include <stdbool.h>

enum { CSN_TRIES_MAX = 30, CSN_TRIES_WINDOW_S = 60 };

void csn_tries_failed(const char *address);
/* More than CSN_TRIES_MAX in the running window. */
bool csn_tries_is_blocked(const char *address);

#endif
