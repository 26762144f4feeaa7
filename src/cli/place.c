#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "out.h"

struct values {
    int daytona;
    const char *backend, *env_file;
};

static struct values given;
static const char *local_option; /* NULL, or the last one given of those below */
static bool is_remote, is_by_variable;
static csn_config *config; /* lives as long as the program */

#define AT(field) offsetof(struct values, field)

static const cli_opt options[] = {
    { 'd', "daytona", CLI_FLAG, AT(daytona), NULL,
      "use sandboxes of a Daytona service: DAYTONA_API_KEY, DAYTONA_API_URL", NULL, NULL },
    { 0, "backend", CLI_CHOICE, AT(backend), "NAME",
      "local or daytona, instead of what CAISSON_BACKEND says [local]", "local daytona", NULL },
    { 0, "daytona-env", CLI_TEXT, AT(env_file), "FILE",
      "the service's settings, instead of .env.local and .env", "@file", NULL },
    { 0, "env-file", CLI_TEXT, AT(env_file), "FILE", NULL, "@file", NULL },
    CLI_END
};
const cli_group cli_place_group = { "Where", options, 0 };

void *cli_place_values(void)
{
    return &given;
}

void cli_place_note(const cli_opt *opt)
{
    /* walls and limits of the kernel, which a service puts up as it likes */
    static const char *const names[] = { "strict",     "optional",   "ptrace",   "pids",
                                         "pids-limit", "inodes",     "tmp-size", "shm-size",
                                         "open-files" };

    for (size_t i = 0; i < CSN_COUNT(names); i++)
        if (csn_streq(opt->name, names[i]))
            local_option = opt->name;
}

int cli_place_settle(const cli_command *cmd)
{
    const char *name = given.backend, *variable = getenv("CAISSON_BACKEND");

    if (given.daytona && csn_streq(name, "local"))
        return cli_usage(cmd, "--daytona and --backend local exclude each other");
    if (given.daytona)
        name = "daytona";
    if (!name && variable && variable[0]) {
        name = variable;
        is_by_variable = true;
        if (!csn_streq(name, "local") && !csn_streq(name, "daytona"))
            return cli_usage(cmd, "CAISSON_BACKEND '%s': not one of: local daytona", name);
    }
    is_remote = csn_streq(name, "daytona");
    if (is_remote && local_option)
        return cli_usage(cmd, "--%s is for sandboxes of this machine: a Daytona service decides it",
                         local_option);
    return -1;
}

bool cli_place_is_remote(void)
{
    return is_remote;
}

static void warn(const char *message, void *user)
{
    (void) user;
    cli_note("%s", message);
}

int cli_place_config(const csn_config **ret_config, csn_error *err)
{
    csn_config_options o = { .size = sizeof(o), .env_file = given.env_file, .on_warning = warn };
    int r = config ? CSN_OK : csn_config_load(&o, &config, err);

    if (r >= 0)
        *ret_config = config;
    return r;
}

int cli_place_fill(csn_engine_options *o, csn_error *err)
{
    const csn_config *c;
    int r = cli_place_config(&c, err);

    if (r < 0)
        return r;
    if (csn_config_daytona_refusal(c))
        return csn_fail(err, CSN_E_UNSUPPORTED, "%s", csn_config_daytona_refusal(c));
    o->remote_url = csn_config_api_url(c);
    o->remote_key = csn_config_api_key(c);
    o->remote_token = csn_config_jwt_token(c);
    if (!o->remote_key) /* a key belongs to one organisation already */
        o->remote_organization = csn_config_organization_id(c);
    o->remote_target = csn_config_target(c);
    return CSN_OK;
}

const char *cli_place_remedy(const csn_error *err)
{
    static const struct remedy {
        const char *says, *flag, *variable; /* how the service was chosen */
    } all[] = {
        { "Daytona API key not configured", "set DAYTONA_API_KEY, or run without --daytona",
          "set DAYTONA_API_KEY, or use --backend local" },
        { "Daytona backend not available", "run without --daytona", "use --backend local" },
        { "the remote backend can't ", "run without --daytona", "use --backend local" },
        { "the key is not accepted by ", "check DAYTONA_API_KEY; caisson diagnose --daytona", NULL },
        { "no such host: ", "check DAYTONA_API_URL", NULL },
        { "no connection to ", "check DAYTONA_API_URL; caisson diagnose --daytona", NULL },
        { " is no URL of a service", "check DAYTONA_API_URL", NULL },
        { "TLS of ", "SSL_CERT_FILE names an authority of your own", NULL },
        { "sandbox '", "caisson ls --daytona", NULL },
        { "image '", "caisson image ls --daytona", NULL },
        { "volume '", "caisson volume ls --daytona", NULL },
    };

    for (size_t i = 0; i < CSN_COUNT(all); i++)
        if (strstr(err->message, all[i].says) &&
            (all[i].says[strlen(all[i].says) - 1] != '\'' || err->code == CSN_E_NOT_FOUND))
            return is_by_variable && all[i].variable ? all[i].variable : all[i].flag;
    return NULL;
}
