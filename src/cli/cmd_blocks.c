/* caisson blocks: the code blocks of a Markdown text, run in one sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson/blocks.h>

#include "base/fd.h"
#include "base/str.h"
#include "boxopt.h"
#include "commands.h"
#include "out.h"
#include "session.h"
#include "stream.h"

enum { TEXT_MAX = 16 << 20 };

struct values {
    cli_list langs, codes, env, env_files, optional;
    const char *timeout; /* as written: a limit that is too small is the executor's to refuse */
    const char *snapshot, *image, *name;
    int64_t memory, cpu, disk;
    const char *last_n;
    int keep, reply, extract_only, commonmark, messages, json, net, quiet;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt source_options[] = {
    { 0, "lang", CLI_LIST, AT(langs), "LANG",
      "language of the next --code: python, bash, sh, javascript, typescript",
      "python bash sh javascript typescript", NULL },
    { 0, "code", CLI_LIST, AT(codes), "CODE", "a block given on the command line; may be repeated",
      NULL, NULL },
    { 0, "commonmark", CLI_FLAG, AT(commonmark), NULL,
      "read fences as CommonMark does: any length, tildes, lists, quotes", NULL, NULL },
    { 0, "messages", CLI_FLAG, AT(messages), NULL,
      "the text is a conversation, a JSON list of {role, content}: run the newest message's blocks",
      NULL, NULL },
    { 0, "last-n", CLI_TEXT, AT(last_n), "N|auto",
      "how many messages to look back, with --messages; auto: the user's last ones [auto]", NULL,
      NULL },
    { 0, "extract-only", CLI_FLAG, AT(extract_only), NULL, "list the blocks and run nothing", NULL,
      NULL },
    CLI_END
};

static const cli_opt run_options[] = {
    { 't', "timeout", CLI_TEXT, AT(timeout), "TIME", "limit of each block [60s]", NULL, NULL },
    { 0, "snapshot", CLI_TEXT, AT(snapshot), "NAME", "start from this image", "@image", NULL },
    { 0, "image", CLI_TEXT, AT(image), "IMAGE", "start from this image, directory or archive",
      "@image", NULL },
    { 'e', "env", CLI_LIST, AT(env), "KEY=VALUE", "set a variable; KEY alone takes ours", NULL,
      NULL },
    { 0, "env-file", CLI_LIST, AT(env_files), "FILE", "set the variables of a file", "@file",
      NULL },
    { 'n', "name", CLI_TEXT, AT(name), "NAME", "name of the sandbox [ag2-…]", NULL, NULL },
    { 0, "memory", CLI_SIZE, AT(memory), "SIZE", "memory, with --image", NULL, NULL },
    { 0, "cpu", CLI_CPU, AT(cpu), "N", "cores, with --image", NULL, NULL },
    { 0, "disk", CLI_SIZE, AT(disk), "SIZE", "disk space, with --image", NULL, NULL },
    { 0, "net", CLI_FLAG, AT(net), NULL, "allow outbound network", NULL, NULL },
    { 0, "optional", CLI_LIST, AT(optional), "WALL,…",
      "start even if these walls can't be put up here", NULL, NULL },
    { 'k', "keep", CLI_FLAG, AT(keep), NULL, "keep the sandbox afterwards; its id goes to stderr",
      NULL, NULL },
    CLI_END
};

