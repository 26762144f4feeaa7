/* Borrowed views of bytes, strict number parsing, checked sizes. Nothing here allocates. */
#ifndef CSN_BASE_STR_H
#define CSN_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct csn_str {
    const char *data; /* borrowed; not NUL-terminated */
    size_t len;
} csn_str;

#define CSN_STR(literal) ((csn_str){ "" literal, sizeof(literal) - 1 })

/* NULL becomes the empty view. */
csn_str csn_str_of(const char *text);
csn_str csn_str_n(const char *data, size_t len);

bool csn_str_eq(csn_str a, csn_str b);
bool csn_str_is(csn_str a, const char *text);
bool csn_str_starts_with(csn_str s, csn_str prefix);
bool csn_str_ends_with(csn_str s, csn_str suffix);
bool csn_streq(const char *a, const char *b); /* NULL equals only NULL */
bool csn_starts_with(const char *s, const char *prefix);

/* Without leading and trailing space, tab, CR and LF. */
csn_str csn_str_trim(csn_str s);

/* Cuts *rest at the first `sep`: the part before it goes to *ret_part, *rest continues behind it. False when *rest
 * is finished (data == NULL). "a,,b" gives "a", "", "b"; "" gives one empty part. */
bool csn_str_split(csn_str *rest, char sep, csn_str *ret_part);

/* The index of a byte, or -1. */
ptrdiff_t csn_str_find(csn_str s, char c);

/* Copies into a fixed array with a NUL: 0, or -ENAMETOOLONG (nothing written but an empty string), or -EINVAL if
 * s holds a NUL byte. */
int csn_str_copy(char *out, size_t out_size, csn_str s);

/* Strict decimal: digits only (one leading '-' for i64), no space, no sign '+', no rest. 0, -EINVAL or -ERANGE. */
int csn_parse_u64(csn_str s, uint64_t *ret);
int csn_parse_i64(csn_str s, int64_t *ret);

/* "4096", "512m", "1g", "1.5GiB": a number, then one of b k m g t (either case), optionally followed by "b" or "ib".
 * Units are powers of 1024. Bytes, at most INT64_MAX. */
int csn_parse_size(csn_str s, int64_t *ret_bytes);

/* "30s", "5m", "1.5s", "250ms", "2h", "1d", "10us", "5ns"; a bare number is seconds. Nanoseconds, >= 0. */
int csn_parse_duration(csn_str s, int64_t *ret_ns);

/* Checked arithmetic on sizes: 0, or -EOVERFLOW (*ret untouched). */
int csn_mul_size(size_t a, size_t b, size_t *ret);
int csn_add_size(size_t a, size_t b, size_t *ret);

/* A name for sandboxes, images, volumes: [A-Za-z0-9][A-Za-z0-9._-]{0,63}. */
bool csn_is_name(const char *s);

/* Exactly n lower-case hex digits. */
bool csn_is_hex(const char *s, size_t n);

#endif
