/* The recursive loop: a model writes code, the interpreter runs it, the outcome goes back, until SUBMIT. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/utf8.h"
#include "interp.h"
#include "pyjson.h"

enum { SHOWN_CHARS = 10000, PREVIEW_CHARS = 1000, HISTORY_MAX = 32 << 20 };

static const char intro[] =
    "You solve a task by writing Python code for a stateful interpreter. Variables, imports and files persist between "
    "steps.\nAnswer with exactly one Python code block and nothing else. Use print() to look at things; output is shown "
    "to you in the next step.\nAvailable: llm_query(prompt, context=\"\"), llm_query_batched(prompts), sub_rlm(prompt), "
    "read_file, list_files, run, grep, peek, add_buffer, get_buffer and more.\n";

static void put_fields(csn_buf *out, const char *const *fields)
{
    csn_buf_puts(out, "When you know the result, call SUBMIT(");
    for (size_t k = 0; fields[k]; k++) {
        size_t n = strcspn(fields[k], ":");

        csn_buf_printf(out, "%s%.*s=…", k ? ", " : "", (int) n, fields[k]);
    }
    csn_buf_puts(out, ") in your code.\n");
}

/* Cut to so many characters. */
static void put_cut(csn_buf *out, const char *text, size_t len, size_t max)
{
    size_t at = 0, n = 0;

    while (at < len && n++ < max) {
        unsigned c;
        int step = csn_utf8_next(text + at, len - at, &c);

        at += step > 0 ? (size_t) step : 1;
    }
    csn_utf8_lossy(NULL, text, at, out);
    if (at < len)
        csn_buf_puts(out, "… [cut]");
}

/* Where the n-th character begins. */
static size_t offset_of(csn_str text, size_t n)
{
    size_t at = 0;

    while (at < text.len && n-- > 0) {
        unsigned c;
        int step = csn_utf8_next(text.data + at, text.len - at, &c);

        at += step > 0 ? (size_t) step : 1;
    }
    return at;
}

static size_t count_chars(csn_str text)
{
    size_t n = 0;

    for (size_t at = 0; at < text.len; n++)
        at += offset_of(csn_str_n(text.data + at, text.len - at), 1);
    return n;
}

/* An input as the planner sees it: name, type, length, and all of it only if it is short. The code has it whole. */
static void put_input(csn_buf *out, const char *name, const char *label, const char *value)
{
    csn_str text = csn_str_of(value);
    size_t n = count_chars(text), head, tail;

    csn_buf_printf(out, "\nInput variable: %s (str, %zu characters)", name, n);
    if (n <= PREVIEW_CHARS) {
        csn_buf_printf(out, "\n%s: ", label);
        csn_utf8_lossy(NULL, text.data, text.len, out);
        csn_buf_putc(out, '\n');
        return;
    }
    head = offset_of(text, PREVIEW_CHARS / 2);
    tail = head + offset_of(csn_str_n(text.data + head, text.len - head), n - PREVIEW_CHARS);
    csn_buf_printf(out, ", its beginning and end; read the rest in your code\n%s: ", label);
    csn_utf8_lossy(NULL, text.data, head, out);
    csn_buf_puts(out, "\n… [cut] …\n");
    csn_utf8_lossy(NULL, text.data + tail, text.len - tail, out);
    csn_buf_putc(out, '\n');
}

static void put_task(csn_buf *out, const char *task, const char *context, const char *const *fields)
{
    csn_buf_puts(out, intro);
    put_fields(out, fields);
    if (context && *context)
        put_input(out, "context", "Context", context);
    put_input(out, "prompt", "Task", task);
}

static bool is_python(csn_str name)
{
    static const char *const names[] = { "python", "py", "python3" };

    for (size_t k = 0; k < CSN_COUNT(names); k++)
        if (name.len == strlen(names[k]) && strncasecmp(name.data, names[k], name.len) == 0)
            return true;
    return false;
}

/* The next line that begins with a fence, since one may also stand in a string of the code; else any fence. */
static const char *closing_fence(const char *body)
{
    for (const char *at = strchr(body, '\n'); at; at = strchr(at + 1, '\n')) {
        const char *first = at + 1 + strspn(at + 1, " \t");

        if (csn_starts_with(first, "```"))
            return at;
    }
    return strstr(body, "```");
}

