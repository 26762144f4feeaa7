#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"

const char *csn_run_state_name(csn_run_state state)
{
    static const char *const names[] = {
        [CSN_RUN_WAITING] = "waiting",     [CSN_RUN_CREATING] = "creating",
        [CSN_RUN_UPLOADING] = "uploading", [CSN_RUN_SETUP] = "setup",
        [CSN_RUN_EXECUTING] = "running",   [CSN_RUN_READING] = "reading",
        [CSN_RUN_CLEANING] = "cleaning",   [CSN_RUN_SCORING] = "scoring",
        [CSN_RUN_DONE] = "done",
    };

    return (size_t) state < CSN_COUNT(names) ? names[state] : "unknown";
}

const char *csn_candidate_advice(const char *error_message)
{
    static const struct advice {
        const char *starts, *text;
    } all[] = {
        { "Could not create sandbox",
          "caisson doctor" }, /* of this machine; the remote backend has words of its own */
        { "Could not write script", "does the path exist, and is it readable?" },
        { "Execution timed out", "raise the limit with --timeout; look for blocking calls" },
        { "Could not read artifact", "the script must write to its second argument (sys.argv[2])" },
        { "Dependency installation failed", "use --net outbound, or --find-links DIR with wheels" },
        { "Daytona API key not configured", "set DAYTONA_API_KEY, or run without --daytona" },
        { "Daytona backend not available", "run without --daytona" },
    };

    for (size_t i = 0; error_message && i < CSN_COUNT(all); i++)
        if (strncmp(error_message, all[i].starts, strlen(all[i].starts)) == 0)
            return all[i].text;
    return NULL;
}

static void set_default(int64_t *value, int64_t def)
{
    if (*value == 0)
        *value = def;
}

int csn_run_options_fill(csn_run_options *o, csn_error *err)
{
    set_default(&o->upload_timeout_ms, 30000);
    set_default(&o->setup_timeout_ms, 60000);
    set_default(&o->timeout_ms, 60000);
    set_default(&o->artifact_timeout_ms, 10000);
    set_default(&o->output_bytes, (int64_t) 10 << 20);
    set_default(&o->artifact_bytes, (int64_t) 64 << 20);
    if (o->upload_timeout_ms < 0 || o->setup_timeout_ms < 0 || o->timeout_ms < 0 ||
        o->artifact_timeout_ms < 0 || o->output_bytes < 0 || o->artifact_bytes < 0)
        return csn_fail(err, CSN_E_INVALID, "limits and time limits must not be negative");
    if (!o->objective)
        o->objective = "";
    if (o->objective_len == 0)
        o->objective_len = strlen(o->objective);
    return CSN_OK;
}

const char *csn_backend_refusal(const csn_run_options *o)
{
    csn_config *own = NULL;
    const char *why;

    if (o->backend == CSN_BACKEND_LOCAL)
        return NULL;
    if (o->config)
        return csn_config_daytona_refusal(o->config);
    if (csn_config_load(NULL, &own, NULL) < 0)
        return "Daytona API key not configured";
    why = csn_config_daytona_refusal(own);
    csn_config_free(own);
    return why;
}

static int open_remote(const csn_run_options *o, csn_engine **ret_engine, csn_error *err)
{
    csn_engine_options eo = { .size = sizeof(eo) };
    const csn_config *config = o->config;
    csn_config *own = NULL;
    int r;

    if (!config) {
        r = csn_config_load(NULL, &own, err);
        if (r < 0)
            return r;
        config = own;
    }
    eo.remote_url = csn_config_api_url(config);
    eo.remote_key = csn_config_api_key(config);
    eo.remote_token = csn_config_jwt_token(config);
    if (!eo.remote_key) /* a key belongs to one organisation already */
        eo.remote_organization = csn_config_organization_id(config);
    eo.remote_target = csn_config_target(config);
    r = csn_engine_open(&eo, ret_engine, err);
    csn_config_free(own);
    return r;
}

int csn_backend_open(csn_engine *engine, const csn_run_options *o, bool is_fallback,
                     csn_engine **ret_engine, csn_engine **ret_own, csn_error *err)
{
    bool is_remote = o->backend == CSN_BACKEND_DAYTONA && !is_fallback;
    int r;

    *ret_own = NULL;
    *ret_engine = engine;
    if (engine && csn_engine_is_remote(engine) == is_remote)
        return CSN_OK;
    r = is_remote ? open_remote(o, ret_own, err) : csn_engine_open(NULL, ret_own, err);
    *ret_engine = *ret_own;
    return r;
}

int csn_make_dirs(const char *path)
{
    csn_auto(buf) csn_buf part = CSN_BUF_INIT;
    struct stat st;

    for (const char *p = path; *p;) {
        const char *slash = strchr(p + 1, '/');

        csn_buf_append(&part, p, slash ? (size_t) (slash - p) : strlen(p));
        if (part.error < 0)
            return part.error;
        if (mkdir(part.data, 0777) < 0 && errno != EEXIST && (slash == NULL || errno != EISDIR)) {
            int e = errno;

            if (stat(part.data, &st) < 0)
                return -e;
        }
        p = slash ? slash : p + strlen(p);
    }
    if (stat(path, &st) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int csn_artifact_save(csn_candidate_result *result, const char *dir, const char *name)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(fd) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return -errno;
    r = csn_write_file_atomic(fd, name, result->artifact_content, result->artifact_len, 0644,
                              false);
    if (r < 0)
        return r;
    csn_buf_printf(&path, "%s/%s", dir, name);
    free(result->artifact_file);
    result->artifact_file = csn_buf_take(&path, NULL);
    return result->artifact_file ? 0 : -ENOMEM;
}
