#include <unistd.h>

#include <caisson/files.h>

#include "base/str.h"
#include "boxopt.h"
#include "command.h"
#include "commands.h"
#include "imagecmd.h"
#include "out.h"
#include "pty.h"
#include "session.h"

struct values {
    cli_box_values box;
    cli_command_values command;
};

static const cli_opt own_options[] = { { 'q', "quiet", CLI_FLAG,
                                         offsetof(struct values, command.quiet), NULL,
                                         "no receipt and no remarks", NULL, NULL },
                                       CLI_END };

static const cli_group groups[] = {
    { "Other", own_options, 0 },
    { "Sandbox (when none is named)", cli_box_options, offsetof(struct values, box) },
    { "Limits (when none is named)", cli_limit_options, offsetof(struct values, box) },
    { NULL, NULL, 0 },
};

static void note_found(const csn_file_info *info, void *user)
{
    *(bool *) user = info->kind == CSN_FILE_REGULAR;
}

/* bash where there is one: people expect its line editing. */
static const char *shell_of(csn_sandbox *box)
{
    bool has_bash = false;

    if (csn_file_stat(box, "/bin/bash", 1, note_found, &has_bash, NULL) < 0)
        return "/bin/sh";
    return has_bash ? "/bin/bash" : "/bin/sh";
}

static int open_shell(csn_engine *engine, csn_sandbox *box, const struct values *v,
                      char *const *command)
{
    static const char *const env[] = { "PS1=\\u@\\h:\\w\\$ ", NULL }; /* images bring no bashrc */
    const char *shell[] = { NULL, "-i", NULL };
    csn_process_options o = { .size = sizeof(o), .timeout_ms = CSN_UNLIMITED };

    shell[0] = shell_of(box);
    o.argv = command[0] ? (const char *const *) command : shell;
    o.env = csn_streq(o.argv[0], "/bin/bash") ? env : NULL;
    o.cwd = v->box.cwd;
    return cli_pty_run(engine, box, &v->command, &o);
}

/* No sandbox named: one for this shell alone. */
static int shell_in_new(const struct values *v, cli_box *box)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *sandbox = NULL;
    char *const none[] = { NULL };
    csn_error err = { 0 };
    int status = cli_open_to_make(box->optional_walls, &engine);

    if (status >= 0)
        return status;
    box->o.is_ephemeral = 1;
    if (!v->command.quiet)
        cli_image_note_user(engine, box);
    if (csn_sandbox_create(engine, &box->o, &sandbox, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    status = open_shell(engine, sandbox, v, none);
    if (cli_delete(sandbox, &err) < 0)
        return cli_fail(&err, NULL);
    return status;
}

static int shell_in_old(const struct values *v, const cli_args *args)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *sandbox = NULL;
    int status = cli_open_box(args->argv[0], &engine, &sandbox);

    return status >= 0 ? status : open_shell(engine, sandbox, v, args->argv + 1);
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { 0 };
    cli_box box = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_box_fill(cmd, &v.box, &box);
    if (status >= 0)
        return status;
    v.command.tty = 1;
    if (!cli_is_terminal(STDIN_FILENO))
        return cli_fail_with(CSN_E_INVALID, "caisson exec BOX COMMAND",
                             "shell: standard input is not a terminal");
    return args.argc ? shell_in_old(&v, &args) : shell_in_new(&v, &box);
}

const cli_command cli_cmd_shell = {
    .name = "shell",
    .alias = "sh",
    .summary = "Open an interactive shell in a sandbox",
    .usage = "shell [options] [BOX [COMMAND [ARG…]]]",
    .text =
        "Without BOX a fresh sandbox is made for the shell and deleted after it. What the shell prints\n"
        "drives your terminal, as with ssh: use it with sandboxes whose output you trust that far.",
    .groups = groups,
    .operands = "@box",
    .verbatim_after = 2,
    .usage_status = CLI_ENGINE,
    .reach = CLI_ANYWHERE,
    .run = run,
};
