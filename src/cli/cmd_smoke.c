/* caisson smoke and diagnose: does it all work here, and if not, what is missing? */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson/config.h>
#include <caisson/interp.h>

#include "base/str.h"
#include "boxopt.h"
#include "commands.h"
#include "out.h"
#include "session.h"

struct values {
    const char *repo, *ref, *env_file;
    int net;
    cli_list optional;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt smoke_options[] = {
    { 0, "repo", CLI_TEXT, AT(repo), "URL|DIR",
      "the repository to try it with (needed); it must have a README.md", "@dir", NULL },
    { 0, "ref", CLI_TEXT, AT(ref), "REF", "branch, tag or commit of it", NULL, NULL },
    { 0, "net", CLI_FLAG, AT(net), NULL, "allow cloning from a remote URL", NULL, NULL },
    { 0, "optional", CLI_LIST, AT(optional), "WALL,…",
      "start even if these walls can't be put up here", NULL, NULL },
    CLI_END
};
static const cli_opt diagnose_options[] = {
    { 0, "env-file", CLI_TEXT, AT(env_file), "FILE",
      "read settings from this file instead of .env.local and .env", "@file", NULL },
    CLI_END
};
static const cli_group smoke_groups[] = { { "Options", smoke_options, 0 }, { NULL, NULL, 0 } };
static const cli_group diagnose_groups[] = { { "Options", diagnose_options, 0 },
                                             { NULL, NULL, 0 } };

static int run_smoke(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(mem) char *json = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    struct values v = { 0 };
    cli_args args;
    uint32_t walls = 0;
    int r, status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 0, 0);
    if (status < 0 && !v.repo)
        status = cli_usage(cmd, "--repo is missing");
    if (status < 0)
        status = cli_fill_walls(cmd, &v.optional, &walls);
    if (status < 0)
        status = cli_open_to_make(walls, &engine);
    if (status >= 0)
        return status;
    r = csn_interp_smoke(engine, v.repo, v.ref, v.net, &json, NULL);
    if (!json)
        cli_out_of_memory();
    csn_buf_printf(&out, "%s\n", json);
    if (r < 0) {
        csn_auto(buf) csn_buf cause = CSN_BUF_INIT;

        if (cli_write(STDERR_FILENO, out.data, out.len) < 0)
            return CLI_ENGINE;
        if (cli_find_cause(&cause)) { /* behind the report, which is JSON */
            cli_note_cause(cause.data);
            cli_try("caisson doctor");
        }
        return 1;
    }
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

const cli_command cli_cmd_smoke = {
    .name = "smoke",
    .summary = "Try the whole way once: sandbox, clone, two executes, clean-up",
    .usage = "smoke --repo URL|DIR [--ref REF]",
    .text = "Prints a report as JSON: on stdout and status 0, or on stderr and status 1.",
    .groups = smoke_groups,
    .reach = CLI_ANYWHERE,
    .run = run_smoke,
};

/* ---- diagnose --------------------------------------------------------------------------------------------------- */

struct report {
    csn_buf out;
    int n_ok, n_failed;
};

static void item(struct report *r, bool is_ok, const char *name, const char *detail)
{
    csn_buf_printf(&r->out, "%-4s  %-10s  ", is_ok ? "OK" : "FAIL", name);
    cli_put_safe(&r->out, detail);
    csn_buf_putc(&r->out, '\n');
    r->n_ok += is_ok;
    r->n_failed += !is_ok;
}

static void item_model(struct report *r, const char *model, const char *small, bool has_key)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    csn_buf_printf(&text, "%s%s%s, %s", model, small ? ", for delegates " : "", small ? small : "",
                   has_key ? "with a key (hidden)" : "without a key");
    item(r, true, "model", text.data);
}

