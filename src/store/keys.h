/* SPDX-License-Identifier: Apache-2.0 */
/* Organisations and their keys. A key is known by its SHA-256 alone. */
#ifndef CSN_STORE_KEYS_H
#define CSN_STORE_KEYS_H

#include "store/store.h"

typedef struct csn_key_row {
    char id[37], org_id[37];
    char name[129];
    unsigned char hash[32];
    char hint[24]; /* "dtn_********1a2b" */
    bool is_admin;
    int64_t created_ms;
    int64_t expires_ms; /* 0: never */
    int64_t used_ms;    /* 0: never */
} csn_key_row;

int csn_store_key_insert(csn_store *store, const csn_key_row *row, csn_error *err);
/* By hash; expired ones too. CSN_E_NOT_FOUND. */
int csn_store_key_find(csn_store *store, const unsigned char hash[32], csn_key_row *ret_row,
                       csn_error *err);
/* The same by its id. */
int csn_store_key_get(csn_store *store, const char *id, csn_key_row *ret_row, csn_error *err);
/* By id or name, of this organisation. CSN_E_NOT_FOUND. */
int csn_store_key_remove(csn_store *store, const char *org_id, const char *id_or_name,
                         csn_error *err);
int csn_store_key_used(csn_store *store, const char *id, int64_t now_ms, csn_error *err);
typedef void csn_key_row_fn(const csn_key_row *row, void *user);
int csn_store_key_each(csn_store *store, const char *org_id, csn_key_row_fn *fn, void *user,
                       csn_error *err);
/* The number of all keys, or CSN_E_…. */
int64_t csn_store_key_count(csn_store *store, csn_error *err);

#endif
