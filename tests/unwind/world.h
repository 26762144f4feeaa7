/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_TESTS_WORLD_H
#define CSN_TESTS_WORLD_H

/* What a sandbox could leave behind: taken before, compared after. Only what this process, its descendants and its state
 * directory own; other sandboxes may come and go on the machine meanwhile. */

enum { WORLD_ID_LEN = 32, WORLD_CGROUPS_MAX = 4096 };

typedef struct world_cgroup {
    char id[WORLD_ID_LEN + 1];
    char is_foreign; /* a process that doesn't descend from us is in it */
} world_cgroup;

typedef struct world {
    int n_fds;       /* of this process */
    int n_mounts;    /* of this mount namespace that name the state directory */
    int n_processes; /* descendants of this process, those that lost their parent included */
    int n_loops;     /* attached loop devices with a file of the state directory */
    int n_state;     /* entries below boxes/, names/, ids/ of the state directory, and temporary layers */
    int n_cgroups;   /* groups named after a sandbox, in all hierarchies */
    world_cgroup cgroups[WORLD_CGROUPS_MAX];
} world;

/* A private state directory for this program; sets $CAISSON_STATE. */
const char *world_state_dir(void);

void world_take(world *w);

/* Waits until the world is as it was, at most deadline_ms; 1 when it is. What differs is printed as "# …" lines. */
int world_is_again(const world *before, int deadline_ms);

#endif
