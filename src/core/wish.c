#include "core/wish.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/str.h"
#include "base/utf8.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

enum { LIST_MAX = 1024, MOUNTS_MAX = 32 };

int csn_options_read(void *to, size_t to_size, const void *from, const char *what, csn_error *err)
{
    size_t size;

    memset(to, 0, to_size);
    if (!from)
        return CSN_OK;
    memcpy(&size, from, sizeof(size));
    if (size < sizeof(size))
        return csn_fail(err, CSN_E_INVALID, "%s: the field 'size' is not set", what);
    const char *bytes = from;
    for (size_t i = to_size; i < size; i++)
        if (bytes[i])
            return csn_fail(err, CSN_E_INVALID,
                            "%s: made for a newer library (%zu bytes, this one knows %zu)", what,
                            size, to_size);
    memcpy(to, from, size < to_size ? size : to_size);
    return CSN_OK;
}

char **csn_list_free(char **list)
{
    if (list)
        for (size_t i = 0; list[i]; i++)
            free(list[i]);
    free(list);
    return NULL;
}

static void list_auto(char ***list)
{
    *list = csn_list_free(*list);
}

char **csn_list_copy(const char *const *list)
{
    __attribute__((cleanup(list_auto))) char **copy = NULL;
    size_t n = 0;

    while (list && list[n])
        n++;
    copy = csn_calloc(n + 1, sizeof(*copy));
    if (!copy)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!(copy[i] = csn_strdup(list[i])))
            return NULL;
    char **ret = copy;
    copy = NULL;
    return ret;
}

int csn_list_check(const char *const *list, const char *what, csn_error *err)
{
    size_t n = 0;

    for (; list && list[n]; n++) {
        const char *eq = strchr(list[n], '=');
        if (!eq || eq == list[n])
            return csn_fail(err, CSN_E_INVALID, "%s '%.100s': KEY=value is wanted", what, list[n]);
        if (n >= LIST_MAX)
            return csn_fail(err, CSN_E_INVALID, "more than %d entries of %s", LIST_MAX, what);
    }
    return CSN_OK;
}

static void free_mounts(csn_mount *mounts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((void *) (uintptr_t) mounts[i].volume);
        free((void *) (uintptr_t) mounts[i].path);
        free((void *) (uintptr_t) mounts[i].subpath);
    }
    free(mounts);
}

void csn_wish_done(csn_wish *wish)
{
    free(wish->name);
    free(wish->image);
    free(wish->user);
    free(wish->cwd);
    csn_list_free(wish->env);
    csn_list_free(wish->labels);
    csn_list_free(wish->image_env);
    csn_list_free(wish->layers);
    free_mounts(wish->mounts, wish->n_mounts);
    *wish = (csn_wish){ .id_index = -1 };
}

void csn_wish_auto(csn_wish *wish)
{
    csn_wish_done(wish);
}

/* No empty part, no "." and no ".."; a leading '/' as told. */
static bool is_plain_path(const char *path, bool is_absolute)
{
    csn_str rest = csn_str_of(path), part;

    if ((path[0] == '/') != is_absolute || strlen(path) >= 4096 ||
        !csn_utf8_valid(path, strlen(path)))
        return false;
    if (is_absolute)
        rest = csn_str_n(path + 1, strlen(path) - 1);
    while (csn_str_split(&rest, '/', &part))
        if (part.len == 0 || csn_str_is(part, ".") || csn_str_is(part, ".."))
            return false;
    return true;
}

/* What the kernel shows there is what init goes by when it looks for a command's processes. */
static bool is_of_kernel(const char *path)
{
    static const char *const dirs[] = { "/proc", "/sys", "/dev" };

    for (size_t i = 0; i < CSN_COUNT(dirs); i++) {
        size_t len = strlen(dirs[i]);
        if (!strncmp(path, dirs[i], len) && (path[len] == '/' || path[len] == '\0'))
            return true;
    }
    return false;
}

static int check_mount(const csn_mount *m, csn_error *err)
{
    if (!m->volume || !csn_is_name(m->volume))
        return csn_fail(err, CSN_E_INVALID, "mount: '%.64s' is no volume name",
                        m->volume ? m->volume : "");
    if (!m->path || !is_plain_path(m->path, true))
        return csn_fail(err, CSN_E_INVALID,
                        "mount of volume '%s': '%.100s' is no plain absolute path", m->volume,
                        m->path ? m->path : "");
    if (is_of_kernel(m->path))
        return csn_fail(err, CSN_E_INVALID,
                        "mount of volume '%s': '%.100s' is the kernel's: nothing may cover /proc, /sys or /dev",
                        m->volume, m->path);
    if (m->subpath && m->subpath[0] && !is_plain_path(m->subpath, false))
        return csn_fail(err, CSN_E_INVALID,
                        "mount of volume '%s': subpath '%.100s' is no plain relative path",
                        m->volume, m->subpath);
    return CSN_OK;
}

