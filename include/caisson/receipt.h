/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAISSON_RECEIPT_H
#define CAISSON_RECEIPT_H

#include <stddef.h>
#include <stdint.h>

#include <caisson/api.h>
#include <caisson/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a command or a sandbox ended. */
typedef enum csn_ending {
    CSN_ENDED_RUNNING = 0, /* it has not */
    CSN_ENDED_EXIT,
    CSN_ENDED_SIGNAL,
    CSN_ENDED_TIMEOUT,
    CSN_ENDED_OOM,
    CSN_ENDED_OUTPUT_LIMIT,
    CSN_ENDED_PIDS_LIMIT,
    CSN_ENDED_DISK_FULL,
    CSN_ENDED_KILLED, /* by the caller, by stop or delete */
    CSN_ENDED_LOST    /* the sandbox went away under it */
} csn_ending;

typedef enum csn_rung { /* what enforces the limits, strongest first */
                        CSN_RUNG_NONE = 0,
                        CSN_RUNG_CGROUP2,
                        CSN_RUNG_CGROUP1, /* v1 and hybrid hosts */
                        CSN_RUNG_WATCH,   /* rlimits and the keeper's sampling */
                        /* A service elsewhere does, and does not tell how: counters and limits that read -1 are not
                         * known, walls neither; wall_us is the round trip. */
                        CSN_RUNG_REMOTE
} csn_rung;

typedef enum csn_disk_rung {
    CSN_DISK_NONE = 0,
    CSN_DISK_TMPFS,
    CSN_DISK_LOOP,
    CSN_DISK_WATCH
} csn_disk_rung;

typedef enum csn_cpu_rung { /* what holds the CPU limit */
                            CSN_CPU_NONE = 0,  /* nothing, or there is no limit */
                            CSN_CPU_QUOTA,     /* a cgroup's quota */
                            CSN_CPU_PROCESSORS /* without cgroups: as many whole processors; a fraction isn't held */
} csn_cpu_rung;

/* Plain data, owns nothing; copied freely. For a command the counters are the command's, for a sandbox the sum. */
typedef struct csn_receipt {
    csn_ending ended;
    int exit_code;   /* when ended == EXIT; else -1 */
    int signal;      /* when ended == SIGNAL; else 0 */
    int64_t wall_us; /* start of the command to its end */
    int64_t user_us;
    int64_t sys_us;
    int64_t peak_memory_bytes; /* sandbox: the cgroup's peak; command: largest resident set */
    int64_t bytes_written;     /* growth of the writable layer while it ran, never below 0 */
    int64_t n_processes;       /* tasks created, as far as the kernel tells */
    int64_t stdout_bytes;      /* produced, kept or not */
    int64_t stderr_bytes;
    int is_output_cut;
    uint32_t walls;         /* CSN_WALL_… in force */
    uint32_t walls_missing; /* allowed as optional and not in force */
    uint32_t limits_kernel; /* CSN_LIMIT_… enforced by the kernel rather than sampled */
    csn_rung rung;
    csn_disk_rung disk_rung;
    int64_t memory_limit_bytes; /* the limits in force; CSN_UNLIMITED: none */
    int64_t cpu_limit_milli;
    int64_t pids_limit;
    int64_t disk_limit_bytes;
    int64_t timeout_ms;
    int64_t output_limit_bytes;
    int shares_host_uid; /* 1: without privilege all sandboxes share one uid: the caller's, or
                          * for a root that is not the machine's another one */
    csn_cpu_rung cpu_rung;
    int64_t
        cpu_asked_milli; /* what was asked for, when the group we are in (a job, a slice) has less; else 0 */
    int64_t
        outer_limit; /* oom, pids-limit: the limit that was met, when it is not ours but that of such a group:
                              * bytes or processes; else 0 */
} csn_receipt;

CSN_API const char *
csn_ending_name(csn_ending ended); /* "exit", "signal", "timeout", "oom", "output-limit", … */

/* Shell-style status: exit code; 124 time-out; 128+N signal; 137 for oom, limits and killed; 125 lost. */
CSN_API int csn_receipt_status(const csn_receipt *receipt);

/* One line: "exit 0 · 12 ms · 3.1 MiB · 1 process · all walls · cgroup v1". Always NUL-terminated; returns the
 * length it wanted. */
CSN_API size_t csn_receipt_text(const csn_receipt *receipt, char *buf, size_t buf_size);

/* "landlock, keeper" for CSN_WALL_… bits; same rules. */
CSN_API size_t csn_wall_names(uint32_t wall_bits, char *buf, size_t buf_size);

/* One JSON object, same rules. */
CSN_API size_t csn_receipt_json(const csn_receipt *receipt, char *buf, size_t buf_size);

#ifdef __cplusplus
}
#endif
#endif
