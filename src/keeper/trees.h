/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_TREES_H
#define CSN_KEEPER_TREES_H

/* Which directory trees a plan needs, in one order that the keeper (who clones and maps them with privilege) and the
 * child (who attaches them) both walk. */

#include <stddef.h>
#include <stdint.h>

#include "wire/plan.h"

typedef enum csn_tree_kind {
    CSN_TREE_ROOT, /* a lower layer of / */
    CSN_TREE_USR,  /* a lower layer of /usr */
    CSN_TREE_DISK, /* the upper layers of a sandbox that persists */
    CSN_TREE_VOLUME
} csn_tree_kind;

typedef struct csn_tree_want {
    csn_tree_kind kind;
    uint32_t index; /* of the layer or mount; layers count from the topmost, the base comes last */
} csn_tree_want;

enum { CSN_TREE_PATH_MAX = 4096 + 256 };

/* `wants` has room for CSN_TREES_MAX. Returns how many there are. */
uint32_t csn_trees_list(const csn_plan *plan, uint64_t layers_with_usr, csn_tree_want *wants);

/* The absolute path. 0 or -ENAMETOOLONG. */
int csn_tree_path(const csn_plan *plan, const csn_tree_want *want, char *out, size_t size);

#endif
