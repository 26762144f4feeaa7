/* Executes: queued in order, one at a time, each with its limit. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "interp.h"
#include "pyjson.h"

static void free_job(csn_job *job)
{
    csn_timer_cancel(&job->timer);
    csn_list_remove(&job->link);
    csn_buf_free(&job->frame);
    csn_buf_free(&job->code);
    csn_result_free(job->result);
    free(job->profile);
    free(job);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

/* A time-out is a failure even if the code had an answer before. */
static void judge(csn_interp *i, csn_job *job, bool is_alive)
{
    csn_exec_result *r = job->result;

    if (job->is_timed_out && job->is_lifetime) {
        csn_exec_result_fail(r, CSN_E_TIMEOUT, "sandbox_expired", "execute",
                             "Sandbox lifetime of %lld seconds exceeded",
                             (long long) i->o.timeout_s);
        i->is_expired = true;
    } else if (job->is_timed_out) {
        csn_exec_result_fail(r, CSN_E_TIMEOUT, "execution_timeout", "execute",
                             "Execution timed out after %lld seconds", (long long) job->limit_s);
    } else if (job->is_cancelled) {
        csn_exec_result_fail(r, CSN_E_CANCELLED, "cancelled", "execute", "Execution cancelled");
    }
    if (r->kind == CSN_EXEC_FAILURE) {
        csn_note_failure(i, r->category, r->phase);
        if (is_alive && !i->is_expired)
            r->flags |= CSN_RESULT_STATE_PRESERVED;
    }
}

void csn_job_end(csn_interp *i, csn_job *job)
{
    csn_execute_done_fn done = job->done;
    void *user = job->user;
    csn_exec_result *r = job->result;

    judge(i, job, csn_worker_is_there(i));
    csn_exec_result_finish(r);
    r->duration_us = (csn_now_ns() - job->start_ns) / 1000;
    csn_event_complete(i, job);
    csn_history_note(i, job);
    if (i->running == job)
        i->running = NULL;
    job->result = NULL;
    free_job(job);
    if (i->is_expired)
        csn_session_drop(i, true);
    if (done)
        done(r, r->code, user);
    else
        csn_result_free(r);
    csn_jobs_next(i);
}

void csn_jobs_fail_all(csn_interp *i, int code, const char *category, const char *why)
{
    csn_job *job = i->running;

    if (!job)
        return;
    csn_exec_result_fail(job->result, code, category, "execute", "%s", why);
    csn_job_end(i, job);
}

