/* SPDX-License-Identifier: Apache-2.0 */
/* The server beside the library and bubblewrap, in one interleaved run, with one client and with sixteen at once. Each
 * client has a kept connection, an engine and a live sandbox of its own. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <caisson.h>

#include "bench.h"
#include "http.h"
#include "serve.h"

enum { N_MAX = 16 };

typedef struct client {
    bench_http http, net; /* the second server is as it is by default: its sandboxes have a network */
    csn_engine *engine;
    csn_sandbox *live;     /* the library's */
    char live_id[64];      /* the server's */
    unsigned n_made;
    int number;
} client;

static client clients[N_MAX];

static const char *const echo_hi[] = { "/bin/echo", "hi", NULL };
static const char *const shell_true[] = { "/bin/bash", "-c", "/bin/true", NULL };
static const char *const bare_true[] = { "/bin/true", NULL };
static const char *const bwrap_hi[] = {
    "bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--hostname", "caisson", "--ro-bind", "/usr",
    "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc",
    "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/daytona", "--chdir", "/home/daytona", "--clearenv", "--die-with-parent",
    "--new-session", "--cap-drop", "ALL", "/bin/echo", "hi", NULL };

/* --- over HTTP --------------------------------------------------------------------------------------------------- */

static int made_id(bench_http *h, char *id, size_t size)
{
    const char *at = strstr(h->body, "\"id\":\"");
    if (!at || size < 37)
        return -1;
    memcpy(id, at + 6, 36);
    id[36] = '\0';
    return 0;
}

static int http_create(bench_http *h, char *id, size_t size)
{
    return bench_http_ask(h, "POST", "/api/sandbox", "{}") == 200 ? made_id(h, id, size) : -1;
}

static int http_exec(bench_http *h, const char *id, const char *command)
{
    char path[128], body[256];
    snprintf(path, sizeof(path), "/toolbox/%s/process/execute", id);
    snprintf(body, sizeof(body), "{\"command\":\"%s\"}", command);
    if (bench_http_ask(h, "POST", path, body) != 200)
        return -1;
    return strstr(h->body, "\"exitCode\":0") ? 0 : -1;
}

static int http_delete(bench_http *h, const char *id)
{
    char path[128];
    snprintf(path, sizeof(path), "/api/sandbox/%s", id);
    return bench_http_ask(h, "DELETE", path, NULL) == 200 ? 0 : -1;
}

static int http_cycle(bench_http *h)
{
    char id[64];
    if (http_create(h, id, sizeof(id)) < 0)
        return -1;
    int r = http_exec(h, id, "echo hi");
    return http_delete(h, id) < 0 ? -1 : r;
}

static int run_http_cycle(void *user)
{
    client *c = user;
    return http_cycle(&c->http);
}

static int run_net_cycle(void *user)
{
    client *c = user;
    return http_cycle(&c->net);
}

static int run_http_exec(void *user)
{
    client *c = user;
    return http_exec(&c->http, c->live_id, "/bin/true");
}

/* --- through the library ------------------------------------------------------------------------------------------ */

static int library_exec(csn_sandbox *box, const char *const *argv)
{
    csn_process_options o = { .size = sizeof(o), .argv = argv };
    csn_run_result result = { 0 };
    if (csn_run(box, &o, &result, NULL) < 0)
        return -1;
    int ok = result.receipt.ended == CSN_ENDED_EXIT && result.receipt.exit_code == 0;
    csn_run_result_done(&result);
    return ok ? 0 : -1;
}

static int library_cycle(client *c, int is_ephemeral)
{
    char name[64];
    csn_sandbox_options o = { .size = sizeof(o), .name = name, .is_detached = !is_ephemeral, .is_ephemeral = is_ephemeral };
    csn_sandbox *box = NULL;
    csn_error err = { 0 };
    snprintf(name, sizeof(name), "bench-%d-%d-%u", (int) getpid(), c->number, c->n_made++);
    if (csn_sandbox_create(c->engine, &o, &box, &err) < 0) {
        fprintf(stderr, "bench: %s\n", err.message);
        return -1;
    }
    int r = library_exec(box, echo_hi);
    if (csn_sandbox_delete(box, NULL) < 0)
        r = -1;
    csn_sandbox_free(box);
    return r;
}

