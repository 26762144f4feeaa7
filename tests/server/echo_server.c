/* SPDX-License-Identifier: Apache-2.0 */
/* The transport with routes of its own, for test_http.py: no store, no sandboxes.
 *
 *   echo-server [--fast] [--max N] [--per-address N] [--public-url URL] [--trust-proxy]
 *
 * Prints "PORT N" and serves until SIGTERM (graceful) or the end of stdin. --fast shortens every deadline and lets 2 MB of whole bodies in. Lines "gone NAME",
 * "done STATUS PATH" and "closed CODE" on stdout say what handlers saw. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "server/auth.h"
#include "server/http_conn.h"
#include "server/multipart.h"
#include "server/route.h"
#include "server/ws.h"

static csn_server server;
static csn_req *parked; /* a request that waits for /release */

static void say(const char *word, const char *what)
{
    printf("%s %s\n", word, what);
    fflush(stdout);
}

static int64_t number(const char *text, int64_t otherwise)
{
    int64_t n;

    return text && csn_parse_i64(csn_str_of(text), &n) == 0 ? n : otherwise;
}

/* ---- auth: "Authorization: Bearer no" is refused, "later" is accepted after 20 ms, "never" never -------------------------------- */

static struct {
    csn_timer timer;
    csn_req *req;
    void (*go)(csn_req *req);
} later;

static void on_later(csn_timer *timer, void *user)
{
    csn_req *req = later.req;

    (void) timer;
    (void) user;
    later.req = NULL;
    if (req)
        later.go(req);
}

static void on_auth_gone(csn_req *req, void *user)
{
    (void) req;
    (void) user;
    later.req = NULL;
    csn_timer_cancel(&later.timer);
    say("gone", "auth");
}

void csn_auth_check(csn_req *req, void (*go)(csn_req *req))
{
    const char *key = csn_req_header(req, "Authorization");

    if (key && strcmp(key, "Bearer no") == 0) {
        csn_req_error(req, 401, NULL, "Invalid credentials");
    } else if (key && strcmp(key, "Bearer later") == 0) {
        later.req = req;
        later.go = go;
        csn_req_keep(req, on_auth_gone, NULL);
        csn_timer_set(server.loop, &later.timer, csn_deadline_in_ms(20), on_later, NULL);
    } else if (key && strcmp(key, "Bearer never") == 0) {
        csn_req_keep(req, on_auth_gone, NULL);
    } else {
        go(req);
    }
}

/* ---- handlers ---------------------------------------------------------------------------------------------------- */

static void on_gone(csn_req *req, void *user)
{
    (void) req;
    if (parked == req)
        parked = NULL;
    say("gone", user);
}

static void handle_echo(csn_req *req)
{
    csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_str body = csn_req_body(req);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "path", csn_req_path(req));
    csn_jw_kstr(&w, "param", csn_req_param(req, 0));
    csn_jw_kstr(&w, "param1", csn_req_param(req, 1));
    csn_jw_kstr(&w, "q", csn_req_query(req, "q"));
    csn_jw_kstr(&w, "q1", csn_req_query_at(req, "q", 1));
    csn_jw_kstr(&w, "pattern", csn_req_route(req)->pattern);
    csn_jw_kstr(&w, "box", csn_req_box_name(req));
    csn_jw_kstr(&w, "origin", csn_req_origin(req));
    csn_jw_kstr(&w, "peer", csn_req_peer(req));
    csn_jw_key(&w, "body");
    csn_jw_string(&w, body.data, body.len);
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &out);
}

static void handle_json(csn_req *req)
{
    csn_buf out = CSN_BUF_INIT;
    const csn_json *body = csn_req_json_body(req);

    if (!body)
        return;
    csn_json_dump(body, false, &out);
    csn_req_json(req, 200, &out);
}

static void handle_status(csn_req *req)
{
    int status = (int) number(csn_req_param(req, 0), 500);

    if (csn_req_query(req, "header"))
        csn_req_add_header(req, "X-Test", csn_req_query(req, "header"));
    csn_req_empty(req, status);
}

static void handle_park(csn_req *req)
{
    if (parked) {
        csn_req_error(req, 409, NULL, "one is parked");
        return;
    }
    parked = req;
    static char name[] = "park";

    csn_req_keep(req, on_gone, name);
    say("parked", csn_req_path(req));
}

static void handle_release(csn_req *req)
{
    csn_buf body = CSN_BUF_INIT;

    if (parked) {
        csn_buf_puts(&body, "{\"released\":true}");
        csn_req *was = parked;
        parked = NULL;
        csn_req_json(was, 200, &body);
    }
    csn_req_empty(req, 204);
}

/* Streams `bytes` zeros in pieces, as the client takes them; bytes=-1: until it leaves. */
typedef struct stream {
    int64_t left;
} stream;

