#include "model.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <caisson/config.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/redact.h"
#include "base/str.h"
#include "base/time.h"
#include "base/utf8.h"
#include "interp.h"

enum { ANSWER_MAX = 16 << 20, REASON_CHARS = 1000, KEY_MIN = 6, MAX_TOKENS = 4096, PLAN_TOKENS = 64000 };

extern char **environ;

/* ---- settings --------------------------------------------------------------------------------------------------- */

static int copy(const char *text, char **ret)
{
    *ret = text && *text ? csn_strdup(text) : NULL;
    return text && *text && !*ret ? -ENOMEM : 0;
}

/* Without settings from files there is still the environment. */
static const char *setting(const csn_config *c, const char *key)
{
    const char *value = c ? csn_config_get(c, key) : getenv(key);

    return value && *value ? value : NULL;
}

static const char *first_of(const csn_config *c, const char *a, const char *b)
{
    const char *value = setting(c, a);

    return value ? value : setting(c, b);
}

/* A bad value is as good as none. */
static int64_t tokens_of(const csn_config *c, const char *key, int64_t def)
{
    const char *text = setting(c, key);
    uint64_t n;

    return text && csn_parse_u64(csn_str_of(text), &n) == 0 && n > 0 && n < 1000000 ? (int64_t) n
                                                                                    : def;
}

/* The provider's prefix is for routers, not for the endpoint. */
static const char *plain_name(const char *name)
{
    return name && csn_starts_with(name, "openai/") ? name + 7 : name;
}

static int fill(csn_model *m, const csn_interp_options *o, const csn_config *c)
{
    const char *url = o->llm_url ? o->llm_url : setting(c, "DSPY_LM_API_BASE");
    const char *name = o->llm_model ? o->llm_model : setting(c, "DSPY_LM_MODEL");
    const char *small = o->llm_model ? NULL : setting(c, "DSPY_LM_SMALL_MODEL");

    m->fn = o->llm;
    m->user = o->user_data;
    m->timeout_s = o->llm_call_timeout_s;
    m->max_tokens = tokens_of(c, "FLEET_RLM_LLM_QUERY_MAX_TOKENS", MAX_TOKENS);
    m->plan_tokens = tokens_of(c, "DSPY_LM_MAX_TOKENS", PLAN_TOKENS);
    m->helper = csn_libexec("caisson-llm");
    return m->helper && copy(url, &m->url) == 0 && copy(plain_name(name), &m->name) == 0 &&
                   copy(plain_name(small), &m->small) == 0 && copy(o->llm_cmd, &m->command) == 0 &&
                   copy(first_of(c, "DSPY_LLM_API_KEY", "DSPY_LM_API_KEY"), &m->key) == 0
               ? 0
               : -ENOMEM;
}

int csn_model_new(const csn_interp_options *o, csn_model **ret_model, csn_error *err)
{
    csn_model *m = csn_calloc(1, sizeof(*m));
    csn_config *config = NULL;
    int r;

    if (!m)
        return csn_fail_sys(err, -ENOMEM, "remember the model");
    r = csn_config_load(NULL, &config,
                        NULL); /* a half-configured remote backend is not our business */
    if (r < 0)
        config = NULL;
    r = fill(m, o, config);
    csn_config_free(config);
    if (r < 0) {
        csn_model_free(m);
        return csn_fail_sys(err, r, "remember the model");
    }
    *ret_model = m;
    return CSN_OK;
}

