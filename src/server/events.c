/* SPDX-License-Identifier: Apache-2.0 */
/* The event channel: Engine.IO 4 with Socket.IO 5 framing, as little of it as the SDKs speak (WIRE 8).
 *
 *   we:     0{"sid":…,"pingInterval":25000,…}         at once
 *   client: 40{"token":"<key>"}                       we: 40{"sid":…}, or 44{"message":"Unauthorized"}
 *   we:     2 every pingInterval                      client: 3
 *   we:     42["sandbox.state.updated",{…}]           for every change in the key's organisation
 *   client: 41 or 1                                   the end
 *
 * The key comes in a message, not in a header: until it did nothing is told, and of those who have yet to say it only
 * so many may wait. A listener that does not read is cut. */
#include "server/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "base/time.h"
#include "server/auth.h"
#include "server/cell.h"
#include "server/route.h"
#include "server/who.h"
#include "server/ws.h"
#include "store/keys.h"

enum { PING_MS = 25000, PONG_MS = 20000, CONNECT_MS = 20000 };
enum { LISTENERS_MAX = 10000, STRANGERS_MAX = 256 };

typedef struct ear {
    csn_list link;
    csn_server *server;
    csn_ws *ws;
    csn_caller who; /* no organisation: not let in yet */
    char sid[33];
    char *toolbox_url, *peer;
    bool is_waiting; /* for a pong, or for the key */
    bool is_known;   /* was let in */
    csn_timer timer;
} ear;

struct csn_events {
    csn_list ears, strangers; /* the latter have not said their key yet */
    size_t n, n_strangers;
};

int csn_events_new(csn_server *server, csn_events **ret, csn_error *err)
{
    csn_events *events = calloc(1, sizeof(*events));

    (void) server;
    if (!events)
        return csn_fail(err, CSN_E_NO_MEMORY, "open the event channel");
    csn_list_init(&events->ears);
    csn_list_init(&events->strangers);
    *ret = events;
    return CSN_OK;
}

/* The sockets are the listener's, which is gone by now: on_closed was called for each. */
csn_events *csn_events_free(csn_events *events)
{
    free(events);
    return NULL;
}

static void leave(ear *e)
{
    csn_events *events = e->server->events;

    if (events && !csn_list_empty(&e->link))
        --*(e->is_known ? &events->n : &events->n_strangers);
    csn_list_remove(&e->link);
}

static void ear_free(ear *e)
{
    leave(e);
    csn_timer_cancel(&e->timer);
    free(e->toolbox_url);
    free(e->peer);
    free(e);
}

static void say(ear *e, const char *text)
{
    (void) csn_ws_send(e->ws, true, text, strlen(text)); /* a few bytes */
}

/* ---- ping ---- */

static void set_timer(ear *e, int64_t ms);

static void on_timer(csn_timer *timer, void *user)
{
    ear *e = user;

    (void) timer;
    if (e->is_waiting) {
        csn_ws_close(e->ws, 1000, "ping timeout");
        return;
    }
    say(e, "2");
    e->is_waiting = true;
    set_timer(e, PONG_MS);
}

static void set_timer(ear *e, int64_t ms)
{
    if (csn_timer_set(e->server->loop, &e->timer, csn_deadline_in_ms(ms), on_timer, e) < 0)
        csn_ws_close(e->ws, 1011, NULL);
}

/* ---- what clients say ---- */

static void let_in(ear *e, const char *data, size_t len)
{
    csn_auto(json) csn_json *doc = NULL;
    char text[80];
    const char *key = NULL;

    if (len > 2 && len < 8192 && csn_json_parse(data + 2, len - 2, &doc, NULL) == 0)
        key = csn_json_get_str(doc, "token", NULL);
    if (e->is_known || csn_list_empty(&e->link)) /* or told to go */
        return;
    if (csn_who_of_key(e->server, e->peer, key, &e->who) < 0) {
        say(e, "44{\"message\":\"Unauthorized\"}");
        csn_ws_close(e->ws, 1000, NULL);
        return;
    }
    leave(e);
    e->is_known = true;
    csn_list_append(&e->server->events->ears, &e->link);
    e->server->events->n++;
    (void) snprintf(text, sizeof(text), "40{\"sid\":\"%s\"}", e->sid);
    say(e, text);
    e->is_waiting = false;
    set_timer(e, PING_MS);
}

static void on_message(csn_ws *ws, bool is_text, const char *data, size_t len, void *user)
{
    ear *e = user;
    csn_str text = csn_str_n(data, len);

    if (!is_text || len == 0 || len > 65536)
        return;
    if (csn_str_starts_with(text, CSN_STR("40"))) {
        let_in(e, data, len);
    } else if (text.data[0] == '3' && e->who.org_id[0]) {
        e->is_waiting = false;
        set_timer(e, PING_MS);
    } else if (text.data[0] == '2') {
        say(e, "3");
    } else if (text.data[0] == '1' || csn_str_starts_with(text, CSN_STR("41"))) {
        csn_ws_close(ws, 1000, NULL);
    }
}

static void on_closed(csn_ws *ws, int code, void *user)
{
    (void) ws;
    (void) code;
    ear_free(user);
}

