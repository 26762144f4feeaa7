/* SPDX-License-Identifier: Apache-2.0 */
/* Single files of a sandbox: looked at, listed, found, changed, removed.
 *
 * What the service's routes for files give is asked of them. They follow links and tell names without the rest, so a look that
 * must not follow is a command inside (script.h), and so are a move over what is there and the removal of an empty directory. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "answer_files.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/utf8.h"
#include "script.h"
#include "url.h"
#include "verb.h"

enum { WALK_MS = 10 * 60 * 1000 }; /* what may touch many files */

typedef struct file_verb {
    csn_api_verb base;
    csn_file_call call; /* its strings are our own */
    char *strings[3];
    uint32_t n_told;
    csn_error refusal; /* of a replacement */
} file_verb;

static file_verb *of(csn_api_verb *v)
{
    return csn_container_of(v, file_verb, base);
}

static void free_strings(csn_api_verb *v)
{
    for (size_t i = 0; i < CSN_COUNT(of(v)->strings); i++)
        free(of(v)->strings[i]);
}

/* ---- telling ---- */

/* False: the rest is more than was asked for. */
static bool may_tell(file_verb *f)
{
    if (f->n_told < f->call.max_results || f->call.max_results == 0) {
        f->n_told++;
        return true;
    }
    f->base.op->value.file.is_cut = true;
    return false;
}

static int tell(file_verb *f, const csn_file_info *info, csn_error *err)
{
    if (!f->call.on_file || !may_tell(f))
        return CSN_OK;
    csn_api_op_hold(f->base.op);
    f->call.on_file(info, f->call.user);
    return csn_api_verb_release(&f->base, err) ? CSN_OK : CSN_E_CANCELLED;
}

static int tell_match(file_verb *f, const csn_file_match *match, csn_error *err)
{
    if (!f->call.on_match || !may_tell(f))
        return CSN_OK;
    csn_api_op_hold(f->base.op);
    f->call.on_match(match, f->call.user);
    return csn_api_verb_release(&f->base, err) ? CSN_OK : CSN_E_CANCELLED;
}

/* Statuses of files are not those of sandboxes. */
static int file_error(const file_verb *f, const csn_web_answer *a, int result, csn_error *err)
{
    int status = a && a->end.failure == CSN_WEB_OK ? a->end.status : 0;

    if (status == 400)
        err->code = f->call.verb == CSN_FILE_CHMOD ? CSN_E_INVALID : CSN_E_NOT_REGULAR;
    else if (status == 409)
        err->code = f->base.box->state == CSN_STATE_STARTED ? CSN_E_EXISTS : CSN_E_STATE;
    else if (status == 507)
        err->code = CSN_E_LIMIT;
    else
        return result;
    return err->code;
}

/* ---- inside ---- */

static int ask_inside(file_verb *f, const csn_buf *command, csn_api_step *step, csn_error *err)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "command");
    csn_jw_string(&w, command->data, command->len);
    csn_jw_end_object(&w);
    if (command->error < 0)
        body.error = command->error;
    return csn_api_verb_ask_toolbox(
        &f->base, "/process/execute",
        (csn_api_ask){ .method = "POST", .body = &body, .step = step, .is_large = true }, err);
}

static int look_failed(const file_verb *f, int status, csn_error *err)
{
    const char *path = f->call.path;

    switch (status) {
    case CSN_LOOK_MISSING:
        return csn_fail(err, CSN_E_NOT_FOUND, "'%.180s': No such file or directory", path);
    case CSN_LOOK_NO_DIRECTORY:
        return csn_fail(err, CSN_E_NOT_FOUND, "'%.180s': Not a directory", path);
    case CSN_LOOK_DENIED:
        return csn_fail(err, CSN_E_DENIED, "'%.180s': Permission denied", path);
    case CSN_LOOK_NO_TOOLS:
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "the remote backend can't look at '%.100s': that needs find, stat and "
                        "readlink in the sandbox",
                        path);
    default:
        return csn_fail(err, CSN_E_SYSTEM, "'%.180s': the look at it ended with status %d", path,
                        status);
    }
}

