/* SPDX-License-Identifier: Apache-2.0 */
#include "server/snaplist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

struct csn_snaplist_item {
    char *name;
    csn_buf json;
    char state[24];
    int64_t used_ms, created_ms;
};

bool csn_snap_order_read(const char *sort, const char *order, csn_snap_order *ret, bool *ret_is_down)
{
    static const char *const words[] = {
        [CSN_SNAP_BY_USE] = "lastUsedAt",
        [CSN_SNAP_BY_NAME] = "name",
        [CSN_SNAP_BY_STATE] = "state",
        [CSN_SNAP_BY_AGE] = "createdAt",
    };

    *ret = CSN_SNAP_BY_USE;
    *ret_is_down = !order || !*order || csn_streq(order, "desc");
    if (!*ret_is_down && !csn_streq(order, "asc"))
        return false;
    if (!sort || !*sort)
        return true;
    for (size_t i = 0; i < CSN_COUNT(words); i++)
        if (csn_streq(sort, words[i])) {
            *ret = (csn_snap_order) i;
            return true;
        }
    return false;
}

static void item_done(csn_snaplist_item *item)
{
    free(item->name);
    csn_buf_free(&item->json);
}

static int item_fill(csn_snaplist_item *item, const csn_shape_snapshot *s)
{
    csn_jw w = CSN_JW_INIT(&item->json, false);

    *item = (csn_snaplist_item){
        .json = CSN_BUF_INIT,
        .name = strdup(s->name),
        .used_ms = s->used_ms,
        .created_ms = s->created_ms,
    };
    (void) csn_str_copy(item->state, sizeof(item->state), csn_str_of(s->state));
    csn_shape_snapshot_write(s, &w);
    return item->name ? item->json.error : -ENOMEM;
}

void csn_snaplist_add(csn_snaplist *list, const csn_shape_snapshot *s)
{
    if (list->error == 0 && list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        csn_snaplist_item *more = reallocarray(list->items, cap, sizeof(*more));
        if (!more) {
            list->error = -ENOMEM;
            return;
        }
        list->items = more;
        list->cap = cap;
    }
    if (list->error == 0)
        list->error = item_fill(&list->items[list->n++], s);
}

static int compare_times(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

typedef struct sorting {
    csn_snap_order by;
    bool is_down;
} sorting;

/* The same every time, so that pages fit together: names are unique. */
static int compare(const void *a, const void *b, void *user)
{
    const csn_snaplist_item *x = a, *y = b;
    const sorting *how = user;
    int r = 0;

    switch (how->by) {
    case CSN_SNAP_BY_USE:
        r = compare_times(x->used_ms, y->used_ms);
        if (r == 0)
            r = compare_times(x->created_ms, y->created_ms);
        break;
    case CSN_SNAP_BY_AGE:
        r = compare_times(x->created_ms, y->created_ms);
        break;
    case CSN_SNAP_BY_STATE:
        r = strcmp(x->state, y->state);
        break;
    case CSN_SNAP_BY_NAME:
        break;
    }
    if (r == 0)
        r = strcmp(x->name, y->name);
    return how->is_down ? -r : r;
}

void csn_snaplist_sort(csn_snaplist *list, csn_snap_order by, bool is_down)
{
    sorting how = { by, is_down };

    if (list->n > 0)
        qsort_r(list->items, list->n, sizeof(*list->items), compare, &how);
}

void csn_snaplist_write(const csn_snaplist *list, size_t from, size_t n, csn_jw *w)
{
    for (size_t i = from; i < list->n && i - from < n; i++)
        csn_jw_raw(w, list->items[i].json.data, list->items[i].json.len);
}

void csn_snaplist_done(csn_snaplist *list)
{
    for (size_t i = 0; i < list->n; i++)
        item_done(&list->items[i]);
    free(list->items);
    *list = (csn_snaplist){ 0 };
}
