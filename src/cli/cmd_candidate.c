#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena_opts.h"
#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "place.h"
#include "session.h"
#include "stream.h"

enum { TAIL_LINES = 20 };

struct values {
    cli_arena_values arena;
    const char *id, *output;
    int json, quiet;
};

static const cli_opt own_options[] = {
    { 0, "id", CLI_TEXT, offsetof(struct values, id), "ID",
      "its name in paths and logs [the script's name]", NULL, NULL },
    { 0, "output", CLI_TEXT, offsetof(struct values, output), "FILE",
      "local file for the artifact [standard output]", "@file", NULL },
    { 0, "json", CLI_FLAG, offsetof(struct values, json), NULL,
      "print the whole result as one JSON document", NULL, NULL },
    { 'q', "quiet", CLI_FLAG, offsetof(struct values, quiet), NULL, "no log lines", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = {
    { "Candidate", own_options, 0 },
    { "Run", cli_arena_run_options, offsetof(struct values, arena) },
    { "Limits (defaults in brackets)", cli_arena_limit_options, offsetof(struct values, arena) },
    { NULL, NULL, 0 },
};

static int status_of(const csn_candidate_result *r)
{
    if (r->cancelled)
        return 128 + (cli_arena_signal() ? cli_arena_signal() : SIGINT);
    if (r->success)
        return 0;
    if (csn_starts_with(r->error_message, "Daytona ") ||
        csn_starts_with(r->error_message, "Could not create sandbox"))
        return CLI_ARENA_NO_BACKEND;
    return CLI_ARENA_FAILED;
}

/* What a script that failed said last: its traceback, most often. */
static void show_tail(const csn_candidate_result *r)
{
    size_t from = r->output_len, n = 0;
    cli_stream err;

    if (!r->output_len)
        return;
    while (from && (r->output[from - 1] != '\n' || from == r->output_len || ++n < TAIL_LINES))
        from--;
    cli_stream_init(&err, STDERR_FILENO, false);
    cli_stream_put(&err, r->output + from, r->output_len - from);
    cli_stream_finish(&err);
    if (r->output[r->output_len - 1] != '\n')
        (void) cli_write(STDERR_FILENO, "\n", 1); /* what follows begins a line */
}

static int show(const struct values *v, const csn_candidate_result *r)
{
    const char *advice = csn_candidate_advice(r->error_message);
    csn_error err = { 0 };

    if (v->json)
        return csn_candidate_result_json(r, STDOUT_FILENO, &err) < 0 ? cli_fail_output(&err)
                                                                     : status_of(r);
    if (!v->output && r->artifact_content)
        (void) cli_write(STDOUT_FILENO, r->artifact_content,
                         r->artifact_len); /* a closed pipe is its reader's wish */
    if (r->error_message && !v->quiet)
        show_tail(r);
    if (r->error_message)
        cli_note("%s", r->error_message);
    bool has_no_sandbox =
        r->error_message && csn_starts_with(r->error_message, "Could not create sandbox");
    if (has_no_sandbox && cli_place_is_remote())
        advice = CLI_ARENA_REMOTE_ADVICE;
    if (has_no_sandbox && !cli_place_is_remote() && !v->quiet)
        cli_arena_note_cause();
    else if (advice && !v->quiet)
        cli_try(advice);
    if (v->output && r->artifact_content && !r->artifact_file)
        return CLI_ARENA_FAILED; /* the log said why */
    return status_of(r);
}

static void log_line(const char *candidate_id, const char *message, void *user)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    (void) user;
    csn_buf_printf(&line, "[%s] ", candidate_id);
    cli_put_safe(&line, message);
    csn_buf_putc(&line, '\n');
    (void) cli_write(STDERR_FILENO, line.data, line.len); /* only talk */
}

static int run_it(const struct values *v, const csn_candidate *c, csn_run_options *o,
                  uint32_t optional_walls)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_candidate_result *result = NULL;
    csn_cancel *cancel = NULL;
    csn_error err = { 0 };
    int status;

    if (csn_cancel_new(&cancel, &err) < 0)
        return cli_fail(&err, NULL);
    if (o->backend == CSN_BACKEND_LOCAL) {
        status = cli_open_to_make(optional_walls, &engine);
        if (status >= 0) {
            csn_cancel_free(cancel);
            return CLI_ARENA_NO_BACKEND;
        }
    }
    cli_arena_catch_signals(cancel);
    o->cancel = cancel;
    o->on_log = v->quiet ? NULL : log_line;
    status =
        csn_candidate_run(engine, c, o, &result, &err) < 0 ? cli_fail(&err, NULL) : show(v, result);
    csn_candidate_result_free(result);
    cli_arena_catch_signals(NULL);
    csn_cancel_free(cancel);
    return status;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { 0 };
    cli_args args;
    csn_candidate c = { .size = sizeof(c) };
    csn_run_options o = { .size = sizeof(o) };
    cli_arena_run kept = { .objective = CSN_BUF_INIT };
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 1, 1);
    if (status < 0 && !v.arena.objective)
        status = cli_usage(cmd, "--objective is missing");
    if (status < 0) {
        cli_want_json(v.json);
        status = cli_arena_fill(cmd, &v.arena, &o, &kept);
    }
    if (status < 0) {
        c.script = args.argv[0];
        c.id = v.id ? v.id : cli_id_of_script(c.script);
        o.artifact_file = v.output && !csn_streq(v.output, "-") ? v.output : NULL;
        if (!o.artifact_file)
            v.output = NULL;
        status = run_it(&v, &c, &o, kept.optional_walls);
    }
    cli_arena_done(&kept);
    return status;
}

const cli_command cli_cmd_candidate = {
    .name = "candidate",
    .summary = "Run one candidate script on an objective and take its artifact",
    .usage = "candidate [options] --objective TEXT|@FILE SCRIPT",
    .text =
        "SCRIPT is called with the objective and the path it must write its artifact to. The artifact goes to\n"
        "standard output or --output FILE, log lines go to standard error. Exit status: 0 success, 1 the\n"
        "candidate failed, 2 misuse, 3 no usable backend, 130 interrupted.",
    .groups = groups,
    .operands = "@file",
    .reach = CLI_ANYWHERE,
    .run = run,
};
