/* SPDX-License-Identifier: Apache-2.0 */
#include "server/part_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/http1.h"
#include "server/url.h"

void csn_part_head_done(csn_part_head *head)
{
    csn_buf_free(&head->name);
    csn_buf_free(&head->filename);
    csn_buf_free(&head->content_type);
    head->part = (csn_part){ "", NULL, NULL };
}

/* "…" with \" and \\ as escapes; any other backslash is meant (a Windows path). Returns what follows, or NULL data. */
static csn_str take_quoted(csn_str s, csn_buf *out)
{
    size_t i = 1;

    for (; i < s.len && s.data[i] != '"'; i++) {
        if (s.data[i] == '\\' && i + 1 < s.len && (s.data[i + 1] == '"' || s.data[i + 1] == '\\'))
            i++;
        csn_buf_putc(out, s.data[i]);
    }
    if (i >= s.len)
        return (csn_str){ NULL, 0 };
    return csn_str_n(s.data + i + 1, s.len - i - 1);
}

static csn_str take_token(csn_str s, csn_buf *out)
{
    ptrdiff_t end = csn_str_find(s, ';');
    csn_str token = end < 0 ? s : csn_str_n(s.data, (size_t) end);
    csn_str trimmed = csn_str_trim(token);

    csn_buf_append(out, trimmed.data, trimmed.len);
    return csn_str_n(s.data + token.len, s.len - token.len);
}

/* The next `; key=value`: 1, 0 (no more), -EBADMSG or -ENOMEM. */
static int next_param(csn_str *rest, csn_str *ret_key, csn_buf *value)
{
    *rest = csn_str_trim(*rest);
    csn_buf_clear(value);
    if (rest->len == 0)
        return 0;
    if (rest->data[0] != ';')
        return -EBADMSG;
    *rest = csn_str_trim(csn_str_n(rest->data + 1, rest->len - 1));
    if (rest->len == 0)
        return 0;
    ptrdiff_t eq = csn_str_find(*rest, '=');
    if (eq <= 0)
        return -EBADMSG;
    *ret_key = csn_str_trim(csn_str_n(rest->data, (size_t) eq));
    *rest = csn_str_trim(csn_str_n(rest->data + eq + 1, rest->len - (size_t) eq - 1));
    bool is_quoted = rest->len > 0 && rest->data[0] == '"';
    *rest = is_quoted ? take_quoted(*rest, value) : take_token(*rest, value);
    if (!rest->data)
        return -EBADMSG;
    return value->error < 0 ? value->error : 1;
}

/* RFC 5987: charset'language'percent-encoded. Only UTF-8; others are left to the plain form. */
static int take_extended(csn_str value, csn_buf *out)
{
    csn_str charset, language;
    csn_str rest = value;

    if (!csn_str_split(&rest, '\'', &charset) || !csn_str_split(&rest, '\'', &language) ||
        !rest.data || !csn_http_same(charset, "utf-8"))
        return 0;
    csn_buf_clear(out);
    if (csn_buf_reserve(out, rest.len + 1) < 0)
        return out->error;
    ssize_t n = csn_url_decode(rest, false, out->data);
    if (n < 0)
        return -EBADMSG;
    csn_buf_grew(out, (size_t) n);
    return 1;
}

static int parse_disposition(csn_part_head *head, csn_str value)
{
    csn_auto(buf) csn_buf param = CSN_BUF_INIT;
    csn_str rest = value, key;
    bool has_extended = false;
    ptrdiff_t semi = csn_str_find(value, ';');
    int r;

    rest = semi < 0 ? csn_str_n("", 0) : csn_str_n(value.data + semi, value.len - (size_t) semi);
    while ((r = next_param(&rest, &key, &param)) == 1) {
        csn_str text = csn_str_n(param.data, param.len);

        if (csn_http_same(key, "name")) {
            csn_buf_clear(&head->name);
            csn_buf_append(&head->name, text.data, text.len);
            head->part.name = head->name.data;
        } else if (csn_http_same(key, "filename*")) {
            r = take_extended(text, &head->filename);
            if (r < 0)
                return r;
            has_extended = has_extended || r == 1;
        } else if (csn_http_same(key, "filename") && !has_extended) {
            csn_buf_clear(&head->filename);
            csn_buf_append(&head->filename, text.data, text.len);
        } else {
            continue;
        }
        if (!csn_http_same(key, "name"))
            head->part.filename = head->filename.data;
    }
    return r;
}

static int parse_line(csn_part_head *head, csn_str line)
{
    ptrdiff_t colon = csn_str_find(line, ':');

    if (colon <= 0 || memchr(line.data, '\0', line.len) || memchr(line.data, '\r', line.len))
        return -EBADMSG;
    csn_str name = csn_str_n(line.data, (size_t) colon);
    csn_str value = csn_str_trim(csn_str_n(line.data + colon + 1, line.len - (size_t) colon - 1));
    if (csn_http_same(name, "content-disposition"))
        return parse_disposition(head, value);
    if (csn_http_same(name, "content-type")) {
        csn_buf_clear(&head->content_type);
        csn_buf_append(&head->content_type, value.data, value.len);
        head->part.content_type = head->content_type.data;
    }
    return 0;
}

int csn_part_head_parse(csn_part_head *head, csn_str text)
{
    csn_str line;

    csn_part_head_done(head);
    while (csn_str_split(&text, '\n', &line)) {
        if (line.len == 0 || line.data[line.len - 1] != '\r')
            return line.len == 0 && !text.data ? 0 : -EBADMSG;
        line.len--;
        int r = line.len > 0 ? parse_line(head, line) : 0;
        if (r < 0)
            return r;
    }
    return head->name.error < 0 || head->filename.error < 0 || head->content_type.error < 0
               ? -ENOMEM
               : 0;
}

static bool is_boundary(const char *s)
{
    size_t len = strlen(s);

    if (len == 0 || len > CSN_BOUNDARY_MAX || s[len - 1] == ' ')
        return false;
    return strspn(s,
                  "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'()+_,-./:=? ") ==
           len;
}

int csn_part_boundary(const char *content_type, char out[CSN_BOUNDARY_MAX + 1])
{
    csn_auto(buf) csn_buf value = CSN_BUF_INIT;
    csn_str all = csn_str_of(content_type), key;
    ptrdiff_t semi = csn_str_find(all, ';');

    if (semi < 0 ||
        !csn_http_same(csn_str_trim(csn_str_n(all.data, (size_t) semi)), "multipart/form-data"))
        return -EINVAL;
    csn_str rest = csn_str_n(all.data + semi, all.len - (size_t) semi);
    while (next_param(&rest, &key, &value) == 1) {
        if (!csn_http_same(key, "boundary"))
            continue;
        if (!is_boundary(value.data))
            return -EINVAL;
        memcpy(out, value.data, value.len + 1);
        return 0;
    }
    return -EINVAL;
}
