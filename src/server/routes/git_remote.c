/* SPDX-License-Identifier: Apache-2.0 */
/* git with other machines: clone, push, pull, remotes, and what it remembers for that (WIRE 9.6). */
#include <errno.h>

#include "base/str.h"
#include "server/git_map.h"
#include "server/git_status.h"
#include "server/routes/git.h"

#define ARGS(git, ...) csn_git_args((git), (const char *const[]){ __VA_ARGS__, NULL })

/* A value of a credential is a line. */
static bool is_line(const char *text)
{
    return !strpbrk(text, "\r\n");
}

static bool read_login(csn_req *req, const csn_json *body, const char **ret_user,
                       const char **ret_password)
{
    *ret_user = csn_json_get_str(body, "username", "");
    *ret_password = csn_json_get_str(body, "password", "");
    if (is_line(*ret_user) && is_line(*ret_password))
        return true;
    csn_req_error(req, 400, "BAD_REQUEST", "username and password must not hold line ends");
    return false;
}

/* --- clone -------------------------------------------------------------------------------------------------------- */

static bool read_url(csn_req *req, const char *text, csn_git_url *ret)
{
    int r = csn_git_url_read(text, ret);

    if (r == -EPROTONOSUPPORT)
        csn_req_error(req, 400, "BAD_REQUEST", "url must be an address of https, http or ssh");
    else if (r < 0)
        csn_req_error(req, 400, "BAD_REQUEST", "url is not an address");
    return r >= 0;
}

/* The credentials given beside the address win over those in it. */
static void put_login(csn_git *git, const csn_json *body, const csn_git_url *url)
{
    const char *user = csn_json_get_str(body, "username", "");
    const char *password = csn_json_get_str(body, "password", "");
    const char *sep = strstr(url->url.data, "://"), *host = sep ? sep + 3 : "";
    csn_auto(buf) csn_buf name = CSN_BUF_INIT;

    csn_buf_append(&name, host, strcspn(host, "/?#"));
    if (user[0] || password[0])
        csn_git_credentials(git, user, password, name.data);
    else
        csn_git_credentials(git, url->user.data, url->password.data, name.data);
}

static void checkout_commit(csn_git *git, csn_req *req, csn_git_fn *then)
{
    const csn_json *body = csn_req_json_body(req);

    ARGS(git, "-C");
    csn_git_path_arg(git, csn_json_get_str(body, "path", ""));
    ARGS(git, "checkout", "-q", "--detach", csn_json_get_str(body, "commit_id", ""), "--");
    csn_git_run(git, then);
}

static void on_fetched(csn_git *git, csn_req *req, int status)
{
    if (status != 0)
        csn_git_answer_failure(git);
    else
        checkout_commit(git, req, csn_git_then_200);
}

/* Not on the branch that was cloned, or not as deep: asked for by itself. */
static void on_checked_out(csn_git *git, csn_req *req, int status)
{
    const csn_json *body = csn_req_json_body(req);

    if (status == 0) {
        csn_git_answer_empty(git, 200);
        return;
    }
    ARGS(git, "-C");
    csn_git_path_arg(git, csn_json_get_str(body, "path", ""));
    ARGS(git, "fetch", "-q", "origin", csn_json_get_str(body, "commit_id", ""));
    csn_git_run(git, on_fetched);
}

static void on_widened(csn_git *git, csn_req *req, int status)
{
    if (status != 0)
        csn_git_answer_failure(git);
    else if (csn_json_get_str(csn_req_json_body(req), "commit_id", "")[0])
        checkout_commit(git, req, on_checked_out);
    else
        csn_git_answer_empty(git, 200);
}

