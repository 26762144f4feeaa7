/* What the host answers: models, children, evidence, and the tools that were registered. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/redact.h"
#include "interp.h"
#include "pyjson.h"

enum { WINDOW = 4, WINDOW_MAX = 8, MAX_CHILDREN = 4 };

void csn_call_raise(csn_call *call, const char *type, const char *fmt, ...)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(1 << 20);
    va_list args;

    va_start(args, fmt);
    csn_buf_vprintf(&text, fmt, args);
    va_end(args);
    csn_buf_clear(&call->value);
    csn_redact(text.data, &call->value);
    call->raised = type;
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

/* Arguments that our own helpers pass hold only what jansson can read: prompts and keys. */
static const csn_json *arg(const csn_json *args, size_t at)
{
    return csn_json_at(args, at);
}

static bool is_blank(const csn_json *v)
{
    return csn_str_trim(csn_str_n(csn_json_str(v, ""), csn_json_str_len(v))).len == 0;
}

static void put_prompt(const csn_json *prompt, const csn_json *context, csn_buf *out)
{
    if (!is_blank(context)) {
        csn_buf_append(out, csn_json_str(context, ""), csn_json_str_len(context));
        csn_buf_puts(out, "\n\n");
    }
    csn_buf_append(out, csn_json_str(prompt, ""), csn_json_str_len(prompt));
}