/* The record is JSON: what isn't UTF-8 would come back as something else. */
static int check_text(const char *const *list, const char *what, csn_error *err)
{
    int r = csn_list_check(list, what, err);

    for (size_t i = 0; r >= 0 && list && list[i]; i++)
        if (!csn_utf8_valid(list[i], strlen(list[i])))
            r = csn_fail(err, CSN_E_INVALID, "%s '%.*s': its value is not UTF-8", what,
                         (int) strcspn(list[i], "="), list[i]);
    return r;
}

static int check_options(const csn_sandbox_options *o, csn_error *err)
{
    const int64_t numbers[] = { o->memory_bytes, o->cpu_milli,  o->pids,      o->disk_bytes,
                                o->disk_inodes,  o->open_files, o->tmp_bytes, o->shm_bytes,
                                o->timeout_ms,   o->output_bytes };
    int r;

    if (o->name && o->name[0] && !csn_is_name(o->name))
        return csn_fail(err, CSN_E_INVALID,
                        "name '%.100s': 1 to 64 of A-Z a-z 0-9 . _ - are wanted, a letter or digit first",
                        o->name);
    if (o->user && strcmp(o->user, "daytona") != 0 && strcmp(o->user, "root") != 0)
        return csn_fail(err, CSN_E_INVALID, "user '%.64s': 'daytona' and 'root' exist", o->user);
    if (o->cwd && (o->cwd[0] != '/' || !csn_utf8_valid(o->cwd, strlen(o->cwd))))
        return csn_fail(err, CSN_E_INVALID, "cwd '%.100s' is not absolute, or not UTF-8", o->cwd);
    for (size_t i = 0; i < CSN_COUNT(numbers); i++)
        if (numbers[i] < -1)
            return csn_fail(err, CSN_E_INVALID, "a limit is negative (%lld)",
                            (long long) numbers[i]);
    if (o->ttl_ms < 0 || o->idle_stop_ms < 0)
        return csn_fail(err, CSN_E_INVALID, "a timer is negative");
    if (o->network != CSN_NET_NONE && o->network != CSN_NET_OUTBOUND)
        return csn_fail(err, CSN_E_INVALID, "network %d is unknown", (int) o->network);
    if (o->n_mounts > MOUNTS_MAX)
        return csn_fail(err, CSN_E_INVALID, "%zu mounts, at most %d", o->n_mounts, MOUNTS_MAX);
    for (size_t i = 0; i < o->n_mounts; i++)
        if ((r = check_mount(&o->mounts[i], err)) < 0)
            return r;
#ifndef CSN_TEST_HOOKS
    if (o->walls_off)
        return csn_fail(err, CSN_E_INVALID, "walls_off: this is no test build");
#endif
    if ((r = check_text(o->env, "environment", err)) < 0)
        return r;
    return check_text(o->labels, "labels", err);
}

static int64_t or_default(int64_t value, int64_t def)
{
    return value == 0 ? def : value;
}

static void read_limits(const csn_sandbox_options *o, csn_wish *s)
{
    s->memory_bytes = or_default(o->memory_bytes, GIB);
    s->cpu_milli = or_default(o->cpu_milli, 1000);
    s->pids = or_default(o->pids, 512);
    s->disk_bytes = or_default(o->disk_bytes, 3 * GIB);
    /* The files of an ephemeral one are memory: they must leave some to the programs. */
    if (s->is_ephemeral && s->memory_bytes > 0 &&
        (s->disk_bytes < 0 || s->disk_bytes > s->memory_bytes / 2))
        s->disk_bytes = s->memory_bytes / 2;
    s->disk_inodes = or_default(o->disk_inodes, 200000);
    s->open_files = or_default(o->open_files, 16384);
    s->tmp_bytes = or_default(o->tmp_bytes, 256 * MIB);
    s->shm_bytes = or_default(o->shm_bytes, 64 * MIB);
    s->timeout_ms = or_default(o->timeout_ms, 10 * 60 * 1000);
    s->output_bytes = or_default(o->output_bytes, 10 * MIB);
    s->strict = o->strict;
    s->walls_off = o->walls_off;
    s->ttl_ms = o->ttl_ms;
    s->idle_stop_ms = o->idle_stop_ms;
}

static bool copy_mounts(const csn_mount *mounts, size_t n, csn_wish *s)
{
    s->mounts = csn_calloc(n ? n : 1, sizeof(*s->mounts));
    if (!s->mounts)
        return false;
    for (s->n_mounts = 0; s->n_mounts < n;) {
        const csn_mount *m = &mounts[s->n_mounts];
        csn_mount *to = &s->mounts[s->n_mounts++];
        to->volume = csn_strdup(m->volume);
        to->path = csn_strdup(m->path);
        to->subpath = csn_strdup(m->subpath ? m->subpath : "");
        to->is_read_only = m->is_read_only != 0;
        if (!to->volume || !to->path || !to->subpath)
            return false;
    }
    return true;
}

