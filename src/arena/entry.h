/* A candidate made ready: checked, its script read, every list of its job built once for all trials. */
#ifndef CSN_ARENA_ENTRY_H
#define CSN_ARENA_ENTRY_H

#include <caisson/arena.h>

#include "base/buf.h"
#include "job.h"

#define CSN_OBJECTIVE_MAX 131071 /* what Linux passes in one argument */

typedef struct csn_entry {
    csn_job_plan plan;
    csn_buf refusal; /* why it must not run; empty: it may */
    csn_buf script;
    csn_exec_request setups[2];
    csn_upload *uploads;
    size_t n_uploads;
    void **kept; /* every allocation the plan points to */
    size_t n_kept;
} csn_entry;

/* Checks in the documented order. 0, also with a refusal; or -ENOMEM. */
int csn_entry_prepare(csn_entry *entry, const csn_candidate *candidate, const csn_run_options *o);
void csn_entry_done(csn_entry *entry);

/* The scorer as an entry: `scorer` is a script or a shell command, run without network on a copy of the artifact, which
 * is borrowed. 0 (also with a refusal) or -ENOMEM. */
int csn_entry_prepare_scorer(csn_entry *entry, const char *scorer, const char *candidate_id,
                             const char *artifact_name, const char *data, size_t len,
                             int64_t timeout_ms, const csn_run_options *o);

#endif