static void on_stream_gone(csn_req *req, void *user)
{
    (void) req;
    free(user);
    say("gone", "stream");
}

static void stream_on(csn_req *req, void *user)
{
    static const char zeros[16 << 10];
    stream *s = user;
    bool is_on = true;

    while (is_on && s->left > 0) {
        size_t n = s->left < (int64_t) sizeof(zeros) ? (size_t) s->left : sizeof(zeros);
        s->left -= (int64_t) n;
        is_on = csn_req_write(req, zeros, n);
    }
    if (s->left > 0)
        return;
    csn_req_keep(req, NULL, NULL);
    free(s);
    csn_req_end(req);
}

static void handle_stream(csn_req *req)
{
    const char *bytes = csn_req_query(req, "bytes");
    stream *s = csn_xalloc(1, sizeof(*s));

    s->left = number(bytes, 100);
    csn_req_keep(req, on_stream_gone, s);
    csn_req_on_drain(req, stream_on, s);
    csn_req_begin(req, 200, "application/octet-stream",
                  csn_req_query(req, "length") ? s->left : -1);
    stream_on(req, s);
}

/* One line at once, then silence. */
static void handle_follow(csn_req *req)
{
    static char name[] = "follow";

    csn_req_keep(req, on_gone, name);
    csn_req_begin(req, 200, "text/plain", -1);
    csn_req_write(req, "first\n", 6);
}

static void handle_file(csn_req *req)
{
    int fd = open(csn_req_query(req, "path"), O_RDONLY | O_CLOEXEC);
    const char *claim = csn_req_query(req, "claim");
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        csn_req_error(req, 404, "FILE_NOT_FOUND", "no such file");
        csn_close(&fd);
        return;
    }
    int64_t size = number(claim, st.st_size);
    csn_req_begin(req, 200, "application/octet-stream", csn_req_query(req, "chunked") ? -1 : size);
    csn_req_write_fd(req, fd, 0, size);
    csn_req_end(req);
}

/* Counts a body; ?path=: also writes it there; ?pause=1: takes a piece, waits 1 ms, takes the next. */
typedef struct sink {
    csn_req *req;
    csn_timer timer;
    int64_t n;
    uint32_t sum;
    int fd;
    bool is_pausing;
} sink;

static void end_sink(sink *s)
{
    csn_timer_cancel(&s->timer);
    csn_close(&s->fd);
    free(s);
}

static void on_sink_gone(csn_req *req, void *user)
{
    (void) req;
    end_sink(user);
    say("gone", "sink");
}

static void on_sink_timer(csn_timer *timer, void *user)
{
    sink *s = user;

    (void) timer;
    csn_req_body_resume(s->req);
}

static bool sink_data(csn_req *req, const char *data, size_t len, void *user)
{
    sink *s = user;
    csn_buf out = CSN_BUF_INIT;

    if (len == 0) {
        csn_buf_printf(&out, "{\"bytes\":%lld,\"sum\":%u}", (long long) s->n, s->sum);
        end_sink(s);
        csn_req_json(req, 200, &out);
        return true;
    }
    s->n += (int64_t) len;
    for (size_t i = 0; s->fd < 0 && i < len; i++)
        s->sum = s->sum * 31 + (unsigned char) data[i];
    if (s->fd >= 0)
        (void) csn_write_all(s->fd, data, len);
    if (!s->is_pausing)
        return true;
    csn_timer_set(server.loop, &s->timer, csn_deadline_in_ms(1), on_sink_timer, s);
    return false;
}

static void handle_sink(csn_req *req)
{
    const char *path = csn_req_query(req, "path");
    sink *s = csn_xalloc(1, sizeof(*s));

    s->req = req;
    s->fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    s->is_pausing = csn_req_query(req, "pause") != NULL;
    csn_req_keep(req, on_sink_gone, s);
    csn_req_body_start(req, sink_data, s);
}

/* Answers a streamed upload before its body. */
static void handle_early(csn_req *req)
{
    csn_req_error(req, 413, NULL, "too much");
}

/* Multipart in, multipart out: the same parts. */
typedef struct mirror {
    csn_multipart *m;
    csn_buf out;
    char boundary[CSN_BOUNDARY_SIZE];
    bool has_part;
} mirror;

static int mirror_part(const csn_part *part, void *user)
{
    mirror *m = user;

    csn_multipart_put_head(&m->out, m->boundary, !m->has_part, part->name,
                           part->filename ? part->filename : "", "text/plain", -1);
    m->has_part = true;
    return 0;
}

static int mirror_data(const csn_part *part, const char *data, size_t len, void *user)
{
    (void) part;
    return csn_buf_append(&((mirror *) user)->out, data, len);
}

static int mirror_end(const csn_part *part, void *user)
{
    (void) part;
    (void) user;
    return 0;
}

