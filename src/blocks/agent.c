/* What a chat agent does around the executor: which message's code to run, what to answer, an executor by its name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/blocks.h>
#include <caisson/config.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/str.h"
#include "blocks.h"

/* ---- which message ---------------------------------------------------------------------------------------------- */

/* "auto": the run of user messages at the end. */
static size_t trailing_user(const csn_json *list)
{
    size_t n = 0, count = csn_json_count(list);

    while (n < count &&
           csn_streq(csn_json_get_str(csn_json_at(list, count - 1 - n), "role", ""), "user"))
        n++;
    return n;
}

static int blocks_of(const csn_json *message, int mode, csn_code_list *ret, csn_error *err)
{
    const csn_json *content = csn_json_get(message, "content");
    csn_auto(buf) csn_buf json = CSN_BUF_INIT;
    csn_auto(mem) char *text = NULL;
    size_t len = 0;
    int r;

    if (!content)
        return CSN_OK;
    r = csn_json_dump(content, false, &json);
    r = r < 0 ? csn_fail_sys(err, r, "read the messages")
              : csn_message_text(json.data, json.len, &text, &len, err);
    return r < 0 ? r : csn_md_extract(text, len, mode, ret, err);
}

int csn_messages_extract(const char *json, size_t len, int last_n, int mode,
                         csn_code_list *ret_list, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_code_list list = { 0 };
    char where[160];
    size_t n, count;

    if (csn_json_parse(json, len, &doc, where) < 0)
        return csn_fail(err, CSN_E_INVALID, "the messages are no JSON: %s", where);
    if (csn_json_type_of(doc) != CSN_JSON_ARRAY || last_n < 0)
        return csn_fail(err, CSN_E_INVALID,
                        "messages are a list, and their number is not negative");
    count = csn_json_count(doc);
    n = last_n ? (size_t) last_n : trailing_user(doc);
    for (size_t k = 0; k < n && k < count && !list.n; k++) {
        int r = blocks_of(csn_json_at(doc, count - 1 - k), mode, &list, err);

        if (r < 0)
            return r;
    }
    *ret_list = list;
    return CSN_OK;
}

int csn_blocks_reply(const csn_blocks_result *result, char **ret_text, size_t *ret_len,
                     csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    char *text;

    csn_buf_printf(&out, "exitcode: %d (%s)\nCode output: ", result->exit_code,
                   result->exit_code ? "execution failed" : "execution succeeded");
    csn_buf_append(&out, result->output, result->output_len);
    text = csn_buf_take(&out, ret_len);
    if (!text)
        return csn_fail_sys(err, -ENOMEM, "write the reply");
    *ret_text = text;
    return CSN_OK;
}

/* ---- by name ---------------------------------------------------------------------------------------------------- */

/* What the original's constructor takes. */
static int check_keys(const csn_json *config, csn_error *err)
{
    static const char *const keys[] = { "api_key", "api_url", "target",   "timeout",  "snapshot",
                                        "image",   "name",    "env_vars", "resources" };

    for (void *it = csn_json_iter(config); it; it = csn_json_iter_next(config, it)) {
        const char *key = csn_json_iter_key(it);
        bool is_known = false;

        for (size_t n = 0; n < CSN_COUNT(keys); n++)
            is_known |= csn_streq(keys[n], key);
        if (!is_known)
            return csn_fail(err, CSN_E_INVALID, "unexpected keyword argument '%.64s'", key);
    }
    return CSN_OK;
}

/* "KEY=value" strings, NULL at the end; freed as one by free_env(). */
static char **env_of(const csn_json *vars)
{
    bool is_object = csn_json_type_of(vars) == CSN_JSON_OBJECT;
    char **env = csn_calloc(is_object ? csn_json_count(vars) + 1 : 1, sizeof(*env));
    size_t n = 0;

    for (void *it = env && is_object ? csn_json_iter(vars) : NULL; it;
         it = csn_json_iter_next(vars, it)) {
        csn_auto(buf) csn_buf one = CSN_BUF_INIT;

        csn_buf_printf(&one, "%s=%s", csn_json_iter_key(it),
                       csn_json_str(csn_json_iter_value(it), ""));
        env[n++] = csn_buf_take(&one, NULL);
    }
    return env;
}

