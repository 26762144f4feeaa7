/* What each of the server's organisations may have. As with keys, the front's program does the work, as its user, whether or not a
 * server runs. */
#include <string.h>

#include "base/str.h"
#include "commands.h"
#include "out.h"
#include "serveopt.h"

struct values {
    const char *state, *user;
    int64_t max_sandboxes, max_cpu, max_memory, max_disk;
    int64_t max_snapshots, max_snapshot_disk, max_volumes, max_volume_disk;
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

static const cli_opt set_options[] = {
    { 0, "max-sandboxes", CLI_COUNT, AT(max_sandboxes), "N", "its sandboxes", NULL, NULL },
    { 0, "max-cpu", CLI_CPU, AT(max_cpu), "CORES", "cores of its started sandboxes", NULL, NULL },
    { 0, "max-memory", CLI_SIZE, AT(max_memory), "SIZE", "their memory", NULL, NULL },
    { 0, "max-disk", CLI_SIZE, AT(max_disk), "SIZE", "disk of all its sandboxes", NULL, NULL },
    { 0, "max-snapshots", CLI_COUNT, AT(max_snapshots), "N", "its snapshots", NULL, NULL },
    { 0, "max-snapshot-disk", CLI_SIZE, AT(max_snapshot_disk), "SIZE", "what they take", NULL,
      NULL },
    { 0, "max-volumes", CLI_COUNT, AT(max_volumes), "N", "its volumes", NULL, NULL },
    { 0, "max-volume-disk", CLI_SIZE, AT(max_volume_disk), "SIZE", "what lies in them", NULL,
      NULL },
    STATE,
    USER,
    CLI_END
};
static const cli_opt ls_options[] = {
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL }, STATE, USER, CLI_END
};
static const cli_opt reset_options[] = { STATE, USER, CLI_END };

static const cli_group set_groups[] = { { "Options", set_options, 0 }, { NULL, NULL, 0 } };
static const cli_group ls_groups[] = { { "Options", ls_options, 0 }, { NULL, NULL, 0 } };
static const cli_group reset_groups[] = { { "Options", reset_options, 0 }, { NULL, NULL, 0 } };

/* How many were said. */
static int add_quotas(cli_warden *w, const struct values *v)
{
    const struct {
        const char *name;
        int64_t value;
    } quotas[] = {
        { "sandboxes", v->max_sandboxes }, { "cpu", v->max_cpu },
        { "memory", v->max_memory },       { "disk", v->max_disk },
        { "snapshots", v->max_snapshots }, { "snapshot-disk", v->max_snapshot_disk },
        { "volumes", v->max_volumes },     { "volume-disk", v->max_volume_disk },
    };
    int n = 0;

    for (size_t i = 0; i < CSN_COUNT(quotas); i++)
        if (quotas[i].value) {
            cli_warden_add(w, "--max-%s=%lld", quotas[i].name,
                           quotas[i].value == CSN_UNLIMITED ? 0LL : (long long) quotas[i].value);
            n++;
        }
    return n;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    bool is_ls = csn_streq(cmd->name, "ls");
    struct values v = { 0 };
    cli_warden w = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, !is_ls, !is_ls);
    if (status < 0 && args.argc > 0 && (!args.argv[0][0] || strlen(args.argv[0]) > 128))
        status = cli_usage(cmd, "an organisation's name has 1 to 128 bytes");
    if (status < 0)
        status = cli_warden_begin(&w, v.state, v.user);
    if (status >= 0)
        return status;
    cli_warden_add(&w, "--errand");
    cli_warden_add(&w, "--");
    cli_warden_add(&w, "--org");
    cli_warden_add(&w, "%s", cmd->name);
    if (args.argc > 0)
        cli_warden_add(&w, "--name=%s", args.argv[0]);
    if (add_quotas(&w, &v) == 0 && csn_streq(cmd->name, "set"))
        return cli_usage(cmd, "which quota? Such as --max-sandboxes 50");
    if (v.json)
        cli_warden_add(&w, "--json");
    return cli_warden_exec(&w);
}

static const cli_command org_set = {
    .name = "set",
    .summary = "Say what an organisation may have; it is made if it isn't there",
    .usage = "org set [options] NAME",
    .groups = set_groups,
    .run = run,
};
static const cli_command org_reset = {
    .name = "reset",
    .summary = "Give it the server's quotas again",
    .usage = "org reset [options] NAME",
    .groups = reset_groups,
    .run = run,
};
static const cli_command org_ls = {
    .name = "ls",
    .alias = "list",
    .summary = "List organisations and the quotas of their own",
    .usage = "org ls [options]",
    .groups = ls_groups,
    .run = run,
};
static const cli_command *const subs[] = { &org_set, &org_reset, &org_ls, NULL };

const cli_command cli_cmd_org = {
    .name = "org",
    .summary = "Organisations of the server and what they may have: set, reset, ls",
    .usage = "org SUBCOMMAND …",
    .subs = subs,
    .run = cli_run_sub,
};
