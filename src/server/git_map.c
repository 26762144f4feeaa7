/* SPDX-License-Identifier: Apache-2.0 */
#include "server/git_map.h"

#include <errno.h>

#include "base/utf8.h"

enum { MESSAGE_MAX = 2048 };

/* In the order of trust: the first words found say what it was. */
static const struct {
    const char *words;
    csn_git_fault fault;
} faults[] = {
    { "Authentication failed", { 401, "GIT_AUTH_FAILED" } },
    { "could not read Username", { 401, "GIT_AUTH_FAILED" } },
    { "could not read Password", { 401, "GIT_AUTH_FAILED" } },
    { "terminal prompts disabled", { 401, "GIT_AUTH_FAILED" } },
    { "Permission denied (publickey", { 401, "GIT_AUTH_FAILED" } },
    { "returned error: 401", { 401, "GIT_AUTH_FAILED" } },
    { "returned error: 403", { 403, "FORBIDDEN" } },
    { "returned error: 404", { 404, "GIT_REPO_NOT_FOUND" } },
    { "returned error: 5", { 502, "GIT_TRANSPORT_FAILED" } },
    { "cannot change to '", { 404, "GIT_REPO_NOT_FOUND" } },
    { "not a git repository", { 404, "GIT_REPO_NOT_FOUND" } },
    { "does not appear to be a git repository", { 404, "GIT_REPO_NOT_FOUND" } },
    { "Repository not found", { 404, "GIT_REPO_NOT_FOUND" } },
    { "No such remote", { 404, "GIT_REPO_NOT_FOUND" } },
    { "[remote rejected]", { 422, "GIT_REMOTE_REJECTED" } },
    { "[rejected]", { 409, "GIT_PUSH_REJECTED" } },
    { "would be overwritten by", { 409, "GIT_DIRTY_WORKTREE" } },
    { "commit your changes or stash them", { 409, "GIT_DIRTY_WORKTREE" } },
    { "not uptodate. Cannot merge", { 409, "GIT_DIRTY_WORKTREE" } },
    { "Not possible to fast-forward", { 409, "GIT_MERGE_CONFLICT" } },
    { "unmerged files", { 409, "GIT_MERGE_CONFLICT" } },
    { "needs merge", { 409, "GIT_MERGE_CONFLICT" } },
    { "resolve your current index first", { 409, "GIT_MERGE_CONFLICT" } },
    { "in the middle of a merge", { 409, "GIT_MERGE_CONFLICT" } },
    { "CONFLICT (", { 409, "GIT_MERGE_CONFLICT" } },
    { "already exists and is not an empty directory", { 409, "CONFLICT" } },
    { "a branch named ", { 409, "GIT_BRANCH_EXISTS" } },
    { "annot delete branch", { 409, "CONFLICT" } },
    { "index.lock': File exists", { 409, "CONFLICT" } },
    { "nothing to commit", { 409, "CONFLICT" } },
    { "nothing added to commit", { 409, "CONFLICT" } },
    { "no changes added to commit", { 409, "CONFLICT" } },
    { "not allowed", { 400, "BAD_REQUEST" } }, /* transport '…' not allowed */
    { "is not a valid branch name", { 400, "BAD_REQUEST" } },
    { "disallowed characters", { 400, "BAD_REQUEST" } }, /* in an author's name */
    { "invalid initial branch name", { 400, "BAD_REQUEST" } },
    { "is not a valid remote name", { 400, "BAD_REQUEST" } },
    { "key does not contain", { 400, "BAD_REQUEST" } },
    { "invalid key", { 400, "BAD_REQUEST" } },
    { "is outside repository", { 400, "BAD_REQUEST" } },
    { "Remote branch ", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "couldn't find remote ref", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "no such ref was fetched", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "src refspec ", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "invalid reference", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "error: branch '", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "reference is not a tree", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "unable to read tree", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "unknown revision", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "bad revision", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "Failed to resolve '", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "could not resolve ", { 404, "GIT_BRANCH_NOT_FOUND" } }, /* restore --source */
    { "ambiguous argument", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "not our ref", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "not a commit", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "There is no tracking information", { 404, "GIT_BRANCH_NOT_FOUND" } },
    { "You are not currently on a branch", { 400, "BAD_REQUEST" } },
    { "repository '", { 404, "GIT_REPO_NOT_FOUND" } }, /* repository '…' not found */
    { "did not match any file", { 400, "BAD_REQUEST" } },
    { "already exists", { 409, "CONFLICT" } },
    { "unable to access '", { 502, "GIT_TRANSPORT_FAILED" } },
    { "Could not resolve host", { 502, "GIT_TRANSPORT_FAILED" } },
    { "Could not read from remote", { 502, "GIT_TRANSPORT_FAILED" } },
    { "remote end hung up", { 502, "GIT_TRANSPORT_FAILED" } },
    { "early EOF", { 502, "GIT_TRANSPORT_FAILED" } },
    { "RPC failed", { 502, "GIT_TRANSPORT_FAILED" } },
    { "Connection refused", { 502, "GIT_TRANSPORT_FAILED" } },
    { "Connection timed out", { 502, "GIT_TRANSPORT_FAILED" } },
    { "Permission denied", { 403, "FORBIDDEN" } },
    { "insufficient permission", { 403, "FORBIDDEN" } },
    { "could not lock config file", { 403, "FORBIDDEN" } },
    { "No space left on device", { 507, "DISK_FULL" } },
};

