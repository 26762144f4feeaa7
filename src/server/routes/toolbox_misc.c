/* SPDX-License-Identifier: Apache-2.0 */
/* The toolbox's small questions: directories, version, environment, ports, metrics (WIRE 9.7). */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "server/envs.h"
#include "server/job.h"
#include "server/ports.h"
#include "server/route.h"
#include "server/toolbox.h"

static const csn_box_facts *facts_of(csn_req *req)
{
    return csn_boxes_facts(csn_req_server(req)->boxes, csn_req_box_id(req));
}

static void answer_member(csn_req *req, const char *key, const char *value)
{
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, key, value);
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &body);
}

static void get_work_dir(csn_req *req)
{
    const csn_box_facts *facts = facts_of(req);

    answer_member(req, "dir", facts && facts->work_dir ? facts->work_dir : "/home/daytona");
}

static void get_home_dir(csn_req *req)
{
    const csn_box_facts *facts = facts_of(req);

    answer_member(req, "dir", facts && facts->home_dir ? facts->home_dir : "/home/daytona");
}

static void get_version(csn_req *req)
{
    answer_member(req, "version", csn_version());
}

/* Our toolbox needs no token of its own. */
static void post_init(csn_req *req)
{
    answer_member(req, "message", "initialized");
}

/* ---- environment ------------------------------------------------------------------------------------------------ */

static bool is_member(const csn_json *object, const char *entry)
{
    char key[256];

    return csn_str_copy(key, sizeof(key), csn_str_n(entry, strcspn(entry, "="))) == 0 &&
           csn_json_get(object, key) != NULL;
}

/* What goes, by the prefix of its value or by name, then what is set: as csn_boxes_set_env() wants it. */
static int put_changes(const csn_box_facts *facts, const csn_json *json, char **out)
{
    const csn_json *set = csn_json_get(json, "set"), *unset = csn_json_get(json, "unset");
    const char *prefix = csn_json_get_str(json, "unsetValuePrefix", ""), *value;
    size_t n = 0;

    for (size_t i = 0; prefix[0] && facts->env && facts->env[i]; i++) {
        value = strchr(facts->env[i], '=');
        if (!value || !csn_starts_with(value + 1, prefix) || is_member(set, facts->env[i]))
            continue;
        if (!(out[n] = csn_strdup(facts->env[i])))
            return -1;
        out[n++][value - facts->env[i]] = '\0';
    }
    for (size_t i = 0; i < csn_json_count(unset); i++) {
        const char *key = csn_json_str(csn_json_at(unset, i), "");
        if (csn_envs_is_key(key) && !(out[n++] = csn_strdup(key)))
            return -1;
    }
    return 0;
}

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

static void post_env(csn_req *req)
{
    const csn_box_facts *facts = facts_of(req);
    const csn_json *json = csn_req_json_body(req), *set = csn_json_get(json, "set");
    csn_error err = { 0 };
    const char *bad;
    char **changes;
    int r;

    if (!json)
        return;
    if (!facts || !csn_envs_is_good(set)) {
        csn_req_error(req, 400, "INVALID_REQUEST_BODY", "set must be an object of names and texts");
        return;
    }
    changes = csn_calloc(count(facts->env) + csn_json_count(csn_json_get(json, "unset")) + 1,
                         sizeof(*changes));
    r = !changes || put_changes(facts, json, changes) < 0 || csn_envs_add(&changes, set, &bad) < 0
            ? CSN_E_NO_MEMORY
            : csn_boxes_set_env(csn_req_server(req)->boxes, csn_req_box_id(req),
                                (const char *const *) changes, &err);
    csn_envs_free(changes);
    if (r == CSN_E_NO_MEMORY && !err.code)
        csn_req_error(req, 500, NULL, "out of memory");
    else if (r < 0)
        csn_req_fail(req, &err);
    else
        answer_member(req, "message", "environment updated");
}

/* ---- ports ------------------------------------------------------------------------------------------------------ */

static void answer_ports(csn_req *req, const csn_ports *ports)
{
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "ports");
    csn_jw_begin_array(&w);
    for (unsigned i = 1; i < 65536; i++)
        if (csn_ports_has(ports, i))
            csn_jw_int(&w, i);
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &body);
}

static void answer_in_use(csn_req *req, const csn_ports *ports, unsigned port)
{
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_kbool(&w, "isInUse", csn_ports_has(ports, port));
    csn_jw_end_object(&w);
    csn_req_json(req, 200, &body);
}

static bool asked_port(csn_req *req, uint64_t *ret)
{
    return csn_parse_u64(csn_str_of(csn_req_param(req, 0)), ret) == 0 && *ret >= 3000 &&
           *ret <= 9999;
}

