/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

double bench_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static void shuffle(size_t *order, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t) random() % i, t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

static void one_sample(bench_entry *e, int is_kept)
{
    double t = bench_now_us();
    if (e->run(e->user) < 0) {
        e->is_out = 1;
        fprintf(stderr, "bench: '%s' failed and is left out\n", e->name);
        return;
    }
    if (is_kept)
        e->samples[e->n++] = bench_now_us() - t;
}

void bench_rounds(bench_entry *entries, size_t n_entries, size_t n_warm, size_t n_rounds)
{
    size_t order[32];

    srandom(1);
    for (size_t i = 0; i < n_entries; i++) {
        entries[i].samples = calloc(n_rounds, sizeof(double));
        order[i] = i;
    }
    for (size_t round = 0; round < n_warm + n_rounds; round++) {
        shuffle(order, n_entries);
        for (size_t i = 0; i < n_entries; i++)
            if (!entries[order[i]].is_out)
                one_sample(&entries[order[i]], round >= n_warm);
        if (isatty(2))
            fprintf(stderr, "\rround %zu/%zu", round + 1, n_warm + n_rounds);
    }
    if (isatty(2))
        fprintf(stderr, "\r\033[K");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

bench_summary bench_summarise(const bench_entry *e)
{
    bench_summary s = { 0 };
    double *sorted = malloc((e->n + 1) * sizeof(double));
    if (e->n == 0 || !sorted) {
        free(sorted);
        return s;
    }
    memcpy(sorted, e->samples, e->n * sizeof(double));
    qsort(sorted, e->n, sizeof(double), by_size);
    s.p50 = sorted[e->n / 2];
    s.p95 = sorted[e->n * 95 / 100];
    s.p99 = sorted[e->n * 99 / 100];
    free(sorted);
    return s;
}

double bench_ratio(const bench_entry *entries, size_t n_entries, const bench_entry *entry)
{
    for (size_t i = 0; entry->versus && i < n_entries; i++)
        if (strcmp(entries[i].name, entry->versus) == 0 && entries[i].n > 0 && entry->n > 0)
            return bench_summarise(entry).p50 / bench_summarise(&entries[i]).p50;
    return 0;
}

static const char *verdict_of(const bench_entry *e, double ratio)
{
    if (e->bar <= 0 || ratio <= 0)
        return "";
    return ratio <= e->bar ? " ✓" : " ✗";
}

int bench_report(const char *title, const bench_entry *entries, size_t n_entries, int json_fd)
{
    int n_missed = 0;

    printf("### %s\n\n| what | p50 µs | p95 µs | p99 µs | ratio | bar |\n|---|---:|---:|---:|---:|---:|\n", title);
    for (size_t i = 0; i < n_entries; i++) {
        const bench_entry *e = &entries[i];
        bench_summary s = bench_summarise(e);
        double ratio = bench_ratio(entries, n_entries, e);
        if (e->n == 0)
            continue;
        printf("| %s | %.0f | %.0f | %.0f |", e->what, s.p50, s.p95, s.p99);
        if (ratio > 0)
            printf(" %.2f × %s%s |", ratio, e->versus, verdict_of(e, ratio));
        else
            printf(" |");
        if (e->bar > 0)
            printf(" ≤ %.1f |\n", e->bar);
        else
            printf(" |\n");
        n_missed += e->bar > 0 && ratio > e->bar;
        if (json_fd >= 0)
            dprintf(json_fd,
                    "{\"bench\":\"%s\",\"name\":\"%s\",\"n\":%zu,\"p50_us\":%.1f,\"p95_us\":%.1f,\"p99_us\":%.1f,"
                    "\"versus\":\"%s\",\"ratio\":%.3f,\"bar\":%.2f}\n",
                    title, e->name, e->n, s.p50, s.p95, s.p99, e->versus ? e->versus : "", ratio, e->bar);
    }
    printf("\n");
    fflush(stdout);
    return n_missed;
}

static int succeeded(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int bench_spawn(const char *const *argv)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    int r = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *) argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return r == 0 ? succeeded(pid) : -1;
}

int bench_fork_exec(const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], (char *const *) argv);
        _exit(127);
    }
    return pid > 0 ? succeeded(pid) : -1;
}

int bench_find_build(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    for (int up = 0; up < 2 && n > 0; up++)
        while (n > 0 && path[--n] != '/')
            ;
    if (n <= 0)
        return -1;
    path[n] = '\0';
    return setenv("CAISSON_LIBEXEC", path, 0);
}
