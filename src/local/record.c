/* boxes/<id>/record: what was wished, as one JSON object, replaced atomically. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "local/local.h"

enum { RECORD_MAX = 4 << 20, MEMBERS_MAX = 4096 };

static const char *const phase_names[] = {
    [CSN_PHASE_CREATING] = "creating",
    [CSN_PHASE_KEPT] = "kept",
    [CSN_PHASE_DELETING] = "deleting",
    [CSN_PHASE_STANDBY] = "standby",
};

/* Numbers of csn_wish by their key. */
static const struct {
    const char *key;
    size_t at;
} numbers[] = {
    { "memory_bytes", offsetof(csn_wish, memory_bytes) },
    { "cpu_milli", offsetof(csn_wish, cpu_milli) },
    { "pids", offsetof(csn_wish, pids) },
    { "disk_bytes", offsetof(csn_wish, disk_bytes) },
    { "disk_inodes", offsetof(csn_wish, disk_inodes) },
    { "open_files", offsetof(csn_wish, open_files) },
    { "tmp_bytes", offsetof(csn_wish, tmp_bytes) },
    { "shm_bytes", offsetof(csn_wish, shm_bytes) },
    { "timeout_ms", offsetof(csn_wish, timeout_ms) },
    { "output_bytes", offsetof(csn_wish, output_bytes) },
    { "created_ms", offsetof(csn_wish, created_ms) },
    { "ttl_ms", offsetof(csn_wish, ttl_ms) },
    { "idle_stop_ms", offsetof(csn_wish, idle_stop_ms) },
    { "id_index", offsetof(csn_wish, id_index) },
};

static const struct {
    const char *key;
    size_t at;
} flags[] = {
    { "is_detached", offsetof(csn_wish, is_detached) },
    { "is_shared", offsetof(csn_wish, is_shared) },
    { "is_ephemeral", offsetof(csn_wish, is_ephemeral) },
    { "allow_ptrace", offsetof(csn_wish, allow_ptrace) },
    { "is_root", offsetof(csn_wish, is_root) },
    { "is_host_based", offsetof(csn_wish, is_host_based) },
};

static const struct {
    const char *key;
    size_t at;
} strings[] = {
    { "name", offsetof(csn_wish, name) },
    { "image", offsetof(csn_wish, image) },
    { "user", offsetof(csn_wish, user) },
    { "cwd", offsetof(csn_wish, cwd) },
}, lists[] = {
    { "env", offsetof(csn_wish, env) },
    { "labels", offsetof(csn_wish, labels) },
    { "image_env", offsetof(csn_wish, image_env) },
    { "layers", offsetof(csn_wish, layers) },
};

#define MEMBER(type, wish, offset) ((type *) (void *) ((char *) (wish) + (offset)))
#define CONST_MEMBER(type, wish, offset) \
    ((type const *) (const void *) ((const char *) (wish) + (offset)))

static void put_mounts(csn_jw *w, const csn_wish *wish)
{
    csn_jw_key(w, "mounts");
    csn_jw_begin_array(w);
    for (size_t i = 0; i < wish->n_mounts; i++) {
        csn_jw_begin_object(w);
        csn_jw_kstr(w, "volume", wish->mounts[i].volume);
        csn_jw_kstr(w, "path", wish->mounts[i].path);
        csn_jw_kstr(w, "subpath", wish->mounts[i].subpath);
        csn_jw_kbool(w, "is_read_only", wish->mounts[i].is_read_only);
        csn_jw_end_object(w);
    }
    csn_jw_end_array(w);
}

static void put_wish(csn_jw *w, const csn_wish *wish)
{
    csn_jw_begin_object(w);
    csn_jw_kint(w, "version", 1);
    csn_jw_kstr(w, "id", wish->id);
    csn_jw_kstr(w, "phase", phase_names[wish->phase]);
    for (size_t i = 0; i < CSN_COUNT(strings); i++)
        csn_jw_kstr(w, strings[i].key, *CONST_MEMBER(char *, wish, strings[i].at));
    for (size_t i = 0; i < CSN_COUNT(flags); i++)
        csn_jw_kbool(w, flags[i].key, *CONST_MEMBER(bool, wish, flags[i].at));
    for (size_t i = 0; i < CSN_COUNT(numbers); i++)
        csn_jw_kint(w, numbers[i].key, *CONST_MEMBER(int64_t, wish, numbers[i].at));
    for (size_t i = 0; i < CSN_COUNT(lists); i++)
        csn_jw_kstrs(w, lists[i].key, *CONST_MEMBER(char **, wish, lists[i].at));
    put_mounts(w, wish);
    csn_jw_kint(w, "network", wish->network);
    csn_jw_kint(w, "strict", wish->strict);
    csn_jw_kint(w, "walls_off", wish->walls_off);
    csn_jw_end_object(w);
}

