#include "base/str.h"
#include "boxopt.h"
#include "command.h"
#include "commands.h"
#include "out.h"
#include "session.h"

struct values {
    cli_command_values command;
    cli_list env, env_files;
    const char *cwd, *user;
    int64_t timeout, output;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 'e', "env", CLI_LIST, AT(env), "KEY[=VALUE]", "environment variable, added to the sandbox's",
      NULL, NULL },
    { 0, "env-file", CLI_LIST, AT(env_files), "FILE", "KEY=VALUE lines", "@file", NULL },
    { 'w', "cwd", CLI_TEXT, AT(cwd), "DIR", "working directory inside", NULL, NULL },
    { 0, "workdir", CLI_TEXT, AT(cwd), "DIR", NULL, NULL, NULL },
    { 'u', "user", CLI_TEXT, AT(user), "USER", "root only in a sandbox made with --user root",
      "daytona root", NULL },
    { 0, "timeout", CLI_DURATION, AT(timeout), "TIME",
      "wall time, then the whole tree is killed (the sandbox's)", NULL, NULL },
    { 0, "output-limit", CLI_SIZE, AT(output), "SIZE",
      "bytes kept of each output stream (the sandbox's)", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = {
    { "Command", own_options, 0 },
    { "Input and output", cli_command_options, AT(command) },
    { NULL, NULL, 0 },
};

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { 0 };
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *box = NULL;
    csn_process_options o = { 0 };
    cli_list env = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_command_prepare(cmd, &v.command, &o);
    if (status < 0)
        status = cli_want(cmd, &args, 2, -1);
    if (status < 0)
        status = cli_env_fill(cmd, &v.env, &v.env_files, &env);
    if (status < 0)
        status = cli_open_box(args.argv[0], &engine, &box);
    if (status >= 0)
        return status;
    o.argv = (const char *const *) args.argv + 1;
    o.env = env.items;
    o.cwd = v.cwd;
    o.user = v.user;
    o.timeout_ms = v.timeout;
    o.output_bytes = v.output;
    return cli_command_run(engine, box, &v.command, &o);
}

const cli_command cli_cmd_exec = {
    .name = "exec",
    .summary = "Run a command in a sandbox that is there",
    .usage = "exec [options] BOX [--] COMMAND [ARG…]",
    .text =
        "BOX is a name, an id or the unique beginning of one (4 characters or more). With --detach the\n"
        "command's number is printed, for 'caisson logs'.",
    .groups = groups,
    .operands = "@box",
    .verbatim_after = 2,
    .usage_status = CLI_ENGINE,
    .reach = CLI_ANYWHERE,
    .run = run,
};
