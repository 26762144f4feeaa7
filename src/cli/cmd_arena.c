#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena_opts.h"
#include "arena_print.h"
#include "arena_view.h"
#include "base/fault.h"
#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "session.h"

#define DEFAULT_OBJECTIVE "Generate weekly 'AI Events in San Francisco' post for Discord"
#define DEFAULT_ARTIFACTS "artifacts"

struct values {
    cli_arena_values arena;
    cli_list candidates, checks, reports;
    const char *file, *artifacts, *artifact_name, *scorer, *weights;
    int64_t jobs, trials, seed, scorer_timeout;
    int json, plain, quiet;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 'c', "candidate", CLI_LIST, AT(candidates), "ID=SCRIPT", "a candidate; repeatable", "@file",
      NULL },
    { 0, "candidates", CLI_TEXT, AT(file), "FILE",
      "candidates, checks and settings as JSON, see caisson-arena(5)", "@file", NULL },
    { 0, "artifacts", CLI_TEXT, AT(artifacts), "DIR",
      "where artifacts and results.json go [artifacts]", "@dir", NULL },
    { 0, "artifact-name", CLI_TEXT, AT(artifact_name), "NAME",
      "name of a candidate's local copy [output.md]", NULL, NULL },
    { 'j', "jobs", CLI_COUNT, AT(jobs), "N", "candidates at a time [all, up to 64]", NULL, NULL },
    { 0, "trials", CLI_COUNT, AT(trials), "N",
      "runs of each candidate, in random interleaved order [1]", NULL, NULL },
    { 0, "seed", CLI_COUNT, AT(seed), "N", "makes that order repeatable", NULL, NULL },
    { 0, "report", CLI_LIST, AT(reports), "FILE", "write a report: .html, .md or .json; repeatable",
      "@file", NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "print the results as one JSON document", NULL, NULL },
    { 0, "plain", CLI_FLAG, AT(plain), NULL, "plain lines also on a terminal", NULL, NULL },
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "no progress, only the outcome", NULL, NULL },
    CLI_END
};

