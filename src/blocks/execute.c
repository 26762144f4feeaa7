/* A list of blocks in order, and the one result they make. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "blocks.h"

struct sum {
    csn_blocks_result *result;
    csn_buf text;
};

void csn_blocks_result_done(csn_blocks_result *result)
{
    for (size_t i = 0; result->runs && i < result->n_run; i++)
        free(result->runs[i].output);
    free(result->runs);
    free(result->output);
    free(result->partial);
    *result = (csn_blocks_result){ 0 };
}

static void fail_at(struct sum *s, size_t i, int exit_code)
{
    s->result->failed_index = (int64_t) i;
    s->result->exit_code = exit_code;
    csn_buf_clear(&s->text);
}

static void say_unsupported(struct sum *s, size_t i, const char *language)
{
    fail_at(s, i, 1);
    csn_buf_puts(&s->text, "Unsupported language: ");
    csn_put_repr(&s->text, language ? language : "");
    csn_buf_puts(&s->text, ". Supported languages: ");
    for (const csn_lang *l = csn_langs; l->name; l++)
        csn_buf_printf(&s->text, "%s%s", l == csn_langs ? "" : ", ", l->name);
}

/* The engine failed, not the code: the class of the failure, in the words callers match on. */
static void say_error(struct sum *s, size_t i, const csn_error *err)
{
    const char *prefix = "Daytona error: ";

    if (err->code == CSN_E_TIMEOUT)
        prefix = "Execution timed out: ";
    else if (err->code == CSN_E_BUSY)
        prefix = "Daytona rate limit exceeded: ";
    else if (err->code == CSN_E_NO_MEMORY || err->code == CSN_E_INVALID)
        prefix = "Error executing code block: ";
    fail_at(s, i, 1);
    csn_buf_printf(&s->text, "%s%s", prefix, err->message);
}

static void say_timeout(struct sum *s, size_t i, const csn_block_run *run, double timeout_s)
{
    csn_blocks_result *r = s->result;

    fail_at(s, i, 1);
    r->timed_out = 1;
    csn_buf_printf(&s->text, "Execution timed out: command exceeded %g seconds", timeout_s);
    free(r->partial);
    r->partial = csn_strndup(run->output, run->output_len);
    r->partial_len = r->partial ? run->output_len : 0;
}

/* 1: go on with the next block, 0: stop, negative: an error of the call. */
static int run_block(csn_blocks *b, const csn_code_block *block, size_t i, struct sum *s,
                     csn_error *err)
{
    const csn_lang *lang = csn_lang_find(block->language);
    csn_block_run *run = &s->result->runs[i];
    csn_error why = { 0 };
    int r;

    if (!lang) {
        say_unsupported(s, i, block->language);
        return 0;
    }
    r = csn_block_run_one(b, lang, csn_str_n(block->code, block->code_len), run, &why);
    if (r == CSN_E_CANCELLED || r == CSN_E_NO_MEMORY) {
        if (err)
            *err = why;
        return r;
    }
    if (r < 0) {
        say_error(s, i, &why);
        return 0;
    }
    s->result->n_run++;
    s->result->is_cut |= run->is_cut;
    if (run->timed_out) {
        say_timeout(s, i, run, b->timeout_s);
        return 0;
    }
    if (run->exit_code != 0)
        fail_at(s, i, run->exit_code);
    else if (i > 0)
        csn_buf_putc(&s->text, '\n');
    csn_buf_append(&s->text, run->output, run->output_len);
    return run->exit_code == 0;
}

static int run_all(csn_blocks *b, const csn_code_block *list, size_t n, struct sum *s,
                   csn_error *err)
{
    int r = 1;

    s->text.max = (size_t) 1 << 30;
    for (size_t i = 0; i < n && r == 1; i++)
        r = run_block(b, &list[i], i, s, err);
    if (r < 0)
        return r;
    s->result->output = csn_buf_take(&s->text, &s->result->output_len);
    if (!s->result->partial)
        s->result->partial = csn_strdup("");
    if (!s->result->output || !s->result->partial)
        return csn_fail_sys(err, -ENOMEM, "collect the blocks' output");
    return CSN_OK;
}

int csn_blocks_execute(csn_blocks *b, const csn_code_block *list, size_t n,
                       csn_blocks_result *ret_result, csn_error *err)
{
    csn_blocks_result result = { .failed_index = -1 };
    struct sum s = { &result, CSN_BUF_INIT };
    int r;

    if (!b->box)
        return csn_fail(err, CSN_E_STATE, "Executor has been deleted");
    (void) snprintf(result.sandbox_id, sizeof(result.sandbox_id), "%s", csn_sandbox_id(b->box));
    result.runs = csn_calloc(n ? n : 1, sizeof(*result.runs));
    if (!result.runs)
        return csn_fail_sys(err, -ENOMEM, "make the result");
    r = run_all(b, list, n, &s, err);
    csn_buf_free(&s.text);
    if (r < 0) {
        csn_blocks_result_done(&result);
        return r;
    }
    *ret_result = result;
    return CSN_OK;
}
