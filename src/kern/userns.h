/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_USERNS_H
#define CSN_KERN_USERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CSN_IDMAP_MAX 8

typedef struct csn_idmap {
    uint32_t inside;  /* first id as seen in the new namespace */
    uint32_t outside; /* first id as seen by us */
    uint32_t count;
} csn_idmap;

/* Writes the maps of the user namespace that `pid` has just made, directly. Without
 * CAP_SETGID/CAP_SETUID in our namespace the kernel takes one line that names our own id and wants
 * `deny_setgroups`. `pid` must be our unreaped child. */
int csn_userns_map(pid_t pid, const csn_idmap *uids, size_t n_uids, const csn_idmap *gids,
                   size_t n_gids, bool deny_setgroups);

/* The same through newuidmap and newgidmap, which give what /etc/subuid and /etc/subgid grant us.
 * Runs two programs; each must end before `deadline_ns` (CLOCK_MONOTONIC). -ENOENT: not installed;
 * -EPERM: they refused. */
int csn_userns_map_helper(pid_t pid, const csn_idmap *uids, size_t n_uids, const csn_idmap *gids,
                          size_t n_gids, int64_t deadline_ns);

/* The first range of at least `min_count` ids that `path` (/etc/subuid) grants to `uid`, by name
 * or number. -ENOENT: none. */
int csn_subid_find(const char *path, uid_t uid, const char *user, uint32_t min_count,
                   uint32_t *ret_start, uint32_t *ret_count);

/* True when both helpers are installed. */
bool csn_userns_have_helpers(void);

/* R13's second wall: no namespace of any kind can be made below the caller's user namespace any
 * more. Call in the new namespace while it is still privileged there. `proc_fd`: a procfs root (a
 * detached mount will do; it is verified), or -1 for /proc. */
int csn_userns_forbid_nested(int proc_fd);

/* The same in parts, for a child that still builds its root: cloning a mount takes a mount namespace,
 * so that kind, and cgroup namespaces, can only go last. *ret_fd is /proc/sys/user of that procfs and
 * stays writable when something is mounted over it later. */
int csn_userns_limits_open(int proc_fd, int *ret_fd);
int csn_userns_limits_zero(int limits_fd, bool is_last);

/* What the namespace's users take of inotify counts for its maker, too, on a host where root has 128 by default: nobody
 * gets more than a quarter of that. */
int csn_userns_limits_share(int limits_fd);

/* A descriptor of a user namespace with these maps that nobody lives in, for csn_tree_idmap().
 * Costs a short-lived child. */
int csn_userns_make(const csn_idmap *uids, size_t n_uids, const csn_idmap *gids, size_t n_gids,
                    int *ret_fd);

#endif
