#include "base/str.h"
#include "commands.h"
#include "completion.h"
#include "out.h"

static const struct shell {
    const char *name;
    void (*write)(csn_buf *out);
} shells[] = {
    { "bash", cli_complete_bash },
    { "zsh", cli_complete_zsh },
    { "fish", cli_complete_fish },
};

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    cli_args args;
    int status = cli_parse(cmd, argc, argv, NULL, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 1, 1);
    if (status >= 0)
        return status;
    for (size_t i = 0; i < CSN_COUNT(shells); i++)
        if (csn_streq(shells[i].name, args.argv[0])) {
            shells[i].write(&out);
            return cli_print(&out) < 0 ? CLI_ENGINE : 0;
        }
    return cli_usage(cmd, "no completion for '%s': bash, zsh or fish", args.argv[0]);
}

const cli_command cli_cmd_completion = {
    .name = "completion",
    .summary = "Print a completion script",
    .usage = "completion bash|zsh|fish",
    .text =
        "For this shell alone: source <(caisson completion bash). The scripts are written from the same\n"
        "tables as --help.",
    .operands = "bash zsh fish",
    .run = run,
};
