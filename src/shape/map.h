/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of strings: environments and labels. In the order of the text, keys unique (the JSON reader sees to it). */
#ifndef CSN_SHAPE_MAP_H
#define CSN_SHAPE_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

typedef struct csn_map_item {
    char *key, *value; /* owned */
} csn_map_item;

typedef struct csn_map {
    size_t n;
    csn_map_item *items;
} csn_map;

void csn_map_done(csn_map *map);
void csn_map_auto(csn_map *map);

/* Adds or replaces. 0 or -ENOMEM. */
int csn_map_set(csn_map *map, const char *key, const char *value);
/* Adds what `map` has not yet. 0 or -ENOMEM. */
int csn_map_add(csn_map *map, const csn_map *more);
void csn_map_unset(csn_map *map, const char *key);
const char *csn_map_get(const csn_map *map, const char *key); /* NULL: absent */
int csn_map_copy(const csn_map *from, csn_map *to);           /* `to` is empty before */

/* An object whose values are strings. 0; -EINVAL for another type or a value that is no string; -E2BIG for more than
 * max_items or a key or value beyond max_len; -ENOMEM. */
int csn_map_read(const csn_json *object, size_t max_items, size_t max_len, csn_map *map);
/* The same from text, as the store keeps it. */
int csn_map_parse(const char *json, csn_map *map);
void csn_map_write(const csn_map *map, csn_jw *w);
char *csn_map_text(const csn_map *map); /* compact JSON, owned; NULL: no memory */

/* Every pair of `part` is in `map` too. */
bool csn_map_contains(const csn_map *map, const csn_map *part);

/* [A-Za-z_][A-Za-z0-9_]* */
bool csn_is_env_name(const char *s);

#endif
