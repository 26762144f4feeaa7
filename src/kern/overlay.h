/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_OVERLAY_H
#define CSN_KERN_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>

#define CSN_OVERLAY_MAX_LOWER 128

/* Names are relative to the current directory, so that mountinfo shows no host path (R7); they
 * hold neither ':' nor ',' nor '\\'. Keep them short: before Linux 6.8 all lower names together
 * have 255 bytes. */
typedef struct csn_overlay {
    const char *const *lower; /* topmost first */
    size_t n_lower;
    const char *upper; /* NULL: read-only */
    const char *work;  /* same file system as upper; empty directory */
    bool userxattr;    /* needed in a user namespace: user.overlay.* instead of trusted.* */
    bool is_volatile;  /* no sync of the upper layer: for sandboxes that are thrown away */
    unsigned attr;     /* CSN_ATTR_… */
} csn_overlay;

/* *ret_fd: a detached mount, see csn_mount_attach(). */
int csn_mount_overlay(const csn_overlay *overlay, int *ret_fd);

/* Whether a tmpfs can be the upper layer of an overlay in a user namespace, which keeps its notes in user.* attributes
 * (Linux 6.6+). Without them the removal of a directory that a lower layer has fails with EIO. */
bool csn_tmpfs_has_user_xattrs(void);

/* What hides a name of the layers below: device 0:0. A file system that is an overlay itself refuses to hold one, so there
 * it is an empty file with an attribute, which overlays understand from Linux 6.8 on. Whoever copies such a layer to
 * another file system makes the device of it again. `dirfd` is open for reading. 0 or -errno. */
int csn_whiteout_make(int dirfd, const char *name);

/* True for the second form; `fd` is open for reading. */
bool csn_whiteout_is_file(int fd);

#endif