/* As it is known outside: what was asked for, or below it. */
static int name_entry(const file_verb *f, const char *below, csn_buf *out)
{
    size_t len = strlen(f->call.path);

    csn_buf_clear(out);
    if (f->call.verb == CSN_FILE_LIST)
        return csn_buf_puts(out, below);
    csn_buf_append(out, f->call.path, len);
    if (f->call.verb == CSN_FILE_FIND)
        csn_buf_printf(out, "%s%s", f->call.path[len - 1] == '/' ? "" : "/", below);
    return out->error;
}

static int tell_records(file_verb *f, const csn_exec_answer *answer, csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_file_records records = { .data = answer->output, .len = answer->output_len };
    csn_file_info info;
    int r;

    while ((r = csn_file_records_next(&records, &info, err)) == 1) {
        if (name_entry(f, info.path, &path) < 0)
            return csn_fail(err, CSN_E_NO_MEMORY, "%s", f->base.what);
        info.path = path.data;
        if (tell(f, &info, err) < 0)
            return CSN_E_CANCELLED;
    }
    return r;
}

static int on_look(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_exec_answer answer;

    if (result < 0 ||
        (result = csn_exec_answer_parse(a->body, a->body_len, &doc, &answer, err)) < 0)
        return result;
    return answer.exit_code != 0 ? look_failed(of(v), answer.exit_code, err)
                                 : tell_records(of(v), &answer, err);
}

static int ask_look(file_verb *f, int levels, const char *pattern, csn_error *err)
{
    csn_auto(buf) csn_buf command = CSN_BUF_INIT;

    (void) csn_script_look(&command, f->call.path, levels, pattern); /* its error is sticky */
    return ask_inside(f, &command, on_look, err);
}

/* A program that does one thing; what it prints says why it could not. */
static int on_done_inside(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_exec_answer answer;
    char words[CSN_WORDS_SIZE];

    if (result < 0 ||
        (result = csn_exec_answer_parse(a->body, a->body_len, &doc, &answer, err)) < 0 ||
        answer.exit_code == 0)
        return result;
    csn_words_of(answer.output, answer.output_len, v->d->secret, words);
    return csn_fail(err, of(v)->call.verb == CSN_FILE_DELETE ? CSN_E_EXISTS : CSN_E_SYSTEM,
                    "'%.120s': %s", of(v)->call.path,
                    words[0] ? words : "the command for it failed");
}

static int ask_program(file_verb *f, const char *const *argv, csn_error *err)
{
    csn_auto(buf) csn_buf command = CSN_BUF_INIT;

    (void) csn_shell_command(&command, argv); /* likewise */
    return ask_inside(f, &command, on_done_inside, err);
}

/* ---- the service's routes ---- */

/* "ROUTE?path=PATH" */
static int ask_route(file_verb *f, const char *method, const char *route, const csn_buf *more,
                     csn_api_step *step, csn_error *err)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_api_ask ask = { .method = method, .step = step, .is_large = strcmp(method, "GET") == 0 };

    csn_buf_printf(&path, "%s=", route);
    csn_url_escape(&path, f->call.path);
    if (more)
        csn_buf_puts(&path, more->data);
    if (path.error < 0 || (more && more->error < 0))
        return csn_fail(err, CSN_E_NO_MEMORY, "%s", f->base.what);
    return csn_api_verb_ask_toolbox(&f->base, path.data, ask, err);
}

static int on_changed(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    return result < 0 ? file_error(of(v), a, result, err) : CSN_OK;
}

static int on_info(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_file_info info;

    if (result < 0)
        return file_error(of(v), a, result, err);
    result = csn_json_parse(a->body, a->body_len, &doc, NULL);
    if (result < 0)
        return csn_fail(err, CSN_E_PROTOCOL,
                        "the service's answer is not as agreed: it is no JSON");
    result = csn_file_answer_read(doc, &info, err);
    if (result < 0)
        return result;
    info.path = of(v)->call.path;
    return tell(of(v), &info, err);
}

static int on_list(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;
    csn_file_info info;

    if (result < 0)
        return file_error(of(v), a, result, err);
    result = csn_array_answer_parse(a->body, a->body_len, NULL, &doc, &items, err);
    for (size_t i = 0; result >= 0 && i < csn_json_count(items); i++) {
        result = csn_file_answer_read(csn_json_at(items, i), &info, err);
        if (result >= 0)
            result = tell(of(v), &info, err);
    }
    return result;
}

