/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_CGROUP_H
#define CSN_KERN_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Theory of operation. The host is looked at once (csn_cgroup_probe) and the result is plain data
 * that may be kept or sent. A sandbox has one directory `caisson/<id>` in each hierarchy that limits
 * it: one on v2, up to six on v1 and hybrid hosts. On v1 it is below our own cgroup. On v2 it is in
 * the nearest group, from our own up, that its owner handed over (systemd marks those; without
 * systemd: our own, if it is writable), else, for root, at the top. Never beyond a limit of memory or
 * processors that we are below, be it a job's, a pod's or a slice's; a limit of processes that is left
 * behind is taken along as a number (left_pids). A group that is merely writable is not ours to divide. The top of a
 * hierarchy has mode 0555, `caisson` is ours: so a keeper that gave up its capabilities can still remove its
 * groups, and only those. In a group below the top, which is somebody's and must go one day, it removes the
 * empty `caisson` as well. Who wants to sweep after a crash must remember the host struct the group
 * was made with (csn_cgroup_host_write): the next engine may live in another cgroup. The child joins by itself: on v2 it is
 * born there (csn_clone with cgroup_fd), on v1 it calls csn_cgroup_join(), which writes "0" to the
 * `tasks` files opened here; moving it from outside through cgroup.procs takes a global lock and
 * costs milliseconds. release_agent and notify_on_release are never touched (R22). */

#define CSN_CG_MEMORY  (1u << 0)
#define CSN_CG_PIDS    (1u << 1)
#define CSN_CG_CPU     (1u << 2)
#define CSN_CG_CPUACCT (1u << 3)
#define CSN_CG_FREEZER (1u << 4)
#define CSN_CG_DEVICES (1u << 5)
#define CSN_CG_LIMITS  (CSN_CG_MEMORY | CSN_CG_PIDS | CSN_CG_CPU) /* what the ladder asks for */
#define CSN_CG_N       6

#define CSN_CGROUP_PATH_MAX 512
#define CSN_CGROUP_ID_MAX   64

enum csn_cgroup_rung {
    CSN_CGROUP_NONE, /* rlimits and the watcher (watch.h) must do */
    CSN_CGROUP_V1,   /* v1 or hybrid */
    CSN_CGROUP_V2,
};

typedef struct csn_cgroup_hierarchy {
    uint32_t controllers;           /* CSN_CG_… that live in it and that we may use */
    bool is_top;                    /* it is the hierarchy's root group */
    int64_t
        left_pids; /* v2: the smallest limit of processes between our own group and `path`; 0: none */
    char path[CSN_CGROUP_PATH_MAX]; /* the directory our groups are made in, absolute */
} csn_cgroup_hierarchy;

typedef struct csn_cgroup_host {
    enum csn_cgroup_rung rung;
    uint32_t controllers; /* usable, over all hierarchies */
    uint32_t n_hierarchies;
    bool can_delegate; /* nothing writable here, but a systemd user instance can make us a scope:
                        * start again below `systemd-run --user --scope` */
    csn_cgroup_hierarchy hierarchies[CSN_CG_N];
} csn_cgroup_host;

/* Finds out what is there: real tries, nothing remains. `rung` is NONE rather than an error when
 * nothing is usable; negative only when /proc can't be read. */
int csn_cgroup_probe(csn_cgroup_host *ret_host);

typedef struct csn_cgroup_limits {
    uint32_t controllers; /* which to use; 0: CSN_CG_LIMITS. Missing ones: -ENOTSUP */
    int64_t memory_bytes; /* <= 0: none */
    int64_t n_processes;  /* <= 0: none */
    int64_t cpu_milli;    /* 1000 = one core; <= 0: none */
    uint32_t cpu_weight;  /* 1…10000, 100 is ordinary; 0: left alone */
} csn_cgroup_limits;

typedef struct csn_cgroup {
    enum csn_cgroup_rung rung;
    uint32_t n;
    char id[CSN_CGROUP_ID_MAX + 1];
    struct {
        uint32_t controllers;
        int own_fd; /* O_PATH, somebody's group that `caisson` goes from with its last sandbox; else -1 */
        int parent_fd; /* O_PATH, to remove the group by */
        int dir_fd;    /* the group */
        int tasks_fd;  /* v1: write "0" to join; v2: -1 */
    } in[CSN_CG_N];
} csn_cgroup;

/* All descriptors unset; what csn_cgroup_done() leaves behind. */
void csn_cgroup_init(csn_cgroup *cg);

/* Makes the groups, and what they need above them (cgroup_divide.c), and writes all limits but those of
 * csn_cgroup_finish(): all or nothing. `id` is
 * [a-z0-9-], at most 64. -EEXIST: there is such a group already. */
int csn_cgroup_create(const csn_cgroup_host *host, const char *id, const csn_cgroup_limits *limits,
                      csn_cgroup *ret_cg);

/* The limits that cost a quarter millisecond each on a host that has no such group yet (the kernel
 * patches its own code): cpu quota, and on v1 the memory of TCP sockets, which v1 doesn't count with
 * the rest. Call it while the child builds its root, always before code runs. */
