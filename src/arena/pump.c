#include "pump.h"

#include <errno.h>
#include <poll.h>

#include "base/time.h"
#include "cancel.h"

/* After so many failed dispatches in a row the engine is taken for broken. */
#define MAX_ERRORS 8

void csn_pump_init(csn_pump *pump, csn_engine *engine, const csn_run_options *o)
{
    *pump = (csn_pump){
        .engine = engine,
        .cancel = o->cancel,
        .tick = o->on_tick,
        .tick_ms = o->tick_ms > 0 ? o->tick_ms : 100,
        .user = o->user_data,
    };
    csn_list_init(&pump->running);
    csn_list_init(&pump->ended);
}

void csn_pump_add(csn_pump *pump, csn_job *job)
{
    csn_list_append(&pump->running, &job->link);
    pump->n_running++;
}

void csn_pump_end(csn_pump *pump, csn_job *job)
{
    csn_list_remove(&job->link);
    csn_list_append(&pump->ended, &job->link);
    pump->n_running--;
}

void csn_pump_done(csn_pump *pump)
{
    csn_list_foreach (node, &pump->ended) {
        csn_job_free(csn_list_entry(node, csn_job, link));
    }
}

static void cancel_jobs(csn_pump *pump)
{
    csn_list_foreach (node, &pump->running) {
        csn_job_cancel(csn_list_entry(node, csn_job, link));
    }
}

static void give_up(csn_pump *pump, const char *reason)
{
    csn_list_foreach (node, &pump->running) {
        csn_job_abort(csn_list_entry(node, csn_job, link), reason);
    }
}

static void wait_for_news(csn_pump *pump, bool is_cancelled)
{
    struct pollfd fds[2] = {
        { csn_engine_fd(pump->engine), POLLIN, 0 },
        { pump->cancel && !is_cancelled ? csn_cancel_fd(pump->cancel) : -1, POLLIN, 0 },
    };

    /* EINTR: as good as news */
    (void) poll(fds, 2, pump->tick ? csn_remaining_ms(pump->next_tick_ns) : -1);
}

bool csn_pump_once(csn_pump *pump)
{
    bool is_cancelled = pump->cancel && csn_cancel_is_fired(pump->cancel);
    csn_error err = { 0 };
    int r;

    csn_pump_done(pump);
    if (is_cancelled)
        cancel_jobs(pump);
    if (csn_list_empty(&pump->running))
        return is_cancelled;
    wait_for_news(pump, is_cancelled);
    r = csn_engine_dispatch(pump->engine, 0, &err);
    if (r >= 0 || r == CSN_E_CANCELLED) /* an interrupt is not for us */
        pump->n_errors = 0;
    else if (++pump->n_errors == MAX_ERRORS)
        give_up(pump, err.message);
    if (pump->tick && csn_deadline_passed(pump->next_tick_ns)) {
        pump->next_tick_ns = csn_deadline_in_ms(pump->tick_ms);
        pump->tick(pump->user);
    }
    return is_cancelled;
}
