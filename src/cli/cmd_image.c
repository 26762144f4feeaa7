#include <stdio.h>
#include <string.h>

#include <caisson/image.h>

#include "base/str.h"
#include "base/time.h"
#include "boxjson.h"
#include "commands.h"
#include "named.h"
#include "out.h"
#include "session.h"

struct values {
    cli_named named;
    int debian;
};

static const cli_opt build_options[] = {
    { 0, "debian", CLI_FLAG, offsetof(struct values, debian), NULL,
      "a Debian system with the packages named (mmdebstrap)", NULL, NULL },
    CLI_NAMED_QUIET,
    CLI_END
};
static const cli_group build_groups[] = { { "Options", build_options, 0 }, { NULL, NULL, 0 } };

static int run_import(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    cli_named v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 2, 2, &engine);

    if (status >= 0)
        return status;
    return cli_named_end(&v, args.argv[0],
                         csn_image_import(engine, args.argv[0], args.argv[1], &err), &err);
}

static int run_build(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v.named, &args, 1, -1, &engine);

    if (status >= 0)
        return status;
    if (!v.debian)
        return cli_usage(cmd, "say what to build: --debian");
    int r = csn_image_build_debian(engine, args.argv[0], (const char *const *) args.argv + 1, &err);
    return cli_named_end(&v.named, args.argv[0], r, &err);
}

static void put_words(csn_jw *w, const char *key, const char *const *words)
{
    csn_jw_key(w, key);
    csn_jw_begin_array(w);
    for (size_t i = 0; words[i]; i++)
        csn_jw_str(w, words[i]);
    csn_jw_end_array(w);
}

/* null: not told. */
static void put_known(csn_jw *w, const char *key, int64_t value)
{
    csn_jw_key(w, key);
    if (value < 0)
        csn_jw_null(w);
    else
        csn_jw_int(w, value);
}

static const char *size_of(const csn_image_info *info)
{
    return info->size_bytes < 0 ? "-" : cli_size(info->size_bytes);
}

static void put_json(csn_jw *w, const csn_image_info *info)
{
    char when[CSN_ISO8601_SIZE];

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "name", info->name);
    csn_jw_kstr(w, "source", info->source);
    csn_jw_kbool(w, "host_based", info->is_host_based);
    put_known(w, "layers",
              info->n_layers == CSN_IMAGE_LAYERS_UNKNOWN ? -1 : (int64_t) info->n_layers);
    put_known(w, "size_bytes", info->size_bytes);
    csn_jw_kstr(w, "created", csn_iso8601(info->created_ms, when));
    cli_jw_pairs(w, "env", info->env);
    csn_jw_kstr(w, "cwd", info->cwd);
    put_words(w, "entrypoint", info->entrypoint);
    put_words(w, "cmd", info->cmd);
    csn_jw_kstr(w, "user", info->user);
    csn_jw_end_object(w);
}

static void on_image(const csn_image_info *info, void *user)
{
    cli_listing *l = user;
    bool is_host = csn_streq(info->source, "host");

    if (l->values->json) {
        put_json(&l->w, info);
        return;
    }
    cli_listing_name(l, info->name);
    cli_table_cell(&l->table, info->source);
    cli_table_cell(&l->table, is_host ? "" : size_of(info));
    cli_table_cell(&l->table, is_host || !info->created_ms ? "" : cli_age(info->created_ms));
    cli_table_cell(&l->table, info->is_host_based ? "host" : "");
}

static int run_ls(const cli_command *cmd, int argc, char **argv)
{
    static const char *const heads[] = { "NAME", "SOURCE", "SIZE", "AGE", "BASE", NULL };
    csn_auto(engine) csn_engine *engine = NULL;
    cli_listing l = { .table = CLI_TABLE_INIT(5, 1 << 2 | 1 << 3) };
    cli_named v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 0, 0, &engine);

    if (status >= 0)
        return status;
    cli_listing_begin(&l, &v, heads);
    return cli_listing_end(&l, csn_image_list(engine, on_image, &l, &err), &err);
}

