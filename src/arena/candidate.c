/* One candidate: prepared, run, handed back. Never fails but for the caller's own mistakes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <caisson/arena.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "entry.h"
#include "options.h"
#include "pump.h"
#include "run.h"

typedef struct single {
    csn_run_options o;
    csn_pump pump;
    csn_candidate_result *result;
} single;

static void log_line(csn_job *job, const char *message)
{
    single *s = job->owner;

    if (s->o.on_log)
        s->o.on_log(job->plan->id, message, s->o.user_data);
}

static void new_state(csn_job *job, csn_run_state state)
{
    single *s = job->owner;

    if (s->o.on_state && state != CSN_RUN_DONE)
        s->o.on_state(0, 0, state, NULL, s->o.user_data);
}

static void ended(csn_job *job)
{
    single *s = job->owner;

    s->result = job->result;
    job->result = NULL;
    csn_pump_end(&s->pump, job);
}

static void took_output(csn_job *job, csn_stream stream, const void *data, size_t len)
{
    single *s = job->owner;

    if (s->o.on_output)
        s->o.on_output(job->plan->id, stream, data, len, s->o.user_data);
}

static const csn_job_watch watch = { log_line, new_state, ended, took_output };

/* The local copy; a failure is worth a warning, the candidate did its part. */
static void save(single *s)
{
    const char *file = s->o.artifact_file, *slash = strrchr(file, '/');
    char *dir =
        slash ? csn_strndup(file, slash == file ? 1 : (size_t) (slash - file)) : csn_strdup(".");
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    int r = dir ? csn_make_dirs(dir) : -ENOMEM;

    if (r == 0)
        r = csn_artifact_save(s->result, dir, slash ? slash + 1 : file);
    if (r == 0 && !slash) { /* as the caller called it, not "./…" */
        free(s->result->artifact_file);
        s->result->artifact_file = csn_strdup(file);
    }
    if (r < 0 && s->o.on_log) {
        csn_buf_printf(&text, "[Warn] Could not save artifact: %s: %s", file, csn_strerror(r));
        s->o.on_log(s->result->candidate_id, text.data, s->o.user_data);
    }
    free(dir);
}

static int run_entry(single *s, csn_entry *entry, csn_engine *engine)
{
    csn_engine *used, *own = NULL;
    csn_error why = { 0 };
    csn_job *job;

    if (csn_backend_open(engine, &s->o, false, &used, &own, &why) < 0) {
        csn_auto(buf) csn_buf text = CSN_BUF_INIT;

        csn_buf_printf(&text, "Could not create sandbox: %s", why.message);
        s->result = csn_result_new(entry->plan.id);
        if (!s->result)
            return -ENOMEM;
        csn_result_fail(s->result, text.data);
        return 0;
    }
    csn_pump_init(&s->pump, used, &s->o);
    job = csn_job_new(&entry->plan, used, &watch, s);
    if (job) {
        csn_pump_add(&s->pump, job);
        csn_job_begin(job, csn_now_ns());
        while (!s->result)
            (void) csn_pump_once(&s->pump);
        csn_pump_done(&s->pump);
    }
    csn_engine_free(own);
    return job ? 0 : -ENOMEM;
}

static int refuse(single *s, const char *id, const char *why)
{
    s->result = csn_result_new(id);
    if (!s->result)
        return -ENOMEM;
    csn_result_fail(s->result, why);
    return 0;
}

int csn_candidate_run(csn_engine *engine, const csn_candidate *candidate,
                      const csn_run_options *opts, csn_candidate_result **ret_result,
                      csn_error *err)
{
    single s = { 0 };
    csn_candidate c = { 0 };
    csn_entry entry = { .refusal = CSN_BUF_INIT, .script = CSN_BUF_INIT };
    const char *why;
    int r = csn_arena_options_copy(&s.o, sizeof(s.o), opts, opts ? opts->size : 0,
                                   "csn_run_options", err);

    if (r == CSN_OK)
        r = csn_arena_options_copy(&c, sizeof(c), candidate, candidate ? candidate->size : 0,
                                   "csn_candidate", err);
    if (r == CSN_OK)
        r = csn_run_options_fill(&s.o, err);
    if (r == CSN_OK && (!c.id || !c.script))
        r = csn_fail(err, CSN_E_INVALID, "a candidate needs an id and a script");
    if (r < 0)
        return r;
    if (s.o.artifact_file)
        (void) unlink(s.o.artifact_file); /* what an earlier run left; absent is fine */
    why = csn_backend_refusal(&s.o);
    if (why) {
        r = refuse(&s, c.id, why);
    } else {
        r = csn_entry_prepare(&entry, &c, &s.o);
        if (r == 0)
            r = entry.refusal.len > 0 ? refuse(&s, c.id, entry.refusal.data)
                                      : run_entry(&s, &entry, engine);
    }
    if (r == 0 && s.o.artifact_file && s.result->artifact_content)
        save(&s);
    if (r == 0 && s.o.on_state)
        s.o.on_state(0, 0, CSN_RUN_DONE, s.result, s.o.user_data);
    csn_entry_done(&entry);
    if (r < 0)
        return csn_fail(err, CSN_E_NO_MEMORY, "out of memory");
    *ret_result = s.result;
    return CSN_OK;
}
