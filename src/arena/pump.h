/* Jobs under way on one thread: waits for the engine and the cancel handle, dispatches. */
#ifndef CSN_ARENA_PUMP_H
#define CSN_ARENA_PUMP_H

#include <caisson/arena.h>

#include "job.h"

typedef struct csn_pump {
    csn_engine *engine; /* borrowed */
    csn_cancel *cancel; /* may be NULL */
    csn_tick_fn tick;   /* may be NULL */
    int tick_ms;
    void *user;
    csn_list running;
    csn_list ended; /* freed by the next round: a job must not vanish inside its own callback */
    size_t n_running;
    unsigned n_errors;
    int64_t next_tick_ns;
} csn_pump;

void csn_pump_init(csn_pump *pump, csn_engine *engine, const csn_run_options *o);
void csn_pump_add(csn_pump *pump, csn_job *job); /* taken */
/* To be called by the job's `done`. */
void csn_pump_end(csn_pump *pump, csn_job *job);
/* One round. True once the cancel handle has fired; running jobs have been told then. */
bool csn_pump_once(csn_pump *pump);
void csn_pump_done(csn_pump *pump);

#endif
