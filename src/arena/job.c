/* Theory of operation: a job is in one state at a time and has one operation of the engine under way, with a deadline. Its
 * completion enters the next state. Whatever happens after the sandbox exists, the way out leads through CLEANING, and
 * `done` is called exactly once, after the sandbox is gone. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/utf8.h"

#define EXEC_GRACE_MS 5000 /* the engine ends a command at its limit; beyond that it is stuck */
#define SETUP_KEPT    ((size_t) 256 << 10)

static void enter_upload(csn_job *job);
static void enter_setup(csn_job *job);
static void enter_exec(csn_job *job);
static void enter_read(csn_job *job);
static void enter_clean(csn_job *job);

/* ---- small things ---- */

/* Of log lines. */
static const char *tag_of(const csn_job *job)
{
    return csn_engine_is_remote(job->engine) ? "Daytona" : "Sandbox";
}

static double moment(const csn_job *job)
{
    return (double) (csn_now_ns() - job->origin_ns) / 1e9;
}

static void CSN_PRINTF(2, 3) say(csn_job *job, const char *fmt, ...)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf safe = CSN_BUF_INIT;
    va_list args;

    if (!job->watch->log)
        return;
    va_start(args, fmt);
    csn_buf_vprintf(&text, fmt, args);
    va_end(args);
    csn_redact(text.data, &safe);
    job->watch->log(job, safe.data);
}

static void CSN_PRINTF(2, 3) fail(csn_job *job, const char *fmt, ...)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    csn_buf_vprintf(&text, fmt, args);
    va_end(args);
    job->has_failed = true; /* also when there is no memory left to say why */
    csn_result_fail(job->result, text.data);
}

static const char *reason_of(int result, const csn_error *err)
{
    return err && err->message[0] ? err->message : csn_error_name(result);
}

/* The first 50 characters, not bytes, of a reason. */
static void say_error(csn_job *job)
{
    const char *text = job->result->error_message ? job->result->error_message : "";
    size_t len = strlen(text), at = 0;

    for (int n = 0; n < 50 && at < len; n++) {
        unsigned code;
        int step = csn_utf8_next(text + at, len - at, &code);

        at += step > 0 ? (size_t) step : 1;
    }
    say(job, "[Error] %.*s", (int) at, text);
}

/* Nothing that the documented list of messages covers. */
static void break_down(csn_job *job, const char *what, int result, const csn_error *err)
{
    fail(job, "%s%s%s", what, what[0] ? ": " : "", reason_of(result, err));
    say_error(job);
    enter_clean(job);
}

static void set_state(csn_job *job, csn_run_state state, int64_t limit_ms)
{
    job->state = state;
    job->deadline_ns = csn_deadline_in_ms(limit_ms);
    if (job->watch->state)
        job->watch->state(job, state);
}

/* The operation that was just begun, NULL: it was not; and the rest of the state's time is its own. */
static bool await(csn_job *job, csn_op *op)
{
    int64_t left_ms = csn_remaining_ms(job->deadline_ns);

    job->op = op;
    if (op && left_ms >= 0) /* no timer to be had: then it takes as long as it takes */
        (void) csn_op_set_timeout(op, left_ms > 0 ? left_ms : 1, NULL);
    return op != NULL;
}

static char *seconds_text(int64_t ms, char out[32])
{
    (void) snprintf(out, 32, "%.10g", (double) ms / 1000);
    return out;
}

/* ---- the end ---- */

static void hand_over(char **to, size_t *to_len, csn_buf *from)
{
    size_t len;
    char *data = csn_buf_take(from, &len);

    if (!data) /* keeps the empty string it has */
        return;
    free(*to);
    *to = data;
    *to_len = len;
}

static void finish(csn_job *job)
{
    csn_candidate_result *r = job->result;

    hand_over(&r->output, &r->output_len, &job->output);
    hand_over(&r->stderr_data, &r->stderr_len, &job->errors);
    if (job->plan->n_setups > 0)
        hand_over(&r->setup_output, &r->setup_output_len, &job->setup_output);
    if (job->is_cancelled) {
        r->cancelled = 1;
        free(r->error_message);
        r->error_message = NULL;
        csn_result_fail(r, "Cancelled");
    }
    r->success = !job->has_failed && !job->is_cancelled;
    r->t_end = job->started_ns ? moment(job) : -1;
    if (job->started_ns)
        r->runtime_seconds = (double) (csn_now_ns() - job->started_ns) / 1e9;
    set_state(job, CSN_RUN_DONE, -1);
    job->watch->done(job);
}

