#include "check.h"

#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

/* A longer line is asked in pieces of this size, and a check has so much time: regexec() needs memory in proportion to
 * what it is given and time in proportion to its square. */
#define LINE_MAX_BYTES 8192
#define TIME_LIMIT_MS  2000

typedef struct compiled {
    csn_artifact_check check; /* text: owned */
    regex_t re;
    bool has_re;
} compiled;

struct csn_check_set {
    size_t n;
    compiled *all;
};

static const struct kind_name {
    const char *name;
    csn_check_kind kind;
} kinds[] = {
    { "contains", CSN_CHECK_CONTAINS },
    { "regex", CSN_CHECK_REGEX },
    { "json-keys", CSN_CHECK_JSON_KEYS },
    { "min-count", CSN_CHECK_MIN_COUNT },
};

static const char *name_of_kind(csn_check_kind kind)
{
    for (size_t i = 0; i < CSN_COUNT(kinds); i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return "?";
}

void csn_check_name(const csn_artifact_check *check, csn_buf *out)
{
    csn_buf_printf(out, "%s:", name_of_kind(check->kind));
    if (check->kind == CSN_CHECK_MIN_COUNT)
        csn_buf_printf(out, "%" PRId64 ":", check->count);
    csn_buf_puts(out, check->text);
}

int csn_artifact_check_parse(const char *text, csn_artifact_check *ret_check, csn_error *err)
{
    csn_artifact_check check = { 0 };
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t) (colon - text) : strlen(text);

    for (size_t i = 0; i < CSN_COUNT(kinds); i++)
        if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, text, len) == 0)
            check.kind = kinds[i].kind;
    if (!colon || !check.kind)
        return csn_fail(err, CSN_E_INVALID,
                        "check '%.60s': expected contains:TEXT, regex:RE, json-keys:KEY,… or "
                        "min-count:N:RE",
                        text);
    check.text = colon + 1;
    if (check.kind == CSN_CHECK_MIN_COUNT) {
        const char *second = strchr(check.text, ':');

        if (!second ||
            csn_parse_i64(csn_str_n(check.text, (size_t) (second - check.text)), &check.count) <
                0 ||
            check.count < 1)
            return csn_fail(err, CSN_E_INVALID,
                            "check '%.60s': expected min-count:N:RE with N of 1 or more", text);
        check.text = second + 1;
    }
    if (!check.text[0])
        return csn_fail(err, CSN_E_INVALID, "check '%.60s': nothing after the ':'", text);
    *ret_check = check;
    return CSN_OK;
}

static int compile(compiled *c, const csn_artifact_check *check, csn_error *err)
{
    char why[128];
    int r;

    c->check = *check;
    c->check.text = csn_strdup(check->text ? check->text : "");
    if (!c->check.text)
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    if (check->kind < CSN_CHECK_CONTAINS || check->kind > CSN_CHECK_MIN_COUNT || !check->text ||
        !check->text[0] || check->points < 0)
        return csn_fail(err, CSN_E_INVALID, "check '%s': kind, text or points make no sense",
                        name_of_kind(check->kind));
    if (check->kind != CSN_CHECK_REGEX && check->kind != CSN_CHECK_MIN_COUNT)
        return CSN_OK;
    r = regcomp(&c->re, check->text, REG_EXTENDED);
    if (r != 0) {
        regerror(r, &c->re, why, sizeof(why));
        return csn_fail(err, CSN_E_INVALID, "check '%s:%.80s': %s", name_of_kind(check->kind),
                        check->text, why);
    }
    c->has_re = true;
    return CSN_OK;
}

int csn_check_set_new(const csn_artifact_check *checks, size_t n, csn_check_set **ret_set,
                      csn_error *err)
{
    csn_check_set *set = csn_calloc(1, sizeof(*set));

    if (set)
        set->all = csn_calloc(n + 1, sizeof(*set->all));
    if (!set || !set->all) {
        csn_check_set_free(set);
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        int r;

        set->n = i + 1;
        r = compile(&set->all[i], &checks[i], err);
        if (r < 0) {
            csn_check_set_free(set);
            return r;
        }
    }
    *ret_set = set;
    return CSN_OK;
}

csn_check_set *csn_check_set_free(csn_check_set *set)
{
    if (!set)
        return NULL;
    for (size_t i = 0; set->all && i < set->n; i++) {
        if (set->all[i].has_re)
            regfree(&set->all[i].re);
        free((char *) (uintptr_t) set->all[i].check.text);
    }
    free(set->all);
    free(set);
    return NULL;
}

size_t csn_check_set_count(const csn_check_set *set)
{
    return set ? set->n : 0;
}

const csn_artifact_check *csn_check_set_at(const csn_check_set *set, size_t i)
{
    return &set->all[i].check;
}