int csn_record_write(int box_fd, const csn_wish *wish, bool is_durable, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, false);
    int r;

    put_wish(&w, wish);
    csn_buf_putc(&text, '\n');
    r = text.error;
    if (r == 0)
        r = csn_write_file_atomic(box_fd, "record", text.data, text.len, 0600, is_durable);
    return r < 0 ? csn_fail_sys(err, r, "write the record of sandbox '%s'", wish->id) : CSN_OK;
}

static int get_list(const csn_json *v, char ***ret)
{
    size_t n = csn_json_count(v);
    char **list;

    if (n > MEMBERS_MAX)
        return -EBADMSG;
    list = csn_calloc(n + 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    *ret = list; /* owned by the wish from here on */
    for (size_t i = 0; i < n; i++)
        if (!(list[i] = csn_strdup(csn_json_str(csn_json_at(v, i), ""))))
            return -ENOMEM;
    return 0;
}

static int get_mounts(const csn_json *v, csn_wish *wish)
{
    size_t n = csn_json_count(v);

    if (n > MEMBERS_MAX)
        return -EBADMSG;
    wish->mounts = csn_calloc(n ? n : 1, sizeof(*wish->mounts));
    if (!wish->mounts)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const csn_json *m = csn_json_at(v, i);
        csn_mount *to = &wish->mounts[wish->n_mounts++];
        to->volume = csn_strdup(csn_json_get_str(m, "volume", ""));
        to->path = csn_strdup(csn_json_get_str(m, "path", ""));
        to->subpath = csn_strdup(csn_json_get_str(m, "subpath", ""));
        to->is_read_only = csn_json_get_bool(m, "is_read_only", true);
        if (!to->volume || !to->path || !to->subpath)
            return -ENOMEM;
    }
    return 0;
}

static int get_phase(const char *text, csn_phase *ret)
{
    for (size_t i = 0; i < CSN_COUNT(phase_names); i++)
        if (csn_streq(phase_names[i], text)) {
            *ret = (csn_phase) i;
            return 0;
        }
    return -EBADMSG;
}

static int get_wish(const csn_json *v, csn_wish *wish)
{
    const char *id = csn_json_get_str(v, "id", "");
    int r = get_phase(csn_json_get_str(v, "phase", ""), &wish->phase);

    if (r < 0 || csn_json_get_int(v, "version", 0) != 1 || !csn_is_hex(id, 32))
        return -EBADMSG;
    memcpy(wish->id, id, CSN_ID_SIZE);
    for (size_t i = 0; i < CSN_COUNT(strings); i++) {
        char *text = csn_strdup(csn_json_get_str(v, strings[i].key, ""));
        if (!text)
            return -ENOMEM;
        *MEMBER(char *, wish, strings[i].at) = text;
    }
    if (wish->name[0] && !csn_is_name(wish->name)) /* it becomes a path */
        return -EBADMSG;
    for (size_t i = 0; i < CSN_COUNT(flags); i++)
        *MEMBER(bool, wish, flags[i].at) = csn_json_get_bool(v, flags[i].key, false);
    for (size_t i = 0; i < CSN_COUNT(numbers); i++)
        *MEMBER(int64_t, wish, numbers[i].at) = csn_json_get_int(v, numbers[i].key, -1);
    for (size_t i = 0; i < CSN_COUNT(lists); i++)
        if ((r = get_list(csn_json_get(v, lists[i].key), MEMBER(char **, wish, lists[i].at))) < 0)
            return r;
    wish->network = (csn_network) csn_json_get_int(v, "network", CSN_NET_NONE);
    wish->strict = (uint32_t) csn_json_get_int(v, "strict", 0);
    wish->walls_off = (uint32_t) csn_json_get_int(v, "walls_off", 0);
    return get_mounts(csn_json_get(v, "mounts"), wish);
}

int csn_record_parse(const char *data, size_t len, csn_wish *ret_wish)
{
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    int r = csn_json_parse(data, len, &doc, NULL);

    if (r == 0)
        r = get_wish(doc, &wish);
    if (r < 0)
        return r;
    *ret_wish = wish;
    wish = (csn_wish){ .id_index = -1 };
    return 0;
}

int csn_record_read(int box_fd, csn_wish *ret_wish, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int r = csn_read_file(box_fd, "record", &text, RECORD_MAX);

    if (r == 0)
        r = csn_record_parse(text.data, text.len, ret_wish);
    return r < 0 ? csn_fail_sys(err, r, "read the sandbox's record") : CSN_OK;
}