static const cli_opt out_options[] = {
    { 0, "reply", CLI_FLAG, AT(reply), NULL,
      "answer as a chat agent does: \"exitcode: 0 (execution succeeded)\" …", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document", NULL, NULL },
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "no remarks on stderr", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = { { "Blocks", source_options, 0 },
                                    { "Sandbox", run_options, 0 },
                                    { "Output", out_options, 0 },
                                    { NULL, NULL, 0 } };

/* The executor is made when the first thing needs it. */
struct job {
    const struct values *v;
    csn_engine *engine;
    csn_blocks *blocks;
    int signal; /* that ended the last run; 0: none */
};

/* Seconds; zero, below zero and none at all are 0, which the executor refuses. */
static int parse_timeout(const char *text, double *ret_s)
{
    int64_t ns = 0;

    if (!csn_streq(text, "unlimited") && !csn_streq(text, "none") &&
        csn_parse_duration(csn_str_of(text + (text[0] == '-')), &ns) < 0)
        return cli_usage(&cli_cmd_blocks, "--timeout '%s': not a time such as 30s, 5m or 250ms",
                         text);
    *ret_s = text[0] == '-' ? 0 : (double) ns / 1e9;
    return -1;
}

static int make_executor(struct job *j)
{
    const struct values *v = j->v;
    double timeout_s = 0;
    cli_list env = { 0 };
    csn_error err = { 0 };
    csn_blocks_options o = { .size = sizeof(o),
                             .timeout_s = v->timeout ? &timeout_s : NULL,
                             .snapshot = v->snapshot,
                             .image = v->image,
                             .name = v->name,
                             .memory_gb = (double) v->memory / (1 << 30),
                             .cpu = (double) v->cpu / 1000,
                             .disk_gb = (double) v->disk / (1 << 30),
                             .is_kept = v->keep,
                             .has_network = v->net };
    uint32_t walls = 0;
    int status;

    if (j->blocks)
        return -1;
    status = v->timeout ? parse_timeout(v->timeout, &timeout_s) : -1;
    if (status < 0)
        status = cli_env_fill(&cli_cmd_blocks, &v->env, &v->env_files, &env);
    if (status < 0)
        status = cli_fill_walls(&cli_cmd_blocks, &v->optional, &walls);
    if (status < 0 && !j->engine)
        status = cli_open_to_make(walls, &j->engine);
    if (status >= 0)
        return status;
    o.env = env.items;
    if (csn_blocks_new(j->engine, &o, &j->blocks, &err) < 0)
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : (cli_fail(&err, NULL), 1);
    return -1;
}

static void end_job(struct job *j)
{
    if (j->v->keep && j->blocks && !j->v->quiet)
        cli_note("kept sandbox %s", csn_blocks_sandbox_id(j->blocks));
    (void) cli_signal_take(); /* from here on there is only cleaning up */
    j->blocks = csn_blocks_free(j->blocks);
    csn_engine_auto(&j->engine);
}

/* Blocks without a language get one where it can be told; that takes the sandbox's Python. */
static int infer_languages(struct job *j, csn_code_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        csn_code_block *b = &list->blocks[i];
        int status = b->language[0] ? -1 : make_executor(j);
        char *known;

        if (status >= 0)
            return status;
        if (b->language[0] || !(known = strdup(csn_blocks_infer(j->blocks, b->code, b->code_len))))
            continue;
        free((char *) b->language);
        b->language = known;
    }
    return -1;
}

static int print_list(const struct values *v, const csn_code_list *list)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);

    if (v->json)
        csn_jw_begin_array(&w);
    for (size_t i = 0; i < list->n; i++) {
        const csn_code_block *b = &list->blocks[i];

        if (!v->json) {
            csn_buf_printf(&out, "--- block %zu: %s\n", i + 1,
                           b->language[0] ? b->language : "(no language)");
            csn_buf_append(&out, b->code, b->code_len);
            csn_buf_putc(&out, '\n');
            continue;
        }
        csn_jw_begin_object(&w);
        csn_jw_kstr(&w, "language", b->language);
        cli_jw_bytes(&w, "code", b->code, b->code_len);
        csn_jw_end_object(&w);
    }
    if (!v->json)
        return cli_print(&out) < 0 ? CLI_ENGINE : 0;
    csn_jw_end_array(&w);
    return cli_print_json(&out);
}

static void put_run(csn_jw *w, const csn_code_block *block, const csn_block_run *run)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "language", block->language);
    csn_jw_kint(w, "exit_code", run->exit_code);
    cli_jw_bytes(w, "output", run->output, run->output_len);
    csn_jw_kbool(w, "timed_out", run->timed_out);
    csn_jw_kbool(w, "truncated", run->is_cut);
    csn_jw_kdouble(w, "seconds", (double) run->wall_us / 1e6);
    csn_jw_end_object(w);
}