/* As one would type it, near enough to read: words with blanks in quotes. */
static void put_command(csn_buf *out, const char *title, const char *const *words)
{
    if (!words[0])
        return;
    csn_buf_puts(out, title);
    for (size_t i = 0; words[i]; i++) {
        bool is_plain = words[i][0] && !strpbrk(words[i], " \t'\"\\$;|&<>()*?`");

        csn_buf_puts(out, i ? (is_plain ? " " : " '") : (is_plain ? "" : "'"));
        cli_put_safe(out, words[i]);
        csn_buf_puts(out, is_plain ? "" : "'");
    }
    csn_buf_putc(out, '\n');
}

static void put_text(const csn_image_info *info, void *user)
{
    csn_buf *out = user;
    char when[CSN_ISO8601_SIZE], layers[24] = "-";

    if (info->n_layers != CSN_IMAGE_LAYERS_UNKNOWN)
        (void) snprintf(layers, sizeof(layers), "%zu", info->n_layers); /* fits */
    csn_buf_printf(out,
                   "name     %s\nsource   %s\nbase     %s\nlayers   %s\nsize     %s\n"
                   "created  %s\n",
                   info->name, info->source, info->is_host_based ? "host" : "-", layers,
                   size_of(info), csn_iso8601(info->created_ms, when));
    if (info->cwd && info->cwd[0]) {
        csn_buf_puts(out, "cwd      ");
        cli_put_safe(out, info->cwd);
        csn_buf_putc(out, '\n');
    }
    if (info->user[0]) {
        csn_buf_puts(out, "user     ");
        cli_put_safe(out, info->user);
        csn_buf_putc(out, '\n');
    }
    put_command(out, "entry    ", info->entrypoint);
    put_command(out, "command  ", info->cmd);
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
    cli_named v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 1, 1, &engine);

    if (status >= 0)
        return status;
    if (csn_image_inspect(engine, args.argv[0], v.json ? put_document : put_text,
                          v.json ? (void *) &w : (void *) &out, &err) < 0)
        return cli_fail(&err, NULL);
    return cli_named_print(&v, &out);
}

static int run_rm(const cli_command *cmd, int argc, char **argv)
{
    return cli_named_rm(cmd, argc, argv, csn_image_remove);
}

static const cli_command import = {
    .name = "import",
    .summary = "Make an image from a directory, a tar, an OCI layout or a docker archive",
    .usage = "image import NAME FILE|DIR",
    .text =
        "FILE may be a tar (plain, gzip or zstd), an OCI layout in a tar, or the output of 'docker save'.\n"
        "It is unpacked by a confined helper; nothing remains on failure.",
    .groups = cli_named_make_groups,
    .operands = "@file",
    .reach = CLI_ANYWHERE,
    .run = run_import,
};

static const cli_command build = {
    .name = "build",
    .summary = "Build an image from Debian packages",
    .usage = "image build NAME --debian [PACKAGE…]",
    .groups = build_groups,
    .reach = CLI_ANYWHERE,
    .run = run_build,
};

static const cli_command ls = {
    .name = "ls",
    .summary = "List images",
    .usage = "image ls [options]",
    .groups = cli_named_ls_groups,
    .reach = CLI_ANYWHERE,
    .run = run_ls,
};

static const cli_command inspect = {
    .name = "inspect",
    .summary = "Show all that is known of an image",
    .usage = "image inspect [--json] NAME",
    .groups = cli_named_inspect_groups,
    .operands = "@image",
    .reach = CLI_ANYWHERE,
    .run = run_inspect,
};

static const cli_command rm = {
    .name = "rm",
    .summary = "Remove images that no sandbox uses",
    .usage = "image rm [-f] NAME…",
    .groups = cli_named_rm_groups,
    .operands = "@image",
    .reach = CLI_ANYWHERE,
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
