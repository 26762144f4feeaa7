/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_SETUP_H
#define CSN_KEEPER_SETUP_H

/* The keeper's half of the setup: a table of steps, walked forward to build and backward to take down. */

#include "keeper.h"

/* Builds what k->plan says, until init has said that it is ready. On failure all steps that ran are undone. */
int csn_setup_run(csn_keeper *k, csn_error *err);

/* Takes everything down that csn_setup_run() built, last first: init, cgroups, descriptors. Never stops half-way. */
void csn_setup_undo(csn_keeper *k);

/* What needs no plan: done early by a keeper that waits for one. */
int csn_clone_inside(csn_keeper *k,
                     csn_error *err); /* start.c: namespaces, and the child in them */

/* limits.c */
int csn_cgroups_choose(csn_keeper *k,
                       csn_error *err); /* what will enforce which limit; refuses what is strict */
int csn_cgroups_make(csn_keeper *k, csn_error *err);
int csn_cgroups_finish(csn_keeper *k,
                       csn_error *err); /* limits that take long: while the child builds */
/* How many processors stand in for a quota that no cgroup gives; 0: none do. And what holds the limit then. */
uint32_t csn_cpu_processors(const csn_keeper *k);
csn_cpu_rung csn_cpu_rung_of(const csn_keeper *k);

int64_t csn_pids_limit(const csn_keeper *k);
int csn_cgroups_resize(csn_keeper *k, int64_t memory_bytes, int64_t cpu_milli, csn_error *err);
void csn_cgroups_remove(csn_keeper *k);
int csn_cgroups_look(csn_keeper *k); /* 0 or -errno; fills k->host once */

/* disk.c */
int csn_disk_prepare(csn_keeper *k, csn_error *err);
void csn_disk_release(csn_keeper *k);
/* "The state directory … is on …, which …" and where to go instead. */
int csn_fail_unfit(const csn_keeper *k, const char *why, csn_error *err);

/* ids.c */
int csn_ids_map(csn_keeper *k, csn_error *err);
int csn_ids_rank(csn_keeper *k, csn_error *err);

/* hold.c */
int csn_hold_open(pid_t pid, const char *name, int *ret_fd); /* 0 or -errno */
int csn_hold(csn_keeper *k, csn_error *err);

/* mapped.c: with privilege the keeper clones the layers and maps their ids for the child */
int csn_layers_clone(csn_keeper *k, int *trees, uint32_t *ret_n, uint64_t layers_with_usr,
                     csn_error *err);
uint64_t csn_layers_with_usr(const csn_keeper *k);

/* start.c */
int csn_forward_plan(csn_keeper *k);                /* wakes the child: 0 or -errno */
int csn_start_child(csn_keeper *k, csn_error *err); /* hands over the plan and the layers */
int csn_let_join(csn_keeper *k, csn_error *err);    /* and last the cgroups */
int csn_await_namespaces(csn_keeper *k, csn_error *err);
int csn_await_init(csn_keeper *k, csn_error *err);
int csn_child_blame(csn_keeper *k, int failed,
                    csn_error *err); /* the first failure: `failed`, or the child's */
void csn_kill_child(csn_keeper *k); /* kills init, waits for it, closes what leads to it */

/* outbound.c */
int csn_outbound_start(csn_keeper *k, csn_error *err);
void csn_outbound_stop(csn_keeper *k);

/* confine.c */
int csn_confine(csn_keeper *k, csn_error *err); /* the second time nothing */
bool csn_needs_proc(
    const csn_keeper *k); /* the watcher looks at processes: the fence has to wait for its procfs */

#endif