static int on_matches(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;
    csn_file_match match;

    if (result < 0)
        return file_error(of(v), a, result, err);
    result = csn_array_answer_parse(a->body, a->body_len, NULL, &doc, &items, err);
    for (size_t i = 0; result >= 0 && i < csn_json_count(items); i++) {
        result = csn_match_answer_read(csn_json_at(items, i), &match, err);
        if (result >= 0)
            result = tell_match(of(v), &match, err);
    }
    return result;
}

/* ---- the verbs ---- */

static int do_stat(file_verb *f, csn_error *err)
{
    if (!(f->call.flags & CSN_STAT_FOLLOW))
        return ask_look(f, 0, NULL, err);
    return ask_route(f, "GET", "/files/info?path", NULL, on_info, err);
}

static int do_list(file_verb *f, csn_error *err)
{
    int levels = f->call.mode > 1 ? f->call.mode : 1;

    if (!(f->call.flags & CSN_LIST_FOLLOW))
        return ask_look(f, levels, NULL, err);
    if (levels > 1)
        return csn_daytona_cannot(err, "list several levels through links");
    return ask_route(f, "GET", "/files?path", NULL, on_list, err);
}

static int do_find(file_verb *f, csn_error *err)
{
    return ask_look(f, -1, f->call.arg, err);
}

static int do_search(file_verb *f, csn_error *err)
{
    csn_auto(buf) csn_buf more = CSN_BUF_INIT;

    csn_buf_puts(&more, "&pattern=");
    csn_url_escape(&more, f->call.arg);
    return ask_route(f, "GET", "/files/find?path", &more, on_matches, err);
}

static int do_mkdir(file_verb *f, csn_error *err)
{
    csn_auto(buf) csn_buf more = CSN_BUF_INIT;

    csn_buf_printf(&more, "&mode=%o", (unsigned) f->call.mode & 07777);
    return ask_route(f, "POST", "/files/folder?path", &more, on_changed, err);
}

static int do_chmod(file_verb *f, csn_error *err)
{
    csn_auto(buf) csn_buf more = CSN_BUF_INIT;

    if (f->call.mode >= 0)
        csn_buf_printf(&more, "&mode=%04o", (unsigned) f->call.mode & 07777);
    if (f->call.arg) {
        csn_buf_puts(&more, "&owner=");
        csn_url_escape(&more, f->call.arg);
    }
    if (f->call.arg2) {
        csn_buf_puts(&more, "&group=");
        csn_url_escape(&more, f->call.arg2);
    }
    return ask_route(f, "POST", "/files/permissions?path", &more, on_changed, err);
}

/* The route moves over nothing. */
static int on_moved(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    file_verb *f = of(v);
    const char *mv[] = { "mv", "-fT", "--", f->call.path, f->call.arg, NULL };

    if (result < 0)
        result = file_error(f, a, result, err);
    if (result == CSN_E_EXISTS && !(f->call.flags & CSN_MOVE_NO_REPLACE))
        return ask_program(f, mv, err);
    return result;
}

static int do_move(file_verb *f, csn_error *err)
{
    csn_auto(buf) csn_buf more = CSN_BUF_INIT;

    if (f->call.flags & CSN_MOVE_FOLLOW)
        return csn_daytona_cannot(err, "move a file over what a link leads to");
    csn_buf_puts(&more, "&destination=");
    csn_url_escape(&more, f->call.arg);
    return ask_route(f, "POST", "/files/move?source", &more, on_moved, err);
}

/* The route removes directories with all that is in them, or none at all. */
static int on_deleted(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    file_verb *f = of(v);
    const char *rmdir[] = { "rmdir", "--", f->call.path, NULL };

    if (result < 0)
        result = file_error(f, a, result, err);
    return result == CSN_E_NOT_REGULAR && f->call.flags == 0 ? ask_program(f, rmdir, err) : result;
}

static int do_delete(file_verb *f, csn_error *err)
{
    csn_auto(buf) csn_buf more = CSN_BUF_INIT;

    if (f->call.flags & CSN_DELETE_RECURSIVE)
        csn_buf_puts(&more, "&recursive=true");
    return ask_route(f, "DELETE", "/files?path", &more, on_deleted, err);
}

/* Why it failed is the service's sentence; a missing file has a code of its own. */
static int on_looked_for(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    (void) a;
    *err = of(v)->refusal;
    if (result == CSN_E_NOT_FOUND)
        err->code = CSN_E_NOT_FOUND;
    return err->code;
}

