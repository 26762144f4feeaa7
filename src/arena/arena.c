/* Theory of operation: every run (candidate × trial) is a job with a sandbox of its own. Up to n_jobs of them are under
 * way at once on one engine and one thread, started in an order drawn beforehand. When a run ends its gates are asked;
 * if it passed and there is a scorer, a second job runs that on the artifact, in the same slot. Then the run is settled:
 * its score stands, the artifact is on disk, and of its bulk only what the candidate shows is kept. */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/str.h"
#include "base/time.h"
#include "options.h"
#include "run.h"

#define MAX_JOBS 64

/* ---- what a finished run leaves ---- */

static void make_empty(char **text)
{
    char *none = csn_strdup("");

    if (!none) { /* then it keeps its memory for nothing */
        (*text)[0] = '\0';
        return;
    }
    free(*text);
    *text = none;
}

static void drop_bulk(csn_candidate_result *r)
{
    make_empty(&r->output);
    make_empty(&r->stderr_data);
    r->output_len = r->stderr_len = r->setup_output_len = 0;
    free(r->artifact_content);
    free(r->setup_output);
    r->artifact_content = r->setup_output = NULL;
}

static void log_line(csn_job *job, const char *message)
{
    csn_arena *a = job->owner;

    if (a->run.on_log)
        a->run.on_log(job->plan->id, message, a->run.user_data);
}

static void tell_state(csn_arena *a, size_t run, csn_run_state state,
                       const csn_candidate_result *result)
{
    if (a->run.on_state)
        a->run.on_state(a->result->run_candidate[run], a->run_trial[run], state, result,
                        a->run.user_data);
}

static void new_state(csn_job *job, csn_run_state state)
{
    if (state != CSN_RUN_DONE) /* told when the score stands */
        tell_state(job->owner, job->index, state, NULL);
}

static void save_artifact(csn_arena *a, size_t candidate, csn_candidate_result *r)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int e = csn_artifact_save(r, a->dirs[candidate], a->o.artifact_name);

    if (e < 0 && a->run.on_log) {
        csn_buf_printf(&text, "[Warn] Could not save artifact: %s/%s: %s", a->dirs[candidate],
                       a->o.artifact_name, csn_strerror(e));
        a->run.on_log(r->candidate_id, text.data, a->run.user_data);
    }
}

/* The run a candidate shows: the first success, else the first of all. */
static void choose_shown(csn_arena *a, size_t run)
{
    size_t candidate = a->result->run_candidate[run];
    csn_candidate_result *r = a->result->runs[run], **shown = &a->result->results[candidate];

    if (*shown && ((*shown)->success || !r->success)) {
        drop_bulk(r);
        return;
    }
    if (*shown)
        drop_bulk(*shown);
    *shown = r;
    if (r->artifact_content && a->dirs[candidate])
        save_artifact(a, candidate, r);
}

static double timeout_of(const csn_arena *a, size_t candidate)
{
    return (double) a->entries[candidate].plan.exec.timeout_ms / 1000;
}

static void settle(csn_arena *a, size_t run, const csn_quality *quality)
{
    size_t candidate = a->result->run_candidate[run];
    csn_candidate_result *r = a->result->runs[run];

    if (csn_score_finish(&a->result->run_scores[run], r, &a->rules, quality, &a->details[run],
                         timeout_of(a, candidate)) < 0)
        a->out_of_memory = true;
    csn_buf_free(&a->details[run]);
    choose_shown(a, run);
    a->n_settled++;
    tell_state(a, run, CSN_RUN_DONE, r);
}

/* ---- the external scorer ---- */

typedef struct judgement {
    csn_entry entry;
    csn_list link;
} judgement;

static void judged(csn_job *job)
{
    csn_arena *a = job->owner;
    csn_candidate_result *s = job->result;
    csn_quality quality = { 0 };
    int r;

    if (s->success) {
        r = csn_quality_parse(s->output, s->output_len, &quality);
    } else {
        csn_auto(buf) csn_buf text = CSN_BUF_INIT;
        size_t tail = s->stderr_len > 300 ? s->stderr_len - 300 : 0;

        csn_buf_printf(&text, "scorer: %s%s%.300s", s->error_message, s->stderr_len ? ": " : "",
                       s->stderr_data + tail);
        quality.error = csn_buf_take(&text, NULL);
        r = quality.error ? 0 : -ENOMEM;
    }
    if (r < 0)
        a->out_of_memory = true;
    csn_pump_end(&a->pump, job);
    settle(a, job->index, &quality);
    csn_quality_done(&quality);
}

