#include "pyjson.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

enum { MAX_DEPTH = 1100 }; /* Python's own writer gives up near 1000 */

struct reader {
    const char *at, *end;
    csn_buf *out; /* NULL: only look */
    unsigned depth;
};

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool take(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    csn_buf_putc(r->out, c);
    return true;
}

static int hex4(const char *p, const char *end, unsigned *ret)
{
    unsigned v = 0;

    if (end - p < 4)
        return -EBADMSG;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        unsigned d = c >= '0' && c <= '9'   ? (unsigned) (c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned) (c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (unsigned) (c - 'A' + 10)
                                            : 16;
        if (d == 16)
            return -EBADMSG;
        v = v << 4 | d;
    }
    *ret = v;
    return 0;
}

static void put_char(csn_buf *out, unsigned c)
{
    char b[4];
    size_t n;

    if (c < 0x80) {
        b[0] = (char) c;
        n = 1;
    } else if (c < 0x800) {
        b[0] = (char) (0xC0 | c >> 6);
        b[1] = (char) (0x80 | (c & 0x3F));
        n = 2;
    } else if (c < 0x10000) {
        b[0] = (char) (0xE0 | c >> 12);
        b[1] = (char) (0x80 | (c >> 6 & 0x3F));
        b[2] = (char) (0x80 | (c & 0x3F));
        n = 3;
    } else {
        b[0] = (char) (0xF0 | c >> 18);
        b[1] = (char) (0x80 | (c >> 12 & 0x3F));
        b[2] = (char) (0x80 | (c >> 6 & 0x3F));
        b[3] = (char) (0x80 | (c & 0x3F));
        n = 4;
    }
    csn_buf_append(out, b, n);
}

/* "\uXXXX" at p (behind the backslash and the u): the character, pairs joined; *ret_end behind it. */
static int unicode_escape(const char *p, const char *end, unsigned *ret, const char **ret_end)
{
    unsigned high, low;

    if (hex4(p, end, &high) < 0)
        return -EBADMSG;
    *ret = high;
    *ret_end = p + 4;
    if (high < 0xD800 || high > 0xDFFF)
        return 0;
    *ret = 0xFFFD;
    if (high < 0xDC00 && end - p >= 10 && p[4] == '\\' && p[5] == 'u' &&
        hex4(p + 6, end, &low) == 0 && low >= 0xDC00 && low <= 0xDFFF) {
        *ret = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        *ret_end = p + 10;
    }
    return 0;
}

/* One character or escape of a string, decoded. */
static int next_char(struct reader *r, unsigned *ret)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    int n;

    if (*r->at != '\\') {
        n = csn_utf8_next(r->at, (size_t) (r->end - r->at), ret);
        if (n <= 0 || *ret < 0x20)
            return -EBADMSG;
        r->at += n;
        return 0;
    }
    if (r->end - r->at < 2)
        return -EBADMSG;
    if (r->at[1] == 'u')
        return unicode_escape(r->at + 2, r->end, ret, &r->at);
    found = memchr(names, r->at[1], sizeof(names) - 1);
    if (!found)
        return -EBADMSG;
    *ret = (unsigned char) values[found - names];
    r->at += 2;
    return 0;
}

/* The escapes that Python writes as we do. */
static bool is_same_escape(const char *p, const char *end)
{
    return *p == '\\' && end - p >= 2 &&
           (p[1] == 'n' || p[1] == '"' || p[1] == '\\' || p[1] == 'r' || p[1] == 't');
}

/* Eight bytes at p that JSON writes as they are, all ASCII: none below 0x20 or above 0x7f, no quote, no backslash. */
static bool is_same_word(const char *p)
{
    const uint64_t ones = 0x0101010101010101, highs = ones * 0x80;
    uint64_t w, quote, slash;

    memcpy(&w, p, sizeof(w));
    quote = w ^ (ones * '"');
    slash = w ^ (ones * '\\');
    return ((w | (w - ones * 0x20) | (quote - ones) | (slash - ones)) & highs) == 0;
}

