/* The state of one arena run. */
#ifndef CSN_ARENA_ARENA_H
#define CSN_ARENA_ARENA_H

#include <stdbool.h>

#include <caisson/arena.h>

#include "check.h"
#include "entry.h"
#include "pump.h"
#include "score.h"
#include "stats.h"

typedef struct csn_arena {
    csn_arena_options o;
    csn_run_options run; /* o.run with its defaults filled in */
    csn_arena_result *result;
    csn_engine *engine; /* the caller's, or own_engine */
    csn_engine *own_engine;
    csn_pump pump;
    csn_entry *entries;  /* per candidate */
    char **dirs;         /* per candidate; NULL: nothing is saved */
    unsigned *run_trial; /* per run */
    csn_buf *details;    /* per run: what the checks said, until it is settled */
    csn_list judgements;
    csn_check_set *checks;
    csn_score_rules rules;
    size_t n_started, n_settled;
    /* since the last dispatch: a refusal ends at once, so a thousand must not pile up */
    unsigned n_begun_now;
    int64_t origin_ns;
    bool is_cancelled, out_of_memory;
} csn_arena;

/* Scores, statistics, winner and comparison from the runs. 0 or -ENOMEM. */
int csn_arena_summarise(csn_arena_result *result);

#endif
