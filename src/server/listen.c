/* SPDX-License-Identifier: Apache-2.0 */
#include "server/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/time.h"
#include "server/req_private.h"

enum {
    ACCEPTS_PER_TURN = 64,
    POLITE_MAX = 64, /* connections above the limit that are still told why they are refused */
    DESCRIPTORS_KEPT = 256, /* for all else: database, sandboxes, files */
    TICK_MS = 500,
    STOP_MS = 5000
};

static const csn_http_limits default_limits = {
    .due_ns = { [CSN_DUE_IDLE] = 75 * CSN_NS_PER_S,
                [CSN_DUE_HEAD] = 10 * CSN_NS_PER_S,
                [CSN_DUE_BODY] = 10 * CSN_NS_PER_S,
                [CSN_DUE_SEND] = 60 * CSN_NS_PER_S,
                [CSN_DUE_LINGER] = 1 * CSN_NS_PER_S,
                [CSN_DUE_CLOSE] = 5 * CSN_NS_PER_S },
    .body_bytes_per_s = 1024,
    .drain_max = 64 << 10,
    .whole_max = 256 << 20,
};

/* ---- accepting --------------------------------------------------------------------------------------------------- */

static void admit(csn_listener *l, int fd, const struct sockaddr_storage *addr)
{
    csn_peer_addr peer = csn_peer_addr_of(addr);
    int n_peer = csn_peers_enter(&l->peers, &peer);
    bool is_much = l->stats.n_open >= l->max_open || n_peer > (int) l->max_per_address;

    if (n_peer < 0 || l->stats.n_open >= l->max_open + POLITE_MAX) {
        if (n_peer >= 0)
            csn_peers_leave(&l->peers, &peer);
        csn_close(&fd);
        l->stats.n_refused++;
        return;
    }
    csn_http_conn *conn = csn_http_conn_new(l, fd, &peer);
    if (!conn) {
        csn_peers_leave(&l->peers, &peer);
        return;
    }
    l->stats.n_accepted++;
    l->stats.n_refused += is_much;
    if (is_much)
        csn_http_conn_refuse(conn, 503, "Too many connections");
}

