#include <string.h>

#include "base/str.h"
#include "commands.h"
#include "copy.h"
#include "out.h"
#include "session.h"

struct values {
    int raw, quiet;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "no remarks on stderr", NULL, NULL },
    { 0, "raw", CLI_FLAG, AT(raw), NULL, "let control characters through to a terminal", NULL,
      NULL },
    CLI_END
};

static const cli_group groups[] = { { "Options", own_options, 0 }, { NULL, NULL, 0 } };

/* "BOX:PATH" → BOX and PATH; a slash before the colon makes it a host path. */
static bool split_place(const char *text, char box[80], const char **ret_path)
{
    const char *colon = strchr(text, ':');
    const char *slash = strchr(text, '/');

    if (!colon || colon == text || (slash && slash < colon))
        return false;
    if (csn_str_copy(box, 80, csn_str_n(text, (size_t) (colon - text))) < 0)
        return false;
    *ret_path = colon[1] ? colon + 1 : ".";
    return true;
}

static int copy(const struct values *v, const char *box_name, const char *inside,
                const char *outside, bool is_in)
{
    csn_auto(engine) csn_engine *engine = NULL;
    csn_auto(sandbox) csn_sandbox *box = NULL;
    cli_copy c = { .raw = v->raw, .quiet = v->quiet };
    csn_error err = { 0 };
    int status = cli_open_box(box_name, &engine, &box);

    if (status >= 0)
        return status;
    c.box = box;
    if ((is_in ? cli_copy_in(&c, outside, inside, &err) : cli_copy_out(&c, inside, outside, &err)) <
        0)
        return cli_output_is_lost()          ? CLI_ENGINE /* said already */
               : err.code == CSN_E_CANCELLED ? cli_cancelled_status()
                                             : cli_fail(&err, NULL);
    if (!v->quiet && cli_is_terminal(2) && !csn_streq(outside, "-"))
        cli_note("copied %llu file%s, %s", (unsigned long long) c.n_files,
                 c.n_files == 1 ? "" : "s", cli_size(c.n_bytes));
    return c.n_skipped ? 1 : 0;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { 0 };
    char from_box[80], to_box[80];
    const char *from, *to;
    bool from_inside, to_inside;
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 2, 2);
    if (status >= 0)
        return status;
    from_inside = split_place(args.argv[0], from_box, &from);
    to_inside = split_place(args.argv[1], to_box, &to);
    if (from_inside && to_inside)
        return cli_usage(cmd, "one of the two places must be on this machine");
    if (from_inside)
        return copy(&v, from_box, from, args.argv[1], false);
    if (to_inside)
        return copy(&v, to_box, to, args.argv[0], true);
    return cli_usage(cmd, "neither '%s' nor '%s' is in a sandbox: write BOX:PATH", args.argv[0],
                     args.argv[1]);
}

const cli_command cli_cmd_cp = {
    .name = "cp",
    .summary = "Copy files and directories into a sandbox or out of it",
    .usage = "cp [options] SRC BOX:DST\ncp [options] BOX:SRC DST",
    .text =
        "Paths inside are relative to the home directory. Directories are copied with all below them;\n"
        "symbolic links are copied as links; pipes, sockets and devices are passed over (exit status 1).\n"
        "'-' is standard input or output.",
    .groups = groups,
    .operands = "@file",
    .reach = CLI_ANYWHERE,
    .run = run,
};
