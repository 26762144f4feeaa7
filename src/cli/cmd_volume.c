#include <stdio.h>

#include <caisson/volume.h>

#include "base/str.h"
#include "base/time.h"
#include "commands.h"
#include "out.h"
#include "session.h"
#include "table.h"
#include "volume_look.h"

struct values {
    int json, quiet, force;
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

static const cli_opt create_options[] = { QUIET, CLI_END };
static const cli_opt ls_options[] = { QUIET, JSON, CLI_END };
static const cli_opt inspect_options[] = { JSON, CLI_END };
static const cli_opt rm_options[] = { { 'f', "force", CLI_FLAG, AT(force), NULL,
                                        "one that isn't there is no error", NULL, NULL },
                                      QUIET,
                                      CLI_END };

static const cli_group create_groups[] = { { "Options", create_options, 0 }, { NULL, NULL, 0 } };
static const cli_group ls_groups[] = { { "Options", ls_options, 0 }, { NULL, NULL, 0 } };
static const cli_group inspect_groups[] = { { "Options", inspect_options, 0 }, { NULL, NULL, 0 } };
static const cli_group rm_groups[] = { { "Options", rm_options, 0 }, { NULL, NULL, 0 } };

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

static int run_create(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 1, 1, &engine);

    if (status >= 0)
        return status;
    return finish(csn_volume_create(engine, args.argv[0], &err), &err, &v, args.argv[0]);
}

static void put_json(csn_jw *w, const csn_volume_info *info)
{
    char when[CSN_ISO8601_SIZE];

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "name", info->name);
    csn_jw_kstr(w, "created", csn_iso8601(info->created_ms, when));
    if (info->size_bytes >= 0) {
        csn_jw_kint(w, "size_bytes", info->size_bytes);
        csn_jw_kint(w, "files", info->n_files);
    }
    csn_jw_kint(w, "users", info->n_users);
    csn_jw_end_object(w);
}

struct listing {
    const struct values *v;
    cli_table table;
    csn_buf text;
    csn_jw w;
};

static void on_volume(const csn_volume_info *info, void *user)
{
    struct listing *l = user;
    char users[16];

    if (l->v->json) {
        put_json(&l->w, info);
        return;
    }
    (void) snprintf(users, sizeof(users), "%u", (unsigned) info->n_users);
    csn_buf_printf(&l->text, "%s\n", info->name);
    cli_table_cell(&l->table, info->name);
    cli_table_cell(&l->table, cli_age(info->created_ms));
    cli_table_cell(&l->table, users);
}

static int run_ls(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    struct listing l = { .v = &v,
                         .table = CLI_TABLE_INIT(3, 1 << 1 | 1 << 2),
                         .text = CSN_BUF_INIT };
    csn_error err = { 0 };
    cli_args args;
    int status = begin(cmd, argc, argv, &v, &args, 0, 0, &engine);

    if (status >= 0)
        return status;
    l.w = (csn_jw) CSN_JW_INIT(&l.text, true);
    if (v.json)
        csn_jw_begin_array(&l.w);
    cli_table_cell(&l.table, "NAME");
    cli_table_cell(&l.table, "AGE");
    cli_table_cell(&l.table, "USERS");
    if (csn_volume_list(engine, on_volume, &l, &err) < 0) {
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

static void put_text(const csn_volume_info *info, void *user)
{
    char when[CSN_ISO8601_SIZE];

    csn_buf_printf(user, "name     %s\ncreated  %s\nsize     %s in %lld files\nusers    %u\n",
                   info->name, csn_iso8601(info->created_ms, when), cli_size(info->size_bytes),
                   (long long) info->n_files, (unsigned) info->n_users);
}

static void put_document(const csn_volume_info *info, void *user)
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
    if (csn_volume_inspect(engine, args.argv[0], v.json ? put_document : put_text,
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
        int r = csn_volume_remove(engine, args.argv[i], &err);
        int one = v.force && r == CSN_E_NOT_FOUND ? 0 : finish(r, &err, &v, args.argv[i]);

        status = one ? one : status;
    }
    return status;
}

static const cli_command create = {
    .name = "create",
    .summary = "Make an empty volume",
    .usage = "volume create NAME",
    .groups = create_groups,
    .run = run_create,
};

static const cli_command ls = {
    .name = "ls",
    .summary = "List volumes",
    .usage = "volume ls [options]",
    .groups = ls_groups,
    .run = run_ls,
};

static const cli_command inspect = {
    .name = "inspect",
    .summary = "Show a volume's size and users",
    .usage = "volume inspect [--json] NAME",
    .groups = inspect_groups,
    .operands = "@volume",
    .run = run_inspect,
};

static const cli_command rm = {
    .name = "rm",
    .summary = "Remove volumes that no sandbox mounts, with all they hold",
    .usage = "volume rm [-f] NAME…",
    .groups = rm_groups,
    .operands = "@volume",
    .run = run_rm,
};

static const cli_command *const subs[] = { &create,         &ls, &inspect, &cli_volume_tree,
                                           &cli_volume_cat, &rm, NULL };

const cli_command cli_cmd_volume = {
    .name = "volume",
    .summary = "Durable directories: create, ls, inspect, tree, cat, rm",
    .usage = "volume SUBCOMMAND …",
    .subs = subs,
    .run = cli_run_sub,
};
