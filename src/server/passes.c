/* SPDX-License-Identifier: Apache-2.0 */
#include "server/passes.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/list.h"
#include "base/str.h"
#include "base/time.h"
#include "server/table.h"
#include "store/passes.h"

enum {
    SIGNED_PER_ORG_MAX = 1000,
    PORTS_PER_ORG_MAX = 10000,
    ALL_MAX = 100000,
    WRITE_EVERY_MS = 60 * 1000 /* a renewal; a restart may take back as much of a life */
};

typedef struct pass {
    csn_list link;
    csn_pass_row row;
    char org_id[37];
    char place[44]; /* "<sandbox>/<port>" of a port token, the key of by_place */
    int64_t written_ms;
} pass;

static csn_list passes = CSN_LIST_INIT(passes); /* one front per process */
static csn_table by_token, by_place;
static size_t n_passes;

static void forget(pass *p)
{
    if (csn_table_get(&by_token, p->row.token) == p)
        (void) csn_table_remove(&by_token, p->row.token);
    if (p->place[0] && csn_table_get(&by_place, p->place) == p)
        (void) csn_table_remove(&by_place, p->place);
    csn_list_remove(&p->link);
    n_passes--;
    free(p);
}

static int remember(const csn_pass_row *row, const char *org_id, pass **ret)
{
    pass *p = csn_calloc(1, sizeof(*p));
    int r;

    if (!p)
        return -ENOMEM;
    p->row = *row;
    p->written_ms = row->expires_ms;
    (void) snprintf(p->org_id, sizeof(p->org_id), "%s", org_id); /* as long */
    if (!row->is_signed)
        (void) snprintf(p->place, sizeof(p->place), "%s/%u", row->sandbox_id, row->port); /* fits */
    csn_list_append(&passes, &p->link);
    n_passes++;
    r = csn_table_put(&by_token, p->row.token, p);
    if (r == 0 && p->place[0])
        r = csn_table_put(&by_place, p->place, p);
    if (r < 0)
        forget(p);
    else
        *ret = p;
    return r;
}

/* ---- the database ------------------------------------------------------------------------------------------------ */

typedef struct loading {
    const csn_boxes *boxes;
    int error;
} loading;

static void load_one(const csn_pass_row *row, void *user)
{
    loading *l = user;
    const csn_cell *cell = csn_table_get(&l->boxes->by_id, row->sandbox_id);
    pass *p;
    int r = cell ? remember(row, cell->row.org_id, &p) : 0; /* one of a sandbox on its way out */

    if (r < 0)
        l->error = r;
}

int csn_passes_load(csn_boxes *boxes, csn_error *err)
{
    csn_store *store = boxes->server->store;
    loading l = { .boxes = boxes };
    int r = csn_store_pass_expire(store, csn_steady_ms(), err);

    if (r == CSN_OK)
        r = csn_store_pass_each(store, load_one, &l, err);
    if (r == CSN_OK && l.error < 0)
        r = csn_fail_sys(err, l.error, "read the preview tokens");
    return r;
}

void csn_passes_done(void)
{
    csn_list_foreach (node, &passes)
        forget(csn_list_entry(node, pass, link));
    csn_table_done(&by_token);
    csn_table_done(&by_place);
}

/* How many good ones of this kind an organisation has; those out of time are forgotten on the way. */
static size_t count(const char *org_id, bool is_signed, csn_store *store)
{
    const int64_t now = csn_steady_ms();
    const size_t before = n_passes;
    size_t n = 0;

    csn_list_foreach (node, &passes) {
        pass *p = csn_list_entry(node, pass, link);

        if (p->row.expires_ms <= now)
            forget(p);
        else
            n += p->row.is_signed == is_signed && csn_streq(p->org_id, org_id);
    }
    if (n_passes < before)
        (void) csn_store_pass_expire(store, now, NULL); /* else at the next time */
    return n;
}

static int make_name(char *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[CSN_SIGNED_LEN];
    int r = csn_random(bytes, sizeof(bytes));

    for (size_t i = 0; r == 0 && i < sizeof(bytes); i++)
        out[i] = letters[bytes[i] % 32];
    return r;
}

