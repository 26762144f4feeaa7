#include "base/str.h"
#include "boxjson.h"
#include "boxopt.h"
#include "commands.h"
#include "imagecmd.h"
#include "out.h"
#include "session.h"

struct values {
    cli_box_values box;
    int json, ephemeral, quiet;
};

static const cli_opt own_options[] = {
    { 0, "ephemeral", CLI_FLAG, offsetof(struct values, ephemeral), NULL,
      "files in memory; deleted when it stops", NULL, NULL },
    { 0, "json", CLI_FLAG, offsetof(struct values, json), NULL,
      "one JSON document instead of the id", NULL, NULL },
    { 'q', "quiet", CLI_FLAG, offsetof(struct values, quiet), NULL, "print nothing", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = {
    { "Sandbox", cli_box_options, offsetof(struct values, box) },
    { "Limits (defaults in brackets; 'unlimited' takes one away)", cli_limit_options,
      offsetof(struct values, box) },
    { "Other", own_options, 0 },
    { NULL, NULL, 0 },
};

static int create(const struct values *v, cli_box *box)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *sandbox = NULL;
    csn_error err = { 0 };
    int status = cli_open_for_one(box->optional_walls, &engine);

    if (status >= 0)
        return status;
    if (!v->quiet)
        cli_image_note_user(engine, box);
    if (csn_sandbox_create(engine, &box->o, &sandbox, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    return v->quiet ? 0 : cli_print_new_box(sandbox, v->json);
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { 0 };
    cli_box box = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 0, 1);
    if (status < 0 && args.argc == 1) { /* caisson create NAME */
        if (v.box.name)
            return cli_usage(cmd, "the name is given twice");
        v.box.name = args.argv[0];
    }
    if (status < 0)
        status = cli_box_fill(cmd, &v.box, &box);
    if (status >= 0)
        return status;
    box.o.is_detached = 1;
    box.o.is_ephemeral = v.ephemeral;
    return create(&v, &box);
}

const cli_command cli_cmd_create = {
    .name = "create",
    .summary = "Create a sandbox that stays, started, and print its id",
    .usage = "create [options] [NAME]",
    .groups = groups,
    .reach = CLI_ANYWHERE,
    .run = run,
};
