/* SPDX-License-Identifier: Apache-2.0 */
#include "server/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"

static uint64_t rotl(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* SipHash-1-3 in spirit: one round per 8 bytes, three at the end. */
static void round_of(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

static uint64_t hash_of(const csn_table *t, const char *key)
{
    uint64_t v[4] = { t->secret[0] ^ UINT64_C(0x736f6d6570736575),
                      t->secret[1] ^ UINT64_C(0x646f72616e646f6d),
                      t->secret[0] ^ UINT64_C(0x6c7967656e657261),
                      t->secret[1] ^ UINT64_C(0x7465646279746573) };
    size_t len = strlen(key), total = len;

    for (;;) {
        uint64_t m = 0;
        size_t n = len < 8 ? len : 8;
        memcpy(&m, key, n);
        if (n < 8)
            m |= (uint64_t) total << 56;
        v[3] ^= m;
        round_of(v);
        v[0] ^= m;
        if (n < 8)
            break;
        key += 8;
        len -= 8;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        round_of(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static csn_table_item **place_of(const csn_table *t, const char *key)
{
    csn_table_item **at = &t->places[hash_of(t, key) & (t->n_places - 1)];

    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    return at;
}

static int grow(csn_table *t)
{
    csn_table bigger = { .n_places = t->n_places ? t->n_places * 2 : 64, .n = t->n };

    if (t->n_places == 0 && csn_random(t->secret, sizeof(t->secret)) < 0)
        return -ENOMEM;
    memcpy(bigger.secret, t->secret, sizeof(bigger.secret));
    bigger.places = calloc(bigger.n_places, sizeof(void *));
    if (!bigger.places)
        return -ENOMEM;
    for (size_t i = 0; i < t->n_places; i++)
        for (csn_table_item *item = t->places[i], *next; item; item = next) {
            next = item->next;
            item->next = NULL;
            *place_of(&bigger, item->key) = item;
        }
    free(t->places);
    *t = bigger;
    return 0;
}

void csn_table_done(csn_table *t)
{
    for (size_t i = 0; i < t->n_places; i++)
        for (csn_table_item *item = t->places[i], *next; item; item = next) {
            next = item->next;
            free(item);
        }
    free(t->places);
    *t = (csn_table){ 0 };
}

void *csn_table_get(const csn_table *t, const char *key)
{
    const csn_table_item *item = t->n_places ? *place_of(t, key) : NULL;

    return item ? item->value : NULL;
}

int csn_table_put(csn_table *t, const char *key, void *value)
{
    if (t->n >= t->n_places && grow(t) < 0)
        return -ENOMEM;
    csn_table_item **at = place_of(t, key);
    if (*at)
        return -EEXIST;
    csn_table_item *item = calloc(1, sizeof(*item));
    if (!item)
        return -ENOMEM;
    item->key = key;
    item->value = value;
    *at = item;
    t->n++;
    return 0;
}

void *csn_table_remove(csn_table *t, const char *key)
{
    csn_table_item **at = t->n_places ? place_of(t, key) : NULL;

    if (!at || !*at)
        return NULL;
    csn_table_item *item = *at;
    void *value = item->value;
    *at = item->next;
    free(item);
    t->n--;
    return value;
}