int csn_cgroup_finish(const csn_cgroup *cg, const csn_cgroup_limits *limits);

/* New limits for a living group, all kinds; fields that are 0 stay as they are. */
int csn_cgroup_update(const csn_cgroup *cg, const csn_cgroup_limits *limits);

/* The directory for csn_clone(); -1 on v1. */
int csn_cgroup_clone_fd(const csn_cgroup *cg);

/* v1: moves the calling process (which must be single-threaded) into the groups. v2: nothing to do
 * after a csn_clone() with the descriptor above. */
int csn_cgroup_join(const csn_cgroup *cg);

/* v2, when the child could not be born there: moves `pid`. Works on v1 too, slowly. */
int csn_cgroup_attach(const csn_cgroup *cg, int pid);

/* For a helper that works for the sandbox outside of it: opens what a process writes "0" to, to be counted with it, in
 * the hierarchies that hold any of `controllers`. At most CSN_CG_N descriptors, the caller's to close. */
int csn_cgroup_open_joins(const csn_cgroup *cg, uint32_t controllers, int *fds, size_t *ret_n);

/* Closes only the `tasks` descriptors: after the child has joined nobody needs them. */
void csn_cgroup_close_tasks(csn_cgroup *cg);

typedef struct csn_cgroup_usage {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes;
    uint64_t
        n_oom_kills; /* processes killed because the group's memory, or that of one around it, was full */
    uint64_t
        n_memory_full; /* v2: times the group's own limit was met; on v1 failcnt misses some: see the peak */
    uint64_t tcp_bytes;     /* v1 counts buffers of TCP and UDP apart; 0 on v2 */
    uint64_t n_processes;   /* threads count */
    uint64_t n_processes_peak; /* 0: unknown */
    uint64_t n_fork_denied; /* clone() refused at the limit */
    uint64_t cpu_usec;
    uint64_t n_throttled;
} csn_cgroup_usage;

/* Fields whose controller isn't there are 0. */
int csn_cgroup_usage_read(const csn_cgroup *cg, csn_cgroup_usage *ret_usage);

/* What the groups around ours allow: the smallest of each; 0: no limit. */
typedef struct csn_cgroup_outer {
    int64_t memory_bytes, n_processes, cpu_milli;
} csn_cgroup_outer;

void csn_cgroup_outer_read(const csn_cgroup_host *host, csn_cgroup_outer *ret_outer);

/* Kills every process in the group. v2: cgroup.kill. v1 and before 5.14: freeze where possible,
 * signal, thaw, until empty; bounded: -EBUSY when some survive. */
int csn_cgroup_kill(const csn_cgroup *cg);
int csn_cgroup_freeze(const csn_cgroup *cg); /* -ENOTSUP without freezer */
int csn_cgroup_thaw(const csn_cgroup *cg);

/* R9's second wall: no device but null, zero, full, random, urandom, tty, ptmx and terminals. On v1
 * with CSN_CG_DEVICES; -ENOTSUP otherwise (on v2 it would be a BPF program of the host's root:
 * there nodev and the user namespace must do). Call when the group is still empty. */
int csn_cgroup_deny_devices(const csn_cgroup *cg);

/* Removes the groups (they must be empty of processes; retried for a while on EBUSY), and `caisson` from a
 * group that isn't the top if it was the last there and nothing was switched on for it (then tidy does), and closes
 * everything. The struct is as after csn_cgroup_init() on success. */
int csn_cgroup_remove(csn_cgroup *cg);

/* Closes descriptors, leaves the groups. */
void csn_cgroup_done(csn_cgroup *cg);

/* For a sandbox whose keeper died: opens what there is under `id` without writing limits.
 * -ENOENT: nothing. */
int csn_cgroup_open(const csn_cgroup_host *host, const char *id, csn_cgroup *ret_cg);

/* Kills and removes what is left of `id`. 0 also when there was nothing. */
int csn_cgroup_sweep(const csn_cgroup_host *host, const char *id);

/* Removes the directories `caisson` if no sandbox uses them, and on v2 takes back what was switched on
 * for them: nobody's group is left changed. They are made again when needed. For an engine that
 * closes, and for tests. At the top of a v1 hierarchy the directory stays: it is in nobody's way
 * there, and making it anew costs every run a tenth. 0 also when they are in use, or not ours to
 * remove. */
int csn_cgroup_tidy(const csn_cgroup_host *host);

/* The host struct as a small file, for a sweep from another cgroup. -ENOENT: no such file; -EBADMSG: not one of ours,
 * or a path in it is no cgroup's. */
int csn_cgroup_host_write(const csn_cgroup_host *host, int dirfd, const char *name);
int csn_cgroup_host_read(int dirfd, const char *name, csn_cgroup_host *ret_host);

/* The rule above for v2: `top` is where the hierarchy is mounted, `own` our group's directory. */
bool csn_cgroup_v2_choose(const char *top, const char *own, bool is_root, bool has_systemd,
                          csn_cgroup_hierarchy *ret_hierarchy);

#endif