static bool copy_strings(const csn_sandbox_options *o, csn_wish *s)
{
    s->name = csn_strdup(o->name ? o->name : "");
    s->image = csn_strdup(o->image && o->image[0] ? o->image : "host");
    s->user = csn_strdup(o->user ? o->user : "daytona");
    s->cwd = csn_strdup(o->cwd ? o->cwd : "");
    s->env = csn_list_copy(o->env);
    s->labels = csn_list_copy(o->labels);
    return s->name && s->image && s->user && s->cwd && s->env && s->labels &&
           copy_mounts(o->mounts, o->n_mounts, s);
}

int csn_wish_read(const csn_sandbox_options *opts, csn_wish *ret, csn_error *err)
{
    csn_auto(wish) csn_wish s = { .id_index = -1 };
    csn_sandbox_options o;
    int r;

    r = csn_options_read(&o, sizeof(o), opts, "csn_sandbox_options", err);
    if (r < 0 || (r = check_options(&o, err)) < 0)
        return r;
    s.is_detached = o.is_detached != 0;
    s.is_shared = o.is_shared != 0;
    s.is_ephemeral = o.is_ephemeral != 0;
    s.allow_ptrace = o.allow_ptrace != 0;
    s.is_root = o.user && strcmp(o.user, "root") == 0;
    s.network = o.network;
    read_limits(&o, &s);
    if (!copy_strings(&o, &s))
        return csn_fail(err, CSN_E_NO_MEMORY, "copy the options");
    *ret = s;
    s = (csn_wish){ .id_index = -1 };
    return CSN_OK;
}

int csn_wish_copy(const csn_wish *from, csn_wish *ret, csn_error *err)
{
    csn_auto(wish) csn_wish s = *from;
    bool ok;

    s.id[0] = '\0';
    s.phase = CSN_PHASE_CREATING;
    s.created_ms = s.ttl_ms = s.idle_stop_ms = 0;
    s.id_index = -1;
    s.name = csn_strdup("");
    s.image = csn_strdup(from->image);
    s.user = csn_strdup(from->user);
    s.cwd = csn_strdup(from->cwd);
    s.env = csn_list_copy((const char *const *) from->env);
    s.labels = csn_list_copy(NULL);
    s.image_env = csn_list_copy((const char *const *) from->image_env);
    s.layers = csn_list_copy((const char *const *) from->layers);
    s.mounts = NULL;
    s.n_mounts = 0;
    ok = s.name && s.image && s.user && s.cwd && s.env && s.labels && s.image_env && s.layers;
    ok = copy_mounts(from->mounts, from->n_mounts, &s) && ok;
    if (!ok)
        return csn_fail(err, CSN_E_NO_MEMORY, "copy the settings of sandbox '%s'", from->id);
    *ret = s;
    s = (csn_wish){ .id_index = -1 };
    return CSN_OK;
}

void csn_wish_info(const csn_wish *wish, csn_state state, csn_sandbox_info *ret_info)
{
    *ret_info = (csn_sandbox_info){
        .id = wish->id,
        .name = wish->name,
        .image = wish->image,
        .user = wish->user,
        .labels = (const char *const *) wish->labels,
        .env = (const char *const *) wish->env,
        .state = state,
        .is_detached = wish->is_detached,
        .is_ephemeral = wish->is_ephemeral,
        .network = wish->network,
        .created_ms = wish->created_ms,
        .ttl_ms = wish->ttl_ms,
        .idle_stop_ms = wish->idle_stop_ms,
        .mounts = wish->mounts,
        .n_mounts = wish->n_mounts,
        .memory_bytes = wish->memory_bytes,
        .cpu_milli = wish->cpu_milli,
        .pids = wish->pids,
        .disk_bytes = wish->disk_bytes,
        .disk_inodes = wish->disk_inodes,
        .timeout_ms = wish->timeout_ms,
        .output_bytes = wish->output_bytes,
    };
}

int csn_wish_fork(const csn_wish *parent, csn_wish *own, csn_wish *ret, csn_error *err)
{
    int r = csn_wish_copy(parent, ret, err);

    if (r < 0)
        return r;
    if (!own) {
        ret->is_detached = parent->is_detached;
        return CSN_OK;
    }
    ret->is_detached = own->is_detached;
    ret->is_shared = own->is_shared;
    ret->is_ephemeral = own->is_ephemeral;
    ret->ttl_ms = own->ttl_ms;
    ret->idle_stop_ms = own->idle_stop_ms;
    char *name = ret->name, **labels = ret->labels;
    ret->name = own->name;
    ret->labels = own->labels;
    own->name = name;
    own->labels = labels;
    return CSN_OK;
}
