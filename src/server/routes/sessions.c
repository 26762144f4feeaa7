/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: made, listed, given commands and input, deleted (WIRE 9.3). */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "server/envs.h"
#include "server/logsend.h"
#include "server/route.h"
#include "server/session_keep.h"
#include "server/toolbox.h"

static csn_session *find_in(csn_bench *bench, const char *id)
{
    if (!bench)
        return NULL;
    csn_list_foreach (node, &bench->sessions) {
        csn_session *s = csn_list_entry(node, csn_session, link);
        if (strcmp(s->id, id) == 0 && !s->deleted)
            return s;
    }
    return NULL;
}

/* The one that the path names; NULL after an answer of 404. */
static csn_session *need_session(csn_req *req)
{
    const char *id = csn_req_param(req, 0);
    csn_session *s = find_in(csn_req_bench(req, false), id);

    if (!s)
        csn_req_error(req, 404, "NOT_FOUND", "session not found: %.200s", id);
    return s;
}

static csn_session_command *need_command(csn_req *req)
{
    csn_session *s = need_session(req);
    csn_session_command *c = s ? csn_session_find(s, csn_req_param(req, 1)) : NULL;

    if (s && !c)
        csn_req_error(req, 404, "PROCESS_NOT_FOUND", "command not found: %.200s",
                      csn_req_param(req, 1));
    return c;
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

typedef struct waiting {
    csn_req *req; /* NULL: the client left; the session stays */
} waiting;

static void on_gone(csn_req *req, void *user)
{
    waiting *w = user;

    (void) req;
    w->req = NULL;
}

static void on_started(csn_session *session, int result, const csn_error *err, void *user)
{
    waiting *w = user;

    (void) session;
    if (w->req && result < 0)
        csn_req_fail(w->req, err);
    else if (w->req)
        csn_req_empty(w->req, 201);
    free(w);
}

static bool is_new_id(csn_req *req, csn_bench *bench, const char *id)
{
    if (!id[0] || strlen(id) > 255)
        csn_req_error(req, 400, "BAD_REQUEST", "sessionId is required, with at most 255 bytes");
    else if (strcmp(id, "entrypoint") == 0)
        csn_req_error(req, 400, "BAD_REQUEST", "sessionId 'entrypoint' is reserved");
    else if (find_in(bench, id))
        csn_req_error(req, 409, "CONFLICT", "session already exists: %.200s", id);
    else
        return true;
    return false;
}

static size_t count(const csn_list *list)
{
    size_t n = 0;

    for (const csn_list *p = list->next; p != list; p = p->next)
        n++;
    return n;
}

static void make_session(csn_req *req, csn_bench *bench, const char *id)
{
    csn_server *server = csn_req_server(req);
    csn_auto(buf) csn_buf cwd = CSN_BUF_INIT;
    waiting *w = csn_calloc(1, sizeof(*w));
    char **env = w ? csn_req_env(req, NULL) : NULL;
    csn_session *s = NULL;
    csn_error err = { 0 };

    if (!env) {
        if (!w)
            csn_req_error(req, 500, NULL, "out of memory");
        free(w);
        return;
    }
    w->req = req;
    csn_req_keep(req, on_gone, w);
    if (csn_req_cwd(req, NULL, &cwd) < 0)
        (void) csn_fail(&err, CSN_E_NO_MEMORY, "make a session");
    else
        s = csn_session_new(server->loop, bench->box, id, (const char *const *) env, cwd.data,
                            csn_toolbox_log_dir(server->toolbox), on_started, w, &err);
    csn_envs_free(env);
    if (!s) {
        csn_req_fail(req, &err);
        free(w);
        return;
    }
    csn_list_append(&bench->sessions, &s->link);
    csn_session_keep(bench, s);
}

static void post_session(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *id = csn_json_get_str(body, "sessionId", "");
    csn_bench *bench = body ? csn_req_bench(req, true) : NULL;

    if (!bench || !is_new_id(req, bench, id))
        return;
    if (count(&bench->sessions) >= CSN_TOOLBOX_SESSIONS_MAX)
        csn_req_error(req, 429, NULL, "%d sessions are open in this sandbox, more are not allowed",
                      CSN_TOOLBOX_SESSIONS_MAX);
    else
        make_session(req, bench, id);
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

static void put_command(csn_jw *w, const csn_session_command *c)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", c->id);
    csn_jw_kstr(w, "command", c->text);
    if (c->is_ended)
        csn_jw_kint(w, "exitCode", c->exit_code);
    csn_jw_end_object(w);
}

static void put_session(csn_jw *w, const csn_session *s)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "sessionId", s->id);
    csn_jw_key(w, "commands");
    csn_jw_begin_array(w);
    for (const csn_list *n = s->commands.next; n != &s->commands; n = n->next)
        put_command(w, csn_list_entry(n, csn_session_command, link));
    csn_jw_end_array(w);
    csn_jw_end_object(w);
}

static void get_sessions(csn_req *req)
{
    csn_bench *bench = csn_req_bench(req, false);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_array(&w);
    if (bench)
        csn_list_foreach (node, &bench->sessions) {
            const csn_session *s = csn_list_entry(node, csn_session, link);
            if (!s->deleted && !s->started)
                put_session(&w, s);
        }
    csn_jw_end_array(&w);
    csn_req_json(req, 200, &body);
}

static void get_session(csn_req *req)
{
    const csn_session *s = need_session(req);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    if (!s)
        return;
    put_session(&w, s);
    csn_req_json(req, 200, &body);
}

static void get_command(csn_req *req)
{
    const csn_session_command *c = need_command(req);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    if (!c)
        return;
    put_command(&w, c);
    csn_req_json(req, 200, &body);
}

