/* SPDX-License-Identifier: Apache-2.0 */
/* A request's life: made of a head, asked by its handler, fed with its body, left or freed. */
#include "server/req.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "base/time.h"
#include "server/req_private.h"

enum { BODY_MAX_DEFAULT = 16 << 20, KEPT_MAX_DEFAULT = 64 << 10 };

/* ---- made and freed ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    csn_method method;
} methods[] = {
    { "GET", CSN_GET },         { "POST", CSN_POST },     { "PUT", CSN_PUT },
    { "PATCH", CSN_PATCH },     { "DELETE", CSN_DELETE }, { "HEAD", CSN_HEAD },
    { "OPTIONS", CSN_OPTIONS },
};

static csn_method method_of(csn_str name)
{
    for (size_t i = 0; i < CSN_COUNT(methods); i++)
        if (csn_str_is(name, methods[i].name))
            return methods[i].method;
    return 0;
}

csn_req *csn_req_new_blank(csn_http_conn *conn)
{
    csn_listener *l = conn->listener;
    csn_req *req = csn_calloc(1, sizeof(*req));

    if (!req)
        return NULL;
    req->conn = conn;
    req->minor = 1;
    req->promised = -1;
    req->path = req->inner_path = req->method_name = req->raw_query = "";
    req->begun_ns = csn_now_ns();
    req->body = (csn_buf) CSN_BUF_INIT_MAX(BODY_MAX_DEFAULT);
    req->lines = (csn_buf) CSN_BUF_INIT_MAX(KEPT_MAX_DEFAULT);
    req->offers = (csn_buf) CSN_BUF_INIT_MAX(2 * KEPT_MAX_DEFAULT);
    csn_peer_addr_text(&conn->peer, req->peer);
    snprintf(req->id, sizeof(req->id), "%08x%08x", (unsigned) l->id_base, (unsigned) l->next_id++);
    l->stats.n_requests++;
    l->stats.n_waiting++;
    return req;
}

static char *keep_str(char **at, csn_str s)
{
    char *start = *at;

    memcpy(start, s.data, s.len);
    start[s.len] = '\0';
    *at += s.len + 1;
    return start;
}

/* One block for all strings of the head: never more than the head itself and its NULs, the decoded query and the path. */
static int keep_head(csn_req *req, const csn_http_head *head, const csn_url *url)
{
    csn_str host = url->authority.len > 0 ? url->authority : head->host;
    size_t size = head->method.len + url->query.len + 3 * (url->path.len + host.len) +
                  CSN_URL_SEGMENTS_MAX + 16; /* the router decodes parts of both, some twice */

    for (size_t i = 0; i < head->n_headers; i++)
        size += head->headers[i].name.len + head->headers[i].value.len + 2;
    req->text = csn_malloc(size);
    req->headers = csn_calloc(head->n_headers ? head->n_headers : 1, sizeof(*req->headers));
    if (!req->text || !req->headers)
        return -ENOMEM;
    char *at = req->text;
    req->method_name = keep_str(&at, head->method);
    req->path = req->inner_path = keep_str(&at, url->path);
    req->raw_query = keep_str(&at, url->query);
    req->host = csn_str_n(keep_str(&at, csn_str_n(host.data ? host.data : "", host.len)), host.len);
    for (size_t i = 0; i < head->n_headers; i++) {
        req->headers[i].name = keep_str(&at, head->headers[i].name);
        req->headers[i].value = keep_str(&at, head->headers[i].value);
    }
    req->n_headers = head->n_headers;
    req->params_at = at; /* the router decodes segments to here */
    return 0;
}

static int keep_query(csn_req *req, csn_str query)
{
    size_t n = 1;

    if (query.len == 0)
        return 0;
    for (size_t i = 0; i < query.len; i++)
        n += query.data[i] == '&';
    if (n > CSN_URL_PAIRS_MAX)
        return -EBADMSG;
    req->query = csn_calloc(n, sizeof(*req->query));
    req->query_text = csn_malloc(query.len * 2 + 2);
    if (!req->query || !req->query_text)
        return -ENOMEM;
    ssize_t found = csn_url_pairs(query, req->query, n, req->query_text);
    if (found < 0)
        return (int) found;
    req->n_query = (size_t) found;
    return 0;
}

