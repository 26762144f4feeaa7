#include <caisson/image.h>

#include "base/str.h"
#include "base/time.h"
#include "boxjson.h"
#include "commands.h"
#include "out.h"
#include "session.h"
#include "table.h"

struct values {
    int json, quiet, debian, force;
};

#define AT(field) offsetof(struct values, field)
#define JSON \
    { \
        0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL \
    }
#define QUIET \
    { \
        'q', "quiet", CLI_FLAG, AT(quiet), NULL, "names only, or nothing", NULL, NULL \
    }

static const cli_opt make_options[] = { QUIET, CLI_END };
static const cli_opt build_options[] = { { 0, "debian", CLI_FLAG, AT(debian), NULL,
                                           "a Debian system with the packages named (mmdebstrap)",
                                           NULL, NULL },
                                         QUIET,
                                         CLI_END };
static const cli_opt ls_options[] = { QUIET, JSON, CLI_END };
static const cli_opt inspect_options[] = { JSON, CLI_END };
static const cli_opt rm_options[] = { { 'f', "force", CLI_FLAG, AT(force), NULL,
                                        "one that isn't there is no error", NULL, NULL },
                                      QUIET,
                                      CLI_END };

static const cli_group make_groups[] = { { "Options", make_options, 0 }, { NULL, NULL, 0 } };
static const cli_group build_groups[] = { { "Options", build_options, 0 }, { NULL, NULL, 0 } };
static const cli_group ls_groups[] = { { "Options", ls_options, 0 }, { NULL, NULL, 0 } };
static const cli_group inspect_groups[] = { { "Options", inspect_options, 0 }, { NULL, NULL, 0 } };
static const cli_group rm_groups[] = { { "Options", rm_options, 0 }, { NULL, NULL, 0 } };

/* Parses, counts operands and opens the engine: what each of them begins with. */
static int begin(const cli_command *cmd, int argc, char **argv, struct values *v, cli_args *args,
                 int min, int max, csn_engine **ret_engine)
{
    int status = cli_parse(cmd, argc, argv, v, args);

    if (status >= 0)
        return status;
    cli_want_json(v->json);
    status = cli_want(cmd, args, min, max);
    return status >= 0 ? status : cli_open(0, ret_engine);
}

static int finish(int r, const csn_error *err, const struct values *v, const char *name)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    if (r < 0)
        return err->code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(err, NULL);
    if (v->quiet)
        return 0;
    csn_buf_printf(&line, "%s\n", name);
    return cli_print(&line) < 0 ? CLI_ENGINE : 0;
}

static int run_import(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 2, 2, &engine);

    if (status >= 0)
        return status;
    return finish(csn_image_import(engine, args.argv[0], args.argv[1], &err), &err, &v,
                  args.argv[0]);
}

static int run_build(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 1, -1, &engine);

    if (status >= 0)
        return status;
    if (!v.debian)
        return cli_usage(cmd, "say what to build: --debian");
    return finish(
        csn_image_build_debian(engine, args.argv[0], (const char *const *) args.argv + 1, &err),
        &err, &v, args.argv[0]);
}

static void put_json(csn_jw *w, const csn_image_info *info)
{
    char when[CSN_ISO8601_SIZE];

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "name", info->name);
    csn_jw_kstr(w, "source", info->source);
    csn_jw_kbool(w, "host_based", info->is_host_based);
    csn_jw_kint(w, "layers", (int64_t) info->n_layers);
    csn_jw_kint(w, "size_bytes", info->size_bytes);
    csn_jw_kstr(w, "created", csn_iso8601(info->created_ms, when));
    cli_jw_pairs(w, "env", info->env);
    csn_jw_kstr(w, "cwd", info->cwd);
    csn_jw_end_object(w);
}

struct listing {
    const struct values *v;
    cli_table table;
    csn_buf text;
    csn_jw w;
};

static void on_image(const csn_image_info *info, void *user)
{
    struct listing *l = user;
    bool is_host = csn_streq(info->source, "host");

    if (l->v->json) {
        put_json(&l->w, info);
        return;
    }
    csn_buf_printf(&l->text, "%s\n", info->name);
    cli_table_cell(&l->table, info->name);
    cli_table_cell(&l->table, info->source);
    cli_table_cell(&l->table, is_host ? "" : cli_size(info->size_bytes));
    cli_table_cell(&l->table, is_host || !info->created_ms ? "" : cli_age(info->created_ms));
    cli_table_cell(&l->table, info->is_host_based ? "host" : "");
}

