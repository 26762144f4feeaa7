/* SPDX-License-Identifier: Apache-2.0 */
#include "server/git_run.h"

#include <errno.h>
#include <stdlib.h>

#include <caisson/process.h>

#include "base/err.h"
#include "base/fault.h"
#include "server/boxes.h"
#include "server/file_info.h"
#include "server/git_map.h"

#define OUT_MAX ((size_t) 32 << 20)
#define ERR_MAX ((size_t) 64 << 10)

enum { LIST_MAX = 20000, TIMEOUT_MS = 30 * 60 * 1000 };

typedef struct words {
    char **at; /* NULL at the end */
    size_t n, cap;
} words;

struct csn_git {
    csn_req *req;
    csn_box_hold *hold;
    csn_sandbox *box; /* valid while held */
    csn_buf path;     /* of the repository, the sandbox's own; empty: none */
    words args, settings, env, secrets;
    csn_buf in, out, err;
    csn_process *process;
    csn_op *starting; /* NULL: it runs, or not yet */
    int error; /* -ENOMEM: a word is missing; nothing runs then */
    csn_git_fn *fn;
};

/* --- words -------------------------------------------------------------------------------------------------------- */

static void clear_words(words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->at[i]);
    w->n = 0;
    if (w->at)
        w->at[0] = NULL;
}

static void free_words(words *w)
{
    clear_words(w);
    free(w->at);
    *w = (words){ 0 };
}

/* `text` is taken. */
static void add_taken(csn_git *g, words *w, char *text)
{
    if (text && w->n + 2 > w->cap && w->n < LIST_MAX) {
        size_t cap = w->cap ? w->cap * 2 : 16;
        char **grown = csn_realloc_array(w->at, cap, sizeof(char *));
        if (grown) {
            w->at = grown;
            w->cap = cap;
        }
    }
    if (!text || w->n + 2 > w->cap) {
        free(text);
        g->error = w->n >= LIST_MAX ? -E2BIG : -ENOMEM;
        return;
    }
    w->at[w->n++] = text;
    w->at[w->n] = NULL;
}

static void add(csn_git *g, words *w, const char *text)
{
    add_taken(g, w, csn_strdup(text));
}

static void add_pair(csn_git *g, words *w, const char *key, const char *value)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    csn_buf_printf(&text, "%s=%s", key, value);
    add_taken(g, w, csn_buf_take(&text, NULL));
}

void csn_git_arg(csn_git *g, const char *arg)
{
    add(g, &g->args, arg);
}

void csn_git_args(csn_git *g, const char *const *args)
{
    for (; *args; args++)
        add(g, &g->args, *args);
}

void csn_git_path_arg(csn_git *g, const char *path)
{
    csn_auto(buf) csn_buf full = CSN_BUF_INIT;

    csn_box_path(g->req, path, &full);
    add(g, &g->args, full.data);
}

void csn_git_input(csn_git *g, const void *data, size_t len)
{
    if (csn_buf_append(&g->in, data, len) < 0)
        g->error = g->in.error;
}

void csn_git_env(csn_git *g, const char *key, const char *value)
{
    add_pair(g, &g->env, key, value);
}

void csn_git_config(csn_git *g, const char *setting)
{
    add(g, &g->settings, "-c");
    add(g, &g->settings, setting);
}

/* Asked "get" with "host=…" lines on stdin. Written for any sh. */
static const char helper[] =
    "credential.helper=!f() { test \"$1\" = get || return 0; h=; "
    "while IFS== read -r k v; do test \"$k\" != host || h=$v; done; "
    "test -z \"$CAISSON_GIT_HOST\" || test \"$h\" = \"$CAISSON_GIT_HOST\" || return 0; "
    "printf 'username=%s\\npassword=%s\\n' \"$CAISSON_GIT_USERNAME\" \"$CAISSON_GIT_PASSWORD\"; }; f";