/* How many bytes at p stay as they are: eight, or one character; 0: that one does not. */
static size_t same_chars(const char *p, const char *end)
{
    unsigned char b = (unsigned char) *p;
    unsigned c;
    int n;

    if (end - p >= 8 && is_same_word(p))
        return 8;
    if (b < 0x80)
        return b >= 0x20 && b != '"' && b != '\\';
    n = csn_utf8_next(p, (size_t) (end - p), &c);
    return n > 0 ? (size_t) n : 0;
}

/* Copies what stays as it is in one piece: values may have tens of megabytes of that. */
static void copy_same(struct reader *r)
{
    const char *p = r->at;
    size_t n = 1;

    while (p < r->end && n > 0) {
        n = same_chars(p, r->end);
        if (n == 0 && is_same_escape(p, r->end))
            n = 2;
        p += n;
    }
    csn_buf_append(r->out, r->at, (size_t) (p - r->at));
    r->at = p;
}

/* The same for the decoded string, which is never longer than its text. */
static void decode_same(struct reader *r)
{
    const char *p = r->at;
    size_t n = 1;
    char *to;

    if (csn_buf_reserve(r->out, (size_t) (r->end - p)) < 0)
        return;
    to = r->out->data + r->out->len;
    while (p < r->end && n > 0) {
        n = same_chars(p, r->end);
        if (n == 0 && is_same_escape(p, r->end)) {
            *to++ = p[1] == 'n' ? '\n' : p[1] == 'r' ? '\r' : p[1] == 't' ? '\t' : p[1];
            p += 2;
            n = 1;
            continue;
        }
        memcpy(to, p, n);
        to += n;
        p += n;
    }
    csn_buf_grew(r->out, (size_t) (to - r->out->data) - r->out->len);
    r->at = p;
}

static void take_same(struct reader *r, bool plain)
{
    if (plain)
        decode_same(r);
    else
        copy_same(r);
}

