/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: its state, its clock, its turn. Private to the transport (listen, http_conn, req, ws).
 *
 * Theory of operation. A connection is woken by its socket, by the listener's clock, or by a kick (something changed in
 * it while other code was running). Only in such a turn does it read, parse, call handlers, on_body, on_drain, on_gone or
 * free itself; what handlers call (answers, writes, resume) only queues, sends what the socket takes and kicks. So no
 * handler ever runs inside another one's call. At the end of a turn it settles: it decides from its state alone which
 * events it waits for and which deadline it has. */
#ifndef CSN_SERVER_HTTP_CONN_H
#define CSN_SERVER_HTTP_CONN_H

#include "base/list.h"
#include "base/loop.h"
#include "server/http1.h"
#include "server/http_out.h"
#include "server/listen.h"
#include "server/peers.h"

typedef enum csn_http_state {
    CSN_HTTP_IDLE,  /* waits for a request */
    CSN_HTTP_HEAD,  /* some of a head is there */
    CSN_HTTP_WORK,  /* a request is on */
    CSN_HTTP_DRAIN, /* answered; the rest of a small body is read and dropped */
    CSN_HTTP_LINGER, /* answered, and no more will be: sends what waits, shuts down, waits for the peer's end */
    CSN_HTTP_WS /* upgraded */
} csn_http_state;

/* Deadlines: connections with the same one form a queue in order of time. */
typedef enum csn_http_due {
    CSN_DUE_NONE,
    CSN_DUE_IDLE,
    CSN_DUE_HEAD,
    CSN_DUE_BODY, /* the body must have advanced */
    CSN_DUE_SEND, /* the peer must have taken something */
    CSN_DUE_LINGER,
    CSN_DUE_CLOSE, /* the peer must have answered our close frame */
    CSN_DUE_COUNT
} csn_http_due;

typedef struct csn_http_conn {
    csn_list link, due_link, kick_link;
    csn_listener *listener;
    csn_source *src;
    csn_req *req;
    csn_ws *ws;
    csn_buf in; /* bytes that came before their turn; no memory while there are none */
    csn_http_scan scan;
    csn_http_body body;
    csn_http_out out;
    csn_peer_addr peer;
    int64_t due_ns;
    int64_t due_mark; /* body bytes or sent bytes when the deadline was set */
    int64_t body_bytes;
    size_t linger_bytes; /* that came after its last answer */
    int fd;
    uint32_t events;
    uint8_t state, due, depth;
    bool is_broken;      /* nothing can be sent or read any more: it ends with this turn */
    bool is_half_closed; /* the peer sends no more */
    bool is_eof;         /* and all it sent was read */
    bool is_shut;        /* nor do we send */
    bool is_in_unwanted; /* bytes came while none were wanted: stop looking for them */
    bool is_drain_due;   /* a writer waits for on_drain */
} csn_http_conn;

typedef struct csn_http_limits {
    int64_t due_ns[CSN_DUE_COUNT];
    int64_t body_bytes_per_s;
    size_t drain_max; /* a body nobody wants is read up to this, so that the connection can go on */
    size_t whole_max; /* of all bodies kept whole at a time */
} csn_http_limits;

enum { CSN_HTTP_READ_SIZE = 256 << 10, CSN_HTTP_LINGER_MAX = 1 << 20 };

struct csn_listener {
    csn_server *server;
    int fd, spare_fd, kick_fd;
    csn_source *src, *kick_src;
    csn_list conns, kicked, due[CSN_DUE_COUNT];
    csn_timer tick;
    csn_peers peers;
    csn_http_limits limits; /* tests shorten them */
    csn_listener_stats stats;
    uint32_t max_open, max_per_address;
    size_t n_whole; /* bytes of bodies that are kept whole, of all requests */
    uint64_t id_base, next_id;
    csn_listener_seen_fn *on_request;
    void *on_request_user;
    void (*on_stopped)(void *user);
    void *on_stopped_user;
    bool is_stopping, is_paused;
    int64_t stop_ns;
    int64_t date_s; /* of the cached Date line */
    char date[40];
    char host_name[65];
    char read_buf[CSN_REQ_PIECE_MAX];
};

/* Takes over an accepted socket. NULL: no memory (closed). */
csn_http_conn *csn_http_conn_new(csn_listener *listener, int fd, const csn_peer_addr *peer);
/* For the listener. Each is a turn, after which the connection may be no more. */
void csn_http_conn_refuse(csn_http_conn *conn, int status,
                          const char *message); /* no request of it is read */
void csn_http_conn_expire(csn_http_conn *conn); /* its deadline passed */
void csn_http_conn_turn(csn_http_conn *conn);   /* it was kicked */
void csn_http_conn_cut(csn_http_conn *conn);
void csn_http_conn_revoke(csn_http_conn *conn); /* who asked may not any more */

/* For req and ws, from wherever. Within a turn of the connection the first two do nothing: its end does the same. */
void csn_http_conn_kick(csn_http_conn *conn);   /* have a turn soon */
void csn_http_conn_settle(csn_http_conn *conn); /* what the socket is waited for may have changed */
void csn_http_conn_break(csn_http_conn *conn);  /* ends at its next turn */
/* The request is over: what comes next? is_last: nothing on this connection. */
void csn_http_conn_next(csn_http_conn *conn, bool is_last);
/* May the connection go on after an answer to the present request, or is too much of its body still to come? */
bool csn_http_conn_can_go_on(const csn_http_conn *conn);
/* Auth said yes: the body is read, then the handler called. A turn. */
void csn_http_conn_accept(csn_req *req);

/* Between http_conn.c and http_pump.c. */
void csn_http_pump(csn_http_conn *conn,
                   csn_str *in); /* takes what can be taken now off the front of `in` */
void csn_http_refuse(csn_http_conn *conn, int status, const char *message); /* the last answer */
void csn_http_start_body(csn_req *req);
bool csn_http_is_reading_body(const csn_http_conn *conn);
bool csn_http_may_begin(const csn_http_conn *conn);
void csn_http_conn_again(csn_http_conn *conn); /* another turn soon, also from within one */
void csn_http_forget_due(csn_http_conn *conn);

/* Up to len bytes: first those that came too early, then of the socket. 0: the peer's end, -errno. */
ssize_t csn_http_conn_recv(csn_http_conn *conn, void *data, size_t len);

const char *csn_listener_date(csn_listener *listener);

#endif