/* How many there were is not told. */
static int on_replaced(csn_api_verb *v, const csn_web_answer *a, int result, csn_error *err)
{
    file_verb *f = of(v);
    csn_auto(json) csn_json *doc = NULL;
    char words[CSN_WORDS_SIZE];
    const char *why;
    bool is_done;

    if (result < 0)
        return file_error(f, a, result, err);
    result = csn_replace_answer_parse(a->body, a->body_len, &doc, &is_done, &why, err);
    v->op->value.file.n = -1;
    if (result < 0 || is_done)
        return result;
    csn_words_of(why, strlen(why), v->d->secret, words);
    (void) csn_fail(&f->refusal, CSN_E_SYSTEM, "replace in '%.100s': %s", f->call.path,
                    words[0] ? words : "the service does not say why not");
    return ask_route(f, "GET", "/files/info?path", NULL, on_looked_for, err);
}

static int do_replace(file_verb *f, csn_error *err)
{
    csn_auto(buf) csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "files");
    csn_jw_begin_array(&w);
    csn_jw_str(&w, f->call.path);
    csn_jw_end_array(&w);
    csn_jw_kstr(&w, "pattern", f->call.arg);
    csn_jw_kstr(&w, "newValue", f->call.arg2 ? f->call.arg2 : "");
    csn_jw_end_object(&w);
    return csn_api_verb_ask_toolbox(
        &f->base, "/files/replace",
        (csn_api_ask){ .method = "POST", .body = &body, .step = on_replaced }, err);
}

static const struct {
    const char *what;
    int (*ask)(file_verb *f, csn_error *err);
    int limit_ms;
} verbs[] = {
    [CSN_FILE_STAT] = { "look at a file", do_stat, CSN_DAYTONA_ASK_MS },
    [CSN_FILE_LIST] = { "list a directory", do_list, WALK_MS },
    [CSN_FILE_MKDIR] = { "make a directory", do_mkdir, CSN_DAYTONA_ASK_MS },
    [CSN_FILE_MOVE] = { "move a file", do_move, WALK_MS },
    [CSN_FILE_DELETE] = { "delete a file", do_delete, WALK_MS },
    [CSN_FILE_CHMOD] = { "change a file's mode", do_chmod, CSN_DAYTONA_ASK_MS },
    [CSN_FILE_FIND] = { "find files", do_find, WALK_MS },
    [CSN_FILE_SEARCH] = { "search in files", do_search, WALK_MS },
    [CSN_FILE_REPLACE] = { "replace text in a file", do_replace, WALK_MS },
};

static int copy_call(file_verb *f, const csn_file_call *call, csn_error *err)
{
    const char *texts[] = { call->path, call->arg, call->arg2 };
    const char **ours[] = { &f->call.path, &f->call.arg, &f->call.arg2 };

    f->call = *call;
    for (size_t i = 0; i < CSN_COUNT(texts); i++) {
        *ours[i] = NULL;
        if (!texts[i])
            continue;
        if (!csn_utf8_valid(texts[i], strlen(texts[i])))
            return csn_fail(err, CSN_E_UNSUPPORTED,
                            "the remote backend can't pass on a path or text that is no UTF-8");
        if (!(f->strings[i] = csn_strdup(texts[i])))
            return csn_fail(err, CSN_E_NO_MEMORY, "%s", f->base.what);
        *ours[i] = f->strings[i];
    }
    return CSN_OK;
}

int csn_daytona_file(csn_box *box, const csn_file_call *call, csn_op *op, csn_error *err)
{
    file_verb *f;
    int r;

    err = CSN_OP_ERR(err);
    op->value.file.fd = -1;
    if (call->verb == CSN_FILE_OPEN)
        return csn_daytona_cannot(err, "hand out a descriptor of a file");
    if (call->verb == CSN_FILE_CONNECT)
        return csn_daytona_cannot(err, "connect to a port");
    f = csn_api_verb_new(NULL, box, sizeof(*f), verbs[call->verb].what, verbs[call->verb].limit_ms,
                         op, err);
    if (!f)
        return err->code;
    f->base.free = free_strings;
    r = copy_call(f, call, err);
    if (r >= 0)
        r = verbs[call->verb].ask(f, err);
    return csn_api_verb_begin(&f->base, r);
}
