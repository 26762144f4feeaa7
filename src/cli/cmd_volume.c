#include <stdio.h>

#include <caisson/volume.h>

#include "base/str.h"
#include "base/time.h"
#include "commands.h"
#include "named.h"
#include "out.h"
#include "session.h"
#include "volume_look.h"

static int run_create(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    cli_named v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 1, 1, &engine);

    if (status >= 0)
        return status;
    return cli_named_end(&v, args.argv[0], csn_volume_create(engine, args.argv[0], &err), &err);
}

static void put_json(csn_jw *w, const csn_volume_info *info)
{
    char when[CSN_ISO8601_SIZE];

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "name", info->name);
    csn_jw_kstr(w, "created", csn_iso8601(info->created_ms, when));
    if (info->size_bytes >= 0) {
        csn_jw_kint(w, "size_bytes", info->size_bytes);
        if (info->n_files >= 0)
            csn_jw_kint(w, "files", info->n_files);
    }
    csn_jw_key(w, "users");
    if (info->n_users == CSN_VOLUME_USERS_UNKNOWN)
        csn_jw_null(w);
    else
        csn_jw_uint(w, info->n_users);
    csn_jw_end_object(w);
}

static const char *users_of(const csn_volume_info *info, char room[16])
{
    if (info->n_users == CSN_VOLUME_USERS_UNKNOWN)
        return "-";
    (void) snprintf(room, 16, "%u", (unsigned) info->n_users);
    return room;
}

static void on_volume(const csn_volume_info *info, void *user)
{
    cli_listing *l = user;
    char room[16];

    if (l->values->json) {
        put_json(&l->w, info);
        return;
    }
    cli_listing_name(l, info->name);
    cli_table_cell(&l->table, cli_age(info->created_ms));
    cli_table_cell(&l->table, users_of(info, room));
}

static int run_ls(const cli_command *cmd, int argc, char **argv)
{
    static const char *const heads[] = { "NAME", "AGE", "USERS", NULL };
    csn_auto(engine) csn_engine *engine = NULL;
    cli_listing l = { .table = CLI_TABLE_INIT(3, 1 << 1 | 1 << 2) };
    cli_named v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 0, 0, &engine);

    if (status >= 0)
        return status;
    cli_listing_begin(&l, &v, heads);
    return cli_listing_end(&l, csn_volume_list(engine, on_volume, &l, &err), &err);
}

static void put_text(const csn_volume_info *info, void *user)
{
    char when[CSN_ISO8601_SIZE], room[16];

    csn_buf_printf(user, "name     %s\ncreated  %s\nsize     %s", info->name,
                   csn_iso8601(info->created_ms, when),
                   info->size_bytes < 0 ? "-" : cli_size(info->size_bytes));
    if (info->n_files >= 0) /* else it is one file that holds a file system */
        csn_buf_printf(user, " in %lld files", (long long) info->n_files);
    csn_buf_printf(user, "\nusers    %s\n", users_of(info, room));
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
    cli_named v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_named_begin(cmd, argc, argv, &v, &args, 1, 1, &engine);

    if (status >= 0)
        return status;
    if (csn_volume_inspect(engine, args.argv[0], v.json ? put_document : put_text,
                           v.json ? (void *) &w : (void *) &out, &err) < 0)
        return cli_fail(&err, NULL);
    return cli_named_print(&v, &out);
}

static int run_rm(const cli_command *cmd, int argc, char **argv)
{
    return cli_named_rm(cmd, argc, argv, csn_volume_remove);
}

static const cli_command create = {
    .name = "create",
    .summary = "Make an empty volume",
    .usage = "volume create NAME",
    .groups = cli_named_make_groups,
    .reach = CLI_ANYWHERE,
    .run = run_create,
};

static const cli_command ls = {
    .name = "ls",
    .summary = "List volumes",
    .usage = "volume ls [options]",
    .groups = cli_named_ls_groups,
    .reach = CLI_ANYWHERE,
    .run = run_ls,
};

static const cli_command inspect = {
    .name = "inspect",
    .summary = "Show a volume's size and users",
    .usage = "volume inspect [--json] NAME",
    .groups = cli_named_inspect_groups,
    .operands = "@volume",
    .reach = CLI_ANYWHERE,
    .run = run_inspect,
};

static const cli_command rm = {
    .name = "rm",
    .summary = "Remove volumes that no sandbox mounts, with all they hold",
    .usage = "volume rm [-f] NAME…",
    .groups = cli_named_rm_groups,
    .operands = "@volume",
    .reach = CLI_ANYWHERE,
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
