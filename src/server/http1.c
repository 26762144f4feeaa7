/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http1.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "server/http1_private.h"

static bool is_tchar(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_value_char(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

bool csn_http_same(csn_str a, const char *b)
{
    return strlen(b) == a.len && strncasecmp(a.data, b, a.len) == 0;
}

bool csn_http_list_at(csn_str list, size_t i, csn_str *ret)
{
    csn_str part;

    while (csn_str_split(&list, ',', &part)) {
        part = csn_str_trim(part);
        if (part.len == 0)
            continue;
        if (i-- == 0) {
            *ret = part;
            return true;
        }
    }
    return false;
}

bool csn_http_list_has(csn_str list, const char *token)
{
    csn_str part;

    while (csn_str_split(&list, ',', &part))
        if (csn_http_same(csn_str_trim(part), token))
            return true;
    return false;
}

size_t csn_http_skip_empty(const char *data, size_t len)
{
    size_t n = 0;

    while (n < 4 && len - n >= 2 && data[n] == '\r' && data[n + 1] == '\n')
        n += 2;
    return n;
}

/* One line at a time, so that a bare LF is refused when it comes and not when the client's time is up. */
ssize_t csn_http_scan_head(csn_http_scan *scan, const char *data, size_t len)
{
    if (len > 0 && data[0] != '\r' && !is_tchar((unsigned char) data[0]))
        return -400; /* no method starts like this; TLS does */
    while (scan->at < len) {
        const char *lf = memchr(data + scan->at, '\n', len - scan->at);

        if (!lf)
            break;
        size_t end = (size_t) (lf - data);
        if (end == scan->line || data[end - 1] != '\r')
            return -400;
        if (scan->line == 0 && end > CSN_HTTP_LINE_MAX)
            return -414;
        if (end == scan->line + 1)
            return scan->line == 0 ? -400 : (ssize_t) end + 1;
        scan->line = scan->at = end + 1;
        if (scan->line > CSN_HTTP_HEAD_MAX)
            return -431;
    }
    scan->at = len;
    if (scan->line == 0 && len > CSN_HTTP_LINE_MAX)
        return -414;
    return len > CSN_HTTP_HEAD_MAX ? -431 : 0;
}

static bool is_all(csn_str s, bool (*is)(unsigned char c))
{
    for (size_t i = 0; i < s.len; i++)
        if (!is((unsigned char) s.data[i]))
            return false;
    return true;
}

static bool is_target_char(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '#';
}

static int parse_version(csn_str v, int *ret_minor)
{
    if (csn_str_is(v, "HTTP/1.1"))
        *ret_minor = 1;
    else if (csn_str_is(v, "HTTP/1.0"))
        *ret_minor = 0;
    else
        return v.len == 8 && memcmp(v.data, "HTTP/", 5) == 0 && v.data[6] == '.' ? 505 : 400;
    return 0;
}

static int parse_line(csn_str line, csn_http_head *h)
{
    csn_str version;

    if (!csn_str_split(&line, ' ', &h->method) || !csn_str_split(&line, ' ', &h->target) ||
        !csn_str_split(&line, ' ', &version) || line.data)
        return 400;
    if (h->method.len == 0 || !is_all(h->method, is_tchar))
        return 400;
    if (h->target.len == 0 || !is_all(h->target, is_target_char))
        return 400;
    return parse_version(version, &h->minor);
}

int csn_http_parse_header(csn_str line, csn_http_header *ret)
{
    ptrdiff_t colon = csn_str_find(line, ':');

    if (colon <= 0) /* also a folded line: it starts with a space, which is no part of a name */
        return 400;
    ret->name = csn_str_n(line.data, (size_t) colon);
    ret->value = csn_str_n(line.data + colon + 1, line.len - (size_t) colon - 1);
    if (!is_all(ret->name, is_tchar) || !is_all(ret->value, is_value_char))
        return 400;
    ret->value = csn_str_trim(ret->value);
    return 0;
}

/* What decides where a request ends and whom it is for may be said once only. */
typedef struct once {
    bool length, encoding, host;
} once;

int csn_http_take_length(csn_str value, csn_http_head *h)
{
    uint64_t n;

    if (csn_parse_u64(value, &n) < 0 || n > INT64_MAX / 2)
        return 400;
    h->content_length = (int64_t) n;
    return 0;
}

static int take_once(bool *is_seen)
{
    bool was = *is_seen;

    *is_seen = true;
    return was ? 400 : 0;
}

static int take_known(const csn_http_header *hd, csn_http_head *h, once *seen)
{
    int r = 0;

    if (csn_http_same(hd->name, "content-length")) {
        r = take_once(&seen->length);
        return r ? r : csn_http_take_length(hd->value, h);
    }
    if (csn_http_same(hd->name, "transfer-encoding")) {
        h->is_chunked = true;
        r = take_once(&seen->encoding);
        return r ? r : csn_http_same(hd->value, "chunked") ? 0 : 400;
    }
    if (csn_http_same(hd->name, "host")) {
        h->host = hd->value;
        return take_once(&seen->host);
    }
    if (csn_http_same(hd->name, "expect")) {
        h->expects_continue = true;
        return csn_http_same(hd->value, "100-continue") ? 0 : 417;
    }
    if (csn_http_same(hd->name, "connection")) {
        if (csn_http_list_has(hd->value, "close"))
            h->is_keep_alive = false;
        if (csn_http_list_has(hd->value, "upgrade"))
            h->is_upgrade = true;
    }
    return 0;
}

static int check_head(const csn_http_head *h, const once *seen)
{
    if (h->is_chunked && (seen->length || h->minor == 0))
        return 400;
    return h->minor == 1 && !seen->host ? 400 : 0;
}

int csn_http_next_line(csn_str *rest, csn_str *ret_line)
{
    if (!csn_str_split(rest, '\n', ret_line) || !rest->data || ret_line->len == 0)
        return -1;
    const char *cr = memchr(ret_line->data, '\r', ret_line->len);
    if (!cr || cr != ret_line->data + ret_line->len - 1)
        return -1;
    ret_line->len--;
    return ret_line->len > 0;
}

int csn_http_parse_head(const char *data, size_t len, csn_http_head *ret)
{
    csn_str rest = csn_str_n(data, len), line;
    once seen = { 0 };
    int more;

    *ret = (csn_http_head){ .content_length = -1, .is_keep_alive = true };
    if (csn_http_next_line(&rest, &line) != 1)
        return 400;
    int r = parse_line(line, ret);
    if (ret->minor == 0)
        ret->is_keep_alive = false; /* its answers have no chunks: they end with the connection */
    while (r == 0 && (more = csn_http_next_line(&rest, &line)) != 0) {
        if (more < 0)
            return 400;
        if (ret->n_headers == CSN_HTTP_HEADERS_MAX)
            return 431;
        csn_http_header *hd = &ret->headers[ret->n_headers++];
        r = csn_http_parse_header(line, hd);
        if (r == 0)
            r = take_known(hd, ret, &seen);
    }
    return r ? r : check_head(ret, &seen);
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

enum {
    LENGTH,
    SIZE_FIRST, /* a chunk's size: its first digit … */
    SIZE,       /* … the others */
    EXT,        /* behind a ';', which nobody uses */
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST, /* at the start of a line behind the last chunk */
    TRAILER,
    TRAILER_LF,
    END_LF,
    DONE
};
enum { EXT_MAX = 256, TRAILER_MAX = 8 << 10 };

void csn_http_body_init(csn_http_body *body, const csn_http_head *head)
{
    *body = (csn_http_body){ .is_chunked = head->is_chunked };
    if (head->is_chunked) {
        body->state = SIZE_FIRST;
        return;
    }
    body->left = head->content_length > 0 ? head->content_length : 0;
    body->state = body->left > 0 ? LENGTH : DONE;
}

void csn_http_body_endless(csn_http_body *body)
{
    *body = (csn_http_body){ .left = INT64_MAX, .state = LENGTH };
}

bool csn_http_body_is_done(const csn_http_body *body)
{
    return body->state == DONE;
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char) (c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_size(csn_http_body *b, char c)
{
    int digit = hex_of(c);

    if (digit >= 0) {
        if (b->left >> 40 || ++b->n_line > 16) /* 16 TiB in one chunk; or more zeros than any number has */
            return -EBADMSG;
        b->left = b->left * 16 + digit;
        b->state = SIZE;
        return 0;
    }
    if (b->state == SIZE_FIRST || (c != '\r' && c != ';'))
        return -EBADMSG;
    b->state = c == ';' ? EXT : SIZE_LF;
    b->n_line = 0;
    return 0;
}

static int take_ext(csn_http_body *b, char c)
{
    if (c == '\r')
        b->state = SIZE_LF;
    else if (!is_value_char((unsigned char) c) || ++b->n_line > EXT_MAX)
        return -EBADMSG;
    return 0;
}

static int take_trailer(csn_http_body *b, char c)
{
    if (++b->n_line > TRAILER_MAX)
        return -EBADMSG;
    if (c == '\r')
        b->state = b->state == TRAILER_FIRST ? END_LF : TRAILER_LF;
    else if (!(b->state == TRAILER_FIRST ? is_tchar((unsigned char) c)
                                         : is_value_char((unsigned char) c)))
        return -EBADMSG;
    else
        b->state = TRAILER;
    return 0;
}

static int take_lf(csn_http_body *b, char c)
{
    if (c != '\n')
        return -EBADMSG;
    if (b->state == SIZE_LF)
        b->state = b->left > 0 ? DATA : TRAILER_FIRST;
    else if (b->state == DATA_LF)
        b->state = SIZE_FIRST; /* n_line is zero since its chunk ended */
    else
        b->state = b->state == END_LF ? DONE : TRAILER_FIRST;
    return 0;
}

static int take_byte(csn_http_body *b, char c)
{
    switch (b->state) {
    case SIZE_FIRST:
    case SIZE:
        return take_size(b, c);
    case EXT:
        return take_ext(b, c);
    case TRAILER_FIRST:
    case TRAILER:
        return take_trailer(b, c);
    case DATA_CR:
        b->state = DATA_LF;
        return c == '\r' ? 0 : -EBADMSG;
    default:
        return take_lf(b, c);
    }
}

static size_t take_piece(csn_http_body *b, const char *data, size_t len, csn_str *ret)
{
    size_t n = b->left < (int64_t) len ? (size_t) b->left : len;

    *ret = csn_str_n(data, n);
    b->left -= (int64_t) n;
    if (b->left == 0) {
        b->state = b->state == LENGTH ? DONE : DATA_CR;
        b->n_line = 0;
    }
    return n;
}

ssize_t csn_http_body_take(csn_http_body *body, const char *data, size_t len, csn_str *ret_piece)
{
    size_t n = 0;

    *ret_piece = csn_str_n(data, 0);
    while (n < len && body->state != DONE) {
        if (body->state == LENGTH || body->state == DATA)
            return (ssize_t) (n + take_piece(body, data + n, len - n, ret_piece));
        int r = take_byte(body, data[n++]);
        if (r < 0)
            return r;
    }
    return (ssize_t) n;
}
