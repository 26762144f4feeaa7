/* gc and version: small words about this machine. */
#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "session.h"

struct values {
    int json, quiet;
};

#define AT(field) offsetof(struct values, field)
#define JSON \
    { \
        0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL \
    }

static const cli_opt gc_options[] = { JSON, CLI_END };
static const cli_opt version_options[] = { JSON, CLI_END };
static const cli_group gc_groups[] = { { "Options", gc_options, 0 }, { NULL, NULL, 0 } };
static const cli_group version_groups[] = { { "Options", version_options, 0 }, { NULL, NULL, 0 } };

static int run_gc(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    struct values v = { 0 };
    csn_error err = { 0 };
    uint32_t n = 0;
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 0, 0);
    if (status < 0)
        status = cli_open(0, &engine);
    if (status >= 0)
        return status;
    if (csn_engine_gc(engine, &n, &err) < 0)
        return cli_fail(&err, NULL);
    if (v.json) {
        csn_jw_begin_object(&w);
        csn_jw_kint(&w, "removed", n);
        csn_jw_end_object(&w);
        return cli_print_json(&out);
    }
    csn_buf_printf(&out, "%u removed\n", (unsigned) n);
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

static int run_version(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    struct values v = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 0, 0);
    if (status >= 0)
        return status;
    if (v.json) {
        csn_jw_begin_object(&w);
        csn_jw_kstr(&w, "version", csn_version());
        csn_jw_end_object(&w);
        return cli_print_json(&out);
    }
    csn_buf_printf(&out, "caisson %s\n", csn_version());
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

const cli_command cli_cmd_gc = {
    .name = "gc",
    .summary = "Sweep what killed programs left behind",
    .usage = "gc [--json]",
    .text =
        "Every command does this for what it meets; gc does it for all and says how much there was.",
    .groups = gc_groups,
    .reach = CLI_ANYWHERE,
    .run = run_gc,
};

const cli_command cli_cmd_version = {
    .name = "version",
    .summary = "Print the version",
    .usage = "version [--json]",
    .groups = version_groups,
    .run = run_version,
};
