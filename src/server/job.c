/* SPDX-License-Identifier: Apache-2.0 */
#include "server/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/time.h"
#include "base/utf8.h"
#include "server/ending.h"
#include "server/envs.h"
#include "server/jsonsend.h"
#include "server/req_private.h"
#include "server/toolbox.h"

enum { ARGS_FIRST = 8, ARGS_MAX = 1024, TAIL_MAX = 4096, AGAIN_MS = 20, AGAIN_FOR_MS = 30000 };

static size_t n_held; /* bytes of output in all jobs */

csn_job *csn_job_free(csn_job *job)
{
    if (!job)
        return NULL;
    csn_timer_cancel(&job->again);
    csn_op_drop(job->starting);
    csn_process_free(job->process); /* running: killed, with its children */
    csn_envs_free(job->env);
    csn_envs_free(job->argv);
    csn_buf_free(&job->cwd);
    csn_buf_free(&job->input);
    n_held -= job->n_kept;
    csn_buf_free(&job->output);
    csn_buf_free(&job->streams[0]);
    csn_buf_free(&job->streams[1]);
    csn_buf_free(&job->head);
    csn_buf_free(&job->tail);
    csn_boxes_release(job->hold);
    free(job);
    return NULL;
}

bool csn_job_timeout(csn_req *req, const csn_json *body, double *ret_s)
{
    const csn_json *v = csn_json_get(body, "timeout");
    csn_json_type type = csn_json_type_of(v);
    bool is_absent = type == CSN_JSON_NONE || type == CSN_JSON_NULL;

    *ret_s = is_absent ? 0 : csn_json_double(v, -1);
    if (*ret_s >= 0)
        return true;
    csn_req_error(req, 400, "INVALID_REQUEST_BODY", "timeout must be a number of seconds, or 0");
    return false;
}

csn_job *csn_job_new(csn_req *req, const csn_json *envs, const char *cwd, double timeout_s,
                     csn_job_fn *done)
{
    const char *split = csn_req_header(req, "X-Daytona-Split-Output");
    char **env = csn_req_env(req, envs);
    csn_job *job = env ? csn_calloc(1, sizeof(*job)) : NULL;

    if (!env)
        return NULL;
    if (!job) {
        csn_envs_free(env);
        csn_req_error(req, 500, NULL, "out of memory");
        return NULL;
    }
    *job = (csn_job){ .req = req,
                      .hold = csn_boxes_hold(csn_req_server(req)->boxes, csn_req_box_id(req)),
                      .done = done,
                      .is_split = split && strcasecmp(split, "true") == 0,
                      .env = env,
                      .argv = csn_calloc(ARGS_FIRST, sizeof(char *)),
                      .cwd = CSN_BUF_INIT,
                      .input = CSN_BUF_INIT,
                      .output = CSN_BUF_INIT_MAX(2 * CSN_JOB_OUTPUT_MAX),
                      .streams = { CSN_BUF_INIT, CSN_BUF_INIT },
                      .head = CSN_BUF_INIT,
                      .tail = CSN_BUF_INIT };
    if (!job->argv || csn_req_cwd(req, cwd, &job->cwd) < 0 ||
        csn_envs_set(&job->env, "PWD", job->cwd.data) < 0) {
        csn_req_error(req, 500, NULL, "out of memory");
        return csn_job_free(job);
    }
    job->o = (csn_process_options){
        .size = sizeof(job->o),
        .timeout_ms =
            timeout_s > 0 && timeout_s < 1e12 ? (int64_t) (timeout_s * 1000) : CSN_UNLIMITED,
        .output_bytes = CSN_JOB_OUTPUT_MAX,
        .linger_ms = CSN_JOB_LINGER_MS,
        .merge_stderr = !job->is_split,
        .user_data = job,
    };
    return job;
}

