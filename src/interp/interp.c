/* Theory of operation. An interpreter is a sandbox, in it one Python process (driver.py), and a channel to it that the
 * engine keeps alive between clients. This thread owns everything: it waits in one loop for the channel, for the two output
 * pipes, for the engine and for timers. Host callbacks (models, tools, children) run on threads that touch nothing but
 * their own call; their answers come back through a list and a wake of the loop. Whatever comes from inside is checked; a
 * frame that must not be ends the process inside, never this one. */
#include "interp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/time.h"

/* ---- small things ----------------------------------------------------------------------------------------------- */

const char *csn_interp_keep(csn_interp *i, const char *text)
{
    char **grown;

    if (!text)
        return NULL;
    grown = csn_realloc_array(i->pool, i->n_pool + 1, sizeof(*grown));
    if (!grown)
        return NULL;
    i->pool = grown;
    grown[i->n_pool] = csn_strdup(text);
    return grown[i->n_pool] ? grown[i->n_pool++] : NULL;
}

char *csn_libexec(const char *program)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    const char *dir = getenv("CAISSON_LIBEXEC");
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (dir && *dir) {
        csn_buf_printf(&path, "%s/%s", dir, program);
        return csn_buf_take(&path, NULL);
    }
    if (n > 0) {
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        csn_buf_printf(&path, "%s/%s", self, program);
        if (path.error == 0 && access(path.data, X_OK) == 0)
            return csn_buf_take(&path, NULL);
        csn_buf_clear(&path);
    }
    csn_buf_printf(&path, "%s/%s", CSN_LIBEXECDIR, program);
    return csn_buf_take(&path, NULL);
}

void csn_note_failure(csn_interp *i, const char *category, const char *phase)
{
    if (i->failure_category)
        return; /* the first one tells most */
    i->failure_category = category;
    i->failure_phase = phase;
}

/* ---- sources ---------------------------------------------------------------------------------------------------- */

void csn_sources_done(csn_sources *s)
{
    free(s->repo_url);
    free(s->repo_ref);
    free(s->volume_name);
    for (char **p = s->context_paths; p && *p; p++)
        free(*p);
    free(s->context_paths);
    *s = (csn_sources){ 0 };
}

static char *trimmed(const char *text)
{
    csn_str s = csn_str_trim(csn_str_of(text));

    return s.len ? csn_strndup(s.data, s.len) : NULL;
}

