/* SPDX-License-Identifier: Apache-2.0 */
#include "answer_files.h"

#include <string.h>

#include "answer_read.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"

enum { NAME_BYTES_MAX = 4096, OWNER_MAX = 64, WHY_MAX = 4096, MODE_BITS = 9, N_FIELDS = 8 };

static const struct {
    char of_find, of_go; /* `find -printf %y`; the letters before a FileInfo's mode */
    unsigned format;     /* of st_mode */
    csn_file_kind kind;
} kinds[] = {
    { 'f', '-', 0100000, CSN_FILE_REGULAR }, { 'd', 'd', 0040000, CSN_FILE_DIRECTORY },
    { 'l', 'L', 0120000, CSN_FILE_SYMLINK }, { 'p', 'p', 0010000, CSN_FILE_FIFO },
    { 's', 'S', 0140000, CSN_FILE_SOCKET },  { 'b', 'D', 0060000, CSN_FILE_DEVICE },
    { 'c', 'c', 0020000, CSN_FILE_DEVICE },
};

static bool read_octal(csn_str text, uint32_t *ret)
{
    uint32_t value = 0;

    if (text.len == 0 || text.len > 6)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '7')
            return false;
        value = value * 8 + (uint32_t) (text.data[i] - '0');
    }
    *ret = value & 07777;
    return true;
}

/* A number of an account; UINT32_MAX: it has a name only. */
static uint32_t read_id(csn_str text)
{
    uint64_t id;

    return csn_parse_u64(text, &id) == 0 && id < UINT32_MAX ? (uint32_t) id : UINT32_MAX;
}

/* ---- the service's own ---- */

/* The letters before "rwxr-xr-x" say what it is. */
static csn_file_kind kind_of_mode(const char *mode, bool is_directory)
{
    size_t len = strlen(mode), n = len > MODE_BITS ? len - MODE_BITS : 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < CSN_COUNT(kinds); k++)
            if (mode[i] == kinds[k].of_go)
                return kinds[k].kind;
    return is_directory ? CSN_FILE_DIRECTORY : CSN_FILE_REGULAR;
}

int csn_file_answer_read(const csn_json *v, csn_file_info *ret, csn_error *err)
{
    const char *name = csn_answer_text(v, "name", NAME_BYTES_MAX);
    const char *owner = csn_answer_text(v, "owner", OWNER_MAX);
    const char *group = csn_answer_text(v, "group", OWNER_MAX);
    const char *mode = csn_answer_text(v, "mode", 32), *when = csn_answer_text(v, "modifiedAt", 64);
    const char *bits = csn_answer_text(v, "permissions", 8);
    int64_t ms = 0;
    csn_file_info info = { 0 };

    if (csn_json_type_of(v) != CSN_JSON_OBJECT)
        return csn_answer_wrong(err, "a file is no object");
    if (!name || !name[0])
        return csn_answer_wrong(err, "\"name\" of a file is missing or no text");
    if (!owner || !group || !mode || !when || !bits)
        return csn_answer_wrong(err, "\"owner\", \"group\", \"mode\", \"modifiedAt\" or "
                                     "\"permissions\" of a file is no text");
    if (bits[0] && !read_octal(csn_str_of(bits), &info.mode))
        return csn_answer_wrong(err, "\"permissions\" of a file is no mode");
    if (!csn_answer_amount(v, "size", 1, &info.size_bytes))
        return csn_answer_wrong(err, "\"size\" of a file is no amount");
    info.path = name;
    info.kind = kind_of_mode(mode, csn_json_get_bool(v, "isDir", false));
    info.owner = owner;
    info.group = group;
    info.uid = read_id(csn_str_of(owner));
    info.gid = read_id(csn_str_of(group));
    if (csn_parse_iso8601(when, &ms) == 0 && ms < INT64_MAX / CSN_NS_PER_MS &&
        ms > INT64_MIN / CSN_NS_PER_MS)
        info.mtime_ns = ms * CSN_NS_PER_MS;
    *ret = info;
    return CSN_OK;
}

int csn_match_answer_read(const csn_json *v, csn_file_match *ret, csn_error *err)
{
    const csn_json *content = csn_json_get(v, "content");
    const char *path = csn_answer_text(v, "file", NAME_BYTES_MAX);
    int64_t line = csn_json_get_int(v, "line", 0);

    if (!path || !path[0] || line < 1 || csn_json_type_of(content) != CSN_JSON_STRING)
        return csn_answer_wrong(err, "a match has no \"file\", \"line\" or \"content\"");
    *ret = (csn_file_match){ .path = path,
                             .line = line,
                             .text = csn_json_str(content, ""),
                             .text_len = csn_json_str_len(content) };
    if (ret->text_len > 4096)
        ret->text_len = 4096;
    return CSN_OK;
}

