/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals: made, listed, resized, deleted, and looked at over WebSockets (WIRE 9.4). */
#include "server/pty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/str.h"
#include "server/base64url.h"
#include "server/envs.h"
#include "server/route.h"
#include "server/session_keep.h"
#include "server/toolbox.h"
#include "server/ws.h"

enum { INPUT_FRAME_MAX = 1 << 20 };

static csn_pty *find_in(csn_bench *bench, const char *id)
{
    if (bench)
        csn_list_foreach (node, &bench->ptys) {
            csn_pty *p = csn_list_entry(node, csn_pty, link);
            if (strcmp(p->id, id) == 0)
                return p;
        }
    return NULL;
}

static csn_pty *need_pty(csn_req *req, int status)
{
    csn_pty *p = find_in(csn_req_bench(req, false), csn_req_param(req, 0));

    if (!p && csn_keep_is_lost(csn_toolbox_keep(csn_req_server(req)->toolbox), csn_req_box_id(req),
                               "pty", csn_req_param(req, 0)))
        csn_req_error(
            req, 410, "SESSION_ENDED",
            "PTY session '%.200s' ended when the server was started again; create a new one",
            csn_req_param(req, 0));
    else if (!p)
        csn_req_error(req, status, NULL, "PTY session not found: %.200s", csn_req_param(req, 0));
    return p;
}

static void on_note(const csn_pty *p, bool is_there, void *user)
{
    const csn_bench *bench = user;
    csn_keep *keep = csn_toolbox_keep(bench->server->toolbox);

    if (is_there)
        csn_keep_other(keep, bench->id, "pty", p->id, p->process ? csn_process_id(p->process) : 0);
    else
        csn_keep_other_gone(keep, bench->id, "pty", p->id);
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

/* 1…1000, or the default when absent; 0 after an answer of 400. */
static uint16_t size_of(csn_req *req, const char *name, int64_t value)
{
    if (value >= 1 && value <= CSN_PTY_SIZE_MAX)
        return (uint16_t) value;
    csn_req_error(req, 400, "BAD_REQUEST", "%s must be from 1 to %d", name, CSN_PTY_SIZE_MAX);
    return 0;
}

typedef struct wish {
    const char *id, *cwd;
    const csn_json *envs;
    int64_t cols, rows;
} wish;

static bool is_allowed(csn_req *req, csn_bench *bench, const wish *wanted)
{
    size_t n = 0;

    csn_list_foreach (node, &bench->ptys)
        n++;
    if (!wanted->id[0] || strlen(wanted->id) > 255)
        csn_req_error(req, 400, "BAD_REQUEST", "id is required, with at most 255 bytes");
    else if (find_in(bench, wanted->id))
        csn_req_error(req, 409, "CONFLICT", "PTY session already exists: %.200s", wanted->id);
    else if (n >= CSN_TOOLBOX_PTYS_MAX)
        csn_req_error(req, 429, NULL, "%d terminals are open in this sandbox, more are not allowed",
                      CSN_TOOLBOX_PTYS_MAX);
    else
        return true;
    return false;
}

/* A terminal that is not started yet; NULL: answered. */
static csn_pty *make_pty(csn_req *req, csn_bench *bench, const wish *wanted)
{
    csn_auto(buf) csn_buf cwd = CSN_BUF_INIT;
    uint16_t cols, rows;
    char **env;
    csn_pty *p = NULL;

    if (!is_allowed(req, bench, wanted) || !(cols = size_of(req, "cols", wanted->cols)) ||
        !(rows = size_of(req, "rows", wanted->rows)) || !(env = csn_req_env(req, wanted->envs)))
        return NULL;
    if (csn_req_cwd(req, wanted->cwd, &cwd) == 0)
        p = csn_pty_new(csn_req_server(req)->loop, bench->box, wanted->id, cwd.data,
                        (const char *const *) env, cols, rows);
    csn_envs_free(env);
    if (!p) {
        csn_req_error(req, 500, NULL, "out of memory");
        return NULL;
    }
    csn_list_append(&bench->ptys, &p->link);
    p->note = on_note;
    p->note_user = bench;
    on_note(p, true, bench);
    return p;
}

static void post_pty(csn_req *req)
{
    const csn_json *json = csn_req_json_body(req);
    csn_bench *bench = json ? csn_req_bench(req, true) : NULL;
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    csn_error err = { 0 };
    csn_pty *p;

    if (!bench)
        return;
    wish wanted = { .id = csn_json_get_str(json, "id", ""),
                    .cwd = csn_json_get_str(json, "cwd", NULL),
                    .envs = csn_json_get(json, "envs"),
                    .cols = csn_json_get_int(json, "cols", 80),
                    .rows = csn_json_get_int(json, "rows", 24) };
    p = make_pty(req, bench, &wanted);
    if (!p)
        return;
    p->is_lazy = csn_json_get_bool(json, "lazyStart", false);
    if (!p->is_lazy && csn_pty_start(p, &err) < 0) {
        csn_pty_free(p);
        csn_req_fail(req, &err);
        return;
    }
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "sessionId", wanted.id);
    csn_jw_end_object(&w);
    csn_req_json(req, 201, &body);
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

static void put_pty(csn_jw *w, const csn_pty *p)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", p->id);
    csn_jw_kstr(w, "cwd", p->cwd);
    csn_jw_key(w, "envs");
    csn_jw_begin_object(w); /* what the sandbox's variables hold is not told again */
    csn_jw_end_object(w);
    csn_jw_kint(w, "cols", p->cols);
    csn_jw_kint(w, "rows", p->rows);
    csn_jw_ktime(w, "createdAt", p->created_ms);
    csn_jw_kbool(w, "active", p->process != NULL || p->coming != NULL);
    csn_jw_kbool(w, "lazyStart", p->is_lazy);
    csn_jw_end_object(w);
}

