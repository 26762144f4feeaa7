/* The candidates file: one JSON document that says who competes, for what, and how it is judged. Every key is checked;
 * a mistake is reported with its place ("candidates[2].setup"), because a key that is silently ignored is a wrong run. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/arena.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "score.h"

#define FILE_MAX ((size_t) 16 << 20)

/* Where the document's keys go: two structs, one offset. */
typedef struct settings {
    csn_arena_options arena;
    csn_run_options run;
} settings;

struct csn_arena_file {
    settings settings;
    csn_candidate *candidates;
    size_t n_candidates;
    csn_artifact_check *checks;
    char *dir;   /* of the file */
    void **kept; /* every allocation behind a string or list above */
    size_t n_kept;
};

typedef struct reader {
    csn_arena_file *file;
    char place[160]; /* "candidates[2]", "" at the top */
    csn_error *err;
} reader;

typedef int set_fn(reader *r, const char *key, const csn_json *v, void *to);

typedef struct field {
    const char *key;
    set_fn *set;
    size_t offset;
} field;

/* ---- memory ---- */

static void *keep(csn_arena_file *f, void *p)
{
    void **grown;

    if (!p)
        return NULL;
    grown = csn_realloc_array(f->kept, f->n_kept + 1, sizeof(*grown));
    if (!grown) {
        free(p);
        return NULL;
    }
    f->kept = grown;
    f->kept[f->n_kept++] = p;
    return p;
}

csn_arena_file *csn_arena_file_free(csn_arena_file *file)
{
    if (!file)
        return NULL;
    for (size_t i = 0; i < file->n_kept; i++)
        free(file->kept[i]);
    free(file->kept);
    free(file->candidates);
    free(file->checks);
    free(file->dir);
    free(file);
    return NULL;
}

/* ---- saying what is wrong ---- */

static int wrong(reader *r, const char *key, const char *what)
{
    return csn_fail(r->err, CSN_E_INVALID, "%s%s%s: %s", r->place, r->place[0] && key[0] ? "." : "",
                    key, what);
}

static int no_memory(reader *r)
{
    return csn_fail(r->err, CSN_E_NO_MEMORY, "out of memory");
}

static int unknown_key(reader *r, const char *key, const field *fields, size_t n)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    csn_buf_puts(&text, "unknown key; known are");
    for (size_t i = 0; i < n; i++)
        csn_buf_printf(&text, "%s %s", i > 0 ? "," : "", fields[i].key);
    return wrong(r, key, text.data);
}

/* ---- one value ---- */

static int set_string(reader *r, const char *key, const csn_json *v, void *to)
{
    const char *text = csn_json_str(v, NULL);

    if (!text || !text[0])
        return wrong(r, key, "a string that is not empty is expected");
    text = keep(r->file, csn_strdup(text));
    *(const char **) to = text;
    return text ? CSN_OK : no_memory(r);
}

/* Relative names are looked for beside the file. */
static int set_path(reader *r, const char *key, const csn_json *v, void *to)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    const char *text = csn_json_str(v, NULL);
    char *kept;

    if (!text || !text[0])
        return wrong(r, key, "the name of a file is expected");
    if (text[0] != '/')
        csn_buf_printf(&path, "%s/", r->file->dir);
    csn_buf_puts(&path, text);
    kept = keep(r->file, csn_buf_take(&path, NULL));
    *(const char **) to = kept;
    return kept ? CSN_OK : no_memory(r);
}

/* A scorer is a file beside this one, if there is such a file; else a command. */
static int set_scorer(reader *r, const char *key, const csn_json *v, void *to)
{
    const char *path = NULL;
    csn_auto(fd) int fd = -1;
    int e = set_path(r, key, v, &path);

    if (e < 0 || !path)
        return e;
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return set_string(r, key, v, to);
    *(const char **) to = path;
    return CSN_OK;
}

static int set_seconds(reader *r, const char *key, const csn_json *v, void *to)
{
    double s = csn_json_double(v, -1);

    if (!(s > 0 && s <= 86400))
        return wrong(r, key, "a number of seconds, more than 0 and at most 86400, is expected");
    *(int64_t *) to = (int64_t) (s * 1000 + 0.5);
    return CSN_OK;
}

static int set_count(reader *r, const char *key, const csn_json *v, void *to)
{
    int64_t n = csn_json_int(v, -1);

    if (n < 1 || n > 10000)
        return wrong(r, key, "a whole number from 1 to 10000 is expected");
    *(unsigned *) to = (unsigned) n;
    return CSN_OK;
}