/* From here on nobody calls us. */
static void let_go(csn_job *job)
{
    csn_op_drop(job->op);
    job->op = NULL;
    job->process = csn_process_free(job->process);
}

static void cleaned(int result, const csn_error *err, void *user)
{
    csn_job *job = user;

    job->op = NULL;
    if (result < 0)
        say(job, "[Warn] Cleanup failed: %s", reason_of(result, err));
    job->sandbox = csn_sandbox_free(job->sandbox);
    finish(job);
}

static void enter_clean(csn_job *job)
{
    csn_error err = { 0 };

    if (!job->sandbox) {
        finish(job);
        return;
    }
    set_state(job, CSN_RUN_CLEANING, -1);
    say(job, "[%s] Cleaning up...", tag_of(job));
    let_go(job);
    if (!await(job, csn_sandbox_delete_async(job->sandbox, cleaned, job, &err)))
        cleaned(err.code, &err, job);
}

void csn_job_cancel(csn_job *job)
{
    if (job->is_cancelled || job->state == CSN_RUN_CLEANING || job->state == CSN_RUN_DONE)
        return;
    job->is_cancelled = true;
    if (job->state == CSN_RUN_WAITING) {
        finish(job);
    } else if (job->state == CSN_RUN_CREATING) { /* what is there of it is taken back */
        say(job, "[%s] Cleaning up...", tag_of(job));
        csn_op_cancel(job->op);
    } else {
        enter_clean(job);
    }
}

/* ---- reading the artifact ---- */

static void artifact_read(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    csn_job *job = user;
    csn_candidate_result *r = job->result;
    csn_error own = { 0 };
    char seconds[32];

    job->op = NULL;
    if (result == CSN_E_TOO_LARGE && n > 0)
        (void) csn_fail(&own, result, "%" PRId64 " bytes exceeds limit %zu", n,
                        job->plan->artifact_max);
    else if (result == CSN_E_TIMEOUT)
        (void) csn_fail(&own, result, "timed out after %s seconds",
                        seconds_text(job->plan->artifact_timeout_ms, seconds));
    err = own.code ? &own : err;
    switch (result) {
    case CSN_OK:
        r->artifact_content = data;
        r->artifact_len = (size_t) n;
        r->artifact_bytes = n;
        say(job, "[Done] Artifact retrieved");
        break;
    case CSN_E_NOT_FOUND:
    case CSN_E_DENIED: /* what `cat` answers */
        say(job, "[Warn] Could not read artifact: exit 1");
        fail(job, "Could not read artifact: exit 1");
        break;
    case CSN_E_TOO_LARGE:
    case CSN_E_NOT_REGULAR: {
        const char *why = result == CSN_E_TOO_LARGE ? reason_of(result, err) : "not a regular file";

        say(job, "[Warn] Could not read artifact: %s", why);
        fail(job, "Could not read artifact: %s", why);
        break;
    }
    default:
        say(job, "[Warn] Could not retrieve artifact: %s", reason_of(result, err));
        fail(job, "Could not read artifact: %s", reason_of(result, err));
    }
    enter_clean(job);
}

static void enter_read(csn_job *job)
{
    csn_file_sink to = { .size = sizeof(to), .max_bytes = job->plan->artifact_max };
    csn_error err = { 0 };

    if (!job->plan->output_path) {
        enter_clean(job);
        return;
    }
    set_state(job, CSN_RUN_READING, job->plan->artifact_timeout_ms);
    if (!await(job, csn_file_get_async(job->sandbox, job->plan->output_path, &to, artifact_read,
                                       job, &err)))
        artifact_read(NULL, -1, err.code, &err, job);
}

/* ---- running the command ---- */

