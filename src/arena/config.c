/* Who speaks to the remote backend and where it is: arguments, environment, `.env.local`, `.env`, defaults. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson/config.h>
#include <caisson/engine.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "dotenv.h"
#include "options.h"

#define DEFAULT_URL    "https://app.daytona.io/api"
#define DOCUMENTED_URL "https://api.daytona.io/v1" /* in everybody's sample .env, never in effect */
#define ENV_FILE_MAX   ((size_t) 1 << 20)

struct csn_config {
    csn_dotenv local, plain; /* .env.local, .env; or `plain` alone for an explicit file */
    char *api_key, *api_url, *target, *jwt_token, *organization_id;
};

csn_config *csn_config_free(csn_config *config)
{
    if (!config)
        return NULL;
    csn_dotenv_done(&config->local);
    csn_dotenv_done(&config->plain);
    if (config->api_key)
        explicit_bzero(config->api_key, strlen(config->api_key));
    if (config->jwt_token)
        explicit_bzero(config->jwt_token, strlen(config->jwt_token));
    free(config->api_key);
    free(config->api_url);
    free(config->target);
    free(config->jwt_token);
    free(config->organization_id);
    free(config);
    return NULL;
}

static int read_env_file(csn_dotenv *env, const char *dir, const char *name, bool must_exist,
                         const csn_config_options *o, csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int r;

    csn_buf_printf(&path, "%s%s%s", dir ? dir : "", dir ? "/" : "", name);
    r = csn_read_file(AT_FDCWD, path.data, &text, ENV_FILE_MAX);
    if (r < 0 && (r == -ENOENT || r == -ENOTDIR) && !must_exist)
        return CSN_OK;
    if (r < 0 && !must_exist) { /* present but unreadable: say so and go on */
        if (o->on_warning) {
            csn_buf_clear(&text);
            csn_buf_printf(&text, "%s: %s; the file is ignored", path.data, csn_strerror(r));
            o->on_warning(text.data, o->user_data);
        }
        return CSN_OK;
    }
    if (r < 0)
        return csn_fail_sys(err, r, "read environment file '%s'", name);
    r = csn_dotenv_parse(env, name, text.data, text.len, o->on_warning, o->user_data);
    return r < 0 ? csn_fail_sys(err, r, "read environment file '%s'", name) : CSN_OK;
}

/* The first non-empty value of a name, without surrounding blanks; NULL: none. Not copied yet. */
static csn_str find_value(const csn_config *c, const char *name)
{
    const char *places[] = { getenv(name), csn_dotenv_get(&c->local, name),
                             csn_dotenv_get(&c->plain, name) };

    for (size_t i = 0; i < CSN_COUNT(places); i++) {
        csn_str v = csn_str_trim(csn_str_of(places[i]));

        if (v.len > 0)
            return v;
    }
    return (csn_str){ 0 };
}

static csn_str value_of(const csn_config *c, const char *argument, const char *name)
{
    csn_str v = csn_str_trim(csn_str_of(argument));

    return v.len > 0 ? v : find_value(c, name);
}

static int keep(char **ret, csn_str v)
{
    if (v.len == 0)
        return 0;
    *ret = csn_strndup(v.data, v.len);
    return *ret ? 0 : -ENOMEM;
}

static csn_str without_slashes(csn_str url)
{
    while (url.len > 0 && url.data[url.len - 1] == '/')
        url.len--;
    return url;
}

static csn_str resolve_url(const csn_config *c, const csn_config_options *o)
{
    csn_str url = without_slashes(value_of(c, o->api_url, "DAYTONA_API_URL"));

    if (url.len > 0)
        return url;
    url = without_slashes(find_value(c, "DAYTONA_BASE_URL"));
    if (url.len > 0 && !csn_str_is(url, DOCUMENTED_URL))
        return url;
    url = without_slashes(find_value(c, "DAYTONA_SERVER_URL"));
    if (url.len > 0) {
        if (o->on_warning)
            o->on_warning("DAYTONA_SERVER_URL is deprecated; use DAYTONA_API_URL", o->user_data);
        return url;
    }
    return CSN_STR(DEFAULT_URL);
}

static csn_str without_placeholder(csn_str key)
{
    return csn_str_starts_with(key, CSN_STR("your_")) ? (csn_str){ 0 } : key;
}

static int resolve(csn_config *c, const csn_config_options *o, csn_error *err)
{
    int r = 0;

    if (!o->api_url && find_value(c, "DAYTONA_API_URL").len == 0 &&
        find_value(c, "DAYTONA_API_BASE_URL").len > 0)
        return csn_fail(err, CSN_E_INVALID,
                        "DAYTONA_API_BASE_URL is set but is not a known name: rename it to "
                        "DAYTONA_API_URL");
    r |= keep(&c->api_key, without_placeholder(value_of(c, o->api_key, "DAYTONA_API_KEY")));
    r |= keep(&c->api_url, resolve_url(c, o));
    r |= keep(&c->target, value_of(c, o->target, "DAYTONA_TARGET"));
    r |= keep(&c->jwt_token, find_value(c, "DAYTONA_JWT_TOKEN"));
    r |= keep(&c->organization_id, find_value(c, "DAYTONA_ORGANIZATION_ID"));
    return r < 0 ? csn_fail(err, CSN_E_NO_MEMORY, "out of memory") : CSN_OK;
}

int csn_config_load(const csn_config_options *opts, csn_config **ret_config, csn_error *err)
{
    csn_config_options o;
    csn_config *c;
    int r = csn_arena_options_copy(&o, sizeof(o), opts, opts ? opts->size : 0, "csn_config_options",
                                   err);

    if (r < 0)
        return r;
    c = csn_calloc(1, sizeof(*c));
    if (!c)
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    if (o.env_file) {
        r = read_env_file(&c->plain, NULL, o.env_file, true, &o, err);
    } else {
        r = read_env_file(&c->plain, o.dir, ".env", false, &o, err);
        if (r == CSN_OK)
            r = read_env_file(&c->local, o.dir, ".env.local", false, &o, err);
    }
    if (r == CSN_OK)
        r = resolve(c, &o, err);
    if (r < 0) {
        csn_config_free(c);
        return r;
    }
    *ret_config = c;
    return CSN_OK;
}

const char *csn_config_api_key(const csn_config *config)
{
    return config->api_key;
}

const char *csn_config_api_url(const csn_config *config)
{
    return config->api_url;
}

const char *csn_config_target(const csn_config *config)
{
    return config->target;
}

const char *csn_config_jwt_token(const csn_config *config)
{
    return config->jwt_token;
}

const char *csn_config_organization_id(const csn_config *config)
{
    return config->organization_id;
}

const char *csn_config_get(const csn_config *config, const char *name)
{
    const char *v = getenv(name);

    if (!v)
        v = csn_dotenv_get(&config->local, name);
    return v ? v : csn_dotenv_get(&config->plain, name);
}

const char *csn_config_daytona_refusal(const csn_config *config)
{
    if (!config->api_key && !(config->jwt_token && config->organization_id))
        return "Daytona API key not configured";
    if (csn_engine_remote_check(NULL, NULL) < 0)
        return "Daytona backend not available in this build";
    return NULL;
}

int csn_config_is_daytona_ready(const csn_config *config)
{
    return csn_config_daytona_refusal(config) == NULL;
}
