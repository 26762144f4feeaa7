/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of images and volumes in one state directory, for the backend that has one. */
#ifndef CSN_IMAGE_IMAGES_H
#define CSN_IMAGE_IMAGES_H

#include <caisson/image.h>
#include <caisson/volume.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/work.h"
#include "core/op.h"

/* Removes a tree below the state directory whose files may belong to ids that aren't ours (without privilege, after "root
 * inside" wrote there): `done` follows. CSN_OK or an error. */
typedef int csn_remove_tree_fn(const char *path, csn_done_fn done, void *done_user, void *user,
                               csn_error *err);

typedef struct csn_images {
    int state_fd;        /* borrowed */
    const char *libexec; /* borrowed: the directory of caisson-unpack */
    csn_loop *loop;      /* borrowed */
    csn_workers *workers; /* borrowed */
    csn_remove_tree_fn *remove_tree;
    void *user;
    csn_list jobs; /* csn_image_job.link: imports and builds under way */
} csn_images;

void csn_images_init(csn_images *images, int state_fd, const char *libexec, csn_loop *loop,
                     csn_workers *workers, csn_remove_tree_fn *remove_tree, void *user);
void csn_images_cancel_all(
    csn_images *images); /* before the loop goes; each ends with CSN_E_CANCELLED */

int csn_images_import(csn_images *images, const char *name, const char *path, csn_op *op,
                      csn_error *err);
int csn_images_build_debian(csn_images *images, const char *name, const char *const *packages,
                            csn_op *op, csn_error *err);
int csn_images_list(csn_images *images, csn_image_fn fn, void *user, csn_op *op, csn_error *err);
int csn_images_inspect(csn_images *images, const char *name, csn_image_fn fn, void *user,
                       csn_op *op, csn_error *err);
int csn_images_remove(csn_images *images, const char *name, csn_op *op, csn_error *err);

int csn_volumes_create(csn_images *images, const char *name, csn_op *op, csn_error *err);
int csn_volumes_list(csn_images *images, csn_volume_fn fn, void *user, csn_op *op, csn_error *err);
int csn_volumes_inspect(csn_images *images, const char *name, csn_volume_fn fn, void *user,
                        csn_op *op, csn_error *err);
int csn_volumes_remove(csn_images *images, const char *name, csn_op *op, csn_error *err);

#endif