static void keep_some(csn_buf *buf, size_t max, const void *data, size_t len)
{
    size_t room = max > buf->len ? max - buf->len : 0;

    (void) csn_buf_append(buf, data, len < room ? len : room); /* no memory: it counts as cut */
}

static void exec_done(csn_job *job, const csn_receipt *receipt, int result, const csn_error *err);
static void setup_done(csn_job *job, const csn_receipt *receipt, int result, const csn_error *err);

/* `receipt` is NULL when it could not be started, or was stuck beyond its time limit. */
static void command_done(csn_job *job, const csn_receipt *receipt, int result, const csn_error *err)
{
    job->op = NULL;
    if (job->state == CSN_RUN_SETUP)
        setup_done(job, receipt, result, err);
    else
        exec_done(job, receipt, result, err);
}

static void command_ended(const csn_receipt *receipt, int result, const csn_error *err, void *user)
{
    command_done(user, receipt, result, err);
}

static void command_started(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_job *job = user;
    csn_error own = { 0 };

    job->process = process;
    if (result < 0)
        command_done(job, NULL, result, err);
    else if (!await(job, csn_process_wait_async(process, command_ended, job, &own)))
        command_done(job, NULL, own.code, &own);
}

/* A service elsewhere sends both streams as one: when the first alone is wanted, the second is thrown away there. NULL: no
 * memory, or nothing to change. */
static const char **without_stderr(const csn_job *job, const csn_exec_request *request)
{
    static const char *const quiet[] = { "/bin/sh", "-c", "exec \"$@\" 2>/dev/null", "sh" };
    const char **argv;
    size_t n = 0;

    if (!request->only_stdout || !request->argv || !csn_engine_is_remote(job->engine))
        return NULL;
    while (request->argv[n])
        n++;
    argv = csn_calloc(n + CSN_COUNT(quiet) + 1, sizeof(*argv));
    if (!argv)
        return NULL;
    memcpy(argv, quiet, sizeof(quiet));
    memcpy(argv + CSN_COUNT(quiet), request->argv, n * sizeof(*argv));
    return argv;
}

static void run_command(csn_job *job, const csn_exec_request *request, csn_output_fn on_output)
{
    csn_auto(mem) const char **quiet = without_stderr(job, request);
    csn_process_options po = {
        .size = sizeof(po),
        .argv = quiet ? quiet : request->argv,
        .shell = request->shell,
        .env = request->env,
        .cwd = request->cwd,
        .timeout_ms = request->timeout_ms,
        .output_bytes = CSN_UNLIMITED,                     /* the job counts and cuts */
        .merge_stderr = csn_engine_is_remote(job->engine), /* one request, as SPEC has it */
        .on_output = on_output,
        .user_data = job,
    };
    csn_error err = { 0 };

    job->process = csn_process_free(job->process);
    if (!await(job, csn_process_start_async(job->sandbox, &po, command_started, job, &err)))
        command_done(job, NULL, err.code, &err);
}

static int took_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                       void *user)
{
    csn_job *job = user;
    size_t before = job->output.len;

    (void) process;
    if (job->watch->output)
        job->watch->output(job, stream, data, len);
    if (stream == CSN_STDERR)
        keep_some(&job->errors, job->plan->output_max, data, len);
    if (stream == CSN_STDERR && job->plan->only_stdout)
        return 0;
    job->result->output_bytes += (int64_t) len;
    keep_some(&job->output, job->plan->output_max, data, len);
    if (job->output.len - before < len)
        job->result->output_truncated = 1;
    return 0;
}

static void timed_out(csn_job *job)
{
    char seconds[32];

    job->result->timed_out = 1;
    fail(job, "Execution timed out after %s seconds",
         seconds_text(job->plan->exec.timeout_ms, seconds));
    say(job, "[Error] Execution timed out after %s seconds", seconds);
    enter_clean(job);
}

