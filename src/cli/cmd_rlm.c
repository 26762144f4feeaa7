/* caisson rlm: a model writes code until the task is done. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "boxopt.h"
#include "commands.h"
#include "interpopt.h"
#include "out.h"
#include "session.h"

enum { INPUT_MAX = 64 << 20 };

struct values {
    cli_interp_values interp;
    const char *input;
    int64_t iterations;
    int json, quiet;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 0, "input", CLI_TEXT, AT(input), "FILE",
      "text the code gets as the variable context; -: stdin", "@file", NULL },
    { 0, "max-iterations", CLI_COUNT, AT(iterations), "N",
      "how often the model is asked for code [30]", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document with counts", NULL, NULL },
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "don't show the steps on stderr", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = { { "Task", own_options, 0 },
                                    { "Models", cli_model_options, AT(interp) },
                                    { "Sandbox", cli_interp_options, AT(interp) },
                                    { NULL, NULL, 0 } };

static void on_step(int iteration, const char *code, const char *output, void *user)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    const struct values *v = user;

    if (v->quiet)
        return;
    csn_buf_printf(&text, "--- step %d\n", iteration);
    csn_buf_puts(&text, code);
    csn_buf_printf(&text, "\n--- output\n%s\n", output);
    (void) cli_write(STDERR_FILENO, text.data, text.len); /* only talk */
}

static int print_result(const struct values *v, csn_interp *interp, const csn_rlm_result *r)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    int64_t used, max;

    if (!v->json) {
        csn_buf_printf(&out, "%s\n", r->final_json);
        return cli_print(&out) < 0 ? CLI_ENGINE : 0;
    }
    csn_interp_budget(interp, &used, &max);
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "final");
    csn_jw_raw(&w, r->final_json, strlen(r->final_json));
    csn_jw_kint(&w, "iterations", r->iterations);
    csn_jw_kint(&w, "planner_calls", r->planner_calls);
    csn_jw_kint(&w, "llm_calls", used);
    csn_jw_kbool(&w, "extracted", r->is_extracted);
    csn_jw_end_object(&w);
    return cli_print_json(&out);
}

static int solve(const struct values *v, csn_interp *interp, const char *task)
{
    csn_auto(buf) csn_buf input = CSN_BUF_INIT_MAX(INPUT_MAX);
    csn_rlm_options o = { .size = sizeof(o),
                          .fields = v->interp.fields.items,
                          .max_iterations = (int) v->iterations,
                          .on_step = on_step,
                          .user_data = (void *) v };
    csn_rlm_result r = { 0 };
    csn_error err = { 0 };
    int status, e = 0;

    if (v->input)
        e = csn_streq(v->input, "-") ? csn_read_to_buf(STDIN_FILENO, &input, INPUT_MAX)
                                     : csn_read_file(AT_FDCWD, v->input, &input, INPUT_MAX);
    if (e < 0)
        return cli_fail_with(CSN_E_SYSTEM, NULL, "read '%s': %s", v->input, strerror(-e));
    o.context = v->input ? input.data : NULL;
    if (csn_rlm_run(interp, task, &o, &r, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : (cli_fail(&err, NULL), 1);
    status = print_result(v, interp, &r);
    csn_rlm_result_done(&r);
    return status;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(interp) csn_interp *interp = NULL;
    struct values v = { 0 };
    csn_interp_options o;
    cli_list env = { 0 };
    cli_interp_values opened;
    cli_args args;
    uint32_t walls = 0;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 1, 1);
    if (status < 0)
        status = cli_interp_fill(cmd, &v.interp, &o, &env);
    if (status >= 0)
        return status;
    cli_want_json(v.json);
    opened = v.interp;
    opened.fields =
        (cli_list){ 0 }; /* the loop itself says what is missing, so that the model learns it */
    status = cli_fill_walls(cmd, &v.interp.optional, &walls);
    if (status < 0)
        status = cli_open_to_make(walls, &engine);
    if (status < 0)
        status = cli_interp_open(engine, &opened, &o, &interp);
    if (status < 0) {
        status = solve(&v, interp, args.argv[0]);
        cli_session_save(engine, v.interp.session, interp);
    }
    (void) cli_signal_take(); /* from here on there is only cleaning up */
    return status;
}

const cli_command cli_cmd_rlm = {
    .name = "rlm",
    .summary = "Let a model solve a task by writing code, step by step",
    .usage = "rlm [options] TASK",
    .text =
        "The model is asked for Python, the code runs in a sandbox, what it printed goes back to the\n"
        "model, until the code calls SUBMIT with every --field [answer]. Needs --llm-url or --llm-cmd.",
    .groups = groups,
    .reach = CLI_ANYWHERE,
    .run = run,
};
