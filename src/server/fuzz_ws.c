/* SPDX-License-Identifier: Apache-2.0 */
/* The whole transport over a socket pair. First byte even: a WebSocket is opened, and the rest are its frames; odd: the
 * rest are the connection's bytes. Whatever they are, the connection ends when the peer does. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "server/auth.h"
#include "server/http_conn.h"
#include "server/route.h"
#include "server/ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static csn_server server;

void csn_auth_check(csn_req *req, void (*go)(csn_req *req))
{
    go(req);
}

static void ws_message(csn_ws *ws, bool is_text, const char *data, size_t len, void *user)
{
    (void) user;
    if (len == 3)
        csn_ws_close(ws, 1000, "three");
    else
        csn_ws_send(ws, is_text, data, len);
}

static void ws_closed(csn_ws *ws, int code, void *user)
{
    (void) ws;
    (void) user;
    if (code < 1000 && code != 0)
        abort();
}

static void handle_ws(csn_req *req)
{
    static const csn_ws_events events = { ws_message, NULL, ws_closed };

    (void) csn_req_upgrade(req, NULL, &events, NULL);
}

static void handle_echo(csn_req *req)
{
    csn_str body = csn_req_body(req);

    csn_req_text(req, 200, "text/plain", body.data, body.len);
}

static bool on_body(csn_req *req, const char *data, size_t len, void *user)
{
    (void) data;
    (void) user;
    if (len == 0)
        csn_req_empty(req, 204);
    return true;
}

static void handle_stream(csn_req *req)
{
    csn_req_body_start(req, on_body, NULL);
}

static const csn_route routes[] = {
    { CSN_PLANE_API, CSN_GET, "/ws", CSN_SCOPE_PUBLIC, CSN_BODY_NONE, 0, CSN_ROUTE_WS, handle_ws },
    { CSN_PLANE_API, CSN_POST, "/e", CSN_SCOPE_PUBLIC, CSN_BODY_WHOLE, 100, 0, handle_echo },
    { CSN_PLANE_API, CSN_POST, "/s", CSN_SCOPE_PUBLIC, CSN_BODY_STREAM, 0, 0, handle_stream },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/e/{}", CSN_SCOPE_BOX, CSN_BODY_NONE, 0, 0, handle_echo },
};
static const csn_route_table table = CSN_ROUTE_TABLE(routes);
const csn_route_table *const csn_route_tables[] = { &table, NULL };

static void open_server(void)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX }; /* without a name the kernel finds one */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    csn_error err;

    csn_log_set_level(CSN_LOG_ERROR);
    if (csn_loop_new(&server.loop) < 0 || bind(fd, (void *) &addr, sizeof(sa_family_t)) < 0 ||
        listen(fd, 1) < 0 || csn_listener_new(&server, fd, &server.listener, &err) < 0)
        abort();
}

static void put(int fd, const void *data, size_t len)
{
    (void) send(fd, data, len, MSG_NOSIGNAL); /* it may have been closed */
}

static void drop_answers(int fd)
{
    char answer[4096];

    while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hello[] = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    struct sockaddr_storage none = { 0 };
    csn_peer_addr peer = csn_peer_addr_of(&none);
    int ends[2];

    if (size < 1 || size > 64 << 10)
        return 0;
    if (!server.loop)
        open_server();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        abort();
    if (csn_peers_enter(&server.listener->peers, &peer) < 0 ||
        !csn_http_conn_new(server.listener, ends[0], &peer))
        abort();
    if (data[0] % 2 == 0)
        put(ends[1], hello, sizeof(hello) - 1);
    put(ends[1], data + 1, size - 1);
    for (int i = 0; i < 4 && server.listener->stats.n_open > 0; i++) {
        csn_loop_run_once(server.loop, 0);
        drop_answers(ends[1]);
    }
    csn_close(&ends[1]);
    int64_t deadline = csn_deadline_in_ms(5000);
    while (server.listener->stats.n_open > 0) {
        csn_loop_run_once(server.loop, deadline);
        if (csn_deadline_passed(deadline))
            abort();
    }
    if (server.listener->stats.n_waiting != 0 || server.listener->stats.n_sockets != 0)
        abort();
    return 0;
}