static void exec_done(csn_job *job, const csn_receipt *receipt, int result, const csn_error *err)
{
    csn_candidate_result *r = job->result;

    if (!receipt && result == CSN_E_TIMEOUT) { /* stuck */
        r->exec_seconds = (double) (csn_now_ns() - job->exec_ns) / 1e9;
        timed_out(job);
        return;
    }
    if (!receipt) {
        break_down(job, "", result, err);
        return;
    }
    r->has_receipt = 1;
    r->receipt = *receipt;
    r->t_exec_end = moment(job);
    r->exec_seconds = (double) receipt->wall_us / 1e6;
    if (receipt->ended == CSN_ENDED_TIMEOUT) {
        timed_out(job);
        return;
    }
    if (receipt->ended == CSN_ENDED_LOST) {
        csn_error lost = { .message = "the sandbox went away while the script ran" };

        break_down(job, "", CSN_E_LOST, &lost);
        return;
    }
    r->exit_code = csn_receipt_status(receipt);
    say(job, "[Run] Exit code: %d", r->exit_code);
    if (r->exit_code != 0)
        fail(job, "Script exited with code %d", r->exit_code);
    enter_read(job); /* also after a failure: what it wrote may explain it */
}

static void enter_exec(csn_job *job)
{
    set_state(job, CSN_RUN_EXECUTING, job->plan->exec.timeout_ms + EXEC_GRACE_MS);
    say(job, "[Run] Executing...");
    job->result->t_exec = moment(job);
    job->exec_ns = csn_now_ns();
    run_command(job, &job->plan->exec, took_output);
}

/* ---- setup ---- */

static int took_setup_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                             void *user)
{
    csn_job *job = user;

    (void) process;
    (void) stream;
    keep_some(&job->setup_output, SETUP_KEPT, data, len);
    return 0;
}

static const char *setup_hint(const csn_job *job)
{
    if (strstr(job->setup_output.data, "No module named pip"))
        return "; pip is not installed in the image";
    if (job->plan->box.network == CSN_NET_NONE)
        return "; network access is disabled";
    return "";
}

static void setup_expired(csn_job *job)
{
    char seconds[32];

    fail(job, "Dependency installation timed out after %s seconds",
         seconds_text(job->plan->setups[job->n_set_up].timeout_ms, seconds));
    say_error(job);
    enter_clean(job);
}

static void setup_done(csn_job *job, const csn_receipt *receipt, int result, const csn_error *err)
{
    int code;

    if (!receipt && result == CSN_E_TIMEOUT) { /* stuck */
        setup_expired(job);
        return;
    }
    if (!receipt) {
        break_down(job, "Dependency installation failed", result, err);
        return;
    }
    if (receipt->ended == CSN_ENDED_TIMEOUT) {
        setup_expired(job);
        return;
    }
    code = csn_receipt_status(receipt);
    say(job, "[Setup] Exit code: %d", code);
    if (code != 0) {
        fail(job, "Dependency installation failed (exit %d)%s", code, setup_hint(job));
        enter_clean(job);
        return;
    }
    job->n_set_up++;
    enter_setup(job);
}

static void enter_setup(csn_job *job)
{
    const csn_exec_request *request;

    if (job->n_set_up == job->plan->n_setups) {
        enter_exec(job);
        return;
    }
    request = &job->plan->setups[job->n_set_up];
    set_state(job, CSN_RUN_SETUP, request->timeout_ms + EXEC_GRACE_MS);
    say(job, "[Setup] Installing dependencies...");
    run_command(job, request, took_setup_output);
}

/* ---- upload ---- */

static void uploaded(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    csn_job *job = user;
    csn_error own = { 0 };
    char seconds[32];

    (void) data;
    (void) n;
    job->op = NULL;
    if (result == CSN_E_TIMEOUT) {
        (void) csn_fail(&own, result, "timed out after %s seconds",
                        seconds_text(job->plan->upload_timeout_ms, seconds));
        err = &own;
    }
    if (result < 0) {
        fail(job, "Could not write script: %s", reason_of(result, err));
        say_error(job);
        enter_clean(job);
        return;
    }
    job->n_put++;
    enter_upload(job);
}

static csn_op *put(csn_job *job, const csn_upload *upload, csn_error *err)
{
    csn_file_source from = {
        .size = sizeof(from), .data = upload->data, .len = upload->len, .in_place = 1
    };
    csn_auto(fd) int fd = -1;

    if (upload->host_path) {
        fd = open(upload->host_path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) {
            (void) csn_fail_sys(err, -errno, "open '%s'", upload->host_path);
            return NULL;
        }
        from = (csn_file_source){ .size = sizeof(from), .is_fd = 1, .fd = fd, .in_place = 1 };
    }
    return csn_file_put_async(job->sandbox, upload->path, &from, upload->mode, uploaded, job, err);
}

