/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks: a key, or a preview token: for its port, or for the toolbox's WebSockets. One 401 for every way of not knowing.
 *
 * Theory of operation. A key is looked up by its hash in the store, at every request: one that was revoked, also by another
 * process, is refused from then on. A good one is good wherever it comes from: a guesser behind the same address (or proxy)
 * locks nobody out. Who fails too often is told to wait. */
#include "server/auth.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/cell.h"
#include "server/key.h"
#include "server/metrics.h"
#include "server/passes.h"
#include "server/preview.h"
#include "server/rate.h"
#include "server/route.h"
#include "server/session_keep.h"
#include "server/tries.h"
#include "server/uses.h"
#include "server/who.h"
#include "server/ws.h"

/* What a request needs until it is over. */
typedef struct visit {
    csn_req *req; /* NULL: the client left while we waited for its sandbox */
    void (*go)(csn_req *req);
    csn_box_hold *hold;
    char id[37];
    bool is_counted;
} visit;

/* ---- keys ---- */

static const char *text_of(const char *value)
{
    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7;
    while (*value == ' ')
        value++;
    return *value ? value : NULL;
}

/* One more try that failed. */
static int deny(const char *peer)
{
    bool is_often = csn_tries_is_blocked(peer);

    csn_tries_failed(peer);
    return is_often ? CSN_E_LIMIT : CSN_E_DENIED;
}

static const char *bearer_of(const csn_req *req)
{
    return text_of(csn_req_header(req, "Authorization"));
}

int csn_who_of_key(csn_server *server, const char *peer, const char *text, csn_caller *ret)
{
    unsigned char hash[32];
    csn_key_row row;
    int64_t now = csn_wall_ms();
    size_t len = text ? strlen(text) : 0;

    bool is_text = len > 0 && len <= CSN_KEY_TEXT_MAX && csn_key_hash(text, len, hash) == 0;
    if (!is_text || csn_store_key_find(server->store, hash, &row, NULL) < 0 ||
        CRYPTO_memcmp(hash, row.hash, sizeof(hash)) != 0 ||
        (row.expires_ms && row.expires_ms <= now))
        return deny(peer);
    csn_uses_note(&row, now);
    *ret = (csn_caller){ .is_admin = row.is_admin };
    memcpy(ret->org_id, row.org_id, sizeof(ret->org_id));
    memcpy(ret->key_id, row.id, sizeof(ret->key_id));
    memcpy(ret->user_id, row.id, sizeof(ret->user_id));
    return CSN_OK;
}

bool csn_who_is_key(csn_server *server, const char *authorization)
{
    const char *text = text_of(authorization);
    unsigned char hash[32];
    csn_key_row row;
    size_t len = text ? strlen(text) : 0;

    if (len == 0 || len > CSN_KEY_TEXT_MAX)
        return false;
    if (strncmp(text, "dtn_", 4) == 0)
        return true;
    return csn_key_hash(text, len, hash) == 0 &&
           csn_store_key_find(server->store, hash, &row, NULL) == CSN_OK;
}

static void refuse(csn_req *req, int result)
{
    csn_metrics_count(CSN_COUNT_AUTH_FAILED);
    if (result == CSN_E_LIMIT) {
        csn_req_add_header(req, "Retry-After", "60");
        csn_req_error(req, 429, NULL, "Too many failed attempts");
    } else {
        csn_req_add_header(req, "WWW-Authenticate", "Bearer");
        csn_req_error(req, 401, NULL, "Invalid credentials");
    }
}

/* True when its organisation asks too often: 429 was answered. */
static bool is_too_much(csn_req *req, const csn_caller *caller)
{
    if (csn_rate_take(caller->org_id, csn_req_server(req)->config.max_requests_per_s))
        return false;
    csn_req_add_header(req, "Retry-After", "1");
    csn_req_error(req, 429, NULL, "Too many requests of this organisation");
    return true;
}

/* ---- the end of a request ---- */

static void on_over(csn_req *req, int status, void *user)
{
    visit *v = user;
    csn_boxes *boxes = csn_req_server(req)->boxes;
    csn_cell *cell = v->is_counted ? csn_table_get(&boxes->by_id, v->id) : NULL;

    if (cell && cell->n_requests > 0)
        cell->n_requests--;
    (void) csn_boxes_release(v->hold);
    csn_audit_request(req, status);
    free(v);
}

static bool is_activity(const csn_req *req)
{
    const char *skip = csn_req_header(req, "X-Daytona-Skip-Last-Activity-Update");

    return !(csn_req_route(req)->flags & CSN_ROUTE_QUIET) && !(skip && csn_streq(skip, "true"));
}

/* ---- sandboxes ---- */

static void on_left(csn_req *req, void *user)
{
    visit *v = user;

    (void) req;
    v->req = NULL; /* on_opened frees it */
}