/* A result for a session that could not even start. */
static int fail_start(csn_interp *i, csn_job *job, int code, const csn_error *why)
{
    bool has_expired = i->is_expired;

    csn_exec_result_fail(job->result, code,
                         has_expired           ? "sandbox_expired"
                         : i->failure_category ? i->failure_category
                                               : "driver_execution_error",
                         has_expired || !i->failure_phase ? "execute" : i->failure_phase, "%s",
                         why->message);
    job->start_ns = csn_now_ns();
    csn_job_end(i, job);
    return CSN_OK;
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

static void on_grace(csn_timer *timer, void *user)
{
    csn_interp *i = user;

    (void) timer;
    csn_worker_lost(i, "execution_timeout", "the code did not stop");
}

/* Asks the code to stop; it has two seconds to obey. */
static void interrupt(csn_interp *i, csn_job *job)
{
    csn_worker_interrupt(i);
    if (csn_timer_set(i->loop, &job->timer, csn_deadline_in_ms(CSN_GRACE_MS), on_grace, i) < 0)
        on_grace(&job->timer, i);
}

static void on_limit(csn_timer *timer, void *user)
{
    csn_interp *i = user;

    (void) timer;
    i->running->is_timed_out = true;
    interrupt(i, i->running);
}

void csn_interp_cancel(csn_interp *i)
{
    csn_job *job = i->running;

    if (!job || job->is_cancelled || job->is_timed_out)
        return;
    job->is_cancelled = true;
    interrupt(i, job);
}

/* ---- the beginning ---------------------------------------------------------------------------------------------- */

static int64_t limit_ns(csn_interp *i, csn_job *job)
{
    int64_t limit = i->o.execute_timeout_s * CSN_NS_PER_S;
    int64_t left = csn_remaining_ns(i->expires_ns);

    job->limit_s = i->o.execute_timeout_s;
    job->is_lifetime = i->expires_ns != CSN_NO_DEADLINE && left < limit;
    return job->is_lifetime ? left : limit;
}

void csn_jobs_next(csn_interp *i)
{
    csn_list *first = csn_list_first(&i->jobs);
    csn_job *job;
    int r;

    if (i->running || !first || !i->is_ready)
        return;
    job = i->running = csn_list_entry(first, csn_job, link);
    csn_list_remove(first);
    csn_worker_drain(i); /* what came between executes belongs to none */
    job->result->produced[0] = job->result->produced[1] = 0;
    csn_buf_clear(&job->result->raw[0]);
    csn_buf_clear(&job->result->raw[1]);
    job->start_ns = csn_now_ns();
    if (i->was_lost)
        job->result->flags |= CSN_RESULT_STATE_RESET;
    i->was_lost = false;
    i->n_delegated = 0;
    csn_event_start(i, job);
    r = csn_timer_set(i->loop, &job->timer, csn_deadline_in_ns(limit_ns(i, job)), on_limit, i);
    if (r == 0)
        r = csn_worker_send(i, &job->frame);
    csn_buf_free(&job->frame);
    if (r == -ENOMEM) {
        csn_exec_result_fail(job->result, CSN_E_NO_MEMORY, "driver_execution_error", "execute",
                             "no memory for the message");
        csn_job_end(i, job);
    } else if (r < 0) {
        csn_worker_lost(i, "worker_crashed", "the interpreter process ended");
    }
}

/* What is queued must not wait for a process that is gone: it gets another, or an end. */
void csn_jobs_revive(csn_interp *i)
{
    csn_error why = { 0 };
    int r;

    if (i->running || i->is_ready || i->is_ensuring || csn_list_empty(&i->jobs))
        return;
    r = csn_session_ensure(i, &why);
    while (r < 0 && !csn_list_empty(&i->jobs))
        (void) fail_start(i, csn_list_entry(csn_list_pop(&i->jobs), csn_job, link), r, &why);
    csn_jobs_next(i);
}

void csn_jobs_cancel_queued(csn_interp *i)
{
    csn_list *node;

    while ((node = csn_list_pop(&i->jobs))) {
        csn_job *job = csn_list_entry(node, csn_job, link);

        job->is_cancelled = true;
        job->start_ns = csn_now_ns();
        csn_job_end(i, job);
    }
}

/* ---- what the driver says --------------------------------------------------------------------------------------- */

void csn_job_take_output(csn_interp *i, int stream, const char *data, size_t len)
{
    csn_exec_result *r = i->running ? i->running->result : NULL;
    size_t room;

    if (!r)
        return;
    r->produced[stream] += (int64_t) len;
    room = r->raw[stream].max - r->raw[stream].len;
    csn_buf_append(&r->raw[stream], data, len < room ? len : room);
    if (i->o.on_output)
        i->o.on_output(stream + 1, data, len, i->o.user_data);
}

int csn_job_final(csn_interp *i, const csn_json *frame)
{
    if (!i->running || csn_json_get_int(frame, "id", -1) != i->running->id)
        return 0; /* of an execute that is over */
    return csn_result_take_final(i->running->result, csn_json_get(frame, "fields"),
                                 i->behind_frame);
}

int csn_job_done(csn_interp *i, const csn_json *frame)
{
    csn_job *job = i->running;
    int64_t id = csn_json_get_int(frame, "id", -1);
    int r;

    if (id == i->busy_id)
        i->busy_id = 0;
    if (!job || id != job->id)
        return 0;
    r = csn_result_take_error(job->result, csn_json_get(frame, "error"));
    if (r < 0)
        return r;
    csn_worker_drain(i);
    csn_calls_abandon(i);
    csn_job_end(i, job);
    return 0;
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

struct vars {
    csn_jw *w;
    csn_buf name;
};

static int put_var(csn_str name, csn_str value, void *user)
{
    struct vars *v = user;

    csn_buf_clear(&v->name);
    if (csn_py_string(name, &v->name) < 0 || strlen(v->name.data) != v->name.len ||
        !csn_is_identifier(v->name.data))
        return -EINVAL;
    if (csn_is_keyword(v->name.data))
        return -EKEYREJECTED;
    csn_jw_key(v->w, v->name.data);
    csn_jw_string(v->w, value.data, value.len);
    return 0;
}

static int put_vars(csn_jw *w, const char *text, csn_error *err)
{
    struct vars v = { w, CSN_BUF_INIT };
    int r;

    csn_jw_key(w, "vars");
    csn_jw_begin_object(w);
    r = text ? csn_py_each(csn_str_of(text), put_var, &v) : 0;
    csn_jw_end_object(w);
    if (r < 0)
        csn_fail(err, CSN_E_INVALID,
                 r == -EINVAL         ? "variable name '%.64s' is no identifier"
                 : r == -EKEYREJECTED ? "variable name '%.64s' is a Python keyword"
                                      : "the variables are no JSON object",
                 v.name.data);
    csn_buf_free(&v.name);
    return r < 0 ? CSN_E_INVALID : CSN_OK;
}

static void put_envs(csn_jw *w, const char *const *envs)
{
    csn_jw_key(w, "envs");
    csn_jw_begin_object(w);
    for (; envs && *envs; envs++) {
        const char *eq = strchr(*envs, '=');
        csn_auto(mem) char *key = eq ? csn_strndup(*envs, (size_t) (eq - *envs)) : NULL;

        if (key && *key)
            csn_jw_kstr(w, key, eq + 1);
    }
    csn_jw_end_object(w);
}

static int put_message(csn_interp *i, csn_job *job, const csn_execute_options *o, csn_error *err)
{
    csn_jw w = CSN_JW_INIT(&job->frame, false);
    int r;

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "op", "exec");
    csn_jw_kint(&w, "id", job->id);
    csn_jw_key(&w, "code");
    csn_jw_string(&w, job->code.data, job->code.len);
    csn_jw_kstr(&w, "profile", job->profile);
    csn_jw_kbool(&w, "interactive", o->is_interactive);
    if (i->outputs_json.len) {
        csn_jw_key(&w, "outputs");
        csn_jw_raw(&w, i->outputs_json.data, i->outputs_json.len);
    }
    put_envs(&w, o->envs);
    r = put_vars(&w, o->vars, err);
    csn_jw_end_object(&w);
    if (r >= 0 && (job->frame.error < 0 || job->frame.len > i->in.max))
        r = csn_fail(err, CSN_E_TOO_LARGE, "code and variables are too large: %zu bytes",
                     job->frame.len);
    return r;
}

static csn_job *new_job(csn_interp *i, const char *code, size_t len, const csn_execute_options *o)
{
    const char *profile = o->profile ? o->profile : i->o.profile ? i->o.profile : "RLM_DELEGATE";
    csn_job *job = csn_calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    csn_list_init(&job->link);
    job->id = i->next_id++;
    job->frame = (csn_buf) CSN_BUF_INIT_MAX((size_t) 1 << 30);
    job->code = (csn_buf) CSN_BUF_INIT_MAX((size_t) 1 << 30);
    job->profile = csn_strdup(profile);
    job->result = csn_exec_result_new((size_t) i->o.output_bytes);
    csn_buf_append(&job->code, code, len);
    if (!job->profile || !job->result || job->code.error < 0) {
        free_job(job);
        return NULL;
    }
    return job;
}

int csn_interp_execute_start(csn_interp *i, const char *code, size_t len,
                             const csn_execute_options *opts, csn_execute_done_fn done, void *user,
                             csn_error *err)
{
    csn_execute_options none = { .size = sizeof(none) };
    csn_error why = { 0 };
    csn_job *job;
    int r;

    opts = opts ? opts : &none;
    if (!code || opts->size != sizeof(*opts))
        return csn_fail(err, CSN_E_INVALID,
                        "there is no code, or csn_execute_options is of another version");
    job = new_job(i, code, len, opts);
    if (!job)
        return csn_fail_sys(err, -ENOMEM, "execute");
    job->done = done;
    job->user = user;
    r = put_message(i, job, opts, err);
    if (r < 0) {
        free_job(job);
        return r;
    }
    r = csn_session_ensure(i, &why);
    if (r < 0)
        return fail_start(i, job, r, &why);
    csn_list_append(&i->jobs, &job->link);
    csn_jobs_next(i);
    return CSN_OK;
}

struct waiting {
    csn_exec_result *result;
    bool is_done;
    int code;
};

static void on_done(csn_exec_result *result, int code, void *user)
{
    struct waiting *w = user;

    w->result = result;
    w->code = code;
    w->is_done = true;
}

int csn_interp_execute(csn_interp *i, const char *code, size_t len, const csn_execute_options *opts,
                       csn_exec_result **ret_result, csn_error *err)
{
    struct waiting w = { 0 };
    int r = csn_interp_execute_start(i, code, len, opts, on_done, &w, err);

    if (r < 0)
        return r;
    while (!w.is_done)
        if (csn_interp_turn(i, CSN_NO_DEADLINE) < 0)
            csn_worker_lost(i, "driver_execution_error", "the host's loop failed");
    csn_history_save(i);
    *ret_result = w.result;
    return w.code < 0 ? csn_fail(err, w.code, "%s", csn_result_text(w.result, NULL)) : CSN_OK;
}