static bool contains(csn_str text, const char *words)
{
    return text.len > 0 && memmem(text.data, text.len, words, strlen(words)) != NULL;
}

/* git says "hint: …" for people at a terminal. */
static bool is_worth_telling(csn_str line)
{
    return line.len > 0 && !csn_str_starts_with(line, CSN_STR("hint:")) &&
           !csn_str_starts_with(line, CSN_STR("Cloning into"));
}

static void tell(csn_str text, csn_buf *message)
{
    csn_str line;

    while (csn_str_split(&text, '\n', &line) && message->len < MESSAGE_MAX) {
        line = csn_str_trim(line);
        if (!is_worth_telling(line))
            continue;
        if (message->len > 0)
            csn_buf_puts(message, "\n");
        if (line.len > MESSAGE_MAX)
            line.len = MESSAGE_MAX;
        csn_utf8_lossy(NULL, line.data, line.len, message);
    }
}

const csn_git_fault *csn_git_failure(csn_str err, csn_str out, csn_buf *message)
{
    static const csn_git_fault unknown = { 500, "INTERNAL_SERVER_ERROR" };

    tell(err, message);
    if (message->len == 0)
        tell(out, message);
    for (size_t i = 0; i < CSN_COUNT(faults); i++)
        if (contains(err, faults[i].words) || contains(out, faults[i].words))
            return &faults[i].fault;
    return &unknown;
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

void csn_git_url_auto(csn_git_url *url)
{
    csn_buf_free(&url->url);
    csn_buf_free(&url->user);
    csn_buf_free(&url->password);
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text <= ' ' || *text == 0x7f)
            return false;
    return true;
}

/* "git@host:path": ssh without saying so. */
static bool is_scp_like(const char *text)
{
    size_t until = strcspn(text, "/:");
    const char *at = memchr(text, '@', until);

    return at && at > text && text[until] == ':' && text[until + 1] != ':';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char) (c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int decode(csn_str s, csn_buf *out)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex_digit(s.data[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(s.data[i + 2]) : -1;
            if (low < 0)
                return -EINVAL;
            c = (char) (high << 4 | low);
            i += 2;
        }
        if ((unsigned char) c < ' ' || c == 0x7f) /* would end a line of the helper's answer */
            return -EINVAL;
        csn_buf_putc(out, c);
    }
    return out->error;
}

static bool is_known_scheme(csn_str scheme)
{
    return csn_str_is(scheme, "https") || csn_str_is(scheme, "http") || csn_str_is(scheme, "ssh");
}

/* "user:password@host": the credentials go to the helper, the rest stays. ssh needs its user in the address. */
static int split_user(csn_str host, bool is_ssh, csn_git_url *ret)
{
    const char *at = memrchr(host.data, '@', host.len);
    csn_str user, rest;
    int r = 0;

    if (!at)
        return csn_buf_append(&ret->url, host.data, host.len);
    rest = csn_str_n(host.data, (size_t) (at - host.data));
    (void) csn_str_split(&rest, ':', &user); /* always one part */
    if (is_ssh)
        csn_buf_append(&ret->url, user.data, user.len);
    else
        r = decode(user, &ret->user);
    if (r == 0 && rest.data)
        r = decode(rest, &ret->password);
    if (is_ssh)
        csn_buf_putc(&ret->url, '@');
    csn_buf_append(&ret->url, at + 1, host.len - (size_t) (at + 1 - host.data));
    return r < 0 ? r : ret->url.error;
}

int csn_git_url_read(const char *text, csn_git_url *ret)
{
    const char *sep = strstr(text, "://");
    csn_str scheme = sep ? csn_str_n(text, (size_t) (sep - text)) : CSN_STR("https");
    const char *host = sep ? sep + 3 : text;
    size_t host_len = strcspn(host, "/?#");
    int r;

    if (!*text || *text == '-' || !is_plain(text) || strlen(text) > 4096)
        return -EINVAL;
    if (!sep && is_scp_like(text))
        return csn_buf_puts(&ret->url, text);
    if (!is_known_scheme(scheme))
        return -EPROTONOSUPPORT;
    if (!sep && (strstr(text, "::") || *text == '/' || *text == '.'))
        return -EPROTONOSUPPORT; /* a helper's name, or a path */
    if (host_len == 0 || host[0] == '-')
        return -EINVAL;
    csn_buf_append(&ret->url, scheme.data, scheme.len);
    csn_buf_puts(&ret->url, "://");
    r = split_user(csn_str_n(host, host_len), csn_str_is(scheme, "ssh"), ret);
    return r < 0 ? r : csn_buf_puts(&ret->url, host + host_len);
}

bool csn_git_url_has_password(const char *text)
{
    const char *sep = strstr(text, "://");
    const char *host = sep ? sep + 3 : NULL;
    size_t len = host ? strcspn(host, "/?#") : 0;
    const char *at = host ? memrchr(host, '@', len) : NULL;

    if (!at)
        return false;
    /* A lone user is what ssh needs, and what tokens hide in elsewhere. */
    return memchr(host, ':', (size_t) (at - host)) || !csn_starts_with(text, "ssh://");
}

bool csn_git_is_name(const char *text)
{
    if (!*text || *text == '-' || strlen(text) > 1024)
        return false;
    for (; *text; text++)
        if ((unsigned char) *text < ' ' || *text == 0x7f)
            return false;
    return true;
}