/* One branch was cloned; the others shall not be unknown for ever: what is pushed or pulled later has its upstream. */
static void on_cloned(csn_git *git, csn_req *req, int status)
{
    const csn_json *body = csn_req_json_body(req);

    if (status != 0 || csn_json_get_int(body, "depth", 0) > 0) {
        on_widened(git, req, status);
        return;
    }
    csn_git_arg(git, "-C");
    csn_git_path_arg(git, csn_json_get_str(body, "path", ""));
    ARGS(git, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*");
    csn_git_run(git, on_widened);
}

static void put_clone(csn_git *git, const csn_json *body, const char *branch,
                      const csn_git_url *url)
{
    int64_t depth = csn_json_get_int(body, "depth", 0);
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    ARGS(git, "clone", "-q", "--single-branch");
    if (branch[0])
        ARGS(git, "--branch", branch);
    if (depth > 0) {
        csn_buf_printf(&text, "--depth=%lld", (long long) depth);
        csn_git_arg(git, text.data);
    }
    ARGS(git, "--", url->url.data);
    csn_git_path_arg(git, csn_json_get_str(body, "path", ""));
}

static void clone(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *text = body ? csn_git_need(req, body, "url") : NULL, *branch, *commit, *user, *pass;
    csn_auto(git_url) csn_git_url url = CSN_GIT_URL_INIT;
    csn_git *git;

    if (!text || !csn_git_need(req, body, "path") ||
        !csn_git_name_or_none(req, body, "branch", &branch) ||
        !csn_git_name_or_none(req, body, "commit_id", &commit) ||
        !read_login(req, body, &user, &pass) || !read_url(req, text, &url) ||
        !(git = csn_git_new(req, NULL)))
        return;
    put_login(git, body, &url);
    if (csn_json_get_bool(body, "insecure_skip_tls", false))
        csn_git_config(git, "http.sslVerify=false");
    put_clone(git, body, branch, &url);
    csn_git_run(git, on_cloned);
}

/* --- push, pull --------------------------------------------------------------------------------------------------- */

/* The git for it, with login, or NULL after an answer. */
static csn_git *begin_exchange(csn_req *req, const csn_json *body, const char **ret_remote,
                               const char **ret_branch)
{
    const char *user, *password;
    csn_git *git;

    if (!body || !read_login(req, body, &user, &password) ||
        !csn_git_name_or_none(req, body, "remote", ret_remote) ||
        !csn_git_name_or_none(req, body, "branch", ret_branch) ||
        !(git = csn_git_of_body(req, body)))
        return NULL;
    csn_git_credentials(git, user, password, NULL);
    return git;
}

static void on_looked_up(csn_git *git, csn_req *req, int status)
{
    (void) req;
    if (status != 0)
        csn_git_answer_failure(git);
    else
        csn_git_answer_bad(git, 400, "BAD_REQUEST",
                           "the remote is not at an address of https, http or ssh");
}

/* A remote that isn't known is taken for a path, and paths are refused: which of the two was it? */
static void on_exchanged(csn_git *git, csn_req *req, int status)
{
    const char *remote = csn_json_get_str(csn_req_json_body(req), "remote", "");
    csn_str err = csn_git_err(git);

    if (status == 0 || !memmem(err.data, err.len, "'file' not allowed", 18)) {
        csn_git_then_200(git, req, status);
        return;
    }
    ARGS(git, "remote", "get-url", "--", remote[0] ? remote : "origin");
    csn_git_run(git, on_looked_up);
}

static void push(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *remote, *branch;
    csn_auto(buf) csn_buf ref = CSN_BUF_INIT;
    csn_git *git = begin_exchange(req, body, &remote, &branch);

    if (!git)
        return;
    ARGS(git, "push", "-q");
    if (csn_json_get_bool(body, "set_upstream", false))
        csn_git_arg(git, "--set-upstream");
    if (branch[0])
        csn_buf_printf(&ref, "refs/heads/%s:refs/heads/%s", branch, branch);
    ARGS(git, "--", remote[0] ? remote : "origin", branch[0] ? ref.data : "HEAD");
    csn_git_run(git, on_exchanged);
}

static void put_pull(csn_git *git)
{
    csn_git_config(git, "pull.rebase=false");
    ARGS(git, "pull", "-q", "--ff-only");
}

static void on_current(csn_git *git, csn_req *req, int status)
{
    csn_str name = csn_str_trim(csn_git_out(git));
    csn_auto(buf) csn_buf branch = CSN_BUF_INIT;
    const char *remote = csn_json_get_str(csn_req_json_body(req), "remote", "");

    if (status != 0) {
        csn_git_answer_bad(git, 400, "BAD_REQUEST", "the repository is not on a branch: name one");
        return;
    }
    csn_buf_append(&branch, name.data, name.len);
    put_pull(git);
    ARGS(git, "--", remote[0] ? remote : "origin", branch.data);
    csn_git_run(git, on_exchanged);
}

static void ask_current(csn_git *git)
{
    ARGS(git, "symbolic-ref", "-q", "--short", "HEAD");
    csn_git_run(git, on_current);
}

/* Without an upstream: the branch of the same name at origin. */
static void on_pulled(csn_git *git, csn_req *req, int status)
{
    csn_str err = csn_git_err(git);

    if (status != 0 && memmem(err.data, err.len, "no tracking information", 23))
        ask_current(git);
    else
        on_exchanged(git, req, status);
}

static void pull(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *remote, *branch;
    csn_git *git = begin_exchange(req, body, &remote, &branch);

    if (!git)
        return;
    if (remote[0] && !branch[0]) {
        ask_current(git);
        return;
    }
    put_pull(git);
    if (branch[0])
        ARGS(git, "--", remote[0] ? remote : "origin", branch);
    csn_git_run(git, branch[0] ? on_exchanged : on_pulled);
}

/* --- remotes ------------------------------------------------------------------------------------------------------ */

static void on_remotes(csn_git *git, csn_req *req, int status)
{
    csn_auto(buf) csn_buf json = CSN_BUF_INIT;

    (void) req;
    if (status > 1 || (status == 1 && csn_git_err(git).len > 0)) /* 1: there is none */
        csn_git_answer_failure(git);
    else if (csn_git_remotes_json(csn_git_out(git), &json) < 0)
        csn_git_answer_bad(git, 500, NULL, "git's output could not be read");
    else
        csn_git_answer_json(git, 200, &json);
}

static void get_remotes(csn_req *req)
{
    csn_git *git = csn_git_of_query(req);

    if (!git)
        return;
    ARGS(git, "config", "--local", "-z", "--get-regexp", "^remote\\..*\\.url$");
    csn_git_run(git, on_remotes);
}

static void fetch_if_wanted(csn_git *git, csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);

    if (!csn_json_get_bool(body, "fetch", false)) {
        csn_git_answer_empty(git, 201);
        return;
    }
    ARGS(git, "fetch", "-q", "--", csn_json_get_str(body, "name", ""));
    csn_git_run(git, csn_git_then_201);
}