static void get_ptys(csn_req *req)
{
    csn_bench *bench = csn_req_bench(req, false);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "sessions");
    csn_jw_begin_array(&w);
    if (bench)
        csn_list_foreach (node, &bench->ptys)
            put_pty(&w, csn_list_entry(node, csn_pty, link));
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &body);
}

static void answer_pty(csn_req *req, const csn_pty *p)
{
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    put_pty(&w, p);
    csn_req_json(req, 200, &body);
}

static void get_pty(csn_req *req)
{
    const csn_pty *p = need_pty(req, 404);

    if (p)
        answer_pty(req, p);
}

static void post_resize(csn_req *req)
{
    const csn_json *json = csn_req_json_body(req);
    csn_pty *p = json ? need_pty(req, 410) : NULL;
    uint16_t cols, rows;
    csn_error err = { 0 };

    if (!p || !(cols = size_of(req, "cols", csn_json_get_int(json, "cols", 0))) ||
        !(rows = size_of(req, "rows", csn_json_get_int(json, "rows", 0))))
        return;
    if (csn_pty_resize(p, cols, rows, &err) < 0)
        csn_req_fail(req, &err);
    else
        answer_pty(req, p);
}

static void delete_pty(csn_req *req)
{
    csn_pty *p = need_pty(req, 404);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    if (!p)
        return;
    csn_list_remove(&p->link); /* the name is free at once */
    csn_pty_kill(p);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "message", "PTY session deleted");
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &body);
}

/* ---- sockets ---------------------------------------------------------------------------------------------------- */

typedef struct view {
    csn_pty_viewer viewer;
    csn_ws *ws;
    csn_pty *pty; /* NULL: it has ended */
    bool wants_exit;
} view;

static void send_control(view *v, const char *status, const char *error)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "type", "control");
    csn_jw_kstr(&w, "status", status);
    if (error)
        csn_jw_kstr(&w, "error", error);
    csn_jw_end_object(&w);
    (void) csn_ws_send(v->ws, true, out.data, out.len); /* short: the queue takes it */
}

static bool on_output(csn_pty_viewer *viewer, const char *data, size_t len)
{
    view *v = csn_container_of(viewer, view, viewer);

    return csn_ws_send(v->ws, false, data, len);
}

static void on_ended(csn_pty_viewer *viewer, int code, const char *reason)
{
    view *v = csn_container_of(viewer, view, viewer);
    char text[124];

    v->pty = NULL;
    if (code == 0)
        (void) snprintf(text, sizeof(text),
                        "{\"exitCode\":0}"); /* our own words: no quotes inside, and short */
    else
        (void) snprintf(text, sizeof(text), "{\"exitCode\":%d,\"exitReason\":\"%s\"}", code,
                        reason);
    if (v->wants_exit) {
        csn_auto(buf) csn_buf out = CSN_BUF_INIT;
        csn_jw w = CSN_JW_INIT(&out, false);
        csn_jw_begin_object(&w);
        csn_jw_kstr(&w, "type", "control");
        csn_jw_kstr(&w, "status", "exited");
        csn_jw_kint(&w, "exitCode", code);
        if (code != 0)
            csn_jw_kstr(&w, "exitReason", reason);
        csn_jw_end_object(&w);
        (void) csn_ws_send(v->ws, true, out.data, out.len); /* as above */
    }
    csn_ws_close(v->ws, code == 0 ? 1000 : 1011, text);
}

static void on_failed(csn_pty_viewer *viewer, const char *why)
{
    view *v = csn_container_of(viewer, view, viewer);

    v->pty = NULL;
    send_control(v, "error", why);
    csn_ws_close(v->ws, 1011, why);
}

