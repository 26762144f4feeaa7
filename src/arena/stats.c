#include "stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/fault.h"

#define Z_95      1.959963984540054
#define EXACT_MAX 200

/* splitmix64: one multiplication chain, no state to get wrong. */
uint64_t csn_rng_next(csn_rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t csn_rng_below(csn_rng *rng, size_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, v;

    do
        v = csn_rng_next(rng);
    while (v >= limit);
    return (size_t) (v % n);
}

void csn_rng_shuffle(csn_rng *rng, size_t *items, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = csn_rng_below(rng, i), kept = items[i - 1];

        items[i - 1] = items[j];
        items[j] = kept;
    }
}

void csn_wilson(unsigned n_success, unsigned n, double *ret_low, double *ret_high)
{
    double p, z2 = Z_95 * Z_95, middle, half, scale;

    if (n == 0) {
        *ret_low = 0;
        *ret_high = 1;
        return;
    }
    p = (double) n_success / n;
    scale = 1 + z2 / n;
    middle = (p + z2 / (2.0 * n)) / scale;
    half = Z_95 * sqrt(p * (1 - p) / n + z2 / (4.0 * n * n)) / scale;
    *ret_low = n_success == 0 ? 0 : fmax(0, middle - half);
    *ret_high = n_success == n ? 1 : fmin(1, middle + half);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double) (n - 1);
    size_t low = (size_t) at;

    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (at - (double) low) * (sorted[low + 1] - sorted[low]);
}

csn_spread csn_spread_of(double *values, size_t n)
{
    csn_spread s = { 0 };

    if (n == 0)
        return s;
    qsort(values, n, sizeof(*values), compare_doubles);
    s.min = values[0];
    s.max = values[n - 1];
    s.median = quantile(values, n, 0.5);
    s.q1 = quantile(values, n, 0.25);
    s.q3 = quantile(values, n, 0.75);
    return s;
}

typedef struct ranked {
    double size; /* of the difference */
    int is_positive;
    unsigned rank2; /* twice the rank, so that ties' middle ranks stay whole */
} ranked;

static int compare_ranked(const void *a, const void *b)
{
    double x = ((const ranked *) a)->size, y = ((const ranked *) b)->size;

    return (x > y) - (x < y);
}

static size_t rank_differences(const double *d, size_t n, ranked *out)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++)
        if (d[i] > 0 || d[i] < 0)
            out[m++] = (ranked){ fabs(d[i]), d[i] > 0, 0 };
    qsort(out, m, sizeof(*out), compare_ranked);
    for (size_t i = 0, j; i < m; i = j) {
        for (j = i + 1; j < m && out[j].size <= out[i].size; j++)
            ;
        for (size_t k = i; k < j; k++)
            out[k].rank2 = (unsigned) (i + 1 + j); /* (first + last) with ranks from 1 */
    }
    return m;
}

/* P(W <= w) under all 2^m equally likely signs, by counting sums. -1: no memory. */
static double exact_tail(const ranked *r, size_t m, unsigned w2)
{
    size_t top = m * (m + 1);
    double *ways = csn_calloc(top + 1, sizeof(*ways)), sum = 0;

    if (!ways)
        return -1;
    ways[0] = 1;
    for (size_t i = 0, reach = 0; i < m; i++) {
        reach += r[i].rank2;
        for (size_t s = reach; s + 1 > r[i].rank2; s--)
            ways[s] = (ways[s] + ways[s - r[i].rank2]) / 2;
        for (size_t s = 0; s < r[i].rank2 && s <= reach; s++)
            ways[s] /= 2;
    }
    for (size_t s = 0; s <= w2 && s <= top; s++)
        sum += ways[s];
    free(ways);
    return sum;
}

static double normal_tail(const ranked *r, size_t m, unsigned w2)
{
    double mean = (double) m * (double) (m + 1) / 4, var = 0;

    for (size_t i = 0; i < m; i++)
        var += (double) r[i].rank2 * (double) r[i].rank2 / 16;
    return 0.5 * erfc((mean - w2 / 2.0 - 0.5) / sqrt(2 * var));
}

double csn_signed_rank_p(const double *differences, size_t n, double *ret_smallest)
{
    ranked *r = csn_calloc(n + 1, sizeof(*r));
    unsigned plus2 = 0, minus2 = 0;
    double tail;
    size_t m;

    if (!r)
        return -1;
    m = rank_differences(differences, n, r);
    for (size_t i = 0; i < m; i++)
        *(r[i].is_positive ? &plus2 : &minus2) += r[i].rank2;
    *ret_smallest = n == 0 ? 1 : fmin(1, 2 * pow(0.5, (double) n));
    if (m == 0)
        tail = 1;
    else if (m <= EXACT_MAX)
        tail = exact_tail(r, m, plus2 < minus2 ? plus2 : minus2);
    else
        tail = normal_tail(r, m, plus2 < minus2 ? plus2 : minus2);
    free(r);
    return tail < 0 ? -1 : fmin(1, 2 * tail);
}