static void answer_text(csn_call *call, const char *data, size_t len)
{
    csn_jw w = CSN_JW_INIT(&call->value, false);

    csn_buf_clear(&call->value);
    csn_jw_string(&w, data, len);
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static void llm_query(csn_call *call, const csn_json *args)
{
    csn_interp *i = call->interp;
    csn_auto(buf) csn_buf prompt = CSN_BUF_INIT_MAX((size_t) 128 << 20);
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    int r;

    if (is_blank(arg(args, 0))) {
        csn_call_raise(call, "ValueError", "prompt cannot be empty");
        return;
    }
    put_prompt(arg(args, 0), arg(args, 1), &prompt);
    if (!csn_budget_charge(i->budget, 1, &out)) {
        csn_call_raise(call, "RuntimeError", "%s", out.data);
        return;
    }
    r = csn_model_ask(i->model, false, prompt.data, prompt.len, &out);
    if (r == CSN_ASK_SKIPPED)
        csn_budget_give_back(i->budget, 1);
    if (r == CSN_ASK_OK)
        answer_text(call, out.data, out.len);
    else
        csn_call_raise(call, "RuntimeError", "%s", out.data);
}

/* Several of something at once: a few threads take the next index until there is none. */
struct batch {
    csn_interp *i;
    const csn_json *prompts, *context;
    size_t n;
    atomic_size_t next;
    csn_buf *outs;
    int *results;
    int64_t lease, extra; /* of children: the first `extra` get one more */
};

static void *ask_some(void *user)
{
    struct batch *b = user;
    size_t at;

    while ((at = atomic_fetch_add(&b->next, 1)) < b->n) {
        csn_auto(buf) csn_buf prompt = CSN_BUF_INIT_MAX((size_t) 128 << 20);

        put_prompt(csn_json_at(b->prompts, at), b->context, &prompt);
        b->results[at] = csn_model_ask(b->i->model, false, prompt.data, prompt.len, &b->outs[at]);
        if (b->results[at] == CSN_ASK_SKIPPED)
            csn_budget_give_back(b->i->budget, 1);
    }
    return NULL;
}

static void *delegate_some(void *user)
{
    struct batch *b = user;
    size_t at;

    while ((at = atomic_fetch_add(&b->next, 1)) < b->n) {
        csn_buf why = CSN_BUF_INIT;
        int64_t lease = b->lease + ((int64_t) at < b->extra);

        b->results[at] = csn_delegate_run(b->i, csn_json_str(csn_json_at(b->prompts, at), ""),
                                          csn_json_str(b->context, ""), lease, &b->outs[at], &why);
        if (b->results[at] < 0) {
            csn_buf_free(&b->outs[at]);
            b->outs[at] = why;
        } else {
            csn_buf_free(&why);
        }
    }
    return NULL;
}

static void run_threads(struct batch *b, void *(*work)(void *), size_t window)
{
    pthread_t threads[WINDOW_MAX];
    size_t n = 0;

    while (!b->i->o.is_sync && n + 1 < window && n + 1 < b->n &&
           pthread_create(&threads[n], NULL, work, b) == 0)
        n++;
    (void) work(b); /* this thread, too */
    while (n)
        pthread_join(threads[--n], NULL);
}

static size_t window_of(void)
{
    const char *text = getenv("FLEET_RLM_LLM_QUERY_BATCH_WINDOW");
    uint64_t n;

    return text && csn_parse_u64(csn_str_of(text), &n) == 0 && n >= 1 && n <= WINDOW_MAX
               ? (size_t) n
               : WINDOW;
}

static void answer_batch(csn_call *call, const struct batch *b, const char *name, const char *unit)
{
    csn_auto(buf) csn_buf why = CSN_BUF_INIT_MAX(1 << 20);
    csn_jw w = CSN_JW_INIT(&call->value, false);
    size_t n_failed = 0;

    for (size_t k = 0; k < b->n; k++)
        if (b->results[k] < 0)
            csn_buf_printf(&why, "%sprompt[%zu]: RuntimeError: %s", n_failed++ ? "; " : "", k,
                           b->outs[k].data);
    if (n_failed) {
        csn_call_raise(call, "RuntimeError", "%s failed for %zu/%zu%s: %s", name, n_failed, b->n,
                       unit, why.data);
        return;
    }
    csn_jw_begin_array(&w);
    for (size_t k = 0; k < b->n; k++)
        csn_jw_string(&w, b->outs[k].data, b->outs[k].len);
    csn_jw_end_array(&w);
}

static void run_batch(csn_call *call, struct batch *b, bool is_children)
{
    b->outs = csn_calloc(b->n, sizeof(*b->outs));
    b->results = csn_calloc(b->n, sizeof(*b->results));
    for (size_t k = 0; b->outs && k < b->n; k++)
        b->outs[k] = (csn_buf) CSN_BUF_INIT;
    if (!b->outs || !b->results) {
        csn_call_raise(call, "RuntimeError", "out of memory");
    } else if (is_children) {
        run_threads(b, delegate_some, MAX_CHILDREN);
        answer_batch(call, b, "sub_rlm_batched", "");
    } else {
        run_threads(b, ask_some, window_of());
        answer_batch(call, b, "llm_query_batched", " prompts");
    }
    for (size_t k = 0; b->outs && k < b->n; k++)
        csn_buf_free(&b->outs[k]);
    free(b->outs);
    free(b->results);
}

/* True: there is something to do. */
static bool check_batch(csn_call *call, const csn_json *prompts, const char *empty)
{
    if (csn_json_type_of(prompts) != CSN_JSON_ARRAY) {
        csn_call_raise(call, "ValueError", "prompts must be a list");
        return false;
    }
    for (size_t k = 0; k < csn_json_count(prompts); k++)
        if (is_blank(csn_json_at(prompts, k))) {
            csn_call_raise(call, "ValueError", "%s", empty);
            return false;
        }
    if (csn_json_count(prompts) == 0)
        csn_buf_puts(&call->value, "[]");
    return csn_json_count(prompts) > 0;
}

static void llm_query_batched(csn_call *call, const csn_json *args)
{
    struct batch b = { .i = call->interp, .prompts = arg(args, 0), .context = arg(args, 1) };
    csn_auto(buf) csn_buf why = CSN_BUF_INIT;

    if (!check_batch(call, b.prompts, "prompt cannot be empty"))
        return;
    b.n = csn_json_count(b.prompts);
    if (!csn_budget_charge(b.i->budget, (int64_t) b.n, &why)) {
        csn_call_raise(call, "RuntimeError", "%s", why.data);
        return;
    }
    run_batch(call, &b, false);
}

static void sub_rlm(csn_call *call, const csn_json *args)
{
    csn_auto(buf) csn_buf answer = CSN_BUF_INIT;
    csn_auto(buf) csn_buf why = CSN_BUF_INIT;

    if (is_blank(arg(args, 0))) {
        csn_call_raise(call, "ValueError", "sub_rlm prompt cannot be empty");
        return;
    }
    if (csn_delegate_run(call->interp, csn_json_str(arg(args, 0), ""),
                         csn_json_str(arg(args, 1), ""), 0, &answer, &why) < 0)
        csn_call_raise(call, "RuntimeError", "%s", why.data);
    else
        answer_text(call, answer.data, answer.len);
}

static void sub_rlm_batched(csn_call *call, const csn_json *args)
{
    struct batch b = { .i = call->interp, .prompts = arg(args, 0), .context = arg(args, 1) };
    int64_t left;

    if (!check_batch(call, b.prompts, "sub_rlm prompt cannot be empty"))
        return;
    b.n = csn_json_count(b.prompts);
    left = csn_budget_left(b.i->budget);
    if (left < (int64_t) b.n) {
        csn_call_raise(
            call, "RuntimeError",
            "LLM call budget exhausted — cannot spawn %zu sub_rlm children with %lld calls left.",
            b.n, (long long) left);
        return;
    }
    b.lease = left / (int64_t) b.n;
    b.extra = left % (int64_t) b.n;
    run_batch(call, &b, true);
}

/* ---- evidence: notes that live as long as the interpreter ------------------------------------------------------- */

struct note {
    csn_list link;
    char *key;
    char *json; /* the whole entry */
};

static struct note *find_note(csn_interp *i, const char *key)
{
    csn_list_foreach (node, &i->evidence) {
        struct note *n = csn_list_entry(node, struct note, link);

        if (csn_streq(n->key, key))
            return n;
    }
    return NULL;
}

static void free_note(struct note *n)
{
    csn_list_remove(&n->link);
    free(n->key);
    free(n->json);
    free(n);
}

void csn_evidence_free(csn_interp *i)
{
    csn_list *node;

    while ((node = csn_list_first(&i->evidence)))
        free_note(csn_list_entry(node, struct note, link));
}

static void store_evidence(csn_call *call, const csn_json *args)
{
    csn_interp *i = call->interp;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, false);
    struct note *n = csn_calloc(1, sizeof(*n)), *old;

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "key", csn_json_str(arg(args, 0), ""));
    csn_jw_key(&w, "content");
    csn_jw_value(&w, arg(args, 1));
    csn_jw_key(&w, "metadata");
    csn_jw_value(&w, arg(args, 2));
    csn_jw_end_object(&w);
    if (!n || !(n->key = csn_strdup(csn_json_str(arg(args, 0), ""))) ||
        !(n->json = csn_buf_take(&text, NULL))) {
        if (n)
            free(n->key);
        free(n);
        csn_call_raise(call, "RuntimeError", "out of memory");
        return;
    }
    pthread_mutex_lock(&i->mutex);
    old = find_note(i, n->key);
    if (old)
        free_note(old);
    csn_list_append(&i->evidence, &n->link);
    pthread_mutex_unlock(&i->mutex);
    csn_buf_puts(&call->value, "{\"status\":\"ok\"}");
}

