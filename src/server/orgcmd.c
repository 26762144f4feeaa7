/* SPDX-License-Identifier: Apache-2.0 */
#include "server/orgcmd.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "server/key.h"
#include "server/keycmd.h"
#include "store/quotas.h"

typedef struct wish {
    const char *verb, *name;
    int64_t limits[CSN_QUOTA_COUNT]; /* -1: not said */
    bool is_json;
} wish;

/* "--max-KIND=NUMBER" */
static bool read_limit(const char *arg, wish *w)
{
    const char *equals = strchr(arg, '=');

    for (int i = 0; csn_starts_with(arg, "--max-") && equals && i < CSN_QUOTA_COUNT; i++) {
        size_t len = strlen(csn_quota_names[i]);
        if ((size_t) (equals - arg - 6) == len && strncmp(arg + 6, csn_quota_names[i], len) == 0)
            return csn_parse_i64(csn_str_of(equals + 1), &w->limits[i]) == 0 && w->limits[i] >= 0;
    }
    return false;
}

static int read_wish(char **argv, wish *w, csn_error *err)
{
    *w = (wish){ .verb = argv[0] };
    for (int i = 0; i < CSN_QUOTA_COUNT; i++)
        w->limits[i] = -1;
    if (!w->verb)
        return csn_fail(err, CSN_E_INVALID, "want ls, set or reset");
    for (char **a = argv + 1; *a; a++) {
        if (csn_streq(*a, "--json"))
            w->is_json = true;
        else if (csn_starts_with(*a, "--name="))
            w->name = *a + 7;
        else if (!read_limit(*a, w))
            return csn_fail(err, CSN_E_INVALID, "'%.64s' makes no sense here", *a);
    }
    return CSN_OK;
}

/* A running server waits while we write: it is one commit. */
static int set(csn_store *store, const wish *want, csn_error *err)
{
    csn_org_row org;
    int r = csn_store_begin(store, err);

    if (r < 0)
        return r;
    r = csn_org_ensure(store, want->name, &org, err);
    for (int i = 0; i < CSN_QUOTA_COUNT && r == CSN_OK; i++)
        if (want->limits[i] >= 0)
            r = csn_store_quota_set(store, org.id, (csn_quota) i, want->limits[i], err);
    if (r == CSN_OK)
        return csn_store_commit(store, err);
    csn_store_rollback(store);
    return r;
}

static int reset(csn_store *store, const wish *want, csn_error *err)
{
    csn_org_row org;
    int r = csn_store_org_get(store, want->name, &org, err);

    if (r == CSN_E_NOT_FOUND)
        return csn_fail(err, r, "there is no organisation '%.64s'", want->name);
    return r < 0 ? r : csn_store_quotas_remove(store, org.id, err);
}

typedef struct listing {
    csn_store *store;
    csn_buf *out;
    csn_jw *w; /* NULL: a table */
    csn_error *err;
    int result;
} listing;

/* As the options take it: thousandths of a processor as cores, bytes as they are. */
static void write_value(csn_buf *out, csn_quota limit, int64_t value)
{
    if (value == 0)
        csn_buf_puts(out, "unlimited");
    else if (limit == CSN_QUOTA_CPU)
        csn_buf_printf(out, "%g", (double) value / 1000);
    else
        csn_buf_printf(out, "%lld", (long long) value);
}

static void list_limit(listing *l, const csn_org_row *org, csn_quota limit, bool *has_any)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int64_t value = 0;
    int r = csn_store_quota_get(l->store, org->id, limit, &value, l->err);

    if (r < 0)
        l->result = r;
    if (r <= 0)
        return;
    write_value(&text, limit, value);
    if (l->w)
        csn_jw_kstr(l->w, csn_quota_names[limit], text.data);
    else
        csn_buf_printf(l->out, "%s--max-%s %s", *has_any ? " " : "", csn_quota_names[limit],
                       text.data);
    *has_any = true;
}

static void list_org(const csn_org_row *org, void *user)
{
    listing *l = user;
    char made[CSN_ISO8601_SIZE];
    bool has_any = false;

    (void) csn_iso8601(org->created_ms, made);
    if (l->w) {
        csn_jw_begin_object(l->w);
        csn_jw_kstr(l->w, "id", org->id);
        csn_jw_kstr(l->w, "name", org->name);
        csn_jw_kstr(l->w, "createdAt", made);
        csn_jw_key(l->w, "limits");
        csn_jw_begin_object(l->w);
    } else {
        csn_buf_printf(l->out, "%-20s  %-24s  ", org->name, made);
    }
    for (int i = 0; i < CSN_QUOTA_COUNT && l->result == CSN_OK; i++)
        list_limit(l, org, (csn_quota) i, &has_any);
    if (l->w) {
        csn_jw_end_object(l->w);
        csn_jw_end_object(l->w);
    } else {
        csn_buf_puts(l->out, has_any ? "\n" : "the server's\n");
    }
}

static int list(csn_store *store, const wish *want, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    listing l = { store, &out, want->is_json ? &w : NULL, err, CSN_OK };

    if (want->is_json)
        csn_jw_begin_array(&w);
    else
        csn_buf_printf(&out, "%-20s  %-24s  %s\n", "ORGANISATION", "CREATED", "LIMITS");
    int r = csn_store_org_each(store, list_org, &l, err);
    if (want->is_json) {
        csn_jw_end_array(&w);
        csn_buf_putc(&out, '\n');
    }
    if (r == CSN_OK)
        r = l.result;
    if (r < 0)
        return r;
    r = out.error < 0 ? out.error : csn_write_all(1, out.data, out.len);
    return r < 0 ? csn_fail_sys(err, r, CSN_KEYCMD_UNWRITTEN) : CSN_OK;
}

int csn_orgcmd_run(csn_store *store, char **argv, csn_error *err)
{
    wish want;
    int r = read_wish(argv, &want, err);

    if (r < 0)
        return r;
    if (csn_streq(want.verb, "ls"))
        return list(store, &want, err);
    if (!want.name)
        return csn_fail(err, CSN_E_INVALID, "which organisation?");
    if (csn_streq(want.verb, "set"))
        return set(store, &want, err);
    if (csn_streq(want.verb, "reset"))
        return reset(store, &want, err);
    return csn_fail(err, CSN_E_INVALID, "'%.32s' is none of ls, set, reset", want.verb);
}
