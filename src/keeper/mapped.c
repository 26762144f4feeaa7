/* SPDX-License-Identifier: Apache-2.0 */
/* With privilege layers and volumes are shown to the sandbox through the map of its own user namespace: on-disk uid k is
 * inside uid k, whatever range the sandbox has. Only the host's root may make such mounts, so the keeper does. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "inside_impl.h"
#include "kern/dents.h"
#include "kern/mount.h"
#include "loop.h"
#include "setup.h"
#include "trees.h"

enum { COPY_MAX_BYTES = 64 << 20, COPY_MAX_FILES = 20000 };

uint64_t csn_layers_with_usr(const csn_keeper *k)
{
    uint64_t mask = 0;
    char path[128];

    for (uint32_t i = 0; i < k->plan.n_layers; i++) {
        (void) snprintf(path, sizeof(path), "layers/%s/usr",
                        k->plan.layers[i]); /* names: 64 bytes */
        if (faccessat(k->state_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            mask |= UINT64_C(1) << i;
    }
    return mask;
}

/* The content of a volume is enemy ground: no symlink is followed. What we make belongs to the sandbox's user. */
static int open_prefix(int data, const char *path, int *ret_fd)
{
    int r = csn_target_open(data, path, CSN_TARGET_EXISTING, ret_fd);

    if (r != -ENOENT)
        return r;
    r = csn_target_open(data, path, CSN_TARGET_DIR, ret_fd);
    if (r == 0 && fchownat(*ret_fd, "", CSN_INSIDE_UID, CSN_INSIDE_UID, AT_EMPTY_PATH) < 0)
        r = -errno;
    return r;
}

/* One directory after the other, so that those on the way are the user's too. */
static int open_subpath(int data, const char *subpath, int *ret_fd)
{
    char path[CSN_TREE_PATH_MAX];
    int r = strlen(subpath) < sizeof(path) ? 0 : -ENAMETOOLONG;

    for (size_t i = 0; subpath[i] && r == 0; i++) {
        csn_auto(fd) int on_the_way = -1;
        path[i] = '\0';
        if (subpath[i] == '/' && i > 0)
            r = open_prefix(data, path, &on_the_way);
        path[i] = subpath[i];
        path[i + 1] = '\0';
    }
    return r < 0 ? r : open_prefix(data, path, ret_fd);
}

static int clone_subpath(int data, const char *subpath, int *ret_fd)
{
    csn_auto(fd) int sub = -1;
    int r = open_subpath(data, subpath, &sub);

    return r < 0 ? r : csn_tree_clone(sub, "", false, ret_fd);
}

/* --- layers on a file system that can't map ids --------------------------------------------------------------------- */

static bool is_layer(const csn_keeper *k, const csn_tree_want *want)
{
    return (want->kind == CSN_TREE_ROOT || want->kind == CSN_TREE_USR) &&
           want->index < k->plan.n_layers;
}

/* Without the map a layer's files would be nobody's: no home that can be written, no file that can be changed. A small one
 * is copied into memory with the owners that the map would have shown. -ENOSPC: it is not small. */
static int copy_layer(const csn_keeper *k, int layer, int *ret_fd)
{
    const csn_copy_ids ids = { .count = CSN_INSIDE_IDS, .to = (uint32_t) k->plan.id_base };
    csn_auto(fd) int src = openat(layer, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), dst = -1,
                     tmpfs = -1;
    int r = src < 0 ? -errno
                    : csn_mount_tmpfs(COPY_MAX_BYTES, COPY_MAX_FILES, 0755,
                                      CSN_ATTR_NOSUID | CSN_ATTR_NODEV, &tmpfs);

    if (r < 0)
        return r;
    dst = openat(tmpfs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dst < 0)
        return -errno;
    r = csn_tree_copy(src, dst, ids);
    if (r == 0)
        *ret_fd = csn_take_fd(&tmpfs);
    return r;
}

static bool is_unmapped(int r)
{
    return r == -EINVAL || r == -EOPNOTSUPP;
}

/* --- volumes there -------------------------------------------------------------------------------------------------- */

/* 1: it is; 0: it is not; -errno. */
static int is_empty(int dirfd, const char *name)
{
    csn_auto(fd) int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    csn_dents dents;
    const char *entry;
    int r;

    if (fd < 0)
        return -errno;
    csn_dents_begin(&dents, fd);
    r = csn_dents_next(&dents, &entry, NULL);
    return r < 0 ? r : r == 0;
}

