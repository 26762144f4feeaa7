/* Volumes from outside: listed and read by a sandbox that mounts them read-only, never walked by the host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <caisson/files.h>
#include <caisson/sandbox.h>
#include <caisson/volume.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/time.h"
#include "base/utf8.h"
#include "interp.h"

#define LOOK_ROOT "/home/daytona/look"

enum {
    TREE_DEPTH = 4,
    TREE_DEPTH_MAX = 10,
    TREE_NODES = 20000,
    CAT_BYTES = 200000,
    CAT_BYTES_MAX = 1000000
};

static void see_volume(const csn_volume_info *info, void *user)
{
    (void) info;
    (void) user;
}

static bool has_parent(const char *path)
{
    csn_str rest = csn_str_of(path), part;

    while (csn_str_split(&rest, '/', &part))
        if (csn_str_is(part, ".."))
            return true;
    return false;
}

static int open_volume(csn_engine *engine, const char *volume, const char *path,
                       csn_sandbox **ret_box, csn_error *err)
{
    /* A service mounts none read-only. */
    csn_mount mount = { volume, LOOK_ROOT, NULL, !csn_engine_is_remote(engine) };
    csn_sandbox_options o = {
        .size = sizeof(o), .mounts = &mount, .n_mounts = 1, .is_ephemeral = 1
    };
    int r;

    if (has_parent(path))
        return csn_fail(err, CSN_E_INVALID, "Path traversal not allowed: '%s'", path);
    r = csn_volume_inspect(engine, volume, see_volume, NULL, err);
    return r < 0 ? r : csn_sandbox_create(engine, &o, ret_box, err);
}

/* ---- tree ------------------------------------------------------------------------------------------------------- */

struct entry {
    char *name;
    bool is_dir;
    int64_t size, mtime_ns;
};

struct listing {
    struct entry *entries;
    size_t n;
    bool is_short; /* of memory */
};

struct tree {
    csn_sandbox *box;
    csn_jw w;
    csn_buf path; /* inside */
    int depth;    /* how deep we may go */
    int64_t n_files, n_dirs;
    bool is_cut;
    csn_error *err;
};

static void take_entry(const csn_file_info *info, void *user)
{
    struct listing *l = user;
    struct entry *grown = csn_realloc_array(l->entries, l->n + 1, sizeof(*grown));
    char *name = csn_strdup(info->path);

    if (grown)
        l->entries = grown;
    if (!grown || !name) {
        l->is_short = true;
        free(name);
        return;
    }
    grown[l->n++] =
        (struct entry){ name, info->kind == CSN_FILE_DIRECTORY, info->size_bytes, info->mtime_ns };
}

static void put_node(struct tree *t, const struct entry *e, int depth);

static void put_children(struct tree *t, int depth)
{
    struct listing l = { 0 };

    csn_jw_key(&t->w, "children");
    csn_jw_begin_array(&t->w);
    if (depth > t->depth) {
        t->is_cut = true;
    } else if (csn_file_list(t->box, t->path.data, TREE_NODES, take_entry, &l, NULL) < 0 ||
               l.is_short) {
        t->is_cut = true;
    }
    for (size_t k = 0; k < l.n; k++) {
        size_t len = t->path.len;

        if (depth <= t->depth && t->n_files + t->n_dirs < TREE_NODES) {
            csn_buf_printf(&t->path, "/%s", l.entries[k].name);
            put_node(t, &l.entries[k], depth);
            csn_buf_truncate(&t->path, len);
        } else {
            t->is_cut = true;
        }
        free(l.entries[k].name);
    }
    free(l.entries);
    csn_jw_end_array(&t->w);
}

static void put_node(struct tree *t, const struct entry *e, int depth)
{
    const char *shown = t->path.data + sizeof(LOOK_ROOT) - 1;
    char when[CSN_ISO8601_SIZE];

    csn_jw_begin_object(&t->w);
    csn_jw_kstr(&t->w, "id", *shown ? shown : "/");
    csn_jw_kstr(&t->w, "name", e->name);
    csn_jw_kstr(&t->w, "path", *shown ? shown : "/");
    csn_jw_kstr(&t->w, "type", e->is_dir ? "directory" : "file");
    if (!e->is_dir)
        csn_jw_kint(&t->w, "size", e->size);
    csn_jw_kstr(&t->w, "modified_at", csn_iso8601(e->mtime_ns / CSN_NS_PER_MS, when));
    t->n_dirs += e->is_dir;
    t->n_files += !e->is_dir;
    if (e->is_dir)
        put_children(t, depth + 1);
    csn_jw_end_object(&t->w);
}

static void take_root(const csn_file_info *info, void *user)
{
    struct entry *e = user;

    e->is_dir = info->kind == CSN_FILE_DIRECTORY;
    e->size = info->size_bytes;
    e->mtime_ns = info->mtime_ns;
}

static int put_tree(struct tree *t, const char *volume, csn_error *err)
{
    const char *slash = strrchr(t->path.data, '/');
    struct entry root = { .name = slash && t->path.len > sizeof(LOOK_ROOT) ? (char *) slash + 1
                                                                           : (char *) "/" };
    csn_auto(mem) char *name = csn_strdup(root.name);
    int r = csn_file_stat(t->box, t->path.data, 0, take_root, &root, err);

    if (r < 0 || !name)
        return r;
    root.name = name;
    csn_jw_begin_object(&t->w);
    csn_jw_kstr(&t->w, "volume", volume);
    csn_jw_key(&t->w, "root");
    put_node(t, &root, 0);
    csn_jw_kint(&t->w, "total_files", t->n_files);
    csn_jw_kint(&t->w, "total_directories", t->n_dirs);
    csn_jw_kbool(&t->w, "truncated", t->is_cut);
    csn_jw_end_object(&t->w);
    return CSN_OK;
}

