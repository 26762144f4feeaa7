/* SPDX-License-Identifier: Apache-2.0 */
/* A list of snapshots from two places, in the order that was asked for, of which one page is shown. */
#ifndef CSN_SERVER_SNAPLIST_H
#define CSN_SERVER_SNAPLIST_H

#include "base/json.h"
#include "shape/volume.h"

typedef struct csn_snaplist_item csn_snaplist_item;
typedef struct csn_snaplist {
    csn_snaplist_item *items;
    size_t n, cap;
    int error; /* 0 or -ENOMEM, for good */
} csn_snaplist;

typedef enum csn_snap_order {
    CSN_SNAP_BY_USE, /* when it was last used; what never was comes as the oldest */
    CSN_SNAP_BY_NAME,
    CSN_SNAP_BY_STATE,
    CSN_SNAP_BY_AGE, /* when it was made */
} csn_snap_order;

/* Of the query's words; NULL or "": the default (by use, descending). False: no such word. */
bool csn_snap_order_read(const char *sort, const char *order, csn_snap_order *ret, bool *ret_is_down);

void csn_snaplist_add(csn_snaplist *list, const csn_shape_snapshot *s); /* copied */
void csn_snaplist_sort(csn_snaplist *list, csn_snap_order by, bool is_down);
/* The values from `from` on, at most `n`, into an array that is open. */
void csn_snaplist_write(const csn_snaplist *list, size_t from, size_t n, csn_jw *w);
void csn_snaplist_done(csn_snaplist *list);

#endif
