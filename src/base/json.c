#include "json.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

#define MAX_DEPTH 64

static json_t *jansson_of(const csn_json *v)
{
    return (json_t *) (uintptr_t) v;
}

static const csn_json *ours(const json_t *v)
{
    return (const csn_json *) (const void *) v;
}

/* jansson's own bound is 2048 levels, on the C stack. */
static bool too_deep(const char *data, size_t len)
{
    bool in_string = false;
    unsigned depth = 0;

    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && ++depth > MAX_DEPTH)
            return true;
        else if (!in_string && (c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return false;
}

static int parse(const char *data, size_t len, size_t flags, csn_json **ret, char ret_where[160])
{
    json_error_t e;
    char unused[160];
    char *where = ret_where ? ret_where : unused;

    where[0] = '\0';
    if (csn_fault("json") < 0)
        return -ENOMEM;
    if (too_deep(data, len)) {
        (void) snprintf(where, 160, "more than %d levels", MAX_DEPTH);
        return -EBADMSG;
    }
    json_t *doc = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | flags, &e);
    if (!doc) {
        (void) snprintf(where, 160, "line %d: %.140s", e.line, e.text);
        return json_error_code(&e) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
    }
    *ret = (csn_json *) (void *) doc;
    return 0;
}

int csn_json_parse(const char *data, size_t len, csn_json **ret, char ret_where[160])
{
    return parse(data, len, 0, ret, ret_where);
}

int csn_json_parse_with_nul(const char *data, size_t len, csn_json **ret)
{
    return parse(data, len, JSON_ALLOW_NUL, ret, NULL);
}

csn_json *csn_json_free(csn_json *doc)
{
    json_decref(jansson_of(doc));
    return NULL;
}

void csn_json_auto(csn_json **doc)
{
    int saved = errno;

    *doc = csn_json_free(*doc);
    errno = saved;
}

csn_json_type csn_json_type_of(const csn_json *v)
{
    if (!v)
        return CSN_JSON_NONE;
    switch (json_typeof(jansson_of(v))) {
    case JSON_OBJECT:
        return CSN_JSON_OBJECT;
    case JSON_ARRAY:
        return CSN_JSON_ARRAY;
    case JSON_STRING:
        return CSN_JSON_STRING;
    case JSON_INTEGER:
        return CSN_JSON_INT;
    case JSON_REAL:
        return CSN_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return CSN_JSON_BOOL;
    case JSON_NULL:
        return CSN_JSON_NULL;
    }
    return CSN_JSON_NONE;
}

const csn_json *csn_json_get(const csn_json *v, const char *key)
{
    return v ? ours(json_object_get(jansson_of(v), key)) : NULL;
}

const char *csn_json_str(const csn_json *v, const char *def)
{
    return csn_json_type_of(v) == CSN_JSON_STRING ? json_string_value(jansson_of(v)) : def;
}

size_t csn_json_str_len(const csn_json *v)
{
    return v ? json_string_length(jansson_of(v)) : 0;
}

int64_t csn_json_int(const csn_json *v, int64_t def)
{
    if (csn_json_type_of(v) == CSN_JSON_INT)
        return json_integer_value(jansson_of(v));
    if (csn_json_type_of(v) != CSN_JSON_REAL)
        return def;
    double d = json_real_value(jansson_of(v));
    if (d != floor(d) || d < -9007199254740992.0 || d > 9007199254740992.0)
        return def;
    return (int64_t) d;
}

double csn_json_double(const csn_json *v, double def)
{
    csn_json_type type = csn_json_type_of(v);

    if (type != CSN_JSON_INT && type != CSN_JSON_REAL)
        return def;
    return json_number_value(jansson_of(v));
}

bool csn_json_bool(const csn_json *v, bool def)
{
    return csn_json_type_of(v) == CSN_JSON_BOOL ? json_is_true(jansson_of(v)) : def;
}

const char *csn_json_get_str(const csn_json *v, const char *key, const char *def)
{
    return csn_json_str(csn_json_get(v, key), def);
}

int64_t csn_json_get_int(const csn_json *v, const char *key, int64_t def)
{
    return csn_json_int(csn_json_get(v, key), def);
}

double csn_json_get_double(const csn_json *v, const char *key, double def)
{
    return csn_json_double(csn_json_get(v, key), def);
}

bool csn_json_get_bool(const csn_json *v, const char *key, bool def)
{
    return csn_json_bool(csn_json_get(v, key), def);
}

size_t csn_json_count(const csn_json *v)
{
    if (csn_json_type_of(v) == CSN_JSON_OBJECT)
        return json_object_size(jansson_of(v));
    return v ? json_array_size(jansson_of(v)) : 0;
}

const csn_json *csn_json_at(const csn_json *array, size_t i)
{
    return array ? ours(json_array_get(jansson_of(array), i)) : NULL;
}

void *csn_json_iter(const csn_json *object)
{
    return object ? json_object_iter(jansson_of(object)) : NULL;
}

void *csn_json_iter_next(const csn_json *object, void *it)
{
    return json_object_iter_next(jansson_of(object), it);
}

const char *csn_json_iter_key(void *it)
{
    return json_object_iter_key(it);
}

const csn_json *csn_json_iter_value(void *it)
{
    return ours(json_object_iter_value(it));
}

static int put_piece(const char *data, size_t len, void *user)
{
    return csn_buf_append(user, data, len) < 0 ? -1 : 0;
}

int csn_json_dump(const csn_json *v, bool pretty, csn_buf *out)
{
    size_t flags = JSON_ENCODE_ANY | (pretty ? (size_t) JSON_INDENT(2) : (size_t) JSON_COMPACT);

    if (out->error == 0 && json_dump_callback(jansson_of(v), put_piece, out, flags) < 0 &&
        out->error == 0)
        out->error = -ENOMEM;
    return out->error;
}
