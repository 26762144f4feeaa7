/* SPDX-License-Identifier: Apache-2.0 */
#include "server/keycmd.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "server/key.h"

typedef struct wish {
    const char *verb, *name, *org;
    int64_t expires_ms;
    bool is_json;
} wish;

static int read_wish(char **argv, wish *w, csn_error *err)
{
    *w = (wish){ .verb = argv[0], .org = CSN_ORG_DEFAULT };
    if (!w->verb)
        return csn_fail(err, CSN_E_INVALID, "want create, ls or rm");
    for (char **a = argv + 1; *a; a++) {
        if (csn_streq(*a, "--json"))
            w->is_json = true;
        else if (csn_starts_with(*a, "--org="))
            w->org = *a + 6;
        else if (csn_starts_with(*a, "--name=") && !w->name)
            w->name = *a + 7;
        else if (!csn_starts_with(*a, "--expires=") ||
                 csn_parse_i64(csn_str_of(*a + 10), &w->expires_ms) < 0 || w->expires_ms <= 0)
            return csn_fail(err, CSN_E_INVALID, "'%.64s' makes no sense here", *a);
    }
    return CSN_OK;
}

static int print(csn_buf *out, csn_error *err)
{
    int r = out->error < 0 ? out->error : csn_write_all(1, out->data, out->len);

    return r < 0 ? csn_fail_sys(err, r, CSN_KEYCMD_UNWRITTEN) : CSN_OK;
}

static const char *moment(int64_t wall_ms, char text[CSN_ISO8601_SIZE])
{
    return wall_ms ? csn_iso8601(wall_ms, text) : "never";
}

static void write_row(csn_jw *w, const csn_key_row *row, const char *org, const char *text)
{
    char time[CSN_ISO8601_SIZE];

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", row->id);
    csn_jw_kstr(w, "name", row->name);
    csn_jw_kstr(w, "organization", org);
    csn_jw_kstr(w, "hint", row->hint);
    csn_jw_kstr(w, "createdAt", csn_iso8601(row->created_ms, time));
    csn_jw_kstr(w, "expiresAt", row->expires_ms ? csn_iso8601(row->expires_ms, time) : NULL);
    csn_jw_kstr(w, "lastUsedAt", row->used_ms ? csn_iso8601(row->used_ms, time) : NULL);
    if (text)
        csn_jw_kstr(w, "key", text);
    csn_jw_end_object(w);
}

/* A running server waits while we write: so all else is done before, and it is one commit. */
static int insert(csn_store *store, const char *org_name, csn_key_row *row, csn_org_row *ret_org,
                  csn_error *err)
{
    int r = csn_store_begin(store, err);

    if (r < 0)
        return r;
    r = csn_org_ensure(store, org_name, ret_org, err);
    if (r == CSN_OK) {
        (void) snprintf(row->org_id, sizeof(row->org_id), "%s", ret_org->id);
        r = csn_store_key_insert(store, row, err);
    }
    if (r == CSN_E_EXISTS)
        (void) csn_fail(err, r, "organisation '%.64s' has a key '%.64s' already", ret_org->name,
                        row->name);
    if (r == CSN_OK)
        r = csn_store_commit(store, err);
    else
        csn_store_rollback(store);
    return r;
}

static int create(csn_store *store, const wish *want, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    csn_key_row row = { .is_admin = true };
    char text[CSN_KEY_SIZE];
    csn_org_row org;
    int r = csn_key_mint(text, &row);

    if (r < 0)
        return csn_fail_sys(err, r, "make a key");
    (void) snprintf(row.name, sizeof(row.name), "key-%.8s", row.id);
    if (want->name && csn_str_copy(row.name, sizeof(row.name), csn_str_of(want->name)) < 0)
        return csn_fail(err, CSN_E_INVALID, "a key's name has at most 128 bytes");
    if (want->expires_ms)
        row.expires_ms = csn_wall_ms() + want->expires_ms;
    r = insert(store, want->org, &row, &org, err);
    if (r < 0)
        return r;
    if (want->is_json)
        write_row(&w, &row, org.name, text);
    csn_buf_printf(&out, "%s\n", want->is_json ? "" : text); /* alone on its line: for $(…) */
    return print(&out, err);
}

typedef struct listing {
    csn_store *store;
    csn_buf *out;
    csn_jw *w; /* NULL: a table */
    const char *org;
    csn_error *err;
    int result;
} listing;

static void list_key(const csn_key_row *row, void *user)
{
    listing *l = user;
    char made[CSN_ISO8601_SIZE], end[CSN_ISO8601_SIZE], used[CSN_ISO8601_SIZE];

    if (l->w)
        write_row(l->w, row, l->org, NULL);
    else
        csn_buf_printf(l->out, "%-20s  %-16s  %-18s  %-24s  %-24s  %s\n", row->name, l->org,
                       row->hint, csn_iso8601(row->created_ms, made), moment(row->expires_ms, end),
                       moment(row->used_ms, used));
}

static void list_org(const csn_org_row *org, void *user)
{
    listing *l = user;

    l->org = org->name;
    if (l->result == CSN_OK)
        l->result = csn_store_key_each(l->store, org->id, list_key, l, l->err);
}

static int list(csn_store *store, const wish *want, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    listing l = { store, &out, want->is_json ? &w : NULL, NULL, err, CSN_OK };

    if (want->is_json)
        csn_jw_begin_array(&w);
    else
        csn_buf_printf(&out, "%-20s  %-16s  %-18s  %-24s  %-24s  %s\n", "NAME", "ORGANISATION",
                       "KEY", "CREATED", "EXPIRES", "LAST USED");
    int r = csn_store_org_each(store, list_org, &l, err);
    if (want->is_json)
        csn_jw_end_array(&w);
    if (want->is_json)
        csn_buf_putc(&out, '\n');
    if (r == CSN_OK)
        r = l.result;
    return r < 0 ? r : print(&out, err);
}

static int rm(csn_store *store, const wish *want, csn_error *err)
{
    csn_org_row org;
    int r = csn_store_org_get(store, want->org, &org, err);

    if (!want->name)
        return csn_fail(err, CSN_E_INVALID, "which key?");
    if (r == CSN_E_NOT_FOUND)
        return csn_fail(err, r, "there is no organisation '%.64s'", want->org);
    return r < 0 ? r : csn_store_key_remove(store, org.id, want->name, err);
}

int csn_keycmd_run(csn_store *store, char **argv, csn_error *err)
{
    wish want;
    int r = read_wish(argv, &want, err);

    if (r < 0)
        return r;
    if (csn_streq(want.verb, "create"))
        return create(store, &want, err);
    if (csn_streq(want.verb, "ls"))
        return list(store, &want, err);
    if (csn_streq(want.verb, "rm"))
        return rm(store, &want, err);
    return csn_fail(err, CSN_E_INVALID, "'%.32s' is none of create, ls, rm", want.verb);
}
