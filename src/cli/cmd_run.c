#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "boxopt.h"
#include "command.h"
#include "commands.h"
#include "imagecmd.h"
#include "lang.h"
#include "out.h"
#include "session.h"

struct values {
    cli_box_values box;
    cli_command_values command;
    const char *entrypoint;
    int keep, rm;
};

static const cli_opt entry_options[] = {
    { 0, "entrypoint", CLI_TEXT, offsetof(struct values, entrypoint), "PROGRAM",
      "instead of the image's own; '' for none", NULL, NULL },
    CLI_END
};

static const cli_opt own_options[] = {
    { 'k', "keep", CLI_FLAG, offsetof(struct values, keep), NULL,
      "keep the sandbox afterwards; its id goes to stderr", NULL, NULL },
    { 0, "rm", CLI_FLAG, offsetof(struct values, rm), NULL,
      "remove the sandbox afterwards (default; with --detach: when the command has ended)", NULL,
      NULL },
    CLI_END
};

static const cli_group groups[] = {
    { "Command", cli_command_options, offsetof(struct values, command) },
    { "Image", entry_options, 0 },
    { "Sandbox", cli_box_options, offsetof(struct values, box) },
    { "Limits (defaults in brackets; 'unlimited' takes one away)", cli_limit_options,
      offsetof(struct values, box) },
    { "Afterwards", own_options, 0 },
    { NULL, NULL, 0 },
};

enum {
    DETACHED_IDLE_MS = 1000 /* run --detach --rm: how soon after the command the sandbox goes */
};

/* How long the sandbox lives: with us (default), on its own (--keep, --detach), or on its own until the command is over
 * (--detach --rm). */
static void choose_life(const struct values *v, csn_sandbox_options *o)
{
    bool stays = v->keep || (v->command.detach && !v->rm);

    o->is_detached = v->keep || v->command.detach;
    o->is_ephemeral = !stays;
    if (v->command.detach && v->rm && !o->idle_stop_ms)
        o->idle_stop_ms = DETACHED_IDLE_MS;
}

static int run_in(csn_engine *engine, csn_sandbox *box, const struct values *v,
                  csn_process_options *o, cli_script *script)
{
    csn_error err = { 0 };

    if (script && cli_script_put(box, script, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status()
                                           : cli_fail(&err, "copy '%s' in", script->path);
    return cli_command_run(engine, box, &v->command, o);
}

static int run_and_leave(csn_engine *engine, const struct values *v, const cli_box *box,
                         csn_process_options *o, cli_script *script)
{
    csn_auto(sandbox) csn_sandbox *sandbox = NULL;
    csn_error err = { 0 };
    int status;

    if (csn_sandbox_create(engine, &box->o, &sandbox, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    status = run_in(engine, sandbox, v, o, script);
    if (v->keep && !v->command.quiet)
        cli_note("kept sandbox %s", csn_sandbox_id(sandbox));
    if (v->keep || v->command.detach)
        return status;
    if (cli_delete(sandbox, &err) < 0)
        return cli_fail(&err, NULL);
    return status;
}

static int run_once(csn_engine *engine, const struct values *v, const cli_box *box,
                    csn_process_options *o, const cli_script *script)
{
    csn_file_source from = { .size = sizeof(from), .is_fd = 1 };
    csn_once_file file = { .from = &from };

    if (!script)
        return cli_command_run_once(engine, &box->o, NULL, &v->command, o);
    from.fd = script->fd; /* closed when the program ends */
    file.path = script->path;
    file.mode = script->mode;
    return cli_command_run_once(engine, &box->o, &file, &v->command, o);
}

static int open_and_run(const struct values *v, cli_box *box, csn_process_options *o,
                        cli_script *script)
{
    const bool is_once = box->o.is_ephemeral && !box->o.is_detached && !v->command.tty;
    csn_auto(engine) csn_engine *engine = NULL;
    cli_list command = { 0 };
    int status = is_once ? cli_open_for_one(box->optional_walls, &engine)
                         : cli_open_to_make(box->optional_walls, &engine);

    if (status < 0 && !script) {
        status = cli_image_command(engine, box, v->entrypoint, o->argv, &command);
        o->argv = command.items;
    }
    if (status >= 0)
        return status;
    if (!v->command.quiet)
        cli_image_note_user(engine, box);
    return is_once ? run_once(engine, v, box, o, script) : run_and_leave(engine, v, box, o, script);
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { 0 };
    cli_box box = { 0 };
    cli_args args;
    cli_script script;
    csn_process_options o = { 0 };
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_command_prepare(cmd, &v.command, &o);
    if (status < 0 && args.argc == 0 && !v.box.image && !v.entrypoint)
        status = cli_usage(cmd, "what to run is missing: FILE, or -- COMMAND");
    if (status < 0 && args.argc > 0 && !args.has_dashes && v.entrypoint)
        status = cli_usage(cmd, "--entrypoint is for commands, behind --: a FILE has its interpreter");
    if (status < 0 && v.keep && v.rm)
        status = cli_usage(cmd, "--keep and --rm exclude each other");
    if (status < 0)
        status = cli_box_fill(cmd, &v.box, &box);
    if (status >= 0)
        return status;
    choose_life(&v, &box.o);
    v.command.is_new_box = 1;
    if (args.has_dashes || args.argc == 0) {
        o.argv = (const char *const *) args.argv;
        return open_and_run(&v, &box, &o, NULL);
    }
    status = cli_script_open(args.argc, args.argv, &script);
    if (status >= 0)
        return status;
    o.argv = script.argv.items;
    return open_and_run(&v, &box, &o, &script);
}

const cli_command cli_cmd_run = {
    .name = "run",
    .summary = "Run a file or a command in a fresh sandbox and delete it afterwards",
    .usage = "run [options] FILE [ARG…]\nrun [options] -- COMMAND [ARG…]\nrun --image IMAGE [options] [-- ARG…]",
    .text =
        "FILE is copied to the home directory inside and run by what its suffix says (.py python3,\n"
        ".sh sh, .js node, .ts esbuild and node, .c cc) or by its #! line. Exit status: the command's\n"
        "own; 124 time limit, 125 engine error, 126 not executable, 127 not found, 128+N signal N.\n\n"
        "An image that came with an entrypoint has it put before COMMAND, and without a COMMAND runs its\n"
        "own, as with docker run; its environment and working directory hold where none is given here.",
    .groups = groups,
    .operands = "@file",
    .verbatim_after = 1,
    .usage_status = CLI_ENGINE,
    .reach = CLI_ANYWHERE,
    .run = run,
};
