/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ctxframe.h"

#include <errno.h>

#include "base/str.h"

enum { HEAD = 4 };

static int read_frame(csn_ctxframe *f)
{
    const char *op = csn_json_get_str(f->doc, "op", "");
    const csn_json *error = csn_json_get(f->doc, "error");

    f->is_done = csn_streq(op, "done");
    if (!f->is_done)
        return csn_streq(op, "ready") ? 0 : -EBADMSG;
    f->id = csn_json_get_int(f->doc, "id", -1);
    f->has_error = csn_json_type_of(error) == CSN_JSON_ARRAY;
    f->name = csn_json_str(csn_json_at(error, 0), "");
    f->value = csn_json_str(csn_json_at(error, 1), "");
    f->traceback = csn_json_str(csn_json_at(error, 2), "");
    return 0;
}

int csn_ctxframe_take(csn_buf *in, csn_ctxframe *ret)
{
    const unsigned char *p = (const unsigned char *) in->data;
    size_t len;
    int r;

    *ret = (csn_ctxframe){ 0 };
    if (in->len < HEAD)
        return 0;
    len = (size_t) p[0] << 24 | (size_t) p[1] << 16 | (size_t) p[2] << 8 | p[3];
    if (len > CSN_CTXFRAME_MAX)
        return -EBADMSG;
    if (in->len - HEAD < len)
        return 0;
    r = csn_json_parse(in->data + HEAD, len, &ret->doc, NULL);
    csn_buf_consume(in, HEAD + len);
    if (r == 0)
        r = read_frame(ret);
    if (r < 0)
        ret->doc = csn_json_free(ret->doc);
    return r < 0 ? r : 1;
}

void csn_ctxframe_put(csn_buf *out, int64_t id, const char *code, size_t len, const csn_json *envs)
{
    size_t begin = out->len;
    csn_jw w = CSN_JW_INIT(out, false);

    (void) csn_buf_append(out, "\0\0\0\0", HEAD); /* sticky */
    csn_jw_begin_object(&w);
    csn_jw_kint(&w, "id", id);
    csn_jw_key(&w, "code");
    csn_jw_string(&w, code, len);
    if (csn_json_type_of(envs) == CSN_JSON_OBJECT) {
        csn_jw_key(&w, "envs");
        csn_jw_value(&w, envs);
    }
    csn_jw_end_object(&w);
    if (out->error < 0)
        return;
    size_t n = out->len - begin - HEAD;
    for (int i = 0; i < HEAD; i++)
        out->data[begin + (size_t) i] = (char) (n >> (24 - 8 * i));
}