static void enter_upload(csn_job *job)
{
    csn_error err = { 0 };

    if (job->n_put == job->plan->n_uploads) {
        say(job, "[%s] Script uploaded", tag_of(job));
        enter_setup(job);
        return;
    }
    if (job->n_put == 0) /* one limit for all of them */
        set_state(job, CSN_RUN_UPLOADING, job->plan->upload_timeout_ms);
    if (!await(job, put(job, &job->plan->uploads[job->n_put], &err)))
        uploaded(NULL, -1, err.code, &err, job);
}

/* ---- the beginning ---- */

static void created(csn_sandbox *sandbox, int result, const csn_error *err, void *user)
{
    csn_job *job = user;

    job->op = NULL;
    if (!sandbox) {
        fail(job, "Could not create sandbox: %s", reason_of(result, err));
        if (!job->is_cancelled)
            say_error(job);
        finish(job);
        return;
    }
    job->sandbox = sandbox;
    job->result->sandbox_id = csn_strdup(csn_sandbox_id(sandbox));
    job->result->t_ready = moment(job);
    say(job, "[%s] Sandbox ready: %.8s...", tag_of(job), csn_sandbox_id(sandbox));
    enter_upload(job);
}

void csn_job_begin(csn_job *job, int64_t origin_ns)
{
    const csn_box_options *o = &job->plan->box;
    csn_sandbox_options so = {
        .size = sizeof(so),
        .image = o->image,
        .network = o->network,
        .is_ephemeral = 1,
        .memory_bytes = o->memory_bytes,
        .cpu_milli = o->cpu_milli,
        .pids = o->pids,
        .disk_bytes = o->disk_bytes,
        .strict = o->strict,
        .cwd = "/home/daytona",
    };
    csn_error err = { 0 };

    job->origin_ns = origin_ns;
    job->started_ns = csn_now_ns();
    job->result->t_start = moment(job);
    set_state(job, CSN_RUN_CREATING, -1);
    say(job, "[%s] Connecting...", tag_of(job));
    say(job, "[%s] Creating sandbox...", tag_of(job));
    if (!await(job, csn_sandbox_create_async(job->engine, &so, created, job, &err)))
        created(NULL, err.code, &err, job);
}

void csn_job_refuse(csn_job *job, const char *message)
{
    fail(job, "%s", message);
    finish(job);
}

void csn_job_abort(csn_job *job, const char *reason)
{
    fail(job, "%s", reason);
    let_go(job);
    job->sandbox = csn_sandbox_free(job->sandbox);
    finish(job);
}

csn_job *csn_job_new(const csn_job_plan *plan, csn_engine *engine, const csn_job_watch *watch,
                     void *owner)
{
    csn_job *job = csn_calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    csn_list_init(&job->link);
    job->plan = plan;
    job->engine = engine;
    job->watch = watch;
    job->owner = owner;
    job->deadline_ns = CSN_NO_DEADLINE;
    job->output = (csn_buf) CSN_BUF_INIT_MAX(plan->output_max);
    job->errors = (csn_buf) CSN_BUF_INIT_MAX(plan->output_max);
    job->setup_output = (csn_buf) CSN_BUF_INIT_MAX(SETUP_KEPT);
    job->result = csn_result_new(plan->id);
    if (!job->result)
        return csn_job_free(job);
    if (plan->output_path) {
        job->result->artifact_path = csn_strdup(plan->output_path);
        if (!job->result->artifact_path)
            return csn_job_free(job);
    }
    return job;
}

csn_job *csn_job_free(csn_job *job)
{
    if (!job)
        return NULL;
    csn_list_remove(&job->link);
    let_go(job);
    csn_sandbox_free(job->sandbox);
    csn_candidate_result_free(job->result);
    csn_buf_free(&job->output);
    csn_buf_free(&job->errors);
    csn_buf_free(&job->setup_output);
    free(job);
    return NULL;
}
