/* SPDX-License-Identifier: Apache-2.0 */
/* What GET /sandbox and GET /sandbox/paginated are asked for (WIRE 7.1), and whether a sandbox fits. */
#ifndef CSN_SHAPE_FILTER_H
#define CSN_SHAPE_FILTER_H

#include <caisson/error.h>

#include "shape/map.h"
#include "shape/sandbox.h"

typedef enum csn_sort {
    CSN_SORT_ACTIVE,
    CSN_SORT_CREATED,
    CSN_SORT_NAME,
    CSN_SORT_CPU,
    CSN_SORT_MEMORY,
    CSN_SORT_DISK
} csn_sort;

enum { CSN_FILTER_VALUES_MAX = 32, CSN_FILTER_LIMIT_MAX = 200 };

typedef struct csn_filter_list {
    size_t n;
    const char *values[CSN_FILTER_VALUES_MAX]; /* borrowed from the query */
} csn_filter_list;

typedef struct csn_filter {
    const char *id, *name; /* prefixes, case does not matter; NULL: any. Borrowed. */
    csn_map labels;
    csn_filter_list states, snapshots, regions, classes;
    int64_t min_cpu_milli, max_cpu_milli, min_memory, max_memory, min_disk,
        max_disk;                                                     /* max -1: none */
    int is_public, is_recoverable;                                    /* -1: any */
    int64_t created_after, created_before, event_after, event_before; /* 0: any */
    int64_t destroy_after, destroy_before;
    csn_sort sort;
    bool is_ascending;
    int64_t limit, page;
    const char *cursor; /* borrowed; NULL: from the start */
} csn_filter;

/* The i-th value of a query key, or NULL. */
typedef const char *csn_query_fn(const char *key, size_t i, void *user);

/* Reads either generation. CSN_OK or CSN_E_INVALID (400) with the reason; csn_filter_done() in every case. */
int csn_filter_read(csn_query_fn *query, void *user, bool is_paginated, csn_filter *ret,
                    csn_error *err);
void csn_filter_done(csn_filter *f);
void csn_filter_auto(csn_filter *f);

bool csn_filter_fits(const csn_filter *f, const csn_shape_sandbox *s, const csn_map *labels);

/* Order of the list: negative when a comes before b. Never 0 for two ids. */
int csn_filter_compare(const csn_filter *f, const csn_shape_sandbox *a, const csn_shape_sandbox *b);

/* A cursor names the last element shown: its sort value and id. It stays valid when that element is gone. */
int csn_filter_cursor(const csn_filter *f, const csn_shape_sandbox *last, csn_buf *out);
/* Negative: s stands before or at the cursor and was shown. -EINVAL through *ret_error: not one of ours. */
bool csn_filter_is_after(const csn_filter *f, const csn_shape_sandbox *s, int *ret_error);

#endif
