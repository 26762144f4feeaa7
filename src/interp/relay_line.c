/* SPDX-License-Identifier: Apache-2.0 */
#include "relay_line.h"

#include <errno.h>

static void put_head(char *out, char kind, size_t len)
{
    out[0] = kind;
    for (int k = 1; k < CSN_RELAY_HEAD; k++)
        out[k] = (char) (len >> (32 - 8 * k));
}

int csn_relay_put(csn_buf *out, char kind, const void *data, size_t len)
{
    char head[CSN_RELAY_HEAD];
    int r;

    put_head(head, kind, len);
    r = csn_buf_append(out, head, sizeof(head));
    return r < 0 ? r : csn_buf_append(out, data, len);
}

size_t csn_relay_next(const csn_buf *in, char *ret_kind, csn_str *ret_data)
{
    const unsigned char *p = (const unsigned char *) in->data;
    size_t len;

    if (in->len < CSN_RELAY_HEAD)
        return 0;
    len = (size_t) p[1] << 24 | (size_t) p[2] << 16 | (size_t) p[3] << 8 | p[4];
    if (in->len - CSN_RELAY_HEAD < len)
        return 0;
    *ret_kind = (char) p[0];
    *ret_data = csn_str_n(in->data + CSN_RELAY_HEAD, len);
    return CSN_RELAY_HEAD + len;
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four letters of base64 at a time; '=' in the last ones only. */
static int decode(csn_str text, char *out, size_t *ret_len)
{
    size_t n = 0;

    if (text.len % 4 != 0)
        return -EBADMSG;
    for (size_t at = 0; at < text.len; at += 4) {
        const char *p = text.data + at;
        bool is_last = at + 4 == text.len;
        int n_pad = is_last && p[3] == '=' ? (p[2] == '=' ? 2 : 1) : 0;
        unsigned bits = 0;

        for (int k = 0; k < 4 - n_pad; k++) {
            int d = digit_of(p[k]);

            if (d < 0)
                return -EBADMSG;
            bits |= (unsigned) d << (18 - 6 * k);
        }
        for (int k = 0; k < 3 - n_pad; k++)
            out[n++] = (char) (bits >> (16 - 8 * k));
    }
    *ret_len = n;
    return 0;
}

int csn_relay_line_read(csn_str line, csn_buf *out)
{
    size_t len = 0;
    char *at;
    int r;

    if (line.len == 0 || line.len > CSN_RELAY_LINE_MAX)
        return -EBADMSG;
    r = csn_buf_reserve(out, CSN_RELAY_HEAD + line.len);
    if (r < 0)
        return r;
    at = out->data + out->len;
    r = decode(csn_str_n(line.data + 1, line.len - 1), at + CSN_RELAY_HEAD, &len);
    if (r < 0 || len > CSN_RELAY_DATA_MAX)
        return -EBADMSG;
    put_head(at, line.data[0], len);
    csn_buf_grew(out, CSN_RELAY_HEAD + len);
    return 0;
}