static int run_library_cycle(void *user)
{
    return library_cycle(user, 0);
}

static int run_library_ephemeral(void *user)
{
    return library_cycle(user, 1);
}

static int run_library_shell(void *user)
{
    client *c = user;
    return library_exec(c->live, shell_true);
}

static int run_library_exec(void *user)
{
    client *c = user;
    return library_exec(c->live, bare_true);
}

static int run_bwrap(void *user)
{
    (void) user;
    return bench_spawn(bwrap_hi);
}

/* --- a pause: nobody's turn begins in the shadow of another's, whose sandboxes are still being ended and made --------- */

static double metric(bench_http *h, const char *name)
{
    const char *at = bench_http_ask(h, "GET", "/metrics", NULL) == 200 ? strstr(h->body, name) : NULL;
    return at ? strtod(at + strlen(name), NULL) : -1;
}

static void settle(bench_http *h)
{
    for (int i = 0; i < 5000; i++) {
        double wanted = metric(h, "\ncaisson_sandboxes_warm_wanted ");
        if (metric(h, "\ncaisson_sandboxes_warm ") >= wanted && metric(h, "\ncaisson_sandboxes{state=\"destroying\"} ") <= 0)
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
}

/* --- rounds with many clients ------------------------------------------------------------------------------------- */

typedef struct turn {
    bench_entry *entry;
    client *who;
    pthread_barrier_t *gate;
    double us;
} turn;

static void *take_turn(void *arg)
{
    turn *t = arg;
    pthread_barrier_wait(t->gate);
    double began = bench_now_us();
    t->us = t->entry->run(t->who) < 0 ? -1 : bench_now_us() - began;
    return NULL;
}

static void one_round(bench_entry *e, int n, int is_kept)
{
    pthread_t threads[N_MAX];
    turn turns[N_MAX];
    pthread_barrier_t gate;

    pthread_barrier_init(&gate, NULL, (unsigned) n);
    for (int i = 0; i < n; i++) {
        turns[i] = (turn){ .entry = e, .who = &clients[i], .gate = &gate };
        pthread_create(&threads[i], NULL, take_turn, &turns[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        if (turns[i].us < 0)
            e->is_out = 1;
        else if (is_kept)
            e->samples[e->n++] = turns[i].us;
    }
    pthread_barrier_destroy(&gate);
}

static void rounds(bench_entry *entries, size_t n_entries, int n_clients, size_t n_warm, size_t n_rounds)
{
    srandom(1);
    for (size_t i = 0; i < n_entries; i++) {
        entries[i].samples = calloc(n_rounds * (size_t) n_clients, sizeof(double));
        entries[i].n = 0;
    }
    for (size_t round = 0; round < n_warm + n_rounds; round++) {
        size_t first = (size_t) random() % n_entries; /* all of them, from a place that changes */
        for (size_t i = 0; i < n_entries; i++) {
            bench_entry *e = &entries[(first + i) % n_entries];
            settle(&clients[0].http);
            settle(&clients[0].net);
            if (!e->is_out)
                one_round(e, n_clients, round >= n_warm);
            if (e->is_out && round < n_warm + 1)
                fprintf(stderr, "bench: '%s' failed and is left out\n", e->name);
        }
    }
}

/* The server closes what was silent for a minute: those who waited for their contest come anew. */
static int connect_again(void)
{
    for (int i = 0; i < N_MAX; i++) {
        bench_http *const both[] = { &clients[i].http, &clients[i].net };
        for (int k = 0; k < 2; k++) {
            int port = both[k]->port;
            const char *key = both[k]->key;
            bench_http_close(both[k]);
            if (bench_http_open(both[k], port, key) < 0)
                return -1;
        }
    }
    return 0;
}

static int contest(int n_clients, size_t n_rounds, int json_fd)
{
    char title[64];
    bench_entry entries[] = {
        { .name = "bwrap", .what = "bwrap … echo hi", .run = run_bwrap },
        { .name = "library",
          .what = "library: create, named and kept → echo hi → delete", .run = run_library_cycle },
        { .name = "ephemeral", .what = "library: the same in memory", .run = run_library_ephemeral },
        { .name = "HTTP", .what = "HTTP: create → execute `echo hi` → delete",
          .run = run_http_cycle, .versus = "library", .bar = 1.5 },
        { .name = "network", .what = "HTTP: the same where sandboxes have a network",
          .run = run_net_cycle, .versus = "bwrap", .bar = 1.0 },
        { .name = "library /bin/true", .what = "library: /bin/true in a live sandbox", .run = run_library_exec },
        { .name = "library shell", .what = "library: bash -c /bin/true in a live sandbox", .run = run_library_shell },
        { .name = "execute", .what = "HTTP: process/execute of /bin/true",
          .run = run_http_exec, .versus = "library /bin/true" },
    };
    size_t n = sizeof(entries) / sizeof(entries[0]);

    if (connect_again() < 0)
        return 1;
    rounds(entries, n, n_clients, 5, n_rounds);
    snprintf(title, sizeof(title), "%d client%s", n_clients, n_clients == 1 ? "" : "s at once");
    int n_missed = bench_report(title, entries, n, json_fd);
    double cycle = bench_summarise(&entries[3]).p50, bwrap = bench_summarise(&entries[0]).p50;
    double more = (bench_summarise(&entries[7]).p50 - bench_summarise(&entries[5]).p50) / 1000;
    printf("HTTP cycle: %.2f × bwrap %s (bar 1.0). process/execute adds %.3f ms to the library %s (bar 0.3).\n\n", cycle / bwrap,
           cycle <= bwrap ? "✓" : "✗", more, more <= 0.3 ? "✓" : "✗");
    fflush(stdout);
    for (size_t i = 0; i < n; i++)
        free(entries[i].samples);
    return n_missed + (cycle > bwrap) + (more > 0.3);
}

/* --- a stream: no pause at all, every cycle pays for all of itself -------------------------------------------------- */

enum { STREAM_CYCLES = 25, STREAM_TURNS = 4 };

typedef struct flow {
    const char *name, *what;
    int (*run)(void *user);
    double seconds;
    int n_failed;
} flow;

typedef struct swimmer {
    flow *flow;
    client *who;
    int n_failed;
} swimmer;

static void *swim(void *arg)
{
    swimmer *s = arg;
    for (int i = 0; i < STREAM_CYCLES; i++)
        s->n_failed += s->flow->run(s->who) < 0;
    return NULL;
}

static void one_flow(flow *f)
{
    pthread_t threads[N_MAX];
    swimmer swimmers[N_MAX];
    double began = bench_now_us();
    for (int i = 0; i < N_MAX; i++) {
        swimmers[i] = (swimmer){ .flow = f, .who = &clients[i] };
        pthread_create(&threads[i], NULL, swim, &swimmers[i]);
    }
    for (int i = 0; i < N_MAX; i++) {
        pthread_join(threads[i], NULL);
        f->n_failed += swimmers[i].n_failed;
    }
    settle(&clients[0].http); /* what was put off is part of it */
    settle(&clients[0].net);
    f->seconds += (bench_now_us() - began) / 1e6;
}

static void stream(int json_fd)
{
    flow flows[] = {
        { .name = "bwrap", .what = "bwrap … echo hi", .run = run_bwrap },
        { .name = "library", .what = "library: create, named and kept → echo hi → delete", .run = run_library_cycle },
        { .name = "HTTP", .what = "HTTP: create → execute `echo hi` → delete", .run = run_http_cycle },
        { .name = "network", .what = "HTTP: the same where sandboxes have a network", .run = run_net_cycle },
    };
    size_t n = sizeof(flows) / sizeof(flows[0]);

    for (int t = 0; t < STREAM_TURNS; t++)
        for (size_t i = 0; i < n; i++)
            one_flow(&flows[(i + (size_t) t) % n]);
    printf("### 16 clients without a pause, clearing up included\n\n| what | a second | ratio |\n|---|---:|---:|\n");
    for (size_t i = 0; i < n; i++) {
        double rate = N_MAX * STREAM_CYCLES * STREAM_TURNS / flows[i].seconds, ratio = flows[0].seconds / flows[i].seconds;
        printf("| %s%s | %.0f | %.2f × bwrap |\n", flows[i].what, flows[i].n_failed ? " (some failed)" : "", rate, ratio);
        if (json_fd >= 0)
            dprintf(json_fd, "{\"bench\":\"stream\",\"name\":\"%s\",\"per_second\":%.1f,\"failed\":%d,\"versus\":\"bwrap\",\"ratio\":%.3f}\n",
                    flows[i].name, rate, flows[i].n_failed, ratio);
    }
    printf("\n");
    fflush(stdout);
}

static int open_clients(const bench_server *s, const bench_server *net)
{
    char state[4200];
    csn_error err = { 0 };
    snprintf(state, sizeof(state), "%s/library", s->dir);
    for (int i = 0; i < N_MAX; i++) {
        client *c = &clients[i];
        csn_engine_options eo = { .size = sizeof(eo), .state_dir = state };
        csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
        c->number = i;
        if (csn_engine_open(&eo, &c->engine, &err) < 0 || csn_sandbox_create(c->engine, &o, &c->live, &err) < 0) {
            fprintf(stderr, "bench: %s\n", err.message);
            return -1;
        }
        if (bench_http_open(&c->http, s->port, s->key) < 0 || bench_http_open(&c->net, net->port, net->key) < 0
            || http_create(&c->http, c->live_id, sizeof(c->live_id)) < 0) {
            fprintf(stderr, "bench: the server made no sandbox: %s\n", c->http.body);
            return -1;
        }
    }
    return 0;
}

static void close_clients(void)
{
    for (int i = 0; i < N_MAX; i++) {
        client *c = &clients[i];
        if (c->live_id[0])
            http_delete(&c->http, c->live_id);
        bench_http_close(&c->http);
        bench_http_close(&c->net);
        if (c->live)
            csn_sandbox_delete(c->live, NULL);
        csn_sandbox_free(c->live);
        csn_engine_free(c->engine);
    }
}

/* bench_serve [ROUNDS] [FILE.jsonl]: transfers and idle connections run a fixed number of times. */
int main(int argc, char **argv)
{
    size_t n_rounds = argc > 1 ? (size_t) strtoul(argv[1], NULL, 10) : 200;
    int json_fd = argc > 2 ? open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    char build[4096];
    bench_server server, net;
    int n_missed = -1;

    if (bench_find_build(build, sizeof(build)) < 0 || bench_server_start(&server, build, "none") < 0
        || bench_server_start(&net, build, "outbound") < 0) {
        fprintf(stderr, "bench: the server does not answer\n");
        return 1;
    }
    if (open_clients(&server, &net) == 0) {
        n_missed = contest(1, n_rounds, json_fd);
        n_missed += contest(N_MAX, n_rounds / 8 + 1, json_fd);
        stream(json_fd);
        close_clients();
        n_missed += bench_transfer(&server, 3, json_fd);
        n_missed += bench_idle(&server, 10000, json_fd);
        printf("%d bar%s missed\n", n_missed, n_missed == 1 ? "" : "s");
    }
    bench_server_stop(&server);
    bench_server_stop(&net);
    return n_missed ? 1 : 0;
}
