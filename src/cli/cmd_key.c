/* The server's keys. The database belongs to the part of the server that has no rights, so that part's program does the work,
 * as its user; this works whether or not a server runs. */
#include <string.h>

#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "serveopt.h"

struct values {
    const char *state, *org, *user;
    int64_t expires_ms;
    int json;
};

#define AT(field) offsetof(struct values, field)
#define STATE \
    { \
        0, "state", CLI_TEXT, AT(state), "DIR", "the server's directory", "@dir", NULL \
    }
#define USER \
    { \
        0, "user", CLI_TEXT, AT(user), "NAME", "as root: whom the server's front runs as", NULL, \
            NULL \
    }
#define ORG \
    { \
        0, "org", CLI_TEXT, AT(org), "NAME", "the organisation [default]", NULL, NULL \
    }
#define JSON \
    { \
        0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL \
    }

static const cli_opt create_options[] = {
    { 0, "expires", CLI_DURATION, AT(expires_ms), "TIME",
      "how long it works, such as 30d [for ever]", NULL, NULL },
    { 0, "org", CLI_TEXT, AT(org), "NAME", "the organisation, made if it isn't there [default]",
      NULL, NULL },
    JSON,
    STATE,
    USER,
    CLI_END
};
static const cli_opt ls_options[] = { JSON, STATE, USER, CLI_END };
static const cli_opt rm_options[] = { ORG, STATE, USER, CLI_END };

static const cli_group create_groups[] = { { "Options", create_options, 0 }, { NULL, NULL, 0 } };
static const cli_group ls_groups[] = { { "Options", ls_options, 0 }, { NULL, NULL, 0 } };
static const cli_group rm_groups[] = { { "Options", rm_options, 0 }, { NULL, NULL, 0 } };

static int run(const cli_command *cmd, int argc, char **argv)
{
    bool is_rm = csn_streq(cmd->name, "rm"), is_ls = csn_streq(cmd->name, "ls");
    struct values v = { 0 };
    cli_warden w = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, is_rm, !is_ls);
    if (status < 0 && args.argc > 0 && (!args.argv[0][0] || strlen(args.argv[0]) > 128))
        status = cli_usage(cmd, "a key's name has 1 to 128 bytes");
    if (status < 0)
        status = cli_warden_begin(&w, v.state, v.user);
    if (status >= 0)
        return status;
    cli_warden_add(&w, "--errand");
    cli_warden_add(&w, "--");
    cli_warden_add(&w, "--key");
    cli_warden_add(&w, "%s", cmd->name);
    if (args.argc > 0)
        cli_warden_add(&w, "--name=%s", args.argv[0]);
    if (v.org)
        cli_warden_add(&w, "--org=%s", v.org);
    if (v.expires_ms > 0)
        cli_warden_add(&w, "--expires=%lld", (long long) v.expires_ms);
    if (v.json)
        cli_warden_add(&w, "--json");
    return cli_warden_exec(&w);
}

static const cli_command key_create = {
    .name = "create",
    .summary = "Make a key and print it, once",
    .usage = "key create [options] [NAME]",
    .groups = create_groups,
    .run = run,
};
static const cli_command key_ls = {
    .name = "ls",
    .alias = "list",
    .summary = "List keys by name; the keys themselves are not kept",
    .usage = "key ls [options]",
    .groups = ls_groups,
    .run = run,
};
static const cli_command key_rm = {
    .name = "rm",
    .summary = "Revoke a key, at once",
    .usage = "key rm [options] NAME|ID",
    .groups = rm_groups,
    .run = run,
};
static const cli_command *const subs[] = { &key_create, &key_ls, &key_rm, NULL };

const cli_command cli_cmd_key = {
    .name = "key",
    .summary = "Keys of the server: create, ls, rm",
    .usage = "key SUBCOMMAND …",
    .subs = subs,
    .run = cli_run_sub,
};