static int print_json(const csn_code_list *list, const csn_blocks_result *r)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT_MAX((size_t) 1 << 30);
    csn_jw w = CSN_JW_INIT(&out, true);
    size_t at = 0;

    csn_jw_begin_object(&w);
    csn_jw_kint(&w, "exit_code", r->exit_code);
    cli_jw_bytes(&w, "output", r->output, r->output_len);
    csn_jw_kstr(&w, "sandbox_id", r->sandbox_id);
    csn_jw_kint(&w, "blocks_run", (int64_t) r->n_run);
    csn_jw_kint(&w, "failed_index", r->failed_index);
    csn_jw_kbool(&w, "timed_out", r->timed_out);
    csn_jw_kbool(&w, "truncated", r->is_cut);
    cli_jw_bytes(&w, "partial_output", r->partial, r->partial_len);
    csn_jw_key(&w, "blocks");
    csn_jw_begin_array(&w);
    for (at = 0; at < r->n_run; at++)
        put_run(&w, &list->blocks[at], &r->runs[at]);
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
    return cli_print_json(&out);
}

static void print_text(const struct values *v, const csn_blocks_result *r)
{
    csn_auto(mem) char *reply = NULL;
    size_t len = r->output_len;
    cli_stream out;

    if (v->reply && csn_blocks_reply(r, &reply, &len, NULL) < 0)
        cli_out_of_memory();
    cli_stream_init(&out, STDOUT_FILENO, false);
    cli_stream_put(&out, v->reply ? reply : r->output, len);
    cli_stream_finish(&out);
    if (r->output_len && r->output[r->output_len - 1] != '\n' &&
        (v->reply || cli_is_terminal(STDOUT_FILENO)))
        (void) cli_write(STDOUT_FILENO, "\n", 1);
}

static int run_list(struct job *j, csn_code_list *list)
{
    csn_blocks_result r = { 0 };
    csn_error err = { 0 };
    int status = infer_languages(j, list);

    if (status < 0 && j->v->extract_only)
        return print_list(j->v, list);
    if (status < 0 && list->n == 0 && j->v->reply)
        return 0; /* nothing to run, nothing to say */
    if (status < 0)
        status = make_executor(j);
    if (status >= 0)
        return status;
    if (csn_blocks_execute(j->blocks, list->blocks, list->n, &r, &err) < 0) {
        j->signal = cli_signal_pending();
        return err.code == CSN_E_CANCELLED ? cli_cancelled_status() : (cli_fail(&err, NULL), 1);
    }
    status = r.exit_code;
    if (j->v->json)
        (void) print_json(list, &r); /* the blocks' status counts */
    else
        print_text(j->v, &r);
    csn_blocks_result_done(&r);
    return status;
}

static int extract(const struct values *v, const csn_buf *text, csn_code_list *list, csn_error *err)
{
    int mode = v->commonmark ? CSN_MD_COMMONMARK : CSN_MD_COMPATIBLE;
    uint64_t last_n = 0;

    if (!v->messages)
        return csn_md_extract(text->data, text->len, mode, list, err);
    if (v->last_n && !csn_streq(v->last_n, "auto"))
        (void) csn_parse_u64(csn_str_of(v->last_n), &last_n); /* checked already */
    return csn_messages_extract(text->data, text->len, (int) last_n, mode, list, err);
}

static int run_text(struct job *j, const csn_buf *text)
{
    csn_code_list list = { 0 };
    csn_error err = { 0 };
    int status;

    if (extract(j->v, text, &list, &err) < 0) {
        (void) cli_fail(&err, NULL);
        return 1;
    }
    status = run_list(j, &list);
    csn_code_list_done(&list);
    return status;
}

