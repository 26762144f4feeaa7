/* SPDX-License-Identifier: Apache-2.0 */
#include "server/git_status.h"

#include <errno.h>

#include "base/json.h"

/* The bytes up to the next NUL, without it. False: nothing is left. A last record without its NUL is cut: refused by
 * the callers as it never has all its fields, or it is a name whose end nobody knows. */
static bool next_record(csn_str *rest, csn_str *ret)
{
    const char *nul = rest->len ? memchr(rest->data, '\0', rest->len) : NULL;

    if (!nul)
        return false;
    *ret = csn_str_n(rest->data, (size_t) (nul - rest->data));
    *rest = csn_str_n(nul + 1, rest->len - ret->len - 1);
    return true;
}

/* Cuts n fields that end in a space off the front. */
static int skip_fields(csn_str *s, int n)
{
    while (n-- > 0) {
        ptrdiff_t space = csn_str_find(*s, ' ');
        if (space < 0)
            return -EBADMSG;
        *s = csn_str_n(s->data + space + 1, s->len - (size_t) space - 1);
    }
    return 0;
}

static bool cut_prefix(csn_str *s, csn_str prefix)
{
    if (!csn_str_starts_with(*s, prefix))
        return false;
    *s = csn_str_n(s->data + prefix.len, s->len - prefix.len);
    return true;
}

/* "+3 -1" */
static int read_distance(csn_str s, csn_git_head *head)
{
    csn_str ahead;
    uint64_t a, b;

    if (!csn_str_split(&s, ' ', &ahead) || !cut_prefix(&ahead, CSN_STR("+")) ||
        !cut_prefix(&s, CSN_STR("-")) || csn_parse_u64(ahead, &a) < 0 || csn_parse_u64(s, &b) < 0 ||
        a > INT32_MAX || b > INT32_MAX)
        return -EBADMSG;
    head->ahead = (int64_t) a;
    head->behind = (int64_t) b;
    head->is_published = true;
    return 0;
}

static int read_header(csn_str s, csn_git_head *head)
{
    if (cut_prefix(&s, CSN_STR("# branch.head "))) {
        head->is_detached = csn_str_is(s, "(detached)");
        head->branch = head->is_detached ? CSN_STR("HEAD") : s;
    } else if (cut_prefix(&s, CSN_STR("# branch.upstream "))) {
        head->upstream = s;
    } else if (cut_prefix(&s, CSN_STR("# branch.ab "))) {
        return read_distance(s, head);
    }
    return 0; /* the commit's hash, and what later versions add */
}

static bool is_letter(char c)
{
    return c != '\0' && strchr(".MTADRCU", c) != NULL;
}

/* "<kind> XY <n_fields more> <name>"; a rename's old name is the record behind it. */
static int read_change(csn_str s, int n_fields, bool has_old_name, csn_str *rest, csn_git_file *ret)
{
    if (s.len < 5 || s.data[1] != ' ' || s.data[4] != ' ' || !is_letter(s.data[2]) ||
        !is_letter(s.data[3]))
        return -EBADMSG;
    *ret = (csn_git_file){ .staging = s.data[2], .worktree = s.data[3], .extra = CSN_STR("") };
    if (s.data[0] == 'u')
        ret->staging = ret->worktree = 'U'; /* whoever did what: it waits to be merged */
    if (skip_fields(&s, 2 + n_fields) < 0 || s.len == 0)
        return -EBADMSG;
    ret->name = s;
    return has_old_name && !next_record(rest, &ret->extra) ? -EBADMSG : 0;
}

static int read_file(csn_str s, csn_str *rest, csn_git_file *ret)
{
    switch (s.len > 2 ? s.data[0] : '\0') {
    case '1': /* sub mH mI mW hH hI */
        return read_change(s, 6, false, rest, ret);
    case '2': /* sub mH mI mW hH hI score */
        return read_change(s, 7, true, rest, ret);
    case 'u': /* sub m1 m2 m3 mW h1 h2 h3 */
        return read_change(s, 8, false, rest, ret);
    case '?':
    case '!':
        if (s.data[1] != ' ')
            return -EBADMSG;
        *ret = (csn_git_file){ .name = csn_str_n(s.data + 2, s.len - 2),
                               .extra = CSN_STR(""),
                               .staging = s.data[0],
                               .worktree = s.data[0] };
        return 0;
    default:
        return -EBADMSG;
    }
}

