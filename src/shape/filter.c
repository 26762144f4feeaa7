/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/filter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"
#include "base/time.h"

void csn_filter_done(csn_filter *f)
{
    csn_map_done(&f->labels);
}

void csn_filter_auto(csn_filter *f)
{
    int saved = errno;

    csn_filter_done(f);
    errno = saved;
}

typedef struct asked {
    csn_query_fn *query;
    void *user;
    csn_error *err;
} asked;

static const char *one(const asked *q, const char *key)
{
    const char *value = q->query(key, 0, q->user);

    return value && *value ? value : NULL;
}

static int read_list(const asked *q, const char *key, csn_filter_list *list)
{
    const char *value;

    for (size_t i = 0; (value = q->query(key, i, q->user)) != NULL; i++) {
        if (list->n == CSN_FILTER_VALUES_MAX)
            return csn_fail(q->err, CSN_E_INVALID, "more than %d values of %s",
                            CSN_FILTER_VALUES_MAX, key);
        list->values[list->n++] = value;
    }
    return CSN_OK;
}

static int read_int(const asked *q, const char *key, int64_t min, int64_t max, int64_t *ret)
{
    const char *text = one(q, key);
    int64_t v;

    if (!text)
        return CSN_OK;
    if (csn_parse_i64(csn_str_of(text), &v) < 0 || v < min || v > max)
        return csn_fail(q->err, CSN_E_INVALID, "%s must be a whole number from %lld to %lld", key,
                        (long long) min, (long long) max);
    *ret = v;
    return CSN_OK;
}

/* A decimal number of `unit`s, such as 1.5 (GiB). */
static int read_amount(const asked *q, const char *key, int64_t unit, int64_t *ret)
{
    const char *text = one(q, key);
    char *end;

    if (!text)
        return CSN_OK;
    double v = strtod(text, &end);
    if (*end || end == text || !isfinite(v) || v < 0 || v > 1e6)
        return csn_fail(q->err, CSN_E_INVALID, "%s must be a number from 0 to 1000000", key);
    *ret = (int64_t) (v * (double) unit);
    return CSN_OK;
}

static int read_bool(const asked *q, const char *key, int *ret)
{
    const char *text = one(q, key);

    if (!text)
        return CSN_OK;
    if (!csn_streq(text, "true") && !csn_streq(text, "false"))
        return csn_fail(q->err, CSN_E_INVALID, "%s must be true or false", key);
    *ret = text[0] == 't';
    return CSN_OK;
}

/* Python writes the zone without a colon (+0000), which the strict reader does not know; and a '+' that was not escaped
 * arrives as a space. */
static int read_time(const asked *q, const char *key, int64_t *ret)
{
    const char *text = one(q, key);
    char fixed[64];

    if (!text)
        return CSN_OK;
    size_t len = strlen(text);
    if (len < 5 || len + 2 > sizeof(fixed))
        return csn_fail(q->err, CSN_E_INVALID, "%s must be an ISO 8601 time", key);
    memcpy(fixed, text, len + 1);
    char *zone = fixed + len - 5;
    if (*zone == ' ')
        *zone = '+';
    if (*zone == '+' || *zone == '-') {
        memmove(zone + 4, zone + 3, 3);
        zone[3] = ':';
    }
    if (csn_parse_iso8601(fixed, ret) < 0)
        return csn_fail(q->err, CSN_E_INVALID, "%s must be an ISO 8601 time", key);
    if (*ret == 0) /* the epoch itself; 0 says "any" */
        *ret = 1;
    return CSN_OK;
}

/* An object as text; the word null, which some clients send for "no filter", is absent. */
static int read_labels(const asked *q, csn_map *labels)
{
    const char *text = one(q, "labels");
    csn_auto(json) csn_json *doc = NULL;

    if (!text)
        return CSN_OK;
    if (csn_json_parse(text, strlen(text), &doc, NULL) < 0)
        return csn_fail(q->err, CSN_E_INVALID, "labels must be a JSON object");
    if (csn_json_type_of(doc) == CSN_JSON_NULL)
        return CSN_OK;
    if (csn_map_read(doc, 128, 4096, labels) < 0)
        return csn_fail(q->err, CSN_E_INVALID, "labels must be a JSON object with string values");
    return CSN_OK;
}