/* A string, decoded (plain) or as JSON again. */
static int take_string(struct reader *r, bool plain)
{
    unsigned c;

    if (r->at == r->end || *r->at++ != '"')
        return -EBADMSG;
    if (!plain)
        csn_buf_putc(r->out, '"');
    take_same(r, plain);
    while (r->at < r->end && *r->at != '"') {
        if (next_char(r, &c) < 0)
            return -EBADMSG;
        if (plain || (c >= 0x20 && c != '"' && c != '\\'))
            put_char(r->out, c);
        else if (c == '"' || c == '\\')
            csn_buf_printf(r->out, "\\%c", (char) c);
        else if (c == '\n' || c == '\r' || c == '\t')
            csn_buf_puts(r->out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else
            csn_buf_printf(r->out, "\\u%04x", c);
        take_same(r, plain);
    }
    if (r->at == r->end)
        return -EBADMSG;
    r->at++;
    if (!plain)
        csn_buf_putc(r->out, '"');
    return 0;
}

static size_t digits(const char *p, const char *end)
{
    size_t n = 0;

    while (p + n < end && p[n] >= '0' && p[n] <= '9')
        n++;
    return n;
}

static int take_number(struct reader *r)
{
    const char *start = r->at, *p = r->at + (*r->at == '-');
    size_t n = digits(p, r->end);

    if (!n || (n > 1 && *p == '0'))
        return -EBADMSG;
    p += n;
    if (p < r->end && *p == '.') {
        n = digits(p + 1, r->end);
        if (!n)
            return -EBADMSG;
        p += 1 + n;
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < r->end && (*p == '+' || *p == '-');
        n = digits(p, r->end);
        if (!n)
            return -EBADMSG;
        p += n;
    }
    csn_buf_append(r->out, start, (size_t) (p - start));
    r->at = p;
    return 0;
}

static int take_word(struct reader *r)
{
    static const struct {
        const char *word, *json;
    } words[] = {
        { "true", "true" },   { "false", "false" },           { "null", "null" },
        { "NaN", "\"NaN\"" }, { "Infinity", "\"Infinity\"" }, { "-Infinity", "\"-Infinity\"" }
    };
    csn_str rest = csn_str_n(r->at, (size_t) (r->end - r->at));

    for (size_t i = 0; i < CSN_COUNT(words); i++)
        if (csn_str_starts_with(rest, csn_str_of(words[i].word))) {
            r->at += strlen(words[i].word);
            csn_buf_puts(r->out, words[i].json);
            return 0;
        }
    return -EBADMSG;
}

static int take_value(struct reader *r);

static int take_members(struct reader *r, char close)
{
    bool is_object = close == '}';

    skip_space(r);
    if (take(r, close))
        return 0;
    for (;;) {
        skip_space(r);
        if (is_object) {
            if (take_string(r, false) < 0)
                return -EBADMSG;
            skip_space(r);
            if (!take(r, ':'))
                return -EBADMSG;
        }
        if (take_value(r) < 0)
            return -EBADMSG;
        skip_space(r);
        if (take(r, close))
            return 0;
        if (!take(r, ','))
            return -EBADMSG;
    }
}

static int take_value(struct reader *r)
{
    int e;

    skip_space(r);
    if (r->at == r->end || r->depth == MAX_DEPTH)
        return -EBADMSG;
    if (*r->at == '"')
        return take_string(r, false);
    if (*r->at == '[' || *r->at == '{') {
        char close = *r->at == '[' ? ']' : '}';

        csn_buf_putc(r->out, *r->at++);
        r->depth++;
        e = take_members(r, close);
        r->depth--;
        return e;
    }
    if ((*r->at >= '0' && *r->at <= '9') ||
        (*r->at == '-' && r->end - r->at > 1 && r->at[1] != 'I'))
        return take_number(r);
    return take_word(r);
}

int csn_py_render(csn_str text, csn_buf *out)
{
    struct reader r = { text.data, text.data + text.len, out, 0 };

    if (take_value(&r) < 0)
        return -EBADMSG;
    skip_space(&r);
    return r.at == r.end ? out->error : -EBADMSG;
}

int csn_py_string(csn_str text, csn_buf *out)
{
    struct reader r = { text.data, text.data + text.len, out, 0 };

    skip_space(&r);
    if (take_string(&r, true) < 0)
        return -EBADMSG;
    skip_space(&r);
    return r.at == r.end ? out->error : -EBADMSG;
}

int csn_py_each(csn_str object, int (*fn)(csn_str name, csn_str value, void *user), void *user)
{
    csn_auto(buf) csn_buf scrap = CSN_BUF_INIT_MAX((size_t) 1 << 31);
    struct reader r = { object.data, object.data + object.len, &scrap, 0 };
    int e = 0;

    if (csn_py_render(object, &scrap) <
        0) /* all of it is sound: what follows need not look so closely */
        return -EBADMSG;
    skip_space(&r);
    if (r.at == r.end || *r.at++ != '{')
        return -EBADMSG;
    skip_space(&r);
    while (e == 0 && r.at < r.end && *r.at != '}') {
        const char *name = r.at, *value;
        size_t name_len;

        csn_buf_clear(&scrap);
        if (take_string(&r, true) < 0)
            return -EBADMSG;
        name_len = (size_t) (r.at - name);
        skip_space(&r);
        r.at++; /* the colon */
        skip_space(&r);
        value = r.at;
        if (take_value(&r) < 0)
            return -EBADMSG;
        e = fn(csn_str_n(name, name_len), csn_str_n(value, (size_t) (r.at - value)), user);
        skip_space(&r);
        if (r.at < r.end && *r.at == ',')
            r.at++;
        skip_space(&r);
    }
    return e;
}