static int set_seed(reader *r, const char *key, const csn_json *v, void *to)
{
    int64_t n = csn_json_int(v, -1);

    if (n < 1)
        return wrong(r, key, "a whole number of 1 or more is expected");
    *(uint64_t *) to = (uint64_t) n;
    return CSN_OK;
}

static int set_limit(reader *r, const char *key, const csn_json *v, void *to)
{
    int64_t n = csn_json_int(v, -1);

    if (csn_json_type_of(v) == CSN_JSON_STRING &&
        csn_parse_size(csn_str_of(csn_json_str(v, "")), &n) < 0)
        n = -1;
    if (n < 1)
        return wrong(r, key, "a number of 1 or more, or a size such as \"512m\", is expected");
    *(int64_t *) to = n;
    return CSN_OK;
}

static int set_network(reader *r, const char *key, const csn_json *v, void *to)
{
    const char *text = csn_json_str(v, "");

    if (strcmp(text, "none") != 0 && strcmp(text, "outbound") != 0)
        return wrong(r, key, "\"none\" or \"outbound\" is expected");
    *(csn_network *) to = text[0] == 'o' ? CSN_NET_OUTBOUND : CSN_NET_NONE;
    return CSN_OK;
}

static int set_strings(reader *r, const char *key, const csn_json *v, void *to)
{
    size_t n = csn_json_count(v);
    const char **list;

    if (csn_json_type_of(v) != CSN_JSON_ARRAY)
        return wrong(r, key, "a list of strings is expected");
    list = keep(r->file, csn_calloc(n + 1, sizeof(*list)));
    if (!list)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        int e = set_string(r, key, csn_json_at(v, i), &list[i]);

        if (e < 0)
            return e;
    }
    *(const char *const **) to = list;
    return CSN_OK;
}

/* {"NAME": "value"} as a list of "NAME=value". */
static int set_env(reader *r, const char *key, const csn_json *v, void *to)
{
    size_t n = 0;
    const char **list;

    if (csn_json_type_of(v) != CSN_JSON_OBJECT)
        return wrong(r, key, "an object of strings is expected");
    list = keep(r->file, csn_calloc(csn_json_count(v) + 1, sizeof(*list)));
    if (!list)
        return no_memory(r);
    for (void *it = csn_json_iter(v); it; it = csn_json_iter_next(v, it)) {
        csn_auto(buf) csn_buf pair = CSN_BUF_INIT;
        const char *name = csn_json_iter_key(it);
        const char *value = csn_json_str(csn_json_iter_value(it), NULL);

        if (!value || !name[0] || strchr(name, '='))
            return wrong(r, key, "a name without '=' and a string are expected");
        csn_buf_printf(&pair, "%s=%s", name, value);
        list[n] = keep(r->file, csn_buf_take(&pair, NULL));
        if (!list[n++])
            return no_memory(r);
    }
    *(const char *const **) to = list;
    return CSN_OK;
}

static int set_weights(reader *r, const char *key, const csn_json *v, void *to)
{
    double *weights = to;

    if (csn_json_type_of(v) != CSN_JSON_ARRAY || csn_json_count(v) != 3)
        return wrong(r, key, "three numbers [success, quality, speed] are expected");
    for (size_t i = 0; i < 3; i++)
        weights[i] = csn_json_double(csn_json_at(v, i), -1);
    return csn_weights_are_good(weights)
               ? CSN_OK
               : wrong(r, key, "three numbers, 0 or more, that sum to 1 are expected");
}

/* ---- objects: a table of keys ---- */

static int read_object(reader *r, const csn_json *v, const field *fields, size_t n, void *to)
{
    if (csn_json_type_of(v) != CSN_JSON_OBJECT)
        return wrong(r, "", "an object is expected");
    for (void *it = csn_json_iter(v); it; it = csn_json_iter_next(v, it)) {
        const char *key = csn_json_iter_key(it);
        const field *f = NULL;
        int e;

        for (size_t i = 0; i < n && !f; i++)
            if (strcmp(fields[i].key, key) == 0)
                f = &fields[i];
        if (!f)
            return unknown_key(r, key, fields, n);
        e = f->set(r, key, csn_json_iter_value(it), (char *) to + f->offset);
        if (e < 0)
            return e;
    }
    return CSN_OK;
}

