/* SPDX-License-Identifier: Apache-2.0 */
/* The file system of the sandbox: lower layers attached in a staging tmpfs, overlays above them, volumes. Overlays are
 * given relative names, so mountinfo inside shows no path of the host (R7). */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "inside_impl.h"
#include "keeper.h"
#include "kern/mount.h"
#include "kern/overlay.h"
#include "trees.h"

#define QUIET (CSN_ATTR_NOSUID | CSN_ATTR_NODEV)

enum { NAME_SIZE = 16 };

/* A volume's subdirectory is made at need; its content is enemy ground, so no symlink is followed. */
static int clone_volume(const csn_plan_mount *mount, const char *path, bool is_other, int *ret_fd)
{
    csn_auto(fd) int data = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    csn_auto(fd) int sub = -1;

    if (data < 0)
        return -errno;
    if (mount->subpath[0] == '\0')
        return csn_tree_clone(data, "", false, ret_fd);
    if (is_other) { /* what we make is to be the sandbox's user's */
        (void) setfsgid(
            CSN_INSIDE_UID); /* neither has an error to tell; both are mapped and ours to choose */
        (void) setfsuid(CSN_INSIDE_UID);
    }
    int r = csn_target_open(data, mount->subpath, CSN_TARGET_DIR, &sub);
    /* Back to the effective ids, which have no number in here: that is what no change at all does. */
    if (is_other &&
        (setreuid((uid_t) -1, (uid_t) -1) < 0 || setregid((gid_t) -1, (gid_t) -1) < 0) && r == 0)
        r = -errno;
    return r < 0 ? r : csn_tree_clone(sub, "", false, ret_fd);
}

static int clone_wanted(const csn_inside *in, const csn_tree_want *want, int *ret_fd)
{
    const csn_plan *plan = &in->plan;
    char path[CSN_TREE_PATH_MAX];
    int r = csn_tree_path(plan, want, path, sizeof(path));

    if (r < 0)
        return r;
    if (want->kind == CSN_TREE_VOLUME)
        return clone_volume(&plan->mounts[want->index], path, in->go.is_other, ret_fd);
    r = csn_tree_clone(AT_FDCWD, path, false, ret_fd);
    /* EINVAL: other mounts lie below it, and without privilege they can't be uncovered. */
    return r == -EINVAL ? csn_tree_clone(AT_FDCWD, path, true, ret_fd) : r;
}

int csn_inside_gather(csn_inside *in)
{
    csn_tree_want wants[CSN_TREES_MAX];
    uint32_t n = csn_trees_list(&in->plan, in->go.layers_with_usr, wants);
    int r = 0;

    if (in->go.is_privileged)
        return n == in->n_trees ? 0 : -EBADMSG;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = clone_wanted(in, &wants[i], &in->trees[i]);
        if (r < 0 && wants[i].kind == CSN_TREE_VOLUME)
            csn_inside_about(in, in->plan.mounts[wants[i].index].volume);
    }
    in->n_trees = n;
    return r;
}

/* `name` is new in the staging directory. */
static int attach_new(csn_inside *in, int tree, const char *name)
{
    if (mkdirat(in->stage_fd, name, 0755) < 0)
        return -errno;
    return csn_mount_attach(tree, in->stage_fd, name, CSN_TARGET_EXISTING);
}