/* The code in an answer: one fenced block, or all of it. False: the fence names another language. */
static bool take_code(const csn_buf *answer, csn_buf *code, csn_buf *wrong)
{
    const char *fence = strstr(answer->data, "```"), *body, *end;
    size_t n;

    csn_buf_clear(code);
    if (!fence) {
        csn_buf_puts(code, answer->data);
        return true;
    }
    fence += 3;
    n = strcspn(fence, "\r\n");
    csn_str lang = csn_str_trim(csn_str_n(fence, n));
    if (lang.len && !is_python(lang)) {
        csn_buf_printf(wrong, "The code block is labelled '%.*s'; write Python.", (int) lang.len,
                       lang.data);
        return false;
    }
    body = fence + n;
    end = closing_fence(body);
    csn_buf_append(code, body, end ? (size_t) (end - body) : strlen(body));
    return true;
}

struct loop {
    csn_interp *i;
    const char *task;
    const csn_rlm_options *o;
    const char *const *fields;
    csn_buf prompt, code, shown;
    csn_rlm_result result;
};

static bool has_all(const struct loop *l, const csn_exec_result *r, csn_buf *missing)
{
    for (size_t k = 0; l->fields[k]; k++) {
        csn_auto(mem) char *name = csn_strndup(l->fields[k], strcspn(l->fields[k], ":"));

        if (name && !csn_final_get(r, name))
            csn_buf_printf(missing, "%s%s", missing->len ? ", " : "", name);
    }
    return missing->len == 0;
}

/* What the model is told about the outcome. True: it is the result. */
static bool judge(struct loop *l, const csn_exec_result *r)
{
    csn_auto(buf) csn_buf missing = CSN_BUF_INIT;
    size_t len;
    const char *text = csn_result_text(r, &len);

    csn_buf_clear(&l->shown);
    if (csn_result_kind(r) == CSN_EXEC_FINAL) {
        if (has_all(l, r, &missing)) {
            l->result.final_json = csn_strdup(csn_final_json(r));
            csn_buf_puts(&l->shown, csn_final_json(r));
            return l->result.final_json != NULL;
        }
        csn_buf_printf(&l->shown, "[Error] SUBMIT is missing: %s", missing.data);
    } else if (len == 0) {
        csn_buf_puts(&l->shown, "(no output - did you forget to print?)");
    } else {
        put_cut(&l->shown, text, len, SHOWN_CHARS);
    }
    return false;
}

static void put_input_vars(const struct loop *l, csn_buf *out)
{
    csn_jw w = CSN_JW_INIT(out, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "prompt", l->task);
    if (l->o->context)
        csn_jw_kstr(&w, "context", l->o->context);
    csn_jw_end_object(&w);
}

/* One execute: 1 done, 0 go on, negative: the machinery failed for good. */
static int run_code(struct loop *l, csn_error *err)
{
    csn_auto(buf) csn_buf vars = CSN_BUF_INIT_MAX((size_t) 128 << 20);
    csn_execute_options eo = { .size = sizeof(eo) };
    csn_exec_result *r = NULL;
    bool is_done;
    int e;

    put_input_vars(l, &vars);
    if (vars.error < 0)
        return csn_fail_sys(err, vars.error, "hand over the inputs");
    eo.vars = vars.data;
    e = csn_interp_execute(l->i, l->code.data, l->code.len, &eo, &r, err);
    if (!r)
        return e;
    if (e < 0 && e != CSN_E_TIMEOUT && e != CSN_E_LOST) {
        csn_result_free(r);
        return e;
    }
    if (e == CSN_E_TIMEOUT && csn_streq(csn_result_category(r), "sandbox_expired")) {
        csn_result_free(r);
        return e;
    }
    is_done = judge(l, r);
    csn_result_free(r);
    return is_done;
}

static int ask(struct loop *l, csn_buf *answer, csn_error *err)
{
    int r = csn_model_ask(l->i->model, l->i->depth == 0, l->prompt.data, l->prompt.len, answer);

    l->result.planner_calls++;
    return r < 0 ? csn_fail(err, CSN_E_SYSTEM, "%s", answer->data) : CSN_OK;
}

