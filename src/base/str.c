#include "str.h"

#include <errno.h>

csn_str csn_str_of(const char *text)
{
    return csn_str_n(text ? text : "", text ? strlen(text) : 0);
}

csn_str csn_str_n(const char *data, size_t len)
{
    return (csn_str){ data, len };
}

bool csn_str_eq(csn_str a, csn_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool csn_str_is(csn_str a, const char *text)
{
    return csn_str_eq(a, csn_str_of(text));
}

bool csn_str_starts_with(csn_str s, csn_str prefix)
{
    return s.len >= prefix.len && csn_str_eq(csn_str_n(s.data, prefix.len), prefix);
}

bool csn_str_ends_with(csn_str s, csn_str suffix)
{
    return s.len >= suffix.len &&
           csn_str_eq(csn_str_n(s.data + (s.len - suffix.len), suffix.len), suffix);
}

bool csn_streq(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool csn_starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

csn_str csn_str_trim(csn_str s)
{
    while (s.len > 0 && is_blank(s.data[0])) {
        s.data++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.data[s.len - 1]))
        s.len--;
    return s;
}

ptrdiff_t csn_str_find(csn_str s, char c)
{
    const char *at = s.len ? memchr(s.data, c, s.len) : NULL;

    return at ? at - s.data : -1;
}

bool csn_str_split(csn_str *rest, char sep, csn_str *ret_part)
{
    if (!rest->data)
        return false;
    ptrdiff_t at = csn_str_find(*rest, sep);
    if (at < 0) {
        *ret_part = *rest;
        *rest = csn_str_n(NULL, 0);
        return true;
    }
    *ret_part = csn_str_n(rest->data, (size_t) at);
    rest->data += at + 1;
    rest->len -= (size_t) at + 1;
    return true;
}

int csn_str_copy(char *out, size_t out_size, csn_str s)
{
    if (out_size > 0)
        out[0] = '\0';
    if (s.len >= out_size)
        return -ENAMETOOLONG;
    if (csn_str_find(s, '\0') >= 0)
        return -EINVAL;
    if (s.len > 0)
        memcpy(out, s.data, s.len);
    out[s.len] = '\0';
    return 0;
}

int csn_mul_size(size_t a, size_t b, size_t *ret)
{
    size_t product;

    if (__builtin_mul_overflow(a, b, &product))
        return -EOVERFLOW;
    *ret = product;
    return 0;
}

int csn_add_size(size_t a, size_t b, size_t *ret)
{
    size_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return -EOVERFLOW;
    *ret = sum;
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool csn_is_name(const char *s)
{
    if (!s || !is_alnum(s[0]))
        return false;
    for (size_t i = 1; s[i]; i++)
        if (i > 63 || !(is_alnum(s[i]) || s[i] == '.' || s[i] == '_' || s[i] == '-'))
            return false;
    return true;
}

bool csn_is_hex(const char *s, size_t n)
{
    if (!s)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_digit(s[i]) && !(s[i] >= 'a' && s[i] <= 'f'))
            return false;
    return s[n] == '\0';
}
