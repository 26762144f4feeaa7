/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_LOOP_H
#define CSN_KEEPER_LOOP_H

#include "keeper.h"

/* ext4 file systems in a file, on a loop device that goes with its last user. For root only. *ret_fd is the mount,
 * attached nowhere. */

/* boxes/<id>/disk.img, made at need: a disk that the kernel bounds. */
int csn_loop_disk_open(csn_keeper *k, int *ret_fd, csn_error *err);

/* data.img in the directory of a volume, made at need: its owners can be mapped where those of the state directory can't.
 * All sandboxes that have it share one device, so it is one file system. 0 or -errno; -ENOEXEC: there is no mkfs.ext4. */
int csn_loop_volume_open(int volume_fd, int *ret_fd);

/* Mounts the image that `image` is open for writing on. 0 or -errno. */
int csn_loop_mount(int image, int *ret_fd);

#endif
