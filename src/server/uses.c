/* SPDX-License-Identifier: Apache-2.0 */
#include "server/uses.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"

enum { FRESH_MS = 60 * 1000, NOTED_MAX = 10000 };

typedef struct use {
    csn_list link;
    char key_id[37];
    int64_t at_ms;
} use;

static csn_list noted = { &noted, &noted }; /* few: the busy keys of the last seconds */
static size_t n_noted;

void csn_uses_note(const csn_key_row *row, int64_t now_ms)
{
    if (now_ms - row->used_ms <= FRESH_MS || n_noted == NOTED_MAX)
        return;
    csn_list_foreach (node, &noted)
        if (strcmp(csn_list_entry(node, use, link)->key_id, row->id) == 0)
            return;
    use *u = calloc(1, sizeof(*u));
    if (!u)
        return;
    memcpy(u->key_id, row->id, sizeof(u->key_id));
    u->at_ms = now_ms;
    csn_list_append(&noted, &u->link);
    n_noted++;
}

static int write_all(csn_store *store, csn_error *err)
{
    int r = csn_store_begin(store, err);

    csn_list_foreach (node, &noted) {
        const use *u = csn_list_entry(node, use, link);
        if (r == CSN_OK)
            r = csn_store_key_used(store, u->key_id, u->at_ms, err);
    }
    if (r == CSN_OK)
        return csn_store_commit(store, err);
    csn_store_rollback(store);
    return r;
}

void csn_uses_flush(csn_store *store)
{
    csn_error err = { 0 };
    csn_list *node;

    if (n_noted == 0)
        return;
    if (write_all(store, &err) < 0)
        csn_log(CSN_LOG_WARN, "the last use of keys can't be written", "error", err.message, NULL);
    while ((node = csn_list_pop(&noted)))
        free(csn_list_entry(node, use, link));
    n_noted = 0;
}
