/* SPDX-License-Identifier: Apache-2.0 */
#include "server/rate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "server/table.h"

typedef struct bucket {
    char org_id[37];
    double n;
    int64_t at_ns; /* when n was counted */
} bucket;

static csn_table buckets; /* one per organisation that has a key: as many as an operator made */

static bucket *bucket_of(const char *org_id, int64_t per_s)
{
    bucket *b = csn_table_get(&buckets, org_id);

    if (b)
        return b;
    b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    (void) snprintf(b->org_id, sizeof(b->org_id), "%s", org_id);
    b->n = (double) per_s;
    b->at_ns = csn_now_ns();
    if (csn_table_put(&buckets, b->org_id, b) == 0)
        return b;
    free(b);
    return NULL;
}

bool csn_rate_take(const char *org_id, int64_t per_s)
{
    bucket *b = per_s > 0 ? bucket_of(org_id, per_s) : NULL;
    int64_t now = csn_now_ns();

    if (!b)
        return true;
    b->n += (double) (now - b->at_ns) * (double) per_s / (double) CSN_NS_PER_S;
    b->at_ns = now;
    if (b->n > (double) per_s)
        b->n = (double) per_s;
    if (b->n < 1)
        return false;
    b->n -= 1;
    return true;
}
