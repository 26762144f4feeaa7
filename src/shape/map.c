/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void csn_map_done(csn_map *map)
{
    for (size_t i = 0; i < map->n; i++) {
        free(map->items[i].key);
        free(map->items[i].value);
    }
    free(map->items);
    *map = (csn_map){ 0 };
}

void csn_map_auto(csn_map *map)
{
    int saved = errno;

    csn_map_done(map);
    errno = saved;
}

static csn_map_item *find(const csn_map *map, const char *key)
{
    for (size_t i = 0; i < map->n; i++)
        if (strcmp(map->items[i].key, key) == 0)
            return &map->items[i];
    return NULL;
}

static int append(csn_map *map, const char *key, const char *value)
{
    if ((map->n & (map->n - 1)) == 0) { /* full at every power of two */
        csn_map_item *items = realloc(map->items, (map->n ? map->n * 2 : 1) * sizeof(*items));
        if (!items)
            return -ENOMEM;
        map->items = items;
    }
    csn_map_item item = { strdup(key), strdup(value) };
    if (!item.key || !item.value) {
        free(item.key);
        free(item.value);
        return -ENOMEM;
    }
    map->items[map->n++] = item;
    return 0;
}

int csn_map_set(csn_map *map, const char *key, const char *value)
{
    csn_map_item *item = find(map, key);

    if (!item)
        return append(map, key, value);
    char *copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(item->value);
    item->value = copy;
    return 0;
}

int csn_map_add(csn_map *map, const csn_map *more)
{
    int r = 0;

    for (size_t i = 0; i < more->n && r == 0; i++)
        if (!find(map, more->items[i].key))
            r = append(map, more->items[i].key, more->items[i].value);
    return r;
}

void csn_map_unset(csn_map *map, const char *key)
{
    csn_map_item *item = find(map, key);

    if (!item)
        return;
    free(item->key);
    free(item->value);
    size_t at = (size_t) (item - map->items);
    /* One place stays unused, so the capacity is what append() takes it for, or more. */
    memmove(item, item + 1, (map->n - at - 1) * sizeof(*item));
    map->n--;
}

const char *csn_map_get(const csn_map *map, const char *key)
{
    const csn_map_item *item = find(map, key);

    return item ? item->value : NULL;
}

int csn_map_copy(const csn_map *from, csn_map *to)
{
    int r = 0;

    for (size_t i = 0; i < from->n && r == 0; i++)
        r = append(to, from->items[i].key, from->items[i].value);
    if (r < 0)
        csn_map_done(to);
    return r;
}

static int read_items(const csn_json *object, size_t max_len, csn_map *map)
{
    int r = 0;

    for (void *it = csn_json_iter(object); it && r == 0; it = csn_json_iter_next(object, it)) {
        const char *key = csn_json_iter_key(it);
        const csn_json *value = csn_json_iter_value(it);
        if (csn_json_type_of(value) != CSN_JSON_STRING)
            return -EINVAL;
        if (strlen(key) > max_len || csn_json_str_len(value) > max_len)
            return -E2BIG;
        r = append(map, key, csn_json_str(value, ""));
    }
    return r;
}

int csn_map_read(const csn_json *object, size_t max_items, size_t max_len, csn_map *map)
{
    if (csn_json_type_of(object) != CSN_JSON_OBJECT)
        return -EINVAL;
    if (csn_json_count(object) > max_items)
        return -E2BIG;
    int r = read_items(object, max_len, map);
    if (r < 0)
        csn_map_done(map);
    return r;
}

int csn_map_parse(const char *json, csn_map *map)
{
    csn_auto(json) csn_json *doc = NULL;
    int r = csn_json_parse(json, strlen(json), &doc, NULL);

    return r < 0 ? r : csn_map_read(doc, SIZE_MAX, SIZE_MAX, map);
}

void csn_map_write(const csn_map *map, csn_jw *w)
{
    csn_jw_begin_object(w);
    for (size_t i = 0; i < map->n; i++)
        csn_jw_kstr(w, map->items[i].key, map->items[i].value);
    csn_jw_end_object(w);
}

char *csn_map_text(const csn_map *map)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_map_write(map, &w);
    return csn_buf_take(&out, NULL);
}

bool csn_map_contains(const csn_map *map, const csn_map *part)
{
    for (size_t i = 0; i < part->n; i++) {
        const char *value = csn_map_get(map, part->items[i].key);
        if (!value || strcmp(value, part->items[i].value) != 0)
            return false;
    }
    return true;
}

bool csn_is_env_name(const char *s)
{
    if (!*s || (*s >= '0' && *s <= '9'))
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              *s == '_'))
            return false;
    return true;
}
