/* The streaming JSON writer; declared in json.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "utf8.h"

#define MAX_DEPTH 64

static uint64_t level_bit(const csn_jw *w)
{
    return UINT64_C(1) << (w->depth - 1);
}

static void misuse(csn_jw *w)
{
    if (w->out->error == 0)
        w->out->error = -EINVAL;
}

static void new_line(csn_jw *w)
{
    if (!w->pretty)
        return;
    csn_buf_putc(w->out, '\n');
    for (unsigned i = 0; i < w->depth; i++)
        csn_buf_puts(w->out, "  ");
}

/* Comma and line before a member: an object's key or an array's value. */
static void next_member(csn_jw *w)
{
    if (w->has_members & level_bit(w))
        csn_buf_putc(w->out, ',');
    w->has_members |= level_bit(w);
    new_line(w);
}

/* Every value passes here first: is one allowed now? */
static bool begin_value(csn_jw *w)
{
    bool in_object = w->depth > 0 && (w->is_object & level_bit(w));

    if ((w->depth == 0 && w->done) || (in_object && !w->after_key)) {
        misuse(w);
        return false;
    }
    if (w->depth > 0 && !in_object)
        next_member(w);
    w->after_key = false;
    if (w->depth == 0)
        w->done = true;
    return true;
}

static void begin(csn_jw *w, char bracket, bool is_object)
{
    if (w->depth >= MAX_DEPTH) {
        misuse(w);
        return;
    }
    if (!begin_value(w))
        return;
    csn_buf_putc(w->out, bracket);
    w->depth++;
    w->has_members &= ~level_bit(w);
    w->is_object = is_object ? w->is_object | level_bit(w) : w->is_object & ~level_bit(w);
}

static void end(csn_jw *w, char bracket, bool is_object)
{
    if (w->depth == 0 || w->after_key || !!(w->is_object & level_bit(w)) != is_object) {
        misuse(w);
        return;
    }
    bool had_members = w->has_members & level_bit(w);
    w->depth--;
    if (had_members)
        new_line(w);
    csn_buf_putc(w->out, bracket);
}

void csn_jw_begin_object(csn_jw *w)
{
    begin(w, '{', true);
}

void csn_jw_end_object(csn_jw *w)
{
    end(w, '}', true);
}

void csn_jw_begin_array(csn_jw *w)
{
    begin(w, '[', false);
}

void csn_jw_end_array(csn_jw *w)
{
    end(w, ']', false);
}

static void put_escaped(csn_buf *out, unsigned char c)
{
    static const char shorts[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *at = c ? strchr(shorts, c) : NULL;

    if (at)
        csn_buf_printf(out, "\\%c", letters[at - shorts]);
    else
        csn_buf_printf(out, "\\u%04x", c);
}

static void put_quoted(csn_buf *out, const char *data, size_t len)
{
    size_t from = 0, i = 0;

    csn_buf_putc(out, '"');
    for (; i < len; i++) {
        unsigned char c = (unsigned char) data[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        csn_buf_append(out, data + from, i - from);
        put_escaped(out, c);
        from = i + 1;
    }
    csn_buf_append(out, data + from, len - from);
    csn_buf_putc(out, '"');
}

static void put_lossy(csn_buf *out, const char *data, size_t len)
{
    csn_auto(buf) csn_buf clean = CSN_BUF_INIT_MAX(SIZE_MAX / 4);

    if (csn_utf8_valid(data, len)) {
        put_quoted(out, data, len);
        return;
    }
    if (csn_utf8_lossy(NULL, data, len, &clean) < 0 && out->error == 0)
        out->error = clean.error;
    put_quoted(out, clean.data, clean.len);
}

void csn_jw_key(csn_jw *w, const char *key)
{
    if (w->depth == 0 || !(w->is_object & level_bit(w)) || w->after_key) {
        misuse(w);
        return;
    }
    next_member(w);
    put_lossy(w->out, key, strlen(key));
    csn_buf_puts(w->out, w->pretty ? ": " : ":");
    w->after_key = true;
}

void csn_jw_string(csn_jw *w, const char *data, size_t len)
{
    if (begin_value(w))
        put_lossy(w->out, data, len);
}

void csn_jw_str(csn_jw *w, const char *text)
{
    if (text)
        csn_jw_string(w, text, strlen(text));
    else
        csn_jw_null(w);
}

void csn_jw_raw(csn_jw *w, const char *json, size_t len)
{
    if (begin_value(w))
        csn_buf_append(w->out, json, len);
}

static void put_word(csn_jw *w, const char *word)
{
    csn_jw_raw(w, word, strlen(word));
}

void csn_jw_int(csn_jw *w, int64_t v)
{
    if (begin_value(w))
        csn_buf_printf(w->out, "%lld", (long long) v);
}

void csn_jw_uint(csn_jw *w, uint64_t v)
{
    if (begin_value(w))
        csn_buf_printf(w->out, "%llu", (unsigned long long) v);
}

void csn_jw_double(csn_jw *w, double v)
{
    char text[40];

    if (!isfinite(v)) {
        csn_jw_null(w);
        return;
    }
    (void) snprintf(text, sizeof(text), "%.15g", v);
    if (strtod(text, NULL) != v) /* the shorter form where it says the same */
        (void) snprintf(text, sizeof(text), "%.17g", v);
    for (char *at = text; *at; at++)
        if (*at == ',') /* the host program may have set a locale */
            *at = '.';
    if (!begin_value(w))
        return;
    csn_buf_puts(w->out, text);
    if (!strpbrk(text, ".e"))
        csn_buf_puts(w->out, ".0");
}

void csn_jw_bool(csn_jw *w, bool v)
{
    put_word(w, v ? "true" : "false");
}

void csn_jw_null(csn_jw *w)
{
    put_word(w, "null");
}

void csn_jw_value(csn_jw *w, const csn_json *v)
{
    if (!v)
        csn_jw_null(w);
    else if (begin_value(w))
        (void) csn_json_dump(v, false, w->out); /* its error sticks in out */
}

void csn_jw_kstr(csn_jw *w, const char *key, const char *text)
{
    csn_jw_key(w, key);
    csn_jw_str(w, text);
}

void csn_jw_kstrs(csn_jw *w, const char *key, char *const *list)
{
    csn_jw_key(w, key);
    csn_jw_begin_array(w);
    for (size_t i = 0; list && list[i]; i++)
        csn_jw_str(w, list[i]);
    csn_jw_end_array(w);
}

void csn_jw_kint(csn_jw *w, const char *key, int64_t v)
{
    csn_jw_key(w, key);
    csn_jw_int(w, v);
}

void csn_jw_kdouble(csn_jw *w, const char *key, double v)
{
    csn_jw_key(w, key);
    csn_jw_double(w, v);
}

void csn_jw_kbool(csn_jw *w, const char *key, bool v)
{
    csn_jw_key(w, key);
    csn_jw_bool(w, v);
}
