/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_RLIMIT_H
#define CSN_KERN_RLIMIT_H

#include <stdint.h>

/* R24. Zero takes the default of the table in rlimit.c. */
typedef struct csn_rlimits {
    uint64_t core_bytes;   /* RLIMIT_CORE, default 0: csn_rlimit_core() */
    uint64_t n_files;      /* RLIMIT_NOFILE, default 16384 */
    uint64_t n_processes;  /* RLIMIT_NPROC; 0: left alone (the uid may be shared) */
    uint64_t file_bytes;   /* RLIMIT_FSIZE; 0: left alone */
    uint64_t memory_bytes; /* RLIMIT_AS; 0: left alone. Only for hosts without memory cgroup */
    uint64_t locked_bytes; /* RLIMIT_MEMLOCK, default 8 MiB */
    uint64_t n_pending;    /* RLIMIT_SIGPENDING, default 4096 */
} csn_rlimits;

/* What keeps the host from seeing core dumps under this kernel.core_pattern. When it names a program, which the host's
 * root runs on whatever crashed, 0 is no limit at all, and 1 is the kernel's own sign for none. */
uint64_t csn_rlimit_core(const char *pattern);

/* `wanted` open files of a process (0: the default), or fewer: `n_processes` of them together (0: nobody knows) get no more
 * than a quarter of the `file_max` that the whole machine has, else one sandbox could leave no file to anybody. */
uint64_t csn_rlimit_files(uint64_t wanted, uint64_t n_processes, uint64_t file_max);

/* Sets hard and soft values. A value above the present hard limit is cut to it: limits are only
 * ever lowered, so this needs no privilege. `limits` may be NULL: all defaults. */
int csn_rlimit_apply(const csn_rlimits *limits);

#endif
