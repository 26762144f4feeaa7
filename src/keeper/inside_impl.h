/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_INSIDE_IMPL_H
#define CSN_KEEPER_INSIDE_IMPL_H

/* What the files of the child's half share. Steps return 0 or -errno: the sentence is made by the keeper. */

#include <stdbool.h>
#include <stdint.h>

#include "inside.h"
#include "wire/plan.h"

enum { CSN_NODES = 6 }; /* of /dev; the first is null */
enum { CSN_TREES_MAX = 2 + 2 * CSN_PLAN_LAYERS_MAX + 1 + CSN_PLAN_MOUNTS_MAX };

typedef struct csn_inside {
    csn_go go;
    csn_plan plan;
    int setup_fd, control_fd, image_fd;
    int trees[CSN_TREES_MAX];
    uint32_t n_trees, next_tree;
    int stage_fd; /* a tmpfs: layers are attached in it; the upper layers of ephemeral sandboxes live in it */
    int disk_fd;          /* the directory with {root,usr}/{upper,work} */
    int root_fd;          /* the new root */
    int nodes[CSN_NODES]; /* verified devices, detached; without privilege only */
    int dev_fd;           /* with privilege: /dev as the keeper made it */
    int proc_fd, watch_proc_fd;
    int mask_error;   /* of the masks: whether it matters is said by the plan */
    int limits_fd;    /* /proc/sys/user, from before it became read-only */
    uint32_t missing; /* walls that could not be put up and were named optional */
    int limits_error; /* of the early part: whether it matters is said by the plan */
    char detail[96];  /* of the step that fails */
} csn_inside;

/* Remembers what a failing step was about. */
void csn_inside_about(csn_inside *in, const char *what);

/* layers.c */
int csn_inside_gather(csn_inside *in); /* without privilege: clones the layers by path */
int csn_inside_stage(csn_inside *in);
int csn_inside_mount_root(csn_inside *in);
int csn_inside_mount_usr(csn_inside *in);
int csn_inside_mount_volumes(csn_inside *in);

/* special.c */
int csn_inside_gather_nodes(csn_inside *in);
int csn_inside_mount_proc(csn_inside *in); /* beside the host's own, until there is a root */
int csn_inside_mask_proc(csn_inside *in);
int csn_inside_place_proc(csn_inside *in);
int csn_inside_mount_dev(csn_inside *in);
int csn_inside_mount_tmp(csn_inside *in);

/* names.c */
int csn_inside_make_home(csn_inside *in);
int csn_inside_write_names(csn_inside *in);

/* fence.c */
int csn_inside_landlock(csn_inside *in);

#endif