csn_model *csn_model_free(csn_model *m)
{
    if (!m)
        return NULL;
    if (m->key)
        explicit_bzero(m->key, strlen(m->key));
    free(m->key);
    free(m->url);
    free(m->name);
    free(m->small);
    free(m->command);
    free(m->helper);
    free(m);
    return NULL;
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* Our own key is no secret by its looks alone. */
static void put_without_key(const csn_model *m, const char *text, csn_buf *out)
{
    size_t len = m->key ? strlen(m->key) : 0;
    const char *found;

    for (; len >= KEY_MIN && (found = strstr(text, m->key)); text = found + len) {
        csn_buf_append(out, text, (size_t) (found - text));
        csn_buf_puts(out, "[REDACTED]");
    }
    csn_buf_puts(out, text);
}

/* Redacted and cut, as a provider's words may be long and may quote our key. What is in `out` already stays. */
static int fail(const csn_model *m, csn_buf *out, const char *text)
{
    csn_auto(buf) csn_buf plain = CSN_BUF_INIT_MAX(1 << 20);
    csn_auto(buf) csn_buf safe = CSN_BUF_INIT_MAX(2 << 20);
    size_t at = 0, n = 0;

    put_without_key(m, text, &plain);
    csn_redact(plain.data, &safe);
    while (at < safe.len && n++ < REASON_CHARS) {
        unsigned c;
        int step = csn_utf8_next(safe.data + at, safe.len - at, &c);

        at += step > 0 ? (size_t) step : 1;
    }
    csn_utf8_lossy(NULL, safe.data, at, out);
    return CSN_ASK_FAILED;
}

static int fail_timeout(const csn_model *m, csn_buf *out)
{
    csn_buf_printf(
        out,
        "LLM call timed out after %llds. Consider increasing llm_call_timeout or checking API connectivity.",
        (long long) m->timeout_s);
    return CSN_ASK_FAILED;
}

static void begin_denial(csn_model *m, csn_buf *out)
{
    atomic_store(&m->is_denied, true);
    csn_buf_puts(out, "LLM authentication failed: ");
}

static int deny(csn_model *m, csn_buf *out, const char *text)
{
    begin_denial(m, out);
    return fail(m, out, text);
}

/* Commands and functions say in words what an endpoint says by its status. */
static bool says_denied(const char *text)
{
    return strcasestr(text, "unauthorized") || strcasestr(text, "HTTP 401");
}

static int ask_function(csn_model *m, const char *prompt, size_t len, csn_buf *out)
{
    int64_t timeout_ms = m->timeout_s * 1000, deadline = csn_deadline_in_ms(timeout_ms);
    csn_auto(mem) char *text = NULL;
    csn_error err = { 0 };
    int r = m->fn(prompt, len, timeout_ms, &text, &err, m->user);

    if (r == CSN_E_TIMEOUT || csn_deadline_passed(deadline))
        return fail_timeout(m, out);
    if (r == CSN_E_DENIED)
        return deny(m, out, err.message);
    if (r < 0 || !text)
        return says_denied(err.message)
                   ? deny(m, out, err.message)
                   : fail(m, out, err.message[0] ? err.message : "the model gave no answer");
    csn_utf8_lossy(NULL, text, strlen(text), out);
    return CSN_ASK_OK;
}

/* How it ended is ours to say, and is not redacted; what it said follows. */
static int fail_command(csn_model *m, int status, const csn_buf *said, csn_buf *out)
{
    csn_str words = csn_str_trim(csn_str_n(said->data, said->len));
    csn_auto(mem) char *text = csn_strndup(words.len ? words.data : "", words.len);
    bool is_denied = text && says_denied(text);

    if (is_denied)
        begin_denial(m, out);
    if (WIFEXITED(status))
        csn_buf_printf(out, "model command failed (exit %d)", WEXITSTATUS(status));
    else
        csn_buf_printf(out, "model command failed (signal %d)", WTERMSIG(status));
    csn_buf_puts(out, words.len ? ": " : "");
    return fail(m, out, text ? text : "");
}

static int ask_command(csn_model *m, const char *prompt, size_t len, csn_buf *out)
{
    const char *const argv[] = { "/bin/sh", "-c", m->command, NULL };
    csn_auto(buf) csn_buf answer = CSN_BUF_INIT_MAX(ANSWER_MAX);
    csn_auto(buf) csn_buf said = CSN_BUF_INIT_MAX(64 << 10);
    int status, r = csn_host_run(argv, (const char *const *) environ, prompt, len,
                                 csn_deadline_in_ms(m->timeout_s * 1000), &m->is_closing, &answer,
                                 &said, &status);

    if (r == -ETIMEDOUT)
        return fail_timeout(m, out);
    if (r < 0)
        return fail(m, out, csn_strerror(r));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail_command(m, status, &said, out);
    csn_utf8_lossy(NULL, answer.data, answer.len, out);
    return CSN_ASK_OK;
}

static void put_request(const csn_model *m, bool is_root, const char *prompt, size_t len,
                        csn_buf *out)
{
    csn_jw w = CSN_JW_INIT(out, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "url", m->url);
    csn_jw_kstr(&w, "model", is_root || !m->small ? m->name : m->small);
    csn_jw_kint(&w, "max_tokens", is_root ? m->plan_tokens : m->max_tokens);
    csn_jw_kint(&w, "timeout_ms", m->timeout_s * 1000);
    csn_jw_key(&w, "prompt");
    csn_jw_string(&w, prompt, len);
    csn_jw_end_object(&w);
}

/* The key travels in the helper's environment: arguments are for everybody to see. */
static int run_helper(csn_model *m, const csn_buf *request, csn_buf *answer)
{
    csn_auto(buf) csn_buf key = CSN_BUF_INIT;
    const char *const argv[] = { m->helper, NULL };
    const char *env[] = { "PATH=/usr/bin:/bin", NULL, NULL, NULL, NULL };
    const char *const proxy = getenv("https_proxy"), *const ca = getenv("SSL_CERT_FILE");
    csn_auto(buf) csn_buf proxy_env = CSN_BUF_INIT;
    csn_auto(buf) csn_buf ca_env = CSN_BUF_INIT;
    size_t n = 1;
    int status, r;

    if (m->key && csn_buf_printf(&key, "CAISSON_LLM_KEY=%s", m->key) == 0)
        env[n++] = key.data;
    if (proxy && csn_buf_printf(&proxy_env, "https_proxy=%s", proxy) == 0)
        env[n++] = proxy_env.data;
    if (ca && csn_buf_printf(&ca_env, "SSL_CERT_FILE=%s", ca) == 0)
        env[n++] = ca_env.data;
    r = csn_host_run(argv, env, request->data, request->len,
                     csn_deadline_in_ms(m->timeout_s * 1000 + 1000), &m->is_closing, answer, NULL,
                     &status);
    if (key.cap)
        explicit_bzero(key.data, key.len);
    if (r == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        r = -EIO;
    return r;
}

static int ask_url(csn_model *m, bool is_root, const char *prompt, size_t len, csn_buf *out)
{
    csn_auto(buf) csn_buf request = CSN_BUF_INIT_MAX((size_t) 256 << 20);
    csn_auto(buf) csn_buf answer = CSN_BUF_INIT_MAX(ANSWER_MAX);
    csn_auto(json) csn_json *doc = NULL;
    const char *kind;
    int r;

    put_request(m, is_root, prompt, len, &request);
    r = request.error < 0 ? request.error : run_helper(m, &request, &answer);
    if (r == -ETIMEDOUT)
        return fail_timeout(m, out);
    if (r == 0)
        r = csn_json_parse(answer.data, answer.len, &doc, NULL);
    if (r < 0)
        return fail(m, out,
                    r == -ENOENT ? "the helper caisson-llm is not installed" : csn_strerror(r));
    kind = csn_json_get_str(doc, "kind", "");
    if (csn_streq(kind, "timeout"))
        return fail_timeout(m, out);
    if (csn_streq(kind, "auth"))
        return deny(m, out, csn_json_get_str(doc, "error", "unauthorized"));
    if (*kind)
        return fail(m, out, csn_json_get_str(doc, "error", "the model's endpoint failed"));
    csn_buf_append(out, csn_json_get_str(doc, "text", ""),
                   csn_json_str_len(csn_json_get(doc, "text")));
    return CSN_ASK_OK;
}

int csn_model_ask(csn_model *m, bool is_root, const char *prompt, size_t len, csn_buf *out)
{
    if (atomic_load(&m->is_denied)) {
        csn_buf_puts(
            out,
            "LLM authentication failed earlier in this session; the provider was not asked again. "
            "Check DSPY_LLM_API_KEY.");
        return CSN_ASK_SKIPPED;
    }
    if (m->fn)
        return ask_function(m, prompt, len, out);
    if (m->command)
        return ask_command(m, prompt, len, out);
    if (m->url)
        return ask_url(m, is_root, prompt, len, out);
    csn_buf_puts(
        out,
        "No language model is configured. Set DSPY_LM_MODEL, DSPY_LM_API_BASE and DSPY_LLM_API_KEY, or give "
        "--llm-url or --llm-cmd.");
    return CSN_ASK_SKIPPED;
}

/* ---- budget ----------------------------------------------------------------------------------------------------- */

static pthread_mutex_t budget_mutex =
    PTHREAD_MUTEX_INITIALIZER; /* of all: a charge goes up a chain of them */

static csn_budget *exceeded_by(csn_budget *b, int64_t n)
{
    for (; b; b = b->parent)
        if (n > b->max - b->used)
            return b;
    return NULL;
}

bool csn_budget_charge(csn_budget *b, int64_t n, csn_buf *why)
{
    csn_budget *over;

    pthread_mutex_lock(&budget_mutex);
    over = exceeded_by(b, n);
    for (csn_budget *at = b; at && !over; at = at->parent)
        at->used += n;
    if (over && over->parent)
        csn_buf_printf(why, "LLM budget lease exceeded: %lld + %lld > %lld.",
                       (long long) over->used, (long long) n, (long long) over->max);
    else if (over)
        csn_buf_printf(
            why,
            "LLM call limit exceeded: %lld + %lld > %lld. Use Python code for aggregation instead of making "
            "more LLM calls.",
            (long long) over->used, (long long) n, (long long) over->max);
    pthread_mutex_unlock(&budget_mutex);
    return !over;
}

void csn_budget_give_back(csn_budget *b, int64_t n)
{
    pthread_mutex_lock(&budget_mutex);
    for (; b; b = b->parent)
        b->used = b->used > n ? b->used - n : 0;
    pthread_mutex_unlock(&budget_mutex);
}

int64_t csn_budget_left(csn_budget *b)
{
    int64_t left = INT64_MAX;

    pthread_mutex_lock(&budget_mutex);
    for (; b; b = b->parent)
        left = b->max - b->used < left ? b->max - b->used : left;
    pthread_mutex_unlock(&budget_mutex);
    return left > 0 ? left : 0;
}
