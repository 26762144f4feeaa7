#include "boxjson.h"

#include <string.h>

#include "base/str.h"
#include "base/time.h"
#include "out.h"

void cli_jw_pairs(csn_jw *w, const char *key, const char *const *pairs)
{
    csn_jw_key(w, key);
    csn_jw_begin_object(w);
    for (size_t i = 0; pairs && pairs[i]; i++) {
        csn_str rest = csn_str_of(pairs[i]), name;
        char word[4096];

        (void) csn_str_split(&rest, '=', &name);
        if (csn_str_copy(word, sizeof(word), name) < 0) /* no engine lets such a key in */
            continue;
        csn_jw_key(w, word);
        csn_jw_string(w, rest.data ? rest.data : "", rest.len);
    }
    csn_jw_end_object(w);
}

void cli_jw_limit(csn_jw *w, const char *key, int64_t value)
{
    csn_jw_key(w, key);
    if (value == CSN_UNLIMITED)
        csn_jw_null(w);
    else
        csn_jw_int(w, value);
}

static void put_mounts(csn_jw *w, const csn_sandbox_info *info)
{
    csn_jw_key(w, "volumes");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < info->n_mounts; i++) {
        const csn_mount *m = &info->mounts[i];

        csn_jw_begin_object(w);
        csn_jw_kstr(w, "volume", m->volume);
        csn_jw_kstr(w, "path", m->path);
        csn_jw_kstr(w, "subpath", m->subpath);
        csn_jw_kbool(w, "read_only", m->is_read_only);
        csn_jw_end_object(w);
    }
    csn_jw_end_array(w);
}

static void put_limits(csn_jw *w, const csn_sandbox_info *info)
{
    csn_jw_key(w, "limits");
    csn_jw_begin_object(w);
    cli_jw_limit(w, "memory_bytes", info->memory_bytes);
    cli_jw_limit(w, "cpu_milli", info->cpu_milli);
    cli_jw_limit(w, "pids", info->pids);
    cli_jw_limit(w, "disk_bytes", info->disk_bytes);
    cli_jw_limit(w, "disk_inodes", info->disk_inodes);
    cli_jw_limit(w, "timeout_ms", info->timeout_ms);
    cli_jw_limit(w, "output_bytes", info->output_bytes);
    csn_jw_end_object(w);
}

void cli_jw_box(csn_jw *w, const csn_sandbox_info *info)
{
    char when[CSN_ISO8601_SIZE];

    csn_jw_kstr(w, "id", info->id);
    csn_jw_kstr(w, "name", info->name);
    csn_jw_kstr(w, "state", csn_state_name(info->state));
    csn_jw_kstr(w, "image", info->image);
    csn_jw_kstr(w, "user", info->user);
    csn_jw_kstr(w, "created", csn_iso8601(info->created_ms, when));
    csn_jw_kbool(w, "detached", info->is_detached);
    csn_jw_kbool(w, "ephemeral", info->is_ephemeral);
    csn_jw_kstr(w, "network", info->network == CSN_NET_OUTBOUND ? "outbound" : "none");
    cli_jw_pairs(w, "labels", info->labels);
    put_mounts(w, info);
    put_limits(w, info);
    csn_jw_kint(w, "ttl_ms", info->ttl_ms);
    csn_jw_kint(w, "idle_stop_ms", info->idle_stop_ms);
    csn_jw_kint(w, "keeper_pid", info->keeper_pid);
    csn_jw_kint(w, "init_pid", info->init_pid);
}

int cli_print_new_box(csn_sandbox *box, bool json)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);
    csn_sandbox_info info;
    csn_error err = { 0 };

    if (!json) {
        csn_buf_printf(&out, "%s\n", csn_sandbox_id(box));
        return cli_print(&out) < 0 ? CLI_ENGINE : 0;
    }
    if (csn_sandbox_inspect(box, &info, &err) < 0)
        return cli_fail(&err, NULL);
    csn_jw_begin_object(&w);
    cli_jw_box(&w, &info);
    csn_jw_end_object(&w);
    return cli_print_json(&out);
}