/* Trimmed, without empties, the first of equals. */
static int copy_paths(const char *const *paths, char ***ret)
{
    size_t n = 0, kept = 0;
    char **list;

    while (paths && paths[n])
        n++;
    list = csn_calloc(n + 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    *ret = list;
    for (size_t at = 0; at < n; at++) {
        char *path = trimmed(paths[at]);

        for (size_t k = 0; path && k < kept; k++)
            if (csn_streq(list[k], path)) {
                free(path);
                path = NULL;
            }
        if (path)
            list[kept++] = path;
    }
    return 0;
}

int csn_sources_set(csn_sources *s, const char *url, const char *ref, const char *const *paths,
                    const char *volume)
{
    csn_sources fresh = { trimmed(url), trimmed(ref), trimmed(volume), NULL };

    if (copy_paths(paths, &fresh.context_paths) < 0) {
        csn_sources_done(&fresh);
        return -ENOMEM;
    }
    csn_sources_done(s);
    *s = fresh;
    return 0;
}

bool csn_sources_equal(const csn_sources *a, const csn_sources *b)
{
    size_t n = 0;

    if (!csn_streq(a->repo_url, b->repo_url) || !csn_streq(a->repo_ref, b->repo_ref) ||
        !csn_streq(a->volume_name, b->volume_name))
        return false;
    for (; a->context_paths && a->context_paths[n]; n++)
        if (!b->context_paths || !csn_streq(a->context_paths[n], b->context_paths[n]))
            return false;
    return !b->context_paths || !b->context_paths[n];
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int64_t or_default(int64_t value, int64_t def)
{
    return value == 0 ? def : value < 0 ? 0 : value;
}

static int from_env(const char *name, int64_t *value)
{
    const char *text = getenv(name);
    int64_t n;

    if (*value == 0 && text && csn_parse_i64(csn_str_of(text), &n) == 0 && n > 0)
        *value = n;
    return 0;
}

static int check_words(csn_interp_options *o, csn_error *err)
{
    const char *mode =
        o->child_isolation_mode ? o->child_isolation_mode : getenv("RLM_CHILD_ISOLATION_MODE");
    const char *fallback =
        o->child_fork_fallback ? o->child_fork_fallback : getenv("RLM_CHILD_FORK_FALLBACK");

    mode = mode && *mode ? mode : "auto";
    fallback = fallback && *fallback ? fallback : "clean";
    if (!csn_streq(mode, "auto") && !csn_streq(mode, "context"))
        return csn_fail(err, CSN_E_INVALID,
                        "RLM child isolation mode must be one of: 'auto', 'context'");
    if (!csn_streq(fallback, "clean") && !csn_streq(fallback, "fail"))
        return csn_fail(err, CSN_E_INVALID,
                        "RLM child fork fallback must be one of: 'clean', 'fail'");
    o->child_isolation_mode = csn_streq(mode, "auto") ? "auto" : "context";
    o->child_fork_fallback = csn_streq(fallback, "clean") ? "clean" : "fail";
    return CSN_OK;
}

static void fill_defaults(csn_interp_options *o)
{
    int64_t child_s = o->delegate_execution_timeout_s;

    (void) from_env("DAYTONA_BROKER_HEALTH_TIMEOUT", &o->health_timeout_s);
    (void) from_env("DAYTONA_BROKER_TIMEOUT", &o->tool_timeout_s);
    (void) from_env("RLM_DELEGATE_EXECUTION_TIMEOUT", &child_s);
    o->timeout_s = o->timeout_s == 0 ? 900 : o->timeout_s;
    if (o->execute_timeout_s <= 0)
        o->execute_timeout_s = o->timeout_s > 0 ? o->timeout_s : 900;
    o->health_timeout_s = o->health_timeout_s > 0 ? o->health_timeout_s : 20;
    o->tool_timeout_s = o->tool_timeout_s > 0 ? o->tool_timeout_s : 180;
    o->start_retries = (int) or_default(o->start_retries, 1);
    o->max_llm_calls = or_default(o->max_llm_calls, 50);
    o->llm_call_timeout_s = o->llm_call_timeout_s > 0 ? o->llm_call_timeout_s : 60;
    o->max_recursion_depth = (int) or_default(o->max_recursion_depth, 2);
    o->delegate_max_iterations = o->delegate_max_iterations > 0 ? o->delegate_max_iterations : 8;
    o->rlm_max_iterations = o->rlm_max_iterations > 0 ? o->rlm_max_iterations : 30;
    o->delegate_max_calls = o->delegate_max_calls > 0 ? o->delegate_max_calls : 8;
    child_s = child_s > 0 ? child_s : 300;
    o->delegate_execution_timeout_s =
        child_s < o->execute_timeout_s ? child_s : o->execute_timeout_s;
    o->delegate_result_chars = o->delegate_result_chars > 0 ? o->delegate_result_chars : 8000;
    o->output_bytes = o->output_bytes > 0 ? o->output_bytes : 10 << 20;
    o->submit_bytes = o->submit_bytes > 0 ? o->submit_bytes : 64 << 20;
}

static const char *const *keep_list(csn_interp *i, const char *const *list)
{
    size_t n = 0;
    const char **copy;

    while (list && list[n])
        n++;
    copy = csn_calloc(n + 1, sizeof(*copy));
    for (size_t k = 0; copy && k < n; k++)
        copy[k] = csn_interp_keep(i, list[k]);
    return copy;
}

static int keep_options(csn_interp *i, csn_error *err)
{
    const char **const texts[] = { &i->o.name,           &i->o.image,   &i->o.snapshot,
                                   &i->o.volume_subpath, &i->o.llm_url, &i->o.llm_model,
                                   &i->o.llm_cmd,        &i->o.profile, &i->o.session_id };
    int r;

    fill_defaults(&i->o);
    if (i->o.session_id && !csn_is_name(i->o.session_id))
        return csn_fail(err, CSN_E_INVALID, "'%s' is no session id", i->o.session_id);
    r = check_words(&i->o, err);
    if (r < 0)
        return r;
    for (size_t k = 0; k < CSN_COUNT(texts); k++)
        if (*texts[k] && !(*texts[k] = csn_interp_keep(i, *texts[k])))
            return csn_fail_sys(err, -ENOMEM, "keep the interpreter's options");
    i->o.labels = keep_list(i, i->o.labels);
    i->o.env = keep_list(i, i->o.env);
    r = csn_sources_set(&i->sources, i->o.repo_url, i->o.repo_ref, i->o.context_paths,
                        i->o.volume_name);
    i->o.repo_url = i->o.repo_ref = i->o.volume_name = NULL; /* they may change: see sources */
    i->o.context_paths = NULL;
    if (r < 0 || !i->o.labels || !i->o.env)
        return csn_fail_sys(err, -ENOMEM, "keep the interpreter's options");
    return CSN_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static void on_engine(csn_source *src, uint32_t events, void *user)
{
    csn_interp *i = user;

    (void) src;
    (void) events;
    (void) csn_engine_dispatch(i->engine, 0, NULL); /* what failed is told to who asked for it */
    if (csn_engine_take_interrupt(i->engine))
        csn_interp_cancel(i);
}

static int make_loop(csn_interp *i, csn_error *err)
{
    int r = csn_loop_new(&i->loop);

    if (r == 0)
        r = csn_loop_add(i->loop, csn_engine_fd(i->engine), EPOLLIN, on_engine, i,
                         &i->engine_source);
    return r < 0 ? csn_fail_sys(err, r, "make the interpreter's loop") : CSN_OK;
}

static csn_interp *alloc_interp(csn_engine *engine, const csn_interp_options *opts)
{
    csn_interp *i = csn_calloc(1, sizeof(*i));
    const size_t most = 2 * ((size_t) 64 << 20) + (1 << 20);

    if (!i)
        return NULL;
    i->engine = engine;
    i->o = *opts;
    i->in = (csn_frame_in) CSN_FRAME_IN_INIT(most);
    i->outputs_json = i->context_json = i->children_json = i->last_words = (csn_buf) CSN_BUF_INIT;
    i->channel_fd = i->out_fd[0] = i->out_fd[1] = i->lock_fd = -1;
    csn_list_init(&i->out);
    csn_list_init(&i->jobs);
    csn_list_init(&i->tools);
    csn_list_init(&i->calls);
    csn_list_init(&i->evidence);
    csn_list_init(&i->errands);
    atomic_store(&i->thread, pthread_self());
    pthread_mutex_init(&i->mutex, NULL);
    pthread_cond_init(&i->idle, NULL);
    (void) csn_random(&i->next_id,
                      sizeof(i->next_id)); /* only so that a stale frame isn't taken for ours */
    i->next_id = (i->next_id & INT64_C(0xFFFFFFFFFF)) + 1;
    return i;
}

int csn_interp_new(csn_engine *engine, const csn_interp_options *opts, csn_interp **ret_interp,
                   csn_error *err)
{
    csn_interp_options none = { .size = sizeof(none) };
    csn_interp *i;
    int r;

    opts = opts ? opts : &none;
    if (!engine || opts->size != sizeof(*opts))
        return csn_fail(err, CSN_E_INVALID,
                        "csn_interp_options is of another version, or there is no engine");
    i = alloc_interp(engine, opts);
    if (!i)
        return csn_fail_sys(err, -ENOMEM, "make the interpreter");
    r = keep_options(i, err);
    if (r >= 0)
        r = make_loop(i, err);
    if (r >= 0)
        r = csn_model_new(&i->o, &i->model, err);
    if (r < 0) {
        csn_interp_free(i);
        return r;
    }
    if (i->o.submit_bytes > (64 << 20)) {
        i->in.max = 2 * (size_t) i->o.submit_bytes + (1 << 20);
        i->in.data.max = i->in.max;
    }
    i->owns_model = true;
    i->own_budget = (csn_budget){ 0, i->o.max_llm_calls, NULL };
    i->budget = &i->own_budget;
    *ret_interp = i;
    return CSN_OK;
}

static void free_tools(csn_interp *i)
{
    csn_list *node;

    while ((node = csn_list_pop(&i->tools))) {
        csn_tool *t = csn_list_entry(node, csn_tool, link);

        free(t->signature);
        free(t);
    }
}

csn_interp *csn_interp_free(csn_interp *i)
{
    if (!i)
        return NULL;
    atomic_store(&i->is_closing, true);
    if (i->model && i->owns_model)
        atomic_store(&i->model->is_closing, true);
    (void) csn_interp_shutdown(i, NULL);
    csn_calls_abandon(i);
    csn_calls_wait_threads(i);
    free_tools(i);
    csn_evidence_free(i);
    csn_history_free(i);
    if (i->owns_model)
        csn_model_free(i->model);
    i->engine_source = csn_source_remove(i->engine_source);
    csn_loop_free(i->loop);
    csn_sources_done(&i->sources);
    csn_sources_done(&i->in_place);
    csn_buf_free(&i->outputs_json);
    csn_buf_free(&i->context_json);
    csn_buf_free(&i->last_words);
    csn_buf_free(&i->children_json);
    csn_buf_free(&i->in.data);
    free(i->workspace);
    free(i->remembered_box);
    free(i->remembered_workspace);
    free(i->remembered_volume);
    for (size_t k = 0; k < i->n_pool; k++)
        free(i->pool[k]);
    free(i->pool);
    free((void *) i->o.labels);
    free((void *) i->o.env);
    pthread_mutex_destroy(&i->mutex);
    pthread_cond_destroy(&i->idle);
    free(i);
    return NULL;
}

int csn_interp_turn(csn_interp *i, int64_t deadline_ns)
{
    int r;

    atomic_store(&i->thread, pthread_self());
    r = csn_loop_run_once(i->loop, deadline_ns);

    if (csn_loop_woken(i->loop) || r >= 0)
        csn_calls_collect(i);
    csn_jobs_revive(i);
    return r < 0 ? csn_fail_sys(NULL, r, "wait") : CSN_OK;
}

int csn_interp_fd(csn_interp *i)
{
    return csn_loop_fd(i->loop);
}

int csn_interp_dispatch(csn_interp *i, int timeout_ms, csn_error *err)
{
    int r = csn_interp_turn(i, timeout_ms < 0 ? CSN_NO_DEADLINE : csn_deadline_in_ms(timeout_ms));

    return r < 0 ? csn_fail(err, r, "wait for the interpreter") : CSN_OK;
}

void csn_interp_budget(const csn_interp *i, int64_t *ret_used, int64_t *ret_max)
{
    *ret_used = i->budget->used;
    *ret_max = i->budget->max;
}

const char *csn_interp_sandbox_id(const csn_interp *i)
{
    return i->box ? csn_sandbox_id(i->box) : NULL;
}

const char *csn_interp_workspace(const csn_interp *i)
{
    return i->workspace;
}

/* ---- declarations ----------------------------------------------------------------------------------------------- */

int csn_interp_set_output_fields(csn_interp *i, const char *const *fields, csn_error *err)
{
    csn_jw w = CSN_JW_INIT(&i->outputs_json, false);

    csn_buf_clear(&i->outputs_json);
    if (!fields || !fields[0])
        return CSN_OK;
    csn_jw_begin_array(&w);
    for (; *fields; fields++) {
        const char *colon = strchr(*fields, ':');
        csn_str name =
            csn_str_trim(csn_str_n(*fields, colon ? (size_t) (colon - *fields) : strlen(*fields)));

        if (!name.len)
            continue;
        csn_jw_begin_array(&w);
        csn_jw_string(&w, name.data, name.len);
        csn_jw_str(&w, colon ? colon + 1 : NULL);
        csn_jw_end_array(&w);
    }
    csn_jw_end_array(&w);
    if (csn_streq(i->outputs_json.data, "[]"))
        csn_buf_clear(&i->outputs_json);
    return i->outputs_json.error < 0
               ? csn_fail_sys(err, i->outputs_json.error, "keep the output fields")
               : CSN_OK;
}

bool csn_is_identifier(const char *s)
{
    if (!*s || (*s >= '0' && *s <= '9'))
        return false;
    for (; *s; s++)
        if (!(*s == '_' || (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
              (*s >= 'A' && *s <= 'Z') || (unsigned char) *s >= 0x80))
            return false;
    return true;
}

static bool is_one_of(const char *name, const char *const *words, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (csn_streq(words[k], name))
            return true;
    return false;
}

bool csn_is_keyword(const char *name)
{
    static const char *const words[] = {
        "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
        "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
        "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
        "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"
    };

    return is_one_of(name, words, CSN_COUNT(words));
}

static bool is_reserved(const char *name)
{
    static const char *const words[] = { "llm_query", "llm_query_batched", "SUBMIT", "print" };

    return csn_is_keyword(name) || is_one_of(name, words, CSN_COUNT(words));
}

int csn_interp_register_tool(csn_interp *i, const char *name, const char *signature, csn_tool_fn fn,
                             void *user, csn_error *err)
{
    csn_tool *t;

    if (!name || !csn_is_identifier(name) || is_reserved(name))
        return csn_fail(err, CSN_E_INVALID, "Invalid tool name: '%s'", name ? name : "");
    csn_list_foreach (node, &i->tools) {
        csn_tool *old = csn_list_entry(node, csn_tool, link);

        if (csn_streq(old->name, name)) {
            csn_list_remove(&old->link);
            free(old->signature);
            free(old);
        }
    }
    i->tools_changed = true;
    if (!fn)
        return CSN_OK;
    t = csn_calloc(1, sizeof(*t) + strlen(name) + 1);
    if (!t || (signature && !(t->signature = csn_strdup(signature)))) {
        free(t);
        return csn_fail_sys(err, -ENOMEM, "register the tool '%s'", name);
    }
    memcpy(t->name, name, strlen(name) + 1);
    t->fn = fn;
    t->user = user;
    csn_list_append(&i->tools, &t->link);
    return CSN_OK;
}