static void fetch_evidence(csn_call *call, const csn_json *args)
{
    csn_interp *i = call->interp;
    struct note *n;

    pthread_mutex_lock(&i->mutex);
    n = find_note(i, csn_json_str(arg(args, 0), ""));
    csn_buf_puts(&call->value, n ? n->json : "null");
    pthread_mutex_unlock(&i->mutex);
}

static void list_evidence(csn_call *call, const csn_json *args)
{
    csn_interp *i = call->interp;
    csn_jw w = CSN_JW_INIT(&call->value, false);

    (void) args;
    csn_jw_begin_array(&w);
    pthread_mutex_lock(&i->mutex);
    csn_list_foreach (node, &i->evidence)
        csn_jw_str(&w, csn_list_entry(node, struct note, link)->key);
    pthread_mutex_unlock(&i->mutex);
    csn_jw_end_array(&w);
}

/* ---- which ------------------------------------------------------------------------------------------------------ */

static const struct builtin {
    const char *name;
    void (*run)(csn_call *call, const csn_json *args);
} builtins[] = {
    { "llm_query", llm_query },
    { "llm_query_batched", llm_query_batched },
    { "sub_rlm", sub_rlm },
    { "sub_rlm_batched", sub_rlm_batched },
    { "store_evidence", store_evidence },
    { "fetch_evidence", fetch_evidence },
    { "list_evidence", list_evidence },
};

/* A registered tool comes before ours of the same name. The list doesn't change while code runs. */
static const csn_tool *find_tool(csn_interp *i, const char *name)
{
    csn_list_foreach (node, &i->tools) {
        const csn_tool *t = csn_list_entry(node, csn_tool, link);

        if (csn_streq(t->name, name))
            return t;
    }
    return NULL;
}

static void run_tool(csn_call *call, const csn_tool *tool)
{
    csn_auto(buf) csn_buf checked = CSN_BUF_INIT_MAX((size_t) 256 << 20);
    csn_auto(mem) char *json = NULL;
    csn_error err = { 0 };
    int r = tool->fn(call->args, call->kwargs, &json, &err, tool->user);

    if (r < 0 || !json) {
        csn_call_raise(call, r == CSN_E_INVALID ? "ValueError" : "RuntimeError", "%s",
                       err.message[0] ? err.message : "the tool failed");
        return;
    }
    if (csn_py_render(csn_str_of(json), &checked) < 0) /* what is no JSON is a text */
        answer_text(call, json, strlen(json));
    else
        csn_buf_puts(&call->value, json);
}

void csn_call_answer(csn_call *call)
{
    csn_auto(json) csn_json *args = NULL;
    const csn_tool *tool = find_tool(call->interp, call->name);

    if (tool) {
        run_tool(call, tool);
        return;
    }
    for (size_t k = 0; k < CSN_COUNT(builtins); k++) {
        if (!csn_streq(builtins[k].name, call->name))
            continue;
        if (csn_json_parse(call->args, strlen(call->args), &args, NULL) < 0)
            csn_call_raise(call, "ValueError", "the arguments of %s can't be read", call->name);
        else
            builtins[k].run(call, args);
        return;
    }
    csn_call_raise(call, "RuntimeError", "Unknown host callback: %s", call->name);
}