/* Room for one more and the NULL: the list is as long as the next power of two. */
static int widen_args(csn_job *job, size_t n)
{
    if (n + 1 < ARGS_FIRST || ((n + 1) & n) != 0)
        return 0;
    char **more = csn_realloc_array(job->argv, 2 * (n + 1), sizeof(*more));
    if (!more)
        return -ENOMEM;
    job->argv = more;
    return 0;
}

int csn_job_arg(csn_job *job, const char *arg)
{
    size_t n = 0;

    while (job->argv[n])
        n++;
    if (n >= ARGS_MAX)
        return -E2BIG;
    if (widen_args(job, n) < 0)
        return -ENOMEM;
    job->argv[n + 1] = NULL;
    job->argv[n] = csn_strdup(arg);
    return job->argv[n] ? 0 : -ENOMEM;
}

void csn_job_no_args(csn_job *job)
{
    for (size_t i = 0; job->argv[i]; i++) {
        free(job->argv[i]);
        job->argv[i] = NULL;
    }
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

static void keep(csn_job *job, csn_buf *buf, const void *data, size_t len)
{
    if (n_held + len > CSN_JOBS_OUTPUT_MAX || csn_buf_append(buf, data, len) < 0) {
        buf->error = 0;
        job->is_cut = true;
        return;
    }
    n_held += len;
    job->n_kept += len;
}

static int on_output(csn_process *process, csn_stream stream, const void *data, size_t len,
                     void *user)
{
    csn_job *job = user;

    (void) process;
    keep(job, &job->output, data, len);
    if (job->is_split)
        keep(job, &job->streams[stream == CSN_STDERR], data, len);
    return 0;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void finish(csn_job *job, int result, const csn_error *err)
{
    if (job->req)
        job->done(job, result, err);
    else
        csn_job_free(job);
}

static void on_exit_of(csn_process *process, const csn_receipt *receipt, void *user)
{
    csn_job *job = user;

    (void) process;
    job->receipt = *receipt;
    finish(job, CSN_OK, NULL);
}

static void on_again(csn_timer *timer, void *user)
{
    (void) timer;
    csn_job_start(user);
}

/* A sandbox is frozen for a moment while it is copied; a command that came just then waits. */
static bool waits(csn_job *job)
{
    if (job->again_until_ns == 0)
        job->again_until_ns = csn_deadline_in_ms(AGAIN_FOR_MS);
    return job->req && !csn_deadline_passed(job->again_until_ns) &&
           csn_timer_set(csn_req_server(job->req)->loop, &job->again, csn_deadline_in_ms(AGAIN_MS),
                         on_again, job) == 0;
}

static void fail_start(csn_job *job, int result, const csn_error *err)
{
    csn_job_fn *retry = job->retry;

    if (result == CSN_E_BUSY && waits(job))
        return;
    job->retry = NULL;
    if (retry)
        retry(job, result, err);
    else
        finish(job, result, err);
}

static void on_started(csn_process *process, int result, const csn_error *err, void *user)
{
    csn_job *job = user;

    job->starting = NULL;
    job->process = process;
    if (result < 0)
        fail_start(job, result, err);
}

static void on_gone(csn_req *req, void *user)
{
    (void) req;
    csn_job_free(user);
}

void csn_job_start(csn_job *job)
{
    csn_error err = { 0 };

    csn_req_keep(job->req, on_gone, job);
    job->o.argv = (const char *const *) job->argv;
    job->o.env = (const char *const *) job->env;
    job->o.cwd = job->cwd.data;
    job->o.stdin_kind = job->input.len > 0 ? CSN_STDIN_BYTES : CSN_STDIN_NONE;
    job->o.stdin_data = job->input.data;
    job->o.stdin_len = job->input.len;
    job->o.on_output = on_output;
    job->o.on_exit = on_exit_of;
    job->starting = csn_process_start_async(csn_req_box(job->req), &job->o, on_started, job, &err);
    if (!job->starting)
        fail_start(job, err.code, &err);
}

/* ---- answering -------------------------------------------------------------------------------------------------- */

static void free_answered(void *user)
{
    csn_job_free(user);
}

static void put_notes(csn_job *job)
{
    const csn_receipt *r = &job->receipt;
    char note[240];

    job->output.max += 1024; /* room for these lines */
    if (r->is_output_cut || job->is_cut)
        (void) csn_buf_printf(&job->output, "\n[caisson: output cut after %zu bytes]\n",
                              job->output.len);
    if (!csn_ending_is_limit(r))
        return;
    csn_ending_text(r, "the command", note, sizeof(note));
    (void) csn_buf_printf(&job->output, "%s[caisson: %s]\n",
                          job->output.len && job->output.data[job->output.len - 1] != '\n' ? "\n"
                                                                                           : "",
                          note); /* sticky: then the note is missing, no more */
    if (!csn_req_is_strict(job->req))
        (void) csn_buf_printf(&job->tail, ",\"ended\":\"%s\"", csn_ending_name(r->ended));
}

static csn_jsonsend_part raw(const char *json, size_t len)
{
    return (csn_jsonsend_part){ json, len, false };
}

static csn_jsonsend_part text(const csn_buf *buf)
{
    return (csn_jsonsend_part){ buf->data, buf->len, true };
}

/* head, the output as the next member's value, the streams, tail. */
static void send_answer(csn_job *job, int status)
{
    static const char out_key[] = ",\"stdout\":", err_key[] = ",\"stderr\":";
    csn_jsonsend_part parts[CSN_JSONSEND_PARTS];
    size_t n = 0;

    if (job->head.error < 0 || job->tail.error < 0) {
        csn_req_error(job->req, 500, NULL, "out of memory");
        csn_job_free(job);
        return;
    }
    parts[n++] = raw(job->head.data, job->head.len);
    parts[n++] = text(&job->output);
    if (job->is_split) {
        parts[n++] = raw(out_key, sizeof(out_key) - 1);
        parts[n++] = text(&job->streams[0]);
        parts[n++] = raw(err_key, sizeof(err_key) - 1);
        parts[n++] = text(&job->streams[1]);
    }
    parts[n++] = raw(job->tail.data, job->tail.len);
    csn_req *req = job->req;
    job->req = NULL;
    csn_jsonsend(req, status, parts, n, free_answered, job);
}

void csn_job_answer(csn_job *job, const char *more)
{
    (void) csn_buf_printf(&job->head, "{\"exitCode\":%d,\"result\":", /* sticky */
                          csn_receipt_status(&job->receipt));
    put_notes(job);
    (void) csn_buf_puts(&job->tail, more);
    (void) csn_buf_putc(&job->tail, '}');
    send_answer(job, 200);
}

void csn_job_answer_failed(csn_job *job, int exit_code, const char *message)
{
    csn_buf body = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&body, false);

    csn_jw_begin_object(&w);
    csn_jw_kint(&w, "exitCode", exit_code);
    csn_jw_kstr(&w, "result", message);
    csn_jw_end_object(&w);
    csn_req_json(job->req, 200, &body);
    csn_job_free(job);
}

void csn_job_answer_timeout(csn_job *job)
{
    static const char message[] = "request timeout: command execution timeout";
    csn_auto(buf) csn_buf words = CSN_BUF_INIT;
    size_t len = job->output.len, tail = len < TAIL_MAX ? len : TAIL_MAX;

    (void) csn_buf_puts(&words, message); /* sticky, harmless: the text is cut then */
    if (tail > 0) {
        (void) csn_buf_puts(&words, tail < len ? "; the end of its output:\n" : "; its output:\n");
        (void) csn_utf8_lossy(NULL, job->output.data + len - tail, tail, &words);
    }
    csn_error_body(job->req, 408, "PROCESS_EXECUTION_TIMEOUT", words.data, &job->head);
    if (job->head.len > 1)
        csn_buf_truncate(&job->head, job->head.len - 1); /* its last brace: more members follow */
    (void) csn_buf_puts(&job->head, ",\"result\":");
    (void) csn_buf_putc(&job->tail, '}');
    send_answer(job, 408);
}
