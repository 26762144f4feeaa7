/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_WATCH_H
#define CSN_KERN_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looking at a sandbox from outside: for hosts without cgroups and for statistics. What is read was
 * made by hostile code, so every walk is bounded and every number is clamped. */

typedef struct csn_watch_sample {
    uint64_t memory_bytes; /* anonymous memory of all, plus the largest part of shared memory once.
                            * Not in it: files in a tmpfs (ask statfs) and memfds nobody maps */
    uint64_t cpu_usec;     /* of living processes */
    uint32_t n_processes;
    uint32_t n_threads;
    bool is_partial; /* there were more than `max_processes` */
} csn_watch_sample;

/* `proc_fd`: the sandbox's procfs root. */
int csn_watch_processes(int proc_fd, unsigned max_processes, csn_watch_sample *ret_sample);

/* Bytes in the netlink sockets of a network namespace, read from a process's table of them, which also keeps the namespace. */
int csn_watch_netlink_open(int pid, int *ret_fd);
int csn_watch_netlink(int fd, uint64_t *ret_bytes);

/* How many threads of the whole machine run or wait for a processor now. */
#define CSN_WATCH_MACHINE "/proc/loadavg" /* is read for it */
int csn_watch_machine(unsigned *ret_n_runnable);

typedef struct csn_disk_usage {
    uint64_t bytes; /* allocated: blocks * 512 */
    uint64_t n_files;
    uint64_t n_seen; /* entries looked at */
    bool is_partial; /* `max_entries` reached, a directory too deep or unreadable, or the tree moved
                      * under us: there is more than was counted */
} csn_disk_usage;

/* Walks the tree below `dir_fd` without following symlinks or leaving the device. A file with n
 * names counts 1/n of its blocks for each. No recursion and no allocation. */
int csn_watch_disk(int dir_fd, uint64_t max_entries, csn_disk_usage *ret_usage);

#endif
