/* SPDX-License-Identifier: Apache-2.0 */
/* POST /process/execute: a command's text to its end (WIRE 9.1).
 *
 * The text is a shell's argument while the kernel takes an argument that long, and beyond that the shell reads it from its
 * stdin before it runs it; either way the command itself reads an empty stdin. Plain words are started without a shell, and
 * when that fails the shell is asked after all, which then says in its own words what is wrong. */
#include <string.h>

#include "server/job.h"
#include "server/plain_words.h"
#include "server/route.h"
#include "server/toolbox.h"

enum { ARGUMENT_MAX = 120 * 1024 }; /* the kernel's limit is 128 KiB for one */

static void on_done(csn_job *job, int result, const csn_error *err)
{
    if (result >= 0 && job->receipt.ended == CSN_ENDED_TIMEOUT) {
        csn_job_answer_timeout(job);
    } else if (result >= 0 && job->receipt.ended == CSN_ENDED_LOST) {
        csn_req_error(job->req, 410, NULL, "the sandbox went away while the command ran");
        csn_job_free(job);
    } else if (result >= 0) {
        csn_job_answer(job, "");
    } else if (result == CSN_E_LOST || result == CSN_E_STATE || result == CSN_E_BUSY ||
               result == CSN_E_NO_MEMORY) {
        csn_req_fail(job->req, err);
        csn_job_free(job);
    } else { /* an unusable directory, mostly */
        csn_job_answer_failed(job, -1, err->message);
    }
}

/* No bash in this image. */
static void with_sh(csn_job *job, int result, const csn_error *err)
{
    if (result != CSN_E_NOT_FOUND || !job->argv[0] || strcmp(job->argv[0], "/bin/bash") != 0) {
        on_done(job, result, err);
        return;
    }
    memcpy(job->argv[0], "/bin/sh", sizeof("/bin/sh"));
    csn_job_start(job);
}

static int shell_args(csn_job *job, const char *command)
{
    size_t len = strlen(command);
    bool is_long = len > ARGUMENT_MAX;

    csn_job_no_args(job);
    job->retry = with_sh;
    if (is_long && csn_buf_append(&job->input, command, len) < 0)
        return -1;
    return csn_job_arg(job, "/bin/bash") < 0 || csn_job_arg(job, "-c") < 0 ||
                   csn_job_arg(job, is_long ? "eval \"$(cat)\"" : command) < 0
               ? -1
               : 0;
}

static const char *command_of(csn_req *req)
{
    return csn_json_get_str(csn_req_json_body(req), "command", "");
}

static void start_in_shell(csn_job *job)
{
    if (shell_args(job, command_of(job->req)) == 0) {
        csn_job_start(job);
        return;
    }
    csn_req_error(job->req, 500, NULL, "out of memory");
    csn_job_free(job);
}

static void after_plain(csn_job *job, int result, const csn_error *err)
{
    (void) result;
    (void) err;
    start_in_shell(job);
}

/* True: it was started, or the request was answered. */
static bool start_plain(csn_job *job, const char *command)
{
    char text[4097], *words[CSN_PLAIN_WORDS_MAX];
    size_t n = 0, len = strlen(command);

    if (len < sizeof(text)) {
        memcpy(text, command, len + 1);
        n = csn_plain_words(text, words);
    }
    for (size_t i = 0; i < n; i++)
        if (csn_job_arg(job, words[i]) < 0)
            return false;
    if (n == 0)
        return false;
    job->retry = after_plain;
    csn_job_start(job);
    return true;
}

static void post_execute(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *command = csn_json_get_str(body, "command", "");
    double timeout_s;
    csn_job *job;

    if (!body)
        return;
    if (command[strspn(command, " \t\r\n")] == '\0') {
        csn_req_error(req, 400, "BAD_REQUEST", "command is required");
        return;
    }
    if (!csn_job_timeout(req, body, &timeout_s))
        return;
    job = csn_job_new(req, csn_json_get(body, "envs"), csn_json_get_str(body, "cwd", NULL),
                      timeout_s, on_done);
    if (job && !start_plain(job, command))
        start_in_shell(job);
}

static const csn_route routes[] = {
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/execute", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, post_execute },
};
const csn_route_table csn_routes_execute = CSN_ROUTE_TABLE(routes);
