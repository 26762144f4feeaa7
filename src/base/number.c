/* Numbers as people and files write them; declared in str.h. */
#include <errno.h>

#include "auto.h"
#include "str.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int csn_parse_u64(csn_str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.len == 0)
        return -EINVAL;
    for (size_t i = 0; i < s.len; i++)
        if (!is_digit(s.data[i]))
            return -EINVAL;
    for (size_t i = 0; i < s.len; i++)
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t) (s.data[i] - '0'), &v))
            return -ERANGE;
    *ret = v;
    return 0;
}

int csn_parse_i64(csn_str s, int64_t *ret)
{
    bool is_negative = s.len > 0 && s.data[0] == '-';
    uint64_t v;

    if (is_negative)
        s = csn_str_n(s.data + 1, s.len - 1);
    int r = csn_parse_u64(s, &v);
    if (r < 0)
        return r;
    if (v > (uint64_t) INT64_MAX + (is_negative ? 1 : 0))
        return -ERANGE;
    *ret = is_negative ? (int64_t) (0 - v) : (int64_t) v;
    return 0;
}

/* "12.5suffix": the digits as whole and billionths, and the rest. At most nine digits after the point count. */
static int parse_decimal(csn_str s, uint64_t *ret_whole, uint64_t *ret_billionths,
                         csn_str *ret_rest)
{
    size_t i = 0;

    while (i < s.len && is_digit(s.data[i]))
        i++;
    int r = csn_parse_u64(csn_str_n(s.data, i), ret_whole);
    if (r < 0)
        return r;
    *ret_billionths = 0;
    if (i < s.len && s.data[i] == '.') {
        uint64_t unit = 100000000;
        size_t point = i++;
        for (; i < s.len && is_digit(s.data[i]); i++, unit /= 10)
            *ret_billionths += (uint64_t) (s.data[i] - '0') * unit;
        if (i == point + 1)
            return -EINVAL;
    }
    *ret_rest = csn_str_n(s.data + i, s.len - i);
    return 0;
}

static int scale(uint64_t whole, uint64_t billionths, uint64_t unit, int64_t *ret)
{
    unsigned __int128 v = (unsigned __int128) whole * unit;

    v += (unsigned __int128) billionths * unit / 1000000000u;
    if (v > (unsigned __int128) INT64_MAX)
        return -ERANGE;
    *ret = (int64_t) v;
    return 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char) (c - 'A' + 'a') : c;
}

static bool is_word_nocase(csn_str s, const char *word)
{
    if (s.len != strlen(word))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (lower(s.data[i]) != word[i])
            return false;
    return true;
}

int csn_parse_size(csn_str s, int64_t *ret_bytes)
{
    static const char units[] = "bkmgt";
    uint64_t whole, billionths;
    unsigned shift = 0;
    csn_str rest;

    int r = parse_decimal(s, &whole, &billionths, &rest);
    if (r < 0)
        return r;
    if (rest.len > 0) {
        const char *unit = lower(rest.data[0]) ? strchr(units, lower(rest.data[0])) : NULL;
        csn_str tail = csn_str_n(rest.data + 1, rest.len - 1);
        if (!unit)
            return -EINVAL;
        shift = (unsigned) (unit - units) * 10;
        if (tail.len > 0 &&
            (shift == 0 || (!is_word_nocase(tail, "b") && !is_word_nocase(tail, "ib"))))
            return -EINVAL;
    }
    return scale(whole, billionths, UINT64_C(1) << shift, ret_bytes);
}

int csn_parse_duration(csn_str s, int64_t *ret_ns)
{
    static const struct {
        const char *word;
        uint64_t ns;
    } units[] = {
        { "", 1000000000 },
        { "ns", 1 },
        { "us", 1000 },
        { "ms", 1000000 },
        { "s", 1000000000 },
        { "m", UINT64_C(60000000000) },
        { "h", UINT64_C(3600000000000) },
        { "d", UINT64_C(86400000000000) },
    };
    uint64_t whole, billionths;
    csn_str rest;

    int r = parse_decimal(s, &whole, &billionths, &rest);
    if (r < 0)
        return r;
    for (size_t i = 0; i < CSN_COUNT(units); i++)
        if (csn_str_is(rest, units[i].word))
            return scale(whole, billionths, units[i].ns, ret_ns);
    return -EINVAL;
}