/* Our images start no program of their own. */
static void get_entrypoint(csn_req *req)
{
    csn_req_error(req, 404, "NOT_FOUND", "session not found: entrypoint");
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

typedef struct sync_wait {
    csn_session_watch watch;
    csn_req *req;
    csn_log_style style;
} sync_wait;

static void answer_sync(csn_req *req, csn_session_command *c, csn_log_style style)
{
    if (c->is_dropped || c->exit_code < 0)
        csn_req_error(req, 410, "SESSION_ENDED", "the session ended before the command could run");
    else
        csn_logsend(req, c, CSN_LOGSEND_EXEC, style);
}

static void on_changed(csn_session_watch *watch, csn_session_command *c)
{
    sync_wait *w = csn_container_of(watch, sync_wait, watch);
    sync_wait it = *w;

    if (!c->is_ended)
        return;
    csn_session_watch_remove(watch);
    free(w);
    answer_sync(it.req, c, it.style);
}

static void on_waiter_gone(csn_req *req, void *user)
{
    sync_wait *w = user;

    (void) req;
    csn_session_watch_remove(
        &w->watch); /* the command goes on: its log and status can be asked for */
    free(w);
}

static void wait_for(csn_req *req, csn_session_command *c)
{
    sync_wait *w;

    if (c->is_ended) {
        answer_sync(req, c, csn_req_log_style(req));
        return;
    }
    w = csn_calloc(1, sizeof(*w));
    if (!w) {
        csn_req_error(req, 500, NULL, "out of memory");
        return;
    }
    *w = (sync_wait){ .watch.changed = on_changed, .req = req, .style = csn_req_log_style(req) };
    csn_session_watch_add(c, &w->watch);
    csn_req_keep(req, on_waiter_gone, w);
}

static void answer_async(csn_req *req, const csn_session_command *c)
{
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "cmdId", c->id);
    csn_jw_end_object(&w);
    csn_req_json(req, 202, &body);
}

static void fail_ended(csn_req *req, const csn_error *err)
{
    if (err->code == CSN_E_STATE)
        csn_req_error(req, 410, "SESSION_ENDED", "%s", err->message);
    else
        csn_req_fail(req, err);
}

static void post_exec(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *command = csn_json_get_str(body, "command", "");
    bool is_async = csn_json_get_bool(body, "runAsync", csn_json_get_bool(body, "async", false));
    csn_session *s = body ? need_session(req) : NULL;
    csn_session_command *c;
    csn_error err = { 0 };

    if (!s)
        return;
    if (command[strspn(command, " \t\r\n")] == '\0')
        csn_req_error(req, 400, "BAD_REQUEST", "command is required");
    else if (csn_session_exec(s, command, is_async,
                              csn_json_get_bool(body, "suppressInputEcho", false), &c, &err) < 0)
        fail_ended(req, &err);
    else if (is_async)
        answer_async(req, c);
    else
        wait_for(req, c);
}

static void post_input(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req), *data = csn_json_get(body, "data");
    csn_session_command *c = body ? need_command(req) : NULL;
    csn_error err = { 0 };

    if (!c)
        return;
    if (csn_json_type_of(data) != CSN_JSON_STRING)
        csn_req_error(req, 400, "BAD_REQUEST", "data is required");
    else if (c->session->is_ended)
        csn_req_error(req, 410, "SESSION_ENDED", "session '%.200s' has ended", c->session->id);
    else if (c->is_ended)
        csn_req_error(req, 410, "COMMAND_ALREADY_COMPLETED", "command '%s' has ended", c->id);
    else if (csn_session_input(c, csn_json_str(data, ""), csn_json_str_len(data), &err) >= 0)
        csn_req_empty(req, 204);
    else if (err.code == CSN_E_STATE)
        csn_req_error(req, 410, "COMMAND_ALREADY_COMPLETED", "%s", err.message);
    else
        csn_req_fail(req, &err);
}

/* ---- deleting --------------------------------------------------------------------------------------------------- */

static void on_deleted(csn_session *session, int result, const csn_error *err, void *user)
{
    waiting *w = user;

    (void) session;
    (void) result;
    (void) err;
    if (w->req)
        csn_req_empty(w->req, 204);
    free(w);
}

static void delete_session(csn_req *req)
{
    csn_session *s = need_session(req);
    waiting *w = s ? csn_calloc(1, sizeof(*w)) : NULL;

    if (!s)
        return;
    if (!w) {
        csn_req_error(req, 500, NULL, "out of memory");
        return;
    }
    w->req = req;
    csn_req_keep(req, on_gone, w);
    csn_session_delete(s, on_deleted, w);
}

static const csn_route routes[] = {
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/session", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, post_session },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/session", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get_sessions },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/session/entrypoint", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get_entrypoint },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/session/entrypoint/logs", CSN_SCOPE_BOX, CSN_BODY_NONE,
      0, CSN_ROUTE_TENANT, get_entrypoint },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/session/{}", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get_session },
    { CSN_PLANE_TOOLBOX, CSN_DELETE, "/process/session/{}", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, delete_session },
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/session/{}/exec", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, post_exec },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/session/{}/command/{}", CSN_SCOPE_BOX, CSN_BODY_NONE, 0,
      CSN_ROUTE_TENANT, get_command },
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/session/{}/command/{}/input", CSN_SCOPE_BOX,
      CSN_BODY_WHOLE, 0, CSN_ROUTE_TENANT, post_input },
};
const csn_route_table csn_routes_sessions = CSN_ROUTE_TABLE(routes);