static const cli_opt score_options[] = {
    { 0, "check", CLI_LIST, AT(checks), "CHECK",
      "contains:TEXT, regex:RE, json-keys:A,B.C or min-count:N:RE; failing it disqualifies", NULL,
      NULL },
    { 0, "scorer", CLI_TEXT, AT(scorer), "CMD",
      "script or command that rates the artifact, in a sandbox: prints {\"quality\": 0…100}",
      "@file", NULL },
    { 0, "scorer-timeout", CLI_DURATION, AT(scorer_timeout), "TIME", "of the scorer [60s]", NULL,
      NULL },
    { 0, "weights", CLI_TEXT, AT(weights), "S,Q,P",
      "of success, quality and speed; they sum to 1 [0.2,0.6,0.2]", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = {
    { "Arena", own_options, 0 },
    { "Scoring", score_options, 0 },
    { "Run", cli_arena_run_options, offsetof(struct values, arena) },
    { "Limits (defaults in brackets)", cli_arena_limit_options, offsetof(struct values, arena) },
    { NULL, NULL, 0 },
};

/* Everything one run needs and owns. */
struct contest {
    const cli_command *cmd;
    struct values v;
    csn_arena_options o;
    csn_run_options run; /* o.run */
    csn_candidate *candidates;
    size_t n;
    csn_arena_file *file;
    csn_artifact_check *checks;
    cli_arena_run kept;
    const char *artifacts;
};

/* ---- from the command line ---- */

static int add_candidates(struct contest *c)
{
    size_t n_file = 0;
    const csn_candidate *in_file = c->file ? csn_arena_file_candidates(c->file, &n_file) : NULL;

    c->candidates = csn_xalloc(n_file + c->v.candidates.n + 1, sizeof(*c->candidates));
    if (n_file > 0)
        memcpy(c->candidates, in_file, n_file * sizeof(*in_file));
    c->n = n_file;
    for (size_t i = 0; i < c->v.candidates.n; i++) {
        const char *given = c->v.candidates.items[i], *eq = strchr(given, '=');
        char *id = eq ? csn_strndup(given, (size_t) (eq - given))
                      : NULL; /* lives as long as the program */

        c->candidates[c->n++] = (csn_candidate){
            .size = sizeof(*c->candidates),
            .id = eq ? id : cli_id_of_script(given),
            .script = eq ? eq + 1 : given,
        };
    }
    if (c->n == 0)
        return cli_usage(c->cmd, "no candidates: use -c ID=SCRIPT or --candidates FILE");
    return -1;
}

static int parse_weights(struct contest *c)
{
    double *to[] = { &c->o.weight_success, &c->o.weight_quality, &c->o.weight_speed };
    const char *p = c->v.weights;
    bool is_good = true;
    double sum = 0;
    char *end;

    if (!p)
        return -1;
    for (size_t i = 0; i < 3; i++) {
        *to[i] = strtod(p, &end);
        if (end == p || (*end != (i < 2 ? ',' : '\0')))
            return cli_usage(c->cmd, "--weights '%s': not three numbers such as 0.2,0.6,0.2",
                             c->v.weights);
        p = end + 1;
        sum += *to[i];
        is_good = is_good && *to[i] >= 0; /* not NaN either */
    }
    if (!is_good || !(sum > 0.999999 && sum < 1.000001))
        return cli_usage(c->cmd, "--weights '%s': they must be 0 or more and sum to 1",
                         c->v.weights);
    return -1;
}

static int add_checks(struct contest *c)
{
    size_t n = c->o.n_checks;
    csn_error err = { 0 };

    if (c->v.checks.n == 0)
        return -1;
    c->checks = csn_xalloc(n + c->v.checks.n, sizeof(*c->checks));
    if (n > 0)
        memcpy(c->checks, c->o.checks, n * sizeof(*c->checks));
    for (size_t i = 0; i < c->v.checks.n; i++)
        if (csn_artifact_check_parse(c->v.checks.items[i], &c->checks[n++], &err) < 0)
            return cli_usage(c->cmd, "%s", err.message);
    c->o.checks = c->checks;
    c->o.n_checks = n;
    return -1;
}

static int set_numbers(struct contest *c)
{
    const struct values *v = &c->v;

    if (v->jobs < 0 || v->trials < 0 || v->seed < 0 || v->scorer_timeout < 0 || v->jobs > 10000 ||
        v->trials > 10000)
        return cli_usage(c->cmd, "--jobs and --trials go from 1 to 10000, --seed is 1 or more");
    if (v->jobs)
        c->o.n_jobs = (unsigned) v->jobs;
    if (v->trials)
        c->o.n_trials = (unsigned) v->trials;
    if (v->seed)
        c->o.seed = (uint64_t) v->seed;
    if (v->scorer_timeout)
        c->o.scorer_timeout_ms = v->scorer_timeout;
    if (v->scorer)
        c->o.scorer = v->scorer;
    if (v->artifact_name)
        c->o.artifact_name = v->artifact_name;
    for (size_t i = 0; i < v->reports.n; i++)
        if (!cli_arena_report_known(v->reports.items[i]))
            return cli_usage(c->cmd, "--report '%s': .html, .md or .json is expected",
                             v->reports.items[i]);
    c->artifacts = v->artifacts ? v->artifacts : DEFAULT_ARTIFACTS;
    c->o.artifacts_dir = c->artifacts;
    return -1;
}

static int take_objective(struct contest *c, const cli_args *args)
{
    if (args->argc == 1 && c->v.arena.objective)
        return cli_usage(c->cmd, "the objective is given twice");
    if (args->argc == 1)
        c->v.arena.objective = args->argv[0];
    if (!c->v.arena.objective && !c->run.objective)
        c->v.arena.objective = DEFAULT_OBJECTIVE;
    return -1;
}

static int load_file(struct contest *c)
{
    csn_error err = { 0 };

    c->o.size = sizeof(c->o);
    c->run.size = sizeof(c->run);
    c->o.run = &c->run;
    if (!c->v.file)
        return -1;
    if (csn_arena_file_load(c->v.file, &c->file, &err) < 0)
        return cli_usage(c->cmd, "%s", err.message);
    c->o = *csn_arena_file_options(c->file);
    c->run = *c->o.run;
    c->o.run = &c->run;
    return -1;
}

static int prepare(struct contest *c, int argc, char **argv)
{
    cli_args args;
    int status = cli_parse(c->cmd, argc, argv, &c->v, &args);

    if (status < 0) {
        cli_want_json(c->v.json);
        status = cli_want(c->cmd, &args, 0, 1);
    }
    if (status < 0)
        status = load_file(c);
    if (status < 0)
        status = take_objective(c, &args);
    if (status < 0)
        status = cli_arena_fill(c->cmd, &c->v.arena, &c->run, &c->kept);
    if (status < 0)
        status = add_candidates(c);
    if (status < 0)
        status = parse_weights(c);
    if (status < 0)
        status = add_checks(c);
    if (status < 0)
        status = set_numbers(c);
    if (status < 0 && !c->run.objective_len)
        c->run.objective_len = strlen(c->run.objective);
    return status;
}

/* ---- the run ---- */

static int write_files(struct contest *c, const csn_arena_result *r, int talk)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(buf) csn_buf said = CSN_BUF_INIT;
    int status;

    csn_buf_printf(&path, "%s/results.json", c->artifacts);
    status = cli_arena_report(r, path.data);
    csn_buf_printf(&said, "Artifacts: %s/\nResults: %s\n", c->artifacts, path.data);
    for (size_t i = 0; i < c->v.reports.n && status < 0; i++) {
        status = cli_arena_report(r, c->v.reports.items[i]);
        csn_buf_printf(&said, "Report: %s\n", c->v.reports.items[i]);
    }
    if (status < 0)
        (void) cli_write(talk, said.data, said.len); /* as the rest of the talk */
    return status;
}

static int conclude(struct contest *c, const csn_arena_result *r, int talk)
{
    csn_error err = { 0 };

    if (!c->v.quiet || !c->v.json)
        cli_arena_scores(talk, r);
    if (write_files(c, r, talk) >= 0)
        return CLI_ARENA_FAILED; /* what was asked for is not there, whoever won */
    if (c->v.json && csn_arena_report(r, CSN_REPORT_JSON, STDOUT_FILENO, &err) < 0)
        return cli_fail_output(&err);
    if (r->cancelled)
        return 128 + (cli_arena_signal() ? cli_arena_signal() : SIGINT);
    if (r->winner >= 0)
        return 0;
    if (!r->no_sandbox)
        return CLI_ARENA_FAILED;
    bool is_remote = csn_streq(r->execution_mode, "daytona");
    cli_note("no sandbox could be made %s: %s", is_remote ? "in Daytona" : "here", r->no_sandbox);
    if (is_remote)
        cli_try(CLI_ARENA_REMOTE_ADVICE);
    else
        cli_arena_note_cause();
    return CLI_ARENA_NO_BACKEND;
}

static int contend(struct contest *c, csn_engine *engine, csn_cancel *cancel)
{
    int talk = c->v.json ? STDERR_FILENO : STDOUT_FILENO, status;
    const char *refusal =
        c->run.backend == CSN_BACKEND_DAYTONA ? csn_config_daytona_refusal(c->run.config) : NULL;
    csn_arena_result *result = NULL;
    csn_error err = { 0 };
    cli_view view;
    int r;

    if (!c->v.quiet)
        cli_arena_banner(talk, &c->o, c->n, refusal);
    cli_view_begin(&view, talk, !c->v.plain, c->v.quiet, c->candidates, c->n, c->o.n_trials,
                   engine ? "local" : "daytona");
    c->run.cancel = cancel;
    c->run.on_log = cli_view_log;
    c->run.on_state = cli_view_state;
    c->run.on_tick = view.is_live ? cli_view_tick : NULL;
    c->run.on_output = view.is_live ? cli_view_output : NULL;
    c->run.tick_ms = 80;
    c->run.user_data = &view;
    r = csn_arena_run(engine, c->candidates, c->n, &c->o, &result, &err);
    cli_view_end(&view, result);
    if (r == CSN_E_INVALID)
        status = cli_usage(c->cmd, "%s", err.message);
    else
        status = r < 0 ? cli_fail(&err, NULL) : conclude(c, result, talk);
    csn_arena_result_free(result);
    return status;
}

static int open_and_contend(struct contest *c)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_cancel *cancel = NULL;
    csn_error err = { 0 };
    bool is_remote =
        c->run.backend == CSN_BACKEND_DAYTONA && csn_config_is_daytona_ready(c->run.config);
    int status = is_remote ? -1 : cli_open_here_to_make(c->kept.optional_walls, &engine);

    if (status >= 0)
        return CLI_ARENA_NO_BACKEND;
    if (csn_cancel_new(&cancel, &err) < 0)
        return cli_fail(&err, NULL);
    cli_arena_catch_signals(cancel);
    status = contend(c, engine, cancel);
    cli_arena_catch_signals(NULL);
    csn_cancel_free(cancel);
    return status;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct contest c = { .cmd = cmd, .kept = { .objective = CSN_BUF_INIT } };
    int status = prepare(&c, argc, argv);

    if (status < 0)
        status = open_and_contend(&c);
    free(c.candidates);
    free(c.checks);
    csn_arena_file_free(c.file);
    cli_arena_done(&c.kept);
    return status;
}

const cli_command cli_cmd_arena = {
    .name = "arena",
    .alias = "forge",
    .summary = "Run candidates side by side in sandboxes, score them, name a winner",
    .usage = "arena [options] [OBJECTIVE]",
    .text =
        "Every candidate runs at the same time in a fresh sandbox of its own, gets the objective and the path of its\n"
        "artifact, and is scored: 0.2 success + 0.6 quality + 0.2 speed. Exit status: 0 there is a winner, 1 there\n"
        "is none, 2 misuse, 3 no sandbox could be made, 130 interrupted.",
    .groups = groups,
    .reach = CLI_ANYWHERE,
    .run = run,
};