int csn_array_answer_parse(const char *data, size_t len, const char *key, csn_json **ret_doc,
                           const csn_json **ret_items, csn_error *err)
{
    int r = csn_answer_parse(data, len, ret_doc, err);

    if (r < 0)
        return r;
    *ret_items = key ? csn_json_get(*ret_doc, key) : *ret_doc;
    if (csn_json_type_of(*ret_items) == CSN_JSON_ARRAY)
        return CSN_OK;
    *ret_doc = csn_json_free(*ret_doc);
    return csn_answer_wrong(err, "a list is no array");
}

int csn_replace_answer_parse(const char *data, size_t len, csn_json **ret_doc, bool *ret_is_done,
                             const char **ret_why, csn_error *err)
{
    const csn_json *items, *one;
    int r = csn_array_answer_parse(data, len, NULL, ret_doc, &items, err);

    if (r < 0)
        return r;
    one = csn_json_at(items, 0);
    *ret_why = csn_answer_text(one, "error", WHY_MAX);
    if (csn_json_count(items) == 1 && csn_json_type_of(one) == CSN_JSON_OBJECT && *ret_why &&
        csn_json_type_of(csn_json_get(one, "success")) == CSN_JSON_BOOL) {
        *ret_is_done = csn_json_get_bool(one, "success", false);
        return CSN_OK;
    }
    *ret_doc = csn_json_free(*ret_doc);
    return csn_answer_wrong(err, "what became of a replacement is not said");
}

/* ---- records ---- */

static bool next_piece(csn_file_records *r, const char **ret, size_t max)
{
    const char *start = r->data + r->at;
    const char *end = memchr(start, '\0', r->len - r->at);

    if (!end || (size_t) (end - start) > max)
        return false;
    *ret = start;
    r->at += (size_t) (end - start) + 1;
    return true;
}

/* "f" of find, or st_mode in hex of stat. */
static bool read_kind(csn_str text, csn_file_kind *ret)
{
    unsigned format = 0;

    for (size_t i = 0; text.len > 1 && text.len <= 6 && i < text.len; i++) {
        char c = text.data[i];
        const char *digit = c ? strchr("0123456789abcdef", c) : NULL;

        if (!digit)
            return false;
        format = format * 16 + (unsigned) (digit - "0123456789abcdef");
    }
    for (size_t k = 0; k < CSN_COUNT(kinds); k++) {
        if (text.len == 1 ? text.data[0] != kinds[k].of_find
                          : (format & 0170000) != kinds[k].format)
            continue;
        *ret = kinds[k].kind;
        return true;
    }
    return false;
}

/* Seconds, with or without a fraction. */
static bool read_time(csn_str text, int64_t *ret_ns)
{
    csn_str seconds;
    int64_t s, ns = 0, unit = CSN_NS_PER_S / 10;

    if (!csn_str_split(&text, '.', &seconds) || csn_parse_i64(seconds, &s) < 0 ||
        s > INT64_MAX / CSN_NS_PER_S - 1 || s < INT64_MIN / CSN_NS_PER_S + 1)
        return false;
    for (size_t i = 0; text.data && i < text.len; i++, unit /= 10) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        ns += (text.data[i] - '0') * unit;
    }
    *ret_ns = s * CSN_NS_PER_S + ns;
    return true;
}

/* KIND MODE UID GID SIZE TIME USER GROUP, in a copy of our own: the two names are given out. */
static bool read_fields(csn_file_records *r, const char *line, csn_file_info *info)
{
    csn_str rest, field[N_FIELDS];
    size_t n = 0;

    if (csn_str_copy(r->fields, sizeof(r->fields), csn_str_of(line)) < 0)
        return false;
    rest = csn_str_of(r->fields);
    while (n < N_FIELDS && csn_str_split(&rest, ' ', &field[n]))
        n++;
    if (n < N_FIELDS || rest.data || !read_kind(field[0], &info->kind) ||
        !read_octal(field[1], &info->mode) || csn_parse_i64(field[4], &info->size_bytes) < 0 ||
        info->size_bytes < 0 || !read_time(field[5], &info->mtime_ns))
        return false;
    info->uid = read_id(field[2]);
    info->gid = read_id(field[3]);
    r->fields[field[6].data + field[6].len - r->fields] = '\0';
    info->owner = field[6].data;
    info->group = field[7].data;
    return true;
}

int csn_file_records_next(csn_file_records *r, csn_file_info *ret, csn_error *err)
{
    csn_file_info info = { 0 };
    const char *line, *target;

    if (r->at == r->len)
        return 0;
    if (!next_piece(r, &line, sizeof(r->fields) - 1) ||
        !next_piece(r, &info.path, NAME_BYTES_MAX) || !next_piece(r, &target, NAME_BYTES_MAX) ||
        !read_fields(r, line, &info))
        return csn_answer_wrong(err, "a look at files printed something else");
    info.target = info.kind == CSN_FILE_SYMLINK ? target : NULL;
    *ret = info;
    return 1;
}