static void on_ports(csn_job *job, int result, const csn_error *err)
{
    csn_ports ports;
    uint64_t port;

    csn_ports_read(job->output.data, job->output.len, &ports);
    if (result < 0)
        csn_req_fail(job->req, err);
    else if (strchr(csn_req_route(job->req)->pattern, '{') && asked_port(job->req, &port))
        answer_in_use(job->req, &ports, (unsigned) port);
    else
        answer_ports(job->req, &ports);
    csn_job_free(job);
}

/* Read inside: the sandbox's network is its own. */
static void get_ports(csn_req *req)
{
    csn_job *job = csn_job_new(req, NULL, "/", 10, on_ports);

    if (!job)
        return;
    if (csn_job_arg(job, "cat") < 0 || csn_job_arg(job, "/proc/net/tcp") < 0 ||
        csn_job_arg(job, "/proc/net/tcp6") < 0) {
        csn_req_error(req, 500, NULL, "out of memory");
        csn_job_free(job);
        return;
    }
    csn_job_start(job);
}

static void get_port(csn_req *req)
{
    uint64_t port;

    if (asked_port(req, &port))
        get_ports(req);
    else
        csn_req_error(req, 400, "BAD_REQUEST", "port must be a number from 3000 to 9999");
}

/* ---- metrics ---------------------------------------------------------------------------------------------------- */

static double cpu_percent(csn_bench *b, const csn_usage *u, int64_t cpu_milli, int64_t now)
{
    double used = (double) (u->cpu_us - b->cpu_us), passed = (double) (now - b->cpu_at_ns) / 1000;
    bool has_last = b->cpu_at_ns > 0 && passed > 0 && used >= 0;

    b->cpu_us = u->cpu_us;
    b->cpu_at_ns = now;
    return has_last ? 100 * used / passed * 1000 / (double) (cpu_milli > 0 ? cpu_milli : 1000) : 0;
}

static void put_metrics(csn_jw *w, const csn_box_facts *f, const csn_usage *u, double cpu)
{
    int64_t now = csn_wall_ms(), disk = f->disk_bytes > 0 ? f->disk_bytes : u->disk_bytes;

    csn_jw_begin_object(w);
    csn_jw_kint(w, "cpuCount", f->cpu_milli > 1000 ? (f->cpu_milli + 999) / 1000 : 1);
    csn_jw_kdouble(w, "cpuUsedPct", cpu);
    csn_jw_kint(w, "memTotal", f->memory_bytes > 0 ? f->memory_bytes : u->memory_bytes);
    csn_jw_kint(w, "memUsed", u->memory_bytes);
    csn_jw_kint(w, "memCache", 0); /* counted within memUsed */
    csn_jw_kint(w, "diskTotal", disk);
    csn_jw_kint(w, "diskUsed", u->disk_bytes);
    csn_jw_kint(w, "diskFree", disk > u->disk_bytes ? disk - u->disk_bytes : 0);
    csn_jw_ktime(w, "timestamp", now);
    csn_jw_kint(w, "timestampUnix", now / 1000);
    csn_jw_end_object(w);
}

static void on_usage(const csn_usage *usage, int result, const csn_error *err, void *user)
{
    csn_req *req = user;
    csn_bench *bench = result >= 0 ? csn_req_bench(req, true) : NULL;
    const csn_box_facts *facts = facts_of(req);
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    if (result < 0) {
        csn_req_fail(req, err);
    } else if (bench && facts) {
        put_metrics(&w, facts, usage, cpu_percent(bench, usage, facts->cpu_milli, csn_now_ns()));
        csn_req_json(req, 200, &body);
    } else if (bench) {
        csn_req_error(req, 404, NULL, "the sandbox is gone");
    }
}

static void on_gone(csn_req *req, void *user)
{
    (void) req;
    csn_op_drop(user);
}

static void get_metrics(csn_req *req)
{
    csn_error err = { 0 };
    csn_op *op = csn_sandbox_usage_async(csn_req_box(req), on_usage, req, &err);

    if (op)
        csn_req_keep(req, on_gone, op);
    else
        csn_req_fail(req, &err);
}

#define GET(pattern, fn) \
    { \
        CSN_PLANE_TOOLBOX, CSN_GET, pattern, CSN_SCOPE_BOX, CSN_BODY_NONE, 0, CSN_ROUTE_TENANT, fn \
    }

static const csn_route routes[] = {
    GET("/work-dir", get_work_dir),
    GET("/user-home-dir", get_home_dir),
    GET("/project-dir", get_home_dir),
    GET("/version", get_version),
    GET("/port", get_ports),
    GET("/port/{}/in-use", get_port),
    GET("/system/metrics", get_metrics),
    { CSN_PLANE_TOOLBOX, CSN_POST, "/env", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT | CSN_ROUTE_AUDIT, post_env },
    { CSN_PLANE_TOOLBOX, CSN_POST, "/init", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0, CSN_ROUTE_TENANT,
      post_init },
};
const csn_route_table csn_routes_toolbox_misc = CSN_ROUTE_TABLE(routes);