static void put_inside(csn_buf *out, const char *path)
{
    csn_str rest = csn_str_of(path), part;

    csn_buf_puts(out, LOOK_ROOT);
    while (csn_str_split(&rest, '/', &part))
        if (part.len && !csn_str_is(part, "."))
            csn_buf_printf(out, "/%.*s", (int) part.len, part.data);
}

static int finish(csn_sandbox *box, csn_buf *out, int r, char **ret_json, csn_error *err)
{
    (void) csn_sandbox_delete(box, NULL); /* the sweep takes what stays */
    csn_sandbox_free(box);
    if (r < 0)
        return r;
    *ret_json = csn_buf_take(out, NULL);
    return *ret_json ? CSN_OK : csn_fail_sys(err, -ENOMEM, "write the answer");
}

int csn_volume_tree(csn_engine *engine, const char *volume, const char *path, int depth,
                    char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    struct tree t = { .path = CSN_BUF_INIT, .depth = depth <= 0 ? TREE_DEPTH : depth, .err = err };
    int r = open_volume(engine, volume, path ? path : "/", &t.box, err);

    if (r < 0)
        return r;
    t.depth = t.depth > TREE_DEPTH_MAX ? TREE_DEPTH_MAX : t.depth;
    t.w = (csn_jw) CSN_JW_INIT(&out, true);
    put_inside(&t.path, path ? path : "/");
    r = put_tree(&t, volume, err);
    csn_buf_free(&t.path);
    return finish(t.box, &out, r, ret_json, err);
}

/* ---- one file --------------------------------------------------------------------------------------------------- */

static const char *mime_of(const char *path, bool is_text)
{
    static const char *const types[][2] = {
        { ".json", "application/json" }, { ".md", "text/markdown" }, { ".html", "text/html" },
        { ".py", "text/x-python" },      { ".csv", "text/csv" },     { ".png", "image/png" },
        { ".pdf", "application/pdf" },
    };

    for (size_t k = 0; k < CSN_COUNT(types); k++)
        if (csn_str_ends_with(csn_str_of(path), csn_str_of(types[k][0])))
            return types[k][1];
    return is_text ? "text/plain" : "application/octet-stream";
}

/* A service hands out no descriptors: a file of it comes into memory, whole. */
static int fetch(csn_sandbox *box, const char *inside, int *ret_fd, csn_error *err)
{
    csn_auto(mem) char *data = NULL;
    csn_auto(fd) int fd = -1;
    size_t len;
    int r = csn_file_get(box, inside, 0, &data, &len, err);

    if (r < 0)
        return r;
    fd = memfd_create("csn-look", MFD_CLOEXEC);
    r = fd < 0 ? -errno : csn_write_all(fd, data, len);
    if (r < 0)
        return csn_fail_sys(err, r, "read '%s'", inside);
    *ret_fd = csn_take_fd(&fd);
    return CSN_OK;
}

static int open_file(csn_sandbox *box, bool is_remote, const char *inside, int *ret_fd,
                     csn_error *err)
{
    return is_remote ? fetch(box, inside, ret_fd, err)
                     : csn_file_open(box, inside, CSN_OPEN_READ, 0, ret_fd, err);
}

static int put_file(csn_sandbox *box, bool is_remote, const char *path, const char *inside,
                    size_t max, csn_buf *out, csn_error *err)
{
    csn_auto(buf) csn_buf data = CSN_BUF_INIT_MAX(CAT_BYTES_MAX);
    csn_jw w = CSN_JW_INIT(out, true);
    csn_auto(fd) int fd = -1;
    off_t size;
    ssize_t n;
    int r = open_file(box, is_remote, inside, &fd, err);

    if (r < 0)
        return r;
    size = lseek(fd, 0, SEEK_END);
    if (size < 0 || lseek(fd, 0, SEEK_SET) < 0 || csn_buf_reserve(&data, max) < 0)
        return csn_fail_sys(err, -EIO, "read '%s'", path);
    n = csn_read_all(fd, data.data, max);
    if (n < 0)
        return csn_fail_sys(err, (int) n, "read '%s'", path);
    csn_buf_grew(&data, (size_t) n);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "path", inside + sizeof(LOOK_ROOT) - 1);
    csn_jw_kstr(&w, "mime", mime_of(path, csn_utf8_valid(data.data, data.len)));
    csn_jw_kint(&w, "size", size);
    csn_jw_key(&w, "content");
    csn_jw_string(&w, data.data, data.len);
    csn_jw_kbool(&w, "truncated", size > n);
    csn_jw_end_object(&w);
    return CSN_OK;
}

int csn_volume_cat(csn_engine *engine, const char *volume, const char *path, int64_t max_bytes,
                   char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(buf) csn_buf inside = CSN_BUF_INIT;
    int64_t max = max_bytes <= 0              ? CAT_BYTES
                  : max_bytes > CAT_BYTES_MAX ? CAT_BYTES_MAX
                                              : max_bytes;
    csn_sandbox *box = NULL;
    int r;

    if (!path || !csn_str_trim(csn_str_of(path)).len)
        return csn_fail(err, CSN_E_INVALID, "path is required");
    r = open_volume(engine, volume, path, &box, err);
    if (r < 0)
        return r;
    put_inside(&inside, path);
    r = put_file(box, csn_engine_is_remote(engine), path, inside.data, (size_t) max, &out, err);
    return finish(box, &out, r, ret_json, err);
}
