/* SPDX-License-Identifier: Apache-2.0 */
/* Caisson beside its peers in one interleaved run: bare fork+exec, bubblewrap with the same isolation as far as it
 * goes, and crun, runc, firejail, podman where they are installed and work. Times are whole: from the call to the last
 * wait. Memory is what the machine lost to N idle sandboxes, divided by N, so that kernel memory counts. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <caisson.h>

#include "bench.h"

static csn_engine *engine;
static csn_sandbox *live;
static char caisson_path[4096];

static const char *const true_argv[] = { "/bin/true", NULL };

/* All namespaces, private /proc, /dev, /tmp, read-only system, new session, no capability: what bubblewrap can do of
 * ours. It has no overlay, no seccomp table of its own, no cgroups, no Landlock. */
#define BWRAP \
    "bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--hostname", "caisson", \
        "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", \
        "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/daytona", \
        "--chdir", "/home/daytona", "--clearenv", "--die-with-parent", "--new-session", "--cap-drop", "ALL"

static const char *const bwrap_true[] = { BWRAP, "/bin/true", NULL };
static const char *const bwrap_sleep[] = { BWRAP, "/bin/sleep", "1000", NULL };
static const char *const firejail_true[] = { "firejail", "--quiet", "--noprofile", "--private", "--net=none",
                                             "--caps.drop=all", "--nonewprivs", "--seccomp", "/bin/true", NULL };
static const char *const podman_true[] = { "podman", "run", "--rm", "--network=none", "--rootfs", "/:O", "/bin/true", NULL };

static int run_bare(void *user)
{
    (void) user;
    return bench_fork_exec(true_argv);
}

static int run_argv(void *user)
{
    return bench_spawn(user);
}

static int run_in(csn_sandbox *box)
{
    csn_process_options o = { .size = sizeof(o), .argv = true_argv };
    csn_run_result result = { 0 };
    if (csn_run(box, &o, &result, NULL) < 0)
        return -1;
    int ok = result.receipt.ended == CSN_ENDED_EXIT && result.receipt.exit_code == 0;
    csn_run_result_done(&result);
    return ok ? 0 : -1;
}

static int run_create(void *user)
{
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    csn_sandbox *box = NULL;
    csn_error err = { 0 };
    (void) user;
    if (csn_sandbox_create(engine, &o, &box, &err) < 0) {
        fprintf(stderr, "bench: %s\n", err.message);
        return -1;
    }
    int r = run_in(box);
    if (csn_sandbox_delete(box, NULL) < 0)
        r = -1;
    csn_sandbox_free(box);
    return r;
}

static int run_exec(void *user)
{
    (void) user;
    return run_in(live);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void nap_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static void read_field(const char *line, const char *key, long *value)
{
    if (strncmp(line, key, strlen(key)) == 0)
        *value = strtol(line + strlen(key), NULL, 10);
}

static long used_kib(void)
{
    long total = 0, available = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof(line), f)) {
        read_field(line, "MemTotal:", &total);
        read_field(line, "MemAvailable:", &available);
    }
    if (f)
        fclose(f);
    return total - available;
}

static double settled_kib(void)
{
    double sum = 0;
    for (int i = 0; i < 10; i++) { /* per-cpu caches and RCU make single readings jump */
        nap_ms(20);
        sum += (double) used_kib();
    }
    return sum / 10;
}

enum { N_IDLE_MAX = 200 };

static double memory_of_ours(size_t n)
{
    csn_sandbox *boxes[N_IDLE_MAX];
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    size_t made = 0;
    double before = settled_kib();
    while (made < n && csn_sandbox_create(engine, &o, &boxes[made], NULL) == 0)
        made++;
    double after = settled_kib();
    for (size_t i = 0; i < made; i++) {
        csn_sandbox_delete(boxes[i], NULL);
        csn_sandbox_free(boxes[i]);
    }
    return made ? (after - before) / (double) made : 0;
}