/* ---- the route ---- */

static ear *ear_new(csn_req *req)
{
    ear *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    csn_list_init(&e->link);
    e->server = csn_req_server(req);
    e->peer = strdup(csn_req_peer(req));
    if (asprintf(&e->toolbox_url, "%s/toolbox", csn_req_origin(req)) < 0)
        e->toolbox_url = NULL;
    if (e->peer && e->toolbox_url && csn_id_hex(e->sid, 16) == 0)
        return e;
    ear_free(e);
    return NULL;
}

/* Who has a key says it at once: when there are too many without, the one that had most time goes. */
static void welcome(csn_events *all, ear *e)
{
    csn_list_append(&all->strangers, &e->link);
    if (++all->n_strangers <= STRANGERS_MAX)
        return;
    ear *oldest = csn_list_entry(all->strangers.next, ear, link);
    leave(oldest);
    csn_ws_close(oldest->ws, 1013, "too many wait to be let in");
}

static void handle(csn_req *req)
{
    static const csn_ws_events events = { .on_message = on_message, .on_closed = on_closed };
    csn_events *all = csn_req_server(req)->events;
    char hello[192];

    if (!csn_req_wants_ws(req)) {
        csn_req_error(req, 400, NULL, "The event channel speaks WebSocket only");
        return;
    }
    ear *e = all && all->n < LISTENERS_MAX ? ear_new(req) : NULL;
    if (!e) {
        csn_req_error(req, 503, NULL, "Too many listeners");
        return;
    }
    e->ws = csn_req_upgrade(req, NULL, &events, e);
    if (!e->ws) {
        ear_free(e);
        return;
    }
    csn_ws_set_max(e->ws, 64 << 10); /* anyone may open one; the key comes with the first message */
    welcome(all, e);
    (void) snprintf(hello, sizeof(hello),
                    "0{\"sid\":\"%s\",\"upgrades\":[],\"pingInterval\":%d,\"pingTimeout\":%d,"
                    "\"maxPayload\":1000000}",
                    e->sid, PING_MS, PONG_MS);
    say(e, hello);
    e->is_waiting = true;
    set_timer(e, CONNECT_MS);
}

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_GET, "/socket.io/", CSN_SCOPE_PUBLIC, CSN_BODY_NONE, 0, CSN_ROUTE_WS,
      handle },
    { CSN_PLANE_API, CSN_GET, "/socket.io", CSN_SCOPE_PUBLIC, CSN_BODY_NONE, 0, CSN_ROUTE_WS,
      handle },
};
const csn_route_table csn_routes_events = CSN_ROUTE_TABLE(routes);

/* ---- telling ---- */

static void shut_out(ear *e)
{
    e->who = (csn_caller){ 0 };
    csn_ws_close(e->ws, 1008, "the key is no longer good");
}

/* A socket outlives the request that opened it, not its key. */
void csn_events_sift(csn_server *server, bool (*is_fine)(const csn_caller *caller, void *user),
                     void *user)
{
    if (!server->events)
        return;
    csn_list_foreach (node, &server->events->ears) {
        ear *e = csn_list_entry(node, ear, link);
        if (e->who.key_id[0] && !is_fine(&e->who, user))
            shut_out(e);
    }
}

/* Nothing is told to a key that was revoked a moment ago. */
static bool may_hear(const ear *e)
{
    csn_key_row row;

    return csn_store_key_get(e->server->store, e->who.key_id, &row, NULL) == CSN_OK &&
           (row.expires_ms == 0 || row.expires_ms > csn_wall_ms());
}

static void write_event(const ear *e, const csn_cell *cell, const char *old, csn_buf *out)
{
    csn_jw w = CSN_JW_INIT(out, false);
    csn_shape_sandbox s;

    csn_cell_shape(cell, e->toolbox_url, &s);
    csn_buf_puts(out, "42");
    csn_jw_begin_array(&w);
    csn_jw_str(&w, old ? "sandbox.state.updated" : "sandbox.created");
    if (old) {
        csn_jw_begin_object(&w);
        csn_jw_key(&w, "sandbox");
    }
    csn_shape_sandbox_write(&s, false, &w);
    if (old) {
        csn_jw_kstr(&w, "oldState", old);
        csn_jw_kstr(&w, "newState", s.state);
        csn_jw_end_object(&w);
    }
    csn_jw_end_array(&w);
}

void csn_events_state(csn_server *server, const csn_cell *cell, const char *old)
{
    if (!server->events)
        return;
    csn_list_foreach (node, &server->events->ears) {
        ear *e = csn_list_entry(node, ear, link);
        csn_auto(buf) csn_buf text = CSN_BUF_INIT;
        if (!csn_streq(e->who.org_id, cell->row.org_id))
            continue;
        if (!may_hear(e)) {
            shut_out(e);
            continue;
        }
        write_event(e, cell, old, &text);
        if (text.error < 0 || !csn_ws_send(e->ws, true, text.data, text.len))
            csn_ws_close(e->ws, 1008, "too slow"); /* it polls as well: nothing is lost */
    }
}
