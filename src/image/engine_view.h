/* What images and volumes need to know of an engine; core/ answers. */
#ifndef CSN_IMAGE_ENGINE_VIEW_H
#define CSN_IMAGE_ENGINE_VIEW_H

#include <stdbool.h>

#include <caisson/engine.h>

#include "base/list.h"
#include "base/loop.h"

/* CSN_OK, CSN_E_INVALID for NULL and for a handle carried over a fork, CSN_E_UNSUPPORTED for one without a state
 * directory. */
int csn_engine_check_local(csn_engine *engine, csn_error *err);

int csn_engine_state_fd(csn_engine *engine);   /* O_DIRECTORY descriptor, borrowed */
csn_loop *csn_engine_loop(csn_engine *engine); /* borrowed */
const char *
csn_engine_libexec(csn_engine *engine); /* directory of caisson-keeper and caisson-unpack */

/* Runs the loop until *is_done; CSN_E_CANCELLED after csn_engine_interrupt(). */
int csn_engine_wait(csn_engine *engine, const bool *is_done, csn_error *err);

/* Removes a tree below the state directory whose files may belong to ids that aren't ours (without privilege, after "root
 * inside" wrote there). Waits. */
int csn_engine_remove_tree(csn_engine *engine, const char *path, csn_error *err);

/* Started work that must be given up before the engine's loop goes. csn_engine_free() takes each job out of the list
 * and calls cancel(), which ends it (its `done` runs, with CSN_E_CANCELLED) before it returns. */
typedef struct csn_job {
    csn_list link;
    void (*cancel)(struct csn_job *job);
} csn_job;

csn_list *csn_engine_jobs(csn_engine *engine);

#endif