static void on_message(csn_ws *ws, bool is_text, const char *data, size_t len, void *user)
{
    view *v = user;

    (void) is_text;
    if (v->pty && csn_pty_write(v->pty, data, len) < 0)
        csn_ws_close(ws, 1008, "the terminal does not read its input");
}

static void on_drain(csn_ws *ws, void *user)
{
    view *v = user;

    (void) ws;
    if (v->pty)
        csn_pty_drained(v->pty, &v->viewer);
}

static void on_closed(csn_ws *ws, int code, void *user)
{
    view *v = user;

    (void) ws;
    (void) code;
    if (v->pty)
        csn_pty_unview(v->pty, &v->viewer);
    free(v);
}

static const csn_ws_events events = { .on_message = on_message,
                                      .on_drain = on_drain,
                                      .on_closed = on_closed };

static bool is_offered(const csn_req *req, const char *token)
{
    const char *offer;

    for (size_t i = 0; (offer = csn_req_ws_offer(req, i)); i++)
        if (strcmp(offer, token) == 0)
            return true;
    return false;
}

/* The shell is started once somebody looks; whoever does first is told of a failure. */
static void connect_to(csn_req *req, csn_pty *p)
{
    static const char exit_token[] = "X-Daytona-Pty-Exit-Control";
    view *v = csn_calloc(1, sizeof(*v));
    csn_error err = { 0 };

    if (!v) {
        csn_req_error(req, 500, NULL, "out of memory");
        return;
    }
    v->wants_exit = is_offered(req, exit_token);
    v->viewer = (csn_pty_viewer){ .output = on_output, .ended = on_ended, .failed = on_failed };
    v->pty = p;
    v->ws = csn_req_upgrade(req, v->wants_exit ? exit_token : NULL, &events, v);
    if (!v->ws) {
        free(v);
        return;
    }
    if (csn_pty_start(p, &err) < 0) {
        on_failed(&v->viewer, err.message);
        csn_pty_free(p);
        return;
    }
    send_control(v, "connected", NULL);
    csn_pty_view(p, &v->viewer);
}

static void get_connect(csn_req *req)
{
    csn_pty *p;

    if (!csn_req_wants_ws(req)) {
        csn_req_error(req, 426, NULL, "this is a WebSocket");
        return;
    }
    p = need_pty(req, 404);
    if (p)
        connect_to(req, p);
}

/* Variables come as a token of the offer: "X-Daytona-Pty-Envs~" and a JSON object in base64url. False: answered. */
static bool read_envs(csn_req *req, csn_json **ret)
{
    static const char token[] = "X-Daytona-Pty-Envs~";
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    const char *offer;

    for (size_t i = 0; (offer = csn_req_ws_offer(req, i)); i++) {
        if (!csn_starts_with(offer, token))
            continue;
        if (csn_base64url_decode(csn_str_of(offer + sizeof(token) - 1), &text) == 0 &&
            csn_json_parse(text.data, text.len, ret, NULL) == 0)
            return true;
        csn_req_error(req, 400, "BAD_REQUEST", "the offered environment can't be read");
        return false;
    }
    return true;
}

static int64_t query_int(csn_req *req, const char *key, int64_t def)
{
    const char *text = csn_req_query(req, key);
    int64_t value;

    if (!text || !text[0])
        return def;
    return csn_parse_i64(csn_str_of(text), &value) < 0 ? -1 : value;
}

static void get_create_connect(csn_req *req)
{
    csn_auto(json) csn_json *envs = NULL;
    csn_bench *bench;
    csn_pty *p;

    if (!csn_req_wants_ws(req)) {
        csn_req_error(req, 426, NULL, "this is a WebSocket");
        return;
    }
    bench = csn_req_bench(req, true);
    if (!bench || !read_envs(req, &envs))
        return;
    wish wanted = { .id = csn_req_query(req, "id") ? csn_req_query(req, "id") : "",
                    .cwd = csn_req_query(req, "cwd"),
                    .envs = envs,
                    .cols = query_int(req, "cols", 80),
                    .rows = query_int(req, "rows", 24) };
    p = make_pty(req, bench, &wanted);
    if (p)
        connect_to(req, p);
}

static const csn_route routes[] = {
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/pty", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, post_pty },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/pty", CSN_SCOPE_BOX, CSN_BODY_NONE, 0, CSN_ROUTE_TENANT,
      get_ptys },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/pty/create-connect", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_WS | CSN_ROUTE_TENANT, get_create_connect },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/pty/{}", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get_pty },
    { CSN_PLANE_TOOLBOX, CSN_DELETE, "/process/pty/{}", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, delete_pty },
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/pty/{}/resize", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, post_resize },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/pty/{}/connect", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_WS | CSN_ROUTE_TENANT, get_connect },
};
const csn_route_table csn_routes_pty = CSN_ROUTE_TABLE(routes);