static const csn_job_watch quiet = { NULL, NULL, judged, NULL };

/* False: there is nobody to ask, or asking failed; the run is then to be settled by the caller. */
static bool ask_scorer(csn_arena *a, size_t run)
{
    csn_candidate_result *r = a->result->runs[run];
    judgement *j;
    csn_job *job = NULL;

    if (!a->o.scorer || a->result->run_scores[run].disqualified)
        return false;
    j = csn_calloc(1, sizeof(*j));
    if (!j) {
        a->out_of_memory = true;
        return false;
    }
    csn_list_append(&a->judgements, &j->link);
    if (csn_entry_prepare_scorer(&j->entry, a->o.scorer, r->candidate_id, a->o.artifact_name,
                                 r->artifact_content, r->artifact_len, a->o.scorer_timeout_ms,
                                 &a->run) == 0)
        job = csn_job_new(&j->entry.plan, a->engine, &quiet, a);
    if (!job) {
        a->out_of_memory = true;
        return false;
    }
    tell_state(a, run, CSN_RUN_SCORING, NULL);
    job->index = run;
    csn_pump_add(&a->pump, job);
    if (j->entry.refusal.len > 0)
        csn_job_refuse(job, j->entry.refusal.data);
    else
        csn_job_begin(job, a->origin_ns);
    return true;
}

static void ask_caller(csn_arena *a, size_t run, csn_quality *quality)
{
    double q = a->o.score(a->result->runs[run], a->run.user_data);

    if (q >= 0 && q <= 100)
        quality->score = q;
    else
        quality->error = csn_strdup("the scorer gave no quality from 0 to 100");
}

static void ended(csn_job *job)
{
    csn_arena *a = job->owner;
    size_t run = job->index;
    csn_quality quality = { 0 };

    a->result->runs[run] = job->result;
    a->result->runs[run]->trial = a->run_trial[run];
    job->result = NULL;
    csn_pump_end(&a->pump, job);
    if (csn_score_gates(&a->result->run_scores[run], a->result->runs[run], &a->rules,
                        &a->details[run]) < 0)
        a->out_of_memory = true;
    if (ask_scorer(a, run))
        return;
    if (a->o.score && !a->result->run_scores[run].disqualified) {
        ask_caller(a, run, &quality);
        settle(a, run, &quality);
        csn_quality_done(&quality);
    } else {
        settle(a, run, NULL);
    }
}

static void took_output(csn_job *job, csn_stream stream, const void *data, size_t len)
{
    csn_arena *a = job->owner;

    if (a->run.on_output)
        a->run.on_output(job->plan->id, stream, data, len, a->run.user_data);
}

static const csn_job_watch watch = { log_line, new_state, ended, took_output };

/* ---- the order ---- */

static void draw_order(csn_arena *a)
{
    csn_arena_result *res = a->result;
    csn_rng rng = { res->seed };
    size_t n = res->n_candidates;

    for (unsigned t = 0; t < res->n_trials; t++) {
        size_t *round = res->run_candidate + t * n;

        for (size_t i = 0; i < n; i++) {
            round[i] = i;
            a->run_trial[t * n + i] = t;
        }
        if (res->n_trials > 1) /* each round in an order of its own: nobody is always first */
            csn_rng_shuffle(&rng, round, n);
    }
}

static int start_next(csn_arena *a)
{
    size_t run = a->n_started++, candidate = a->result->run_candidate[run];
    csn_entry *entry = &a->entries[candidate];
    csn_job *job = csn_job_new(&entry->plan, a->engine, &watch, a);

    if (!job)
        return -ENOMEM;
    job->index = run;
    job->trial = a->run_trial[run];
    csn_pump_add(&a->pump, job);
    if (a->is_cancelled)
        csn_job_cancel(job);
    else if (entry->refusal.len > 0)
        csn_job_refuse(job, entry->refusal.data);
    else
        csn_job_begin(job, a->origin_ns);
    return 0;
}

