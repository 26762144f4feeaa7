/* SPDX-License-Identifier: Apache-2.0 */
/* git in a repository of the sandbox: what needs no other machine (WIRE 9.6). */
#include "server/routes/git.h"

#include <errno.h>

#include "server/git_map.h"
#include "server/git_run.h"
#include "server/git_status.h"

enum { FILES_MAX = 10000 };

#define ARGS(git, ...) csn_git_args((git), (const char *const[]){ __VA_ARGS__, NULL })

/* --- what is asked ------------------------------------------------------------------------------------------------ */

const char *csn_git_need(csn_req *req, const csn_json *body, const char *key)
{
    const char *value = csn_json_get_str(body, key, "");

    if (value[0])
        return value;
    csn_req_error(req, 400, "INVALID_REQUEST_BODY", "%s is required", key);
    return NULL;
}

const char *csn_git_name(csn_req *req, const csn_json *body, const char *key)
{
    const char *value = csn_git_need(req, body, key);

    if (!value || csn_git_is_name(value))
        return value;
    csn_req_error(req, 400, "BAD_REQUEST", "%s is not a name that git takes", key);
    return NULL;
}

bool csn_git_name_or_none(csn_req *req, const csn_json *body, const char *key, const char **ret)
{
    *ret = csn_json_get_str(body, key, "");
    if (!(*ret)[0] || csn_git_is_name(*ret))
        return true;
    csn_req_error(req, 400, "BAD_REQUEST", "%s is not a name that git takes", key);
    return false;
}

csn_git *csn_git_of_body(csn_req *req, const csn_json *body)
{
    const char *path = csn_git_need(req, body, "path");

    return path ? csn_git_new(req, path) : NULL;
}

csn_git *csn_git_of_query(csn_req *req)
{
    const char *path = csn_req_query(req, "path");

    if (path && path[0])
        return csn_git_new(req, path);
    csn_req_error(req, 400, "BAD_REQUEST", "path is required");
    return NULL;
}

static bool are_files(csn_req *req, const csn_json *files, bool is_needed)
{
    size_t n = csn_json_count(files);
    bool is_fine = n <= FILES_MAX && (n > 0 || !is_needed);

    for (size_t i = 0; i < n; i++)
        is_fine = is_fine && csn_json_str(csn_json_at(files, i), "")[0];
    if (!is_fine)
        csn_req_error(req, 400, "INVALID_REQUEST_BODY", "files must name 1 to %d files", FILES_MAX);
    return is_fine;
}

static void put_files(csn_git *git, const csn_json *files)
{
    csn_git_arg(git, "--");
    for (size_t i = 0; i < csn_json_count(files); i++)
        csn_git_arg(git, csn_json_str(csn_json_at(files, i), ""));
}

static void answer_read(csn_git *git, int status, int (*read)(csn_str output, csn_buf *json))
{
    csn_auto(buf) csn_buf json = CSN_BUF_INIT;

    if (status != 0)
        csn_git_answer_failure(git);
    else if (read(csn_git_out(git), &json) < 0)
        csn_git_answer_bad(git, 500, NULL, "git's output could not be read");
    else
        csn_git_answer_json(git, 200, &json);
}

/* --- status, branches, history ------------------------------------------------------------------------------------ */

static void on_status(csn_git *git, csn_req *req, int status)
{
    (void) req;
    answer_read(git, status, csn_git_status_json);
}

