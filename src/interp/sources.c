/* Workspaces: a repository, cloned without ever running anything of it on the host, and context files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caisson/files.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"
#include "interp.h"

enum { CLONE_MS = 300000, MAX_FILES = 10000, MAX_DEPTH = 32 };

extern char **environ;

/* ---- repositories ----------------------------------------------------------------------------------------------- */

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
}

char *csn_workspace_of(const char *repo_url)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_str url = csn_str_of(repo_url);
    size_t from;

    csn_buf_puts(&path, CSN_WORK_ROOT "/");
    if (!repo_url) {
        csn_buf_puts(&path, "daytona-workspace");
        return csn_buf_take(&path, NULL);
    }
    while (url.len && url.data[url.len - 1] == '/')
        url.len--;
    if (csn_str_ends_with(url, CSN_STR(".git")))
        url.len -= 4;
    for (from = url.len; from && url.data[from - 1] != '/' && url.data[from - 1] != ':';)
        from--;
    while (from < url.len && url.data[from] == '.')
        from++;
    for (size_t k = from; k < url.len; k++)
        csn_buf_putc(&path, is_plain(url.data[k]) ? url.data[k] : '-');
    if (from == url.len)
        csn_buf_puts(&path, "repo");
    return csn_buf_take(&path, NULL);
}

/* The path of a local repository, or NULL for a remote URL. */
static const char *local_path(const char *url)
{
    if (csn_starts_with(url, "file://"))
        return url + 7;
    if (strstr(url, "://"))
        return NULL;
    return url[0] == '/' || url[0] == '.' || access(url, F_OK) == 0 || !strchr(url, ':') ? url
                                                                                         : NULL;
}

/* Ours, without what would point git at another repository; it asks nobody, and fetches nothing that is missing, for the
 * repository's own settings would say by which command. */
static const char **git_environment(void)
{
    static const char *const ours[] = { "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0" };
    static const char *const kept[] = { "GIT_SSH", "GIT_SSL_", "GIT_ASKPASS=", "GIT_PROXY_" };
    size_t n_all = 0, n = 0;
    const char **env;

    while (environ[n_all])
        n_all++;
    env = csn_calloc(n_all + CSN_COUNT(ours) + 1, sizeof(*env));
    for (size_t k = 0; env && k < n_all; k++) {
        bool is_kept = !csn_starts_with(environ[k], "GIT_");

        for (size_t at = 0; at < CSN_COUNT(kept); at++)
            is_kept |= csn_starts_with(environ[k], kept[at]);
        if (is_kept)
            env[n++] = environ[k];
    }
    for (size_t k = 0; env && k < CSN_COUNT(ours); k++)
        env[n++] = ours[k];
    return env;
}

/* A repository's own settings name commands in many places, so everything that could run one is off; only a clone talks
 * to others, by protocols that are known. */
static int git(bool may_connect, const char *const *args, int64_t deadline_ns, csn_error *err)
{
    static const char *const fixed[] = { "git", "-c", "core.fsmonitor=false",
                                         "-c",  "core.hooksPath=/dev/null",
                                         "-c",  "safe.directory=*",
                                         "-c",  "protocol.allow=never" };
    static const char *const protocols[] = { "-c", "protocol.https.allow=always",
                                             "-c", "protocol.http.allow=always",
                                             "-c", "protocol.ssh.allow=always",
                                             "-c", "protocol.git.allow=always" };
    csn_auto(mem) const char **env = git_environment();
    const char *argv[40];
    csn_auto(buf) csn_buf out = CSN_BUF_INIT_MAX(64 << 10);
    csn_auto(buf) csn_buf said = CSN_BUF_INIT_MAX(64 << 10);
    size_t n = 0;
    int status, r;

    if (!env)
        return csn_fail_sys(err, -ENOMEM, "Daytona repo clone failure: git");
    for (; n < CSN_COUNT(fixed); n++)
        argv[n] = fixed[n];
    for (size_t k = 0; may_connect && k < CSN_COUNT(protocols); k++)
        argv[n++] = protocols[k];
    while (*args && n + 1 < CSN_COUNT(argv))
        argv[n++] = *args++;
    argv[n] = NULL;
    r = csn_host_run(argv, env, NULL, 0, deadline_ns, NULL, &out, &said, &status);
    if (r < 0)
        return csn_fail_sys(err, r, "Daytona repo clone failure: git");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        csn_str line = csn_str_trim(csn_str_n(said.data, said.len));

        return csn_fail(err, CSN_E_SYSTEM, "Daytona repo clone failure: %.*s", (int) line.len,
                        line.data);
    }
    return CSN_OK;
}

