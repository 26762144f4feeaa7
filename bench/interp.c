/* SPDX-License-Identifier: Apache-2.0 */
/* What a step in a living session costs, next to an exec in the same kind of sandbox and to a fresh python3 -c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson.h>
#include <caisson/interp.h>

#include "bench.h"

enum { WARM = 20, ROUNDS = 300 };

struct world {
    csn_engine *engine;
    csn_sandbox *box;
    csn_interp *interp;
};

static int step(void *user)
{
    struct world *w = user;
    csn_exec_result *r = NULL;
    int e = csn_interp_execute(w->interp, "x += 1", 6, NULL, &r, NULL);

    csn_result_free(r);
    return e < 0 ? -1 : 0;
}

static int run_in_box(struct world *w, const char *const *argv)
{
    csn_process_options o = { .size = sizeof(o), .argv = argv };
    csn_run_result r = { 0 };
    int e = csn_run(w->box, &o, &r, NULL);

    csn_run_result_done(&r);
    return e < 0 ? -1 : 0;
}

static int exec_true(void *user)
{
    return run_in_box(user, (const char *const[]){ "/bin/true", NULL });
}

static int exec_python(void *user)
{
    return run_in_box(user, (const char *const[]){ "python3", "-c", "x = 1; x += 1", NULL });
}

static int open_world(struct world *w)
{
    csn_sandbox_options so = { .size = sizeof(so), .is_ephemeral = 1 };
    csn_interp_options io = { .size = sizeof(io) };
    csn_exec_result *r = NULL;
    csn_error err = { 0 };
    char build[4096];

    if (bench_find_build(build, sizeof(build)) < 0) {
        fprintf(stderr, "bench_interp: there is no /proc to find the build by\n");
        return -1;
    }
    if (csn_engine_open(NULL, &w->engine, &err) < 0 ||
        csn_sandbox_create(w->engine, &so, &w->box, &err) < 0 ||
        csn_interp_new(w->engine, &io, &w->interp, &err) < 0 ||
        csn_interp_execute(w->interp, "x = 0", 5, NULL, &r, &err) < 0) {
        fprintf(stderr, "bench_interp: %s\n", err.message);
        return -1;
    }
    csn_result_free(r);
    return 0;
}

int main(void)
{
    struct world w = { 0 };
    bench_entry entries[] = {
        { .name = "step",
          .what = "execute of x += 1 in a living session",
          .run = step,
          .user = &w,
          .versus = "python",
          .bar = 0.05 },
        { .name = "exec", .what = "/bin/true in a living sandbox", .run = exec_true, .user = &w },
        { .name = "python",
          .what = "python3 -c in a living sandbox",
          .run = exec_python,
          .user = &w },
    };
    const size_t n = sizeof(entries) / sizeof(entries[0]);
    int missed;

    if (open_world(&w) < 0)
        return 1;
    for (size_t i = 0; i < n; i++)
        if (!(entries[i].samples = calloc(ROUNDS, sizeof(double))))
            return 1;
    bench_rounds(entries, n, WARM, ROUNDS);
    missed = bench_report("Steps of a session", entries, n, STDERR_FILENO);
    for (size_t i = 0; i < n; i++)
        free(entries[i].samples);
    csn_interp_free(w.interp);
    csn_sandbox_free(w.box);
    csn_engine_free(w.engine);
    return missed > 0;
}
