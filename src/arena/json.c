#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/utf8.h"

#define SINK_FULL ((size_t) 256 << 10)

void csn_sink_init(csn_sink *sink, int fd)
{
    sink->fd = fd;
    sink->buf =
        (csn_buf) CSN_BUF_INIT_MAX((size_t) 1 << 30); /* one value at most: see output_bytes */
    sink->error = 0;
}

void csn_sink_flush(csn_sink *sink, bool all)
{
    if (sink->buf.error < 0 && sink->error == 0)
        sink->error = sink->buf.error;
    if (sink->buf.len == 0 || (!all && sink->buf.len < SINK_FULL))
        return;
    if (sink->error == 0)
        sink->error = csn_write_all(sink->fd, sink->buf.data, sink->buf.len);
    if (sink->buf.cap > 4 * SINK_FULL)
        csn_buf_free(&sink->buf);
    else
        csn_buf_clear(&sink->buf);
}

int csn_sink_done(csn_sink *sink, csn_error *err)
{
    csn_sink_flush(sink, true);
    csn_buf_free(&sink->buf);
    return sink->error < 0 ? csn_fail_sys(err, sink->error, "write the report") : CSN_OK;
}

static void put_base64(csn_jw *w, const char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    csn_auto(buf) csn_buf out = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    const unsigned char *p = (const unsigned char *) data;

    csn_buf_reserve(&out, len / 3 * 4 + 8);
    csn_buf_putc(&out, '"');
    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        unsigned v = (unsigned) p[i] << 16 | (n > 1 ? (unsigned) p[i + 1] << 8 : 0) |
                     (n > 2 ? p[i + 2] : 0u);
        char four[4] = { digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                         n > 2 ? digits[v & 63] : '=' };

        csn_buf_append(&out, four, 4);
    }
    csn_buf_putc(&out, '"');
    csn_jw_raw(w, out.data, out.len);
}

void csn_put_bytes(csn_sink *sink, csn_jw *w, const char *key, const char *data, size_t len)
{
    char longer[80];

    if (!data) {
        csn_jw_kstr(w, key, NULL);
        return;
    }
    csn_jw_key(w, key);
    csn_jw_string(w, data, len);
    csn_sink_flush(sink, false);
    if (csn_utf8_valid(data, len))
        return;
    (void) snprintf(longer, sizeof(longer), "%s_base64", key);
    csn_jw_key(w, longer);
    put_base64(w, data, len);
    csn_sink_flush(sink, false);
}

static void put_receipt(csn_jw *w, const csn_candidate_result *r)
{
    char text[4096];

    if (!r->has_receipt) {
        csn_jw_kstr(w, "receipt", NULL);
        return;
    }
    csn_jw_key(w, "receipt");
    if (csn_receipt_json(&r->receipt, text, sizeof(text)) < sizeof(text))
        csn_jw_raw(w, text, strlen(text));
    else
        csn_jw_null(w);
}

static void put_maybe_int(csn_jw *w, const char *key, int64_t v, bool has)
{
    if (has)
        csn_jw_kint(w, key, v);
    else
        csn_jw_kstr(w, key, NULL);
}

static void put_facts(csn_jw *w, const csn_candidate_result *r)
{
    put_maybe_int(w, "exit_code", r->exit_code, r->exit_code >= 0);
    csn_jw_kbool(w, "timed_out", r->timed_out);
    csn_jw_kdouble(w, "exec_seconds", r->exec_seconds);
    csn_jw_kbool(w, "output_truncated", r->output_truncated);
    csn_jw_kint(w, "output_bytes", r->output_bytes);
    put_maybe_int(w, "artifact_bytes", r->artifact_bytes, r->artifact_bytes >= 0);
    csn_jw_kstr(w, "artifact_path", r->artifact_path);
    csn_jw_kstr(w, "artifact_file", r->artifact_file);
}

static void put_result_members(csn_sink *sink, csn_jw *w, const csn_candidate_result *r)
{
    csn_jw_kstr(w, "candidate_id", r->candidate_id);
    csn_jw_kstr(w, "sandbox_id", r->sandbox_id);
    csn_jw_kbool(w, "success", r->success);
    csn_put_bytes(sink, w, "output", r->output, r->output_len);
    csn_put_bytes(sink, w, "artifact_content", r->artifact_content, r->artifact_len);
    csn_jw_kdouble(w, "runtime_seconds", r->runtime_seconds);
    csn_jw_kstr(w, "error_message", r->error_message);
    put_facts(w, r);
    csn_put_bytes(sink, w, "stderr", r->stderr_data, r->stderr_len);
    csn_put_bytes(sink, w, "setup_output", r->setup_output, r->setup_output_len);
    csn_jw_kbool(w, "cancelled", r->cancelled);
    csn_jw_kstr(w, "advice", csn_candidate_advice(r->error_message));
    put_receipt(w, r);
}

