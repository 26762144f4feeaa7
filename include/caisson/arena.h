/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_ARENA_H
#define CAISSON_ARENA_H

#include <caisson/config.h>
#include <caisson/process.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Candidates side by side: each script runs in a fresh sandbox of its own with an objective, prints what it likes and
 * writes one file, the artifact. What it printed, wrote and used comes back as a result; a failure is a result too. */

/* ---- Stopping early ------------------------------------------------------------------------------------------ */

typedef struct csn_cancel csn_cancel;
CSN_API int csn_cancel_new(csn_cancel **ret_cancel, csn_error *err);
CSN_API csn_cancel *csn_cancel_free(csn_cancel *cancel); /* not while a run uses it */
/* Any thread, any signal handler; more than once is fine. Running candidates are killed, every sandbox is cleaned up,
 * what was not finished gets the error message "Cancelled". */
CSN_API void csn_cancel_fire(csn_cancel *cancel);
CSN_API int csn_cancel_is_fired(const csn_cancel *cancel);

/* ---- One candidate ------------------------------------------------------------------------------------------- */

typedef struct csn_candidate {
    size_t size;
    const char *id;     /* [A-Za-z0-9][A-Za-z0-9._-]{0,63} */
    const char *script; /* local file; run by its suffix (.py .js .sh .ts .c …) or its #! line */
    const char *name;   /* shown to people; NULL: the id */
    const char *description; /* NULL: none */
    const char *const *pip;  /* packages to install first, NULL at the end; besides the options' */
    const char *setup;       /* shell text run before the script; NULL: the options' */
    const char *const *env;  /* "KEY=value", NULL at the end; added to the options' */
    int64_t timeout_ms;      /* of the script; 0: the options' */
    const char *output_path; /* absolute path inside; NULL: the options' */
} csn_candidate;

typedef enum csn_backend_kind {
    CSN_BACKEND_LOCAL = 0, /* the engine on this machine */
    CSN_BACKEND_DAYTONA    /* a service elsewhere: csn_engine_options.remote_url */
} csn_backend_kind;

/* Where a candidate stands. */
typedef enum csn_run_state {
    CSN_RUN_WAITING = 0,
    CSN_RUN_CREATING,
    CSN_RUN_UPLOADING,
    CSN_RUN_SETUP,
    CSN_RUN_EXECUTING,
    CSN_RUN_READING,
    CSN_RUN_CLEANING,
    CSN_RUN_SCORING,
    CSN_RUN_DONE
} csn_run_state;
CSN_API const char *csn_run_state_name(csn_run_state state);

/* All callbacks run on the thread that called the verb, one at a time; strings are valid during the call. They may
 * call csn_cancel_fire() and nothing else of the engine. */
typedef void (*csn_log_fn)(const char *candidate_id, const char *message, void *user);
/* Candidate number `index` (input order) is in `state` in its trial (from 0). `result` only with CSN_RUN_DONE. */
struct csn_candidate_result;
typedef void (*csn_run_state_fn)(size_t index, unsigned trial, csn_run_state state,
                                 const struct csn_candidate_result *result, void *user);
typedef void (*csn_tick_fn)(void *user);
/* What a script prints, as it comes; not what its setup prints. */
typedef void (*csn_candidate_output_fn)(const char *candidate_id, csn_stream stream,
                                        const void *data, size_t len, void *user);

typedef struct csn_run_options {
    size_t size;
    csn_backend_kind backend;
    const csn_config *config; /* for CSN_BACKEND_DAYTONA; NULL: loaded from the environment */
    const char *objective;    /* argv[1] of the script, byte for byte; at most 131071 bytes */
    size_t objective_len;     /* 0: strlen(objective) */
    const char *output_path; /* absolute path inside, argv[2]; NULL: /home/daytona/<id>_output.md */
    const char *artifact_file; /* local copy (csn_candidate_run only); NULL: none */
    /* Time limits in ms, each of its own; 0: the default. */
    int64_t upload_timeout_ms;   /* 30 s */
    int64_t setup_timeout_ms;    /* 60 s */
    int64_t timeout_ms;          /* 60 s, of the script */
    int64_t artifact_timeout_ms; /* 10 s */
    int64_t output_bytes;        /* kept of the output, the rest only counted; 0: 10 MiB */
    int64_t artifact_bytes;      /* largest artifact; 0: 64 MiB */
    const char *const *env;      /* "KEY=value", NULL at the end; all it gets of the caller's */
    const char *const *pip;      /* NULL at the end */
    const char *find_links;      /* local directory of wheels; pip then needs no network */
    const char *setup;           /* shell text; NULL: none */
    csn_network network;
    const char *image;    /* NULL: "host" */
    int64_t memory_bytes; /* limits as in csn_sandbox_options */
    int64_t cpu_milli;
    int64_t pids;
    int64_t disk_bytes;
    uint32_t strict;
    csn_cancel *cancel;        /* NULL: none */
    csn_log_fn on_log;         /* NULL: none */
    csn_run_state_fn on_state; /* NULL: none */
    csn_tick_fn on_tick;       /* called about every tick_ms while something runs; NULL: none */
    int tick_ms;
    csn_candidate_output_fn on_output; /* NULL: none */
    void *user_data;                   /* of all callbacks */
} csn_run_options;

