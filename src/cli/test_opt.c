/* The option parser on a table of its own. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <caisson/engine.h>

#include "base/fd.h"
#include "base/str.h"
#include "csn_test.h"
#include "opt.h"
#include "place.h"

struct values {
    const char *name, *net, *from;
    cli_list env;
    int64_t memory, timeout, pids, cpu;
    int flag, other;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt options[] = {
    { 'n', "name", CLI_TEXT, AT(name), "NAME", "a name", NULL, NULL },
    { 0, "net", CLI_CHOICE, AT(net), "MODE", "a mode", "none outbound", NULL },
    { 'e', "env", CLI_LIST, AT(env), "KEY", "variables", NULL, NULL },
    { 'm', "memory", CLI_SIZE, AT(memory), "SIZE", "memory", NULL, NULL },
    { 0, "timeout", CLI_DURATION, AT(timeout), "TIME", "time", NULL, NULL },
    { 0, "pids", CLI_COUNT, AT(pids), "N", "processes", NULL, NULL },
    { 0, "cpu", CLI_CPU, AT(cpu), "CORES", "cores", NULL, NULL },
    { 0, "stdin", CLI_TEXT, AT(from), "FILE", "input", "@file", "-" },
    { 'f', "flag", CLI_FLAG, AT(flag), NULL, "a flag", NULL, NULL },
    { 'o', "other", CLI_FLAG, AT(other), NULL, "another", NULL, NULL },
    { 0, "nom", CLI_TEXT, AT(name), "NAME", NULL, NULL, NULL },
    CLI_END
};
static const cli_group groups[] = { { "Options", options, 0 }, { NULL, NULL, 0 } };
static const cli_command command = {
    .name = "test",
    .summary = "Test",
    .usage = "test [options] FILE",
    .groups = groups,
    .verbatim_after = 1,
    .usage_status = 125,
};

static struct values v;
static cli_args args;

/* Complaints and help are not what these tests are about. */
static void be_silent(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    CHECK(null >= 0 && dup2(null, STDERR_FILENO) >= 0);
    csn_close(&null);
}

static int parse(const cli_command *cmd, const char *const *argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    be_silent();
    v = (struct values){ 0 };
    return cli_parse(cmd, argc, (char **) (uintptr_t) argv, &v, &args); /* as main() has it */
}

#define PARSE(...) parse(&command, (const char *[]){ "test", __VA_ARGS__, NULL })

TEST(options_come_before_the_first_operand_and_the_rest_is_left_alone)
{
    CHECK_INT(PARSE("--name", "a", "-f", "file", "-o", "--", "--name"), -1);
    CHECK_STR(v.name, "a");
    CHECK_INT(v.flag, 1);
    CHECK_INT(v.other, 0);
    CHECK_INT(args.argc, 4);
    CHECK_STR(args.argv[1], "-o");
    CHECK_STR(args.argv[2], "--");
    CHECK_STR(args.argv[3], "--name");
    CHECK(!args.argv[4]);
    CHECK(!args.has_dashes);
}

TEST(dashes_end_the_options)
{
    CHECK_INT(PARSE("-f", "--", "-o"), -1);
    CHECK(args.has_dashes);
    CHECK_INT(args.argc, 1);
    CHECK_STR(args.argv[0], "-o");
}

TEST(a_command_may_take_options_between_operands)
{
    cli_command mixed = command;

    mixed.verbatim_after = 0;
    CHECK_INT(parse(&mixed, (const char *[]){ "test", "a", "-f", "b", NULL }), -1);
    CHECK_INT(v.flag, 1);
    CHECK_INT(args.argc, 2);
    CHECK_STR(args.argv[1], "b");
}

TEST(values_are_glued_or_follow)
{
    CHECK_INT(PARSE("--name=x", "-eA=1", "-e", "B=2", "--env=C=3"), -1);
    CHECK_STR(v.name, "x");
    CHECK_INT(v.env.n, 3);
    CHECK_STR(v.env.items[0], "A=1");
    CHECK_STR(v.env.items[2], "C=3");
    CHECK(!v.env.items[3]);
}

TEST(letters_may_stand_together)
{
    CHECK_INT(PARSE("-fon", "x"), -1);
    CHECK_INT(v.flag + v.other, 2);
    CHECK_STR(v.name, "x");
}

TEST(another_spelling_is_the_same_option)
{
    CHECK_INT(PARSE("--nom", "y"), -1);
    CHECK_STR(v.name, "y");
}

TEST(a_lone_dash_is_an_operand)
{
    CHECK_INT(PARSE("-"), -1);
    CHECK_INT(args.argc, 1);
}

TEST(an_option_with_a_bare_form_does_not_eat_the_dashes)
{
    CHECK_INT(PARSE("--stdin", "--", "cat"), -1);
    CHECK_STR(v.from, "-");
    CHECK_STR(args.argv[0], "cat");
    CHECK_INT(PARSE("--stdin", "file", "--", "cat"), -1);
    CHECK_STR(v.from, "file");
}