static void free_env(char **env)
{
    for (char **e = env; e && *e; e++)
        free(*e);
    free(env);
}

/* The service that the settings name; what they leave out comes from the environment. */
static int open_engine(const csn_json *config, csn_engine **ret_engine, csn_error *err)
{
    csn_config_options c = { .size = sizeof(c),
                             .api_key = csn_json_get_str(config, "api_key", NULL),
                             .api_url = csn_json_get_str(config, "api_url", NULL),
                             .target = csn_json_get_str(config, "target", NULL) };
    csn_engine_options o = { .size = sizeof(o) };
    csn_config *found = NULL;
    int r;

    if (!c.api_key && !c.api_url && !c.target)
        return CSN_OK;
    r = csn_config_load(&c, &found, err);
    if (r < 0)
        return r;
    o.remote_url = csn_config_api_url(found);
    o.remote_key = csn_config_api_key(found);
    o.remote_token = csn_config_jwt_token(found);
    o.remote_organization = o.remote_key ? NULL : csn_config_organization_id(found);
    o.remote_target = csn_config_target(found);
    r = csn_config_daytona_refusal(found)
            ? csn_fail(err, CSN_E_UNSUPPORTED, "%s", csn_config_daytona_refusal(found))
            : csn_engine_open(&o, ret_engine, err);
    csn_config_free(found);
    return r;
}

static void read_config(const csn_json *config, csn_blocks_options *o, double *timeout_s)
{
    const csn_json *resources = csn_json_get(config, "resources");
    const csn_json *timeout = csn_json_get(config, "timeout");

    *timeout_s = csn_json_double(timeout, 0);
    o->timeout_s = timeout ? timeout_s : NULL;
    o->snapshot = csn_json_get_str(config, "snapshot", NULL);
    o->image = csn_json_get_str(config, "image", NULL);
    o->name = csn_json_get_str(config, "name", NULL);
    o->cpu = csn_json_get_double(resources, "cpu", 0);
    o->memory_gb = csn_json_get_double(resources, "memory", 0);
    o->disk_gb = csn_json_get_double(resources, "disk", 0);
}

static int make_executor(csn_engine *engine, const csn_json *config, csn_blocks **ret_blocks,
                         csn_error *err)
{
    csn_blocks_options o = { .size = sizeof(o) };
    char **env = env_of(csn_json_get(config, "env_vars"));
    csn_engine *own = NULL;
    double timeout_s;
    int r;

    if (!env)
        return csn_fail_sys(err, -ENOMEM, "make the executor");
    read_config(config, &o, &timeout_s);
    o.env = (const char *const *) env;
    r = csn_blocks_check(&o, err); /* before anybody is asked */
    if (r >= 0)
        r = open_engine(config, &own, err);
    if (r >= 0)
        r = csn_blocks_new(own ? own : engine, &o, ret_blocks, err);
    if (r >= 0)
        (*ret_blocks)->own_engine = own;
    else
        csn_engine_free(own);
    free_env(env);
    return r;
}

int csn_blocks_by_name(csn_engine *engine, const char *executor, const char *config_json,
                       csn_blocks **ret_blocks, csn_error *err)
{
    csn_auto(json) csn_json *config = NULL;
    int r;

    if (!csn_streq(executor, "daytona"))
        return csn_fail(err, CSN_E_INVALID, "Unknown code executor %s", executor ? executor : "");
    if (csn_json_parse(config_json ? config_json : "{}", config_json ? strlen(config_json) : 2,
                       &config, NULL) < 0 ||
        csn_json_type_of(config) != CSN_JSON_OBJECT)
        return csn_fail(err, CSN_E_INVALID, "the executor's settings are no JSON object");
    r = check_keys(config, err);
    return r < 0 ? r : make_executor(engine, config, ret_blocks, err);
}