static void on_remote_set(csn_git *git, csn_req *req, int status)
{
    if (status != 0)
        csn_git_answer_failure(git);
    else
        fetch_if_wanted(git, req);
}

static void on_remote_added(csn_git *git, csn_req *req, int status)
{
    const csn_json *body = csn_req_json_body(req);
    csn_str err = csn_git_err(git);

    if (status != 0 && csn_json_get_bool(body, "overwrite", false) &&
        memmem(err.data, err.len, "already exists", 14)) {
        ARGS(git, "remote", "set-url", "--", csn_json_get_str(body, "name", ""),
             csn_json_get_str(body, "url", ""));
        csn_git_run(git, on_remote_set);
        return;
    }
    on_remote_set(git, req, status);
}

static void add_remote(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *name = body ? csn_git_name(req, body, "name") : NULL;
    const char *url = name ? csn_git_name(req, body, "url") : NULL;
    csn_git *git;

    if (!url)
        return;
    if (csn_git_url_has_password(url)) {
        csn_req_error(req, 400, "BAD_REQUEST",
                      "url holds credentials, which would stay in the repository: give them with "
                      "push and pull, or to /git/credentials");
        return;
    }
    if (!(git = csn_git_of_body(req, body)))
        return;
    ARGS(git, "remote", "add", "--", name, url);
    csn_git_run(git, on_remote_added);
}

/* --- configuration ------------------------------------------------------------------------------------------------ */

/* The option for a scope, or NULL after an answer. path NULL or "": none was given. */
static const char *scope_option(csn_req *req, const char *scope, const char *path)
{
    if (!scope || !scope[0] || strcmp(scope, "global") == 0)
        return "--global";
    if (strcmp(scope, "system") == 0)
        return "--system";
    if (strcmp(scope, "local") == 0 && path && path[0])
        return "--local";
    csn_req_error(req, 400, "BAD_REQUEST",
                  "scope must be global, system, or local with the path of a repository");
    return NULL;
}

/* "section.name" and "section.sub.name"; what git itself would refuse is left to it. */
static bool is_key(const char *key)
{
    return csn_git_is_name(key) && strchr(key, '.');
}

static csn_git *begin_config(csn_req *req, const char *scope, const char *path,
                             const char **ret_option)
{
    const char *option = scope_option(req, scope, path);

    *ret_option = option;
    if (!option)
        return NULL;
    return csn_git_new(req, strcmp(option, "--local") == 0 ? path : NULL);
}

static void on_config(csn_git *git, csn_req *req, int status)
{
    csn_str value = csn_git_out(git);
    csn_auto(buf) csn_buf json = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&json, false);

    (void) req;
    if (status > 1 || (status == 1 && csn_git_err(git).len > 0)) {
        csn_git_answer_failure(git);
        return;
    }
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "value");
    if (status == 1)
        csn_jw_null(&w);
    else
        csn_jw_string(&w, value.data, value.len > 0 ? value.len - 1 : 0); /* a NUL behind it */
    csn_jw_end_object(&w);
    csn_git_answer_json(git, 200, &json);
}

