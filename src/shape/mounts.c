/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of volumes as JSON, the same in the store and on the wire. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "shape/create.h"

char *csn_shape_mounts_text(const csn_shape_mount *mounts, size_t n)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_begin_array(&w);
    for (size_t i = 0; i < n; i++) {
        csn_jw_begin_object(&w);
        csn_jw_kstr(&w, "volumeId", mounts[i].volume);
        csn_jw_kstr(&w, "mountPath", mounts[i].path);
        if (mounts[i].subpath[0])
            csn_jw_kstr(&w, "subpath", mounts[i].subpath);
        csn_jw_end_object(&w);
    }
    csn_jw_end_array(&w);
    return csn_buf_take(&out, NULL);
}

static int parse_one(const csn_json *v, csn_shape_mount *m)
{
    int r =
        csn_str_copy(m->volume, sizeof(m->volume), csn_str_of(csn_json_get_str(v, "volumeId", "")));

    if (r == 0)
        r = csn_str_copy(m->path, sizeof(m->path),
                         csn_str_of(csn_json_get_str(v, "mountPath", "")));
    if (r == 0)
        r = csn_str_copy(m->subpath, sizeof(m->subpath),
                         csn_str_of(csn_json_get_str(v, "subpath", "")));
    return r;
}

int csn_shape_mounts_parse(const char *json, csn_shape_mount *mounts, size_t *ret_n)
{
    csn_auto(json) csn_json *doc = NULL;
    int r = csn_json_parse(json, strlen(json), &doc, NULL);

    if (r < 0)
        return r;
    size_t n = csn_json_count(doc);
    if (csn_json_type_of(doc) != CSN_JSON_ARRAY || n > CSN_SHAPE_MOUNTS_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++)
        if (parse_one(csn_json_at(doc, i), &mounts[i]) < 0)
            return -EBADMSG;
    *ret_n = n;
    return 0;
}
