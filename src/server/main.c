/* SPDX-License-Identifier: Apache-2.0 */
/* caisson-serve: the half of the server that reads what the network sends.
 *
 * Theory of operation. The warden starts us with one end of a socket pair (3), the listening socket (4) and a lock (5).
 * Its current directory is our own. We give up what we can (confine.c), open the store, compare it with what the engine says, and only then accept
 * connections. One thread, one loop; the library's guest engine is nested in it. The warden gone: we end at once. Told to
 * quit: no new connections, waiting requests get 503, sockets a close frame, 5 s at most. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "core/engine_loop.h"
#include "server/audit.h"
#include "server/auth.h"
#include "server/boxes.h"
#include "server/bury.h"
#include "server/confine.h"
#include "server/events.h"
#include "server/fds.h"
#include "server/first.h"
#include "server/keycmd.h"
#include "server/listen.h"
#include "server/machine.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/orgcmd.h"
#include "server/revoke.h"
#include "server/routes_json.h"
#include "server/session_keep.h"
#include "server/toolbox.h"
#include "server/warden.h"
#include "store/store.h"

enum { WARDEN_FD = 3, LISTEN_FD = 4 };

/* `caisson key` writes to the same file. Meanwhile all else stands still here: rather this one is told to come again. */
enum { STORE_WAIT_MS = 200 };

enum { DRAIN_MS = 3000, DRAIN_LOOK_MS = 5 };

/* The parts, and what main itself has to remember. */
typedef struct front {
    csn_server server;
    csn_first first;
    bool is_key_configured, is_debug, is_landlock_optional;
    int listen_fd;
    csn_timer drain_timer;
    int64_t drain_deadline_ns;
} front;

static int say(const csn_error *err)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    csn_buf_printf(&line, "caisson: %s\n", err->message);
    (void) csn_write_all(2, line.data, line.len); /* nowhere else to say it */
    return 1;
}

static void on_lost(void *user)
{
    (void) user;
    _exit(1); /* nothing can be done without it, and what was acknowledged is on disk */
}

/* Nobody waits for an answer any more. A ready sandbox being made right now would be nobody's: it is waited for, and
 * deleted. */
static void look_drained(csn_timer *timer, void *user)
{
    front *f = user;

    (void) timer;
    if (!f->server.boxes || !csn_boxes_is_making(f->server.boxes) ||
        csn_deadline_passed(f->drain_deadline_ns) ||
        csn_timer_set(f->server.loop, &f->drain_timer, csn_deadline_in_ms(DRAIN_LOOK_MS),
                      look_drained, f) < 0)
        csn_loop_stop(f->server.loop, 0);
}

static void on_drained(void *user)
{
    front *f = user;

    f->drain_deadline_ns = csn_deadline_in_ms(DRAIN_MS);
    look_drained(&f->drain_timer, f);
}

static void on_quit(void *user)
{
    front *f = user;

    if (f->server.is_stopping)
        return;
    f->server.is_stopping = true;
    csn_log(CSN_LOG_INFO, "ending", NULL);
    if (f->server.boxes)
        csn_boxes_stop(f->server.boxes);
    if (f->server.listener)
        csn_listener_stop(f->server.listener, on_drained, f);
    else
        on_drained(f);
}

static void on_ready(int result, const csn_error *err, void *user)
{
    (void) user;
    if (result < 0)
        csn_log(CSN_LOG_WARN, "the warden did not hear that we are ready", "error",
                err ? err->message : csn_error_name(result), NULL);
}

static void on_request(const csn_req *req, int status, void *user)
{
    const front *f = user;
    char number[16], age[32];

    csn_metrics_request(req, status, NULL);
    if (!f->is_debug)
        return;
    (void) snprintf(number, sizeof(number), "%d", status);
    (void) snprintf(age, sizeof(age), "%.3f", (double) csn_req_age_ns(req) / 1e6);
    csn_log(CSN_LOG_DEBUG, "request", "request", csn_req_id(req), "peer", csn_req_peer(req), "org",
            csn_req_caller(req)->org_id, "path", csn_req_path(req), "status", number, "ms", age,
            NULL);
}

/* The engine and the store agree: from here on requests are answered. */
static void on_reconciled(int result, const csn_error *err, void *user)
{
    front *f = user;
    csn_error why = { 0 };

    if (result < 0) {
        why = *err;
        (void) csn_fail_in(&why, result, "compare the database with the engine");
    } else if (!f->server.is_stopping) {
        result = csn_listener_new(&f->server, f->listen_fd, &f->server.listener, &why);
        f->listen_fd = -1;
        if (result == CSN_OK)
            csn_listener_on_request(f->server.listener, on_request, f);
        csn_machine_tell(&f->server);
        csn_fds_tell();
        csn_revoke_start(&f->server);
        csn_keep_restore_all(csn_toolbox_keep(f->server.toolbox));
        csn_store_set_patience(f->server.store, STORE_WAIT_MS);
    }
    if (result < 0) {
        (void) say(&why);
        csn_loop_stop(f->server.loop, 1);
        return;
    }
    if (csn_warden_ready(f->server.warden, on_ready, f) < 0)
        on_lost(f);
    (void) csn_first_print(&f->first, f->is_key_configured, f->server.config.data_dir,
                           f->server.config.walls_missing); /* stdout may be closed */
    memset(f->first.key, 0, sizeof(f->first.key));
}

