/* SPDX-License-Identifier: Apache-2.0 */
#include "server/bury.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/warden.h"
#include "store/volumes.h"

enum { BUSY_MS = 500, FIRST_MS = 5000, PATIENCE_MAX_MS = 600 * 1000 };

typedef struct grave {
    csn_list link;
    csn_server *server;
    csn_bury_kind kind;
    char name[65];
    int64_t wait_ms; /* before the next try; grows */
    csn_timer timer; /* set: waits. Else the warden was asked */
} grave;

static csn_list graves = { &graves, &graves };

static const char *const kind_names[] = { "sandbox", "volume", "image" };

static void grave_free(grave *g)
{
    csn_timer_cancel(&g->timer);
    csn_list_remove(&g->link);
    free(g);
}

static void dig(csn_timer *timer, void *user);

static void try_later(grave *g, int64_t ms)
{
    if (g->server->is_stopping ||
        csn_timer_set(g->server->loop, &g->timer, csn_deadline_in_ms(ms), dig, g) < 0)
        grave_free(g); /* the next start goes on with it */
}

static void try_again(grave *g, const char *why)
{
    int64_t wait_ms = g->wait_ms;

    if (!g->server->is_stopping)
        csn_log(CSN_LOG_WARN, "it can't be deleted yet", "kind", kind_names[g->kind], "name",
                g->name, "error", why, NULL);
    g->wait_ms = wait_ms * 2 < PATIENCE_MAX_MS ? wait_ms * 2 : PATIENCE_MAX_MS;
    try_later(g, wait_ms);
}

static void on_buried(int result, const csn_error *err, void *user)
{
    grave *g = user;
    bool is_busy = result == CSN_E_BUSY || result == CSN_E_STATE;
    csn_error own = { 0 };

    if (result == CSN_E_LOST && g->server->is_stopping) {
        grave_free(g);
    } else if (is_busy && g->kind == CSN_BURY_VOLUME) {
        try_later(g, BUSY_MS); /* a sandbox that used it is on its way out */
    } else if (is_busy && g->kind == CSN_BURY_IMAGE) {
        grave_free(g);
    } else if (result < 0 && result != CSN_E_NOT_FOUND) {
        try_again(g, err ? err->message : "");
    } else if (g->kind == CSN_BURY_VOLUME &&
               csn_store_volume_remove(g->server->store, g->name, &own) < 0) {
        try_again(g, own.message);
    } else {
        grave_free(g);
    }
}

static int ask(grave *g)
{
    csn_warden *w = g->server->warden;

    switch (g->kind) {
    case CSN_BURY_SANDBOX:
        return csn_warden_delete(w, g->name, on_buried, g);
    case CSN_BURY_VOLUME:
        return csn_warden_volume_delete(w, g->name, on_buried, g);
    case CSN_BURY_IMAGE:
        return csn_warden_image_delete(w, g->name, on_buried, g);
    }
    return CSN_E_INVALID;
}

static void dig(csn_timer *timer, void *user)
{
    grave *g = user;

    (void) timer;
    if (ask(g) < 0)
        try_again(g, "the engine can't be asked");
}

void csn_bury(csn_server *server, csn_bury_kind kind, const char *name)
{
    csn_list_foreach (node, &graves) {
        const grave *g = csn_list_entry(node, grave, link);
        if (g->kind == kind && csn_streq(g->name, name))
            return;
    }
    grave *g = calloc(1, sizeof(*g));
    if (!g) {
        csn_log(CSN_LOG_WARN, "it is deleted at the next start", "name", name, NULL);
        return;
    }
    g->server = server;
    g->kind = kind;
    g->wait_ms = FIRST_MS;
    (void) snprintf(g->name, sizeof(g->name), "%.64s", name);
    csn_list_append(&graves, &g->link);
    dig(NULL, g);
}

void csn_bury_done(void)
{
    csn_list_foreach (node, &graves) {
        grave *g = csn_list_entry(node, grave, link);
        if (g->timer.loop) /* else the end of the warden's line ends it */
            grave_free(g);
    }
}
