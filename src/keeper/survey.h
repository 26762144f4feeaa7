/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_SURVEY_H
#define CSN_KEEPER_SURVEY_H

#include "keeper.h"
#include "kern/watch.h"

typedef void csn_survey_fn(csn_keeper *k, const csn_disk_usage *usage, int64_t took_ns);

/* Measures the upper layers in a child of its own, so that a large tree holds up nobody, and inside the sandbox's user
 * namespace, so that no directory can be closed to it. `done` runs in the loop; `usage` is NULL when it failed. One at
 * a time: a second call while one runs does nothing. 0 or -errno. */
int csn_survey_start(csn_keeper *k, csn_survey_fn *done);
void csn_survey_stop(csn_keeper *k);

#endif
