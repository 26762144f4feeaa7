/* SPDX-License-Identifier: Apache-2.0 */
/* Work that may wait (fsync, removing trees), on threads beside a loop.
 *
 * A piece of work is given what it needs, owns it, and touches nothing else until it is done: no handle, no loop, no connection.
 * Its end is told in a turn of the loop. The threads start with the first piece, and block all signals. */
#ifndef CSN_BASE_WORK_H
#define CSN_BASE_WORK_H

#include <stdbool.h>

#include "list.h"
#include "loop.h"

typedef struct csn_workers csn_workers;
typedef struct csn_work csn_work;

/* At the start of the asker's own struct. */
struct csn_work {
    csn_list link;
    void (*run)(csn_work *work);  /* on a thread */
    void (*done)(csn_work *work); /* in a turn of the loop; may free the work, and may start more */
};

/* n_threads: 1 is a queue, whose pieces are done in order. `loop`: borrowed. 0 or -errno. */
int csn_workers_new(csn_loop *loop, unsigned n_threads, csn_workers **ret_workers);

/* Runs what is left, and what that starts; NULL is fine; always NULL. */
csn_workers *csn_workers_free(csn_workers *workers);

/* Ends the threads if there is nothing to do; the next piece of work starts them anew. For who must be alone in the process: true
 * if there were some, and then the kernel counts them for a moment more. */
bool csn_workers_rest(csn_workers *workers);

/* 0, or -errno: it was not started. Where no thread can be had it is done at once, and told in the next turn all the same. */
int csn_work_start(csn_workers *workers, csn_work *work, void (*run)(csn_work *work),
                   void (*done)(csn_work *work));

#endif
