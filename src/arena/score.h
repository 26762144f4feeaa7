/* From results to a winner: hard gates, quality, speed, one total. */
#ifndef CSN_ARENA_SCORE_H
#define CSN_ARENA_SCORE_H

#include <stdbool.h>

#include <caisson/arena.h>

#include "base/buf.h"
#include "check.h"

typedef struct csn_score_rules {
    const csn_check_set *checks; /* borrowed */
    double weights[3];           /* success, quality, speed */
    bool has_scorer;             /* quality comes from csn_score_take_quality() */
} csn_score_rules;

/* What the scorer printed. Valid until freed by csn_quality_done(). */
typedef struct csn_quality {
    double score;  /* 0 … 100 */
    char *details; /* JSON, or NULL */
    char *error;   /* why there is none, or NULL */
} csn_quality;
int csn_quality_parse(const char *data, size_t len, csn_quality *ret); /* 0 or -ENOMEM */
void csn_quality_done(csn_quality *quality);

/* Gates and checks of one run; afterwards score->disqualified says whether a scorer is worth asking. 0 or -ENOMEM. */
int csn_score_gates(csn_score *score, const csn_candidate_result *result,
                    const csn_score_rules *rules, csn_buf *details);

/* Quality (NULL: none was asked), speed and the total. `details` is what csn_score_gates() wrote. 0 or -ENOMEM. */
int csn_score_finish(csn_score *score, const csn_candidate_result *result,
                     const csn_score_rules *rules, const csn_quality *quality, csn_buf *details,
                     double timeout_seconds);

/* A candidate's score over its trials: means; disqualified unless more than half of them passed. 0 or -ENOMEM. */
int csn_score_mean(csn_score *score, const csn_score *const *trials, size_t n,
                   const csn_candidate_result *shown);

/* The index of the best that is not disqualified, or -1; *ret_second (may be NULL) the next one, or -1. */
int64_t csn_score_winner(const csn_score *scores, size_t n, int64_t *ret_second);

void csn_score_done(csn_score *score);

/* Numbers, 0 or more, that sum to 1. */
bool csn_weights_are_good(const double weights[3]);

#endif
