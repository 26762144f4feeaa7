/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_INIT_TREE_H
#define CSN_INIT_TREE_H

/* Who descends from whom. Init can't trust a listing of /proc for this: with hidepid a process that is not dumpable, or
 * has another user, is not listed. So every number a descendant can have is tried. */

#include <stdint.h>
#include <sys/types.h>

#include "init/init.h"

enum { CSN_TREE_MAX = 8192 }; /* processes one look can hold; the rest is seen by the next look */

/* All living descendants of the slot's shepherd, ascending; when it has none any more, all processes that belong to no
 * living shepherd. Each gets `sig` the moment it is found: in a fork bomb we have one share of the processor among
 * hundreds, and every process that is stopped gives us a larger one. Returns how many. *ret_n_spared: those that may belong to
 * it or to a command that is just starting, and got nothing yet. */
size_t csn_tree_signal(const csn_slot *slot, int sig, pid_t found[CSN_TREE_MAX], size_t *ret_n_spared);

/* What /proc says of a process: its parent, and its state's letter. 0 or -ENOENT: it is not there, or hidden. */
int csn_tree_stat(pid_t pid, pid_t *ret_parent, char *ret_state);

/* Tasks created in this PID namespace after the one with this number. */
int64_t csn_tasks_since(pid_t pid);

#endif
