/* One block as one command inside: where its code goes, which program runs it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/files.h>
#include <caisson/process.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "blocks.h"
#include "md.h"

enum { MAX_ARGS = CSN_RUNNER_ARGS + 2, PATH_SIZE = 64, PROBE_MS = 20000, LEFT_MAX = 16 };

/* At a service a command has no stdin, and one that is missing looks like one that ended with 127. So the input is a file, $0,
 * gone as soon as it is open; "": there is none. */
static const char starter[] =
    "if [ -n \"$0\" ]; then exec 4<\"$0\"; command -p rm -f -- \"$0\"; else exec 4</dev/null; fi\n"
    "command -v -- \"$1\" >/dev/null 2>&1 || { echo \"$1: command not found\"; exit 127; }\n"
    "exec \"$@\" <&4 4<&-";

static int name_file(char path[PATH_SIZE], const char *suffix, csn_error *err)
{
    static const char start[] = "/tmp/ag2_";
    int r;

    memcpy(path, start, sizeof(start));
    r = csn_id_hex(path + strlen(path), 16);
    if (r < 0)
        return csn_fail_sys(err, r, "name the block's file");
    memcpy(path + strlen(path), suffix, strlen(suffix) + 1);
    return CSN_OK;
}

static int run_there(csn_blocks *b, csn_process_options *o, csn_str input, csn_run_result *ret,
                     csn_error *err)
{
    const char *argv[MAX_ARGS + 4] = { "/bin/sh", "-c", starter };
    char path[PATH_SIZE] = "";
    int r = CSN_OK;

    if (input.len)
        r = name_file(path, "", err);
    if (r >= 0 && input.len)
        r = csn_file_put(b->box, path, input.data, input.len, 0600, err);
    if (r < 0)
        return r;
    argv[3] = path;
    for (size_t n = 0; o->argv[n]; n++)
        argv[4 + n] = o->argv[n];
    o->argv = argv;
    return csn_run(b->box, o, ret, err);
}

static int run_command(csn_blocks *b, const char *const *argv, csn_str input, int64_t timeout_ms,
                       csn_run_result *ret, csn_error *err)
{
    csn_process_options o = { .size = sizeof(o), .argv = argv, .merge_stderr = 1 };

    o.timeout_ms = timeout_ms;
    o.output_bytes = b->output_bytes;
    if (csn_engine_is_remote(b->engine))
        return run_there(b, &o, input, ret, err);
    if (input.len) {
        o.stdin_kind = CSN_STDIN_BYTES;
        o.stdin_data = input.data;
        o.stdin_len = input.len;
    }
    return csn_run(b->box, &o, ret, err);
}

/* Does this program do the job here? */
static bool answers(csn_blocks *b, const csn_runner *runner)
{
    csn_run_result r = { 0 };
    const char *const asked[] = { runner->argv[0], "--version", NULL };
    const char *const *argv = runner->probe[0] ? runner->probe : asked;
    bool is_good;

    if (run_command(b, argv, (csn_str){ 0 }, PROBE_MS, &r, NULL) < 0)
        return false;
    is_good = r.receipt.ended == CSN_ENDED_EXIT && r.receipt.exit_code == 0;
    csn_run_result_done(&r);
    return is_good;
}

/* A language with one program has that one; with several, the first that answers, remembered. */
static const csn_runner *choose_runner(csn_blocks *b, const csn_lang *lang)
{
    size_t i = (size_t) (lang - csn_langs);

    if (!lang->runners[1].program)
        return &lang->runners[0];
    for (const csn_runner *r = lang->runners; !b->runner[i] && r->program; r++)
        if (answers(b, r))
            b->runner[i] = r;
    return b->runner[i];
}

static int put_code(csn_blocks *b, const csn_lang *lang, csn_str code, const char *path,
                    csn_error *err)
{
    csn_auto(buf) csn_buf plain = CSN_BUF_INIT_MAX(code.len + 1);

    for (size_t i = 0; lang->wants_lf && i < code.len; i++)
        if (code.data[i] != '\r' || i + 1 == code.len || code.data[i + 1] != '\n')
            csn_buf_putc(&plain, code.data[i]);
    if (plain.error < 0)
        return csn_fail_sys(err, plain.error, "write '%s'", path);
    return lang->wants_lf
               ? csn_file_put(b->box, path, plain.data, plain.len, 0644, err)
               : csn_file_put(b->box, path, code.len ? code.data : "", code.len, 0644, err);
}