static int run_given(struct job *j)
{
    const struct values *v = j->v;
    csn_code_list list = { 0 };
    int status;

    list.blocks = calloc(v->codes.n, sizeof(*list.blocks));
    if (!list.blocks)
        cli_out_of_memory();
    for (size_t i = 0; i < v->codes.n; i++, list.n++) {
        char *code = strdup(v->codes.items[i]),
             *lang = strdup(i < v->langs.n ? v->langs.items[i] : "");

        if (!code || !lang)
            cli_out_of_memory();
        list.blocks[i] = (csn_code_block){ code, strlen(code), lang };
    }
    status = run_list(j, &list);
    csn_code_list_done(&list);
    return status;
}

/* At a terminal: text is taken until a fence closes, then what it holds runs; the sandbox stays for the next. */
static int run_interactive(struct job *j)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(TEXT_MAX);
    csn_auto(mem) char *line = NULL;
    size_t size = 0;
    int status = 0;

    cli_note("paste Markdown; a block runs when its fence closes; end with Ctrl-D");
    while (!cli_signal_pending() && (!j->signal || j->signal == SIGINT) &&
           getline(&line, &size, stdin) > 0) {
        csn_code_list list = { 0 };

        csn_buf_puts(&text, line);
        if (csn_md_extract(text.data, text.len,
                           j->v->commonmark ? CSN_MD_COMMONMARK : CSN_MD_COMPATIBLE, &list,
                           NULL) < 0)
            break;
        if (list.n && (!j->v->commonmark || strstr(line, "```") || strstr(line, "~~~"))) {
            j->signal = 0;
            status = run_list(j, &list);
            csn_buf_clear(&text);
            if (j->signal == SIGINT) /* it stopped the block, not us */
                cli_note("stopped; the sandbox stays");
        }
        csn_code_list_done(&list);
    }
    return cli_signal_pending() ? cli_cancelled_status() : status;
}

static int read_text(const char *path, csn_buf *text)
{
    int r = csn_streq(path, "-") ? csn_read_to_buf(STDIN_FILENO, text, TEXT_MAX)
                                 : csn_read_file(AT_FDCWD, path, text, TEXT_MAX);

    if (r >= 0)
        return -1;
    (void) cli_fail_with(CSN_E_SYSTEM, NULL, "read '%s': %s", path, strerror(-r));
    return 1;
}

static bool is_last_n(const struct values *v)
{
    uint64_t n;

    return v->messages &&
           (csn_streq(v->last_n, "auto") ||
            (csn_parse_u64(csn_str_of(v->last_n), &n) == 0 && n >= 1 && n <= 1000000));
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(TEXT_MAX);
    struct values v = { 0 };
    struct job j = { .v = &v };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_want(cmd, &args, 0, 1);
    if (status < 0 && v.codes.n && args.argc)
        status = cli_usage(cmd, "blocks come from a file or from --code, not from both");
    if (status < 0 && v.langs.n > v.codes.n)
        status = cli_usage(cmd, "each --lang names the language of one --code");
    if (status < 0 && v.json && v.reply)
        status = cli_usage(cmd, "--json and --reply exclude each other");
    if (status < 0 && v.last_n && !is_last_n(&v))
        status = cli_usage(
            cmd, "--last-n takes a number from 1 on, or 'auto', and goes with --messages");
    if (status >= 0)
        return status;
    if (v.codes.n) {
        status = run_given(&j);
    } else if (!args.argc && cli_is_terminal(STDIN_FILENO)) {
        status = run_interactive(&j);
    } else {
        status = read_text(args.argc ? args.argv[0] : "-", &text);
        status = status >= 0 ? status : run_text(&j, &text);
    }
    end_job(&j);
    return status;
}

const cli_command cli_cmd_blocks = {
    .name = "blocks",
    .summary = "Run the code blocks of a Markdown text in one sandbox",
    .usage = "blocks [options] [FILE.md|-]\nblocks [options] [--lang LANG] --code CODE …",
    .text =
        "Blocks run in order, each as a process of its own, in the same sandbox; the first that fails\n"
        "ends the run. Exit status: that block's, 1 for errors and time-outs, 0 when all went well.\n"
        "A block without a language is taken as a shell command (pip …, python …) or as Python.",
    .groups = groups,
    .operands = "@file",
    .reach = CLI_ANYWHERE,
    .run = run,
};
