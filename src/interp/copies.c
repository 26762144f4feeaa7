/* What can be done with a whole session: a copy, an image of its files, other limits, a sign of life. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "interp.h"

int csn_interp_snapshot(csn_interp *i, const char *name, char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    int r = csn_session_ensure(i, err);

    if (r >= 0)
        r = csn_sandbox_snapshot(i->box, name, err);
    if (r < 0) {
        csn_note_failure(i, "sandbox_snapshot_error", "snapshot");
        return csn_fail_in(err, r, "snapshot");
    }
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "name", name);
    csn_jw_kstr(&w, "sandbox_id", csn_sandbox_id(i->box));
    csn_jw_kstr(&w, "status", "created");
    csn_jw_end_object(&w);
    *ret_json = csn_buf_take(&out, NULL);
    return *ret_json ? CSN_OK : csn_fail_sys(err, -ENOMEM, "write the answer");
}

int csn_interp_resize(csn_interp *i, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                      csn_error *err)
{
    int r = csn_session_ensure(i, err);

    if (r >= 0)
        r = csn_sandbox_resize(i->box, memory_bytes, cpu_milli, disk_bytes, err);
    if (r < 0)
        return r;
    if (memory_bytes) /* a sandbox made anew has them, too */
        i->o.memory_bytes = memory_bytes;
    if (cpu_milli)
        i->o.cpu_milli = cpu_milli;
    if (disk_bytes)
        i->o.disk_bytes = disk_bytes;
    return CSN_OK;
}

void csn_interp_touch(csn_interp *i)
{
    csn_usage usage;

    if (i->box)
        (void) csn_sandbox_usage(i->box, &usage,
                                 NULL); /* any question counts as use; best effort */
}

/* ---- a copy ----------------------------------------------------------------------------------------------------- */

/* Options as they were given: where 0 was the wish, it is -1 again. */
static csn_interp_options given(const csn_interp *i)
{
    csn_interp_options o = i->o;

    o.size = sizeof(o);
    o.start_retries = o.start_retries ? o.start_retries : -1;
    o.max_llm_calls = o.max_llm_calls ? o.max_llm_calls : -1;
    o.max_recursion_depth = o.max_recursion_depth ? o.max_recursion_depth : -1;
    o.name = o.session_id = NULL; /* names are unique, and a conversation is one session's */
    o.repo_url = i->sources.repo_url;
    o.repo_ref = i->sources.repo_ref;
    o.context_paths = (const char *const *) i->sources.context_paths;
    o.volume_name = i->sources.volume_name;
    return o;
}

static int copy_tools(const csn_interp *from, csn_interp *to, csn_error *err)
{
    int r = CSN_OK;

    csn_list_foreach (node, &from->tools) {
        const csn_tool *t = csn_list_entry(node, csn_tool, link);

        if (r >= 0)
            r = csn_interp_register_tool(to, t->name, t->signature, t->fn, t->user, err);
    }
    return r;
}

static int copy_box(csn_interp *from, csn_interp *to, csn_error *err)
{
    csn_sandbox_options o = { .size = sizeof(o),
                              .is_detached = from->o.is_kept,
                              .is_ephemeral = !from->o.is_kept,
                              .is_shared = !from->o.is_kept,
                              .labels = from->o.labels };
    csn_sandbox *box = NULL;
    int r = csn_slot_take(to, err);

    o.ttl_ms = from->o.timeout_s > 0 ? from->o.timeout_s * 1000 + 5000 : 0;
    if (r >= 0)
        r = csn_session_take(to, from, err);
    if (r >= 0)
        r = csn_sandbox_fork(from->box, &o, &box, err);
    return r < 0 ? r : csn_session_adopt(to, box, err);
}

int csn_interp_fork(csn_interp *i, csn_interp **ret_copy, csn_error *err)
{
    csn_interp_options o = given(i);
    csn_interp *copy = NULL;
    int r = csn_session_ensure(i, err);

    if (r >= 0)
        r = csn_interp_new(i->engine, &o, &copy, err);
    if (r >= 0)
        r = copy_tools(i, copy, err);
    if (r >= 0)
        r = csn_buf_append(&copy->outputs_json, i->outputs_json.data, i->outputs_json.len) < 0
                ? csn_fail_sys(err, -ENOMEM, "copy the output fields")
                : copy_box(i, copy, err);
    if (r < 0) {
        csn_note_failure(i, "sandbox_fork_error", "fork");
        csn_interp_free(copy);
        return csn_fail_in(err, r, "fork");
    }
    *ret_copy = copy;
    return CSN_OK;
}
