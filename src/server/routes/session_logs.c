/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of a session's command: whole, or followed over a WebSocket from the first byte to the last (WIRE 9.3). */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "server/logsend.h"
#include "server/route.h"
#include "server/toolbox.h"
#include "server/ws.h"

enum { LAST_MAX = 4 << 20 }; /* what a slow follower is still given when the log goes */

/* A follower has a cursor of its own, so it neither loses nor repeats a byte however slow it is. */
typedef struct follower {
    csn_session_watch watch;
    csn_session_command *command; /* NULL: gone */
    csn_ws *ws;
    csn_cmdlog_cursor cursor;
    bool is_marked, is_full, is_closing;
} follower;

static void let_go(follower *f)
{
    csn_session_watch_remove(&f->watch);
    csn_cmdlog_cursor_done(&f->cursor);
    f->command = NULL;
}

static void close_it(follower *f, int code, const char *reason)
{
    if (f->is_closing)
        return;
    f->is_closing = true;
    csn_ws_close(f->ws, code, reason);
}

static void pump(follower *f)
{
    csn_session_command *c = f->command;
    bool is_more = true;
    size_t n_last = 0;

    while (c && is_more && !f->is_closing &&
           (!f->is_full || (c->is_dropped && n_last < LAST_MAX))) {
        csn_auto(buf) csn_buf piece = CSN_BUF_INIT;
        is_more = csn_cmdlog_read(&c->log, &f->cursor, 0, f->is_marked, &piece);
        if (piece.error < 0) {
            close_it(f, 1011, "the log can't be read");
            return;
        }
        if (piece.len > 0)
            f->is_full = !csn_ws_send(f->ws, false, piece.data, piece.len);
        n_last += piece.len;
    }
    if (c && !is_more && c->is_ended)
        close_it(f, 1000, NULL);
    else if (c && c->is_dropped)
        close_it(f, 1011, "the session was deleted before its log was read");
}

static void on_changed(csn_session_watch *watch, csn_session_command *command)
{
    follower *f = csn_container_of(watch, follower, watch);

    pump(f);
    if (command->is_dropped)
        let_go(f);
}

static void on_message(csn_ws *ws, bool is_text, const char *data, size_t len, void *user)
{
    (void) ws;
    (void) is_text;
    (void) data;
    (void) len;
    (void) user; /* nothing is expected */
}

static void on_drain(csn_ws *ws, void *user)
{
    follower *f = user;

    (void) ws;
    f->is_full = false;
    pump(f);
}

static void on_closed(csn_ws *ws, int code, void *user)
{
    follower *f = user;

    (void) ws;
    (void) code;
    let_go(f);
    free(f);
}

static const csn_ws_events events = { .on_message = on_message,
                                      .on_drain = on_drain,
                                      .on_closed = on_closed };

static void follow(csn_req *req, csn_session_command *c)
{
    follower *f = csn_calloc(1, sizeof(*f));

    if (!f) {
        csn_req_error(req, 500, NULL, "out of memory");
        return;
    }
    const char *version = csn_req_header(req, "X-Daytona-SDK-Version");
    /* Only clients from before there were markers do without them here. */
    f->is_marked = !(version && csn_req_log_style(req) == CSN_LOG_PLAIN);
    f->command = c;
    f->watch.changed = on_changed;
    f->ws = csn_req_upgrade(req, NULL, &events, f);
    if (!f->ws) {
        free(f);
        return;
    }
    csn_session_watch_add(c, &f->watch);
    pump(f);
}

static csn_session_command *find_command(csn_req *req)
{
    csn_bench *bench = csn_req_bench(req, false);

    if (bench)
        csn_list_foreach (node, &bench->sessions) {
            csn_session *s = csn_list_entry(node, csn_session, link);
            if (strcmp(s->id, csn_req_param(req, 0)) == 0 && !s->deleted)
                return csn_session_find(s, csn_req_param(req, 1));
        }
    return NULL;
}

static void get_logs(csn_req *req)
{
    csn_session_command *c = find_command(req);

    if (!c)
        csn_req_error(req, 404, "PROCESS_NOT_FOUND", "command not found: %.200s in session %.200s",
                      csn_req_param(req, 1), csn_req_param(req, 0));
    else if (csn_req_wants_ws(req))
        follow(req, c);
    else
        csn_logsend(req, c, CSN_LOGSEND_LOGS, csn_req_log_style(req));
}

static const csn_route routes[] = {
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/session/{}/command/{}/logs", CSN_SCOPE_BOX,
      CSN_BODY_NONE, 0, CSN_ROUTE_WS | CSN_ROUTE_TENANT, get_logs },
};
const csn_route_table csn_routes_session_logs = CSN_ROUTE_TABLE(routes);
