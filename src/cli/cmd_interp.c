/* caisson interp: Python that remembers, in a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxopt.h"
#include "commands.h"
#include "interpopt.h"
#include "out.h"
#include "session.h"
#include "stream.h"

enum { CODE_MAX = 64 << 20 };

const cli_line_reader *cli_reader;

struct values {
    cli_interp_values interp;
    cli_list codes, files;
    const char *vars, *events;
    int json, quiet, interactive;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt code_options[] = {
    { 'c', "code", CLI_LIST, AT(codes), "CODE", "execute this; may be repeated, one execute each",
      NULL, NULL },
    { 'f', "file", CLI_LIST, AT(files), "FILE", "execute a file (after every -c); may be repeated",
      "@file", NULL },
    { 'i', "interactive", CLI_FLAG, AT(interactive), NULL, "a prompt, also after -c and -f", NULL,
      NULL },
    { 0, "vars", CLI_TEXT, AT(vars), "JSON", "an object whose members become variables first", NULL,
      NULL },
    { 0, "events", CLI_TEXT, AT(events), "FILE", "append one JSON line per start and end", "@file",
      NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON document at the end, no live output", NULL,
      NULL },
    { 'q', "quiet", CLI_FLAG, AT(quiet), NULL, "no remarks on stderr", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = { { "Code", code_options, 0 },
                                    { "Sandbox", cli_interp_options, AT(interp) },
                                    { "Models", cli_model_options, AT(interp) },
                                    { NULL, NULL, 0 } };

struct run {
    const struct values *v;
    csn_engine *engine;
    csn_interp *interp;
    cli_stream out, err;
    csn_jw w;
    csn_buf doc;
    int events_fd;
    bool has_vars; /* given already */
    bool is_told;  /* what went wrong is the one document */
};

/* ---- live ------------------------------------------------------------------------------------------------------- */

static void on_output(int stream, const char *data, size_t len, void *user)
{
    struct run *r = user;

    if (!r->v->json)
        cli_stream_put(stream == 2 ? &r->err : &r->out, data, len);
}

static void on_event(const char *json, void *user)
{
    struct run *r = user;
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    if (r->events_fd < 0)
        return;
    csn_buf_printf(&line, "%s\n", json);
    (void) csn_write_all(r->events_fd, line.data, line.len); /* an observer's trouble is not ours */
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static const char *kind_name(csn_exec_kind kind)
{
    static const char *const names[] = { "text", "final", "error", "failure" };

    return names[kind];
}

static void put_stream(csn_jw *w, const char *key, const csn_exec_result *x, int stream)
{
    size_t len;
    const char *data = csn_result_stream(x, stream, &len);

    cli_jw_bytes(w, key, data, len);
}

static void put_json(csn_jw *w, const csn_exec_result *x)
{
    uint32_t flags = csn_result_flags(x);
    csn_exec_kind kind = csn_result_kind(x);
    size_t len;
    const char *text = csn_result_text(x, &len);

    csn_jw_begin_object(w);
    csn_jw_kstr(w, "kind", kind_name(kind));
    csn_jw_key(w, "text");
    csn_jw_string(w, text, len);
    put_stream(w, "stdout", x, 1);
    put_stream(w, "stderr", x, 2);
    csn_jw_key(w, "final");
    if (csn_final_json(x))
        csn_jw_raw(w, csn_final_json(x), strlen(csn_final_json(x)));
    else
        csn_jw_null(w);
    csn_jw_key(w, "error");
    if (kind == CSN_EXEC_ERROR) {
        csn_jw_begin_object(w);
        csn_jw_kstr(w, "name", csn_result_error_name(x));
        csn_jw_kstr(w, "value", csn_result_error_value(x));
        csn_jw_kstr(w, "traceback", csn_result_traceback(x));
        csn_jw_end_object(w);
    } else {
        csn_jw_null(w);
    }
    if (kind == CSN_EXEC_FAILURE) {
        csn_jw_kstr(w, "category", csn_result_category(x));
        csn_jw_kstr(w, "phase", csn_result_phase(x));
        csn_jw_kbool(w, "state_preserved", flags & CSN_RESULT_STATE_PRESERVED);
    }
    csn_jw_kbool(w, "state_reset", flags & CSN_RESULT_STATE_RESET);
    csn_jw_kbool(w, "truncated", flags & (CSN_RESULT_STDOUT_CUT | CSN_RESULT_STDERR_CUT));
    csn_jw_kint(w, "callbacks", csn_result_callbacks(x));
    csn_jw_kdouble(w, "duration_ms", (double) csn_result_duration_us(x) / 1000);
    csn_jw_end_object(w);
}

static int status_of(const csn_exec_result *x, int code)
{
    switch (csn_result_kind(x)) {
    case CSN_EXEC_ERROR:
        return 1;
    case CSN_EXEC_FAILURE:
        return code == CSN_E_TIMEOUT     ? CLI_TIMEOUT
               : code == CSN_E_CANCELLED ? cli_cancelled_status()
                                         : CLI_ENGINE;
    case CSN_EXEC_TEXT:
    case CSN_EXEC_FINAL:
    default:
        return 0;
    }
}

static void put_text(struct run *r, const csn_exec_result *x)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    cli_stream_finish(&r->out);
    cli_stream_finish(&r->err);
    if (csn_result_flags(x) & CSN_RESULT_STATE_RESET && !r->v->quiet)
        cli_note("the interpreter was started anew: earlier variables are gone");
    if (csn_result_kind(x) == CSN_EXEC_FINAL) {
        csn_buf_printf(&line, "%s\n", csn_final_json(x));
        (void) cli_print(&line); /* a closed pipe is silent */
    } else if (csn_result_kind(x) == CSN_EXEC_ERROR) {
        cli_stream_put(&r->err, csn_result_traceback(x), strlen(csn_result_traceback(x)));
    } else if (csn_result_kind(x) == CSN_EXEC_FAILURE) {
        cli_complain(csn_result_category(x), csn_result_text(x, NULL), NULL);
    }
}

