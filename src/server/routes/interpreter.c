/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter contexts, and code run in them over a WebSocket (WIRE 9.4). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/utf8.h"
#include "server/envs.h"
#include "server/route.h"
#include "server/session_keep.h"
#include "server/toolbox.h"
#include "server/ws.h"

enum { TIMEOUT_S = 600, CLOSE_TIMEOUT = 4008, CLOSE_BAD_DATA = 1002, CLOSE_POLICY = 1008 };

/* ---- contexts --------------------------------------------------------------------------------------------------- */

static csn_context *find_in(csn_bench *bench, const char *id)
{
    if (bench)
        csn_list_foreach (node, &bench->contexts) {
            csn_context *c = csn_list_entry(node, csn_context, link);
            if (strcmp(c->id, id) == 0)
                return c;
        }
    return NULL;
}

#define LOST_TEXT "context '%.36s' ended when the server was started again; create a new one"

static bool is_lost(const csn_server *server, const char *box_id, const char *id)
{
    return csn_keep_is_lost(csn_toolbox_keep(server->toolbox), box_id, "context", id);
}

static void put_context(csn_jw *w, const csn_context *c)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", c->id);
    csn_jw_kstr(w, "cwd", c->cwd);
    csn_jw_ktime(w, "createdAt", c->created_ms);
    csn_jw_kbool(w, "active", true);
    csn_jw_kstr(w, "language", "python");
    csn_jw_end_object(w);
}

/* NULL: answered. */
static csn_context *make_context(csn_req *req, csn_bench *bench, const char *id,
                                 const char *cwd_asked)
{
    csn_auto(buf) csn_buf cwd = CSN_BUF_INIT;
    char **env = csn_req_env(req, NULL);
    csn_context *c = NULL;

    if (!env)
        return NULL;
    if (csn_req_cwd(req, cwd_asked, &cwd) == 0)
        c = csn_context_new(csn_req_server(req)->loop, bench->box, id, cwd.data,
                            (const char *const *) env);
    csn_envs_free(env);
    if (!c)
        csn_req_error(req, 500, NULL, "out of memory");
    return c;
}

static void post_context(csn_req *req)
{
    const csn_json *json = csn_req_json_body(req);
    const char *language = csn_json_get_str(json, "language", "python");
    csn_bench *bench = json ? csn_req_bench(req, true) : NULL;
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);
    char id[37];
    csn_context *c;

    if (!bench)
        return;
    if (language[0] && strcmp(language, "python") != 0) {
        csn_req_error(req, 400, "BAD_REQUEST", "unsupported language: %.64s", language);
        return;
    }
    if (bench->n_contexts >= CSN_TOOLBOX_CONTEXTS_MAX) {
        csn_req_error(req, 429, NULL, "%d contexts are open in this sandbox, more are not allowed",
                      CSN_TOOLBOX_CONTEXTS_MAX);
        return;
    }
    if (csn_id_uuid(id) < 0 ||
        !(c = make_context(req, bench, id, csn_json_get_str(json, "cwd", NULL))))
        return;
    csn_list_append(&bench->contexts, &c->link);
    bench->n_contexts++;
    csn_keep_other(csn_toolbox_keep(bench->server->toolbox), bench->id, "context", id, 0);
    put_context(&w, c);
    csn_req_json(req, 200, &body);
}

static void get_contexts(csn_req *req)
{
    csn_bench *bench = csn_req_bench(req, false);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "contexts");
    csn_jw_begin_array(&w);
    if (bench)
        csn_list_foreach (node, &bench->contexts)
            put_context(&w, csn_list_entry(node, csn_context, link));
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &body);
}

