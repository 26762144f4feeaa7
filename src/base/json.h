/* JSON, strictly read and carefully written. The only file that knows jansson is json.c; not linked into the keeper
 * and init. */
#ifndef CSN_BASE_JSON_H
#define CSN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* A value of a parsed document; opaque. Children are borrowed from the document, which csn_json_free() ends. */
typedef struct csn_json csn_json;

typedef enum csn_json_type {
    CSN_JSON_NONE, /* of NULL */
    CSN_JSON_NULL,
    CSN_JSON_BOOL,
    CSN_JSON_INT,
    CSN_JSON_REAL,
    CSN_JSON_STRING,
    CSN_JSON_ARRAY,
    CSN_JSON_OBJECT,
} csn_json_type;

/* Parses one whole text: duplicate keys, trailing bytes, bad UTF-8, \u0000 and more than 64 levels are refused.
 * Any value may be the top. 0, -EBADMSG, -ENOMEM. `ret_where` (may be NULL) gets a static-size description of the
 * mistake such as "line 3: ']' expected near ','". */
int csn_json_parse(const char *data, size_t len, csn_json **ret, char ret_where[160]);
/* The same, but a string value may hold \u0000: for what a program printed. csn_json_str_len() tells its length. */
int csn_json_parse_with_nul(const char *data, size_t len, csn_json **ret);
csn_json *csn_json_free(csn_json *doc); /* always NULL */
void csn_json_auto(csn_json **doc);

csn_json_type csn_json_type_of(const csn_json *v);

/* A member of an object, or NULL (also if v is NULL or no object). */
const csn_json *csn_json_get(const csn_json *v, const char *key);

/* The value itself, or the default if it is missing, null or of another type. */
const char *csn_json_str(const csn_json *v, const char *def);
size_t csn_json_str_len(const csn_json *v);           /* 0 if it is no string */
int64_t csn_json_int(const csn_json *v, int64_t def); /* also takes a real that is a whole number */
double csn_json_double(const csn_json *v, double def); /* int or real */
bool csn_json_bool(const csn_json *v, bool def);

/* Member by key, with default. */
const char *csn_json_get_str(const csn_json *v, const char *key, const char *def);
int64_t csn_json_get_int(const csn_json *v, const char *key, int64_t def);
double csn_json_get_double(const csn_json *v, const char *key, double def);
bool csn_json_get_bool(const csn_json *v, const char *key, bool def);

/* Members of an array or object; 0 for others. */
size_t csn_json_count(const csn_json *v);
const csn_json *csn_json_at(const csn_json *array, size_t i); /* NULL when out of range */

/* for (it = csn_json_iter(o); it; it = csn_json_iter_next(o, it)), in the order of the text. */
void *csn_json_iter(const csn_json *object);
void *csn_json_iter_next(const csn_json *object, void *it);
const char *csn_json_iter_key(void *it);
const csn_json *csn_json_iter_value(void *it);

/* Appends v as text, compact or indented by 2. */
int csn_json_dump(const csn_json *v, bool pretty, csn_buf *out);

/* A streaming writer. Commas, quoting and indentation are its business; errors stick in `out` (a call in the wrong
 * place sets out->error = -EINVAL). */
typedef struct csn_jw {
    csn_buf *out; /* borrowed */
    bool pretty;
    bool after_key;
    unsigned depth;       /* open containers */
    uint64_t is_object;   /* bit per level */
    uint64_t has_members; /* bit per level */
    bool done;            /* the top value is complete */
} csn_jw;

#define CSN_JW_INIT(out_buf, is_pretty) \
    { \
        (out_buf), (is_pretty), false, 0, 0, 0, false \
    }

void csn_jw_begin_object(csn_jw *w);
void csn_jw_end_object(csn_jw *w);
void csn_jw_begin_array(csn_jw *w);
void csn_jw_end_array(csn_jw *w);
void csn_jw_key(csn_jw *w, const char *key);
void csn_jw_string(csn_jw *w, const char *data, size_t len); /* bad UTF-8 becomes U+FFFD */
void csn_jw_str(csn_jw *w, const char *text);                /* NULL: null */
void csn_jw_int(csn_jw *w, int64_t v);
void csn_jw_uint(csn_jw *w, uint64_t v);
void csn_jw_double(csn_jw *w, double v); /* not finite: null */
void csn_jw_bool(csn_jw *w, bool v);
void csn_jw_null(csn_jw *w);
void csn_jw_raw(csn_jw *w, const char *json, size_t len); /* trusted: a complete value */
void csn_jw_value(csn_jw *w, const csn_json *v);          /* a parsed value, copied */

/* Key and value at once. */
void csn_jw_kstr(csn_jw *w, const char *key, const char *text);
void csn_jw_kstrs(csn_jw *w, const char *key, char *const *list); /* up to NULL; NULL itself: none */
void csn_jw_kint(csn_jw *w, const char *key, int64_t v);
void csn_jw_kdouble(csn_jw *w, const char *key, double v);
void csn_jw_kbool(csn_jw *w, const char *key, bool v);

#endif