static int execute(struct run *r, const char *code, size_t len, bool is_prompt)
{
    csn_execute_options o = { .size = sizeof(o), .is_interactive = is_prompt };
    csn_exec_result *x = NULL;
    csn_error err = { 0 };
    int status, e;

    if (!r->has_vars)
        o.vars = r->v->vars;
    r->has_vars = true;
    e = csn_interp_execute(r->interp, code, len, &o, &x, &err);
    r->is_told = !x;
    if (!x)
        return cli_fail(&err, NULL);
    status = status_of(x, e);
    if (r->v->json)
        put_json(&r->w, x);
    else
        put_text(r, x);
    if (csn_result_flags(x) & CSN_RESULT_STATE_RESET)
        cli_session_save(r->engine, r->v->interp.session, r->interp);
    csn_result_free(x);
    return status;
}

static int execute_file(struct run *r, const char *path)
{
    csn_auto(buf) csn_buf code = CSN_BUF_INIT_MAX(CODE_MAX);
    int e = csn_streq(path, "-") ? csn_read_to_buf(STDIN_FILENO, &code, CODE_MAX)
                                 : csn_read_file(AT_FDCWD, path, &code, CODE_MAX);

    r->is_told = e < 0;
    if (e < 0)
        return cli_fail_with(CSN_E_SYSTEM, NULL, "read '%s': %s", path, strerror(-e));
    return execute(r, code.data, code.len, false);
}

/* ---- the prompt ------------------------------------------------------------------------------------------------- */

enum statement { STATEMENT, GIVEN_UP, AT_END };

/* At the prompt Ctrl-C gives up the line, not the program; other signals end it. */
static enum statement interrupted(csn_buf *code)
{
    int number = cli_signal_take();

    cli_hold_signals(false);
    csn_buf_clear(code);
    if (number && number != SIGINT)
        return AT_END;
    (void) cli_write(STDOUT_FILENO, "\n", 1);
    return GIVEN_UP;
}

/* Lines until they are a whole statement; a block ends with an empty line, as everywhere in Python. */
static enum statement read_statement(struct run *r, void *reader, csn_buf *code)
{
    csn_buf_clear(code);
    for (;;) {
        cli_hold_signals(true);
        csn_auto(mem) char *line = cli_reader->line(reader, code->len ? "... " : ">>> ");

        if (!line && errno == EINTR)
            return interrupted(code);
        cli_hold_signals(false);
        if (!line) {
            (void) cli_write(STDOUT_FILENO, "\n",
                             1); /* Ctrl-D leaves the cursor behind the prompt */
            return AT_END;
        }
        if (!code->len && !csn_str_trim(csn_str_of(line)).len)
            continue;
        csn_buf_printf(code, "%s%s", code->len ? "\n" : "", line);
        if (csn_interp_probe(r->interp, code->data, code->len) != 0)
            return STATEMENT;
    }
}