void csn_put_result(csn_sink *sink, csn_jw *w, const csn_candidate_result *r)
{
    csn_jw_begin_object(w);
    put_result_members(sink, w, r);
    csn_jw_end_object(w);
}

static void put_score(csn_jw *w, const csn_score *s, const char *name)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "candidate_id", s->candidate_id);
    if (name)
        csn_jw_kstr(w, "name", name);
    csn_jw_kbool(w, "success", s->success);
    csn_jw_kbool(w, "produced_output", s->produced_output);
    csn_jw_kbool(w, "error_occurred", s->error_occurred);
    csn_jw_kstr(w, "error_message", s->error_message);
    csn_jw_key(w, "quality");
    if (s->quality)
        csn_jw_raw(w, s->quality, strlen(s->quality));
    else
        csn_jw_null(w);
    csn_jw_kdouble(w, "quality_score", s->quality_score);
    csn_jw_kdouble(w, "runtime_seconds", s->runtime_seconds);
    csn_jw_kdouble(w, "exec_seconds", s->exec_seconds);
    csn_jw_kdouble(w, "speed_score", s->speed_score);
    csn_jw_kdouble(w, "total_score", s->total_score);
    csn_jw_kstr(w, "verdict", csn_text_verdict(s));
    csn_jw_kbool(w, "disqualified", s->disqualified);
    csn_jw_kstr(w, "reason", s->reason);
    csn_jw_end_object(w);
}

static void put_spread(csn_jw *w, const char *key, const csn_spread *s)
{
    csn_jw_key(w, key);
    csn_jw_begin_object(w);
    csn_jw_kdouble(w, "median", s->median);
    csn_jw_kdouble(w, "q1", s->q1);
    csn_jw_kdouble(w, "q3", s->q3);
    csn_jw_kdouble(w, "iqr", s->q3 - s->q1);
    csn_jw_kdouble(w, "min", s->min);
    csn_jw_kdouble(w, "max", s->max);
    csn_jw_end_object(w);
}

static void put_stats(csn_jw *w, const csn_trial_stats *s, const char *id)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "candidate_id", id);
    csn_jw_kint(w, "n", s->n);
    csn_jw_kint(w, "n_success", s->n_success);
    csn_jw_kdouble(w, "success_rate", s->success_rate);
    csn_jw_key(w, "wilson_95");
    csn_jw_begin_array(w);
    csn_jw_double(w, s->wilson_low);
    csn_jw_double(w, s->wilson_high);
    csn_jw_end_array(w);
    put_spread(w, "exec_seconds", &s->exec_seconds);
    put_spread(w, "peak_memory_bytes", &s->peak_memory_bytes);
    put_spread(w, "total_score", &s->total_score);
    csn_jw_end_object(w);
}

static void put_comparison(csn_jw *w, const csn_arena_result *a)
{
    const csn_comparison *c = a->comparison;

    csn_jw_key(w, "comparison");
    if (!c) {
        csn_jw_null(w);
        return;
    }
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "a", a->results[c->a]->candidate_id);
    csn_jw_kstr(w, "b", a->results[c->b]->candidate_id);
    csn_jw_kint(w, "n", c->n);
    csn_jw_kstr(w, "test", "Wilcoxon signed-rank, paired by trial, two-sided");
    csn_jw_kdouble(w, "median_difference", c->median_difference);
    csn_jw_kdouble(w, "median_time_ratio", c->median_time_ratio);
    csn_jw_kdouble(w, "p_value", c->p_value);
    csn_jw_kdouble(w, "smallest_p", c->smallest_p);
    csn_jw_kbool(w, "significant", c->is_significant);
    csn_jw_kstr(w, "verdict", c->verdict);
    csn_jw_end_object(w);
}

