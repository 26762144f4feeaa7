/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/sandbox.h"

#include <string.h>

#include "base/time.h"

void csn_shape_time(csn_jw *w, const char *key, int64_t wall_ms)
{
    char text[CSN_ISO8601_SIZE];

    csn_jw_kstr(w, key, wall_ms ? csn_iso8601(wall_ms, text) : NULL);
}

static void write_ratio(csn_jw *w, const char *key, int64_t amount, int64_t unit)
{
    if (amount % unit == 0)
        csn_jw_kint(w, key, amount / unit);
    else
        csn_jw_kdouble(w, key, (double) amount / (double) unit);
}

void csn_shape_milli(csn_jw *w, const char *key, int64_t milli)
{
    write_ratio(w, key, milli, 1000);
}

void csn_shape_gib(csn_jw *w, const char *key, int64_t bytes)
{
    write_ratio(w, key, bytes, INT64_C(1) << 30);
}

static void write_json(csn_jw *w, const char *key, const char *json)
{
    csn_jw_key(w, key);
    csn_jw_raw(w, json, strlen(json));
}

static void write_optional(csn_jw *w, const char *key, const char *text)
{
    if (text)
        csn_jw_kstr(w, key, text);
}

static void write_build(const csn_shape_sandbox *s, csn_jw *w)
{
    csn_jw_key(w, "buildInfo");
    csn_jw_begin_object(w);
    csn_jw_kstr(w, "snapshotRef", s->build_ref ? s->build_ref : "");
    csn_jw_kstr(w, "dockerfileContent", s->dockerfile);
    csn_shape_time(w, "createdAt", s->created_ms);
    csn_shape_time(w, "updatedAt", s->created_ms);
    csn_jw_end_object(w);
}

static void write_identity(const csn_shape_sandbox *s, csn_jw *w)
{
    csn_jw_kstr(w, "id", s->id);
    csn_jw_kstr(w, "organizationId", s->org_id);
    csn_jw_kstr(w, "name", s->name);
    write_optional(w, "snapshot", s->snapshot);
    csn_jw_kstr(w, "user", s->user);
    write_json(w, "labels", s->labels);
    csn_jw_kbool(w, "public", s->is_public);
    csn_jw_kbool(w, "networkBlockAll", s->is_blocked);
    csn_jw_kbool(w, "kvm", false); /* required since 0.226 */
    write_optional(w, "networkAllowList", s->allow_list);
    write_optional(w, "domainAllowList", s->domain_list);
    csn_jw_kstr(w, "target", s->target);
}

static void write_shape(const csn_shape_sandbox *s, csn_jw *w)
{
    csn_shape_milli(w, "cpu", s->cpu_milli);
    csn_jw_kint(w, "gpu", 0);
    csn_shape_gib(w, "memory", s->memory_bytes);
    csn_shape_gib(w, "disk", s->disk_bytes);
    csn_jw_kstr(w, "sandboxClass", "container");
}

static void write_state(const csn_shape_sandbox *s, csn_jw *w)
{
    csn_jw_kstr(w, "state", s->state);
    csn_jw_kstr(w, "desiredState", s->desired_state);
    write_optional(w, "errorReason", s->error_reason);
    csn_jw_kbool(w, "recoverable", s->is_recoverable);
    csn_jw_kstr(w, "backupState", "None");
    csn_jw_kint(w, "autoStopInterval", s->auto_stop_min);
    csn_jw_kint(w, "autoPauseInterval", 0);
    csn_jw_kint(w, "autoArchiveInterval", s->auto_archive_min);
    csn_jw_kint(w, "autoDeleteInterval", s->auto_delete_min);
    if (s->destroy_at_ms)
        csn_shape_time(w, "autoDestroyAt", s->destroy_at_ms);
    csn_shape_time(w, "createdAt", s->created_ms);
    csn_shape_time(w, "updatedAt", s->updated_ms);
    csn_shape_time(w, "lastActivityAt", s->active_ms);
    csn_jw_kstr(w, "daemonVersion", CSN_VERSION);
    csn_jw_kstr(w, "toolboxProxyUrl", s->toolbox_url);
}

void csn_shape_sandbox_write(const csn_shape_sandbox *s, bool is_item, csn_jw *w)
{
    csn_jw_begin_object(w);
    write_identity(s, w);
    write_shape(s, w);
    write_state(s, w);
    if (!is_item) {
        write_json(w, "env", s->env);
        write_json(w, "volumes", s->mounts);
        if (s->dockerfile)
            write_build(s, w);
    }
    csn_jw_end_object(w);
}
