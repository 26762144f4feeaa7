/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include "base/time.h"
#include "server/auth.h"
#include "server/cell.h"
#include "server/disk.h"
#include "server/listen.h"
#include "server/route.h"

/* Upper ends of the buckets, in microseconds; one more for the rest. */
static const int64_t bounds_us[] = { 500,   1000,   2500,   5000,    10000,   25000,
                                     50000, 100000, 250000, 1000000, 2500000, 10000000 };
enum { N_BOUNDS = sizeof(bounds_us) / sizeof(bounds_us[0]), N_PLANES = CSN_PLANE_ROOT + 1 };

static const char *const plane_names[N_PLANES] = {
    [CSN_PLANE_API] = "api",
    [CSN_PLANE_TOOLBOX] = "toolbox",
    [CSN_PLANE_ROOT] = "root",
};

static struct {
    uint64_t statuses[N_PLANES][6]; /* by the first digit */
    uint64_t buckets[N_PLANES][N_BOUNDS + 1];
    uint64_t n[N_PLANES];
    double seconds[N_PLANES];
    uint64_t n_lost; /* without a route */
    uint64_t counts[CSN_COUNT_LAST_];
} seen;

static const struct {
    const char *name, *help;
} counts[] = {
    [CSN_COUNT_CREATED] = { "sandboxes_created", "Sandboxes created." },
    [CSN_COUNT_CREATED_WARM] = { "sandboxes_created_warm", "Of these, handed out ready made." },
    [CSN_COUNT_CREATE_FAILED] = { "sandboxes_create_failed", "Creates the engine refused." },
    [CSN_COUNT_DELETED] = { "sandboxes_deleted", "Deletes accepted." },
    [CSN_COUNT_AUTO_STOPPED] = { "sandboxes_auto_stopped", "Stopped for want of activity." },
    [CSN_COUNT_AUTO_DELETED] = { "sandboxes_auto_deleted", "Deleted by a timer." },
    [CSN_COUNT_AUTH_FAILED] = { "auth_failed", "Requests without a good key." },
};

void csn_metrics_count(csn_count what)
{
    seen.counts[what]++;
}

void csn_metrics_request(const csn_req *req, int status, void *user)
{
    const csn_route *route = csn_req_route(req);
    int64_t us = csn_req_age_ns(req) / 1000;
    size_t i = 0;

    (void) user;
    if (!route) {
        seen.n_lost++;
        return;
    }
    while (i < N_BOUNDS && us > bounds_us[i])
        i++;
    seen.statuses[route->plane][status >= 100 && status < 600 ? status / 100 : 0]++;
    seen.buckets[route->plane][i]++;
    seen.n[route->plane]++;
    seen.seconds[route->plane] += (double) us / 1e6;
}

static void head(csn_buf *out, const char *name, const char *type, const char *help)
{
    csn_buf_printf(out, "# HELP caisson_%s %s\n# TYPE caisson_%s %s\n", name, help, name, type);
}

static void write_requests(csn_buf *out)
{
    head(out, "http_requests_total", "counter", "Requests answered.");
    for (int p = 0; p < N_PLANES; p++)
        for (int s = 1; s < 6; s++)
            csn_buf_printf(out, "caisson_http_requests_total{plane=\"%s\",status=\"%dxx\"} %llu\n",
                           plane_names[p], s, (unsigned long long) seen.statuses[p][s]);
    head(out, "http_requests_lost_total", "counter", "Requests malformed or without a route.");
    csn_buf_printf(out, "caisson_http_requests_lost_total %llu\n",
                   (unsigned long long) seen.n_lost);
    head(out, "http_request_seconds", "histogram", "From a request's head to its end.");
    for (int p = 0; p < N_PLANES; p++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < N_BOUNDS; i++) {
            sum += seen.buckets[p][i];
            csn_buf_printf(out,
                           "caisson_http_request_seconds_bucket{plane=\"%s\",le=\"%g\"} %llu\n",
                           plane_names[p], (double) bounds_us[i] / 1e6, (unsigned long long) sum);
        }
        csn_buf_printf(out,
                       "caisson_http_request_seconds_bucket{plane=\"%s\",le=\"+Inf\"} %llu\n"
                       "caisson_http_request_seconds_sum{plane=\"%s\"} %.6f\n"
                       "caisson_http_request_seconds_count{plane=\"%s\"} %llu\n",
                       plane_names[p], (unsigned long long) seen.n[p], plane_names[p],
                       seen.seconds[p], plane_names[p], (unsigned long long) seen.n[p]);
    }
}