static int set_check_kind(reader *r, const char *key, const csn_json *v, void *to)
{
    static const char *const names[] = { [CSN_CHECK_CONTAINS] = "contains",
                                         [CSN_CHECK_REGEX] = "regex",
                                         [CSN_CHECK_JSON_KEYS] = "json-keys",
                                         [CSN_CHECK_MIN_COUNT] = "min-count" };

    for (int i = CSN_CHECK_CONTAINS; i <= CSN_CHECK_MIN_COUNT; i++) {
        if (strcmp(csn_json_str(v, ""), names[i]) == 0) {
            *(csn_check_kind *) to = (csn_check_kind) i;
            return CSN_OK;
        }
    }
    return wrong(r, key, "contains, regex, json-keys or min-count is expected");
}

static int set_check_count(reader *r, const char *key, const csn_json *v, void *to)
{
    *(int64_t *) to = csn_json_int(v, 0);
    return *(int64_t *) to >= 1 ? CSN_OK : wrong(r, key, "a whole number of 1 or more is expected");
}

static int set_points(reader *r, const char *key, const csn_json *v, void *to)
{
    *(double *) to = csn_json_double(v, -1);
    return *(double *) to > 0 ? CSN_OK : wrong(r, key, "a number above 0 is expected");
}

static const field check_fields[] = {
    { "type", set_check_kind, offsetof(csn_artifact_check, kind) },
    { "text", set_string, offsetof(csn_artifact_check, text) },
    { "count", set_check_count, offsetof(csn_artifact_check, count) },
    { "points", set_points, offsetof(csn_artifact_check, points) },
};

static int read_check(reader *r, const csn_json *v, csn_artifact_check *check)
{
    int e;

    if (csn_json_type_of(v) == CSN_JSON_STRING) { /* the short form of the command line */
        const char *text = keep(r->file, csn_strdup(csn_json_str(v, "")));

        if (!text)
            return no_memory(r);
        e = csn_artifact_check_parse(text, check, r->err);
        return e < 0 ? csn_fail_in(r->err, e, "%s", r->place) : CSN_OK;
    }
    e = read_object(r, v, check_fields, CSN_COUNT(check_fields), check);
    if (e < 0)
        return e;
    if (!check->kind || !check->text)
        return wrong(r, check->kind ? "text" : "type", "the key is missing");
    if (check->kind == CSN_CHECK_MIN_COUNT && check->count < 1)
        return wrong(r, "count", "the key is missing");
    return CSN_OK;
}

static int set_checks(reader *r, const char *key, const csn_json *v, void *to)
{
    csn_arena_options *o = &((settings *) to)->arena;
    size_t n = csn_json_count(v);

    if (csn_json_type_of(v) != CSN_JSON_ARRAY)
        return wrong(r, key, "a list is expected");
    r->file->checks = csn_calloc(n + 1, sizeof(*r->file->checks));
    if (!r->file->checks)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        int e;

        (void) snprintf(r->place, sizeof(r->place), "checks[%zu]", i);
        e = read_check(r, csn_json_at(v, i), &r->file->checks[i]);
        if (e < 0)
            return e;
    }
    r->place[0] = '\0';
    o->checks = r->file->checks;
    o->n_checks = n;
    return CSN_OK;
}

static const field candidate_fields[] = {
    { "id", set_string, offsetof(csn_candidate, id) },
    { "script", set_path, offsetof(csn_candidate, script) },
    { "name", set_string, offsetof(csn_candidate, name) },
    { "description", set_string, offsetof(csn_candidate, description) },
    { "pip", set_strings, offsetof(csn_candidate, pip) },
    { "setup", set_string, offsetof(csn_candidate, setup) },
    { "env", set_env, offsetof(csn_candidate, env) },
    { "timeout", set_seconds, offsetof(csn_candidate, timeout_ms) },
    { "output", set_string, offsetof(csn_candidate, output_path) },
};

static int set_candidates(reader *r, const char *key, const csn_json *v, void *to)
{
    csn_arena_file *f = r->file;
    size_t n = csn_json_count(v);

    (void) to;
    if (csn_json_type_of(v) != CSN_JSON_ARRAY)
        return wrong(r, key, "a list is expected");
    f->candidates = csn_calloc(n + 1, sizeof(*f->candidates));
    if (!f->candidates)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        csn_candidate *c = &f->candidates[i];
        int e;

        (void) snprintf(r->place, sizeof(r->place), "candidates[%zu]", i);
        c->size = sizeof(*c);
        e = read_object(r, csn_json_at(v, i), candidate_fields, CSN_COUNT(candidate_fields), c);
        if (e < 0)
            return e;
        if (!c->id || !c->script)
            return wrong(r, c->id ? "script" : "id", "the key is missing");
        if (!csn_is_name(c->id))
            return wrong(r, "id", "letters, digits, '.', '_' and '-' are expected, 64 at most");
    }
    r->place[0] = '\0';
    f->n_candidates = n;
    return CSN_OK;
}