static void check_engine(struct report *r, csn_engine *engine)
{
    static const char code[] = "import sys; SUBMIT('%d.%d.%d' % sys.version_info[:3])";
    csn_interp_options o = { .size = sizeof(o), .execute_timeout_s = 30 };
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_interp *i = NULL;
    csn_exec_result *x = NULL;
    csn_error err = { 0 };

    if (csn_interp_new(engine, &o, &i, &err) < 0 ||
        csn_interp_execute(i, code, sizeof(code) - 1, NULL, &x, &err) < 0) {
        csn_auto(buf) csn_buf cause = CSN_BUF_INIT;

        if (cli_find_cause(&cause))
            csn_buf_printf(&text, "%s (%s); try: caisson doctor", err.message, cause.data);
        else
            csn_buf_printf(&text, "%s; try: caisson doctor", err.message);
        item(r, false, "engine", text.data);
    } else {
        item(r, true, "engine", "a sandbox starts and ends");
        csn_buf_printf(&text, "%s in the sandbox",
                       csn_final_str(x, "output", NULL) ? csn_final_str(x, "output", NULL) : "?");
        item(r, csn_result_kind(x) == CSN_EXEC_FINAL, "python", text.data);
    }
    csn_result_free(x);
    csn_interp_free(i);
}

static void check_settings(struct report *r, const struct values *v)
{
    csn_config_options o = { .size = sizeof(o), .env_file = v->env_file };
    csn_config *c = NULL;
    csn_error err = { 0 };
    const char *model, *base, *key;

    if (csn_config_load(&o, &c, &err) < 0) {
        item(r, false, "settings", err.message);
        return;
    }
    item(r, true, ".env",
         access(".env", R_OK) == 0 || access(".env.local", R_OK) == 0 ? "found"
                                                                      : "none here, none needed");
    item(r, true, "remote key",
         csn_config_api_key(c) ? "set (hidden)" : "not set: the local engine is used");
    item(r, true, "remote URL", csn_config_api_url(c));
    model = csn_config_get(c, "DSPY_LM_MODEL");
    base = csn_config_get(c, "DSPY_LM_API_BASE");
    key = csn_config_get(c, "DSPY_LLM_API_KEY") ? csn_config_get(c, "DSPY_LLM_API_KEY")
                                                : csn_config_get(c, "DSPY_LM_API_KEY");
    if (!model && !base && !key)
        item(
            r, true, "model",
            "not configured: give --llm-url or --llm-cmd, or set DSPY_LM_MODEL, DSPY_LM_API_BASE, DSPY_LLM_API_KEY");
    else if (!model || !base)
        item(r, false, "model", model ? "DSPY_LM_API_BASE is missing" : "DSPY_LM_MODEL is missing");
    else
        item_model(r, model, csn_config_get(c, "DSPY_LM_SMALL_MODEL"), key != NULL);
    csn_config_free(c);
}

static void check_git(struct report *r)
{
    bool is_there = access("/usr/bin/git", X_OK) == 0 || access("/usr/local/bin/git", X_OK) == 0;

    item(r, is_there, "git", is_there ? "found" : "missing: --repo needs it (Debian: git)");
}

static int run_diagnose(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct report r = { .out = CSN_BUF_INIT };
    struct values v = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 0, 0);
    if (status < 0)
        status = cli_open_to_make(0, &engine);
    if (status >= 0)
        return status;
    check_engine(&r, engine);
    check_git(&r);
    check_settings(&r, &v);
    csn_buf_printf(&r.out, "\n%d OK, %d FAIL\n", r.n_ok, r.n_failed);
    status = cli_print(&r.out) < 0 ? CLI_ENGINE : r.n_failed > 0;
    csn_buf_free(&r.out);
    return status;
}

const cli_command cli_cmd_diagnose = {
    .name = "diagnose",
    .summary = "Check what the interpreter needs: engine, Python, git, settings",
    .usage = "diagnose [--env-file FILE]",
    .text =
        "One line per item, OK or FAIL; secrets are never shown. Exit status 1 when something failed.\n"
        "For walls and limits of the sandbox itself see caisson doctor.",
    .groups = diagnose_groups,
    .reach = CLI_ANYWHERE,
    .run = run_diagnose,
};
