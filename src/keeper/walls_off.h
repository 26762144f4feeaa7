/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KEEPER_WALLS_OFF_H
#define CSN_KEEPER_WALLS_OFF_H

/* Test builds only: walls that are not put up, so that tests/escape can show which attack each of them stops. In every
 * other build a step is its own function and nothing of this is left. */

#include <stdint.h>

#include "inside_impl.h"

typedef int (*csn_step_fn)(csn_inside *in);

#ifdef CSN_TEST_HOOKS

/* CSN_WALL_…: set by the keeper before it clones, so the child knows it before it has its plan. */
extern uint32_t csn_walls_down;

/* What runs as step `name`: `run`, or what takes its place while its wall is down. */
csn_step_fn csn_walls_step(const char *name, csn_step_fn run);

#else

static inline csn_step_fn csn_walls_step(const char *name, csn_step_fn run)
{
    (void) name;
    return run;
}

#endif
#endif