/* Everything a repository holds as one file, which is only read, never checked out, on this side. */
static int make_bundle(csn_interp *i, const char *dir, const char *bundle, csn_error *err)
{
    const char *path = local_path(i->in_place.repo_url);
    csn_auto(buf) csn_buf mirror = CSN_BUF_INIT;
    int64_t deadline = csn_deadline_in_ms(CLONE_MS);
    int r = CSN_OK;

    if (!path && !i->o.has_network)
        return csn_fail(
            err, CSN_E_DENIED,
            "Daytona repo clone failure: '%s' is remote and network is not allowed (--net)",
            i->in_place.repo_url);
    csn_buf_printf(&mirror, "%s/mirror.git", dir);
    if (!path) {
        const char *const args[] = { "clone",     "-q", "--mirror", "--", i->in_place.repo_url,
                                     mirror.data, NULL };

        r = git(true, args, deadline, err);
        path = mirror.data;
    }
    if (r >= 0) {
        const char *const args[] = { "-C",   path,   "bundle",     "create", "-q",
                                     bundle, "HEAD", "--branches", "--tags", NULL };

        r = git(false, args, deadline, err);
    }
    return r;
}

/* Runs inside: $1 bundle, $2 workspace, $3 the URL to remember, $4 ref or nothing. */
static const char clone_script[] =
    "set -e\n"
    "export GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0\n"
    "if [ -d \"$2/.git\" ]; then\n"
    "  [ \"$(git -C \"$2\" config remote.origin.url)\" = \"$3\" ] || rm -rf \"$2\"\n"
    "elif [ -d \"$2\" ] && [ -n \"$(ls -A \"$2\")\" ]; then\n"
    "  echo \"workspace '$2' is not empty and has no git metadata\" >&2; exit 1\n"
    "fi\n"
    "mkdir -p \"$(dirname \"$2\")\"\n"
    "[ -d \"$2/.git\" ] || git -c init.defaultBranch=main init -q \"$2\"\n"
    "cd \"$2\"\n"
    "git config remote.origin.url \"$3\"\n"
    "git fetch -q --prune --tags --force --update-head-ok \"$1\" '+refs/heads/*:refs/remotes/origin/*'\n"
    "if [ -z \"$4\" ]; then\n"
    "  commit=$(git ls-remote \"$1\" HEAD | cut -f1)\n"
    "  for b in $(git for-each-ref --format='%(refname:lstrip=3)' --points-at \"$commit\" refs/remotes/origin); do\n"
    "    git checkout -q -f -B \"$b\" \"refs/remotes/origin/$b\"; exit 0\n"
    "  done\n"
    "  git fetch -q \"$1\" HEAD; git checkout -q -f FETCH_HEAD; exit 0\n"
    "fi\n"
    "try=$4\n"
    "while :; do\n"
    "  if git rev-parse -q --verify \"refs/remotes/origin/$try^{commit}\" >/dev/null; then\n"
    "    git checkout -q -f -B \"$try\" \"refs/remotes/origin/$try\"; exit 0\n"
    "  fi\n"
    "  if git rev-parse -q --verify \"refs/tags/$try^{commit}\" >/dev/null; then\n"
    "    git checkout -q -f \"refs/tags/$try\"; exit 0\n"
    "  fi\n"
    "  if echo \"$try\" | grep -qE '^[0-9a-f]{7,40}$' && git rev-parse -q --verify \"$try^{commit}\" >/dev/null; then\n"
    "    git checkout -q -f \"$try\"; exit 0\n"
    "  fi\n"
    "  case $try in */*) try=${try%/*} ;; *) echo \"requested ref is not available: $4\" >&2; exit 1 ;; esac\n"
    "done\n";