static void delete_context(csn_req *req)
{
    const char *id = csn_req_param(req, 0);
    csn_bench *bench = csn_req_bench(req, false);
    csn_context *c = find_in(bench, id);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    if (strcmp(id, "default") == 0) {
        csn_req_error(req, 400, "BAD_REQUEST", "the default context can't be deleted");
        return;
    }
    if (!c && is_lost(csn_req_server(req), csn_req_box_id(req), id)) {
        csn_req_error(req, 410, "SESSION_ENDED", LOST_TEXT, id);
        return;
    }
    if (!c) {
        csn_req_error(req, 404, "NOT_FOUND", "context not found: %.100s", id);
        return;
    }
    csn_context_free(c);
    bench->n_contexts--;
    csn_keep_other_gone(csn_toolbox_keep(bench->server->toolbox), bench->id, "context", id);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "message", "context deleted");
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &body);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* One socket: one run. */
typedef struct line {
    csn_ws *ws;
    csn_server *server;
    csn_sandbox *box;
    char box_id[37];
    csn_ctxrun *run; /* NULL: not yet, or over */
    bool is_asked, is_closing;
    csn_utf8_state utf8[2];
} line;

static void close_line(line *l, int code, const char *reason)
{
    l->is_closing = true;
    csn_ws_close(l->ws, code, reason);
}

static bool send_frame(line *l, const char *type, csn_str text, const char *name, const char *value,
                       const char *traceback)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "type", type);
    csn_jw_key(&w, "text");
    csn_jw_string(&w, text.data, text.len);
    csn_jw_kstr(&w, "name", name);
    csn_jw_kstr(&w, "value", value);
    csn_jw_kstr(&w, "traceback", traceback);
    csn_jw_end_object(&w);
    return out.error < 0 || csn_ws_send(l->ws, true, out.data, out.len);
}

static void send_text(line *l, int which, const csn_buf *text)
{
    if (text->len > 0 && !l->is_closing &&
        !send_frame(l, which ? "stderr" : "stdout", csn_str_n(text->data, text->len), "", "", "") &&
        l->run)
        csn_ctxrun_pause(l->run, true);
}

static void on_output(csn_ctxrun *run, csn_stream stream, const char *data, size_t len, void *user)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    line *l = user;
    int which = stream == CSN_STDERR;

    (void) run;
    (void) csn_utf8_lossy(&l->utf8[which], data, len, &text); /* no memory: what there is */
    send_text(l, which, &text);
}

static void flush_halves(line *l)
{
    for (int i = 0; i < 2; i++) {
        csn_auto(buf) csn_buf text = CSN_BUF_INIT;
        (void) csn_utf8_finish(&l->utf8[i], &text); /* as above */
        send_text(l, i, &text);
    }
}

static void on_error(csn_ctxrun *run, const char *name, const char *value, const char *traceback,
                     void *user)
{
    line *l = user;

    (void) run;
    flush_halves(l);
    (void) send_frame(l, "error", CSN_STR(""), name, value,
                      traceback); /* the queue takes one more */
}

static void on_end(csn_ctxrun *run, csn_ctxrun_end how, const char *why, void *user)
{
    line *l = user;

    (void) run;
    l->run = NULL;
    flush_halves(l);
    switch (how) {
    case CSN_CTXRUN_TIMEOUT: /* and no control frame before: clients would take it for success */
        close_line(l, CLOSE_TIMEOUT, "execution timeout");
        return;
    case CSN_CTXRUN_LOST:
        (void) send_frame(l, "error", CSN_STR(""), "InterpreterLost", why, "");
        break;
    case CSN_CTXRUN_COMPLETED:
        break;
    }
    (void) send_frame(l, "control", CSN_STR("completed"), "", "", "");
    close_line(l, 1000, NULL);
}

static const csn_ctxrun_events run_events = { .output = on_output,
                                              .error = on_error,
                                              .end = on_end };

static csn_bench *bench_of(const line *l)
{
    return csn_toolbox_bench(l->server->toolbox, l->box_id, l->box);
}