static void free_parts(csn_req *req)
{
    csn_json_free(req->json);
    csn_buf_free(&req->body);
    csn_buf_free(&req->lines);
    csn_buf_free(&req->offers);
    free(req->origin);
    free(req->query);
    free(req->query_text);
    free(req->headers);
    free(req->text);
    free(req);
}

int csn_req_new(csn_http_conn *conn, const csn_http_head *head, csn_req **ret)
{
    csn_url url;
    int r = csn_url_parse(head->target, &url);

    if (r < 0)
        return r;
    csn_req *req = csn_req_new_blank(conn);
    if (!req)
        return -ENOMEM;
    req->method = method_of(head->method);
    req->minor = head->minor;
    req->is_keep_alive = head->is_keep_alive;
    req->is_upgrade = head->is_upgrade;
    req->expects_continue = head->expects_continue;
    r = keep_head(req, head, &url);
    if (r == 0)
        r = keep_query(req, url.query);
    if (r < 0) {
        conn->listener->stats.n_waiting--;
        conn->listener->stats.n_requests--;
        free_parts(req);
        return r;
    }
    *ret = req;
    return 0;
}

void csn_req_free(csn_req *req, int status)
{
    csn_listener *l = req->conn->listener;

    if (req->on_done)
        req->on_done(req, status, req->done_user);
    if (l->on_request)
        l->on_request(req, status, l->on_request_user);
    l->stats.n_waiting--;
    l->n_whole -= req->body.len;
    free_parts(req);
}

static void call_gone(csn_req *req)
{
    csn_gone_fn *on_gone = req->on_gone;

    req->is_gone = true;
    req->on_gone = NULL;
    if (on_gone)
        on_gone(req, req->gone_user);
}

void csn_req_leave(csn_req *req)
{
    call_gone(req);
    req->conn->req = NULL;
    csn_req_free(req, 499);
}

void csn_req_give_up(csn_req *req, int status, const char *message)
{
    call_gone(req);
    req->is_gone = false;
    if (req->status == 0)
        csn_req_error(req, status, NULL, "%s", message);
    else
        csn_req_abort(req); /* the answer has begun: all we can say is that it isn't complete */
}

/* ---- asked ------------------------------------------------------------------------------------------------------- */

csn_server *csn_req_server(const csn_req *req)
{
    return req->conn->listener->server;
}

const csn_route *csn_req_route(const csn_req *req)
{
    return req->route;
}

csn_method csn_req_method(const csn_req *req)
{
    return req->method;
}

const char *csn_req_id(const csn_req *req)
{
    return req->id;
}

const char *csn_req_path(const csn_req *req)
{
    return req->path;
}

const csn_caller *csn_req_caller(const csn_req *req)
{
    return &req->caller;
}

const char *csn_req_param(const csn_req *req, size_t i)
{
    return i < req->n_params ? req->params[i] : "";
}

const char *csn_req_query_at(const csn_req *req, const char *key, size_t i)
{
    for (size_t k = 0; k < req->n_query; k++)
        if (strcmp(req->query[k].key, key) == 0 && i-- == 0)
            return req->query[k].value;
    return NULL;
}

const char *csn_req_query(const csn_req *req, const char *key)
{
    return csn_req_query_at(req, key, 0);
}

const char *csn_req_header(const csn_req *req, const char *name)
{
    for (size_t i = 0; i < req->n_headers; i++)
        if (strcasecmp(req->headers[i].name, name) == 0)
            return req->headers[i].value;
    return NULL;
}

csn_sandbox *csn_req_box(const csn_req *req)
{
    return req->box;
}

const char *csn_req_box_id(const csn_req *req)
{
    return req->box_id;
}

int64_t csn_req_age_ns(const csn_req *req)
{
    return csn_now_ns() - req->begun_ns;
}

/* ---- told by auth ------------------------------------------------------------------------------------------------ */

const char *csn_req_box_name(const csn_req *req)
{
    return req->box_name;
}

