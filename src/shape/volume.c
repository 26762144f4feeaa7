/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/volume.h"

#include "base/err.h"
#include "base/str.h"
#include "shape/create.h"

void csn_shape_volume_write(const csn_shape_volume *v, csn_jw *w)
{
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "id", v->id);
    csn_jw_kstr(w, "name", v->name ? v->name : v->id);
    csn_jw_kstr(w, "organizationId", v->org_id);
    csn_jw_kstr(w, "state", v->state);
    csn_shape_time(w, "createdAt", v->created_ms);
    csn_shape_time(w, "updatedAt", v->updated_ms);
    csn_shape_time(w, "lastUsedAt", v->used_ms);
    csn_jw_kstr(w, "errorReason", NULL);
    csn_jw_end_object(w);
}

int csn_shape_volume_read(const csn_json *body, const char **ret_name, csn_error *err)
{
    const csn_json *v = csn_json_get(body, "name");
    csn_json_type type = csn_json_type_of(v);

    *ret_name = NULL;
    if (type == CSN_JSON_NONE || type == CSN_JSON_NULL)
        return CSN_OK;
    if (type != CSN_JSON_STRING)
        return csn_fail(err, CSN_E_INVALID, "name must be a string");
    const char *name = csn_json_str(v, "");
    if (csn_str_trim(csn_str_of(name)).len == 0)
        return CSN_OK;
    int r = csn_shape_check_name(name, err);
    if (r == CSN_OK)
        *ret_name = name;
    return r;
}
