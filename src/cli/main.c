/* caisson: the command line. main() finds the command in a table and lets it work; everything a command can do, it does
 * through the public headers of libcaisson. Nothing is set up that the command doesn't need: no locale, no stdio, no
 * configuration file, because a whole `caisson run` takes only a few milliseconds. */
#include <signal.h>
#include <stdlib.h>

#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "session.h"

const cli_command *const cli_commands[] = {
    &cli_cmd_run,        &cli_cmd_create,  &cli_cmd_exec,
    &cli_cmd_shell,      &cli_cmd_arena,   &cli_cmd_candidate,
    &cli_cmd_blocks,     &cli_cmd_interp,  &cli_cmd_rlm,
    &cli_cmd_session,    &cli_cmd_smoke,   &cli_cmd_diagnose,
    &cli_cmd_ls,         &cli_cmd_inspect, &cli_cmd_logs,
    &cli_cmd_stats,      &cli_cmd_cp,      &cli_cmd_start,
    &cli_cmd_stop,       &cli_cmd_rm,      &cli_cmd_fork,
    &cli_cmd_snapshot,   &cli_cmd_image,   &cli_cmd_volume,
    &cli_cmd_serve,      &cli_cmd_key,     &cli_cmd_org,
    &cli_cmd_gc,         &cli_cmd_doctor,  &cli_cmd_version,
    &cli_cmd_completion, &cli_cmd_help,    NULL,
};

static const struct section {
    const cli_command *first;
    const char *title;
} sections[] = {
    { &cli_cmd_run, "Run code" },
    { &cli_cmd_arena, "Let programs compete" },
    { &cli_cmd_blocks, "Code from text, code that remembers" },
    { &cli_cmd_ls, "Look and move files" },
    { &cli_cmd_start, "Lifecycle" },
    { &cli_cmd_image, "Images and volumes" },
    { &cli_cmd_serve, "Server" },
    { &cli_cmd_gc, "This machine" },
};

const char *cli_heading_before(const cli_command *cmd)
{
    for (size_t i = 0; i < CSN_COUNT(sections); i++)
        if (sections[i].first == cmd)
            return sections[i].title;
    return NULL;
}

/* Words of those who come from elsewhere; nearest spelling would lead some of them astray (rmi: rm). */
static const char *known_elsewhere(const char *name)
{
    static const char *const words[][2] = {
        { "attach", "logs -f" },    { "build", "image build" },   { "commit", "snapshot" },
        { "images", "image ls" },   { "import", "image import" }, { "info", "doctor" },
        { "kill", "stop -t 0" },    { "load", "image import" },   { "prune", "gc" },
        { "pull", "image import" }, { "rmi", "image rm" },        { "top", "stats" },
        { "volumes", "volume ls" },
    };

    for (size_t i = 0; i < CSN_COUNT(words); i++)
        if (csn_streq(name, words[i][0]))
            return words[i][1];
    return NULL;
}

static int no_such_command(const char *name)
{
    const char *known = known_elsewhere(name),
               *guess = known ? known : cli_guess(cli_commands, name);
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf remedy = CSN_BUF_INIT;

    csn_buf_printf(&text, "no command '%s'", name);
    csn_buf_printf(&remedy, "caisson %s", guess ? guess : "help");
    cli_complain("invalid", text.data, remedy.data);
    return 2;
}

/* Options in front of the command. Returns the index of the command. */
static int take_global_options(int argc, char **argv)
{
    int i = 1;

    while (i + 1 < argc && csn_streq(argv[i], "--state")) {
        cli_set_state_dir(argv[i + 1]);
        i += 2;
    }
    if (i < argc && csn_starts_with(argv[i], "--state="))
        cli_set_state_dir(argv[i++] + 8);
    return i;
}

int main(int argc, char **argv)
{
    int i = take_global_options(argc, argv);

    cli_fill_stdio();
    const char *name = i < argc ? argv[i] : "help";
    const cli_command *cmd;

    (void) signal(SIGPIPE,
                  SIG_IGN); /* a closed pipe is an error of write(), seen where it happens */
    (void) signal(SIGXFSZ, SIG_IGN); /* and so is a file beyond ulimit -f */
    if (csn_streq(name, "--help") || csn_streq(name, "-h"))
        name = "help";
    else if (csn_streq(name, "--version") || csn_streq(name, "-V"))
        name = "version";
    cmd = cli_find(cli_commands, name);
    if (!cmd)
        return no_such_command(name);
    return cli_exit_status(
        cmd->run(cmd, i < argc ? argc - i : 1, i < argc ? argv + i : (char *[]){ argv[0], NULL }));
}
