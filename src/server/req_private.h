/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a request: for the transport's own files. Others use req.h, ws.h and auth.h. */
#ifndef CSN_SERVER_REQ_PRIVATE_H
#define CSN_SERVER_REQ_PRIVATE_H

#include "server/auth.h"
#include "server/http_conn.h"
#include "server/req.h"
#include "server/route.h"
#include "server/url.h"
#include "server/ws.h"

enum { CSN_PARAMS_MAX = 8 };

typedef struct csn_req_header_view {
    const char *name, *value;
} csn_req_header_view;

struct csn_req {
    csn_http_conn *conn;
    const csn_route *route;
    csn_method method; /* 0: unknown or malformed */
    csn_plane plane;   /* decides the shape of errors, also when no route was found */
    char id[17];
    char peer[46];
    int64_t begun_ns;

    char *text, *query_text;       /* owned: the strings below lie in them */
    char *params_at;               /* in text: room for one more copy of the path */
    const char *path, *inner_path; /* the second as the toolbox sees it */
    const char *method_name, *box_name;
    const char *raw_query; /* as sent, without '?' */
    /* as sent: what a port of a sandbox is asked for; NULL: nothing of that kind */
    const char *preview_path;
    bool is_preview_host; /* the port and the sandbox are in the host's name, not in the path */
    char *origin;         /* owned, made when asked for */
    size_t n_headers, n_query, n_params;
    csn_req_header_view *headers; /* owned */
    csn_url_pair *query;          /* owned */
    const char *params[CSN_PARAMS_MAX];
    csn_str host;
    int minor;

    csn_caller caller;
    csn_sandbox *box;
    char box_id[37];

    csn_gone_fn *on_gone;
    void *gone_user;
    csn_req_done_fn *on_done;
    void *done_user;
    csn_drain_fn *on_drain;
    void *drain_user;
    csn_body_fn *on_body;
    void *body_user;
    size_t body_wish; /* for the next piece */

    csn_buf body;
    csn_json *json;
    csn_buf lines;  /* header lines to add to the answer */
    csn_buf offers; /* subprotocols, each with a NUL behind it */

    int status;         /* of the answer, once it has begun */
    int64_t promised;   /* bytes the answer still owes; -1: chunked or until the end */
    bool is_keep_alive; /* the client's wish */
    bool is_upgrade, expects_continue;
    bool is_accepted;   /* by auth: the body may be read */
    bool is_reading;    /* somebody takes the body now */
    bool is_paused;     /* but has enough for the moment */
    bool is_chunked;    /* the answer */
    bool is_last;       /* the answer said Connection: close */
    bool is_gone;       /* on_gone is running: answers are dropped */
    bool is_bad_header; /* of the answer: it becomes 500 */
    bool is_offers_split;
    bool is_passed_on; /* the answer's head is somebody else's: nothing is added to it */
    bool is_tunnel;    /* upgraded: both bodies are bytes that end with the connection */
};

/* Makes a request of a complete head; the connection's body is set up. On a bad target: -EBADMSG, -ENOMEM. */
int csn_req_new(csn_http_conn *conn, const csn_http_head *head, csn_req **ret);
/* One without anything, to say what is wrong with the bytes that came. */
csn_req *csn_req_new_blank(csn_http_conn *conn);
void csn_req_free(csn_req *req, int status); /* hooks are called */

/* The client left or the server gives up: on_gone runs, then the request is freed. */
void csn_req_leave(csn_req *req);
/* Cancels the work as if the client had left, and then answers with an error all the same. */
void csn_req_give_up(csn_req *req, int status, const char *message);

/* A part of the body came in. The request may be answered and gone after. */
void csn_req_take_body(csn_req *req, csn_str piece);
/* Runs the route's handler. */
void csn_req_call(csn_req *req);
/* The body is complete: the handler or on_body is called. */
void csn_req_body_done(csn_req *req);
void csn_req_send_continue(csn_req *req);

/* errors.c */
const char *csn_http_reason(int status);
void csn_error_body(const csn_req *req, int status, const char *code, const char *message,
                    csn_buf *out);

/* router.c: finds the route, then asks auth. The first makes the index; CSN_OK or CSN_E_… */
int csn_router_open(csn_error *err);
void csn_router_dispatch(csn_req *req);

/* ws.c, for the connection's turn. */
void csn_ws_turn(csn_ws *ws, bool is_readable);
bool csn_ws_wants_read(const csn_ws *ws);
bool csn_ws_wants_write(const csn_ws *ws);
bool csn_ws_is_over(const csn_ws *ws);
bool csn_ws_is_closing(const csn_ws *ws);
void csn_ws_end(csn_ws *ws); /* on_closed, then freed */
const csn_req *csn_ws_req(const csn_ws *ws);

/* hosts.c: is this one of our names (R45), and may a page of that origin open a socket? */
bool csn_host_is_ours(const csn_listener *listener, csn_str host);
bool csn_origin_is_fine(const csn_req *req, const char *origin);

#endif
