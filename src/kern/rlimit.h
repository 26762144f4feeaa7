/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_RLIMIT_H
#define CSN_KERN_RLIMIT_H

#include <stdint.h>

/* R24. Zero takes the default of the table in rlimit.c. */
typedef struct csn_rlimits {
    uint64_t n_files;      /* RLIMIT_NOFILE, default 16384 */
    uint64_t n_processes;  /* RLIMIT_NPROC; 0: left alone (the uid may be shared) */
    uint64_t file_bytes;   /* RLIMIT_FSIZE; 0: left alone */
    uint64_t memory_bytes; /* RLIMIT_AS; 0: left alone. Only for hosts without memory cgroup */
    uint64_t locked_bytes; /* RLIMIT_MEMLOCK, default 8 MiB */
    uint64_t n_pending;    /* RLIMIT_SIGPENDING, default 4096 */
} csn_rlimits;

/* Sets hard and soft values. A value above the present hard limit is cut to it: limits are only
 * ever lowered, so this needs no privilege. `limits` may be NULL: all defaults. */
int csn_rlimit_apply(const csn_rlimits *limits);

/* Raises RLIMIT_NOFILE's soft limit to the hard one: for the engine's own processes. */
int csn_rlimit_raise_files(void);

#endif