static int read_sort(const asked *q, csn_filter *f)
{
    static const struct {
        const char *name;
        csn_sort sort;
    } sorts[] = {
        { "lastActivityAt", CSN_SORT_ACTIVE },
        { "createdAt", CSN_SORT_CREATED },
        { "updatedAt", CSN_SORT_ACTIVE },
        { "name", CSN_SORT_NAME },
        { "id", CSN_SORT_CREATED },
        { "state", CSN_SORT_CREATED },
        { "snapshot", CSN_SORT_CREATED },
        { "region", CSN_SORT_CREATED },
        { "cpu", CSN_SORT_CPU },
        { "memoryGib", CSN_SORT_MEMORY },
        { "diskGib", CSN_SORT_DISK },
    };
    const char *sort = one(q, "sort"), *order = one(q, "order");
    size_t i = 0;

    while (sort && i < CSN_COUNT(sorts) && !csn_streq(sorts[i].name, sort))
        i++;
    if (i == CSN_COUNT(sorts))
        return csn_fail(q->err, CSN_E_INVALID,
                        "sort must be name, cpu, memoryGib, diskGib, lastActivityAt or createdAt");
    if (sort)
        f->sort = sorts[i].sort;
    if (order && !csn_streq(order, "asc") && !csn_streq(order, "desc"))
        return csn_fail(q->err, CSN_E_INVALID, "order must be asc or desc");
    f->is_ascending = order && order[0] == 'a';
    return CSN_OK;
}

static int read_amounts(const asked *q, csn_filter *f)
{
    const int64_t gib = INT64_C(1) << 30;
    int r = read_amount(q, "minCpu", 1000, &f->min_cpu_milli);

    if (r == CSN_OK)
        r = read_amount(q, "maxCpu", 1000, &f->max_cpu_milli);
    if (r == CSN_OK)
        r = read_amount(q, "minMemoryGiB", gib, &f->min_memory);
    if (r == CSN_OK)
        r = read_amount(q, "maxMemoryGiB", gib, &f->max_memory);
    if (r == CSN_OK)
        r = read_amount(q, "minDiskGiB", gib, &f->min_disk);
    return r == CSN_OK ? read_amount(q, "maxDiskGiB", gib, &f->max_disk) : r;
}

static int read_times(const asked *q, csn_filter *f)
{
    struct {
        const char *key;
        int64_t *to;
    } times[] = {
        { "createdAtAfter", &f->created_after },     { "createdAtBefore", &f->created_before },
        { "lastEventAfter", &f->event_after },       { "lastEventBefore", &f->event_before },
        { "autoDestroyAtAfter", &f->destroy_after }, { "autoDestroyAtBefore", &f->destroy_before },
    };
    int r = CSN_OK;

    for (size_t i = 0; i < CSN_COUNT(times) && r == CSN_OK; i++)
        r = read_time(q, times[i].key, times[i].to);
    return r;
}

static int read_lists(const asked *q, bool is_paginated, csn_filter *f)
{
    int r = read_list(q, "states", &f->states);

    if (r == CSN_OK)
        r = read_list(q, "snapshots", &f->snapshots);
    if (r == CSN_OK)
        r = read_list(q, is_paginated ? "regions" : "regionIds", &f->regions);
    return r == CSN_OK ? read_list(q, "sandboxClasses", &f->classes) : r;
}

int csn_filter_read(csn_query_fn *query, void *user, bool is_paginated, csn_filter *ret,
                    csn_error *err)
{
    asked q = { query, user, err };
    csn_filter f = { .max_cpu_milli = -1,
                     .max_memory = -1,
                     .max_disk = -1,
                     .is_public = -1,
                     .is_recoverable = -1,
                     .limit = 100,
                     .page = 1 };

    f.sort = is_paginated ? CSN_SORT_CREATED : CSN_SORT_ACTIVE;
    *ret = f;
    ret->id = one(&q, "id");
    ret->name = one(&q, "name");
    ret->cursor = is_paginated ? NULL : one(&q, "cursor");
    int r = read_int(&q, "limit", 1, CSN_FILTER_LIMIT_MAX, &ret->limit);
    if (r == CSN_OK && is_paginated)
        r = read_int(&q, "page", 1, INT32_MAX, &ret->page);
    if (r == CSN_OK)
        r = read_lists(&q, is_paginated, ret);
    if (r == CSN_OK)
        r = read_amounts(&q, ret);
    if (r == CSN_OK)
        r = read_bool(&q, "isPublic", &ret->is_public);
    if (r == CSN_OK)
        r = read_bool(&q, "isRecoverable", &ret->is_recoverable);
    if (r == CSN_OK)
        r = read_times(&q, ret);
    if (r == CSN_OK)
        r = read_sort(&q, ret);
    return r == CSN_OK ? read_labels(&q, &ret->labels) : r;
}