static int run_all(csn_arena *a)
{
    a->origin_ns = csn_now_ns();
    while (a->n_settled < a->result->n_runs) {
        while (a->n_started < a->result->n_runs && a->pump.n_running < a->result->n_jobs &&
               a->n_begun_now++ < MAX_JOBS) {
            if (start_next(a) < 0)
                return -ENOMEM;
        }
        a->n_begun_now = 0;
        a->is_cancelled = csn_pump_once(&a->pump);
    }
    csn_pump_done(&a->pump);
    a->result->cancelled = a->is_cancelled;
    a->result->wall_seconds = (double) (csn_now_ns() - a->origin_ns) / 1e9;
    return a->out_of_memory ? -ENOMEM : 0;
}

/* ---- before and after ---- */

static int make_candidate_dir(csn_arena *a, size_t i, const char *id)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_entry *e = &a->entries[i];
    int r;

    if (!a->o.artifacts_dir || !csn_is_name(id))
        return 0;
    csn_buf_printf(&path, "%s/%s", a->o.artifacts_dir, id);
    a->dirs[i] = csn_strdup(path.data);
    if (!a->dirs[i])
        return -ENOMEM;
    r = csn_make_dirs(path.data);
    if (r < 0) {
        free(a->dirs[i]);
        a->dirs[i] = NULL;
        if (e->refusal.len > 0)
            return 0;
        return csn_buf_printf(&e->refusal, "Could not create artifact directory: %s: %s", path.data,
                              csn_strerror(r));
    }
    csn_buf_printf(&path, "/%s", a->o.artifact_name);
    (void) unlink(path.data); /* what an earlier run left; absent is fine */
    return path.error;
}

/* The caller's struct may be shorter or longer than ours. */
static const csn_candidate *candidate_at(const csn_candidate *list, size_t i)
{
    return (const csn_candidate *) (const void *) ((const char *) list + i * list[0].size);
}

static int prepare_candidates(csn_arena *a, const csn_candidate *list)
{
    if (a->o.artifacts_dir)
        (void) csn_make_dirs(
            a->o.artifacts_dir); /* each candidate's own directory tells what is wrong */
    for (size_t i = 0; i < a->result->n_candidates; i++) {
        const csn_candidate *given = candidate_at(list, i);
        csn_candidate c;
        int r;

        if (csn_arena_options_copy(&c, sizeof(c), given, given->size, "csn_candidate", NULL) < 0)
            return -EINVAL;
        r = csn_entry_prepare(&a->entries[i], &c, &a->run);
        if (r == 0)
            r = make_candidate_dir(a, i, c.id);
        a->result->names[i] = csn_strdup(c.name ? c.name : c.id);
        if (c.description)
            a->result->descriptions[i] = csn_strdup(c.description);
        if (r < 0 || !a->result->names[i])
            return -ENOMEM;
    }
    return 0;
}

static char *environment_line(void)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    struct utsname u;

    csn_buf_printf(&text, "caisson %s", csn_version());
    if (uname(&u) == 0)
        csn_buf_printf(&text, " · %s %s %s", u.sysname, u.release, u.machine);
    csn_buf_printf(&text, " · %ld processors", sysconf(_SC_NPROCESSORS_ONLN));
    return csn_buf_take(&text, NULL);
}

static int allocate(csn_arena *a, size_t n)
{
    csn_arena_result *res = a->result;
    size_t n_runs;

    if (csn_mul_size(n, res->n_trials, &n_runs) < 0)
        return -ENOMEM;
    res->n_candidates = n;
    res->results = csn_calloc(n + 1, sizeof(csn_candidate_result *));
    res->scores = csn_calloc(n + 1, sizeof(*res->scores));
    res->names = csn_calloc(n + 1, sizeof(*res->names));
    res->descriptions = csn_calloc(n + 1, sizeof(*res->descriptions));
    res->scripts = csn_calloc(n + 1, sizeof(*res->scripts));
    res->script_lens = csn_calloc(n + 1, sizeof(*res->script_lens));
    res->stats = csn_calloc(n + 1, sizeof(*res->stats));
    res->runs = csn_calloc(n_runs + 1, sizeof(csn_candidate_result *));
    res->run_candidate = csn_calloc(n_runs + 1, sizeof(*res->run_candidate));
    res->run_scores = csn_calloc(n_runs + 1, sizeof(*res->run_scores));
    a->run_trial = csn_calloc(n_runs + 1, sizeof(*a->run_trial));
    a->details = csn_calloc(n_runs + 1, sizeof(*a->details));
    a->entries = csn_calloc(n + 1, sizeof(*a->entries));
    a->dirs = csn_calloc(n + 1, sizeof(*a->dirs));
    if (!res->results || !res->scores || !res->names || !res->descriptions || !res->scripts ||
        !res->script_lens || !res->stats || !res->runs || !res->run_candidate || !res->run_scores ||
        !a->run_trial || !a->details || !a->entries || !a->dirs)
        return -ENOMEM;
    res->n_runs = n_runs;
    for (size_t i = 0; i < n_runs; i++)
        a->details[i] = (csn_buf) CSN_BUF_INIT;
    for (size_t i = 0; i < n; i++)
        a->entries[i] = (csn_entry){ .refusal = CSN_BUF_INIT, .script = CSN_BUF_INIT };
    return 0;
}

