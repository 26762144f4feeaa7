#include "score.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/utf8.h"

#define MIN_CHARACTERS 10

void csn_score_done(csn_score *score)
{
    free(score->reason);
    free(score->quality);
    score->reason = score->quality = NULL;
}

/* Characters that are not white space, as far as it matters here. */
static size_t count_characters(const char *data, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n <= MIN_CHARACTERS;) {
        unsigned code = 0;
        int step = csn_utf8_next(data + i, len - i, &code);
        bool is_blank = step > 0 && code < 0x80 && isspace((int) code);

        if (step <= 0)
            step = 1;
        n += !is_blank;
        i += (size_t) step;
    }
    return n;
}

/* The generic gates. Half a sentence, or NULL when all are passed. */
static const char *closed_gate(const csn_candidate_result *r, csn_buf *text)
{
    if (r->cancelled)
        csn_buf_puts(text, "cancelled");
    else if (r->timed_out)
        csn_buf_puts(text, "timed out");
    else if (r->exit_code < 0)
        csn_buf_puts(text, r->error_message ? r->error_message : "did not run");
    else if (r->exit_code != 0)
        csn_buf_printf(text, "exit code %d", r->exit_code);
    else if (!r->artifact_content)
        csn_buf_puts(text, "no artifact");
    else if (count_characters(r->artifact_content, r->artifact_len) <= MIN_CHARACTERS)
        csn_buf_printf(text, "artifact has %d characters or fewer", MIN_CHARACTERS);
    return text->len > 0 ? text->data : NULL;
}

static int disqualify(csn_score *score, const char *why)
{
    score->disqualified = 1;
    if (score->reason)
        return 0;
    score->reason = csn_strdup(why);
    return score->reason ? 0 : -ENOMEM;
}

static int ask_checks(csn_score *score, const csn_candidate_result *r, const csn_score_rules *rules,
                      csn_jw *w)
{
    csn_auto(buf) csn_buf name = CSN_BUF_INIT;
    csn_auto(buf) csn_buf why = CSN_BUF_INIT;
    csn_auto(buf) csn_buf reason = CSN_BUF_INIT;
    double earned = 0, possible = 0;

    csn_jw_key(w, "checks");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < csn_check_set_count(rules->checks); i++) {
        const csn_artifact_check *check = csn_check_set_at(rules->checks, i);
        bool passed;

        csn_buf_clear(&name);
        csn_buf_clear(&why);
        csn_check_name(check, &name);
        passed = csn_check_ask(rules->checks, i, r->artifact_content, r->artifact_len, &why);
        csn_jw_begin_object(w);
        csn_jw_kstr(w, "check", name.data);
        csn_jw_kbool(w, "passed", passed);
        if (!passed)
            csn_jw_kstr(w, "why", why.data);
        if (check->points > 0)
            csn_jw_kdouble(w, "points", check->points);
        csn_jw_end_object(w);
        possible += check->points;
        earned += passed ? check->points : 0;
        if (!passed && check->points <= 0) {
            csn_buf_clear(&reason);
            csn_buf_printf(&reason, "check %s: %s", name.data, why.data);
            if (disqualify(score, reason.data) < 0)
                return -ENOMEM;
        }
    }
    csn_jw_end_array(w);
    score->quality_score = possible > 0 ? 100 * earned / possible : 100;
    return name.error < 0 || why.error < 0 ? -ENOMEM : 0;
}

/* `details` stays an open JSON object: csn_score_finish() closes it. */
int csn_score_gates(csn_score *score, const csn_candidate_result *result,
                    const csn_score_rules *rules, csn_buf *details)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf checks = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&checks, false);
    const char *closed = closed_gate(result, &text);

    *score = (csn_score){
        .candidate_id = result->candidate_id,
        .success = result->success,
        .produced_output = result->output_bytes > 0,
        .error_occurred = result->error_message != NULL,
        .error_message = result->error_message,
        .runtime_seconds = result->runtime_seconds,
        .exec_seconds = result->exec_seconds,
    };
    csn_buf_clear(details);
    if (closed)
        return disqualify(score, closed);
    csn_jw_begin_object(&w);
    if (ask_checks(score, result, rules, &w) < 0)
        return -ENOMEM;
    csn_jw_end_object(&w);
    if (csn_check_set_count(rules->checks) > 0)
        csn_buf_append(details, checks.data, checks.len);
    return checks.error < 0 || details->error < 0 ? -ENOMEM : 0;
}

static int keep_quality(csn_score *score, const csn_quality *q, const csn_buf *checks)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    if (!q && checks->len == 0)
        return 0;
    csn_jw_begin_object(&w);
    if (checks->len > 0) { /* {"checks":[…]}: its inside */
        csn_jw_key(&w, "checks");
        csn_jw_raw(&w, checks->data + strlen("{\"checks\":"),
                   checks->len - strlen("{\"checks\":}"));
    }
    if (q && q->details) {
        csn_jw_key(&w, "details");
        csn_jw_raw(&w, q->details, strlen(q->details));
    }
    if (q && q->error)
        csn_jw_kstr(&w, "error", q->error);
    csn_jw_end_object(&w);
    score->quality = csn_buf_take(&out, NULL);
    return score->quality ? 0 : -ENOMEM;
}