static void get_status(csn_req *req)
{
    csn_git *git = csn_git_of_query(req);

    if (!git)
        return;
    ARGS(git, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all");
    csn_git_run(git, on_status);
}

static void on_branches(csn_git *git, csn_req *req, int status)
{
    (void) req;
    answer_read(git, status, csn_git_branches_json);
}

static void get_branches(csn_req *req)
{
    csn_git *git = csn_git_of_query(req);

    if (!git)
        return;
    ARGS(git, "for-each-ref", CSN_GIT_BRANCH_FORMAT, "refs/heads");
    csn_git_run(git, on_branches);
}

static void on_history(csn_git *git, csn_req *req, int status)
{
    csn_str err = csn_git_err(git);
    csn_auto(buf) csn_buf none = CSN_BUF_INIT;

    (void) req;
    if (status != 0 && memmem(err.data, err.len, "does not have any commits", 25)) {
        csn_buf_puts(&none, "[]");
        csn_git_answer_json(git, 200, &none);
        return;
    }
    answer_read(git, status, csn_git_history_json);
}

static void get_history(csn_req *req)
{
    csn_git *git = csn_git_of_query(req);

    if (!git)
        return;
    ARGS(git, "log", "-z", "--max-count=10000", CSN_GIT_LOG_FORMAT);
    csn_git_run(git, on_history);
}

/* --- branches ----------------------------------------------------------------------------------------------------- */

static void create_branch(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *name = body ? csn_git_name(req, body, "name") : NULL;
    csn_git *git = name ? csn_git_of_body(req, body) : NULL;

    if (!git)
        return;
    ARGS(git, "checkout", "-q", "-b", name);
    csn_git_run(git, csn_git_then_201);
}

static void delete_branch(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *name = body ? csn_git_name(req, body, "name") : NULL;
    csn_git *git = name ? csn_git_of_body(req, body) : NULL;

    if (!git)
        return;
    ARGS(git, "branch", "-q", "-D", "--", name);
    csn_git_run(git, csn_git_then_204);
}

static void checkout(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *branch = body ? csn_git_name(req, body, "branch") : NULL;
    csn_git *git = branch ? csn_git_of_body(req, body) : NULL;

    if (!git)
        return;
    ARGS(git, "checkout", "-q", branch, "--");
    csn_git_run(git, csn_git_then_200);
}

/* --- add, commit -------------------------------------------------------------------------------------------------- */

static void add(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req), *files = csn_json_get(body, "files");
    csn_git *git = body && are_files(req, files, true) ? csn_git_of_body(req, body) : NULL;

    if (!git)
        return;
    csn_git_arg(git, "add");
    put_files(git, files);
    csn_git_run(git, csn_git_then_200);
}

static void on_hash(csn_git *git, csn_req *req, int status)
{
    csn_str hash = csn_str_trim(csn_git_out(git));
    csn_auto(buf) csn_buf json = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&json, false);

    (void) req;
    if (status != 0) {
        csn_git_answer_failure(git);
        return;
    }
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "hash");
    csn_jw_string(&w, hash.data, hash.len);
    csn_jw_end_object(&w);
    csn_git_answer_json(git, 200, &json);
}

static void on_commit(csn_git *git, csn_req *req, int status)
{
    (void) req;
    if (status != 0) {
        csn_git_answer_failure(git);
        return;
    }
    ARGS(git, "rev-parse", "--verify", "HEAD");
    csn_git_run(git, on_hash);
}

static void put_person(csn_git *git, const char *name, const char *email)
{
    csn_git_env(git, "GIT_AUTHOR_NAME", name);
    csn_git_env(git, "GIT_AUTHOR_EMAIL", email);
    csn_git_env(git, "GIT_COMMITTER_NAME", name);
    csn_git_env(git, "GIT_COMMITTER_EMAIL", email);
}

static void commit(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *message = body ? csn_git_need(req, body, "message") : NULL;
    const char *author = message ? csn_git_need(req, body, "author") : NULL;
    const char *email = author ? csn_git_need(req, body, "email") : NULL;
    csn_git *git = email ? csn_git_of_body(req, body) : NULL;

    if (!git)
        return;
    put_person(git, author, email);
    csn_git_input(git, message, strlen(message));
    ARGS(git, "commit", "--no-verify", "--cleanup=whitespace", "-F", "-");
    if (csn_json_get_bool(body, "allow_empty", false))
        csn_git_arg(git, "--allow-empty");
    csn_git_run(git, on_commit);
}

/* --- init, reset, restore ----------------------------------------------------------------------------------------- */

