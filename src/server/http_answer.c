/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_answer.h"

#include "server/http1_private.h"

/* "HTTP/1.1 200 OK"; the reason may be missing, and the space before it too. */
static bool parse_line(csn_str line, csn_http_answer *a)
{
    csn_str version, code;
    uint64_t status;

    if (!csn_str_split(&line, ' ', &version) || !csn_str_split(&line, ' ', &code))
        return false;
    if (!csn_str_is(version, "HTTP/1.1") && !csn_str_is(version, "HTTP/1.0"))
        return false;
    if (code.len != 3 || csn_parse_u64(code, &status) < 0 || status < 100 || status > 599)
        return false;
    a->status = (int) status;
    a->head.minor = version.data[7] - '0';
    return true;
}

static bool take_known(const csn_http_header *hd, csn_http_head *h)
{
    if (csn_http_same(hd->name, "content-length")) {
        bool is_first = h->content_length < 0;
        return is_first && csn_http_take_length(hd->value, h) == 0;
    }
    if (csn_http_same(hd->name, "transfer-encoding")) {
        bool is_first = !h->is_chunked;
        h->is_chunked = true;
        return is_first && csn_http_same(hd->value, "chunked");
    }
    if (csn_http_same(hd->name, "connection") && csn_http_list_has(hd->value, "upgrade"))
        h->is_upgrade = true;
    return true;
}

bool csn_http_parse_answer(const char *data, size_t len, bool is_head_request, csn_http_answer *ret)
{
    csn_str rest = csn_str_n(data, len), line;
    csn_http_head *h = &ret->head;
    int more;

    *ret = (csn_http_answer){ .head = { .content_length = -1 } };
    if (csn_http_next_line(&rest, &line) != 1 || !parse_line(line, ret))
        return false;
    while ((more = csn_http_next_line(&rest, &line)) != 0) {
        if (more < 0 || h->n_headers == CSN_HTTP_HEADERS_MAX)
            return false;
        csn_http_header *hd = &h->headers[h->n_headers++];
        if (csn_http_parse_header(line, hd) != 0 || !take_known(hd, h))
            return false;
    }
    if (h->is_chunked && (h->content_length >= 0 || h->minor == 0))
        return false;
    ret->is_bodiless =
        is_head_request || ret->status < 200 || ret->status == 204 || ret->status == 304;
    ret->is_until_close = !ret->is_bodiless && !h->is_chunked && h->content_length < 0;
    return true;
}
