/* SPDX-License-Identifier: Apache-2.0 */
/* The table of organisations. */
#ifndef CSN_STORE_ORGS_H
#define CSN_STORE_ORGS_H

#include "store/store.h"

typedef struct csn_org_row {
    char id[37];
    char name[129];
    int64_t created_ms;
} csn_org_row;

int csn_store_org_insert(csn_store *store, const csn_org_row *row, csn_error *err);
/* By id or name. CSN_E_NOT_FOUND. */
int csn_store_org_get(csn_store *store, const char *id_or_name, csn_org_row *ret_row,
                      csn_error *err);
/* All, oldest first. */
typedef void csn_org_row_fn(const csn_org_row *row, void *user);
int csn_store_org_each(csn_store *store, csn_org_row_fn *fn, void *user, csn_error *err);

#endif