static const field limit_fields[] = {
    { "memory", set_limit, offsetof(settings, run.memory_bytes) },
    { "cpu_milli", set_limit, offsetof(settings, run.cpu_milli) },
    { "pids", set_limit, offsetof(settings, run.pids) },
    { "disk", set_limit, offsetof(settings, run.disk_bytes) },
    { "output", set_limit, offsetof(settings, run.output_bytes) },
    { "artifact", set_limit, offsetof(settings, run.artifact_bytes) },
};

static int set_limits(reader *r, const char *key, const csn_json *v, void *to)
{
    int e;

    (void) snprintf(r->place, sizeof(r->place), "%s", key);
    e = read_object(r, v, limit_fields, CSN_COUNT(limit_fields), to);
    r->place[0] = '\0';
    return e;
}

static const field top_fields[] = {
    { "objective", set_string, offsetof(settings, run.objective) },
    { "candidates", set_candidates, 0 },
    { "checks", set_checks, 0 },
    { "scorer", set_scorer, offsetof(settings, arena.scorer) },
    { "weights", set_weights, offsetof(settings, arena.weight_success) },
    { "timeout", set_seconds, offsetof(settings, run.timeout_ms) },
    { "upload_timeout", set_seconds, offsetof(settings, run.upload_timeout_ms) },
    { "setup_timeout", set_seconds, offsetof(settings, run.setup_timeout_ms) },
    { "artifact_timeout", set_seconds, offsetof(settings, run.artifact_timeout_ms) },
    { "scorer_timeout", set_seconds, offsetof(settings, arena.scorer_timeout_ms) },
    { "artifact_name", set_string, offsetof(settings, arena.artifact_name) },
    { "pip", set_strings, offsetof(settings, run.pip) },
    { "find_links", set_path, offsetof(settings, run.find_links) },
    { "setup", set_string, offsetof(settings, run.setup) },
    { "env", set_env, offsetof(settings, run.env) },
    { "net", set_network, offsetof(settings, run.network) },
    { "image", set_string, offsetof(settings, run.image) },
    { "limits", set_limits, 0 },
    { "jobs", set_count, offsetof(settings, arena.n_jobs) },
    { "trials", set_count, offsetof(settings, arena.n_trials) },
    { "seed", set_seed, offsetof(settings, arena.seed) },
};

static int read_document(reader *r, const csn_json *doc)
{
    settings *o = &r->file->settings;

    if (csn_json_type_of(doc) == CSN_JSON_ARRAY) /* the bare list of the original */
        return set_candidates(r, "candidates", doc, o);
    return read_object(r, doc, top_fields, CSN_COUNT(top_fields), o);
}

static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return csn_strdup(".");
    return csn_strndup(path, slash == path ? 1 : (size_t) (slash - path));
}

int csn_arena_file_load(const char *path, csn_arena_file **ret_file, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    reader r = { .err = err };
    char where[160];
    int e = csn_read_file(AT_FDCWD, path, &text, FILE_MAX);

    if (e < 0)
        return csn_fail_sys(err, e, "read candidates file '%s'", path);
    if (csn_json_parse(text.data, text.len, &doc, where) < 0)
        return csn_fail(err, CSN_E_INVALID, "%s: %s", path, where);
    r.file = csn_calloc(1, sizeof(*r.file));
    if (r.file)
        r.file->dir = directory_of(path);
    if (!r.file || !r.file->dir) {
        csn_arena_file_free(r.file);
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    }
    r.file->settings.arena.size = sizeof(r.file->settings.arena);
    r.file->settings.arena.run = &r.file->settings.run;
    r.file->settings.run.size = sizeof(r.file->settings.run);
    e = read_document(&r, doc);
    if (e < 0) {
        csn_arena_file_free(r.file);
        return csn_fail_in(err, e, "%s", path);
    }
    *ret_file = r.file;
    return CSN_OK;
}

const csn_arena_options *csn_arena_file_options(const csn_arena_file *file)
{
    return &file->settings.arena;
}

const csn_candidate *csn_arena_file_candidates(const csn_arena_file *file, size_t *ret_n)
{
    *ret_n = file->n_candidates;
    return file->candidates;
}
