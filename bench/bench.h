/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_BENCH_H
#define CSN_BENCH_H

/* Rounds of several contestants, interleaved, so that a noisy machine is noisy for all of them alike. */

#include <stddef.h>

typedef struct bench_entry {
    const char *name;
    const char *what;               /* one line for people */
    int (*run)(void *user);         /* one sample: 0, or -1: drop this contestant */
    void *user;
    const char *versus;             /* name of the contestant it is measured against, NULL: none */
    double bar;                     /* its p50 should be ≤ bar × that one's; 0: no bar */
    double *samples;                /* µs, in the order taken */
    size_t n;
    int is_out;
} bench_entry;

typedef struct bench_summary {
    double p50, p95, p99;
} bench_summary;

double bench_now_us(void);

/* warm-up rounds, then n rounds of one sample each, the order shuffled anew in each round by a fixed seed. */
void bench_rounds(bench_entry *entries, size_t n_entries, size_t n_warm, size_t n_rounds);
bench_summary bench_summarise(const bench_entry *entry);
double bench_ratio(const bench_entry *entries, size_t n_entries, const bench_entry *entry); /* of the p50s; 0: none */

/* JSON lines to `json_fd`, a Markdown table to stdout. Returns the number of bars missed. */
int bench_report(const char *title, const bench_entry *entries, size_t n_entries, int json_fd);

/* Runs argv to its end with stdio on /dev/null: 0 when it exited 0. By vfork, the fastest way there is to start it. */
int bench_spawn(const char *const *argv);
/* The same by fork, as most programs do. */
int bench_fork_exec(const char *const *argv);

/* build/bench/bench_x → build; also sets CAISSON_LIBEXEC, so that what was just built is what is measured. */
int bench_find_build(char *path, size_t size);

#endif
