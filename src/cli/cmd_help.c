#include "base/str.h"
#include "commands.h"
#include "out.h"

static void put_overview(csn_buf *out)
{
    csn_buf_puts(
        out,
        "usage: caisson [--state DIR] COMMAND …\n\n"
        "Runs untrusted code in complete isolation: no daemon, no setuid, nothing left behind.\n");
    for (const cli_command *const *c = cli_commands; *c; c++) {
        const char *heading = cli_heading_before(*c);

        if (heading)
            csn_buf_printf(out, "\n%s:\n", heading);
        csn_buf_printf(out, "  %-12s %s\n", (*c)->name, (*c)->summary);
    }
    csn_buf_puts(out, "\n'caisson help COMMAND' tells more.\n");
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    const cli_command *const *among = cli_commands;
    const cli_command *about = NULL;
    cli_args args;
    int status = cli_parse(cmd, argc, argv, NULL, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 0, 2);
    if (status >= 0)
        return status;
    for (int i = 0; i < args.argc; i++) {
        about = among ? cli_find(among, args.argv[i]) : NULL;
        if (!about)
            return cli_usage(cmd, "no command '%s'", args.argv[i]);
        among = about->subs;
    }
    if (about)
        cli_help(about, &out);
    else
        put_overview(&out);
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

const cli_command cli_cmd_help = {
    .name = "help",
    .summary = "Explain a command",
    .usage = "help [COMMAND [SUBCOMMAND]]",
    .operands = "@command",
    .run = run,
};