static double memory_of_bwrap(size_t n)
{
    pid_t pids[N_IDLE_MAX];
    size_t made = 0;
    double before = settled_kib();
    for (; made < n; made++) {
        pids[made] = fork();
        if (pids[made] == 0) {
            execvp(bwrap_sleep[0], (char *const *) bwrap_sleep);
            _exit(127);
        }
    }
    nap_ms(500);
    double after = settled_kib();
    for (size_t i = 0; i < made; i++)
        kill(pids[i], SIGKILL);
    for (size_t i = 0; i < made; i++)
        waitpid(pids[i], NULL, 0);
    return (after - before) / (double) n;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static int bench_memory(size_t n, int json_fd)
{
    enum { ROUNDS = 5 };
    double ours[ROUNDS], theirs[ROUNDS];
    memory_of_ours(4);
    memory_of_bwrap(4);
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = memory_of_ours(n);
        nap_ms(300);
        theirs[i] = memory_of_bwrap(n);
        nap_ms(300);
    }
    qsort(ours, ROUNDS, sizeof(double), by_size);
    qsort(theirs, ROUNDS, sizeof(double), by_size);
    double ratio = ours[ROUNDS / 2] / theirs[ROUNDS / 2];
    printf("### memory per live idle sandbox, kernel's part included\n\n| what | KiB (median of %d × %zu) | ratio | bar |\n"
           "|---|---:|---:|---:|\n| caisson: keeper, init, cgroups, mounts | %.0f | %.2f × bwrap%s | ≤ 2.0 |\n"
           "| bwrap: bwrap, sleep | %.0f | | |\n\n",
           ROUNDS, n, ours[ROUNDS / 2], ratio, ratio <= 2.0 ? " ✓" : " ✗", theirs[ROUNDS / 2]);
    if (json_fd >= 0)
        dprintf(json_fd, "{\"bench\":\"memory\",\"n\":%zu,\"caisson_kib\":%.1f,\"bwrap_kib\":%.1f,\"ratio\":%.3f,\"bar\":2.0}\n",
                n, ours[ROUNDS / 2], theirs[ROUNDS / 2], ratio);
    return ratio > 2.0;
}

int main(int argc, char **argv)
{
    size_t n_rounds = argc > 1 ? (size_t) strtoul(argv[1], NULL, 10) : 200;
    const char *json_path = argc > 2 ? argv[2] : NULL;
    int json_fd = json_path ? open(json_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    csn_error err = { 0 };

    char build[4000];
    if (bench_find_build(build, sizeof(build)) < 0)
        return 1;
    snprintf(caisson_path, sizeof(caisson_path), "%s/caisson", build);

    const char *const whole[] = { caisson_path, "run", "--quiet", "--", "/bin/true", NULL };
    csn_sandbox_options o = { .size = sizeof(o), .is_ephemeral = 1 };
    if (csn_engine_open(NULL, &engine, &err) < 0 || csn_sandbox_create(engine, &o, &live, &err) < 0) {
        fprintf(stderr, "bench: %s\n", err.message);
        return 1;
    }

    bench_entry entries[] = {
        { .name = "bare", .what = "bare fork+exec of /bin/true", .run = run_bare },
        { .name = "exec", .what = "exec in a live sandbox", .run = run_exec, .versus = "bare", .bar = 1.6 },
        { .name = "create", .what = "create → /bin/true → destroy, open engine", .run = run_create, .versus = "bare", .bar = 4.0 },
        { .name = "bwrap", .what = "bwrap … /bin/true", .run = run_argv, .user = (void *) bwrap_true, .versus = "bare" },
        { .name = "run", .what = "caisson run -- /bin/true, whole process", .run = run_argv, .user = (void *) whole, .versus = "bwrap", .bar = 1.0 },
        { .name = "firejail", .what = "firejail … /bin/true", .run = run_argv, .user = (void *) firejail_true, .versus = "bwrap" },
        { .name = "podman", .what = "podman run … /bin/true", .run = run_argv, .user = (void *) podman_true, .versus = "bwrap" },
    };
    bench_rounds(entries, sizeof(entries) / sizeof(entries[0]), 10, n_rounds);
    int n_missed = bench_report("start and end", entries, sizeof(entries) / sizeof(entries[0]), json_fd);
    csn_sandbox_delete(live, NULL);
    csn_sandbox_free(live);
    n_missed += bench_memory(50, json_fd);
    csn_engine_free(engine);
    printf("%d bar%s missed\n", n_missed, n_missed == 1 ? "" : "s");
    return n_missed ? 1 : 0;
}