static void end_mirror(mirror *m)
{
    csn_multipart_free(m->m);
    csn_buf_free(&m->out);
    free(m);
}

static void on_mirror_gone(csn_req *req, void *user)
{
    (void) req;
    end_mirror(user);
    say("gone", "mirror");
}

static bool mirror_body(csn_req *req, const char *data, size_t len, void *user)
{
    mirror *m = user;
    char type[128];
    int r = len > 0 ? csn_multipart_feed(m->m, data, len) : csn_multipart_finish(m->m);

    if (r == 0 && len > 0)
        return true;
    if (r < 0) {
        end_mirror(m);
        csn_req_error(req, 400, NULL, "bad multipart");
        return true;
    }
    csn_multipart_put_end(&m->out, m->boundary, !m->has_part);
    snprintf(type, sizeof(type), "multipart/form-data; boundary=%s", m->boundary);
    csn_req_text(req, 200, type, m->out.data, m->out.len);
    end_mirror(m);
    return true;
}

static void handle_mirror(csn_req *req)
{
    static const csn_multipart_events events = { mirror_part, mirror_data, mirror_end };
    mirror *m = calloc(1, sizeof(*m));
    const char *type = csn_req_header(req, "Content-Type");

    m->out = (csn_buf) CSN_BUF_INIT;
    csn_multipart_boundary(m->boundary);
    if (csn_multipart_new(type ? type : "", &events, m, &m->m) < 0) {
        end_mirror(m);
        csn_req_error(req, 400, NULL, "not multipart");
        return;
    }
    csn_req_keep(req, on_mirror_gone, m);
    csn_req_body_start(req, mirror_body, m);
}

static void ws_message(csn_ws *ws, bool is_text, const char *data, size_t len, void *user)
{
    (void) user;
    if (is_text && len == 5 && memcmp(data, "close", 5) == 0)
        csn_ws_close(ws, 4008, "as asked");
    else if (is_text && len == 5 && memcmp(data, "flood", 5) == 0)
        while (csn_ws_send(ws, false, server.listener->read_buf, 16 << 10))
            ;
    else
        csn_ws_send(ws, is_text, data, len);
}

static void ws_drain(csn_ws *ws, void *user)
{
    (void) user;
    csn_ws_send(ws, true, "drained", 7);
}

static void ws_closed(csn_ws *ws, int code, void *user)
{
    char text[16];

    (void) ws;
    (void) user;
    snprintf(text, sizeof(text), "%d", code);
    say("closed", text);
}

static void handle_ws(csn_req *req)
{
    static const csn_ws_events events = { ws_message, ws_drain, ws_closed };

    csn_ws *ws = csn_req_upgrade(req, csn_req_query(req, "proto"), &events, NULL);
    if (ws && csn_req_query(req, "max")) /* the request lives as long as its socket */
        csn_ws_set_max(ws, 100);
}

static void handle_forget(csn_req *req)
{
    (void) req;
}

static void handle_abort(csn_req *req)
{
    csn_req_begin(req, 200, "text/plain", -1);
    csn_req_write(req, "half", 4);
    csn_req_abort(req);
}

static void handle_stats(csn_req *req)
{
    csn_listener_stats s = csn_listener_get_stats(server.listener);
    csn_buf out = CSN_BUF_INIT;

    csn_buf_printf(&out, "{\"open\":%u,\"waiting\":%u,\"sockets\":%u,\"pid\":%d}", s.n_open,
                   s.n_waiting, s.n_sockets, (int) getpid());
    csn_req_json(req, 200, &out);
}

#define API(method, pattern, body, max, handle) \
    { \
        CSN_PLANE_API, method, pattern, CSN_SCOPE_PUBLIC, body, max, 0, handle \
    }