static int open_volume_dir(const csn_keeper *k, const csn_plan_mount *mount, int *ret_fd)
{
    char path[96];

    (void) snprintf(path, sizeof(path), "volumes/%s", mount->volume); /* names: 64 bytes */
    *ret_fd = openat(k->state_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return *ret_fd < 0 ? -errno : 0;
}

static bool is_in_image(const csn_keeper *k, const csn_plan_mount *mount)
{
    char path[96];

    (void) snprintf(path, sizeof(path), "volumes/%s/data.img", mount->volume); /* names: 64 bytes */
    return faccessat(k->state_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A directory with files in it stays what it is: they would be hidden. */
static int clone_image(const csn_keeper *k, const csn_plan_mount *mount, int *ret_fd)
{
    csn_auto(fd) int dir = -1, whole = -1;
    int r = open_volume_dir(k, mount, &dir);

    if (r == 0 && !is_in_image(k, mount)) {
        r = is_empty(dir, "data");
        if (r == 0)
            return -EINVAL;
    }
    if (r >= 0)
        r = csn_loop_volume_open(dir, &whole);
    if (r < 0)
        return r;
    if (mount->subpath[0]) {
        r = clone_subpath(whole, mount->subpath, ret_fd);
        return r == -EINVAL ? -EXDEV : r; /* before Linux 6.15 */
    }
    *ret_fd = csn_take_fd(&whole);
    return 0;
}

static int map_volume(const csn_keeper *k, int fd)
{
    return csn_walls_off(k) & CSN_WALL_USERNS ? 0 : csn_tree_idmap(fd, k->userns_fd);
}

/* The whole of it first, whatever part is wanted: nothing may be made in a directory that turns out to be of no use. */
static int clone_dir(const csn_keeper *k, const csn_plan_mount *mount, const char *path,
                     int *ret_fd)
{
    csn_auto(fd) int data = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    csn_auto(fd) int fd = -1;
    int r = data < 0 ? -errno : csn_tree_clone(data, "", false, &fd);

    if (r == 0)
        r = map_volume(k, fd);
    if (r == 0 && mount->subpath[0]) {
        csn_close(&fd);
        r = clone_subpath(data, mount->subpath, &fd);
        if (r == 0)
            r = map_volume(k, fd);
    }
    if (r == 0)
        *ret_fd = csn_take_fd(&fd);
    return r;
}

static int clone_volume(const csn_keeper *k, const csn_plan_mount *mount, const char *path,
                        int *ret_fd)
{
    csn_auto(fd) int fd = -1;
    int r = is_in_image(k, mount) ? -EINVAL : clone_dir(k, mount, path, &fd);

    if (is_unmapped(r)) {
        r = clone_image(k, mount, &fd);
        if (r == 0)
            r = map_volume(k, fd);
    }
    if (r == 0)
        *ret_fd = csn_take_fd(&fd);
    return r;
}

static int clone_one(csn_keeper *k, const csn_tree_want *want, int *ret_fd)
{
    char path[CSN_TREE_PATH_MAX];
    csn_auto(fd) int fd = -1;
    int r;

    if (want->kind == CSN_TREE_DISK &&
        k->disk_rung == CSN_DISK_LOOP) { /* the child attaches it, we hold it, too */
        *ret_fd = csn_fd_dup(k->disk_fd, 3);
        return *ret_fd < 0 ? *ret_fd : 0;
    }
    if (want->kind == CSN_TREE_DISK) /* its owners on disk are the range itself: no map */
        return csn_tree_clone(k->disk_fd, "", false, ret_fd);
    r = csn_tree_path(&k->plan, want, path, sizeof(path));
    if (r < 0)
        return r;
    if (want->kind == CSN_TREE_VOLUME)
        return clone_volume(k, &k->plan.mounts[want->index], path, ret_fd);
    r = csn_tree_clone(AT_FDCWD, path, false, &fd);
    if (r == 0 && !(csn_walls_off(k) & CSN_WALL_USERNS))
        r = csn_tree_idmap(fd, k->userns_fd);
    if (is_unmapped(r) && is_layer(k, want))
        return copy_layer(k, fd, ret_fd);
    /* The machine's own /usr serves as it is: its files belong to nobody inside. */
    if (is_unmapped(r))
        r = 0;
    if (r == 0)
        *ret_fd = csn_take_fd(&fd);
    return r;
}

static int fail_tree(const csn_keeper *k, const csn_tree_want *want, int r, csn_error *err)
{
    char why[160];

    if (r == -ENOSPC && is_layer(k, want)) {
        (void) snprintf(
            why, sizeof(why), "can't map owners, and layer '%.12s' is over %d MiB or %d files",
            k->plan.layers[want->index], COPY_MAX_BYTES >> 20, COPY_MAX_FILES); /* fits */
        return csn_fail_unfit(k, why, err);
    }
    if (r == -EOPNOTSUPP && is_layer(k, want)) /* before Linux 6.6 */
        return csn_fail_unfit(k, "can't map owners, and tmpfs can't hold a layer's attributes here",
                              err);
    if (want->kind == CSN_TREE_VOLUME && r == -ENOEXEC)
        return csn_fail_unfit(k, "can't hold a volume without mkfs.ext4 (Debian: e2fsprogs)", err);
    if (want->kind == CSN_TREE_VOLUME && r == -EXDEV)
        return csn_fail_unfit(k, "gives a volume no part to mount before Linux 6.15", err);
    if (want->kind == CSN_TREE_VOLUME && is_unmapped(r))
        return csn_fail_unfit(k, "can't map the owners of a volume's files", err);
    if (want->kind == CSN_TREE_VOLUME)
        return csn_fail_sys(err, r, "open volume '%s'", k->plan.mounts[want->index].volume);
    if (want->kind == CSN_TREE_DISK)
        return csn_fail_sys(err, r, "open the disk of sandbox '%s'", k->plan.id);
    return csn_fail_sys(err, r, "open layer '%s'",
                        want->index < k->plan.n_layers ? k->plan.layers[want->index] : "host");
}

int csn_layers_clone(csn_keeper *k, int *trees, uint32_t *ret_n, uint64_t layers_with_usr,
                     csn_error *err)
{
    csn_tree_want wants[CSN_TREES_MAX];
    uint32_t n = csn_trees_list(&k->plan, layers_with_usr, wants);

    for (uint32_t i = 0; i < n; i++) {
        int r = clone_one(k, &wants[i], &trees[i]);
        if (r < 0)
            return fail_tree(k, &wants[i], r, err);
    }
    *ret_n = n;
    return CSN_OK;
}
