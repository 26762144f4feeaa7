/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

void csn_shape_create_done(csn_shape_create *c)
{
    free(c->name);
    free(c->snapshot);
    free(c->user);
    free(c->target);
    free(c->dockerfile);
    free(c->allow_list);
    free(c->domain_list);
    csn_map_done(&c->env);
    csn_map_done(&c->labels);
    *c = (csn_shape_create){ 0 };
}

void csn_shape_create_auto(csn_shape_create *c)
{
    int saved = errno;

    csn_shape_create_done(c);
    errno = saved;
}

static bool is_absent(const csn_json *v)
{
    csn_json_type type = csn_json_type_of(v);

    return type == CSN_JSON_NONE || type == CSN_JSON_NULL;
}

/* A text of at most max bytes; blank counts as absent. */
static int read_text(const csn_json *body, const char *key, size_t max, char **ret, csn_error *err)
{
    const csn_json *v = csn_json_get(body, key);

    if (is_absent(v))
        return CSN_OK;
    if (csn_json_type_of(v) != CSN_JSON_STRING)
        return csn_fail(err, CSN_E_INVALID, "%s must be a string", key);
    if (csn_json_str_len(v) > max)
        return csn_fail(err, CSN_E_INVALID, "%s is longer than %zu bytes", key, max);
    if (csn_str_trim(csn_str_of(csn_json_str(v, ""))).len == 0)
        return CSN_OK;
    *ret = strdup(csn_json_str(v, ""));
    return *ret ? CSN_OK : csn_fail(err, CSN_E_NO_MEMORY, "read %s", key);
}

static int read_bool(const csn_json *body, const char *key, bool *ret, csn_error *err)
{
    const csn_json *v = csn_json_get(body, key);

    if (is_absent(v))
        return CSN_OK;
    if (csn_json_type_of(v) != CSN_JSON_BOOL)
        return csn_fail(err, CSN_E_INVALID, "%s must be a boolean", key);
    *ret = csn_json_bool(v, false);
    return CSN_OK;
}

/* Minutes; *has tells whether they were given. */
static int read_minutes(const csn_json *body, const char *key, int64_t min, bool *has, int64_t *ret,
                        csn_error *err)
{
    const int64_t max = INT64_C(10) * 366 * 24 * 60; /* ten years; no sum below can overflow */
    const csn_json *v = csn_json_get(body, key);

    if (is_absent(v))
        return CSN_OK;
    int64_t minutes = csn_json_int(v, INT64_MIN);
    if (minutes == INT64_MIN && csn_json_int(v, 0) == 0)
        return csn_fail(err, CSN_E_INVALID, "%s must be a whole number of minutes", key);
    if (minutes < min || minutes > max)
        return csn_fail(err, CSN_E_INVALID, "%s must be from %lld to %lld minutes", key,
                        (long long) min, (long long) max);
    *has = true;
    *ret = minutes;
    return CSN_OK;
}

static int read_intervals(const csn_json *body, csn_shape_create *c, csn_error *err)
{
    bool has_pause = false, has_ttl = false;
    int64_t pause = 0;
    int r = read_minutes(body, "autoStopInterval", 0, &c->has_auto_stop, &c->auto_stop_min, err);

    if (r == CSN_OK)
        r = read_minutes(body, "autoArchiveInterval", 0, &c->has_auto_archive, &c->auto_archive_min,
                         err);
    if (r == CSN_OK)
        r = read_minutes(body, "autoDeleteInterval", INT32_MIN, &c->has_auto_delete,
                         &c->auto_delete_min, err);
    if (r == CSN_OK)
        r = read_minutes(body, "ttlMinutes", 0, &has_ttl, &c->ttl_min, err);
    if (r == CSN_OK)
        r = read_minutes(body, "autoPauseInterval", 0, &has_pause, &pause, err);
    if (r == CSN_OK && pause > 0 && c->auto_stop_min > 0)
        return csn_fail(err, CSN_E_INVALID,
                        "autoStopInterval and autoPauseInterval exclude each other");
    if (r == CSN_OK && pause > 0)
        return csn_fail(err, CSN_E_UNSUPPORTED, "sandboxes of this server can't be paused");
    return r;
}

