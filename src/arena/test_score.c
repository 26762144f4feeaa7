#include <math.h>
#include <stdlib.h>

#include "base/fault.h"
#include "csn_test.h"
#include "job.h"
#include "score.h"

static void free_result(void *user)
{
    csn_candidate_result_free(user);
}

static csn_candidate_result *a_result(const char *artifact, int exit_code, double seconds)
{
    csn_candidate_result *r = csn_result_new("x");

    csn_test_defer(free_result, r);
    r->exit_code = exit_code;
    r->t_exec = 0;
    r->exec_seconds = seconds;
    r->success = exit_code == 0 && artifact;
    if (artifact) {
        r->artifact_content = csn_strdup(artifact);
        r->artifact_len = strlen(artifact);
    }
    return r;
}

static csn_score scored(csn_candidate_result *r, const char *check, const csn_quality *q)
{
    csn_score_rules rules = { .weights = { 0.2, 0.6, 0.2 }, .has_scorer = q != NULL };
    csn_auto(buf) csn_buf details = CSN_BUF_INIT;
    csn_artifact_check c;
    csn_check_set *set = NULL;
    csn_score s;

    if (check)
        CHECK_INT(csn_artifact_check_parse(check, &c, NULL), CSN_OK);
    CHECK_INT(csn_check_set_new(&c, check ? 1 : 0, &set, NULL), CSN_OK);
    rules.checks = set;
    CHECK_INT(csn_score_gates(&s, r, &rules, &details), 0);
    CHECK_INT(csn_score_finish(&s, r, &rules, s.disqualified ? NULL : q, &details, 60), 0);
    csn_check_set_free(set);
    csn_test_defer(free, s.reason);
    csn_test_defer(free, s.quality);
    return s;
}

TEST(the_total_is_the_stated_formula)
{
    csn_quality q = { .score = 50 };
    csn_score s = scored(a_result("a long enough text", 0, 15), NULL, &q);

    CHECK(!s.disqualified && s.success);
    CHECK(fabs(s.speed_score - 75) < 1e-9);
    CHECK(fabs(s.total_score - (20 + 30 + 15)) < 1e-9);
}

TEST(without_a_scorer_quality_is_all_or_nothing)
{
    CHECK(scored(a_result("a long enough text", 0, 0), NULL, NULL).quality_score == 100);
    CHECK(scored(a_result("a long enough text", 0, 0), "contains:absent", NULL).quality_score == 0);
}

TEST(every_gate_disqualifies_and_says_why)
{
    csn_candidate_result *r;

    CHECK_STR(scored(a_result("0123456789", 0, 0), NULL, NULL).reason,
              "artifact has 10 characters or fewer");
    CHECK_STR(scored(a_result("  0 1 2 3 4 5 6 7 8 9  \n", 0, 0), NULL, NULL).reason,
              "artifact has 10 characters or fewer");
    CHECK(!scored(a_result("01234567890", 0, 0), NULL, NULL).disqualified);
    CHECK_STR(scored(a_result(NULL, 0, 0), NULL, NULL).reason, "no artifact");
    CHECK_STR(scored(a_result("a long enough text", 3, 0), NULL, NULL).reason, "exit code 3");
    r = a_result(NULL, -1, 60);
    r->timed_out = 1;
    CHECK_STR(scored(r, NULL, NULL).reason, "timed out");
    CHECK_STR(scored(a_result("a long enough text", 0, 0), "contains:absent", NULL).reason,
              "check contains:absent: not found");
}

TEST(speed_never_goes_below_zero)
{
    CHECK(scored(a_result("a long enough text", 0, 90), NULL, NULL).speed_score == 0);
}

TEST(the_winner_is_the_best_qualified_and_ties_are_broken_in_order)
{
    csn_score s[4] = { { .total_score = 90, .disqualified = 1 },
                       { .total_score = 70, .quality_score = 60, .exec_seconds = 2 },
                       { .total_score = 70, .quality_score = 80, .exec_seconds = 2 },
                       { .total_score = 70, .quality_score = 80, .exec_seconds = 1 } };
    int64_t second;

    CHECK_INT(csn_score_winner(s, 4, &second), 3);
    CHECK_INT(second, 2);
    s[3].exec_seconds = 2; /* equal in all: input order */
    CHECK_INT(csn_score_winner(s, 4, NULL), 2);
    for (int i = 0; i < 4; i++)
        s[i].disqualified = 1;
    CHECK_INT(csn_score_winner(s, 4, &second), -1);
    CHECK_INT(second, -1);
}

static csn_quality parsed(const char *text)
{
    csn_quality q;

    CHECK_INT(csn_quality_parse(text, strlen(text), &q), 0);
    csn_test_defer(free, q.details);
    csn_test_defer(free, q.error);
    return q;
}

TEST(a_scorer_is_taken_at_its_word_only_when_it_makes_sense)
{
    csn_quality q = parsed("{\"quality\": 87.5, \"details\": {\"items\": 12}}\n");

    CHECK(q.score == 87.5 && !q.error);
    CHECK_STR(q.details, "{\"items\":12}");
    CHECK(parsed("{\"quality\": 101}").error);
    CHECK(parsed("{\"quality\": -1}").error);
    CHECK(parsed("{\"quality\": \"high\"}").error);
    CHECK(parsed("{}").error);
    CHECK(parsed("hello").error);
    CHECK(parsed("").error);
    CHECK(parsed("{\"quality\": 1e999}").error);
}

TEST(trials_count_as_means_and_the_majority_must_pass)
{
    csn_candidate_result *shown = a_result("a long enough text", 0, 0);
    csn_score a = { .candidate_id = shown->candidate_id, .total_score = 80, .success = 1 };
    csn_score b = { .candidate_id = "x",
                    .total_score = 20,
                    .disqualified = 1,
                    .reason = csn_strdup("exit code 1") };
    const csn_score *two[] = { &a, &b }, *three[] = { &a, &a, &b };
    csn_score mean;

    CHECK_INT(csn_score_mean(&mean, two, 2, shown), 0);
    CHECK(mean.total_score == 50 && mean.disqualified);
    CHECK_STR(mean.reason, "1 of 2 trials passed: exit code 1");
    free(mean.reason);
    free(b.reason);
    b.reason = NULL;
    CHECK_INT(csn_score_mean(&mean, three, 3, shown), 0);
    CHECK(fabs(mean.total_score - 60) < 1e-9 && !mean.disqualified);
}