static const csn_route routes[] = {
    API(CSN_GET, "/echo", CSN_BODY_NONE, 0, handle_echo),
    API(CSN_POST, "/echo", CSN_BODY_WHOLE, 1 << 20, handle_echo),
    API(CSN_POST, "/none", CSN_BODY_NONE, 0, handle_echo),
    API(CSN_GET, "/item/{}", CSN_BODY_NONE, 0, handle_echo),
    API(CSN_GET, "/item/literal", CSN_BODY_NONE, 0, handle_echo),
    API(CSN_GET, "/item/{}/of/{}", CSN_BODY_NONE, 0, handle_echo),
    API(CSN_POST, "/json", CSN_BODY_WHOLE, 0, handle_json),
    API(CSN_GET, "/status/{}", CSN_BODY_NONE, 0, handle_status),
    API(CSN_GET, "/park", CSN_BODY_NONE, 0, handle_park),
    API(CSN_POST, "/park", CSN_BODY_WHOLE, 0, handle_park),
    API(CSN_GET, "/release", CSN_BODY_NONE, 0, handle_release),
    API(CSN_GET, "/stream", CSN_BODY_NONE, 0, handle_stream),
    API(CSN_GET, "/follow", CSN_BODY_NONE, 0, handle_follow),
    API(CSN_GET, "/file", CSN_BODY_NONE, 0, handle_file),
    API(CSN_POST, "/sink", CSN_BODY_STREAM, 0, handle_sink),
    API(CSN_POST, "/early", CSN_BODY_STREAM, 0, handle_early),
    API(CSN_POST, "/mirror", CSN_BODY_STREAM, 0, handle_mirror),
    API(CSN_GET, "/ws", CSN_BODY_NONE, 0, handle_ws),
    API(CSN_GET, "/forget", CSN_BODY_NONE, 0, handle_forget),
    API(CSN_GET, "/abort", CSN_BODY_NONE, 0, handle_abort),
    API(CSN_GET, "/stats", CSN_BODY_NONE, 0, handle_stats),
    { CSN_PLANE_ROOT, CSN_GET, "/metrics", CSN_SCOPE_PUBLIC, CSN_BODY_NONE, 0, 0, handle_echo },
    { CSN_PLANE_TOOLBOX, CSN_GET, "/process/{}", CSN_SCOPE_BOX, CSN_BODY_NONE, 0, 0, handle_echo },
};
static const csn_route_table table = CSN_ROUTE_TABLE(routes);
const csn_route_table *const csn_route_tables[] = { &table, NULL };

/* ---- main -------------------------------------------------------------------------------------------------------- */

static void on_request(const csn_req *req, int status, void *user)
{
    (void) user;
    if (csn_req_route(req) && strcmp(csn_req_route(req)->pattern, "/forget") == 0)
        printf("done %d %s\n", status, csn_req_path(req));
    fflush(stdout);
}

static void on_stopped(void *user)
{
    (void) user;
    csn_loop_stop(server.loop, 0);
}

static void on_signal(csn_source *src, uint32_t events, void *user)
{
    struct signalfd_siginfo info;

    (void) events;
    (void) user;
    (void) csn_read(csn_source_fd(src), &info, sizeof(info)); /* which one does not matter */
    csn_listener_stop(server.listener, on_stopped, NULL);
}

static int listen_somewhere(void)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *) &addr, sizeof(addr)) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *) &addr, &len) < 0)
        exit(2);
    printf("PORT %d\n", ntohs(addr.sin_port));
    fflush(stdout);
    return fd;
}

static void make_fast(csn_listener *l)
{
    l->limits.due_ns[CSN_DUE_IDLE] = 1500 * CSN_NS_PER_MS;
    l->limits.due_ns[CSN_DUE_HEAD] = 1000 * CSN_NS_PER_MS;
    l->limits.due_ns[CSN_DUE_BODY] = 1000 * CSN_NS_PER_MS;
    l->limits.due_ns[CSN_DUE_SEND] = 1500 * CSN_NS_PER_MS;
    l->limits.due_ns[CSN_DUE_CLOSE] = 1000 * CSN_NS_PER_MS;
    l->limits.whole_max = 2 << 20;
}

int main(int argc, char **argv)
{
    csn_error err = { 0 };
    bool is_fast = false;
    sigset_t set;

    server.config.listen = "127.0.0.1";
    for (int i = 1; i < argc; i++) {
        is_fast = is_fast || strcmp(argv[i], "--fast") == 0;
        server.config.is_proxy_trusted |= strcmp(argv[i], "--trust-proxy") == 0;
        if (i + 1 < argc && strcmp(argv[i], "--max") == 0)
            server.config.max_connections = (uint32_t) number(argv[i + 1], 0);
        if (i + 1 < argc && strcmp(argv[i], "--per-address") == 0)
            server.config.max_connections_per_address = (uint32_t) number(argv[i + 1], 0);
        if (i + 1 < argc && strcmp(argv[i], "--public-url") == 0)
            server.config.public_url = argv[i + 1];
    }
    csn_log_set_level(CSN_LOG_ERROR);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (csn_loop_new(&server.loop) < 0)
        return 2;
    int sig_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    csn_source *sig = NULL;
    if (csn_listener_new(&server, listen_somewhere(), &server.listener, &err) < 0 ||
        csn_loop_add(server.loop, sig_fd, EPOLLIN, on_signal, NULL, &sig) < 0) {
        fprintf(stderr, "echo-server: %s\n", err.message);
        return 2;
    }
    if (is_fast)
        make_fast(server.listener);
    csn_listener_on_request(server.listener, on_request, NULL);
    int r = csn_loop_run(server.loop);
    csn_listener_free(server.listener);
    csn_source_remove(sig);
    csn_close(&sig_fd);
    csn_loop_free(server.loop);
    return r;
}