static int fill_run(csn_run_result *r, csn_block_run *ret)
{
    ret->timed_out = r->receipt.ended == CSN_ENDED_TIMEOUT;
    ret->exit_code = csn_receipt_status(&r->receipt);
    ret->is_cut = r->receipt.is_output_cut;
    ret->wall_us = r->receipt.wall_us;
    ret->output = r->merged;
    ret->output_len = r->merged_len;
    r->merged = NULL;
    csn_run_result_done(r);
    return CSN_OK;
}

static int say_missing(const csn_lang *lang, csn_block_run *ret, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    for (const csn_runner *r = lang->runners; r->program; r++)
        csn_buf_printf(&text, "%s%s", r == lang->runners ? "" : ", ", r->program);
    csn_buf_puts(&text, ": command not found\n");
    ret->exit_code = 127;
    ret->output = csn_buf_take(&text, &ret->output_len);
    return ret->output ? CSN_OK : csn_fail_sys(err, -ENOMEM, "say what is missing");
}

static int run_runner(csn_blocks *b, const csn_lang *lang, const csn_runner *runner,
                      const char *path, csn_str code, csn_block_run *ret, csn_error *err)
{
    const char *argv[MAX_ARGS] = { NULL };
    csn_run_result done = { 0 };
    csn_error why = { 0 };
    size_t n = 0;
    int r;

    for (; runner->argv[n]; n++)
        argv[n] = runner->argv[n];
    if (path)
        argv[n] = path;
    r = run_command(b, argv, path ? (csn_str){ 0 } : code, (int64_t) (b->timeout_s * 1000), &done,
                    &why);
    if (r == CSN_E_NOT_FOUND)
        return say_missing(lang, ret, err);
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    return fill_run(&done, ret);
}

static void note_path(const csn_file_info *info, void *user)
{
    csn_buf_append(user, info->path, strlen(info->path) + 1); /* sticky */
}

/* The block's file, and what a compiler that was killed has left beside it under the same first part of the name. Gone already
 * is fine; a sandbox that has ended is not ours to judge. */
static void remove_files(csn_blocks *b, const csn_lang *lang, const char *path)
{
    csn_auto(buf) csn_buf left = CSN_BUF_INIT, pattern = CSN_BUF_INIT;
    const size_t dir = strlen("/tmp/");

    (void) csn_file_delete(b->box, path, 0, NULL);
    if (!lang->is_compiled)
        return;
    csn_buf_append(&pattern, path + dir, strlen(path) - dir - strlen(lang->suffix));
    csn_buf_puts(&pattern, "*");
    if (pattern.error < 0)
        return;
    (void) csn_file_find(b->box, "/tmp", pattern.data, LEFT_MAX, note_path, &left, NULL);
    for (size_t i = 0; left.error == 0 && i < left.len; i += strlen(left.data + i) + 1)
        (void) csn_file_delete(b->box, left.data + i, 0, NULL);
}

int csn_block_run_one(csn_blocks *b, const csn_lang *lang, csn_str code, csn_block_run *ret,
                      csn_error *err)
{
    const csn_runner *runner = choose_runner(b, lang);
    char path[PATH_SIZE];
    int r;

    code = csn_md_without_mark(code); /* shells take it for a part of the first word */
    if (!runner)
        return say_missing(lang, ret, err);
    if (!lang->suffix)
        return run_runner(b, lang, runner, NULL, code, ret, err);
    r = name_file(path, lang->suffix, err);
    if (r < 0)
        return r;
    r = put_code(b, lang, code, path, err);
    if (r < 0)
        return r;
    r = run_runner(b, lang, runner, path, code, ret, err);
    remove_files(b, lang, path);
    return r;
}

const char *csn_blocks_infer(csn_blocks *b, const char *code, size_t len)
{
    static const char check[] = "import sys;compile(sys.stdin.buffer.read(),'test','exec',0,True)";
    static const char *const argv[] = { "python3", "-c", check, NULL };
    csn_str s = csn_md_without_mark(csn_str_n(code, len));
    csn_run_result r = { 0 };
    bool is_python;

    if (csn_str_starts_with(s, CSN_STR("python ")) || csn_str_starts_with(s, CSN_STR("pip")) ||
        csn_str_starts_with(s, CSN_STR("python3 ")))
        return "sh";
    if (!b || !b->box || run_command(b, argv, s, PROBE_MS, &r, NULL) < 0)
        return "";
    is_python = r.receipt.ended == CSN_ENDED_EXIT && r.receipt.exit_code == 0;
    csn_run_result_done(&r);
    return is_python ? "python" : "";
}