/* Matches in one piece, up to `enough`. */
static int64_t count_in_piece(const regex_t *re, const char *data, size_t len, int64_t enough)
{
    int64_t n = 0;
    regoff_t at = 0;

    while (n < enough) {
        regmatch_t m = { at, (regoff_t) len };

        if (regexec(re, data, 1, &m, REG_STARTEND | (at > 0 ? REG_NOTBOL : 0)) != 0)
            break;
        n++;
        at = m.rm_eo > m.rm_so ? m.rm_eo : m.rm_eo + 1; /* an empty match must not match again */
        if ((size_t) at > len)
            break;
    }
    return n;
}

/* A piece is copied: not every regexec() that stands in for libc's looks only as far as it is told. */
static int64_t count_in_line(const regex_t *re, csn_str line, int64_t enough, csn_buf *copy,
                             int64_t deadline_ns)
{
    int64_t n = 0;
    size_t at = 0;

    do {
        size_t len = line.len - at < LINE_MAX_BYTES ? line.len - at : LINE_MAX_BYTES;

        csn_buf_clear(copy);
        if (csn_buf_append(copy, line.data + at, len) < 0)
            return n;
        n += count_in_piece(re, copy->data, copy->len, enough - n);
        at += len;
    } while (at < line.len && n < enough && !csn_deadline_passed(deadline_ns));
    return n;
}

/* *ret_late: the time was up before the end. */
static int64_t count_matches(const regex_t *re, const char *data, size_t len, int64_t enough,
                             bool *ret_late)
{
    csn_auto(buf) csn_buf copy = CSN_BUF_INIT;
    csn_str rest = csn_str_n(data, len), line;
    int64_t n = 0, deadline_ns = csn_deadline_in_ms(TIME_LIMIT_MS);

    while (n < enough && csn_str_split(&rest, '\n', &line)) {
        if (csn_deadline_passed(deadline_ns))
            break;
        if (line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        n += count_in_line(re, line, enough - n, &copy, deadline_ns);
    }
    *ret_late = n < enough && csn_deadline_passed(deadline_ns);
    return n;
}

/* Does v hold the path "a.b.c"? An array on the way stands for all of its elements, of which there must be one. */
static bool has_path(const csn_json *v, csn_str path)
{
    csn_str key;
    char name[256];

    if (csn_json_type_of(v) == CSN_JSON_ARRAY) {
        size_t n = csn_json_count(v);

        for (size_t i = 0; i < n; i++)
            if (!has_path(csn_json_at(v, i), path))
                return false;
        return n > 0;
    }
    if (!csn_str_split(&path, '.', &key) || csn_str_copy(name, sizeof(name), key) < 0)
        return false;
    v = csn_json_get(v, name);
    if (csn_json_type_of(v) == CSN_JSON_NONE || csn_json_type_of(v) == CSN_JSON_NULL)
        return false;
    return path.data ? has_path(v, path) : true;
}

static bool ask_json_keys(const char *keys, const char *data, size_t len, csn_buf *why)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_str rest = csn_str_of(keys), key;
    char where[160];

    if (csn_json_parse(data, len, &doc, where) < 0) {
        csn_buf_printf(why, "not JSON: %s", where);
        return false;
    }
    while (csn_str_split(&rest, ',', &key)) {
        key = csn_str_trim(key);
        if (!has_path(doc, key)) {
            csn_buf_printf(why, "key '%.*s' is missing", (int) key.len, key.data);
            return false;
        }
    }
    return true;
}

bool csn_check_ask(const csn_check_set *set, size_t i, const char *data, size_t len, csn_buf *why)
{
    const compiled *c = &set->all[i];
    csn_auto(buf) csn_buf unheard = CSN_BUF_INIT;
    bool is_late = false;
    int64_t n;

    if (!why)
        why = &unheard;
    switch (c->check.kind) {
    case CSN_CHECK_CONTAINS:
        if (memmem(data, len, c->check.text, strlen(c->check.text)))
            return true;
        csn_buf_puts(why, "not found");
        return false;
    case CSN_CHECK_REGEX:
        if (count_matches(&c->re, data, len, 1, &is_late) > 0)
            return true;
        csn_buf_puts(why, is_late ? "no match in 2 s" : "no line matches");
        return false;
    case CSN_CHECK_MIN_COUNT:
        n = count_matches(&c->re, data, len, c->check.count, &is_late);
        if (n >= c->check.count)
            return true;
        csn_buf_printf(why, "%" PRId64 " of %" PRId64 "%s", n, c->check.count,
                       is_late ? " in 2 s" : "");
        return false;
    case CSN_CHECK_JSON_KEYS:
        return ask_json_keys(c->check.text, data, len, why);
    }
    return false;
}