void csn_git_credentials(csn_git *g, const char *user, const char *password, const char *host)
{
    if (!user[0] && !password[0])
        return; /* then what the sandbox has stored counts */
    clear_words(&g->secrets);
    add_pair(g, &g->secrets, "CAISSON_GIT_USERNAME", user[0] ? user : "git");
    add_pair(g, &g->secrets, "CAISSON_GIT_PASSWORD", password);
    add_pair(g, &g->secrets, "CAISSON_GIT_HOST", host ? host : "");
    csn_git_config(g, "credential.helper="); /* forgets all others */
    csn_git_config(g, helper);
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

static void free_git(csn_git *g)
{
    csn_process_free(g->process);
    free_words(&g->args);
    free_words(&g->settings);
    free_words(&g->env);
    free_words(&g->secrets);
    csn_buf_free(&g->path);
    csn_buf_free(&g->in);
    csn_buf_free(&g->out);
    csn_buf_free(&g->err);
    csn_boxes_release(g->hold);
    free(g);
}

/* A command that runs ends with its handle. */
static void on_gone(csn_req *req, void *user)
{
    csn_git *g = user;

    (void) req;
    csn_op_drop(g->starting);
    free_git(g);
}

csn_git *csn_git_new(csn_req *req, const char *path)
{
    csn_git *g = csn_calloc(1, sizeof(*g));

    if (!g) {
        csn_req_error(req, 500, NULL, "out of memory");
        return NULL;
    }
    *g = (csn_git){ .req = req,
                    .box = csn_req_box(req),
                    .hold = csn_boxes_hold(csn_req_server(req)->boxes, csn_req_box_id(req)),
                    .path = CSN_BUF_INIT,
                    .in = CSN_BUF_INIT,
                    .out = CSN_BUF_INIT_MAX(OUT_MAX),
                    .err = CSN_BUF_INIT_MAX(ERR_MAX) };
    if (path)
        csn_box_path(req, path, &g->path);
    csn_req_keep(req, on_gone, g);
    return g;
}

csn_str csn_git_out(const csn_git *g)
{
    return csn_str_n(g->out.data, g->out.len);
}

csn_str csn_git_err(const csn_git *g)
{
    return csn_str_n(g->err.data, g->err.len);
}

void csn_git_answer_empty(csn_git *g, int status)
{
    csn_req *req = g->req;

    free_git(g);
    csn_req_empty(req, status);
}

void csn_git_answer_json(csn_git *g, int status, csn_buf *json)
{
    csn_req *req = g->req;

    free_git(g);
    csn_req_json(req, status, json);
}

void csn_git_answer_bad(csn_git *g, int status, const char *code, const char *message)
{
    csn_req *req = g->req;

    csn_req_error(req, status, code, "%s", message);
    free_git(g);
}

void csn_git_answer_failure(csn_git *g)
{
    csn_auto(buf) csn_buf message = CSN_BUF_INIT;
    const csn_git_fault *fault = csn_git_failure(csn_git_err(g), csn_git_out(g), &message);

    if (message.len == 0)
        csn_buf_puts(&message, "git failed and said nothing");
    csn_git_answer_bad(g, fault->status, fault->code, message.data);
}

static void then(csn_git *g, int status, int answer)
{
    if (status == 0)
        csn_git_answer_empty(g, answer);
    else
        csn_git_answer_failure(g);
}

void csn_git_then_200(csn_git *g, csn_req *req, int status)
{
    (void) req;
    then(g, status, 200);
}

void csn_git_then_201(csn_git *g, csn_req *req, int status)
{
    (void) req;
    then(g, status, 201);
}

void csn_git_then_204(csn_git *g, csn_req *req, int status)
{
    (void) req;
    then(g, status, 204);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static int on_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                     void *user)
{
    csn_git *g = user;
    csn_buf *to = stream == CSN_STDERR ? &g->err : &g->out;

    (void) process;
    if (stream == CSN_STDERR && len > to->max - to->len)
        len = to->max - to->len;          /* the beginning says what went wrong */
    (void) csn_buf_append(to, data, len); /* sticks */
    return 0;
}

static void on_end(csn_process *process, const csn_receipt *receipt, void *user)
{
    csn_git *g = user;

    (void) process;
    g->process = csn_process_free(g->process);
    clear_words(&g->args);
    clear_words(&g->env);
    csn_buf_free(&g->in);
    if (receipt->ended != CSN_ENDED_EXIT)
        csn_git_answer_bad(g, receipt->ended == CSN_ENDED_TIMEOUT ? 408 : 500,
                           receipt->ended == CSN_ENDED_TIMEOUT ? "REQUEST_TIMEOUT" : NULL,
                           receipt->ended == CSN_ENDED_TIMEOUT ? "git took too long"
                           : receipt->ended == CSN_ENDED_OOM   ? "git was out of memory"
                                                               : "git was killed");
    else if (g->out.error < 0)
        csn_git_answer_bad(g, 413, "TOO_LARGE", "git printed more than fits into an answer");
    else
        g->fn(g, g->req, receipt->exit_code);
}

static void on_started(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_git *g = user;

    g->process = process;
    g->starting = NULL;
    if (result == CSN_E_NOT_FOUND)
        csn_git_answer_bad(g, 500, NULL, "git is not installed in this sandbox");
    else if (result < 0)
        csn_git_answer_bad(g, 500, NULL, err->message);
}

static void put_env(csn_git *g, words *env)
{
    static const char *const fixed[] = {
        "LC_ALL=C",        "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=http:https:ssh",
        "GIT_ASKPASS=",    "SSH_ASKPASS=",          "GIT_SSH_COMMAND=ssh -o BatchMode=yes",
        "GIT_EDITOR=true", "GIT_OPTIONAL_LOCKS=0",  "GIT_PAGER=cat",
    };
    const csn_box_facts *facts =
        csn_boxes_facts(csn_req_server(g->req)->boxes, csn_req_box_id(g->req));

    for (size_t i = 0; facts && facts->env && facts->env[i]; i++)
        add(g, env, facts->env[i]);
    for (size_t i = 0; i < CSN_COUNT(fixed); i++)
        add(g, env, fixed[i]);
    for (size_t i = 0; i < g->env.n; i++)
        add(g, env, g->env.at[i]);
    for (size_t i = 0; i < g->secrets.n; i++)
        add(g, env, g->secrets.at[i]);
}

static void put_argv(csn_git *g, words *argv)
{
    static const char *const fixed[] = {
        "git", "--literal-pathspecs",  "-c", "core.hooksPath=/dev/null",
        "-c",  "core.fsmonitor=false", "-c", "core.askPass=",
        "-c",  "safe.directory=*",     "-c", "gc.auto=0",
        "-c",  "commit.gpgSign=false", "-c", "submodule.recurse=false",
    };

    for (size_t i = 0; i < CSN_COUNT(fixed); i++)
        add(g, argv, fixed[i]);
    for (size_t i = 0; i < g->settings.n; i++)
        add(g, argv, g->settings.at[i]);
    if (g->path.len > 0) {
        add(g, argv, "-C");
        add(g, argv, g->path.data);
    }
    for (size_t i = 0; i < g->args.n; i++)
        add(g, argv, g->args.at[i]);
}

static int start(csn_git *g, const words *argv, const words *env, csn_error *err)
{
    csn_process_options opts = { .size = sizeof(opts),
                                 .argv = (const char *const *) argv->at,
                                 .env = (const char *const *) env->at,
                                 .stdin_kind = g->in.len > 0 ? CSN_STDIN_BYTES : CSN_STDIN_NONE,
                                 .stdin_data = g->in.data,
                                 .stdin_len = g->in.len,
                                 .timeout_ms = TIMEOUT_MS,
                                 .output_bytes = CSN_UNLIMITED,
                                 .on_output = on_output,
                                 .on_exit = on_end,
                                 .user_data = g };

    if (g->error < 0)
        return csn_fail_sys(err, g->error, "run git");
    g->starting = csn_process_start_async(g->box, &opts, on_started, g, err);
    return g->starting ? CSN_OK : err->code;
}

void csn_git_run(csn_git *g, csn_git_fn *fn)
{
    words argv = { 0 }, env = { 0 };
    csn_error err = { 0 };
    int r;

    put_argv(g, &argv);
    put_env(g, &env);
    csn_buf_clear(&g->out);
    csn_buf_clear(&g->err);
    g->fn = fn;
    r = start(g, &argv, &env, &err);
    free_words(&argv);
    free_words(&env);
    if (r >= 0)
        return;
    csn_git_answer_bad(g, 500, NULL, err.message);
}