static void begin_run(line *l, const csn_json *json)
{
    const csn_json *code = csn_json_get(json, "code"), *envs = csn_json_get(json, "envs");
    const char *id = csn_json_get_str(json, "contextId", "");
    double timeout = csn_json_get_double(json, "timeout", TIMEOUT_S);
    csn_bench *bench = bench_of(l);
    csn_context *c = !bench                                 ? NULL
                     : !id[0] || strcmp(id, "default") == 0 ? bench->default_context
                                                            : find_in(bench, id);
    csn_keep *keep = csn_toolbox_keep(l->server->toolbox);
    const bool is_default = !id[0] || strcmp(id, "default") == 0;
    char reason[120];
    csn_error err = { 0 };

    if (csn_json_type_of(code) != CSN_JSON_STRING || csn_json_str_len(code) == 0) {
        close_line(l, CLOSE_POLICY, "code is required");
    } else if (timeout < 0) {
        close_line(l, CLOSE_POLICY, "timeout must not be negative");
    } else if (!csn_envs_is_good(envs)) {
        close_line(l, CLOSE_POLICY, "envs must be an object of names and texts");
    } else if (is_default && is_lost(l->server, l->box_id, "default")) {
        csn_keep_other(keep, l->box_id, "context", "default",
                       0); /* told once: there is a new one */
        close_line(
            l, CLOSE_POLICY,
            "the default context ended when the server was started again; there is a new one");
    } else if (!c && is_lost(l->server, l->box_id, id)) {
        (void) snprintf(reason, sizeof(reason), LOST_TEXT, id); /* cut is fine */
        close_line(l, CLOSE_POLICY, reason);
    } else if (!c) {
        (void) snprintf(reason, sizeof(reason), "context not found: %.64s", id); /* cut is fine */
        close_line(l, CLOSE_POLICY, reason);
    } else if (csn_context_run(c, csn_json_str(code, ""), csn_json_str_len(code), envs,
                               timeout < 1e12 ? (int64_t) (timeout * 1000) : 0, &run_events, l,
                               &l->run, &err) < 0) {
        close_line(l, CLOSE_POLICY, err.message);
    } else if (is_default && !bench->is_default_kept) {
        bench->is_default_kept = true;
        csn_keep_other(keep, l->box_id, "context", "default", 0);
    }
}

static void on_message(csn_ws *ws, bool is_text, const char *data, size_t len, void *user)
{
    csn_auto(json) csn_json *json = NULL;
    line *l = user;

    (void) ws;
    (void) is_text;
    if (l->is_asked || l->is_closing)
        return; /* one request per socket */
    l->is_asked = true;
    if (csn_json_parse(data, len, &json, NULL) < 0 || csn_json_type_of(json) != CSN_JSON_OBJECT)
        close_line(l, CLOSE_BAD_DATA, "the request is not a JSON object");
    else
        begin_run(l, json);
}

static void on_drain(csn_ws *ws, void *user)
{
    line *l = user;

    (void) ws;
    if (l->run)
        csn_ctxrun_pause(l->run, false);
}

static void on_closed(csn_ws *ws, int code, void *user)
{
    line *l = user;

    (void) ws;
    (void) code;
    if (l->run)
        csn_ctxrun_cancel(l->run);
    free(l);
}

static const csn_ws_events ws_events = { .on_message = on_message,
                                         .on_drain = on_drain,
                                         .on_closed = on_closed };

static void get_execute(csn_req *req)
{
    csn_bench *bench;
    line *l;

    if (!csn_req_wants_ws(req)) {
        csn_req_error(req, 426, NULL, "this is a WebSocket");
        return;
    }
    bench = csn_req_bench(req, true);
    if (!bench)
        return;
    if (!bench->default_context &&
        !(bench->default_context = make_context(req, bench, "default", NULL)))
        return;
    l = csn_calloc(1, sizeof(*l));
    if (!l) {
        csn_req_error(req, 500, NULL, "out of memory");
        return;
    }
    l->server = csn_req_server(req);
    l->box = bench->box;
    memcpy(l->box_id, bench->id, sizeof(l->box_id));
    l->ws = csn_req_upgrade(req, NULL, &ws_events, l);
    if (!l->ws)
        free(l);
}

static const csn_route routes[] = {
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/interpreter/context", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, post_context },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/interpreter/context", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get_contexts },
    { CSN_PLANE_TOOLBOX, CSN_DELETE, "/process/interpreter/context/{}", CSN_SCOPE_BOX,
      CSN_BODY_NONE, 0, CSN_ROUTE_TENANT, delete_context },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/interpreter/execute", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_WS | CSN_ROUTE_TENANT, get_execute },
};
const csn_route_table csn_routes_interpreter = CSN_ROUTE_TABLE(routes);
