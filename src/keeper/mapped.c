/* SPDX-License-Identifier: Apache-2.0 */
/* With privilege layers and volumes are shown to the sandbox through the map of its own user namespace: on-disk uid k is
 * inside uid k, whatever range the sandbox has. Only the host's root may make such mounts, so the keeper does. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside_impl.h"
#include "kern/mount.h"
#include "setup.h"
#include "trees.h"

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

static int clone_volume(const csn_plan_mount *mount, const char *path, int *ret_fd)
{
    csn_auto(fd) int data = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    csn_auto(fd) int sub = -1;
    int r;

    if (data < 0)
        return -errno;
    if (mount->subpath[0] == '\0')
        return csn_tree_clone(data, "", false, ret_fd);
    r = open_subpath(data, mount->subpath, &sub);
    return r < 0 ? r : csn_tree_clone(sub, "", false, ret_fd);
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
    r = want->kind == CSN_TREE_VOLUME ? clone_volume(&k->plan.mounts[want->index], path, &fd)
                                      : csn_tree_clone(AT_FDCWD, path, false, &fd);
    if (r == 0 && !(csn_walls_off(k) & CSN_WALL_USERNS))
        r = csn_tree_idmap(fd, k->userns_fd);
    /* A file system that can't be mapped still serves as a lower layer: its files belong to nobody inside. */
    if (want->kind != CSN_TREE_VOLUME && (r == -EINVAL || r == -EOPNOTSUPP))
        r = 0;
    if (r == 0)
        *ret_fd = csn_take_fd(&fd);
    return r;
}

static int fail_tree(const csn_keeper *k, const csn_tree_want *want, int r, csn_error *err)
{
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
