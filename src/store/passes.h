/* SPDX-License-Identifier: Apache-2.0 */
/* The table of passes: tokens that open one port of a sandbox until a time. A pass goes with its sandbox's row; one that is
 * not signed also when that row is written as stopped, archived or failed. */
#ifndef CSN_STORE_PASSES_H
#define CSN_STORE_PASSES_H

#include "store/store.h"

typedef struct csn_pass_row {
    char token[33];
    char sandbox_id[37];
    unsigned port;
    bool is_signed;
    int64_t expires_ms;
} csn_pass_row;

int csn_store_pass_insert(csn_store *store, const csn_pass_row *row, csn_error *err);
int csn_store_pass_renew(csn_store *store, const char *token, int64_t expires_ms, csn_error *err);
int csn_store_pass_remove(csn_store *store, const char *token, csn_error *err);
/* Those that expired at `now_ms` or before. */
int csn_store_pass_expire(csn_store *store, int64_t now_ms, csn_error *err);

typedef void csn_pass_row_fn(const csn_pass_row *row, void *user);
int csn_store_pass_each(csn_store *store, csn_pass_row_fn *fn, void *user, csn_error *err);

#endif
