/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_CGROUP_IMPL_H
#define CSN_KERN_CGROUP_IMPL_H

#include "cgroup.h"

/* What cgroup.c, cgroup_v1.c and cgroup_v2.c share; nobody else includes this. */

#define CSN_CGROUP_ENGINE "caisson-engine"
#define CSN_CGROUP_PARENT "caisson"

/* Writes `value` to an existing file of a group. -ENOENT: this kernel has no such file. */
int csn_cg_write(int dir_fd, const char *file, const char *value);
int csn_cg_write_i64(int dir_fd, const char *file, int64_t value);

/* The directory in which `controller` of this group lives, or -1. */
int csn_cg_dir(const csn_cgroup *cg, uint32_t controller);

/* Memory and pids; then what csn_cgroup_finish() does. */
int csn_cg_v1_limit(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits);
int csn_cg_v2_limit(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits);
int csn_cg_v1_finish(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits);
int csn_cg_v2_finish(int dir_fd, uint32_t controllers, const csn_cgroup_limits *limits);
int csn_cg_v1_usage(const csn_cgroup *cg, csn_cgroup_usage *usage);
int csn_cg_v2_usage(int dir_fd, csn_cgroup_usage *usage);
int csn_cg_v1_freeze(int dir_fd, bool freeze);
int csn_cg_v2_freeze(int dir_fd, bool freeze);

/* cgroup_divide.c. Makes `caisson` in the group, with the controllers on for it and in it. v2 allows no processes beside
 * child groups that have controllers: where the group has some, they move into its leaf `caisson-engine`. -ENOENT: somebody
 * tidied meanwhile, try again. */
int csn_cg_v2_prepare(const csn_cgroup_hierarchy *h);
int csn_cg_v2_empty(int own);

/* What was switched on for us, as it stands on the open `caisson`; and switched off again where nobody else uses it, with
 * the processes back in their group. For when `caisson` is gone. */
uint32_t csn_cg_v2_remembered(int parent);
bool csn_cg_v2_has_divided(int own);
void csn_cg_v2_restore(int own, uint32_t bits);

/* Signals the processes in the group (a batch of them; 0: only counts). The number found, or -errno. */
int csn_cg_signal_all(int dir_fd, int sig);

#endif