/* Plain data made and freed by the library; fields are only appended. */
typedef struct csn_candidate_result {
    char *candidate_id;
    char *sandbox_id; /* NULL when none was created */
    int success;      /* exit code 0 and the artifact was read */
    char *output;     /* both streams in arrival order; NUL-terminated, never NULL */
    size_t output_len;
    char *artifact_content; /* NULL when it could not be read; "" for an empty file */
    size_t artifact_len;
    double runtime_seconds; /* before connecting … after cleaning up; 0 when refused at once */
    char *error_message;    /* NULL exactly when success */

    int exit_code; /* -1: there is none (not run, timed out, cancelled); 128+N for death by signal N */
    int timed_out;
    double exec_seconds; /* the script alone; 0 when it did not run */
    int output_truncated;
    int64_t output_bytes;   /* produced in all */
    int64_t artifact_bytes; /* -1: no artifact */
    char *artifact_path;    /* inside */
    char *artifact_file;    /* local copy, or NULL */
    char *stderr_data;      /* the second stream alone; NUL-terminated, never NULL */
    size_t stderr_len;
    char *setup_output; /* what the setup steps printed, or NULL */
    size_t setup_output_len;
    int cancelled;
    int has_receipt;
    csn_receipt receipt; /* of the script */
    unsigned trial;      /* from 0 */
    /* Moments in seconds since the whole run began; -1: did not happen. */
    double t_start, t_ready, t_exec, t_exec_end, t_end;
} csn_candidate_result;

/* Runs one candidate. `engine` may be NULL: one is opened for the call. Every failure of the candidate, of its sandbox
 * and of the engine is a result; the return value is CSN_OK then. Errors: CSN_E_INVALID (options), CSN_E_NO_MEMORY. */
CSN_API int csn_candidate_run(csn_engine *engine, const csn_candidate *candidate,
                              const csn_run_options *opts, csn_candidate_result **ret_result,
                              csn_error *err);
CSN_API csn_candidate_result *csn_candidate_result_free(csn_candidate_result *result);

/* What to do about an error message of a result, one line, or NULL when there is no advice. Static. */
CSN_API const char *csn_candidate_advice(const char *error_message);

/* ---- Scoring ------------------------------------------------------------------------------------------------- */

typedef enum csn_check_kind {
    CSN_CHECK_CONTAINS = 1, /* text: these bytes occur */
    CSN_CHECK_REGEX,        /* text: a POSIX extended expression matches some line */
    CSN_CHECK_JSON_KEYS, /* text: comma-separated paths "a", "a.b"; arrays on the way: every element */
    CSN_CHECK_MIN_COUNT /* text: an expression that matches at least `count` times */
} csn_check_kind;

typedef struct csn_artifact_check {
    csn_check_kind kind;
    const char *text;
    int64_t count;
    double points; /* 0: a gate. Above: worth so many points of the quality, no gate */
} csn_artifact_check;

/* "contains:TEXT", "regex:RE", "json-keys:a,b.c", "min-count:N:RE". *ret_check borrows from `text`.
 * Errors: CSN_E_INVALID, with the allowed forms. */
CSN_API int csn_artifact_check_parse(const char *text, csn_artifact_check *ret_check,
                                     csn_error *err);

/* A scorer of the caller's own, instead of the external one: quality 0 … 100, or negative: failed. */
typedef double (*csn_score_fn)(const csn_candidate_result *result, void *user);

typedef struct csn_score {
    const char *candidate_id; /* borrowed from the result */
    int success;              /* of the run: exit status 0 and an artifact */
    int produced_output;
    int error_occurred;
    int disqualified;          /* the verdict: it failed a gate, whatever its score */
    const char *error_message; /* borrowed, may be NULL */
    char *reason;              /* why disqualified, or NULL */
    char *quality;             /* JSON: what the scorer or the checks said, or NULL */
    double quality_score;
    double runtime_seconds;
    double exec_seconds;
    double speed_score;
    double total_score;
} csn_score;

/* ---- Statistics over trials ---------------------------------------------------------------------------------- */

typedef struct csn_spread {
    double median, q1, q3, min, max;
} csn_spread;

typedef struct csn_trial_stats {
    unsigned n, n_success;
    double success_rate, wilson_low, wilson_high; /* 95 % */
    csn_spread exec_seconds;                      /* of the runs that ended by themselves */
    csn_spread peak_memory_bytes;                 /* NaN: a service elsewhere does not tell */
    csn_spread total_score;
} csn_trial_stats;

