/* SPDX-License-Identifier: Apache-2.0 */
/* A multipart body with the boundary "X", in pieces as long as the first byte says: the parts must be the same as those of
 * the whole. The rest is also read as a Content-Type and as the head of a part. */
#include <stdint.h>
#include <stdlib.h>

#include "server/multipart.h"
#include "server/part_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_part(const csn_part *part, void *user)
{
    return csn_buf_printf(user, "[%s|%s|%s]", part->name, part->filename ? part->filename : "-",
                          part->content_type ? part->content_type : "-");
}

static int on_data(const csn_part *part, const char *data, size_t len, void *user)
{
    if (len == 0 || !part->name)
        abort();
    return csn_buf_append(user, data, len);
}

static int on_end(const csn_part *part, void *user)
{
    (void) part;
    return csn_buf_puts(user, "[end]");
}

static int read_parts(const char *data, size_t len, size_t step, csn_buf *out)
{
    static const csn_multipart_events events = { on_part, on_data, on_end };
    csn_multipart *m = NULL;
    int r = csn_multipart_new("multipart/form-data; boundary=X", &events, out, &m);

    for (size_t at = 0; r == 0 && at < len; at += step)
        r = csn_multipart_feed(m, data + at, len - at < step ? len - at : step);
    if (r == 0)
        r = csn_multipart_finish(m);
    csn_multipart_free(m);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(buf) csn_buf whole = CSN_BUF_INIT;
    csn_auto(buf) csn_buf cut = CSN_BUF_INIT;
    csn_part_head head = CSN_PART_HEAD_INIT;
    char boundary[CSN_BOUNDARY_MAX + 1];

    if (size < 1)
        return 0;
    const char *text = (const char *) data + 1;
    size_t len = size - 1;
    int a = read_parts(text, len, len ? len : 1, &whole);
    int b = read_parts(text, len, data[0] % 32 + 1, &cut);
    if (a != b || (a == 0 && (whole.len != cut.len || memcmp(whole.data, cut.data, cut.len) != 0)))
        abort();
    (void) csn_part_head_parse(&head, csn_str_n(text, len));
    csn_part_head_done(&head);
    char *type = strndup(text, len);
    (void) csn_part_boundary(type, boundary);
    free(type);
    return 0;
}