void csn_req_set_caller(csn_req *req, const csn_caller *caller)
{
    req->caller = *caller;
}

void csn_req_set_box(csn_req *req, csn_sandbox *box, const char *id)
{
    req->box = box;
    snprintf(req->box_id, sizeof(req->box_id), "%s", id);
}

void csn_req_on_done(csn_req *req, csn_req_done_fn *on_done, void *user)
{
    req->on_done = on_done;
    req->done_user = user;
}

void csn_req_keep(csn_req *req, csn_gone_fn *on_gone, void *user)
{
    req->on_gone = on_gone;
    req->gone_user = user;
}

/* ---- fed --------------------------------------------------------------------------------------------------------- */

csn_str csn_req_body(const csn_req *req)
{
    return csn_str_n(req->body.data, req->body.len);
}

const csn_json *csn_req_json_body(csn_req *req)
{
    char where[160];
    csn_str text = csn_str_trim(csn_req_body(req));

    if (req->json)
        return req->json;
    if (text.len == 0)
        text = CSN_STR("{}");
    int r = csn_json_parse(text.data, text.len, &req->json, where);
    if (r < 0 && r != -ENOMEM) {
        csn_req_error(req, 400, "INVALID_REQUEST_BODY", "The request body is not JSON: %s", where);
        return NULL;
    }
    if (r < 0) {
        csn_req_error(req, 503, NULL, "Out of memory");
        return NULL;
    }
    if (csn_json_type_of(req->json) != CSN_JSON_OBJECT) {
        csn_req_error(req, 400, "INVALID_REQUEST_BODY", "The request body is not a JSON object");
        return NULL;
    }
    return req->json;
}

/* Nobody may forget a request: the client would wait for ever. */
void csn_req_call(csn_req *req)
{
    csn_http_conn *conn = req->conn;

    req->route->handle(req);
    if (conn->req == req && !req->on_gone && !req->status && !req->on_body)
        csn_req_error(req, 500, NULL, "The request was not answered");
}

/* One client's large bodies are bounded by its route; those of many clients by this. */
static void keep_piece(csn_req *req, csn_str piece)
{
    csn_listener *l = req->conn->listener;

    if (l->n_whole + piece.len > l->limits.whole_max) {
        csn_req_add_header(req, "Retry-After", "1");
        csn_req_error(req, 503, NULL, "Too many large requests at a time");
        return;
    }
    if (csn_buf_append(&req->body, piece.data, piece.len) == 0)
        l->n_whole += piece.len;
    else if (req->body.error == -E2BIG)
        csn_req_error(req, 413, NULL, "The request body is larger than %zu bytes", req->body.max);
    else
        csn_req_error(req, 503, NULL, "Out of memory");
}

void csn_req_take_body(csn_req *req, csn_str piece)
{
    csn_http_conn *conn = req->conn;

    if (req->on_body) {
        bool is_on = req->on_body(req, piece.data, piece.len, req->body_user);
        if (!is_on && conn->req == req) /* else it answered, and req is no more */
            req->is_paused = true;
        return;
    }
    if (req->route->body == CSN_BODY_NONE) {
        if (conn->body_bytes > (int64_t) conn->listener->limits.drain_max)
            csn_req_error(req, 413, NULL, "This request takes no body");
        return;
    }
    keep_piece(req, piece);
}

void csn_req_body_done(csn_req *req)
{
    req->is_reading = false;
    if (req->on_body)
        (void) req->on_body(req, "", 0, req->body_user); /* nothing more can be paused */
    else
        csn_req_call(req);
}

void csn_req_body_start(csn_req *req, csn_body_fn *on_body, void *user)
{
    if (req->is_gone)
        return;
    req->on_body = on_body;
    req->body_user = user;
    req->is_reading = true;
    csn_req_send_continue(req);
    csn_http_conn_kick(req->conn);
}

void csn_req_body_resume(csn_req *req)
{
    if (req->is_gone || !req->is_paused)
        return;
    req->is_paused = false;
    csn_http_conn_kick(req->conn);
}

void csn_req_body_wish(csn_req *req, size_t len)
{
    req->body_wish = len;
}