static int make_uppers(csn_inside *in)
{
    static const char *const dirs[] = { "disk",           "disk/root", "disk/root/upper",
                                        "disk/root/work", "disk/usr",  "disk/usr/upper",
                                        "disk/usr/work" };

    for (size_t i = 0; i < CSN_COUNT(dirs); i++)
        if (mkdirat(in->stage_fd, dirs[i], 0755) < 0)
            return -errno;
    in->disk_fd = openat(in->stage_fd, "disk", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return in->disk_fd < 0 ? -errno : 0;
}

/* Somewhere to stand: an existing directory of the host, covered in our own mount namespace only. */
static int attach_stage(csn_inside *in)
{
    static const char *const places[] = { "tmp", "mnt", "run", "var" };
    csn_auto(fd) int host = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = -errno;

    for (size_t i = 0; host >= 0 && i < CSN_COUNT(places); i++) {
        r = csn_mount_attach(in->stage_fd, host, places[i], CSN_TARGET_EXISTING);
        if (r == 0 || (r != -ENOENT && r != -ELOOP && r != -ENOTDIR))
            break;
    }
    return r;
}

int csn_inside_stage(csn_inside *in)
{
    bool is_in_memory = csn_plan_is_in_memory(&in->plan);
    uint64_t size = is_in_memory && in->plan.disk_bytes > 0 ? (uint64_t) in->plan.disk_bytes : 0;
    uint64_t inodes =
        is_in_memory && in->plan.disk_inodes > 0 ? (uint64_t) in->plan.disk_inodes : 0;
    /* Our own directories and mount points count too. */
    int r =
        csn_mount_tmpfs(size, inodes ? inodes + CSN_TREES_MAX + 16 : 0, 0755, QUIET, &in->stage_fd);

    if (r == 0)
        r = attach_stage(in);
    if (r == 0 && is_in_memory)
        r = make_uppers(in);
    return r;
}

/* Attaches the lower layers of `kind` and lists their names, topmost first. */
static int attach_lowers(csn_inside *in, csn_tree_kind kind, char names[][NAME_SIZE],
                         const char **lower, size_t *ret_n)
{
    csn_tree_want wants[CSN_TREES_MAX];
    uint32_t n_wants = csn_trees_list(&in->plan, in->go.layers_with_usr, wants);
    size_t n = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n_wants; i++) {
        if (wants[i].kind != kind)
            continue;
        (void) snprintf(names[n], NAME_SIZE, "%c%u", kind == CSN_TREE_ROOT ? 'l' : 'u',
                        (unsigned) n); /* fits */
        r = attach_new(in, in->trees[i], names[n]);
        csn_close(&in->trees[i]);
        lower[n] = names[n];
        n++;
    }
    *ret_n = n;
    return r;
}

static int attach_disk(csn_inside *in)
{
    csn_tree_want wants[CSN_TREES_MAX];
    uint32_t n = csn_trees_list(&in->plan, in->go.layers_with_usr, wants);

    for (uint32_t i = 0; i < n; i++)
        if (wants[i].kind == CSN_TREE_DISK)
            return attach_new(in, in->trees[i], "disk");
    return 0;
}

static int mount_overlay(csn_inside *in, csn_tree_kind kind, int *ret_fd)
{
    char names[CSN_PLAN_LAYERS_MAX + 1][NAME_SIZE];
    const char *lower[CSN_PLAN_LAYERS_MAX + 1];
    bool is_root = kind == CSN_TREE_ROOT;
    csn_overlay overlay = {
        .lower = lower,
        .upper = is_root ? "disk/root/upper" : "disk/usr/upper",
        .work = is_root ? "disk/root/work" : "disk/usr/work",
        .userxattr = true,
        .is_volatile = in->plan.flags & CSN_PLAN_EPHEMERAL,
        .attr = QUIET,
    };
    int r = attach_lowers(in, kind, names, lower, &overlay.n_lower);

    if (r < 0)
        return r;
    if (overlay.n_lower == 0)
        return is_root ? -EINVAL : -ENODATA;
    if (fchdir(in->stage_fd) < 0)
        return -errno;
    return csn_mount_overlay(&overlay, ret_fd);
}

int csn_inside_mount_root(csn_inside *in)
{
    int r = attach_disk(in);

    if (r == 0)
        r = mount_overlay(in, CSN_TREE_ROOT, &in->root_fd);
    return r < 0 ? r : attach_new(in, in->root_fd, "new");
}

int csn_inside_mount_usr(csn_inside *in)
{
    csn_auto(fd) int usr = -1;
    int r = mount_overlay(in, CSN_TREE_USR, &usr);

    if (r == -ENODATA)
        return 0; /* the image's root has its own /usr */
    return r < 0 ? r : csn_mount_attach(usr, in->root_fd, "usr", CSN_TARGET_DIR);
}

int csn_inside_mount_volumes(csn_inside *in)
{
    csn_tree_want wants[CSN_TREES_MAX];
    uint32_t n = csn_trees_list(&in->plan, in->go.layers_with_usr, wants);
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n; i++) {
        if (wants[i].kind != CSN_TREE_VOLUME)
            continue;
        const csn_plan_mount *mount = &in->plan.mounts[wants[i].index];
        r = csn_tree_attr(in->trees[i], QUIET | (mount->is_read_only ? CSN_ATTR_RDONLY : 0), true);
        if (r == 0)
            r = csn_mount_attach(in->trees[i], in->root_fd, mount->path, CSN_TARGET_DIR);
        csn_close(&in->trees[i]);
        if (r < 0)
            csn_inside_about(in, mount->path);
    }
    return r;
}
