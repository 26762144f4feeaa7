/* SPDX-License-Identifier: Apache-2.0 */
/* Requests per second of an organisation: a bucket that holds one second's worth and fills steadily. */
#ifndef CSN_SERVER_RATE_H
#define CSN_SERVER_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Takes one of `per_s` (0: no limit). False: the bucket is empty. Out of memory counts as room. */
bool csn_rate_take(const char *org_id, int64_t per_s);

#endif
