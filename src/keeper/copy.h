/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_COPY_H
#define CSN_KEEPER_COPY_H

#include "keeper.h"

typedef struct csn_copy_ids {
    uint32_t from;  /* first owner id of the source's range */
    uint32_t count; /* 0: owners are left as they come */
    uint32_t to;    /* what that first one becomes */
    const csn_owner *all; /* not NULL: everything is given to it */
} csn_copy_ids;

/* Copies the tree below `src_fd` into the existing, empty directory `dst_fd`, its own mode, owner, times and attributes
 * included: modes, times, user.* attributes as far as an overlay's lower layer needs them, whiteouts, symlinks, hard
 * links, holes. Owners are moved by `ids`. Sockets and devices are left out. No recursion. 0 or -errno. */
int csn_tree_copy(int src_fd, int dst_fd, csn_copy_ids ids);

/* The mode COPY of a plan. */
int csn_copy_run(csn_keeper *k, csn_msg *msg, csn_error *err);

#endif
