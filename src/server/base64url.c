/* SPDX-License-Identifier: Apache-2.0 */
#include "server/base64url.h"

#include <errno.h>
#include <stdint.h>

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

int csn_base64url_decode(csn_str text, csn_buf *out)
{
    uint32_t bits = 0;
    unsigned n_bits = 0;

    while (text.len > 0 && text.data[text.len - 1] == '=')
        text.len--;
    if (text.len % 4 == 1)
        return -EBADMSG;
    for (size_t i = 0; i < text.len; i++) {
        int d = digit(text.data[i]);
        if (d < 0)
            return -EBADMSG;
        bits = bits << 6 | (uint32_t) d;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        (void) csn_buf_putc(out, (char) (bits >> n_bits)); /* sticky */
    }
    return out->error;
}
