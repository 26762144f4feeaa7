/* SPDX-License-Identifier: Apache-2.0 */
/* An answer of a sandbox's own server: the first byte says how long the pieces are that it comes in. */
#include <stdint.h>
#include <stdlib.h>

#include "server/http_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_headers(const csn_http_head *h)
{
    for (size_t i = 0; i < h->n_headers; i++) {
        csn_str name = h->headers[i].name, value = h->headers[i].value;

        if (name.len == 0 || memchr(name.data, ':', name.len))
            abort();
        for (size_t k = 0; k < value.len; k++) /* what is passed on can't begin a line */
            if (value.data[k] == '\r' || value.data[k] == '\n' || value.data[k] == '\0')
                abort();
    }
}

static void read_body(const csn_http_head *h, const char *data, size_t len, size_t step)
{
    csn_http_body body;
    csn_str piece;

    csn_http_body_init(&body, h);
    while (len > 0 && !csn_http_body_is_done(&body)) {
        ssize_t n = csn_http_body_take(&body, data, len < step ? len : step, &piece);

        if (n < 0)
            return;
        if (n == 0 || (size_t) n > step || piece.len > (size_t) n)
            abort();
        data += n;
        len -= (size_t) n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_http_scan scan = { 0 };
    csn_http_answer a;

    if (size < 1)
        return 0;
    const char *text = (const char *) data + 1;
    size_t len = size - 1;
    ssize_t n = csn_http_scan_head(&scan, text, len);
    if (n <= 0 || !csn_http_parse_answer(text, (size_t) n, data[0] & 64, &a))
        return 0;
    if (a.status < 100 || a.status > 599 || (a.head.is_chunked && a.head.content_length >= 0) ||
        (a.is_until_close && (a.is_bodiless || a.head.is_chunked || a.head.content_length >= 0)))
        abort();
    check_headers(&a.head);
    read_body(&a.head, text + n, len - (size_t) n, data[0] % 64 + 1);
    return 0;
}
