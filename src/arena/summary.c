/* From many runs to what can be said about each candidate, and about the two best. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "base/fault.h"
#include "stats.h"

#define SIGNIFICANT 0.05

csn_arena_result *csn_arena_result_free(csn_arena_result *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->n_runs; i++) { /* `results` are some of the runs */
        csn_candidate_result_free(r->runs[i]);
        csn_score_done(&r->run_scores[i]);
    }
    for (size_t i = 0; i < r->n_candidates; i++) {
        if (r->scores)
            csn_score_done(&r->scores[i]);
        if (r->names)
            free(r->names[i]);
        if (r->descriptions)
            free(r->descriptions[i]);
        if (r->scripts)
            free(r->scripts[i]);
    }
    if (r->comparison)
        free(r->comparison->verdict);
    free(r->comparison);
    free(r->objective);
    free(r->timestamp);
    free(r->artifacts_dir);
    free(r->artifact_name);
    free(r->environment);
    free(r->no_sandbox);
    free(r->results);
    free(r->scores);
    free(r->names);
    free(r->descriptions);
    free(r->scripts);
    free(r->script_lens);
    free(r->runs);
    free(r->run_candidate);
    free(r->run_scores);
    free(r->stats);
    free(r);
    return NULL;
}

/* The runs of one candidate in the order of their trials. */
static size_t runs_of(const csn_arena_result *r, size_t candidate, size_t *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_runs; i++)
        if (r->run_candidate[i] == candidate)
            ret[n++] = i;
    return n;
}

static void summarise_one(csn_arena_result *r, size_t candidate, const size_t *runs, size_t n,
                          double *room)
{
    csn_trial_stats *s = &r->stats[candidate];
    bool is_unknown = false;
    size_t k = 0;

    s->n = (unsigned) n;
    for (size_t i = 0; i < n; i++)
        s->n_success += r->runs[runs[i]]->success != 0;
    s->success_rate = n ? (double) s->n_success / (double) n : 0;
    csn_wilson(s->n_success, s->n, &s->wilson_low, &s->wilson_high);
    for (size_t i = 0; i < n; i++)
        if (r->runs[runs[i]]->exit_code >= 0)
            room[k++] = r->runs[runs[i]]->exec_seconds;
    s->exec_seconds = csn_spread_of(room, k);
    k = 0;
    for (size_t i = 0; i < n; i++) {
        const csn_candidate_result *run = r->runs[runs[i]];

        if (run->has_receipt && run->receipt.peak_memory_bytes >= 0)
            room[k++] = (double) run->receipt.peak_memory_bytes;
        else
            is_unknown = is_unknown || run->has_receipt;
    }
    s->peak_memory_bytes = csn_spread_of(room, k);
    if (k == 0 && is_unknown)
        s->peak_memory_bytes = (csn_spread){ NAN, NAN, NAN, NAN, NAN };
    for (size_t i = 0; i < n; i++)
        room[i] = r->run_scores[runs[i]].total_score;
    s->total_score = csn_spread_of(room, n);
}

static char *verdict_of(const csn_arena_result *r, const csn_comparison *c)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    if (c->is_significant) {
        csn_buf_printf(&text,
                       "%s beats %s: median total %+.1f points over %u paired trials (p = %.2g)",
                       r->names[c->a], r->names[c->b], c->median_difference, c->n, c->p_value);
        return csn_buf_take(&text, NULL);
    }
    csn_buf_printf(&text, "no significant difference at n=%u between %s and %s (p = %.2g)", c->n,
                   r->names[c->a], r->names[c->b], c->p_value);
    if (c->smallest_p >= SIGNIFICANT)
        csn_buf_printf(&text, "; so few trials can't show one: use at least 6");
    return csn_buf_take(&text, NULL);
}

static double median_ratio(const csn_arena_result *r, const size_t *a, const size_t *b, size_t n,
                           double *room)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        if (r->runs[b[i]]->exec_seconds > 0 && r->runs[a[i]]->exec_seconds > 0)
            room[k++] = r->runs[a[i]]->exec_seconds / r->runs[b[i]]->exec_seconds;
    return csn_spread_of(room, k).median;
}

/* Trial by trial: what both met at the same time cancels out. */
static int compare(csn_arena_result *r, size_t first, size_t second, size_t *runs, double *room)
{
    size_t n = r->n_trials, *a = runs, *b = runs + n;
    csn_comparison *c = csn_calloc(1, sizeof(*c));

    if (!c)
        return -ENOMEM;
    r->comparison = c;
    (void) runs_of(r, first, a);
    (void) runs_of(r, second, b);
    c->a = first;
    c->b = second;
    c->n = r->n_trials;
    for (size_t i = 0; i < n; i++)
        room[i] = r->run_scores[a[i]].total_score - r->run_scores[b[i]].total_score;
    c->p_value = csn_signed_rank_p(room, n, &c->smallest_p);
    c->median_difference = csn_spread_of(room, n).median;
    c->median_time_ratio = median_ratio(r, a, b, n, room);
    c->is_significant = c->p_value >= 0 && c->p_value < SIGNIFICANT;
    c->verdict = verdict_of(r, c);
    return c->p_value >= 0 && c->verdict ? 0 : -ENOMEM;
}

static int score_one(csn_arena_result *r, size_t candidate, const size_t *runs, size_t n)
{
    const csn_score **trials = csn_calloc(n + 1, sizeof(const csn_score *));
    int e;

    if (!trials)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        trials[i] = &r->run_scores[runs[i]];
    e = csn_score_mean(&r->scores[candidate], trials, n, r->results[candidate]);
    free(trials);
    return e;
}

/* All runs failed before they began. The first one's reason: they have one cause. */
static int note_no_sandbox(csn_arena_result *r)
{
    static const char words[] = "Could not create sandbox";
    const char *why;

    for (size_t i = 0; i < r->n_runs; i++)
        if (!r->runs[i]->error_message ||
            strncmp(r->runs[i]->error_message, words, strlen(words)) != 0)
            return 0;
    if (r->n_runs == 0)
        return 0;
    why = r->runs[0]->error_message + strlen(words);
    r->no_sandbox = csn_strdup(strncmp(why, ": ", 2) == 0 ? why + 2 : why);
    return r->no_sandbox ? 0 : -ENOMEM;
}

int csn_arena_summarise(csn_arena_result *r)
{
    size_t *runs = csn_calloc(2 * (size_t) r->n_trials + 1, sizeof(*runs));
    double *room = csn_calloc((size_t) r->n_trials + 1, sizeof(*room));
    int64_t second = -1;
    int e = runs && room ? 0 : -ENOMEM;

    for (size_t i = 0; e == 0 && i < r->n_candidates; i++) {
        size_t n = runs_of(r, i, runs);

        summarise_one(r, i, runs, n, room);
        e = score_one(r, i, runs, n);
    }
    if (e == 0)
        e = note_no_sandbox(r);
    if (e == 0)
        r->winner = csn_score_winner(r->scores, r->n_candidates, &second);
    if (r->cancelled) /* who was still running might have won */
        r->winner = second = -1;
    if (e == 0 && second >= 0 && r->n_trials > 1)
        e = compare(r, (size_t) r->winner, (size_t) second, runs, room);
    free(runs);
    free(room);
    return e;
}
