/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_REMOVE_H
#define CSN_KEEPER_REMOVE_H

#include "keeper.h"

/* Removes the file or tree dirfd/name: follows no symlink, crosses no mount, any depth with two descriptors and no
 * recursion (R30). 0 or -errno; -ENOENT: nothing there. */
int csn_tree_remove(int dirfd, const char *name);

/* The mode REMOVE of a plan. */
int csn_remove_run(csn_keeper *k, csn_error *err);

#endif
