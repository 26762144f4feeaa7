/* SPDX-License-Identifier: Apache-2.0 */
/* What the arena costs. First one candidate at a time: the same script bare and through csn_candidate_run(), in
 * interleaved rounds. Then a thousand short candidates in one csn_arena_run(), in turn with a loop that gives each of a
 * thousand runs to bubblewrap: a script, an objective, a file to write, its bytes read back. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <caisson.h>

#include "bench.h"

#define SCRIPT_TEXT "#!/bin/sh\nprintf 'an artifact for %s\\n' \"$1\" > \"$2\"\n"

static csn_engine *engine;
static char dir[256], script[300], bare_out[300], box_out[300];

static void read_back(const char *path)
{
    char bytes[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, bytes, sizeof(bytes)) <= 0)
        fprintf(stderr, "bench: no artifact in %s\n", path);
    if (fd >= 0)
        (void) close(fd);
    (void) unlink(path); /* the next run must write its own */
}

static int run_bare(void *user)
{
    const char *const argv[] = { "/bin/sh", script, "objective", bare_out, NULL };

    (void) user;
    if (bench_fork_exec(argv) < 0)
        return -1;
    read_back(bare_out);
    return 0;
}

static int run_bwrap(void *user)
{
    const char *const argv[] = {
        "bwrap",
        "--unshare-all",
        "--unshare-user",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--hostname",
        "caisson",
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/home/daytona",
        "--bind",
        dir,
        "/out",
        "--ro-bind",
        script,
        "/home/daytona/x.sh",
        "--chdir",
        "/home/daytona",
        "--clearenv",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "/bin/sh",
        "/home/daytona/x.sh",
        "objective",
        "/out/box",
        NULL,
    };

    (void) user;
    if (bench_spawn(argv) < 0)
        return -1;
    read_back(box_out);
    return 0;
}

static int run_candidate(void *user)
{
    csn_candidate c = { .size = sizeof(c), .id = "x", .script = script };
    csn_run_options o = { .size = sizeof(o), .objective = "objective" };
    csn_candidate_result *r = NULL;
    int ok;

    (void) user;
    if (csn_candidate_run(engine, &c, &o, &r, NULL) < 0)
        return -1;
    ok = r->success;
    if (!ok)
        fprintf(stderr, "bench: %s\n", r->error_message);
    csn_candidate_result_free(r);
    return ok ? 0 : -1;
}

/* Seconds for n candidates in one arena; -1: somebody failed. */
static double arena_of(size_t n)
{
    csn_candidate *c = calloc(n, sizeof(*c));
    char(*ids)[32] = calloc(n, sizeof(*ids));
    csn_run_options run = { .size = sizeof(run), .objective = "objective" };
    csn_arena_options o = { .size = sizeof(o), .run = &run };
    csn_arena_result *r = NULL;
    csn_error err = { 0 };
    double start = bench_now_us(), took = -1;

    for (size_t i = 0; c && ids && i < n; i++) {
        (void) snprintf(ids[i], sizeof(ids[i]), "c%zu", i);
        c[i] = (csn_candidate){ .size = sizeof(*c), .id = ids[i], .script = script };
    }
    if (c && ids && csn_arena_run(engine, c, n, &o, &r, &err) == 0) {
        took = (bench_now_us() - start) / 1e6;
        for (size_t i = 0; i < n; i++)
            if (!r->results[i]->success) {
                fprintf(stderr, "bench: %s: %s\n", ids[i], r->results[i]->error_message);
                took = -1;
            }
    } else {
        fprintf(stderr, "bench: %s\n", err.message);
    }
    csn_arena_result_free(r);
    free(c);
    free(ids);
    return took;
}

static double loop_of(size_t n)
{
    double start = bench_now_us();

    for (size_t i = 0; i < n; i++)
        if (run_bwrap(NULL) < 0)
            return -1;
    return (bench_now_us() - start) / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static int throughput(size_t n, int json_fd)
{
    enum { ROUNDS = 3 };
    double ours[ROUNDS], theirs[ROUNDS], ratio;

    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = arena_of(n);
        theirs[i] = loop_of(n);
        if (ours[i] < 0 || theirs[i] < 0)
            return 1;
    }
    qsort(ours, ROUNDS, sizeof(double), by_size);
    qsort(theirs, ROUNDS, sizeof(double), by_size);
    ratio = theirs[ROUNDS / 2] / ours[ROUNDS / 2];
    printf(
        "### %zu short candidates\n\n| what | per second (median of %d) | ratio | bar |\n|---|---:|---:|---:|\n"
        "| one arena, all walls, limits and receipts | %.0f | %.2f × bwrap loop%s | ≥ 1.0 |\n"
        "| a loop over bwrap | %.0f | | |\n\n",
        n, ROUNDS, (double) n / ours[ROUNDS / 2], ratio, ratio >= 1 ? " ✓" : " ✗",
        (double) n / theirs[ROUNDS / 2]);
    if (json_fd >= 0)
        dprintf(
            json_fd,
            "{\"bench\":\"arena-throughput\",\"n\":%zu,\"arena_s\":%.3f,\"bwrap_s\":%.3f,\"ratio\":%.3f,\"bar\":1.0}\n",
            n, ours[ROUNDS / 2], theirs[ROUNDS / 2], ratio);
    return ratio < 1;
}

static int prepare(void)
{
    const char *tmp = getenv("TMPDIR");
    int fd;

    (void) snprintf(dir, sizeof(dir), "%s/csn-bench.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    (void) snprintf(script, sizeof(script), "%s/x.sh", dir);
    (void) snprintf(bare_out, sizeof(bare_out), "%s/bare", dir);
    (void) snprintf(box_out, sizeof(box_out), "%s/box", dir);
    fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    if (fd < 0 || write(fd, SCRIPT_TEXT, strlen(SCRIPT_TEXT)) < 0 || chmod(dir, 0777) < 0)
        return -1;
    (void) close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    int json_fd = argc > 3 ? open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    bench_entry entries[] = {
        { .name = "bare", .what = "fork, exec, read the file", .run = run_bare },
        { .name = "candidate",
          .what = "csn_candidate_run() on an open engine",
          .run = run_candidate,
          .versus = "bare" },
        { .name = "bwrap",
          .what = "bubblewrap, the file through a bind mount",
          .run = run_bwrap,
          .versus = "bare" },
    };
    csn_error err = { 0 };
    char build[4096];
    int missed;

    if (bench_find_build(build, sizeof(build)) < 0 || prepare() < 0 || csn_engine_open(NULL, &engine, &err) < 0) {
        fprintf(stderr, "bench: %s\n", err.message[0] ? err.message : "no directory to work in");
        return 2;
    }
    bench_rounds(entries, 3, 10, rounds);
    missed =
        bench_report("one candidate: a shell script that writes one line", entries, 3, json_fd);
    missed += throughput(n, json_fd);
    csn_engine_free(engine);
    (void) unlink(script);
    (void) rmdir(dir);
    return missed > 0;
}