static int make(const csn_cell *cell, unsigned port, bool is_signed, int64_t life_ms, pass **ret,
                csn_error *err)
{
    csn_store *store = cell->boxes->server->store;
    const size_t max = is_signed ? SIGNED_PER_ORG_MAX : PORTS_PER_ORG_MAX;
    csn_pass_row row = { .port = port,
                         .is_signed = is_signed,
                         .expires_ms = csn_steady_ms() + life_ms };

    if (count(cell->row.org_id, is_signed, store) >= max || n_passes >= ALL_MAX)
        return csn_fail(err, CSN_E_LIMIT, "there are %zu %s: let some expire", max,
                        is_signed ? "signed preview URLs" : "preview tokens");
    memcpy(row.sandbox_id, cell->row.id, sizeof(row.sandbox_id));
    int r = is_signed ? make_name(row.token) : csn_id_hex(row.token, 16);
    if (r < 0)
        return csn_fail_sys(err, r, "make a preview token");
    r = csn_store_pass_insert(store, &row, err);
    if (r < 0)
        return r;
    r = remember(&row, cell->row.org_id, ret);
    if (r < 0) {
        (void) csn_store_pass_remove(store, row.token, NULL); /* else it opens after a restart */
        return csn_fail_sys(err, r, "make a preview token");
    }
    return CSN_OK;
}

/* ---- ports ------------------------------------------------------------------------------------------------------- */

/* In memory it is renewed whatever becomes of the row. */
static void renew(pass *p, csn_store *store, int64_t expires_ms)
{
    p->row.expires_ms = expires_ms;
    if (expires_ms - p->written_ms >= WRITE_EVERY_MS &&
        csn_store_pass_renew(store, p->row.token, expires_ms, NULL) == CSN_OK)
        p->written_ms = expires_ms;
}

int csn_pass_of_port(const csn_cell *cell, unsigned port, const char **ret, csn_error *err)
{
    csn_server *server = cell->boxes->server;
    const int64_t life_ms = server->config.preview_life_ms, now = csn_steady_ms();
    char place[sizeof(((pass *) NULL)->place)];
    int r = CSN_OK;

    (void) snprintf(place, sizeof(place), "%s/%u", cell->row.id, port); /* fits */
    pass *p = csn_table_get(&by_place, place);
    if (p && p->row.expires_ms <= now) {
        r = csn_store_pass_remove(server->store, p->row.token, err);
        if (r < 0)
            return r;
        forget(p);
        p = NULL;
    }
    if (p)
        renew(p, server->store, now + life_ms);
    else
        r = make(cell, port, false, life_ms, &p, err);
    if (r == CSN_OK)
        *ret = p->row.token;
    return r;
}

const char *csn_pass_find(const char *token, unsigned *ret_port, int64_t *ret_left_ms)
{
    const pass *p = csn_table_get(&by_token, token);
    const int64_t now = csn_steady_ms();

    if (!p || p->row.is_signed || p->row.expires_ms <= now ||
        strlen(token) != strlen(p->row.token) ||
        CRYPTO_memcmp(token, p->row.token, strlen(token)) != 0)
        return NULL;
    *ret_port = p->row.port;
    if (ret_left_ms)
        *ret_left_ms = p->row.expires_ms - now;
    return p->row.sandbox_id;
}

static void end(const csn_cell *cell, bool is_signed_too)
{
    csn_list_foreach (node, &passes) {
        pass *p = csn_list_entry(node, pass, link);

        if ((is_signed_too || !p->row.is_signed) && csn_streq(p->row.sandbox_id, cell->row.id))
            forget(p);
    }
}

void csn_passes_end_ports(const csn_cell *cell)
{
    end(cell, false);
}

void csn_passes_end_all(const csn_cell *cell)
{
    end(cell, true);
}

/* ---- signed names ------------------------------------------------------------------------------------------------ */

int csn_signed_new(const csn_cell *cell, unsigned port, int64_t life_ms,
                   char ret_token[CSN_SIGNED_LEN + 1], csn_error *err)
{
    pass *p;
    int r = make(cell, port, true, life_ms, &p, err);

    if (r == CSN_OK)
        memcpy(ret_token, p->row.token, CSN_SIGNED_LEN + 1);
    return r;
}

const char *csn_signed_find(const char *token, unsigned port)
{
    const pass *p = csn_table_get(&by_token, token);

    return p && p->row.is_signed && p->row.port == port && p->row.expires_ms > csn_steady_ms()
               ? p->row.sandbox_id
               : NULL;
}

int csn_signed_expire(const csn_cell *cell, unsigned port, const char *token, csn_error *err)
{
    pass *p = csn_table_get(&by_token, token);
    int r = CSN_OK;

    if (!p || !p->row.is_signed || p->row.port != port ||
        !csn_streq(p->row.sandbox_id, cell->row.id))
        return CSN_OK;
    r = csn_store_pass_remove(cell->boxes->server->store, token, err);
    if (r == CSN_OK)
        forget(p);
    return r;
}