int csn_score_finish(csn_score *score, const csn_candidate_result *result,
                     const csn_score_rules *rules, const csn_quality *quality, csn_buf *details,
                     double timeout_seconds)
{
    double speed = 0;

    if (quality)
        score->quality_score = quality->score;
    if (score->disqualified || (rules->has_scorer && !quality))
        score->quality_score = 0;
    if (result->t_exec >= 0 && timeout_seconds > 0) /* it ran */
        speed = 100 * fmax(0, 1 - result->exec_seconds / timeout_seconds);
    score->speed_score = speed;
    score->total_score = rules->weights[0] * (score->success ? 100 : 0) +
                         rules->weights[1] * score->quality_score + rules->weights[2] * speed;
    return keep_quality(score, quality, details);
}

bool csn_weights_are_good(const double weights[3])
{
    double sum = weights[0] + weights[1] + weights[2];

    /* written so that NaN is none of them */
    return weights[0] >= 0 && weights[1] >= 0 && weights[2] >= 0 && sum > 0.999999 &&
           sum < 1.000001;
}

static bool is_better(const csn_score *a, const csn_score *b)
{
    if (a->total_score > b->total_score || a->total_score < b->total_score)
        return a->total_score > b->total_score;
    if (a->quality_score > b->quality_score || a->quality_score < b->quality_score)
        return a->quality_score > b->quality_score;
    return a->exec_seconds < b->exec_seconds; /* equal too: the earlier in the input stays */
}

static int64_t best_but(const csn_score *scores, size_t n, int64_t but)
{
    int64_t best = -1;

    for (size_t i = 0; i < n; i++)
        if (!scores[i].disqualified && (int64_t) i != but &&
            (best < 0 || is_better(&scores[i], &scores[best])))
            best = (int64_t) i;
    return best;
}

int64_t csn_score_winner(const csn_score *scores, size_t n, int64_t *ret_second)
{
    int64_t best = best_but(scores, n, -1);

    if (ret_second)
        *ret_second = best < 0 ? -1 : best_but(scores, n, best);
    return best;
}

int csn_score_mean(csn_score *score, const csn_score *const *trials, size_t n,
                   const csn_candidate_result *shown)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    size_t n_passed = 0, n_success = 0;
    const csn_score *like = trials[0];

    for (size_t i = 0; i < n; i++) {
        n_passed += !trials[i]->disqualified;
        n_success += trials[i]->success != 0;
    }
    for (size_t i = 0; i < n; i++)
        if (trials[i]->candidate_id == shown->candidate_id)
            like = trials[i];
    *score = (csn_score){
        .candidate_id = shown->candidate_id,
        .success = 2 * n_success > n,
        .produced_output = like->produced_output,
        .error_occurred = shown->error_message != NULL,
        .error_message = shown->error_message,
    };
    for (size_t i = 0; i < n; i++) {
        score->quality_score += trials[i]->quality_score / (double) n;
        score->runtime_seconds += trials[i]->runtime_seconds / (double) n;
        score->exec_seconds += trials[i]->exec_seconds / (double) n;
        score->speed_score += trials[i]->speed_score / (double) n;
        score->total_score += trials[i]->total_score / (double) n;
    }
    if (like->quality && !(score->quality = csn_strdup(like->quality)))
        return -ENOMEM;
    if (2 * n_passed > n)
        return 0;
    for (size_t i = 0; i < n && !like->reason; i++)
        like = trials[i];
    if (n > 1)
        csn_buf_printf(&text, "%zu of %zu trials passed: ", n_passed, n);
    csn_buf_puts(&text, like->reason ? like->reason : "");
    return disqualify(score, text.data);
}

void csn_quality_done(csn_quality *quality)
{
    free(quality->details);
    free(quality->error);
    *quality = (csn_quality){ 0 };
}

static int no_quality(csn_quality *q, const char *why)
{
    q->score = 0;
    q->error = csn_strdup(why);
    return q->error ? 0 : -ENOMEM;
}

int csn_quality_parse(const char *data, size_t len, csn_quality *ret)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(buf) csn_buf details = CSN_BUF_INIT_MAX(65536);
    const csn_json *v;
    char where[160];
    double score;

    *ret = (csn_quality){ 0 };
    if (csn_json_parse(data, len, &doc, where) < 0)
        return no_quality(ret, "the scorer did not print one JSON object");
    score = csn_json_get_double(doc, "quality", -1);
    if (!(score >= 0 && score <= 100))
        return no_quality(ret, "the scorer printed no \"quality\" from 0 to 100");
    ret->score = score;
    v = csn_json_get(doc, "details");
    if (csn_json_type_of(v) == CSN_JSON_NONE)
        return 0;
    if (csn_json_dump(v, false, &details) < 0)
        return 0; /* details beyond all measure are left out, the number stands */
    ret->details = csn_buf_take(&details, NULL);
    return ret->details ? 0 : -ENOMEM;
}
