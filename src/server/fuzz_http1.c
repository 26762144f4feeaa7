/* SPDX-License-Identifier: Apache-2.0 */
/* A request in pieces: the first byte says how long they are, the rest is the request. However it is cut, the reader must
 * come to the same result as over the whole. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "server/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t scan_in_steps(const char *data, size_t len, size_t step)
{
    csn_http_scan scan = { 0 };
    ssize_t r = 0;

    for (size_t n = step; r == 0; n += step) {
        r = csn_http_scan_head(&scan, data, n < len ? n : len);
        if (n >= len)
            break;
    }
    return r;
}

/* The body's bytes, or what the error was. *ret_used: bytes of the stream. */
static int read_body(const csn_http_head *head, const char *data, size_t len, size_t step,
                     csn_buf *out, size_t *ret_used)
{
    csn_http_body body;
    csn_str piece;
    size_t at = 0;

    csn_http_body_init(&body, head);
    while (at < len && !csn_http_body_is_done(&body)) {
        ssize_t n = csn_http_body_take(&body, data + at, len - at < step ? len - at : step, &piece);

        if (n < 0)
            return (int) n;
        if (n == 0 || (size_t) n > step)
            abort();
        csn_buf_append(out, piece.data, piece.len);
        at += (size_t) n;
    }
    *ret_used = at;
    return csn_http_body_is_done(&body);
}

static void check_body(const csn_http_head *head, const char *data, size_t len, size_t step)
{
    csn_auto(buf) csn_buf whole = CSN_BUF_INIT;
    csn_auto(buf) csn_buf cut = CSN_BUF_INIT;
    size_t used = 0, used_cut = 0;
    int a = read_body(head, data, len, len ? len : 1, &whole, &used);
    int b = read_body(head, data, len, step, &cut, &used_cut);

    if (a != b || (a >= 0 && (used != used_cut || whole.len != cut.len ||
                              memcmp(whole.data, cut.data, cut.len) != 0)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_http_head head;
    csn_http_scan scan = { 0 };

    if (size < 1)
        return 0;
    size_t step = data[0] % 64 + 1, len = size - 1;
    const char *text = (const char *) data + 1;
    ssize_t n = csn_http_scan_head(&scan, text, len);
    ssize_t m = scan_in_steps(text, len, step);
    if (n != m &&
        !(n < 0 && m < 0)) /* which of two mistakes comes first may depend on the pieces */
        abort();
    if (n <= 0 || csn_http_parse_head(text, (size_t) n, &head) != 0)
        return 0;
    if (head.is_chunked && head.content_length >= 0)
        abort();
    check_body(&head, text + n, len - (size_t) n, step);
    return 0;
}