static void no_such_box(visit *v)
{
    csn_req *req = v->req;

    free(v);
    csn_req_error(req, 404, NULL, "Sandbox not found");
}

static void enter(visit *v, csn_sandbox *sandbox, const char *id)
{
    csn_boxes *boxes = csn_req_server(v->req)->boxes;
    csn_cell *cell = csn_table_get(&boxes->by_id, id);
    csn_caller caller = *csn_req_caller(v->req);

    if (!cell) {
        no_such_box(v);
        return;
    }
    memcpy(v->id, cell->row.id, sizeof(v->id));
    v->hold = csn_boxes_hold(boxes, id);
    if (!caller.org_id[0]) { /* came by the preview token */
        memcpy(caller.org_id, cell->row.org_id, sizeof(caller.org_id));
        csn_req_set_caller(v->req, &caller);
    }
    if (is_activity(v->req)) {
        cell->n_requests++;
        v->is_counted = true;
        csn_boxes_touch(boxes, id);
    }
    csn_req_set_box(v->req, sandbox, id);
    csn_req_on_done(v->req, on_over, v);
    v->go(v->req);
}

static void on_opened(csn_sandbox *sandbox, const char *id, int result, const csn_error *err,
                      void *user);

static void on_sessions_found(void *user)
{
    visit *v = user;

    if (v->req)
        csn_boxes_open_by_id(csn_req_server(v->req)->boxes, v->id, on_opened, v);
    else
        free(v);
}

/* Sessions of an earlier server come first, for whoever asks the toolbox. */
static bool must_wait(visit *v, const char *id)
{
    csn_toolbox *toolbox = csn_req_server(v->req)->toolbox;

    if (csn_req_route(v->req)->plane != CSN_PLANE_TOOLBOX || strlen(id) >= sizeof(v->id))
        return false;
    memcpy(v->id, id, strlen(id) + 1);
    return csn_keep_await(csn_toolbox_keep(toolbox), id, on_sessions_found, v);
}

static void on_opened(csn_sandbox *sandbox, const char *id, int result, const csn_error *err,
                      void *user)
{
    visit *v = user;
    csn_req *req = v->req;

    if (req && result == CSN_OK) {
        if (!must_wait(v, id))
            enter(v, sandbox, id);
        return;
    }
    free(v);
    if (!req)
        return;
    if (result == CSN_E_NOT_FOUND)
        csn_req_error(req, 404, NULL, "Sandbox not found");
    else if (result == CSN_E_STATE)
        csn_req_error(req, 400, NULL, "%s", err->message);
    else
        csn_req_fail(req, err);
}

static const char *header_token_of(const csn_req *req)
{
    const char *token = csn_req_header(req, "X-Daytona-Preview-Token");

    return token && *token ? token : NULL;
}

static const char *preview_token_of(const csn_req *req)
{
    const char *token = header_token_of(req);

    return token ? token : csn_req_query(req, "DAYTONA_SANDBOX_AUTH_KEY");
}

/* Ports whose tokens SDKs use for the toolbox's sockets. */
static bool is_toolbox_port(unsigned port)
{
    return port == 2280 || port == 1;
}

/* Does a token of this port open what is asked for? */
static bool opens(const csn_req *req, unsigned port)
{
    uint64_t asked;

    if (csn_req_server(req)->config.is_preview_token_key)
        return true;
    if (csn_req_route(req)->flags & CSN_ROUTE_PREVIEW)
        return !is_toolbox_port(port) &&
               csn_parse_u64(csn_str_of(csn_req_param(req, 1)), &asked) == 0 && asked == port;
    return is_toolbox_port(port) && (csn_req_route(req)->flags & CSN_ROUTE_WS) &&
           csn_req_wants_ws(req);
}

/* A good token of the sandbox that the path names, or of any where none is named. */
typedef struct token_found {
    csn_cell *cell;
    unsigned port;
    int64_t left_ms;
} token_found;

static bool find_token(const csn_req *req, const char *token, token_found *ret)
{
    const char *name = csn_req_box_name(req);
    const char *id = token && *token ? csn_pass_find(token, &ret->port, &ret->left_ms) : NULL;

    ret->cell = id ? csn_table_get(&csn_req_server(req)->boxes->by_id, id) : NULL;
    return ret->cell && (!name || csn_streq(name, id) || csn_streq(name, ret->cell->name));
}

static void refuse_port(csn_req *req, unsigned port)
{
    csn_metrics_count(CSN_COUNT_AUTH_FAILED);
    if (is_toolbox_port(port))
        csn_req_error(req, 403, NULL,
                      "This preview token opens the toolbox's WebSockets only; use an API key");
    else
        csn_req_error(req, 403, NULL, "This preview token opens port %u only; use an API key",
                      port);
}

static void let_in(csn_req *req, visit *v, const csn_cell *cell)
{
    csn_req_keep(req, on_left, v);
    csn_boxes_open_by_id(csn_req_server(req)->boxes, cell->row.id, on_opened, v);
}