static int clone_inside(csn_interp *i, const char *bundle, csn_error *err)
{
    const char *ref = i->in_place.repo_ref ? i->in_place.repo_ref : "";
    const char *const argv[] = { "sh",   "-c",         clone_script,         "sh",
                                 bundle, i->workspace, i->in_place.repo_url, ref,
                                 NULL };
    csn_process_options o = { .size = sizeof(o), .argv = argv, .timeout_ms = CLONE_MS };
    csn_run_result r = { 0 };
    csn_str said;
    int e = csn_run(i->box, &o, &r, err);

    if (e < 0)
        return csn_fail_in(err, e, "Daytona repo clone failure");
    said = csn_str_trim(csn_str_n(r.err, r.err_len));
    if (csn_receipt_status(&r.receipt) != 0)
        e = csn_fail(err, CSN_E_SYSTEM, "Daytona repo clone failure: %.*s", (int) said.len,
                     said.len ? said.data : "git failed");
    csn_run_result_done(&r);
    return e;
}

static int put_bundle(csn_interp *i, const char *from, const char *to, csn_error *err)
{
    csn_auto(fd) int fd = open(from, O_RDONLY | O_CLOEXEC);
    int64_t n;

    if (fd < 0)
        return csn_fail_sys(err, -errno, "Daytona repo clone failure: open the bundle");
    return csn_file_put_fd(i->box, to, fd, 0600, &n, err);
}

static void remove_dir(const char *dir)
{
    const char *const argv[] = { "rm", "-rf", "--", dir, NULL };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    int status;

    (void) csn_host_run(
        argv, (const char *const *) environ, NULL, 0, csn_deadline_in_ms(60000), NULL, &out, NULL,
        &status); /* a left-over lies in the state's temporary place and is swept by hand */
}

int csn_stage_repo(csn_interp *i, csn_error *err)
{
    char dir[] = "/tmp/caisson-repo-XXXXXX";
    csn_auto(buf) csn_buf bundle = CSN_BUF_INIT;
    char inside[64] = "/tmp/repo-";
    int r;

    if (!i->in_place.repo_url)
        return CSN_OK;
    if (!mkdtemp(dir) || csn_id_hex(inside + 10, 8) < 0)
        return csn_fail_sys(err, -errno, "make a directory for the clone");
    csn_buf_printf(&bundle, "%s/repo.bundle", dir);
    r = make_bundle(i, dir, bundle.data, err);
    if (r >= 0)
        r = put_bundle(i, bundle.data, inside, err);
    if (r >= 0)
        r = clone_inside(i, inside, err);
    (void) csn_file_delete(i->box, inside, 0, NULL); /* it may not have come that far */
    remove_dir(dir);
    if (r < 0)
        csn_note_failure(i, "sandbox_create_clone_error", "repo_clone");
    return r;
}

/* ---- context ---------------------------------------------------------------------------------------------------- */

struct staging {
    csn_interp *i;
    csn_buf to; /* path inside, grows and shrinks with the walk */
    csn_jw warnings;
    csn_buf warning_text;
    size_t n_files, n_skipped, n_texts, root_len;
    char **documents; /* paths inside whose text is to be told; NULL at the end, or NULL */
    size_t n_documents;
    csn_error *err;
};

static void skip(struct staging *s, const char *why)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    csn_buf_printf(&line, "Skipped %s: %s", s->to.data + s->root_len + 1, why);
    csn_jw_string(&s->warnings, line.data, line.len);
    s->n_skipped++;
}