static int read_map(const csn_json *body, const char *key, size_t max_items, size_t max_len,
                    csn_map *map, csn_error *err)
{
    const csn_json *v = csn_json_get(body, key);

    if (is_absent(v))
        return CSN_OK;
    int r = csn_map_read(v, max_items, max_len, map);
    if (r == -EINVAL)
        return csn_fail(err, CSN_E_INVALID, "%s must be an object with string values", key);
    if (r == -E2BIG)
        return csn_fail(err, CSN_E_INVALID, "%s: more than %zu entries, or one beyond %zu bytes",
                        key, max_items, max_len);
    return r < 0 ? csn_fail_sys(err, r, "read %s", key) : CSN_OK;
}

static int read_maps(const csn_json *body, csn_shape_create *c, csn_error *err)
{
    int r = read_map(body, "env", CSN_SHAPE_ENV_MAX, CSN_SHAPE_ENV_LEN, &c->env, err);

    if (r == CSN_OK)
        r = read_map(body, "labels", CSN_SHAPE_LABELS_MAX, CSN_SHAPE_LABEL_LEN, &c->labels, err);
    for (size_t i = 0; i < c->env.n && r == CSN_OK; i++)
        if (!csn_is_env_name(c->env.items[i].key))
            return csn_fail(err, CSN_E_INVALID, "env: '%.100s' is no name of a variable",
                            c->env.items[i].key);
    return r;
}

static int read_mount(const csn_json *v, csn_shape_mount *m, csn_error *err)
{
    const char *volume = csn_json_get_str(v, "volumeId", "");
    const char *path = csn_json_get_str(v, "mountPath", "");
    const char *subpath = csn_json_get_str(v, "subpath", "");

    if (!*volume || csn_str_copy(m->volume, sizeof(m->volume), csn_str_of(volume)) < 0)
        return csn_fail(err, CSN_E_INVALID, "volumes: volumeId must be the id or name of a volume");
    int r = csn_shape_check_mount(path, subpath, err);
    if (r < 0)
        return csn_fail_in(err, r, "volume '%.64s'", volume);
    csn_str bare = csn_str_of(path);
    if (bare.data[bare.len - 1] == '/')
        bare.len--; /* says nothing, and two mounts are compared */
    if (csn_str_copy(m->path, sizeof(m->path), bare) < 0 ||
        csn_str_copy(m->subpath, sizeof(m->subpath), csn_str_of(subpath)) < 0)
        return csn_fail(err, CSN_E_INVALID, "volume '%.64s': the path is too long", volume);
    return CSN_OK;
}

static int read_mounts(const csn_json *body, csn_shape_create *c, csn_error *err)
{
    const csn_json *v = csn_json_get(body, "volumes");
    size_t n = csn_json_count(v);

    if (is_absent(v))
        return CSN_OK;
    if (csn_json_type_of(v) != CSN_JSON_ARRAY)
        return csn_fail(err, CSN_E_INVALID, "volumes must be an array");
    if (n > CSN_SHAPE_MOUNTS_MAX)
        return csn_fail(err, CSN_E_INVALID, "more than %d volumes", CSN_SHAPE_MOUNTS_MAX);
    for (size_t i = 0; i < n; i++) {
        int r = read_mount(csn_json_at(v, i), &c->mounts[i], err);
        if (r < 0)
            return r;
        for (size_t k = 0; k < i; k++)
            if (strcmp(c->mounts[k].path, c->mounts[i].path) == 0)
                return csn_fail(err, CSN_E_INVALID, "two volumes at the same mount path");
    }
    c->n_mounts = n;
    return CSN_OK;
}

/* Lists of what may be reached are refused while nothing enforces them: an open door is worse than an error. */
static int read_network(const csn_json *body, csn_shape_create *c, csn_error *err)
{
    int r = read_bool(body, "networkBlockAll", &c->is_blocked, err);

    if (r == CSN_OK)
        r = read_text(body, "networkAllowList", 4096, &c->allow_list, err);
    if (r == CSN_OK && c->allow_list)
        r = csn_shape_check_cidrs(c->allow_list, err);
    if (r == CSN_OK)
        r = read_text(body, "domainAllowList", 4096, &c->domain_list, err);
    if (r == CSN_OK && c->domain_list)
        r = csn_shape_check_domains(c->domain_list, err);
    if (r == CSN_OK && (c->allow_list || c->domain_list) && !c->is_blocked)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "this server can't enforce allow lists; use networkBlockAll");
    return r;
}

