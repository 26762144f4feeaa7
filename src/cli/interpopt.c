#include "interpopt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <caisson/sandbox.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/str.h"
#include "boxopt.h"
#include "out.h"
#include "session.h"

#define AT(field) offsetof(cli_interp_values, field)

enum { SESSION_S = 86400, STATE_MAX = 1 << 20 };

const cli_opt cli_interp_options[] = {
    { 's', "session", CLI_TEXT, AT(session), "NAME",
      "keep the interpreter after we end, or use the one kept", NULL, NULL },
    { 0, "volume", CLI_TEXT, AT(volume), "NAME",
      "durable volume at /home/daytona/memory; made when absent", "@volume", NULL },
    { 0, "volume-subpath", CLI_TEXT, AT(subpath), "DIR", "mount only this directory of it", NULL,
      NULL },
    { 0, "repo", CLI_TEXT, AT(repo), "URL|DIR", "clone this repository into the workspace", "@dir",
      NULL },
    { 0, "ref", CLI_TEXT, AT(ref), "REF", "branch, tag or commit of it", NULL, NULL },
    { 0, "context", CLI_LIST, AT(context), "PATH", "stage a file or directory; may be repeated",
      "@file", NULL },
    { 0, "image", CLI_TEXT, AT(image), "IMAGE",
      "root file system [fleet-rlm-base, else host; of a service: a snapshot]", "@image", NULL },
    { 'e', "env", CLI_LIST, AT(env), "KEY=VALUE", "set a variable; KEY alone takes ours", NULL,
      NULL },
    { 0, "env-file", CLI_LIST, AT(env_files), "FILE", "set the variables of a file", "@file",
      NULL },
    { 'm', "memory", CLI_SIZE, AT(memory), "SIZE", "memory [1 GiB]", NULL, NULL },
    { 0, "cpu", CLI_CPU, AT(cpu), "N", "cores [1]", NULL, NULL },
    { 0, "net", CLI_FLAG, AT(net), NULL, "allow outbound network, and cloning from remote URLs",
      NULL, NULL },
    { 0, "timeout", CLI_DURATION, AT(timeout), "TIME",
      "lifetime of the sandbox [15m, of a session 24h]", NULL, NULL },
    { 0, "execute-timeout", CLI_DURATION, AT(execute_timeout), "TIME",
      "limit of one execute [the lifetime]", NULL, NULL },
    { 0, "optional", CLI_LIST, AT(optional), "WALL,…",
      "start even if these walls can't be put up here", NULL, NULL },
    { 0, "profile", CLI_CHOICE, AT(profile), "NAME", "which helpers the code has [RLM_DELEGATE]",
      "ROOT_INTERLOCUTOR RLM_ROOT RLM_DELEGATE MAINTENANCE", NULL },
    { 0, "field", CLI_LIST, AT(fields), "NAME[:TYPE]", "a field SUBMIT must give; may be repeated",
      NULL, NULL },
    CLI_END
};

const cli_opt cli_model_options[] = {
    { 0, "llm-url", CLI_TEXT, AT(llm_url), "URL",
      "OpenAI-compatible endpoint [DSPY_LM_API_BASE]; key: DSPY_LLM_API_KEY", NULL, NULL },
    { 0, "llm-model", CLI_TEXT, AT(llm_model), "NAME", "the model [DSPY_LM_MODEL]", NULL, NULL },
    { 0, "llm-cmd", CLI_TEXT, AT(llm_cmd), "CMD",
      "ask this command instead: prompt on stdin, answer on stdout", NULL, NULL },
    { 0, "max-llm-calls", CLI_COUNT, AT(max_calls), "N", "budget of model calls from code [50]",
      NULL, NULL },
    { 0, "llm-timeout", CLI_DURATION, AT(llm_timeout), "TIME", "limit of one model call [60s]",
      NULL, NULL },
    { 0, "max-depth", CLI_COUNT, AT(depth), "N", "how deep sub_rlm may go [2]", NULL, NULL },
    { 0, "child-isolation", CLI_CHOICE, AT(isolation), "MODE", "where children run [auto]",
      "auto context", NULL },
    { 0, "child-fallback", CLI_CHOICE, AT(fallback), "WHAT", "when no copy can be made [clean]",
      "clean fail", NULL },
    { 0, "sync", CLI_FLAG, AT(sync), NULL, "answer callbacks one at a time, on one thread", NULL,
      NULL },
    CLI_END
};

void csn_interp_auto(csn_interp **interp)
{
    *interp = csn_interp_free(*interp);
}

/* Whole seconds, at least one; CSN_UNLIMITED stays. */
static int64_t seconds(int64_t ms)
{
    return ms <= 0 ? ms : ms < 1000 ? 1 : ms / 1000;
}

int cli_interp_fill(const cli_command *cmd, const cli_interp_values *v, csn_interp_options *o,
                    cli_list *env)
{
    int status = cli_env_fill(cmd, &v->env, &v->env_files, env);

    if (status >= 0)
        return status;
    *o = (csn_interp_options){ .size = sizeof(*o),
                               .timeout_s = seconds(v->timeout   ? v->timeout
                                                    : v->session ? SESSION_S * 1000LL
                                                                 : 0),
                               .execute_timeout_s = seconds(v->execute_timeout),
                               .image = v->image,
                               .env = env->items,
                               .memory_bytes = v->memory,
                               .cpu_milli = v->cpu,
                               .has_network = v->net,
                               .is_kept = v->session != NULL,
                               .session_id = v->session && csn_is_name(v->session) ? v->session : NULL,
                               .volume_name = v->volume,
                               .volume_subpath = v->subpath,
                               .repo_url = v->repo,
                               .repo_ref = v->ref,
                               .context_paths = v->context.items,
                               .llm_url = v->llm_url,
                               .llm_model = v->llm_model,
                               .llm_cmd = v->llm_cmd,
                               .max_llm_calls = v->max_calls,
                               .llm_call_timeout_s = seconds(v->llm_timeout),
                               .max_recursion_depth = (int) v->depth,
                               .child_isolation_mode = v->isolation,
                               .child_fork_fallback = v->fallback,
                               .profile = v->profile,
                               .is_sync = v->sync };
    if (v->llm_url && v->llm_cmd)
        return cli_usage(cmd, "--llm-url and --llm-cmd exclude each other");
    return -1;
}

