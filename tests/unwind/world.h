/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_TESTS_WORLD_H
#define CSN_TESTS_WORLD_H

/* What a sandbox could leave behind, counted: taken before, compared after. */

typedef struct world {
    int n_fds;       /* of this process */
    int n_mounts;    /* of this mount namespace */
    int n_processes; /* keepers, inits and network helpers anywhere on the machine that belong to this state directory */
    int n_cgroups;   /* directories named after a sandbox, in every hierarchy */
    int n_loops;     /* attached loop devices */
    int n_state;     /* entries below boxes/, names/, ids/ of the state directory, and temporary layers */
} world;

/* A private state directory for this program; sets $CAISSON_STATE. */
const char *world_state_dir(void);

void world_take(world *w);

/* Waits until the world is as it was, at most deadline_ms; 1 when it is. What differs is printed as "# …" lines. */
int world_is_again(const world *before, int deadline_ms);

#endif
