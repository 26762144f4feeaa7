/* Volumes: volumes/<name>/{volume.json,data/}. A volume is born under a temporary name and renamed; it goes the other
 * way. What sandboxes write lies in data/, which this file opens, counts and removes, but never reads. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "boxes.h"
#include "disk.h"
#include "image.h"
#include "kern/way.h"
#include "tree.h"

enum { RECORD_MAX = 64 << 10, USER_ID = 1000 };

/* With privilege the data are uid 1000's on disk and, through an idmapped mount, inside. */
static int find_owner(csn_owner *ret_owner, csn_error *err)
{
    const char *why_not = NULL;

    *ret_owner = (csn_owner){ .uid = USER_ID, .gid = USER_ID, .is_other = true };
    if (csn_way_find() != CSN_WAY_PRIVILEGED)
        why_not = csn_way_owner(ret_owner);
    return why_not ? csn_fail(err, CSN_E_UNSUPPORTED, "%s", why_not) : CSN_OK;
}

static int make_data(int dirfd, const csn_owner *owner)
{
    csn_auto(fd) int fd = -1;

    fd = csn_tree_open_dir(dirfd, "data", 0755);
    if (fd < 0)
        return fd;
    if (fchmod(fd, 0755) < 0)
        return -errno;
    return owner->is_other && fchown(fd, owner->uid, owner->gid) < 0 ? -errno : 0;
}

static int fill(int dirfd, const char *name, const csn_owner *owner)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, true);
    int r;

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "name", name);
    csn_jw_kint(&w, "created_ms", csn_wall_ms());
    csn_jw_end_object(&w);
    csn_buf_putc(&text, '\n');
    if (text.error < 0)
        return text.error;
    r = make_data(dirfd, owner);
    return r < 0 ? r : csn_write_file_atomic(dirfd, "volume.json", text.data, text.len, 0600, true);
}

static int make_volume(int volumes_fd, const char *name, const csn_owner *owner)
{
    csn_auto(fd) int fd = -1;
    char tmp[48], id[33];
    int r;

    r = csn_layer_new_id(id);
    if (r < 0)
        return r;
    (void) snprintf(tmp, sizeof(tmp), ".tmp-%s", id); /* fits */
    fd = csn_tree_open_dir(volumes_fd, tmp, 0700);
    if (fd < 0)
        return fd;
    r = fill(fd, name, owner);
    /* rename() onto a directory that isn't empty fails: a name is given once */
    if (r == 0)
        r = csn_tree_rename(volumes_fd, tmp, volumes_fd, name);
    if (r < 0)
        (void) csn_tree_remove(volumes_fd, tmp); /* the first mistake is the one to report */
    else
        (void) fsync(volumes_fd); /* best effort */
    return r;
}

static int create(csn_disk_verb *v, csn_error *err)
{
    csn_auto(fd) int hold = -1, volumes_fd = -1;
    csn_owner owner;
    int r;

    r = csn_layers_hold(v->state_fd, &hold, err);
    if (r >= 0)
        r = find_owner(&owner, err);
    if (r < 0)
        return r;
    volumes_fd = csn_tree_open_dir(v->state_fd, "volumes", 0700);
    r = volumes_fd < 0 ? volumes_fd : make_volume(volumes_fd, v->name, &owner);
    if (r == -EEXIST)
        return csn_fail(err, CSN_E_EXISTS, "a volume '%s' exists already", v->name);
    return r < 0 ? csn_fail_sys(err, r, "create volume '%s'", v->name) : CSN_OK;
}

int csn_volumes_create(csn_images *images, const char *name, csn_op *op, csn_error *err)
{
    csn_disk_verb *v = csn_disk_verb_new(images, sizeof(*v), name, op, err);

    return v ? csn_disk_verb_start(v, create, err) : CSN_E_NO_MEMORY;
}

/* ---- looking ---- */

typedef struct volume_look {
    csn_disk_verb base;
    csn_names names;
    csn_volume_info *infos; /* one for each name; name NULL: removed meanwhile */
    csn_volume_fn fn;
    void *user;
} volume_look;

static void free_look(csn_disk_verb *v)
{
    volume_look *look = csn_container_of(v, volume_look, base);

    csn_names_auto(&look->names);
    free(look->infos);
}

static void tell_look(csn_disk_verb *v)
{
    volume_look *look = csn_container_of(v, volume_look, base);

    for (size_t i = 0; i < look->names.n; i++)
        if (look->infos[i].name)
            look->fn(&look->infos[i], look->user);
}

static int start_look(csn_images *images, const char *name, csn_volume_fn fn, void *user,
                      csn_op *op, int (*run)(csn_disk_verb *v, csn_error *err), csn_error *err)
{
    volume_look *look = csn_disk_verb_new(images, sizeof(*look), name, op, err);

    if (!look)
        return CSN_E_NO_MEMORY;
    look->fn = fn;
    look->user = user;
    look->base.tell = tell_look;
    look->base.free = free_look;
    return csn_disk_verb_start(&look->base, run, err);
}

static int load(int state_fd, const char *name, csn_volume_info *ret, csn_error *err)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    char path[96];
    int r;

    (void) snprintf(path, sizeof(path), "volumes/%s/volume.json", name); /* fits */
    r = csn_read_file(state_fd, path, &text, RECORD_MAX);
    if (r == -ENOENT)
        return csn_fail(err, CSN_E_NOT_FOUND, "no volume '%s'", name);
    if (r == 0)
        r = csn_json_parse(text.data, text.len, &doc, NULL);
    if (r < 0)
        return csn_fail_sys(err, r, "read the record of volume '%s'", name);
    *ret = (csn_volume_info){ .name = name,
                              .created_ms = csn_json_get_int(doc, "created_ms", 0),
                              .size_bytes = -1,
                              .n_files = -1 };
    return csn_boxes_with_volume(state_fd, name, &ret->n_users, err);
}

