/* SPDX-License-Identifier: Apache-2.0 */
/* Things by text: a hash table that holds borrowed pointers under borrowed keys. Keys are chosen by clients, so the hash
 * has a secret of its own and nobody can aim many at one place. */
#ifndef CSN_SERVER_TABLE_H
#define CSN_SERVER_TABLE_H

#include <stddef.h>
#include <stdint.h>

typedef struct csn_table_item {
    const char *key; /* borrowed while it is in */
    void *value;
    struct csn_table_item *next;
} csn_table_item;

typedef struct csn_table {
    csn_table_item **places;
    size_t n_places, n;
    uint64_t secret[2];
} csn_table;

void csn_table_done(csn_table *table); /* forgets all */
void *csn_table_get(const csn_table *table, const char *key);
/* 0, -EEXIST or -ENOMEM. */
int csn_table_put(csn_table *table, const char *key, void *value);
void *csn_table_remove(csn_table *table, const char *key); /* what was there, or NULL */

#endif
