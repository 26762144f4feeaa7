/* Volumes: volumes/<name>/{volume.json,data/}. A volume is born under a temporary name and renamed; it goes the other
 * way. What sandboxes write lies in data/, which this file opens, counts and removes, but never reads. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "boxes.h"
#include "image.h"
#include "images.h"
#include "kern/way.h"
#include "names.h"
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

int csn_volumes_create(int state_fd, const char *name, csn_error *err)
{
    csn_auto(fd) int hold = -1, volumes_fd = -1;
    csn_owner owner;
    int r;

    r = csn_layers_hold(state_fd, &hold, err);
    if (r >= 0)
        r = find_owner(&owner, err);
    if (r < 0)
        return r;
    volumes_fd = csn_tree_open_dir(state_fd, "volumes", 0700);
    r = volumes_fd < 0 ? volumes_fd : make_volume(volumes_fd, name, &owner);
    if (r == -EEXIST)
        return csn_fail(err, CSN_E_EXISTS, "a volume '%s' exists already", name);
    return r < 0 ? csn_fail_sys(err, r, "create volume '%s'", name) : CSN_OK;
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

int csn_volumes_list(int state_fd, csn_volume_fn fn, void *user, csn_error *err)
{
    csn_auto(names) csn_names names = CSN_NAMES_INIT;
    int r = csn_names_read(state_fd, "volumes", &names);

    if (r < 0)
        return csn_fail_sys(err, r, "list volumes");
    for (size_t i = 0; i < names.n; i++) {
        csn_volume_info info;

        r = load(state_fd, names.at[i], &info, err);
        if (r == CSN_E_NOT_FOUND) /* removed meanwhile */
            continue;
        if (r < 0)
            return r;
        fn(&info, user);
    }
    return CSN_OK;
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

int csn_volumes_inspect(int state_fd, const char *name, csn_volume_fn fn, void *user,
                        csn_error *err)
{
    csn_tree_count count = { 0, 0 };
    csn_volume_info info;
    int r;

    r = load(state_fd, name, &info, err);
    if (r < 0)
        return r;
    r = measure(state_fd, name, &count);
    if (r < 0)
        return csn_fail_sys(err, r, "count volume '%s'", name);
    info.size_bytes = count.bytes;
    info.n_files = count.n_files;
    fn(&info, user);
    return CSN_OK;
}

/* What its own sandboxes wrote with subordinate ids, only a helper can remove. */
static int remove_files(csn_images *images, int volumes_fd, const char *gone, csn_error *err)
{
    char path[96];
    int r;

    r = csn_tree_remove(volumes_fd, gone);
    if (r == -EACCES || r == -EPERM) {
        (void) snprintf(path, sizeof(path), "volumes/%s", gone); /* fits */
        return images->remove_tree(path, images->user, err);
    }
    return r < 0 ? csn_fail_sys(err, r, "remove its files") : CSN_OK;
}

static int drop_volume(csn_images *images, const char *name, csn_error *err)
{
    csn_auto(fd) int volumes_fd = -1;
    char gone[48], id[33];
    int r;

    volumes_fd = openat(images->state_fd, "volumes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = volumes_fd < 0 ? -errno : csn_layer_new_id(id);
    if (r < 0)
        return csn_fail_sys(err, r, "remove volume '%s'", name);
    (void) snprintf(gone, sizeof(gone), ".gone-%s", id); /* fits */
    r = csn_tree_rename(volumes_fd, name, volumes_fd, gone);
    if (r < 0)
        return csn_fail_sys(err, r, "remove volume '%s'", name);
    r = remove_files(images, volumes_fd, gone, err);
    return r < 0 ? csn_fail_in(err, r, "remove volume '%s'", name) : CSN_OK;
}

int csn_volumes_remove(csn_images *images, const char *name, csn_error *err)
{
    csn_auto(fd) int alone = -1; /* so that no sandbox with it is being made */
    csn_volume_info info = { .n_users = 0 };
    int r;

    r = csn_layers_hold_alone(images->state_fd, &alone, err);
    if (r == CSN_OK)
        r = load(images->state_fd, name, &info, err);
    if (r < 0)
        return csn_fail_in(err, r, "remove volume '%s'", name);
    if (info.n_users > 0)
        return csn_fail(err, CSN_E_BUSY, "volume '%s' is mounted by %u sandbox%s: delete %s first",
                        name, info.n_users, info.n_users == 1 ? "" : "es",
                        info.n_users == 1 ? "it" : "them");
    return drop_volume(images, name, err);
}