static int note_document(struct staging *s)
{
    char **grown = csn_realloc_array(s->documents, s->n_documents + 2, sizeof(*grown));

    if (!grown)
        return -ENOMEM;
    s->documents = grown;
    grown[s->n_documents] = csn_strdup(s->to.data);
    grown[s->n_documents + 1] = NULL;
    return grown[s->n_documents++] ? 0 : -ENOMEM;
}

static void on_textless(const char *path, const char *why, void *user)
{
    struct staging *s = user;
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    csn_buf_printf(&line, "Skipped %s: %s", path + s->root_len + 1, why);
    csn_jw_string(&s->warnings, line.data, line.len);
    s->n_texts--;
}

/* The text of each document beside it; the document itself was staged as it is. */
static int extract_documents(struct staging *s, csn_error *err)
{
    s->n_texts = s->n_documents;
    return s->n_documents ? csn_documents_extract(s->i->box, (const char *const *) s->documents,
                                                  on_textless, s, err)
                          : CSN_OK;
}

static void free_staging(struct staging *s)
{
    for (size_t k = 0; k < s->n_documents; k++)
        free(s->documents[k]);
    free(s->documents);
    csn_buf_free(&s->to);
    csn_buf_free(&s->warning_text);
}

static int put_file(struct staging *s, int dir_fd, const char *name)
{
    csn_auto(fd) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    int64_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (csn_file_put_fd(s->i->box, s->to.data, fd, 0644, &n, s->err) < 0)
        return -EIO;
    s->n_files++;
    return csn_is_document(name) && note_document(s) < 0 ? -EIO : 0;
}

static int put_dir(struct staging *s, int dir_fd, const char *name, unsigned depth)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    int r = 0;

    if (!dir) {
        csn_close(&fd);
        return -errno;
    }
    while (r == 0 && (e = readdir(dir))) {
        size_t len = s->to.len;
        struct stat st;
        int one;

        if (csn_streq(e->d_name, ".") || csn_streq(e->d_name, "..") || csn_streq(e->d_name, ".git"))
            continue;
        csn_buf_printf(&s->to, "/%s", e->d_name);
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            one = -errno;
        else if (S_ISDIR(st.st_mode))
            one = depth < MAX_DEPTH ? put_dir(s, dirfd(dir), e->d_name, depth + 1) : -ELOOP;
        else
            one = S_ISREG(st.st_mode) && s->n_files < MAX_FILES ? put_file(s, dirfd(dir), e->d_name)
                                                                : -EINVAL;
        if (one == -EIO)
            r = one;
        else if (one < 0)
            skip(s, one == -EINVAL ? "not a regular file" : csn_strerror(one));
        csn_buf_truncate(&s->to, len);
    }
    closedir(dir);
    return r;
}

static char *expand(const char *path)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    const char *home = getenv("HOME");

    if (path[0] == '~' && (path[1] == '/' || !path[1]) && home)
        csn_buf_printf(&out, "%s%s", home, path + 1);
    else
        csn_buf_puts(&out, path);
    return csn_buf_take(&out, NULL);
}

static void put_slug(csn_buf *out, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path,
               *dot = strrchr(name, '.');
    size_t len = dot && dot != name ? (size_t) (dot - name) : strlen(name), start = out->len;

    for (size_t k = 0; k < len; k++) {
        char c = name[k] >= 'A' && name[k] <= 'Z' ? (char) (name[k] - 'A' + 'a') : name[k];
        bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_';

        if (is_word || (out->len > start && out->data[out->len - 1] != '-'))
            csn_buf_putc(out, is_word ? c : '-');
    }
    if (out->len == start)
        csn_buf_puts(out, "context");
}