/* The two best, trial by trial: Wilcoxon's signed-rank test on the differences of their totals. */
typedef struct csn_comparison {
    size_t a, b; /* indices of candidates; a is the better one */
    unsigned n;
    double median_difference; /* of total scores, a - b */
    double median_time_ratio; /* exec time a / b; 0 when unknown */
    double p_value;           /* two-sided */
    double smallest_p;        /* what this n could show at best */
    int is_significant;       /* p_value < 0.05 */
    char *verdict;            /* a sentence */
} csn_comparison;

/* ---- All of them --------------------------------------------------------------------------------------------- */

typedef struct csn_arena_options {
    size_t size;
    const csn_run_options *run; /* of every candidate; its artifact_file is not read */
    const char *artifacts_dir;  /* <dir>/<id>/<artifact_name>; NULL: nothing is written */
    const char *artifact_name;  /* NULL: "output.md" */
    unsigned n_jobs;            /* at a time; 0: all, up to 64 */
    unsigned n_trials;          /* runs of each candidate; 0: 1 */
    uint64_t seed;              /* of the order of trials; 0: drawn */
    const csn_artifact_check *checks;
    size_t n_checks;
    const char *scorer;        /* script or shell command; its argument: the artifact's path */
    int64_t scorer_timeout_ms; /* 0: 60 s */
    csn_score_fn score;        /* NULL: none */
    /* They sum to 1; all 0: 0.2, 0.6, 0.2. */
    double weight_success, weight_quality, weight_speed;
} csn_arena_options;

typedef struct csn_arena_result {
    char *objective;
    size_t objective_len;
    char *timestamp;            /* ISO 8601, when the run was complete */
    const char *execution_mode; /* "local" or "daytona"; static */
    int fell_back;              /* the remote backend was asked for and is not configured */
    char *artifacts_dir;        /* may be NULL */
    char *artifact_name;
    size_t n_candidates;
    csn_candidate_result **results; /* input order; with trials the first success, else the first */
    csn_score *scores;              /* input order; with trials means over them */
    char **names, **descriptions;   /* display names; a description may be NULL */
    int64_t winner;                 /* index, or -1; a run that was cancelled has none */
    unsigned n_trials, n_jobs;
    uint64_t seed;
    double timeout_seconds;
    double weights[3];
    int cancelled;
    double wall_seconds;
    /* Every run, in the order it was started; outputs and artifacts are kept in `results` only. */
    size_t n_runs;
    csn_candidate_result **runs;
    size_t *run_candidate; /* index of the candidate of each run */
    csn_score *run_scores;
    csn_trial_stats *stats;     /* per candidate */
    csn_comparison *comparison; /* NULL: fewer than two candidates or trials */
    char *environment;          /* one line: version, kernel, processors */
    char *no_sandbox; /* why, when not one sandbox could be made and so nobody ran; else NULL */
    char **scripts; /* what ran: the bytes of each candidate's script; NULL: it could not be read */
    size_t *script_lens;
} csn_arena_result;

/* Runs all candidates at once, each in its own sandbox, and scores them. The elements of `candidates` lie candidates[0].size
 * bytes apart. One candidate's failure never touches another.
 * Errors: CSN_E_INVALID (duplicate id, weights, a check that doesn't compile …), CSN_E_NO_MEMORY; after one nothing was
 * run. Otherwise CSN_OK and a result, also when everybody failed or the run was cancelled. */
CSN_API int csn_arena_run(csn_engine *engine, const csn_candidate *candidates, size_t n_candidates,
                          const csn_arena_options *opts, csn_arena_result **ret_result,
                          csn_error *err);
CSN_API csn_arena_result *csn_arena_result_free(csn_arena_result *result);

/* ---- Writing it down ----------------------------------------------------------------------------------------- */

typedef enum csn_report_format {
    CSN_REPORT_JSON = 1, /* results.json: everything */
    CSN_REPORT_HTML, /* one file, no script, no network; hostile output is shown, never obeyed */
    CSN_REPORT_MARKDOWN
} csn_report_format;

/* Writes to a descriptor. Errors: CSN_E_SYSTEM, CSN_E_NO_MEMORY. */
CSN_API int csn_arena_report(const csn_arena_result *result, csn_report_format format, int fd,
                             csn_error *err);
CSN_API int csn_candidate_result_json(const csn_candidate_result *result, int fd, csn_error *err);

/* ---- A file that says it all --------------------------------------------------------------------------------- */

typedef struct csn_arena_file csn_arena_file; /* owns every string of its options and candidates */

/* Reads and checks a candidates file (see caisson-arena(5)); scripts are looked for beside it.
 * Errors: CSN_E_NOT_FOUND, CSN_E_INVALID (the message names the place and the key). */
CSN_API int csn_arena_file_load(const char *path, csn_arena_file **ret_file, csn_error *err);
CSN_API csn_arena_file *csn_arena_file_free(csn_arena_file *file);
CSN_API const csn_arena_options *csn_arena_file_options(const csn_arena_file *file);
CSN_API const csn_candidate *csn_arena_file_candidates(const csn_arena_file *file, size_t *ret_n);

#ifdef __cplusplus
}
#endif
#endif