/* ---- sessions --------------------------------------------------------------------------------------------------- */

/* What is known of sessions at a service, which has no place for it. Like the state directory's own place. */
static int put_remote_place(const char *url, csn_buf *out)
{
    const char *state = cli_state_dir() ? cli_state_dir() : secure_getenv("CAISSON_STATE");
    const char *xdg = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
    unsigned char digest[32];
    char hex[17];

    csn_sha256(url, strlen(url), digest);
    csn_hex(hex, digest, 8);
    if (state && state[0])
        return csn_buf_printf(out, "%s/remote/%s", state, hex);
    if (xdg && xdg[0] == '/')
        return csn_buf_printf(out, "%s/caisson/remote/%s", xdg, hex);
    if (home && home[0] == '/')
        return csn_buf_printf(out, "%s/.local/state/caisson/remote/%s", home, hex);
    return -ENOENT;
}

int cli_session_dir(csn_engine *engine, csn_buf *out)
{
    const char *place = csn_engine_state_dir(engine);
    int r = csn_engine_is_remote(engine) ? put_remote_place(place, out) : csn_buf_puts(out, place);

    return r < 0 ? r : csn_buf_puts(out, "/sessions");
}

static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
        *slash = '/';
        if (r < 0 && r != -EROFS && r != -EACCES) /* one that is there may be on a read-only disk */
            return r;
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

char *cli_session_path(csn_engine *engine, const char *session)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    int r;

    if (!csn_is_name(session)) {
        (void) cli_fail_with(
            CSN_E_INVALID, NULL,
            "'%s' is no name for a session: letters, digits, '.', '_', '-', at most 64", session);
        return NULL;
    }
    r = cli_session_dir(engine, &path);
    if (r >= 0)
        r = make_directories(path.data);
    if (r < 0) {
        (void) cli_fail_with(CSN_E_SYSTEM, NULL, "make '%s': %s", path.data, strerror(-r));
        return NULL;
    }
    csn_buf_printf(&path, "/%s.json", session);
    return csn_buf_take(&path, NULL);
}

void cli_session_save(csn_engine *engine, const char *session, csn_interp *interp)
{
    csn_auto(mem) char *path = session ? cli_session_path(engine, session) : NULL;
    csn_auto(mem) char *json = NULL;
    int r;

    if (!path || csn_interp_export_state(interp, &json, NULL) < 0)
        return;
    r = csn_write_file_atomic(AT_FDCWD, path, json, strlen(json), 0600, false);
    if (r < 0)
        cli_note("the session's state could not be written: %s", strerror(-r));
}

/* No file, but a sandbox of that name: we were killed between the two. */
static void adopt_by_name(csn_engine *engine, const char *name, csn_buf *state)
{
    csn_sandbox *box = NULL;

    if (csn_sandbox_open(engine, name, &box, NULL) < 0)
        return;
    csn_buf_printf(state, "{\"daytona\":{\"sandbox_id\":\"%s\"}}", csn_sandbox_id(box));
    csn_sandbox_free(box);
}

static int load_session(csn_engine *engine, const cli_interp_values *v, const char *name,
                        csn_interp *interp)
{
    csn_auto(mem) char *path = cli_session_path(engine, v->session);
    csn_auto(buf) csn_buf state = CSN_BUF_INIT_MAX(STATE_MAX);
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *d;

    if (!path)
        return 2;
    if (csn_read_file(AT_FDCWD, path, &state, STATE_MAX) < 0)
        adopt_by_name(engine, name, &state);
    if (!state.len)
        return -1;
    (void) csn_interp_import_state(interp, state.data, state.len,
                                   NULL); /* what is malformed counts as absent */
    (void) csn_json_parse(state.data, state.len, &doc, NULL);
    d = csn_json_get(doc, "daytona");
    if (v->repo || v->ref || v->context.n || v->volume) /* what is named now wins over what was */
        (void) csn_interp_configure_workspace(
            interp, v->repo ? v->repo : csn_json_get_str(d, "repo_url", NULL),
            v->ref ? v->ref : csn_json_get_str(d, "repo_ref", NULL), v->context.items,
            v->volume ? v->volume : csn_json_get_str(d, "volume_name", NULL), 0, NULL);
    return -1;
}

int cli_interp_open(csn_engine *engine, const cli_interp_values *v, const csn_interp_options *given,
                    csn_interp **ret_interp)
{
    csn_interp_options o = *given;
    csn_auto(buf) csn_buf name = CSN_BUF_INIT;
    csn_error err = { 0 };
    int status = -1;

    csn_buf_printf(&name, "session-%s", v->session ? v->session : "");
    if (v->session)
        o.name = name.data;
    if (csn_interp_new(engine, &o, ret_interp, &err) < 0 ||
        csn_interp_set_output_fields(*ret_interp, v->fields.items, &err) < 0)
        return cli_fail(&err, NULL);
    if (v->session)
        status = load_session(engine, v, name.data, *ret_interp);
    if (status >= 0)
        return status;
    if (csn_interp_start(*ret_interp, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : cli_fail(&err, NULL);
    cli_session_save(engine, v->session, *ret_interp);
    return -1;
}
