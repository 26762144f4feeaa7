#include <math.h>

#include "csn_test.h"
#include "stats.h"

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-4;
}

TEST(wilson_interval_matches_published_values)
{
    double low, high;

    csn_wilson(8, 10, &low, &high);
    CHECK(near(low, 0.49016) && near(high, 0.94332));
    csn_wilson(5, 5, &low, &high);
    CHECK(near(low, 0.56552) && high == 1);
    csn_wilson(0, 5, &low, &high);
    CHECK(low == 0 && near(high, 0.43448));
    csn_wilson(0, 0, &low, &high);
    CHECK(low == 0 && high == 1);
}

TEST(quartiles_are_linear_between_ranks)
{
    double v[] = { 4, 1, 3, 2 }, one[] = { 7 };
    csn_spread s = csn_spread_of(v, 4);

    CHECK(near(s.median, 2.5) && near(s.q1, 1.75) && near(s.q3, 3.25) && s.min == 1 && s.max == 4);
    s = csn_spread_of(one, 1);
    CHECK(s.median == 7 && s.q1 == 7 && s.q3 == 7);
    s = csn_spread_of(one, 0);
    CHECK(s.median == 0);
}

/* Values of R: wilcox.test(x, exact = TRUE). */
TEST(signed_rank_is_exact)
{
    double five[] = { 1, 2, 3, 4, 5 }, six[] = { 1, 2, 3, 4, 5, 6 },
           mixed[] = { -1, 2, -3, 4, 5, 6, 7 };
    double ties[] = { 1, 1, 1, 1, -1, 1 }, zeros[] = { 0, 0, 0 }, smallest;

    CHECK(near(csn_signed_rank_p(five, 5, &smallest), 0.0625) && near(smallest, 0.0625));
    CHECK(near(csn_signed_rank_p(six, 6, &smallest), 0.03125));
    CHECK(near(csn_signed_rank_p(mixed, 7, &smallest), 0.109375));
    CHECK(near(csn_signed_rank_p(ties, 6, &smallest), 0.21875));
    CHECK(csn_signed_rank_p(zeros, 3, &smallest) == 1);
    CHECK(csn_signed_rank_p(zeros, 0, &smallest) == 1);
}

TEST(signed_rank_goes_over_to_the_normal_approximation_smoothly)
{
    double d[220], exact, approx, smallest;

    for (int i = 0; i < 220; i++)
        d[i] = (i % 9 < 5 ? 1 : -1) * (i + 1);
    exact = csn_signed_rank_p(d, 200, &smallest);
    approx = csn_signed_rank_p(d, 201, &smallest);
    CHECK(exact > 0 && exact < 1 && fabs(exact - approx) < 0.05);
}

TEST(a_seed_gives_the_same_order_everywhere)
{
    csn_rng rng = { 42 };
    size_t order[6] = { 0, 1, 2, 3, 4, 5 }, seen = 0;

    CHECK(csn_rng_next(&(csn_rng){ 0 }) == UINT64_C(0xe220a8397b1dcdaf)); /* splitmix64's first */
    csn_rng_shuffle(&rng, order, 6);
    for (int i = 0; i < 6; i++)
        seen |= (size_t) 1 << order[i];
    CHECK_INT(seen, 63);
    for (int i = 0; i < 1000; i++)
        CHECK(csn_rng_below(&rng, 7) < 7);
}