static void init(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *path = body ? csn_git_need(req, body, "path") : NULL, *branch;
    csn_git *git;

    if (!path || !csn_git_name_or_none(req, body, "initial_branch", &branch) ||
        !(git = csn_git_new(req, NULL)))
        return;
    ARGS(git, "init", "-q");
    if (csn_json_get_bool(body, "bare", false))
        csn_git_arg(git, "--bare");
    if (branch[0])
        ARGS(git, "-b", branch);
    csn_git_arg(git, "--");
    csn_git_path_arg(git, path);
    csn_git_run(git, csn_git_then_201);
}

static const char *reset_mode(const char *mode)
{
    static const char *const modes[] = { "--mixed", "--soft", "--hard", "--merge", "--keep" };

    for (size_t i = 0; i < CSN_COUNT(modes); i++)
        if (strcmp(mode, modes[i] + 2) == 0)
            return modes[i];
    return NULL;
}

static void reset(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req), *files = csn_json_get(body, "files");
    const char *mode = csn_json_get_str(body, "mode", ""), *target;
    bool has_files = csn_json_count(files) > 0;
    csn_git *git;

    if (!body || !are_files(req, files, false) ||
        !csn_git_name_or_none(req, body, "target", &target))
        return;
    if (mode[0] && (!reset_mode(mode) || (has_files && strcmp(mode, "mixed") != 0))) {
        csn_req_error(req, 400, "BAD_REQUEST",
                      "mode must be mixed, soft, hard, merge or keep; with files only mixed");
        return;
    }
    if (!(git = csn_git_of_body(req, body)))
        return;
    ARGS(git, "reset", "-q");
    if (!has_files)
        csn_git_arg(git, reset_mode(mode[0] ? mode : "mixed"));
    if (target[0])
        csn_git_arg(git, target);
    put_files(git, files);
    csn_git_run(git, csn_git_then_200);
}

static void restore(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req), *files = csn_json_get(body, "files");
    const char *source;
    csn_git *git;

    if (!body || !are_files(req, files, true) ||
        !csn_git_name_or_none(req, body, "source", &source) || !(git = csn_git_of_body(req, body)))
        return;
    ARGS(git, "restore", "-q");
    if (source[0])
        ARGS(git, "--source", source);
    if (csn_json_get_bool(body, "staged", false))
        csn_git_arg(git, "--staged");
    if (csn_json_get_bool(body, "worktree", false))
        csn_git_arg(git, "--worktree");
    put_files(git, files);
    csn_git_run(git, csn_git_then_200);
}

static const csn_route routes[] = {
    CSN_GIT_ROUTE(CSN_GET, "/git/status", CSN_BODY_NONE, get_status),
    CSN_GIT_ROUTE(CSN_GET, "/git/branches", CSN_BODY_NONE, get_branches),
    CSN_GIT_ROUTE(CSN_GET, "/git/history", CSN_BODY_NONE, get_history),
    CSN_GIT_ROUTE(CSN_POST, "/git/branches", CSN_BODY_WHOLE, create_branch),
    CSN_GIT_ROUTE(CSN_DELETE, "/git/branches", CSN_BODY_WHOLE, delete_branch),
    CSN_GIT_ROUTE(CSN_POST, "/git/checkout", CSN_BODY_WHOLE, checkout),
    CSN_GIT_ROUTE(CSN_POST, "/git/add", CSN_BODY_WHOLE, add),
    CSN_GIT_ROUTE(CSN_POST, "/git/commit", CSN_BODY_WHOLE, commit),
    CSN_GIT_ROUTE(CSN_POST, "/git/init", CSN_BODY_WHOLE, init),
    CSN_GIT_ROUTE(CSN_POST, "/git/reset", CSN_BODY_WHOLE, reset),
    CSN_GIT_ROUTE(CSN_POST, "/git/restore", CSN_BODY_WHOLE, restore),
};

const csn_route_table csn_routes_git = CSN_ROUTE_TABLE(routes);