static int read_build(const csn_json *body, csn_shape_create *c, csn_error *err)
{
    const csn_json *build = csn_json_get(body, "buildInfo");

    if (is_absent(build))
        return CSN_OK;
    if (csn_json_type_of(build) != CSN_JSON_OBJECT)
        return csn_fail(err, CSN_E_INVALID, "buildInfo must be an object");
    int r = read_text(build, "dockerfileContent", 256 << 10, &c->dockerfile, err);
    if (r == CSN_OK && !c->dockerfile)
        return csn_fail(err, CSN_E_INVALID, "buildInfo.dockerfileContent is missing");
    if (r == CSN_OK && c->snapshot)
        return csn_fail(err, CSN_E_INVALID, "Cannot specify both a snapshot and build information");
    if (r == CSN_OK && csn_json_count(csn_json_get(build, "contextHashes")) > 0)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "this server builds no images from uploaded files; register one with "
                        "'caisson image import'");
    return r;
}

static int read_identity(const csn_json *body, csn_shape_create *c, csn_error *err)
{
    int r = read_text(body, "name", 4096, &c->name, err);

    if (r == CSN_OK && c->name)
        r = csn_shape_check_name(c->name, err);
    if (r == CSN_OK)
        r = read_text(body, "snapshot", 512, &c->snapshot, err);
    if (r == CSN_OK)
        r = read_text(body, "user", 32, &c->user, err);
    if (r == CSN_OK && c->user && !csn_streq(c->user, "daytona") && !csn_streq(c->user, "root"))
        return csn_fail(err, CSN_E_INVALID, "user '%s' is unknown here: 'daytona' or 'root'",
                        c->user);
    if (r == CSN_OK)
        r = read_text(body, "target", 64, &c->target, err);
    if (r == CSN_OK)
        r = read_bool(body, "public", &c->is_public, err);
    return r;
}

static int read_resources(const csn_json *body, csn_shape_create *c, csn_error *err)
{
    int r = csn_shape_read_resources(body, &c->cpu_milli, &c->memory_bytes, &c->disk_bytes, err);

    if (r == CSN_OK && !c->dockerfile &&
        (c->cpu_milli || c->memory_bytes || c->disk_bytes ||
         csn_json_count(csn_json_get(body, "gpuType")) > 0))
        return csn_fail(err, CSN_E_INVALID,
                        "Cannot specify Sandbox resources when using a snapshot");
    return r;
}

/* What would be dangerous or misleading to ignore. */
static int refuse_unsupported(const csn_json *body, csn_error *err)
{
    if (!is_absent(csn_json_get(body, "linkedSandbox")))
        return csn_fail(err, CSN_E_UNSUPPORTED, "sandboxes of this server can't be linked");
    if (*csn_json_get_str(body, "outboundProxyUrl", ""))
        return csn_fail(err, CSN_E_UNSUPPORTED, "this server has no outbound proxy");
    if (csn_json_count(csn_json_get(body, "secrets")) > 0)
        return csn_fail(err, CSN_E_UNSUPPORTED, "this server keeps no secrets; use env");
    return CSN_OK;
}

int csn_shape_create_read(const csn_json *body, csn_shape_create *ret, csn_error *err)
{
    static int (*const parts[])(const csn_json *, csn_shape_create *, csn_error *) = {
        read_identity,  read_build,  read_resources, read_maps,
        read_intervals, read_mounts, read_network,
    };

    *ret = (csn_shape_create){ 0 };
    if (csn_json_type_of(body) != CSN_JSON_OBJECT)
        return csn_fail(err, CSN_E_INVALID, "the body must be an object");
    for (size_t i = 0; i < CSN_COUNT(parts); i++) {
        int r = parts[i](body, ret, err);
        if (r < 0)
            return r;
    }
    return refuse_unsupported(body, err);
}