/* Tries are counted as those of keys are; to come with nothing is none. */
static void check_token(csn_req *req, visit *v)
{
    const char *token = preview_token_of(req);
    token_found found = { 0 };
    csn_caller owner = { 0 };
    const bool is_good = find_token(req, token, &found);

    if (!is_good) {
        free(v);
        refuse(req, token && *token ? deny(csn_req_peer(req)) : CSN_E_DENIED);
        return;
    }
    memcpy(owner.org_id, found.cell->row.org_id, sizeof(owner.org_id));
    if (!opens(req, found.port)) {
        free(v);
        refuse_port(req, found.port);
        return;
    }
    if (is_too_much(req, &owner)) {
        free(v);
        return;
    }
    if (!header_token_of(req) && !csn_req_wants_ws(req))
        csn_preview_set_cookie(req, found.cell->row.id, token, found.left_ms);
    let_in(req, v, found.cell);
}

/* The sandbox of a preview whose page has our cookie. A stale one is no try: the browser sends it unasked. */
static csn_cell *cell_of_cookie(csn_req *req)
{
    const char *name = csn_req_box_name(req);
    char token[CSN_PREVIEW_TOKEN_SIZE];
    token_found found = { 0 };

    return csn_preview_cookie(req, name, token, sizeof(token)) && find_token(req, token, &found) &&
                   opens(req, found.port)
               ? found.cell
               : NULL;
}

static void check_box(csn_req *req, visit *v)
{
    csn_server *server = csn_req_server(req);
    const char *bearer = bearer_of(req), *name = csn_req_box_name(req);
    csn_caller caller;
    int r = CSN_E_DENIED;

    if (bearer && name)
        r = csn_who_of_key(server, csn_req_peer(req), bearer, &caller);
    if (r == CSN_OK && !is_too_much(req, &caller)) {
        csn_req_set_caller(req, &caller);
        csn_req_keep(req, on_left, v);
        csn_boxes_open(server->boxes, caller.org_id, name, on_opened, v);
    } else if (r == CSN_OK) {
        free(v);
    } else if (!bearer || !name || preview_token_of(req)) {
        check_token(req, v);
    } else {
        free(v);
        refuse(req, r);
    }
}

/* The toolbox by other names. */
static bool is_guarded_port(uint64_t port)
{
    return port == 22222 || port == 2280 || port == 33333;
}

/* The sandbox of a preview that needs no word from who asks: a public one, or one by a signed name. */
static csn_cell *open_cell(csn_req *req)
{
    const csn_table *by_id = &csn_req_server(req)->boxes->by_id;
    const char *name = csn_req_box_name(req), *id;
    csn_cell *cell = csn_table_get(by_id, name);
    uint64_t port;

    if (csn_parse_u64(csn_str_of(csn_req_param(req, 1)), &port) < 0 || port > 65535)
        return NULL;
    if (!cell && (id = csn_signed_find(name, (unsigned) port)))
        return csn_table_get(by_id, id);
    return cell && cell->row.is_public && !is_guarded_port(port) ? cell : NULL;
}

/* The token goes first: the other header may be meant for what listens in the sandbox, and would count as a wrong key. */
static void check_preview(csn_req *req, visit *v)
{
    csn_cell *cell = open_cell(req);

    if (!cell && !preview_token_of(req))
        cell = cell_of_cookie(req);
    if (cell)
        let_in(req, v, cell);
    else if (preview_token_of(req))
        check_token(req, v);
    else
        check_box(req, v);
}

static void check_key(csn_req *req, visit *v)
{
    csn_caller caller;
    int r = csn_who_of_key(csn_req_server(req), csn_req_peer(req), bearer_of(req), &caller);

    if (r < 0) {
        free(v);
        refuse(req, r);
        return;
    }
    if (csn_req_route(req)->scope == CSN_SCOPE_ADMIN && !caller.is_admin) {
        free(v);
        csn_req_error(req, 403, NULL, "This key may not do that");
        return;
    }
    if (is_too_much(req, &caller)) {
        free(v);
        return;
    }
    csn_req_set_caller(req, &caller);
    csn_req_on_done(req, on_over, v);
    v->go(req);
}

void csn_auth_check(csn_req *req, void (*go)(csn_req *req))
{
    if (csn_req_route(req)->scope == CSN_SCOPE_PUBLIC) {
        go(req);
        return;
    }
    visit *v = calloc(1, sizeof(*v));
    if (!v) {
        csn_req_error(req, 503, NULL, "The server is out of memory");
        return;
    }
    v->req = req;
    v->go = go;
    if (csn_req_route(req)->flags & CSN_ROUTE_PREVIEW)
        check_preview(req, v);
    else if (csn_req_route(req)->scope == CSN_SCOPE_BOX)
        check_box(req, v);
    else
        check_key(req, v);
}