static void get_config(csn_req *req)
{
    const char *key = csn_req_query(req, "key"), *scope = csn_req_query(req, "scope"), *option;
    const char *path = csn_req_query(req, "path");
    csn_git *git;

    if (!key || !is_key(key)) {
        csn_req_error(req, 400, "BAD_REQUEST", "key must be of the form section.name");
        return;
    }
    if ((!scope || !scope[0]) && path && path[0]) {
        if (!(git = csn_git_new(req, path))) /* whatever scope has it, as git itself looks */
            return;
        ARGS(git, "config", "-z", "--get", key);
    } else {
        if (!(git = begin_config(req, scope, path, &option)))
            return;
        ARGS(git, "config", option, "-z", "--get", key);
    }
    csn_git_run(git, on_config);
}

static void set_config(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *key = body ? csn_git_need(req, body, "key") : NULL, *option;
    csn_git *git;

    if (!key)
        return;
    if (!is_key(key) || csn_json_type_of(csn_json_get(body, "value")) != CSN_JSON_STRING) {
        csn_req_error(req, 400, "BAD_REQUEST",
                      "key must be of the form section.name, and value text");
        return;
    }
    git = begin_config(req, csn_json_get_str(body, "scope", ""), csn_json_get_str(body, "path", ""),
                       &option);
    if (!git)
        return;
    ARGS(git, "config", option, "--replace-all", key, csn_json_get_str(body, "value", ""));
    csn_git_run(git, csn_git_then_200);
}

static void on_name_set(csn_git *git, csn_req *req, int status)
{
    const csn_json *body = csn_req_json_body(req);

    if (status != 0) {
        csn_git_answer_failure(git);
        return;
    }
    ARGS(git, "config",
         scope_option(req, csn_json_get_str(body, "scope", ""), csn_json_get_str(body, "path", "")),
         "--replace-all", "user.email", csn_json_get_str(body, "email", ""));
    csn_git_run(git, csn_git_then_200);
}

static void set_user(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *name = body ? csn_git_need(req, body, "name") : NULL, *option;
    csn_git *git;

    if (!name || !csn_git_need(req, body, "email"))
        return;
    git = begin_config(req, csn_json_get_str(body, "scope", ""), csn_json_get_str(body, "path", ""),
                       &option);
    if (!git)
        return;
    ARGS(git, "config", option, "--replace-all", "user.name", name);
    csn_git_run(git, on_name_set);
}

/* Kept by git's own helper in a file that only the sandbox's user may read: what the caller asked for. */
static void on_helper_set(csn_git *git, csn_req *req, int status)
{
    const csn_json *body = csn_req_json_body(req);
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    if (status != 0) {
        csn_git_answer_failure(git);
        return;
    }
    csn_buf_printf(&text, "protocol=%s\nhost=%s\nusername=%s\npassword=%s\n\n",
                   csn_json_get_str(body, "protocol", "https"),
                   csn_json_get_str(body, "host", "github.com"),
                   csn_json_get_str(body, "username", ""), csn_json_get_str(body, "password", ""));
    csn_git_input(git, text.data, text.len);
    ARGS(git, "credential", "approve");
    csn_git_run(git, csn_git_then_200);
}

static void set_credentials(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *user, *password;
    csn_git *git;

    if (!body || !csn_git_need(req, body, "username") || !csn_git_need(req, body, "password") ||
        !read_login(req, body, &user, &password))
        return;
    if (!is_line(csn_json_get_str(body, "host", "")) ||
        !is_line(csn_json_get_str(body, "protocol", ""))) {
        csn_req_error(req, 400, "BAD_REQUEST", "host and protocol must not hold line ends");
        return;
    }
    if (!(git = csn_git_new(req, NULL)))
        return;
    ARGS(git, "config", "--global", "--replace-all", "credential.helper", "store");
    csn_git_run(git, on_helper_set);
}

static const csn_route routes[] = {
    CSN_GIT_ROUTE(CSN_POST, "/git/clone", CSN_BODY_WHOLE, clone),
    CSN_GIT_ROUTE(CSN_POST, "/git/push", CSN_BODY_WHOLE, push),
    CSN_GIT_ROUTE(CSN_POST, "/git/pull", CSN_BODY_WHOLE, pull),
    CSN_GIT_ROUTE(CSN_GET, "/git/remotes", CSN_BODY_NONE, get_remotes),
    CSN_GIT_ROUTE(CSN_POST, "/git/remotes", CSN_BODY_WHOLE, add_remote),
    CSN_GIT_ROUTE(CSN_GET, "/git/config", CSN_BODY_NONE, get_config),
    CSN_GIT_ROUTE(CSN_POST, "/git/config", CSN_BODY_WHOLE, set_config),
    CSN_GIT_ROUTE(CSN_POST, "/git/config/user", CSN_BODY_WHOLE, set_user),
    CSN_GIT_ROUTE(CSN_POST, "/git/credentials", CSN_BODY_WHOLE, set_credentials),
};

const csn_route_table csn_routes_git_remote = CSN_ROUTE_TABLE(routes);
