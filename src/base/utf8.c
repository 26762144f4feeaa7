#include "utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The table of Unicode 15, 3-7: after these first bytes, this range for the second byte. */
static int expect(unsigned char first, unsigned char *ret_low, unsigned char *ret_high)
{
    *ret_low = 0x80;
    *ret_high = 0xbf;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef) {
        if (first == 0xe0)
            *ret_low = 0xa0; /* no overlong forms */
        if (first == 0xed)
            *ret_high = 0x9f; /* no surrogates */
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (first == 0xf0)
            *ret_low = 0x90;
        if (first == 0xf4)
            *ret_high = 0x8f; /* <= U+10FFFF */
        return 4;
    }
    return 0;
}

/* Looks at one character: its length if whole; 0 if bad, with *ret_bad the length of the maximal bad part; -1 if cut. */
static int look(const char *data, size_t len, unsigned *ret_code_point, size_t *ret_bad)
{
    const unsigned char *s = (const unsigned char *) data;
    unsigned char low, high;

    if (s[0] < 0x80) {
        *ret_code_point = s[0];
        return 1;
    }
    int n = expect(s[0], &low, &high);
    *ret_bad = 1;
    if (n == 0)
        return 0;
    unsigned cp = s[0] & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((size_t) i >= len)
            return -1;
        if (s[i] < low || s[i] > high) {
            *ret_bad = (size_t) i;
            return 0;
        }
        cp = cp << 6 | (s[i] & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    *ret_code_point = cp;
    return n;
}

int csn_utf8_next(const char *data, size_t len, unsigned *ret_code_point)
{
    unsigned cp = 0;
    size_t bad;

    if (len == 0)
        return -1;
    int n = look(data, len, &cp, &bad);
    if (n > 0 && ret_code_point)
        *ret_code_point = cp;
    return n;
}

bool csn_utf8_valid(const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        int n = csn_utf8_next(data + i, len - i, NULL);
        if (n <= 0)
            return false;
        i += (size_t) n;
    }
    return true;
}

/* Appends all of data but a cut character at its end; returns how many bytes that cut one has. */
static size_t lossy_part(const char *data, size_t len, csn_buf *out)
{
    size_t good_from = 0, i = 0, bad = 0;
    unsigned cp;

    while (i < len) {
        int n = look(data + i, len - i, &cp, &bad);
        if (n > 0) {
            i += (size_t) n;
            continue;
        }
        csn_buf_append(out, data + good_from, i - good_from);
        if (n < 0)
            return len - i;
        csn_buf_puts(out, REPLACEMENT);
        i += bad;
        good_from = i;
    }
    csn_buf_append(out, data + good_from, len - good_from);
    return 0;
}

/* Completes the held character with bytes of the new piece; returns how many of them were used up. */
static size_t complete_held(csn_utf8_state *state, const char *data, size_t len, csn_buf *out)
{
    size_t used = 0, bad;
    unsigned cp;

    while (state->n_held > 0 && used < len) {
        state->held[state->n_held] = data[used];
        int n = look(state->held, state->n_held + 1, &cp, &bad);
        if (n < 0) {
            state->n_held++;
            used++;
        } else if (n > 0) {
            csn_buf_append(out, state->held, (size_t) n);
            state->n_held = 0;
            used++;
        } else { /* the new byte doesn't belong to it: it starts something of its own */
            csn_buf_puts(out, REPLACEMENT);
            state->n_held = 0;
        }
    }
    return used;
}

int csn_utf8_lossy(csn_utf8_state *state, const char *data, size_t len, csn_buf *out)
{
    csn_utf8_state whole = { .n_held = 0 };
    csn_utf8_state *s = state ? state : &whole;
    size_t used = complete_held(s, data, len, out);

    if (used < len) {
        size_t cut = lossy_part(data + used, len - used, out);
        memcpy(s->held, data + len - cut, cut);
        s->n_held = (unsigned) cut;
    }
    return state ? out->error : csn_utf8_finish(s, out);
}

int csn_utf8_finish(csn_utf8_state *state, csn_buf *out)
{
    if (state->n_held > 0)
        csn_buf_puts(out, REPLACEMENT);
    state->n_held = 0;
    return out->error;
}

static bool drives_terminal(unsigned cp)
{
    return (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7f && cp <= 0x9f);
}

/* Line and paragraph separators, and what turns the direction of text around: a shown name must not look like
 * another one. */
static bool misleads_reader(unsigned cp)
{
    return cp == 0x2028 || cp == 0x2029 || (cp >= 0x202a && cp <= 0x202e) ||
           (cp >= 0x2066 && cp <= 0x2069) || cp == 0x200e || cp == 0x200f || cp == 0x061c;
}

int csn_escape_terminal(const char *data, size_t len, csn_buf *out)
{
    size_t plain_from = 0;

    for (size_t i = 0; i < len;) {
        unsigned cp = 0;
        int n = csn_utf8_next(data + i, len - i, &cp);
        bool is_plain = n > 0 && !drives_terminal(cp) && !misleads_reader(cp);
        size_t step = n > 0 ? (size_t) n : 1;

        if (!is_plain) {
            csn_buf_append(out, data + plain_from, i - plain_from);
            if (n > 0 && misleads_reader(cp))
                csn_buf_printf(out, "\\u{%04x}", cp);
            else
                csn_buf_printf(out, "\\x%02x", n > 0 ? cp : (unsigned char) data[i]);
            plain_from = i + step;
        }
        i += step;
    }
    csn_buf_append(out, data + plain_from, len - plain_from);
    return out->error;
}