int csn_git_status_read(csn_str output, csn_git_head *ret_head, csn_git_file_fn *fn, void *user)
{
    csn_git_file file = { 0 };
    csn_str record;

    *ret_head = (csn_git_head){ .branch = CSN_STR(""), .upstream = CSN_STR("") };
    while (next_record(&output, &record)) {
        bool is_header = csn_str_starts_with(record, CSN_STR("# "));
        int r = is_header ? read_header(record, ret_head) : read_file(record, &output, &file);
        if (r < 0)
            return r;
        if (!is_header && fn)
            fn(&file, user);
    }
    return output.len > 0 ? -EBADMSG : 0;
}

const char *csn_git_word(char letter)
{
    switch (letter) {
    case '?':
    case '!':
        return "Untracked";
    case 'M':
    case 'T':
        return "Modified";
    case 'A':
        return "Added";
    case 'D':
        return "Deleted";
    case 'R':
        return "Renamed";
    case 'C':
        return "Copied";
    case 'U':
        return "Updated but unmerged";
    default:
        return "Unmodified";
    }
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void put_str(csn_jw *w, const char *key, csn_str s)
{
    csn_jw_key(w, key);
    csn_jw_string(w, s.data ? s.data : "", s.len);
}

static void put_file(const csn_git_file *file, void *user)
{
    csn_jw *w = user;

    csn_jw_begin_object(w);
    put_str(w, "name", file->name);
    put_str(w, "extra", file->extra);
    csn_jw_kstr(w, "staging", csn_git_word(file->staging));
    csn_jw_kstr(w, "worktree", csn_git_word(file->worktree));
    csn_jw_end_object(w);
}

int csn_git_status_json(csn_str output, csn_buf *json)
{
    csn_jw w = CSN_JW_INIT(json, false);
    csn_git_head head;
    int r;

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "fileStatus");
    csn_jw_begin_array(&w);
    r = csn_git_status_read(output, &head, put_file, &w);
    csn_jw_end_array(&w);
    put_str(&w, "currentBranch", head.branch);
    csn_jw_kint(&w, "ahead", head.ahead);
    csn_jw_kint(&w, "behind", head.behind);
    csn_jw_kbool(&w, "branchPublished", head.is_published);
    csn_jw_kbool(&w, "detached", head.is_detached);
    put_str(&w, "upstream", head.upstream);
    csn_jw_end_object(&w);
    return r < 0 ? r : json->error;
}

int csn_git_history_json(csn_str output, csn_buf *json)
{
    static const char *const keys[] = { "hash", "author", "email", "timestamp", "message" };
    csn_jw w = CSN_JW_INIT(json, false);
    csn_str field;

    csn_jw_begin_array(&w);
    while (output.len > 0) {
        csn_jw_begin_object(&w);
        for (size_t i = 0; i < CSN_COUNT(keys); i++) {
            if (!next_record(&output, &field))
                return -EBADMSG;
            put_str(&w, keys[i], field);
        }
        csn_jw_end_object(&w);
    }
    csn_jw_end_array(&w);
    return json->error;
}

int csn_git_branches_json(csn_str output, csn_buf *json)
{
    csn_jw w = CSN_JW_INIT(json, false);
    csn_str line, current = { NULL, 0 };

    if (output.len > 0 && memchr(output.data, '\0', output.len))
        return -EBADMSG;
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "branches");
    csn_jw_begin_array(&w);
    while (csn_str_split(&output, '\n', &line)) {
        if (line.len < 2)
            continue; /* behind the last */
        csn_jw_string(&w, line.data + 1, line.len - 1);
        if (line.data[0] == '*')
            current = csn_str_n(line.data + 1, line.len - 1);
    }
    csn_jw_end_array(&w);
    if (current.data)
        put_str(&w, "current", current);
    csn_jw_end_object(&w);
    return json->error;
}

int csn_git_remotes_json(csn_str output, csn_buf *json)
{
    csn_jw w = CSN_JW_INIT(json, false);
    csn_str record, key;

    csn_jw_begin_object(&w);
    csn_jw_key(&w, "remotes");
    csn_jw_begin_array(&w);
    while (next_record(&output, &record)) {
        if (!csn_str_split(&record, '\n', &key) || !record.data ||
            !cut_prefix(&key, CSN_STR("remote.")) || !csn_str_ends_with(key, CSN_STR(".url")))
            return -EBADMSG;
        csn_jw_begin_object(&w);
        put_str(&w, "name", csn_str_n(key.data, key.len - 4));
        put_str(&w, "url", record);
        csn_jw_end_object(&w);
    }
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
    return output.len > 0 ? -EBADMSG : json->error;
}
