/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket and all its connections.
 *
 * Theory of operation. One listener per loop. It accepts, counts (in total and per address) and refuses politely what is
 * too much: a spare descriptor is kept so that even at the limit a connection can be accepted, told 503 and closed. All
 * connections share one read buffer of 512 KiB and one clock that ticks twice a second, so an idle one costs its struct. */
#ifndef CSN_SERVER_LISTEN_H
#define CSN_SERVER_LISTEN_H

#include "server/req.h"
#include "server/server.h"

/* Takes over `fd`, a listening stream socket (TCP or UNIX). Uses server->loop, ->config (copied by pointer: must stay)
 * and csn_route_tables. CSN_OK or CSN_E_…. Sets server->listener. Raises RLIMIT_NOFILE to the hard limit. */
int csn_listener_new(csn_server *server, int fd, csn_listener **ret_listener, csn_error *err);
/* Cuts every connection (on_gone and on_closed are called) and frees it all. Not from within a handler. NULL is fine;
 * always NULL. */
csn_listener *csn_listener_free(csn_listener *listener);

/* Graceful end: accepts no more, answers waiting requests with 503, closes sockets with 1001, and calls `done` (from the
 * loop) when all connections are closed, at the latest after 5 s. */
void csn_listener_stop(csn_listener *listener, void (*done)(void *user), void *user);

/* Called for every request when it is over, after its own done hook: one place for access log and metrics. Requests that
 * never had a route or were malformed count too (route NULL). */
typedef void csn_listener_seen_fn(const csn_req *req, int status, void *user);
void csn_listener_on_request(csn_listener *listener, csn_listener_seen_fn *fn, void *user);

/* Ends what a caller has open whom is_fine says no to: requests are given up with 401, WebSockets closed with 1008. Public
 * requests have no caller and are not asked about. Not from within a handler. */
typedef bool csn_listener_fine_fn(const csn_caller *caller, void *user);
void csn_listener_sift(csn_listener *listener, csn_listener_fine_fn *is_fine, void *user);

typedef struct csn_listener_stats {
    uint64_t n_accepted, n_refused, n_requests, n_malformed;
    uint32_t n_open, n_waiting, n_sockets; /* connections, requests being worked on, WebSockets */
} csn_listener_stats;
csn_listener_stats csn_listener_get_stats(const csn_listener *listener);

#endif