/* What ran, for the reports; the entries' own copies are no longer needed. */
static int keep_scripts(csn_arena *a)
{
    for (size_t i = 0; i < a->result->n_candidates; i++) {
        csn_buf *script = &a->entries[i].script;

        if (script->cap == 0) /* it could not be read */
            continue;
        a->result->scripts[i] = csn_buf_take(script, &a->result->script_lens[i]);
        if (!a->result->scripts[i])
            return -ENOMEM;
    }
    return 0;
}

static int describe(csn_arena *a)
{
    csn_arena_result *res = a->result;
    char when[CSN_ISO8601_SIZE];

    res->timestamp = csn_strdup(csn_iso8601(csn_wall_ms(), when));
    res->objective = csn_strndup(a->run.objective, a->run.objective_len);
    res->objective_len = a->run.objective_len;
    res->artifact_name = csn_strdup(a->o.artifact_name);
    res->environment = environment_line();
    res->timeout_seconds = (double) a->run.timeout_ms / 1000;
    memcpy(res->weights, a->rules.weights, sizeof(res->weights));
    if (a->o.artifacts_dir && !(res->artifacts_dir = csn_strdup(a->o.artifacts_dir)))
        return -ENOMEM;
    return res->timestamp && res->objective && res->artifact_name && res->environment ? 0 : -ENOMEM;
}

static void done(csn_arena *a)
{
    csn_list_foreach (node, &a->judgements) {
        judgement *j = csn_list_entry(node, judgement, link);

        csn_entry_done(&j->entry);
        free(j);
    }
    for (size_t i = 0; a->entries && i < a->result->n_candidates; i++) {
        csn_entry_done(&a->entries[i]);
        free(a->dirs[i]);
    }
    for (size_t i = 0; a->details && i < a->result->n_runs; i++)
        csn_buf_free(&a->details[i]);
    free(a->entries);
    free(a->dirs);
    free(a->details);
    free(a->run_trial);
    csn_check_set_free(a->checks);
    csn_engine_free(a->own_engine);
}

/* ---- options ---- */

static int check_weights(csn_arena *a, csn_error *err)
{
    const double given[3] = { a->o.weight_success, a->o.weight_quality, a->o.weight_speed };
    static const double usual[3] = { 0.2, 0.6, 0.2 };
    bool has_none = given[0] == 0 && given[1] == 0 && given[2] == 0;

    if (!has_none && !csn_weights_are_good(given))
        return csn_fail(err, CSN_E_INVALID,
                        "weights %g, %g, %g: they must be 0 or more and sum to 1", given[0],
                        given[1], given[2]);
    memcpy(a->rules.weights, has_none ? usual : given, sizeof(usual));
    return CSN_OK;
}

static int check_ids(const csn_candidate *list, size_t n, csn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const csn_candidate *c = candidate_at(list, i);

        if (c->size != list[0].size || c->size < offsetof(csn_candidate, name) || !c->id ||
            !c->script)
            return csn_fail(err, CSN_E_INVALID, "candidate %zu: size, id and script are needed", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(c->id, candidate_at(list, k)->id) == 0)
                return csn_fail(err, CSN_E_INVALID, "duplicate candidate id '%s'", c->id);
    }
    return CSN_OK;
}