static void put_source(struct staging *s, csn_jw *w, size_t number, bool is_dir,
                       const char *host_path)
{
    csn_auto(buf) csn_buf id = CSN_BUF_INIT;
    const char *dot = strrchr(host_path, '.');

    csn_buf_printf(&id, "context-%zu", number);
    csn_jw_end_array(&s->warnings);
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "source_id", id.data);
    csn_jw_kstr(w, "kind", is_dir ? "directory" : "file");
    csn_jw_kstr(w, "host_path", host_path);
    csn_jw_kstr(w, "staged_path", s->to.data);
    csn_jw_kstr(w, "source_type",
                is_dir                     ? "directory"
                : dot && !strchr(dot, '/') ? dot + 1
                                           : "file");
    csn_jw_kstr(w, "extraction_method", s->n_texts ? "text" : "copy");
    csn_jw_kint(w, "file_count", (int64_t) s->n_files);
    csn_jw_kint(w, "skipped_count", (int64_t) s->n_skipped);
    csn_jw_key(w, "warnings");
    csn_jw_raw(w, s->warning_text.data, s->warning_text.len);
    csn_jw_end_object(w);
}

static int stage_one(csn_interp *i, const char *root, size_t number, const char *given, csn_jw *w,
                     csn_error *err)
{
    csn_auto(mem) char *path = expand(given);
    struct staging s = { .i = i, .to = CSN_BUF_INIT, .warning_text = CSN_BUF_INIT, .err = err };
    struct stat st = { 0 };
    int r = CSN_OK, e = 0;

    s.warnings = (csn_jw) CSN_JW_INIT(&s.warning_text, false);
    csn_jw_begin_array(&s.warnings);
    csn_buf_printf(&s.to, "%s/%02zu-", root, number);
    put_slug(&s.to, path ? path : "");
    s.root_len = s.to.len;
    if (!path || stat(path, &st) < 0) {
        r = csn_fail(err, CSN_E_NOT_FOUND, "Context path does not exist: %s", given);
    } else if (access(path, R_OK) < 0) {
        r = csn_fail(err, CSN_E_DENIED, "Context path is not readable: %s", given);
    } else if (S_ISDIR(st.st_mode)) {
        e = put_dir(&s, AT_FDCWD, path, 0);
        if (e == 0 && s.n_files == 0)
            r = csn_fail(err, CSN_E_NOT_FOUND, "No supported readable files found in directory: %s",
                         given);
    } else {
        const char *slash = strrchr(path, '/');

        csn_buf_printf(&s.to, "/%s", slash ? slash + 1 : path);
        e = put_file(&s, AT_FDCWD, path);
    }
    if (r == CSN_OK && e < 0)
        r = e == -EIO ? csn_fail_in(err, CSN_E_SYSTEM, "stage '%s'", given)
                      : csn_fail(err, CSN_E_DENIED, "Context path is not readable: %s", given);
    if (r == CSN_OK)
        r = extract_documents(&s, err);
    if (r == CSN_OK && path)
        put_source(&s, w, number, S_ISDIR(st.st_mode), path);
    free_staging(&s);
    return r;
}

static int put_manifest(csn_interp *i, const char *root, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, true);

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "sources");
    csn_jw_raw(&w, i->context_json.data, i->context_json.len);
    csn_jw_end_object(&w);
    csn_buf_printf(&path, "%s/manifest.json", root);
    return csn_file_put(i->box, path.data, text.data, text.len, 0644, err);
}

int csn_stage_context(csn_interp *i, csn_error *err)
{
    csn_auto(buf) csn_buf root = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&i->context_json, false);
    int r = CSN_OK;

    csn_buf_clear(&i->context_json);
    csn_buf_printf(&root, "%s/.fleet-rlm/context", i->workspace);
    (void) csn_file_delete(i->box, root.data, 1, NULL); /* none there is fine */
    if (!i->in_place.context_paths[0])
        return CSN_OK;
    csn_jw_begin_array(&w);
    for (size_t k = 0; r >= 0 && i->in_place.context_paths[k]; k++)
        r = stage_one(i, root.data, k + 1, i->in_place.context_paths[k], &w, err);
    csn_jw_end_array(&w);
    if (r >= 0)
        r = put_manifest(i, root.data, err);
    if (r < 0)
        csn_note_failure(i, "context_stage_error", "context_stage");
    return r;
}