TEST(numbers_have_units_and_a_word_for_none)
{
    CHECK_INT(PARSE("-m", "64m", "--timeout", "1.5s", "--pids", "7", "--cpu", "0.5"), -1);
    CHECK_INT(v.memory, 64 << 20);
    CHECK_INT(v.timeout, 1500);
    CHECK_INT(v.pids, 7);
    CHECK_INT(v.cpu, 500);
    CHECK_INT(PARSE("-m", "unlimited", "--timeout", "0", "--pids", "none"), -1);
    CHECK_INT(v.memory, CSN_UNLIMITED);
    CHECK_INT(v.timeout, CSN_UNLIMITED);
    CHECK_INT(v.pids, CSN_UNLIMITED);
    CHECK_INT(PARSE("--timeout", "1us"), -1);
    CHECK_INT(v.timeout, 1); /* a limit, not none */
}

TEST(nonsense_is_refused_with_the_commands_status)
{
    static const char *const bad[][2] = {
        { "-m", "x" },       { "-m", "-1" },    { "-m", "99999999999999g" }, { "--timeout", "5 s" },
        { "--cpu", "nan" },  { "--cpu", "-1" }, { "--cpu", "1e99" },         { "--pids", "1.5" },
        { "--net", "host" }, { "--net", "" },   { "--flag=1", "x" },         { "-Z", "x" },
        { "--", "" },
    };

    for (size_t i = 0; i + 1 < CSN_COUNT(bad); i++)
        CHECK_INT(PARSE(bad[i][0], bad[i][1]), 125);
    CHECK_INT(PARSE("--name"), 125);
    CHECK_INT(PARSE("-n"), 125);
    CHECK_INT(PARSE("--na"), 125); /* no abbreviations: a new option must not break a script */
}

static const cli_command run = { .name = "run" }, create = { .name = "create", .alias = "new" };
static const cli_command *const commands[] = { &run, &create, NULL };

TEST(commands_are_found_and_guessed)
{
    CHECK(cli_find(commands, "run") == &run);
    CHECK(cli_find(commands, "new") == &create);
    CHECK(!cli_find(commands, "ru"));
    CHECK_STR(cli_guess(commands, "rnu"), "run");
    CHECK_STR(cli_guess(commands, "crate"), "create");
    CHECK(!cli_guess(commands, "x"));
    CHECK(!cli_guess(commands, "completely-else-and-very-long-indeed"));
}

TEST(help_shows_every_option_but_other_spellings)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    cli_help(&command, &text);
    CHECK(strstr(text.data, "-n, --name NAME"));
    CHECK(strstr(text.data, "    --stdin FILE"));
    CHECK(!strstr(text.data, "--nom"));
}

/* ---- where the sandboxes are ---- */

static const cli_opt shadow_options[] = {
    { 'd', "detach", CLI_FLAG, AT(flag), NULL, "in the background", NULL, NULL },
    { 0, "env-file", CLI_TEXT, AT(name), "FILE", "variables", "@file", NULL },
    { 0, "strict", CLI_FLAG, AT(other), NULL, "of the kernel", NULL, NULL },
    CLI_END
};
static const cli_group shadow_groups[] = { { "Options", shadow_options, 0 }, { NULL, NULL, 0 } };
static const cli_command anywhere = { .name = "anywhere",
                                      .summary = "Test",
                                      .usage = "anywhere",
                                      .groups = shadow_groups,
                                      .reach = CLI_ANYWHERE };
static const cli_command without_own = {
    .name = "without-own", .summary = "Test", .usage = "without-own", .reach = CLI_ANYWHERE
};

#define AT_PLACE(cmd, ...) parse(cmd, (const char *const[]){ "test", ##__VA_ARGS__, NULL })

TEST(a_command_says_first_what_a_letter_or_a_name_means)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    (void) unsetenv("CAISSON_BACKEND");
    CHECK_INT(AT_PLACE(&anywhere, "-d", "--env-file", "x"), -1);
    CHECK_INT(v.flag, 1);
    CHECK_STR(v.name, "x");
    CHECK(!cli_place_is_remote());
    cli_help(&anywhere, &text);
    CHECK(strstr(text.data, "-d, --detach"));
    CHECK(strstr(text.data, "      --daytona "));
    cli_help(&without_own, &text);
    CHECK(strstr(text.data, "-d, --daytona "));
    CHECK_INT(AT_PLACE(&command, "--daytona"), 125); /* one of this machine has no such option */
}

TEST(a_flag_comes_before_the_variable)
{
    (void) setenv("CAISSON_BACKEND", "daytona", 1);
    CHECK_INT(AT_PLACE(&anywhere), -1);
    CHECK(cli_place_is_remote());
    CHECK_INT(AT_PLACE(&anywhere, "--backend", "local"), -1);
    CHECK(!cli_place_is_remote());
    CHECK_INT(AT_PLACE(&anywhere, "--backend", "local", "--daytona"), 2);
}

TEST(the_variable_is_a_backends_name_or_empty)
{
    (void) setenv("CAISSON_BACKEND", "", 1);
    CHECK_INT(AT_PLACE(&anywhere), -1);
    CHECK(!cli_place_is_remote());
    (void) setenv("CAISSON_BACKEND", "elsewhere", 1);
    CHECK_INT(AT_PLACE(&anywhere), 2);
    CHECK_INT(AT_PLACE(&anywhere, "--daytona"), -1);
    CHECK(cli_place_is_remote());
}

TEST(what_a_service_has_not_is_refused)
{
    (void) unsetenv("CAISSON_BACKEND");
    CHECK_INT(AT_PLACE(&anywhere, "--strict"), -1);
    CHECK_INT(AT_PLACE(&anywhere, "--strict", "--daytona"), 2);
}