static int prompt(struct run *r)
{
    csn_auto(buf) csn_buf code = CSN_BUF_INIT_MAX(CODE_MAX);
    void *reader = cli_reader->open();

    if (!r->v->quiet)
        cli_note("Python in sandbox %.8s; SUBMIT(…) ends a step, Ctrl-D ends the program%s",
                 csn_interp_sandbox_id(r->interp),
                 r->v->interp.session ? ", the session stays" : "");
    while (reader && read_statement(r, reader, &code) != AT_END) {
        csn_str text = csn_str_trim(csn_str_n(code.data, code.len));

        if (csn_str_is(text, "exit()") || csn_str_is(text, "quit()") || csn_str_is(text, "exit") ||
            csn_str_is(text, "quit"))
            break;
        if (text.len)
            (void) execute(r, code.data, code.len, true);
        (void) cli_signal_take(); /* Ctrl-C stopped the code, not us */
    }
    if (reader)
        cli_reader->close(reader);
    return 0;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static int run_all(struct run *r)
{
    const struct values *v = r->v;
    int status = 0;

    for (size_t k = 0; k < v->codes.n && !status; k++)
        status = execute(r, v->codes.items[k], strlen(v->codes.items[k]), false);
    for (size_t k = 0; k < v->files.n && !status; k++)
        status = execute_file(r, v->files.items[k]);
    if (v->interactive || (!v->codes.n && !v->files.n && cli_is_terminal(STDIN_FILENO)))
        return prompt(r);
    if (!v->codes.n && !v->files.n)
        status = execute_file(r, "-");
    return status;
}

static int run_with_document(struct run *r)
{
    csn_auto(mem) char *metadata = NULL;
    csn_auto(json) csn_json *doc = NULL;
    int64_t used, max;
    int status;

    r->doc = (csn_buf) CSN_BUF_INIT_MAX((size_t) 1 << 30);
    r->w = (csn_jw) CSN_JW_INIT(&r->doc, true);
    csn_jw_begin_object(&r->w);
    csn_jw_key(&r->w, "results");
    csn_jw_begin_array(&r->w);
    status = run_all(r);
    csn_jw_end_array(&r->w);
    csn_interp_budget(r->interp, &used, &max);
    csn_jw_kint(&r->w, "llm_calls", used);
    if (csn_interp_metadata(r->interp, &metadata, NULL) == CSN_OK &&
        csn_json_parse(metadata, strlen(metadata), &doc, NULL) == 0) {
        csn_jw_key(&r->w, "metadata");
        csn_jw_value(&r->w, doc);
    }
    csn_jw_end_object(&r->w);
    if (!r->is_told)
        (void) cli_print_json(&r->doc); /* the code's status counts */
    csn_buf_free(&r->doc);
    return status;
}

/* The line editor is a program of its own: the other commands start faster without it. */
static int become_repl(char **argv)
{
    const char *dir = getenv("CAISSON_LIBEXEC");
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 32);
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;

    self[n > 0 ? n : 0] = '\0';
    if (n > 0)
        *strrchr(self, '/') = '\0';
    csn_buf_printf(&path, "%s/caisson-repl", dir && *dir ? dir : self);
    (void) execv(path.data, argv);
    (void) execv(CSN_LIBEXECDIR "/caisson-repl", argv);
    return cli_fail_with(CSN_E_NOT_FOUND, NULL,
                         "the prompt needs caisson-repl, which is not installed: %s",
                         strerror(errno));
}

static int run_interp(struct run *r, const csn_interp_options *given)
{
    csn_interp_options o = *given;
    int status;

    o.on_output = on_output;
    o.on_event = r->v->events ? on_event : NULL;
    o.user_data = r;
    cli_stream_init(&r->out, STDOUT_FILENO, false);
    cli_stream_init(&r->err, STDERR_FILENO, false);
    status = cli_interp_open(r->engine, &r->v->interp, &o, &r->interp);
    if (status < 0) {
        status = r->v->json ? run_with_document(r) : run_all(r);
        cli_session_save(r->engine, r->v->interp.session, r->interp);
    }
    (void) cli_signal_take(); /* from here on there is only cleaning up */
    return status;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    struct values v = { 0 };
    struct run r = { .v = &v, .events_fd = -1 };
    csn_interp_options o;
    cli_list env = { 0 };
    cli_args args;
    bool wants_prompt;
    uint32_t walls = 0;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status < 0)
        status = cli_want(cmd, &args, 0, 0);
    if (status < 0)
        status = cli_interp_fill(cmd, &v.interp, &o, &env);
    if (status >= 0)
        return status;
    cli_want_json(v.json);
    wants_prompt = v.interactive || (!v.codes.n && !v.files.n && cli_is_terminal(STDIN_FILENO));
    if (wants_prompt && !cli_reader)
        return become_repl(argv);
    if (v.events &&
        (r.events_fd = open(v.events, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0)
        return cli_fail_with(CSN_E_SYSTEM, NULL, "open '%s': %s", v.events, strerror(errno));
    status = cli_fill_walls(cmd, &v.interp.optional, &walls);
    if (status < 0)
        status = cli_open_to_make(walls, &r.engine);
    if (status < 0)
        status = run_interp(&r, &o);
    r.interp = csn_interp_free(r.interp);
    csn_engine_auto(&r.engine);
    csn_close(&r.events_fd);
    return status;
}

const cli_command cli_cmd_interp = {
    .name = "interp",
    .summary = "Execute Python in a sandbox that remembers from step to step",
    .usage = "interp [options]                     a prompt, or code from stdin\n"
             "interp [options] -c CODE … -f FILE …  one execute each",
    .text =
        "Code returns its result with SUBMIT(field=value, …), which is printed as JSON. It can ask a\n"
        "model (llm_query), start children (sub_rlm), keep lists (add_buffer) and files (--volume).\n"
        "Exit status: 0; 1 the code failed; 124 time limit; 125 engine error.",
    .groups = groups,
    .reach = CLI_ANYWHERE,
    .run = run,
};