static int open_store(const csn_config *config, csn_store **ret, csn_error *err)
{
    int r = csn_store_open(CSN_DATA_HERE "/caisson.db", ret, err);

    return r < 0 ? csn_fail_in(err, r, "in '%.128s'", config->data_dir) : CSN_OK;
}

static int open_line(front *f, csn_error *err)
{
    csn_engine_options eo = { .size = sizeof(eo), .is_guest = 1 };
    int r = csn_engine_open(&eo, &f->server.engine, err);

    if (r < 0)
        return r;
    f->server.loop = csn_engine_loop(f->server.engine);
    r = csn_warden_open(f->server.loop, WARDEN_FD, on_lost, f, &f->server.warden);
    if (r < 0)
        return csn_fail(err, r, "descriptor 3 is no line to a warden");
    csn_warden_on_quit(f->server.warden, on_quit);
    return CSN_OK;
}

static int set_up(front *f, const char *key, csn_error *err)
{
    int r = csn_first_look(f->listen_fd, f->server.config.public_url, &f->first, err);

    csn_machine_read(&f->server.config);
    if (r == CSN_OK)
        r = csn_front_confine(CSN_DATA_HERE, f->is_landlock_optional, err);
    if (r == CSN_OK)
        r = open_store(&f->server.config, &f->server.store, err);
    if (r == CSN_OK)
        r = csn_first_keys(f->server.store, key, &f->first, err);
    f->is_key_configured = key != NULL;
    if (r == CSN_OK)
        r = open_line(f, err);
    if (r == CSN_OK)
        r = csn_audit_open(CSN_DATA_HERE, err);
    if (r == CSN_OK)
        r = csn_events_new(&f->server, &f->server.events, err);
    if (r == CSN_OK)
        r = csn_boxes_new(&f->server, &f->server.boxes, err);
    if (r == CSN_OK)
        r = csn_toolbox_new(&f->server, &f->server.toolbox, err);
    if (r == CSN_OK)
        csn_boxes_reconcile(f->server.boxes, on_reconciled, f);
    return r;
}

static void tear_down(front *f)
{
    csn_revoke_stop();
    f->server.listener = csn_listener_free(f->server.listener);
    f->server.warden = csn_warden_free(f->server.warden); /* ends asks, which cells wait for */
    csn_bury_done();
    f->server.events = csn_events_free(f->server.events);
    f->server.toolbox = csn_toolbox_free(f->server.toolbox);
    f->server.boxes = csn_boxes_free(f->server.boxes);
    f->server.events = csn_events_free(f->server.events);
    csn_audit_close();
    f->server.loop = NULL; /* the engine's */
    f->server.engine = csn_engine_free(f->server.engine);
    f->server.store = csn_store_free(f->server.store);
    csn_audit_close();
    csn_close(&f->listen_fd);
}

static int serve(const csn_serve_options *o)
{
    front f = { .server.config = o->config,
                .listen_fd = LISTEN_FD,
                .is_debug = o->is_debug,
                .is_landlock_optional = o->is_landlock_optional };
    char *key = getenv("CAISSON_API_KEY");
    csn_error err = { 0 };
    int status;

    (void) prctl(PR_SET_NAME, "caisson-serve"); /* for ps */
    status = set_up(&f, key && *key ? key : NULL, &err) < 0 ? say(&err) : 0;
    if (key)
        memset(key, 0, strlen(key)); /* the store has its hash */
    if (status == 0)
        status = csn_loop_run(f.server.loop);
    tear_down(&f);
    return status < 0 ? 1 : status;
}

static int run_errand(const csn_serve_options *o)
{
    csn_auto(store) csn_store *store = NULL;
    csn_error err = { 0 };
    /* no foreign byte is read here: not having it is no reason to revoke no key */
    int r = csn_front_confine(CSN_DATA_HERE, true, &err);

    if (r == CSN_OK)
        r = open_store(&o->config, &store, &err);
    if (r == CSN_OK)
        r = o->mode == CSN_MODE_ORG ? csn_orgcmd_run(store, o->rest, &err)
                                    : csn_keycmd_run(store, o->rest, &err);
    if (r == CSN_OK)
        return 0;
    if (!csn_starts_with(err.message, CSN_KEYCMD_UNWRITTEN))
        return say(&err);
    if (err.sys_errno != EPIPE) /* a reader who went away had enough */
        (void) say(&err);
    return err.sys_errno == EPIPE ? 128 + SIGPIPE : 125; /* as all commands of caisson */
}

int main(int argc, char **argv)
{
    csn_serve_options o;
    csn_error err = { 0 };

    (void) signal(SIGXFSZ, SIG_IGN); /* EFBIG says it */
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGINT, SIG_IGN); /* these the warden gets too, and tells us */
    (void) signal(SIGTERM, SIG_IGN);
    (void) signal(SIGHUP, SIG_IGN);
    (void) umask(077);
    if (csn_serve_options_read(argc, argv, &o, &err) < 0) {
        (void) say(&err);
        return 2;
    }
    if (o.is_debug)
        csn_log_set_level(CSN_LOG_DEBUG);
    switch (o.mode) {
    case CSN_MODE_ROUTES:
        return csn_routes_print() < 0 ? 1 : 0;
    case CSN_MODE_KEY:
    case CSN_MODE_ORG:
        return run_errand(&o);
    case CSN_MODE_SERVE:
        break;
    }
    return serve(&o);
}