static void put_run(csn_jw *w, const csn_arena_result *a, size_t i)
{
    const csn_candidate_result *r = a->runs[i];

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "candidate_id", r->candidate_id);
    csn_jw_kint(w, "trial", r->trial);
    csn_jw_kstr(w, "sandbox_id", r->sandbox_id);
    csn_jw_kbool(w, "success", r->success);
    csn_jw_kdouble(w, "runtime_seconds", r->runtime_seconds);
    csn_jw_kstr(w, "error_message", r->error_message);
    put_facts(w, r);
    csn_jw_kdouble(w, "quality_score", a->run_scores[i].quality_score);
    csn_jw_kdouble(w, "speed_score", a->run_scores[i].speed_score);
    csn_jw_kdouble(w, "total_score", a->run_scores[i].total_score);
    csn_jw_kstr(w, "verdict", csn_text_verdict(&a->run_scores[i]));
    csn_jw_kbool(w, "disqualified", a->run_scores[i].disqualified);
    csn_jw_key(w, "moments");
    csn_jw_begin_object(w);
    csn_jw_kdouble(w, "start", r->t_start);
    csn_jw_kdouble(w, "ready", r->t_ready);
    csn_jw_kdouble(w, "exec", r->t_exec);
    csn_jw_kdouble(w, "exec_end", r->t_exec_end);
    csn_jw_kdouble(w, "end", r->t_end);
    csn_jw_end_object(w);
    put_receipt(w, r);
    csn_jw_end_object(w);
}

static void put_head(csn_sink *sink, csn_jw *w, const csn_arena_result *a)
{
    const csn_candidate_result *best = a->winner >= 0 ? a->results[a->winner] : NULL;

    csn_put_bytes(sink, w, "objective", a->objective, a->objective_len);
    csn_jw_kstr(w, "timestamp", a->timestamp);
    csn_jw_kstr(w, "execution_mode", a->execution_mode);
    csn_jw_kbool(w, "fell_back", a->fell_back);
    csn_jw_kbool(w, "cancelled", a->cancelled);
    csn_jw_kstr(w, "no_sandbox", a->no_sandbox);
    csn_jw_kstr(w, "winner_id", best ? best->candidate_id : NULL);
    csn_jw_key(w, "winner_score");
    if (best)
        csn_jw_double(w, a->scores[a->winner].total_score);
    else
        csn_jw_null(w);
    csn_put_bytes(sink, w, "winner_artifact", best ? best->artifact_content : NULL,
                  best ? best->artifact_len : 0);
    csn_jw_kstr(w, "artifacts_dir", a->artifacts_dir);
    csn_jw_kstr(w, "environment", a->environment);
    csn_jw_kint(w, "trials", a->n_trials);
    csn_jw_kint(w, "jobs", a->n_jobs);
    csn_jw_kint(w, "seed", (int64_t) a->seed);
    csn_jw_kdouble(w, "timeout_seconds", a->timeout_seconds);
    csn_jw_kdouble(w, "wall_seconds", a->wall_seconds);
    csn_jw_key(w, "weights");
    csn_jw_begin_object(w);
    csn_jw_kdouble(w, "success", a->weights[0]);
    csn_jw_kdouble(w, "quality", a->weights[1]);
    csn_jw_kdouble(w, "speed", a->weights[2]);
    csn_jw_end_object(w);
}

/* A candidate as the forge gives it: what it is, its result, and its artifact under that name too. */
static void put_candidate(csn_sink *sink, csn_jw *w, const csn_arena_result *a, size_t i)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", a->results[i]->candidate_id);
    csn_jw_kstr(w, "name", a->names[i]);
    csn_jw_kstr(w, "description", a->descriptions[i]);
    csn_put_bytes(sink, w, "script", a->scripts[i], a->script_lens[i]);
    csn_put_bytes(sink, w, "artifact", a->results[i]->artifact_content,
                  a->results[i]->artifact_len);
    put_result_members(sink, w, a->results[i]);
    csn_jw_end_object(w);
    csn_sink_flush(sink, false);
}

void csn_put_arena(csn_sink *sink, csn_jw *w, const csn_arena_result *a)
{
    csn_jw_begin_object(w);
    put_head(sink, w, a);
    csn_jw_key(w, "candidates");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < a->n_candidates; i++)
        put_candidate(sink, w, a, i);
    csn_jw_end_array(w);
    csn_jw_key(w, "scores");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < a->n_candidates; i++)
        put_score(w, &a->scores[i], a->names[i]);
    csn_jw_end_array(w);
    csn_jw_key(w, "statistics");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < a->n_candidates; i++)
        put_stats(w, &a->stats[i], a->results[i]->candidate_id);
    csn_jw_end_array(w);
    put_comparison(w, a);
    csn_jw_key(w, "runs");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < a->n_runs; i++) {
        put_run(w, a, i);
        csn_sink_flush(sink, false);
    }
    csn_jw_end_array(w);
    csn_jw_end_object(w);
    csn_buf_putc(&sink->buf, '\n');
}

int csn_candidate_result_json(const csn_candidate_result *result, int fd, csn_error *err)
{
    csn_sink sink;
    csn_jw w = CSN_JW_INIT(&sink.buf, true);

    csn_sink_init(&sink, fd);
    csn_put_result(&sink, &w, result);
    csn_buf_putc(&sink.buf, '\n');
    return csn_sink_done(&sink, err);
}