static int step(struct loop *l, int number, csn_error *err)
{
    csn_auto(buf) csn_buf answer = CSN_BUF_INIT;
    int r = ask(l, &answer, err);

    if (r < 0)
        return r;
    csn_buf_clear(&l->shown);
    if (!take_code(&answer, &l->code, &l->shown))
        r = 0;
    else
        r = run_code(l, err);
    if (r < 0)
        return r;
    if (l->o->on_step)
        l->o->on_step(number, l->code.data, l->shown.data, l->o->user_data);
    csn_buf_printf(&l->prompt, "\n## Step %d\n```python\n%s\n```\nOutput:\n%s\n", number,
                   csn_str_trim(csn_str_of(l->code.data)).data ? l->code.data : "", l->shown.data);
    l->result.iterations = number;
    return r;
}

/* The iterations are used up: the model may still know the answer from what it saw. */
static int extract(struct loop *l, csn_error *err)
{
    csn_auto(buf) csn_buf answer = CSN_BUF_INIT;
    csn_auto(buf) csn_buf checked = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    const char *open, *close;
    int r;

    csn_buf_puts(
        &l->prompt,
        "\nNo steps are left. Give the result now, from what you saw, as one JSON object with the fields ");
    for (size_t k = 0; l->fields[k]; k++)
        csn_buf_printf(&l->prompt, "%s%.*s", k ? ", " : "", (int) strcspn(l->fields[k], ":"),
                       l->fields[k]);
    csn_buf_puts(&l->prompt, " and nothing else.\n");
    r = ask(l, &answer, err);
    if (r < 0)
        return r;
    open = strchr(answer.data, '{');
    close = strrchr(answer.data, '}');
    if (!open || !close || close < open ||
        csn_json_parse(open, (size_t) (close - open + 1), &doc, NULL) < 0)
        return csn_fail(err, CSN_E_PROTOCOL, "the model gave no result after %d iterations",
                        l->result.iterations);
    for (size_t k = 0; l->fields[k]; k++) {
        csn_auto(mem) char *name = csn_strndup(l->fields[k], strcspn(l->fields[k], ":"));

        if (!name || !csn_json_get(doc, name))
            return csn_fail(err, CSN_E_PROTOCOL, "the model gave no result after %d iterations",
                            l->result.iterations);
    }
    csn_json_dump(doc, false, &checked);
    l->result.final_json = csn_buf_take(&checked, NULL);
    l->result.is_extracted = 1;
    return l->result.final_json ? CSN_OK : csn_fail_sys(err, -ENOMEM, "keep the result");
}

int csn_rlm_run(csn_interp *i, const char *task, const csn_rlm_options *opts,
                csn_rlm_result *ret_result, csn_error *err)
{
    static const char *const answer[] = { "answer", NULL };
    csn_rlm_options none = { .size = sizeof(none) };
    struct loop l = { .i = i, .task = task, .o = opts ? opts : &none };
    int max, r = 0;

    if (!task || !*task || l.o->size != sizeof(none))
        return csn_fail(err, CSN_E_INVALID,
                        "there is no task, or csn_rlm_options is of another version");
    l.fields = l.o->fields && l.o->fields[0] ? l.o->fields : answer;
    l.prompt = l.code = l.shown = (csn_buf) CSN_BUF_INIT_MAX(HISTORY_MAX);
    max = l.o->max_iterations > 0 ? l.o->max_iterations : i->o.rlm_max_iterations;
    put_task(&l.prompt, task, l.o->context, l.fields);
    for (int n = 1; r == 0 && n <= max; n++)
        r = step(&l, n, err);
    if (r == 0)
        r = extract(&l, err);
    csn_buf_free(&l.prompt);
    csn_buf_free(&l.code);
    csn_buf_free(&l.shown);
    if (r < 0) {
        free(l.result.final_json);
        return r;
    }
    *ret_result = l.result;
    return CSN_OK;
}

void csn_rlm_result_done(csn_rlm_result *result)
{
    free(result->final_json);
    *result = (csn_rlm_result){ 0 };
}