static int check_options(csn_arena *a, const csn_candidate *list, size_t n, csn_error *err)
{
    int r = csn_run_options_fill(&a->run, err);

    if (r == CSN_OK)
        r = check_ids(list, n, err);
    if (r == CSN_OK)
        r = check_weights(a, err);
    if (r == CSN_OK)
        r = csn_check_set_new(a->o.checks, a->o.n_checks, &a->checks, err);
    if (r < 0)
        return r;
    a->rules.checks = a->checks;
    a->rules.has_scorer = a->o.scorer || a->o.score;
    if (!a->o.artifact_name)
        a->o.artifact_name = "output.md";
    if (strchr(a->o.artifact_name, '/') || a->o.artifact_name[0] == '.' || !a->o.artifact_name[0])
        return csn_fail(err, CSN_E_INVALID, "artifact name '%s': a plain file name is expected",
                        a->o.artifact_name);
    if (a->o.scorer_timeout_ms <= 0)
        a->o.scorer_timeout_ms = 60000;
    return CSN_OK;
}

static void choose_numbers(csn_arena *a, size_t n)
{
    csn_arena_result *res = a->result;

    res->n_trials = a->o.n_trials ? a->o.n_trials : 1;
    res->n_jobs = a->o.n_jobs ? a->o.n_jobs : n < MAX_JOBS ? (unsigned) n : MAX_JOBS;
    res->seed = a->o.seed;
    while (res->seed == 0)
        if (csn_random(&res->seed, sizeof(res->seed)) < 0)
            res->seed = (uint64_t) csn_now_ns();
    res->seed &= UINT64_C(0x1fffffffffffff); /* a JSON number holds it exactly */
    if (res->seed == 0)
        res->seed = 1;
    res->winner = -1;
}

/* ---- the whole ---- */

/* The engine can't be opened: every candidate says so. */
static void refuse_all(csn_arena *a, const csn_error *why)
{
    for (size_t i = 0; i < a->result->n_candidates; i++)
        if (a->entries[i].refusal.len == 0)
            csn_buf_printf(&a->entries[i].refusal, "Could not create sandbox: %s", why->message);
}

static int run_arena(csn_arena *a, csn_engine *engine, const csn_candidate *list, size_t n)
{
    csn_error why = { 0 };
    int r;

    choose_numbers(a, n);
    a->result->fell_back = csn_backend_refusal(&a->run) != NULL;
    r = allocate(a, n);
    if (r == 0)
        r = prepare_candidates(a, list);
    if (r < 0)
        return r;
    draw_order(a);
    if (csn_backend_open(engine, &a->run, a->result->fell_back, &a->engine, &a->own_engine, &why) <
        0)
        refuse_all(a, &why);
    a->result->execution_mode =
        a->run.backend == CSN_BACKEND_DAYTONA && !a->result->fell_back ? "daytona" : "local";
    csn_pump_init(&a->pump, a->engine, &a->run);
    r = run_all(a);
    if (r == 0)
        r = csn_arena_summarise(a->result);
    if (r == 0)
        r = describe(a);
    return r == 0 ? keep_scripts(a) : r;
}

int csn_arena_run(csn_engine *engine, const csn_candidate *candidates, size_t n_candidates,
                  const csn_arena_options *opts, csn_arena_result **ret_result, csn_error *err)
{
    csn_arena a = { 0 };
    int r = csn_arena_options_copy(&a.o, sizeof(a.o), opts, opts ? opts->size : 0,
                                   "csn_arena_options", err);

    csn_list_init(&a.judgements);
    if (r == CSN_OK)
        r = csn_arena_options_copy(&a.run, sizeof(a.run), a.o.run, a.o.run ? a.o.run->size : 0,
                                   "csn_run_options", err);
    if (r == CSN_OK)
        r = check_options(&a, candidates, n_candidates, err);
    if (r < 0) {
        csn_check_set_free(a.checks);
        return r;
    }
    a.result = csn_calloc(1, sizeof(*a.result));
    r = a.result ? run_arena(&a, engine, candidates, n_candidates) : -ENOMEM;
    if (a.result)
        done(&a);
    else
        csn_check_set_free(a.checks);
    if (r < 0) {
        csn_arena_result_free(a.result);
        return csn_fail_sys(err, r, "run the arena");
    }
    *ret_result = a.result;
    return CSN_OK;
}
