/* SPDX-License-Identifier: Apache-2.0 */
/* Writing multipart/form-data: heads and the end. */
#include <string.h>

#include "base/id.h"
#include "server/multipart.h"
#include "server/url.h"

int csn_multipart_boundary(char out[CSN_BOUNDARY_SIZE])
{
    static const char start[] = "caisson-";

    memcpy(out, start, sizeof(start));
    return csn_id_hex(out + sizeof(start) - 1, 16);
}

/* One character of UTF-8 at s: its length, and whether Latin-1 has it too; 1 and false for a stray byte. */
static size_t char_at(csn_str s, unsigned char *ret_latin)
{
    unsigned char c = (unsigned char) s.data[0];
    size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

    *ret_latin = c < 0x80 ? c : 0;
    for (size_t i = 1; i < n; i++)
        if (i >= s.len || ((unsigned char) s.data[i] & 0xc0) != 0x80)
            return 1;
    if (n == 2 && c <= 0xc3)
        *ret_latin = (unsigned char) ((c & 3) << 6 | ((unsigned char) s.data[1] & 0x3f));
    return n;
}

/* Never raw UTF-8 and never a control character: both break clients that read the head as Latin-1 lines. */
static void put_latin(csn_buf *out, csn_str path)
{
    while (path.len > 0) {
        unsigned char c;
        size_t n = char_at(path, &c);

        if (c == '"' || c == '\\')
            csn_buf_putc(out, '\\');
        csn_buf_putc(out, c < 0x20 || (c >= 0x7f && c < 0xa0) ? '_' : (char) c);
        path = csn_str_n(path.data + n, path.len - n);
    }
}

void csn_multipart_put_head(csn_buf *out, const char *boundary, bool is_first, const char *name,
                            const char *path, const char *content_type, int64_t length)
{
    csn_buf_printf(out, "%s--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"",
                   is_first ? "" : "\r\n", boundary, name);
    put_latin(out, csn_str_of(path));
    csn_buf_puts(out, "\"; filename*=utf-8''");
    csn_url_encode(out, csn_str_of(path));
    csn_buf_printf(out, "\r\nContent-Type: %s\r\n", content_type);
    if (length >= 0)
        csn_buf_printf(out, "Content-Length: %lld\r\n", (long long) length);
    csn_buf_puts(out, "\r\n");
}

void csn_multipart_put_end(csn_buf *out, const char *boundary, bool is_empty)
{
    csn_buf_printf(out, "%s--%s--\r\n", is_empty ? "" : "\r\n", boundary);
}
