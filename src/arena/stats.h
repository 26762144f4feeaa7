/* What can honestly be said about a handful of runs. */
#ifndef CSN_ARENA_STATS_H
#define CSN_ARENA_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <caisson/arena.h>

/* The order of trials: the same seed, the same order, on every machine. */
typedef struct csn_rng {
    uint64_t state;
} csn_rng;
uint64_t csn_rng_next(csn_rng *rng);
/* 0 … n-1, evenly. */
size_t csn_rng_below(csn_rng *rng, size_t n);
void csn_rng_shuffle(csn_rng *rng, size_t *items, size_t n);

/* 95 % confidence interval of a rate (Wilson's score interval); n = 0: 0 … 1. */
void csn_wilson(unsigned n_success, unsigned n, double *ret_low, double *ret_high);

/* Median and quartiles (linear between ranks, "type 7"). Sorts `values`. n = 0: all zero. */
csn_spread csn_spread_of(double *values, size_t n);

/* Wilcoxon's signed-rank test on paired differences: the exact two-sided p up to 200 of them, the normal approximation
 * with continuity beyond. Zero differences are left out; with none left p is 1. *ret_smallest: the p that this many
 * pairs could reach at best. Returns p, or -1 when memory is out. */
double csn_signed_rank_p(const double *differences, size_t n, double *ret_smallest);

#endif
