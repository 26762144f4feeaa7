/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_PIDFD_H
#define CSN_KERN_PIDFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

int csn_pidfd_open(pid_t pid, int *ret_fd);
int csn_pidfd_signal(int pidfd, int sig); /* -ESRCH: already gone */

/* How a child ended. */
typedef struct csn_child_end {
    pid_t pid;
    bool by_signal;
    bool core;  /* dumped */
    int status; /* exit code or signal number */
} csn_child_end;

/* Reaps the child behind `pidfd`. -EAGAIN: it still runs (with `nohang`); -ECHILD: not our child. */
int csn_pidfd_reap(int pidfd, bool nohang, csn_child_end *ret_ending);

/* The same, waiting until `deadline_ns` (CLOCK_MONOTONIC): -ETIMEDOUT. */
int csn_pidfd_reap_until(int pidfd, int64_t deadline_ns, csn_child_end *ret_ending);

/* Kills our unreaped child for good and reaps it, within seconds. A kernel or a filter without pidfd_send_signal is no
 * reason to wait for ever: the number of a child that nobody has reaped is still its own. */
int csn_child_kill(pid_t pid, int pidfd);

/* Reaps any one child: 1 and *ret_ending, 0 when all still run, -ECHILD when there are none. */
int csn_reap_any(csn_child_end *ret_ending);

#endif
