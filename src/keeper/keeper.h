/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_H
#define CSN_KEEPER_H

/* One keeper, one sandbox: all that its files share. Single-threaded; everything here belongs to the loop. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/vfs.h>

#include <caisson/engine.h>
#include <caisson/receipt.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/time.h"
#include "kern/cgroup.h"
#include "kern/watch.h"
#include "kern/way.h"
#include "wire/frame.h"
#include "wire/plan.h"

enum {
    CSN_INSIDE_UID = 1000,  /* the sandbox's user */
    CSN_INSIDE_IDS = 65536, /* ids that belong to a privileged sandbox */
    CSN_CLIENTS_MAX = 64,   /* connections at once */
    CSN_WAITS_MAX = 1024,   /* unanswered WAITs of one connection */
    CSN_ENDED_MAX = 1024,   /* ended background commands that can still be asked for */
    CSN_KILL_WAIT_MS =
        1500, /* a tree that is not gone by then takes the sandbox with it (R28: 2 s) */
    CSN_KILL_CROWDED_MS = 10000, /* likewise where others leave it no processor to go with */
    CSN_START_WAIT_MS = 20000,
};

typedef struct csn_keeper csn_keeper;
typedef struct csn_client csn_client;
typedef struct csn_command csn_command;
typedef struct csn_log_files csn_log_files;

struct csn_keeper {
    csn_plan plan;
    char *plan_bytes; /* owned: what the plan's strings point into */
    size_t plan_len;
    bool is_privileged; /* the sandbox has 65536 host ids of its own */
    csn_owner owner;    /* else: who its user is outside */

    int state_fd, box_fd, lock_fd, logs_fd; /* directories; the held lock */
    int place_fd; /* where boxes/ and ids/ are: run/ of the state directory for ephemeral ones */
    int listen_fd;
    int init_image_fd; /* sealed memfd */
    int control_fd;    /* to init */
    int setup_fd;      /* to the child while it builds */
    int init_pidfd, userns_fd, netns_fd;
    int mntns_fd; /* hold.c */
    int disk_fd; /* the directory with {root,usr}/{upper,work} */
    int proc_fd; /* the sandbox's procfs, for the watch rung */
    int netlink_fd; /* what its netlink sockets hold; -1: it has no network of its own, or it can't be read */
    unsigned n_processors; /* that we may use */
    int slirp_pidfd;
    pid_t init_pid, slirp_pid;
    bool is_cloned_early, is_namespaced;
    bool has_child_failed; /* and why was told */

    csn_cgroup_host host;
    bool is_host_known;
    csn_cgroup cgroup;
    csn_cgroup_outer outer;  /* limits of the groups around it */
    int64_t cpu_asked_milli; /* more than they have: plan.cpu_milli is theirs; 0: as asked */
    bool has_note;           /* boxes/<id>/cgroups */
    uint32_t walls, walls_missing, limits_kernel;
    csn_rung rung;
    csn_disk_rung disk_rung;
    unsigned n_steps_done; /* setup's, for the way back */

    csn_loop *loop;
    csn_source *control_src, *listen_src, *pidfd_src;
    csn_list clients;
    unsigned n_clients;
    csn_list commands, ended; /* running; ended background ones, oldest first */
    unsigned n_running, n_ended;
    int64_t log_bytes; /* of all logs */
    uint32_t last_command;

    csn_timer ttl_timer, idle_timer, grace_timer, watch_timer, disk_timer;
    int64_t started_ns, started_ms, last_use_ns;
    int64_t built_ns, disk_at_built; /* when code could run from, and what was on a disk of its own then */
    int64_t grace_until_ns; /* after a SIGTERM to all */
    csn_client *lender;     /* the connection for which the sandbox is frozen */

    /* Sums over commands that have ended, and what the watchers saw last. */
    int64_t user_us, sys_us, n_tasks, stdout_bytes, stderr_bytes;
    int64_t peak_memory_bytes, disk_bytes, disk_inodes;
    uint64_t n_fork_denied, n_oom_kills, n_memory_full, n_processes_peak;
    unsigned n_denied_rounds; /* samples in a row in which clone() was refused */

    int survey_fd, survey_pidfd; /* survey.c: the disk is being measured */
    csn_source *survey_src;
    void (*survey_done)(csn_keeper *k, const csn_disk_usage *usage, int64_t took_ns);
    int64_t survey_began_ns;
    unsigned n_partial_rounds; /* measurements in a row that did not see everything */
    int64_t disk_look_ns;      /* when the last measurement began */
    int64_t disk_ended_ns;     /* when the last of those who were ended for the disk was gone */

    csn_ending ending; /* of the sandbox; 0 while it runs */
    bool is_confined, is_ending, is_deleted, is_creator_gone;
};

static inline int64_t csn_fs_used(const struct statfs *fs)
{
    return (int64_t) (fs->f_blocks - fs->f_bfree) * (int64_t) fs->f_bsize;
}

/* CSN_WALL_… that a test build leaves out (walls_off.h); none in any other. */
static inline uint32_t csn_walls_off(const csn_keeper *k)
{
#ifdef CSN_TEST_HOOKS
    return k->plan.walls_off;
#else
    (void) k;
    return 0;
#endif
}

#endif
