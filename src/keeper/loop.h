/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_LOOP_H
#define CSN_KEEPER_LOOP_H

#include "keeper.h"

/* A disk that the kernel bounds: boxes/<id>/disk.img, an ext4 file system on a loop device that goes with its last
 * user. *ret_fd is the mount, attached nowhere. Root only. */
int csn_loop_disk_open(csn_keeper *k, int *ret_fd, csn_error *err);

#endif
