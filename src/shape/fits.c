/* SPDX-License-Identifier: Apache-2.0 */
/* Does a sandbox fit a filter, and where in the list does it stand? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "shape/filter.h"

static bool is_listed(const csn_filter_list *list, const char *value)
{
    if (list->n == 0)
        return true;
    for (size_t i = 0; i < list->n; i++)
        if (value && strcmp(list->values[i], value) == 0)
            return true;
    return false;
}

static bool has_prefix(const char *prefix, const char *text)
{
    return !prefix || strncasecmp(prefix, text, strlen(prefix)) == 0;
}

static bool is_between(int64_t v, int64_t min, int64_t max)
{
    return v >= min && (max < 0 || v <= max);
}

static bool is_in_time(int64_t v, int64_t after, int64_t before)
{
    return (after == 0 || v > after) && (before == 0 || (v != 0 && v < before));
}

static bool fits_flags(const csn_filter *f, const csn_shape_sandbox *s)
{
    return (f->is_public < 0 || (f->is_public == 1) == s->is_public) &&
           (f->is_recoverable < 0 || (f->is_recoverable == 1) == s->is_recoverable);
}

bool csn_filter_fits(const csn_filter *f, const csn_shape_sandbox *s, const csn_map *labels)
{
    return has_prefix(f->id, s->id) && has_prefix(f->name, s->name) &&
           is_listed(&f->states, s->state) && is_listed(&f->snapshots, s->snapshot) &&
           is_listed(&f->regions, s->target) && is_listed(&f->classes, "container") &&
           is_between(s->cpu_milli, f->min_cpu_milli, f->max_cpu_milli) &&
           is_between(s->memory_bytes, f->min_memory, f->max_memory) &&
           is_between(s->disk_bytes, f->min_disk, f->max_disk) && fits_flags(f, s) &&
           is_in_time(s->created_ms, f->created_after, f->created_before) &&
           is_in_time(s->updated_ms, f->event_after, f->event_before) &&
           is_in_time(s->destroy_at_ms, f->destroy_after, f->destroy_before) &&
           csn_map_contains(labels, &f->labels);
}

static int64_t number_of(const csn_filter *f, const csn_shape_sandbox *s)
{
    switch (f->sort) {
    case CSN_SORT_ACTIVE:
        return s->active_ms;
    case CSN_SORT_CREATED:
        return s->created_ms;
    case CSN_SORT_CPU:
        return s->cpu_milli;
    case CSN_SORT_MEMORY:
        return s->memory_bytes;
    case CSN_SORT_DISK:
        return s->disk_bytes;
    case CSN_SORT_NAME:
        break;
    }
    return 0;
}

static int order(const csn_filter *f, int c, const char *id_a, const char *id_b)
{
    if (c == 0)
        c = strcmp(id_a, id_b);
    return f->is_ascending ? c : -c;
}

int csn_filter_compare(const csn_filter *f, const csn_shape_sandbox *a, const csn_shape_sandbox *b)
{
    int64_t x = number_of(f, a), y = number_of(f, b);
    int c = f->sort == CSN_SORT_NAME ? strcmp(a->name, b->name) : (x > y) - (x < y);

    return order(f, c, a->id, b->id);
}

/* hex("<sort> <direction> <id> <value>"): nobody needs to know, and no character needs escaping. */
int csn_filter_cursor(const csn_filter *f, const csn_shape_sandbox *last, csn_buf *out)
{
    csn_auto(buf) csn_buf plain = CSN_BUF_INIT;

    csn_buf_printf(&plain, "%d %d %s ", (int) f->sort, (int) f->is_ascending, last->id);
    if (f->sort == CSN_SORT_NAME)
        csn_buf_puts(&plain, last->name);
    else
        csn_buf_printf(&plain, "%lld", (long long) number_of(f, last));
    for (size_t i = 0; i < plain.len; i++)
        csn_buf_printf(out, "%02x", (unsigned) (unsigned char) plain.data[i]);
    return plain.error < 0 ? plain.error : out->error;
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int decode(const char *hex, csn_buf *out)
{
    for (; *hex; hex += 2) {
        int high = nibble(hex[0]), low = high < 0 ? -1 : nibble(hex[1]);
        if (low < 0 || (high | low) == 0)
            return -EINVAL;
        csn_buf_putc(out, (char) (high << 4 | low));
    }
    return out->error;
}

/* id: 36 characters. */
static int take_apart(const csn_filter *f, csn_str text, csn_str *id, csn_str *value)
{
    char head[8];

    (void) snprintf(head, sizeof(head), "%d %d ", (int) f->sort, (int) f->is_ascending);
    if (!csn_str_starts_with(text, csn_str_of(head)))
        return -EINVAL; /* another order: its place means nothing here */
    csn_str rest = csn_str_n(text.data + strlen(head), text.len - strlen(head));
    if (!csn_str_split(&rest, ' ', id) || id->len != 36 || !rest.data)
        return -EINVAL;
    *value = rest;
    return 0;
}

bool csn_filter_is_after(const csn_filter *f, const csn_shape_sandbox *s, int *ret_error)
{
    csn_auto(buf) csn_buf plain = CSN_BUF_INIT_MAX(1024);
    csn_str id = CSN_STR(""), value = CSN_STR("");
    char last_id[37];
    int64_t last = 0;
    int c;

    if (!f->cursor)
        return true;
    *ret_error = decode(f->cursor, &plain);
    if (*ret_error == 0)
        *ret_error = take_apart(f, csn_str_n(plain.data, plain.len), &id, &value);
    if (*ret_error == 0 && f->sort != CSN_SORT_NAME)
        *ret_error = csn_parse_i64(value, &last);
    if (*ret_error < 0 || csn_str_copy(last_id, sizeof(last_id), id) < 0)
        return false;
    int64_t number = number_of(f, s);
    c = f->sort == CSN_SORT_NAME ? strcmp(s->name, value.data) : (number > last) - (number < last);
    return order(f, c, s->id, last_id) > 0;
}
