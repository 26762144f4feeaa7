/* fork and snapshot: a sandbox's files as another sandbox, or as an image. */
#include "base/fault.h"
#include "base/str.h"
#include "boxjson.h"
#include "commands.h"
#include "out.h"
#include "session.h"

struct values {
    const char *name;
    cli_list labels;
    int64_t ttl, idle_stop;
    int json, ephemeral, quiet;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt fork_options[] = {
    { 'n', "name", CLI_TEXT, AT(name), "NAME", "name of the copy", NULL, NULL },
    { 'l', "label", CLI_LIST, AT(labels), "KEY=VALUE",
      "label of the copy, instead of the original's", NULL, NULL },
    { 0, "ttl", CLI_DURATION, AT(ttl), "TIME", "delete the copy that long from now", NULL, NULL },
    { 0, "idle-stop", CLI_DURATION, AT(idle_stop), "TIME", "stop the copy when idle for that long",
      NULL, NULL },
    { 0, "ephemeral", CLI_FLAG, AT(ephemeral), NULL, "the copy is deleted when it stops", NULL,
      NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document instead of the id", NULL, NULL },
    CLI_END
};

static const cli_opt snapshot_options[] = {
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "don't print the image's name", NULL, NULL }, CLI_END
};

static const cli_group fork_groups[] = { { "Options", fork_options, 0 }, { NULL, NULL, 0 } };
static const cli_group snapshot_groups[] = { { "Options", snapshot_options, 0 },
                                             { NULL, NULL, 0 } };

/* Without --label the copy has the original's. */
static int take_labels(csn_sandbox *box, cli_list *labels, csn_error *err)
{
    csn_sandbox_info info;
    int r;

    if (labels->n)
        return CSN_OK;
    r = csn_sandbox_inspect(box, &info, err);
    for (size_t i = 0; r == CSN_OK && info.labels && info.labels[i]; i++)
        cli_list_add(labels, csn_xstrdup(info.labels[i])); /* live as long as the program */
    return r;
}

static int run_fork(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *box = NULL;
    csn_auto(sandbox) csn_sandbox *copy = NULL;
    struct values v = { 0 };
    csn_sandbox_options o = { .size = sizeof(o), .is_detached = 1 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 1, 2);
    if (status < 0)
        status = cli_open_box(args.argv[0], &engine, &box);
    if (status >= 0)
        return status;
    if (take_labels(box, &v.labels, &err) < 0)
        return cli_fail(&err, NULL);
    o.name = args.argc == 2 ? args.argv[1] : v.name;
    o.labels = v.labels.items;
    o.ttl_ms = v.ttl > 0 ? v.ttl : 0;
    o.idle_stop_ms = v.idle_stop > 0 ? v.idle_stop : 0;
    o.is_ephemeral = v.ephemeral;
    if (csn_sandbox_fork(box, &o, &copy, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    return cli_print_new_box(copy, v.json);
}

static int run_snapshot(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *box = NULL;
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    struct values v = { 0 };
    csn_error err = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 2, 2);
    if (status < 0)
        status = cli_open_box(args.argv[0], &engine, &box);
    if (status >= 0)
        return status;
    if (csn_sandbox_snapshot(box, args.argv[1], &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    if (v.quiet)
        return 0;
    csn_buf_printf(&line, "%s\n", args.argv[1]);
    return cli_print(&line) < 0 ? CLI_ENGINE : 0;
}

const cli_command cli_cmd_fork = {
    .name = "fork",
    .summary = "Start a copy of a sandbox: same files and settings, own life",
    .usage = "fork [options] BOX [NAME]",
    .groups = fork_groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run_fork,
};

const cli_command cli_cmd_snapshot = {
    .name = "snapshot",
    .summary = "Save a sandbox's file system as a new image",
    .usage = "snapshot BOX IMAGE",
    .groups = snapshot_groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run_snapshot,
};
