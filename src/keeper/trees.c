/* SPDX-License-Identifier: Apache-2.0 */
#include "trees.h"

#include <errno.h>
#include <stdio.h>

uint32_t csn_trees_list(const csn_plan *plan, uint64_t layers_with_usr, csn_tree_want *wants)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < plan->n_layers; i++) {
        wants[n++] = (csn_tree_want){ CSN_TREE_ROOT, i };
        if (layers_with_usr >> i & 1)
            wants[n++] = (csn_tree_want){ CSN_TREE_USR, i };
    }
    if (plan->flags & CSN_PLAN_HOST_BASED) {
        if (plan->n_layers == 0) /* else the last layer is the base of / */
            wants[n++] = (csn_tree_want){ CSN_TREE_ROOT, plan->n_layers };
        wants[n++] = (csn_tree_want){ CSN_TREE_USR, plan->n_layers };
    }
    if (!csn_plan_is_in_memory(plan))
        wants[n++] = (csn_tree_want){ CSN_TREE_DISK, 0 };
    for (uint32_t i = 0; i < plan->n_mounts; i++)
        wants[n++] = (csn_tree_want){ CSN_TREE_VOLUME, i };
    return n;
}

int csn_tree_path(const csn_plan *plan, const csn_tree_want *want, char *out, size_t size)
{
    const char *state = plan->state_dir;
    int n = -1;

    switch (want->kind) {
    case CSN_TREE_ROOT:
        n = want->index < plan->n_layers
                ? snprintf(out, size, "%s/layers/%s/root", state, plan->layers[want->index])
                : snprintf(out, size, "%s/host/root", state);
        break;
    case CSN_TREE_USR:
        n = want->index < plan->n_layers
                ? snprintf(out, size, "%s/layers/%s/usr", state, plan->layers[want->index])
                : snprintf(out, size, "/usr");
        break;
    case CSN_TREE_DISK:
        n = snprintf(out, size, "%s/boxes/%s/disk", state, plan->id);
        break;
    case CSN_TREE_VOLUME:
        n = snprintf(out, size, "%s/volumes/%s/data", state, plan->mounts[want->index].volume);
        break;
    }
    return n >= 0 && (size_t) n < size ? 0 : -ENAMETOOLONG;
}
