/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_AFFINITY_H
#define CSN_KERN_AFFINITY_H

#include <stdint.h>
#include <sys/types.h>

/* Sends a child that was just born, or that we have just waited for, to another processor than ours. A scheduler that
 * found the others busy in that moment leaves it here, to wait until we sleep, though another is idle by now. It may go
 * everywhere as before; where there is no other processor nothing happens. */
void csn_affinity_send_away(pid_t child);

/* Gives a child what we may use now: it may have been born while we were sent away. */
void csn_affinity_share(pid_t child);

/* How many processors this thread may use; at least 1. */
uint32_t csn_affinity_count(void);

/* Whole processors in place of a quota: what is left for a CPU limit where no cgroup can be had. */

/* Holds this thread, and all it will start, to `n` of the processors it may use now: the one it runs on, where the
 * scheduler just found room, and those after it. One that may use no more than `n` keeps what it has. 0 or -errno. */
int csn_affinity_hold(uint32_t n);

/* From here on sched_setaffinity() answers 0 and changes nothing: this process and all it will start stay where
 * they are, and hear what a cpuset of one processor would answer them. Refused, programs that pin their threads for speed
 * would fail for it. Needs no_new_privs; to be called before a filter that doesn't let seccomp() through. */
int csn_affinity_lock(void);

#endif