static int list(csn_disk_verb *v, csn_error *err)
{
    volume_look *look = csn_container_of(v, volume_look, base);
    int r = csn_names_read(v->state_fd, "volumes", &look->names);

    if (r < 0)
        return csn_fail_sys(err, r, "list volumes");
    look->infos = csn_calloc(look->names.n + 1, sizeof(*look->infos));
    if (!look->infos)
        return csn_fail(err, CSN_E_NO_MEMORY, "list volumes");
    for (size_t i = 0; i < look->names.n; i++) {
        r = load(v->state_fd, look->names.at[i], &look->infos[i], err);
        if (r == CSN_E_NOT_FOUND) /* removed meanwhile */
            continue;
        if (r < 0)
            return r;
    }
    return CSN_OK;
}

int csn_volumes_list(csn_images *images, csn_volume_fn fn, void *user, csn_op *op, csn_error *err)
{
    return start_look(images, NULL, fn, user, op, list, err);
}

/* Files in an image (keeper/loop.h) are not counted: it may be in use. */
static int measure(int state_fd, const char *name, csn_tree_count *ret)
{
    char path[96];
    struct stat st;

    (void) snprintf(path, sizeof(path), "volumes/%s/data.img", name); /* fits */
    if (fstatat(state_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        *ret = (csn_tree_count){ .bytes = (int64_t) st.st_blocks * 512, .n_files = -1 };
        return 0;
    }
    (void) snprintf(path, sizeof(path), "volumes/%s/data", name); /* fits */
    return csn_tree_measure(state_fd, path, ret);
}

static int inspect(csn_disk_verb *v, csn_error *err)
{
    volume_look *look = csn_container_of(v, volume_look, base);
    csn_tree_count count = { 0, 0 };
    int r;

    look->infos = csn_calloc(1, sizeof(*look->infos));
    if (!look->infos || csn_names_add(&look->names, v->name) < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "look at volume '%s'", v->name);
    r = load(v->state_fd, v->name, &look->infos[0], err);
    if (r < 0)
        return r;
    r = measure(v->state_fd, v->name, &count);
    if (r < 0)
        return csn_fail_sys(err, r, "count volume '%s'", v->name);
    look->infos[0].size_bytes = count.bytes;
    look->infos[0].n_files = count.n_files;
    return CSN_OK;
}

int csn_volumes_inspect(csn_images *images, const char *name, csn_volume_fn fn, void *user,
                        csn_op *op, csn_error *err)
{
    return start_look(images, name, fn, user, op, inspect, err);
}

/* ---- removing ---- */

/* What its own sandboxes wrote with subordinate ids, only a helper can remove. */
static int remove_files(csn_disk_verb *v, int volumes_fd, const char *gone, csn_error *err)
{
    char path[96];
    int r;

    r = csn_tree_remove(volumes_fd, gone);
    if (r == -EACCES || r == -EPERM) {
        (void) snprintf(path, sizeof(path), "volumes/%s", gone); /* fits */
        v->must_go = true;
        r = csn_names_add(&v->left, path);
    }
    return r < 0 ? csn_fail_sys(err, r, "remove its files") : CSN_OK;
}

/* While it has a name nobody may be making a sandbox with it. */
static int take_name(csn_disk_verb *v, int volumes_fd, const char *gone, csn_error *err)
{
    csn_volume_info info = { .n_users = 0 };
    csn_auto(fd) int lock_fd = -1;
    int r;

    r = csn_layers_hold_alone(v->state_fd, &lock_fd, err);
    if (r == CSN_OK)
        r = load(v->state_fd, v->name, &info, err);
    if (r < 0)
        return r;
    if (info.n_users > 0)
        return csn_fail(err, CSN_E_BUSY, "it is mounted by %u sandbox%s: delete %s first",
                        info.n_users, info.n_users == 1 ? "" : "es",
                        info.n_users == 1 ? "it" : "them");
    r = csn_tree_rename(volumes_fd, v->name, volumes_fd, gone);
    return r < 0 ? csn_fail_sys(err, r, "take its name") : CSN_OK;
}

static int remove_volume(csn_disk_verb *v, csn_error *err)
{
    csn_auto(fd) int volumes_fd = -1;
    char gone[48], id[33];
    int r;

    volumes_fd = csn_tree_open_dir(v->state_fd, "volumes", 0700);
    r = volumes_fd < 0 ? volumes_fd : csn_layer_new_id(id);
    if (r < 0)
        return csn_fail_sys(err, r, "remove volume '%s'", v->name);
    (void) snprintf(gone, sizeof(gone), ".gone-%s", id); /* fits */
    r = take_name(v, volumes_fd, gone, err);
    if (r == CSN_OK)
        r = remove_files(v, volumes_fd, gone, err);
    return r < 0 ? csn_fail_in(err, r, "remove volume '%s'", v->name) : CSN_OK;
}

int csn_volumes_remove(csn_images *images, const char *name, csn_op *op, csn_error *err)
{
    csn_disk_verb *v = csn_disk_verb_new(images, sizeof(*v), name, op, err);

    return v ? csn_disk_verb_start(v, remove_volume, err) : CSN_E_NO_MEMORY;
}
