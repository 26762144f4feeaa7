/* SPDX-License-Identifier: Apache-2.0 */
/* A request is let in with a key, and may then go on for hours: a terminal, a followed log, an event channel. Keys are
 * revoked by other processes too (`caisson key rm`), and they expire; so once a second those of all open requests are
 * looked up again. A lookup is a few microseconds, and each key is looked up once per round. */
#include "server/revoke.h"

#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "server/events.h"
#include "server/listen.h"
#include "store/keys.h"

enum { LOOK_MS = 1000, KNOWN = 256 };

/* What was found out in this round, by a few bits of the id. */
typedef struct known {
    char key_id[37];
    bool is_good;
} known;

typedef struct round {
    csn_server *server;
    int64_t now_ms;
    known known[KNOWN];
} round_state;

static csn_timer timer; /* one front per process */

static known *place_of(round_state *r, const char *key_id)
{
    uint32_t hash = 2166136261u;

    for (const char *p = key_id; *p; p++)
        hash = (hash ^ (unsigned char) *p) * 16777619u;
    return &r->known[hash % KNOWN];
}

/* A store that can't be read says nothing about a key: the next round asks again. */
static bool is_good(const round_state *r, const char *key_id)
{
    csn_key_row row;
    int result = csn_store_key_get(r->server->store, key_id, &row, NULL);

    if (result == CSN_OK)
        return row.expires_ms == 0 || row.expires_ms > r->now_ms;
    return result != CSN_E_NOT_FOUND;
}

static bool is_fine(const csn_caller *caller, void *user)
{
    round_state *r = user;
    known *k = place_of(r, caller->key_id);

    if (strcmp(k->key_id, caller->key_id) != 0) {
        memcpy(k->key_id, caller->key_id, sizeof(k->key_id));
        k->is_good = is_good(r, caller->key_id);
    }
    return k->is_good;
}

static void look(csn_server *server)
{
    csn_listener_stats stats = csn_listener_get_stats(server->listener);
    round_state r = { .server = server, .now_ms = csn_wall_ms() };

    if (stats.n_waiting == 0 && stats.n_sockets == 0)
        return;
    csn_listener_sift(server->listener, is_fine, &r);
    csn_events_sift(server, is_fine, &r);
}

static void set(csn_server *server, int64_t deadline_ns);

static void on_timer(csn_timer *t, void *user)
{
    csn_server *server = user;

    (void) t;
    if (server->is_stopping || !server->listener)
        return;
    look(server);
    set(server, csn_deadline_in_ms(LOOK_MS));
}

static void set(csn_server *server, int64_t deadline_ns)
{
    if (csn_timer_set(server->loop, &timer, deadline_ns, on_timer, server) < 0)
        csn_log(CSN_LOG_ERROR, "no timer to look after keys", NULL);
}

void csn_revoke_start(csn_server *server)
{
    set(server, csn_deadline_in_ms(LOOK_MS));
}

void csn_revoke_soon(csn_server *server)
{
    set(server, csn_now_ns());
}

void csn_revoke_stop(void)
{
    csn_timer_cancel(&timer);
}
