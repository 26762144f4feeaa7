/* A session on paper: what another program needs to find it again, and how it fared. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "interp.h"

static int give(csn_buf *out, char **ret_json, csn_error *err)
{
    char *text = csn_buf_take(out, NULL);

    if (!text)
        return csn_fail_sys(err, -ENOMEM, "write the state");
    *ret_json = text;
    return CSN_OK;
}

int csn_interp_export_state(csn_interp *i, char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    uint32_t process =
        csn_worker_is_there(i) ? csn_worker_number(i) : (uint32_t) i->remembered_process;
    csn_auto(buf) csn_buf context_id = CSN_BUF_INIT;

    csn_buf_printf(&context_id, "%u", process);
    csn_jw_begin_object(&w);
    csn_jw_key(&w, "daytona");
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "repo_url", i->sources.repo_url);
    csn_jw_kstr(&w, "repo_ref", i->sources.repo_ref);
    csn_jw_key(&w, "context_paths");
    csn_jw_begin_array(&w);
    for (char **p = i->sources.context_paths; p && *p; p++)
        csn_jw_str(&w, *p);
    csn_jw_end_array(&w);
    csn_jw_kstr(&w, "sandbox_id", i->box ? csn_sandbox_id(i->box) : i->remembered_box);
    csn_jw_kstr(&w, "workspace_path", i->workspace ? i->workspace : i->remembered_workspace);
    csn_jw_key(&w, "context_sources");
    csn_jw_raw(&w, i->context_json.len ? i->context_json.data : "[]",
               i->context_json.len ? i->context_json.len : 2);
    csn_jw_kstr(&w, "context_id", process ? context_id.data : NULL);
    csn_jw_kstr(&w, "volume_name", i->sources.volume_name);
    csn_jw_end_object(&w);
    csn_jw_end_object(&w);
    return give(&out, ret_json, err);
}

static const char *text_of(const csn_json *v, const char *key)
{
    const char *text = csn_json_get_str(v, key, NULL);

    return text && *text ? text : NULL;
}

static int take_paths(csn_interp *i, const csn_json *d)
{
    const csn_json *list = csn_json_get(d, "context_paths");
    size_t n = csn_json_type_of(list) == CSN_JSON_ARRAY ? csn_json_count(list) : 0, kept = 0;
    const char **paths = csn_calloc(n + 1, sizeof(*paths));
    int r;

    if (!paths)
        return -ENOMEM;
    for (size_t k = 0; k < n; k++)
        if (csn_json_str(csn_json_at(list, k), NULL))
            paths[kept++] = csn_json_str(csn_json_at(list, k), NULL);
    r = csn_sources_set(&i->sources, text_of(d, "repo_url"), text_of(d, "repo_ref"), paths,
                        text_of(d, "volume_name"));
    if (r == 0) /* what the remembered session has */
        r = csn_sources_set(&i->in_place, text_of(d, "repo_url"), text_of(d, "repo_ref"), paths,
                            text_of(d, "volume_name"));
    free(paths);
    return r;
}

/* A sandbox's id, or nothing: what is imported may have been written by anybody. */
static char *checked_id(const char *id)
{
    return id && (csn_is_hex(id, 32) || csn_is_uuid(id)) ? csn_strdup(id) : NULL;
}

static char *checked_path(const char *path)
{
    return path && csn_starts_with(path, CSN_WORK_ROOT "/") && !strstr(path, "..") &&
                   strlen(path) < 1024
               ? csn_strdup(path)
               : NULL;
}

static void take_context(csn_interp *i, const csn_json *d)
{
    const csn_json *list = csn_json_get(d, "context_sources");

    csn_buf_clear(&i->context_json);
    if (csn_json_type_of(list) == CSN_JSON_ARRAY && csn_json_count(list))
        csn_json_dump(list, false, &i->context_json);
}

int csn_interp_import_state(csn_interp *i, const char *json, size_t len, csn_error *err)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *d;
    uint64_t process = 0;
    const char *context_id;

    if (csn_json_parse(json, len, &doc, NULL) < 0)
        doc = NULL; /* malformed: as if it were empty */
    d = csn_json_get(doc, "daytona");
    csn_session_drop(i, false);
    free(i->remembered_box);
    free(i->remembered_workspace);
    free(i->remembered_volume);
    i->remembered_box = checked_id(text_of(d, "sandbox_id"));
    i->remembered_workspace = checked_path(text_of(d, "workspace_path"));
    i->remembered_volume = text_of(d, "volume_name") ? csn_strdup(text_of(d, "volume_name")) : NULL;
    context_id = text_of(d, "context_id");
    if (context_id && csn_parse_u64(csn_str_of(context_id), &process) < 0)
        process = 0;
    i->remembered_process = process <= UINT32_MAX ? (int64_t) process : 0;
    take_context(i, d);
    return take_paths(i, d) < 0 ? csn_fail_sys(err, -ENOMEM, "import the session") : CSN_OK;
}

static void put_children(csn_interp *i, csn_jw *w)
{
    csn_auto(buf) csn_buf list = CSN_BUF_INIT;

    pthread_mutex_lock(&i->mutex);
    if (i->n_children) {
        csn_buf_printf(&list, "[%s]", i->children_json.data);
        csn_jw_kint(w, "child_count", (int64_t) i->n_children);
        csn_jw_key(w, "children");
        csn_jw_raw(w, list.data, list.len);
    }
    pthread_mutex_unlock(&i->mutex);
}

int csn_interp_metadata(csn_interp *i, char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);

    csn_jw_begin_object(&w);
    csn_jw_kbool(&w, "sandbox_active", i->box != NULL);
    csn_jw_kbool(&w, "workspace_reconfigured", i->is_reconfigured);
    csn_jw_kbool(&w, "runtime_degraded", i->is_degraded);
    csn_jw_kbool(&w, "runtime_fallback_used", i->used_fallback);
    if (i->box)
        csn_jw_kstr(&w, "sandbox_id", csn_sandbox_id(i->box));
    if (i->workspace)
        csn_jw_kstr(&w, "workspace_path", i->workspace);
    if (i->in_place.volume_name)
        csn_jw_kstr(&w, "volume_name", i->in_place.volume_name);
    if (i->transition)
        csn_jw_kstr(&w, "sandbox_transition", i->transition);
    if (i->failure_category)
        csn_jw_kstr(&w, "runtime_failure_category", i->failure_category);
    if (i->failure_phase)
        csn_jw_kstr(&w, "runtime_failure_phase", i->failure_phase);
    put_children(i, &w);
    csn_jw_end_object(&w);
    return give(&out, ret_json, err);
}