static int accept_one(csn_listener *l)
{
    struct sockaddr_storage addr = { 0 };
    socklen_t len = sizeof(addr);
    int fd = accept4(l->fd, (struct sockaddr *) &addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return -errno;
    admit(l, fd, &addr);
    return 0;
}

/* No descriptor is left: give up the spare one for a moment, so that the client hears it from us. */
static void refuse_one(csn_listener *l)
{
    static const char text[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
        "Connection: close\r\nRetry-After: 1\r\nContent-Length: 93\r\n\r\n"
        "{\"statusCode\":503,\"error\":\"Service Unavailable\",\"message\":\"Too many connections\",\"path\":\"\"} \n";

    csn_close(&l->spare_fd);
    csn_auto(fd) int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        (void) send(fd, text, sizeof(text) - 1,
                    MSG_NOSIGNAL | MSG_DONTWAIT); /* it is lost anyway */
        (void) shutdown(fd, SHUT_WR);
        l->stats.n_refused++;
    }
    csn_close(&fd);
    l->spare_fd = eventfd(0, EFD_CLOEXEC);
}

static void pause_accepting(csn_listener *l, bool is_paused)
{
    if (l->is_paused == is_paused || !l->src)
        return;
    l->is_paused = is_paused;
    (void) csn_source_mod(l->src, is_paused ? 0 : EPOLLIN); /* worst case: it is tried again */
}

static void set_tick(csn_listener *l);

static void on_accept(csn_source *src, uint32_t events, void *user)
{
    csn_listener *l = user;
    int r = 0;

    (void) src;
    (void) events;
    for (int i = 0; i < ACCEPTS_PER_TURN && r == 0; i++) {
        r = accept_one(l);
        if (r == -EMFILE || r == -ENFILE) {
            refuse_one(l);
            pause_accepting(l, true); /* until the next tick: or we would do nothing else */
        }
        if (r == -EINTR || r == -ECONNABORTED)
            r = 0;
    }
    if (r == -ENOBUFS || r == -ENOMEM)
        pause_accepting(l, true);
    set_tick(l);
}

/* ---- the clock and the kicks ------------------------------------------------------------------------------------- */

static void expire(csn_list *queue, int64_t now)
{
    csn_list *node;

    while ((node = csn_list_first(queue))) {
        csn_http_conn *conn = csn_list_entry(node, csn_http_conn, due_link);
        if (conn->due_ns > now)
            break;
        csn_http_conn_expire(conn); /* sets it anew behind the others, or ends it */
    }
}

static void cut_all(csn_listener *l)
{
    csn_list *node;

    while ((node = csn_list_first(&l->conns)))
        csn_http_conn_cut(csn_list_entry(node, csn_http_conn, link));
}

static void check_stopped(csn_listener *l)
{
    void (*done)(void *user) = l->on_stopped;

    if (!l->is_stopping)
        return;
    if (csn_now_ns() >= l->stop_ns)
        cut_all(l);
    if (!csn_list_empty(&l->conns) || !done)
        return;
    l->on_stopped = NULL;
    done(l->on_stopped_user); /* may free the listener */
}

static void on_tick(csn_timer *timer, void *user)
{
    csn_listener *l = user;
    int64_t now = csn_now_ns();

    (void) timer;
    for (int due = 1; due < CSN_DUE_COUNT; due++)
        expire(&l->due[due], now);
    pause_accepting(l, false);
    set_tick(l);
    check_stopped(l);
}

/* A server without connections sleeps. */
static void set_tick(csn_listener *l)
{
    if (l->tick.loop || (csn_list_empty(&l->conns) && !l->is_stopping && !l->is_paused))
        return;
    (void) csn_timer_set(l->server->loop, &l->tick, csn_deadline_in_ms(TICK_MS), on_tick, l);
}

static void on_kick(csn_source *src, uint32_t events, void *user)
{
    csn_listener *l = user;
    csn_list mine, *node;
    uint64_t count;

    (void) src;
    (void) events;
    (void) csn_read(l->kick_fd, &count, sizeof(count)); /* only the waking matters */
    csn_list_init(&mine);
    while ((node = csn_list_pop(&l->kicked)))
        csn_list_append(&mine, node);
    while ((node = csn_list_pop(&mine))) /* one that is freed meanwhile leaves the list */
        csn_http_conn_turn(csn_list_entry(node, csn_http_conn, kick_link));
    check_stopped(l);
}

const char *csn_listener_date(csn_listener *l)
{
    time_t now = time(NULL);
    struct tm tm;

    if (now != l->date_s && gmtime_r(&now, &tm)) {
        l->date_s = now;
        strftime(l->date, sizeof(l->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    }
    return l->date;
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

static void set_option(int fd, int level, int name, int value)
{
    (void) setsockopt(fd, level, name, &value, sizeof(value)); /* a UNIX socket has none of these */
}

/* Accepted sockets inherit them: no system call per connection. */
static void set_options(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 60000);
}

static uint32_t raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 1024;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        (void) getrlimit(RLIMIT_NOFILE, &limit); /* it worked a moment ago */
    return limit.rlim_cur > 1 << 20 ? 1 << 20 : (uint32_t) limit.rlim_cur;
}

static void set_limits(csn_listener *l)
{
    const csn_config *config = &l->server->config;
    uint32_t n = raise_descriptors();
    uint32_t max = n > 2 * DESCRIPTORS_KEPT ? n - DESCRIPTORS_KEPT : n / 2;

    l->max_open =
        config->max_connections && config->max_connections < max ? config->max_connections : max;
    l->max_per_address = config->max_connections_per_address;
    if (l->max_per_address == 0) /* nobody alone shuts out the rest; behind a proxy all are one */
        l->max_per_address = config->is_proxy_trusted ? l->max_open : l->max_open - l->max_open / 4;
    l->limits = default_limits;
}

static int open_parts(csn_listener *l)
{
    csn_loop *loop = l->server->loop;

    l->spare_fd = eventfd(0, EFD_CLOEXEC);
    l->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->spare_fd < 0 || l->kick_fd < 0)
        return -errno;
    int r = csn_random(&l->id_base, sizeof(l->id_base));
    if (r == 0)
        r = csn_fd_nonblock(l->fd, true);
    if (r == 0)
        r = csn_loop_add(loop, l->kick_fd, EPOLLIN, on_kick, l, &l->kick_src);
    return r == 0 ? csn_loop_add(loop, l->fd, EPOLLIN, on_accept, l, &l->src) : r;
}

int csn_listener_new(csn_server *server, int fd, csn_listener **ret_listener, csn_error *err)
{
    csn_listener *l = csn_calloc(1, sizeof(*l));
    int r = csn_router_open(err);

    if (!l || r < 0) {
        free(l);
        csn_close(&fd);
        return r < 0 ? r : csn_fail_sys(err, -ENOMEM, "listen");
    }
    l->server = server;
    l->fd = fd;
    l->spare_fd = l->kick_fd = -1;
    csn_list_init(&l->conns);
    csn_list_init(&l->kicked);
    for (int i = 0; i < CSN_DUE_COUNT; i++)
        csn_list_init(&l->due[i]);
    set_options(fd);
    set_limits(l);
    (void) signal(SIGPIPE, SIG_IGN); /* sendfile() has no MSG_NOSIGNAL */
    if (gethostname(l->host_name, sizeof(l->host_name) - 1) < 0)
        l->host_name[0] = '\0';
    r = open_parts(l);
    if (r < 0) {
        csn_listener_free(l);
        return csn_fail_sys(err, r, "listen");
    }
    server->listener = *ret_listener = l;
    return CSN_OK;
}

csn_listener *csn_listener_free(csn_listener *l)
{
    if (!l)
        return NULL;
    l->is_stopping = true;
    cut_all(l);
    csn_timer_cancel(&l->tick);
    l->src = csn_source_remove(l->src);
    l->kick_src = csn_source_remove(l->kick_src);
    csn_close(&l->fd);
    csn_close(&l->kick_fd);
    csn_close(&l->spare_fd);
    if (l->server->listener == l)
        l->server->listener = NULL;
    free(l);
    return NULL;
}

void csn_listener_stop(csn_listener *l, void (*done)(void *user), void *user)
{
    uint64_t one = 1;

    l->on_stopped = done;
    l->on_stopped_user = user;
    l->stop_ns = csn_deadline_in_ms(STOP_MS);
    l->is_stopping = true;
    l->server->is_stopping = true;
    l->src = csn_source_remove(l->src);
    csn_close(&l->fd);
    csn_list_foreach (node, &l->conns)
        csn_http_conn_kick(csn_list_entry(node, csn_http_conn, link));
    (void) csn_write(l->kick_fd, &one, sizeof(one)); /* also when there is no connection */
    set_tick(l);
}

void csn_listener_on_request(csn_listener *l, csn_listener_seen_fn *fn, void *user)
{
    l->on_request = fn;
    l->on_request_user = user;
}

void csn_listener_sift(csn_listener *l, csn_listener_fine_fn *is_fine, void *user)
{
    csn_list_foreach (node, &l->conns) {
        csn_http_conn *conn = csn_list_entry(node, csn_http_conn, link);
        const csn_req *req = conn->ws ? csn_ws_req(conn->ws) : conn->req;
        if (req && req->caller.key_id[0] && !is_fine(&req->caller, user))
            csn_http_conn_revoke(conn);
    }
}

csn_listener_stats csn_listener_get_stats(const csn_listener *l)
{
    return l->stats;
}