static int run_ls(const cli_command *cmd, int argc, char **argv)
{
    static const char *const heads[] = { "NAME", "SOURCE", "SIZE", "AGE", "BASE" };
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    struct listing l = { .v = &v,
                         .table = CLI_TABLE_INIT(5, 1 << 2 | 1 << 3),
                         .text = CSN_BUF_INIT };
    csn_error err = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 0, 0, &engine);

    if (status >= 0)
        return status;
    l.w = (csn_jw) CSN_JW_INIT(&l.text, true);
    if (v.json)
        csn_jw_begin_array(&l.w);
    for (size_t i = 0; i < CSN_COUNT(heads); i++)
        cli_table_cell(&l.table, heads[i]);
    if (csn_image_list(engine, on_image, &l, &err) < 0) {
        status = cli_fail(&err, NULL);
    } else if (v.json) {
        csn_jw_end_array(&l.w);
        status = cli_print_json(&l.text);
    } else if (v.quiet) {
        status = cli_print(&l.text) < 0 ? CLI_ENGINE : 0;
    } else {
        status = cli_table_print(&l.table);
    }
    csn_table_auto(&l.table);
    csn_buf_free(&l.text);
    return status;
}

static void put_text(const csn_image_info *info, void *user)
{
    csn_buf *out = user;
    char when[CSN_ISO8601_SIZE];

    csn_buf_printf(out,
                   "name     %s\nsource   %s\nbase     %s\nlayers   %zu\nsize     %s\n"
                   "created  %s\n",
                   info->name, info->source, info->is_host_based ? "host" : "-", info->n_layers,
                   cli_size(info->size_bytes), csn_iso8601(info->created_ms, when));
    if (info->cwd && info->cwd[0]) {
        csn_buf_puts(out, "cwd      ");
        cli_put_safe(out, info->cwd);
        csn_buf_putc(out, '\n');
    }
    for (size_t i = 0; info->env && info->env[i]; i++) {
        csn_buf_puts(out, "env      ");
        cli_put_safe(out, info->env[i]);
        csn_buf_putc(out, '\n');
    }
}

static void put_document(const csn_image_info *info, void *user)
{
    put_json(user, info);
}

static int run_inspect(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 1, 1, &engine);

    if (status >= 0)
        return status;
    if (csn_image_inspect(engine, args.argv[0], v.json ? put_document : put_text,
                          v.json ? (void *) &w : (void *) &out, &err) < 0)
        return cli_fail(&err, NULL);
    if (v.json)
        return cli_print_json(&out);
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

static int run_rm(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 1, -1, &engine);

    if (status >= 0)
        return status;
    status = 0;
    for (int i = 0; i < args.argc; i++) {
        csn_error err = { 0 };
        int r = csn_image_remove(engine, args.argv[i], &err);
        int one = v.force && r == CSN_E_NOT_FOUND ? 0 : finish(r, &err, &v, args.argv[i]);

        status = one ? one : status;
    }
    return status;
}

static const cli_command import = {
    .name = "import",
    .summary = "Make an image from a directory, a tar, an OCI layout or a docker archive",
    .usage = "image import NAME FILE|DIR",
    .text =
        "FILE may be a tar (plain, gzip or zstd), an OCI layout in a tar, or the output of 'docker save'.\n"
        "It is unpacked by a confined helper; nothing remains on failure.",
    .groups = make_groups,
    .operands = "@file",
    .run = run_import,
};

static const cli_command build = {
    .name = "build",
    .summary = "Build an image from Debian packages",
    .usage = "image build NAME --debian [PACKAGE…]",
    .groups = build_groups,
    .run = run_build,
};

static const cli_command ls = {
    .name = "ls",
    .summary = "List images",
    .usage = "image ls [options]",
    .groups = ls_groups,
    .run = run_ls,
};

static const cli_command inspect = {
    .name = "inspect",
    .summary = "Show all that is known of an image",
    .usage = "image inspect [--json] NAME",
    .groups = inspect_groups,
    .operands = "@image",
    .run = run_inspect,
};

static const cli_command rm = {
    .name = "rm",
    .summary = "Remove images that no sandbox uses",
    .usage = "image rm [-f] NAME…",
    .groups = rm_groups,
    .operands = "@image",
    .run = run_rm,
};

static const cli_command *const subs[] = { &import, &build, &ls, &inspect, &rm, NULL };

const cli_command cli_cmd_image = {
    .name = "image",
    .summary = "Root file systems: import, build, ls, inspect, rm",
    .usage = "image SUBCOMMAND …",
    .subs = subs,
    .run = cli_run_sub,
};