static void gauge(csn_buf *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "gauge", help);
    csn_buf_printf(out, "caisson_%s %llu\n", name, (unsigned long long) value);
}

static void write_sandboxes(csn_server *server, csn_buf *out)
{
    uint64_t states[CSN_CELL_DESTROYING + 1] = { 0 };

    csn_list_foreach (node, &server->boxes->cells)
        states[csn_list_entry(node, csn_cell, link)->state]++;
    csn_list_foreach (node, &server->boxes->dying)
        if (!csn_list_entry(node, csn_cell, link)->is_dirty) /* else only its row is left */
            states[CSN_CELL_DESTROYING]++;
    head(out, "sandboxes", "gauge", "Sandboxes by state.");
    for (size_t i = 0; i <= CSN_CELL_DESTROYING; i++)
        csn_buf_printf(out, "caisson_sandboxes{state=\"%s\"} %llu\n",
                       csn_cell_state_name((csn_cell_state) i), (unsigned long long) states[i]);
    csn_size promised = csn_quota_promised(server->boxes), max = csn_machine_promisable(server);
    gauge(out, "cpu_promised_milli", "Thousandths of processors of started sandboxes.",
          (uint64_t) promised.cpu_milli);
    gauge(out, "memory_promised_bytes", "Memory of started sandboxes.",
          (uint64_t) promised.memory_bytes);
    gauge(out, "memory_promisable_bytes", "How much may be; 0: any number.",
          (uint64_t) max.memory_bytes);
    gauge(out, "disk_promised_bytes", "Disk of all sandboxes.", (uint64_t) promised.disk_bytes);
    gauge(out, "disk_promisable_bytes", "How much may be; 0: any number.",
          (uint64_t) max.disk_bytes);
    gauge(out, "sandboxes_warm", "Ready sandboxes that wait for somebody.", server->boxes->n_warm);
    gauge(out, "sandboxes_warm_wanted", "How many of these there shall be.",
          server->boxes->n_warm_wanted);
}

static void write_disk(const csn_server *server, csn_buf *out)
{
    csn_disk disk = csn_disk_look(server);

    gauge(out, "disk_free_bytes", "Free on the file system of the state directory.",
          (uint64_t) disk.free_bytes);
    gauge(out, "disk_size_bytes", "Its size.", (uint64_t) disk.total_bytes);
    gauge(out, "disk_reserve_bytes", "Below so many free bytes nothing new is made.",
          (uint64_t) disk.reserve_bytes);
}

void csn_metrics_write(csn_server *server, csn_buf *out)
{
    write_requests(out);
    for (size_t i = 0; i < CSN_COUNT_LAST_; i++) {
        csn_buf_printf(out, "# HELP caisson_%s_total %s\n# TYPE caisson_%s_total counter\n",
                       counts[i].name, counts[i].help, counts[i].name);
        csn_buf_printf(out, "caisson_%s_total %llu\n", counts[i].name,
                       (unsigned long long) seen.counts[i]);
    }
    if (server->boxes)
        write_sandboxes(server, out);
    write_disk(server, out);
    if (server->listener) {
        csn_listener_stats s = csn_listener_get_stats(server->listener);
        gauge(out, "connections_open", "Connections.", s.n_open);
        gauge(out, "requests_waiting", "Requests being worked on.", s.n_waiting);
        gauge(out, "websockets_open", "WebSockets.", s.n_sockets);
    }
}
