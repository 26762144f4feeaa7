/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "shape/create.h"
#include "shape/volume.h"

static void write_numbers(const csn_shape_snapshot *s, csn_jw *w)
{
    csn_jw_key(w, "size");
    if (s->size_bytes > 0)
        csn_jw_double(w, (double) s->size_bytes / (double) CSN_GIB);
    else
        csn_jw_null(w);
    csn_shape_milli(w, "cpu", s->cpu_milli);
    csn_jw_kint(w, "gpu", 0);
    csn_shape_gib(w, "mem", s->memory_bytes);
    csn_shape_gib(w, "disk", s->disk_bytes);
}

void csn_shape_snapshot_write(const csn_shape_snapshot *s, csn_jw *w)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", s->id);
    if (!s->is_general)
        csn_jw_kstr(w, "organizationId", s->org_id);
    csn_jw_kbool(w, "general", s->is_general);
    csn_jw_kstr(w, "name", s->name);
    if (s->image_ref)
        csn_jw_kstr(w, "imageName", s->image_ref);
    csn_jw_kstr(w, "state", s->state);
    write_numbers(s, w);
    csn_jw_key(w, "entrypoint");
    if (s->entrypoint)
        csn_jw_raw(w, s->entrypoint, strlen(s->entrypoint));
    else
        csn_jw_null(w);
    csn_jw_kstr(w, "errorReason", s->error_reason);
    csn_shape_time(w, "createdAt", s->created_ms);
    csn_shape_time(w, "updatedAt", s->updated_ms);
    csn_shape_time(w, "lastUsedAt", s->used_ms);
    csn_jw_kstr(w, "sourceSandboxId", s->source_id && *s->source_id ? s->source_id : NULL);
    csn_jw_key(w, "regionIds");
    csn_jw_begin_array(w);
    csn_jw_str(w, s->region ? s->region : "local");
    csn_jw_end_array(w);
    csn_jw_kstr(w, "sandboxClass", "container");
    csn_jw_end_object(w);
}

int csn_shape_check_snapshot_name(const char *name, csn_error *err)
{
    size_t len = strlen(name);

    if (len == 0 || len > CSN_SHAPE_NAME_MAX)
        return csn_fail(err, CSN_E_INVALID, "name must have 1 to %d characters",
                        CSN_SHAPE_NAME_MAX);
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr(".:/-_", c)))
            return csn_fail(err, CSN_E_INVALID,
                            "name may hold letters, digits and the characters . : / - _ only");
    }
    return CSN_OK;
}

static int read_entrypoint(const csn_json *body, csn_shape_snapshot_create *c, csn_error *err)
{
    const csn_json *v = csn_json_get(body, "entrypoint");
    csn_json_type type = csn_json_type_of(v);

    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return CSN_OK;
    if (type != CSN_JSON_ARRAY || csn_json_count(v) > 64)
        return csn_fail(err, CSN_E_INVALID, "entrypoint must be an array of at most 64 strings");
    for (size_t i = 0; i < csn_json_count(v); i++)
        if (csn_json_type_of(csn_json_at(v, i)) != CSN_JSON_STRING ||
            csn_json_str_len(csn_json_at(v, i)) > 4096)
            return csn_fail(err, CSN_E_INVALID, "entrypoint must be an array of strings");
    c->entrypoint = csn_json_count(v) > 0 ? v : NULL;
    return CSN_OK;
}

static int read_source(const csn_json *body, csn_shape_snapshot_create *c, csn_error *err)
{
    const csn_json *build = csn_json_get(body, "buildInfo");
    const char *image = csn_json_get_str(body, "imageName", "");

    c->dockerfile = csn_json_get_str(build, "dockerfileContent", NULL);
    c->image_ref = *image ? image : NULL;
    if (!c->dockerfile == !c->image_ref)
        return csn_fail(err, CSN_E_INVALID, "give either imageName or buildInfo");
    if (csn_json_count(csn_json_get(build, "contextHashes")) > 0)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "this server builds no images from uploaded files; register one with "
                        "'caisson image import'");
    if (c->image_ref && strlen(c->image_ref) > 512)
        return csn_fail(err, CSN_E_INVALID, "imageName is longer than 512 bytes");
    return CSN_OK;
}

int csn_shape_snapshot_read(const csn_json *body, csn_shape_snapshot_create *ret, csn_error *err)
{
    *ret = (csn_shape_snapshot_create){ 0 };
    ret->name = csn_json_get_str(body, "name", "");
    int r = csn_shape_check_snapshot_name(ret->name, err);
    if (r == CSN_OK)
        r = read_source(body, ret, err);
    if (r == CSN_OK)
        r = read_entrypoint(body, ret, err);
    if (r == CSN_OK)
        r = csn_shape_read_resources(body, &ret->cpu_milli, &ret->memory_bytes, &ret->disk_bytes,
                                     err);
    return r;
}

int csn_shape_image_name(const char *ref, char out[65])
{
    size_t len = strlen(ref);

    if (len > 64)
        return -ENAMETOOLONG;
    for (size_t i = 0; i <= len; i++) {
        char c = ref[i];
        out[i] = c == ':' || c == '/' || c == '@' ? '-' : c;
    }
    return csn_is_name(out) ? 0 : -EINVAL;
}
