/* SPDX-License-Identifier: Apache-2.0 */
#include "server/signed.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/list.h"
#include "base/str.h"
#include "base/time.h"
#include "server/table.h"

enum { PER_ORG_MAX = 1000, ALL_MAX = 50000 };

typedef struct pass {
    csn_list link;
    char token[CSN_SIGNED_LEN + 1];
    char box_id[37], org_id[37];
    unsigned port;
    int64_t expires_ms;
} pass;

static csn_list passes = CSN_LIST_INIT(passes); /* one front per process */
static csn_table by_token;
static size_t n_passes;

static void drop(pass *p)
{
    (void) csn_table_remove(&by_token, p->token); /* it is there */
    csn_list_remove(&p->link);
    n_passes--;
    free(p);
}

/* How many good ones an organisation has; those out of time are forgotten on the way. */
static size_t count(const char *org_id)
{
    const int64_t now = csn_steady_ms();
    size_t n = 0;

    csn_list_foreach (node, &passes) {
        pass *p = csn_list_entry(node, pass, link);

        if (p->expires_ms <= now)
            drop(p);
        else
            n += csn_streq(p->org_id, org_id);
    }
    return n;
}

static int name(pass *p)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[CSN_SIGNED_LEN];
    int r = csn_random(bytes, sizeof(bytes));

    for (size_t i = 0; r == 0 && i < sizeof(bytes); i++)
        p->token[i] = letters[bytes[i] % 32];
    return r;
}

int csn_signed_new(const csn_cell *cell, unsigned port, int64_t expires_ms,
                   char ret_token[CSN_SIGNED_LEN + 1], csn_error *err)
{
    if (count(cell->row.org_id) >= PER_ORG_MAX || n_passes >= ALL_MAX)
        return csn_fail(err, CSN_E_LIMIT, "there are %d signed preview URLs: let some expire",
                        (int) PER_ORG_MAX);
    pass *p = csn_calloc(1, sizeof(*p));
    if (!p)
        return csn_fail(err, CSN_E_NO_MEMORY, "sign a preview URL");
    p->port = port;
    p->expires_ms = expires_ms;
    memcpy(p->box_id, cell->row.id, sizeof(p->box_id));
    memcpy(p->org_id, cell->row.org_id, sizeof(p->org_id));
    int r = name(p);
    if (r == 0)
        r = csn_table_put(&by_token, p->token, p);
    if (r < 0) {
        free(p);
        return csn_fail_sys(err, r, "sign a preview URL");
    }
    csn_list_append(&passes, &p->link);
    n_passes++;
    memcpy(ret_token, p->token, sizeof(p->token));
    return CSN_OK;
}

const char *csn_signed_find(const char *token, unsigned port)
{
    const pass *p = csn_table_get(&by_token, token);

    return p && p->port == port && p->expires_ms > csn_steady_ms() ? p->box_id : NULL;
}

void csn_signed_expire(const csn_cell *cell, unsigned port, const char *token)
{
    pass *p = csn_table_get(&by_token, token);

    if (p && p->port == port && csn_streq(p->box_id, cell->row.id))
        drop(p);
}
