/* SPDX-License-Identifier: Apache-2.0 */
/* POST /process/code-run: a program in one of three languages (WIRE 9.2). Its text goes in by stdin, which the program itself
 * then finds at its end; its arguments are real arguments. */
#include <string.h>

#include "base/str.h"
#include "server/artifacts.h"
#include "server/charts_source.h"
#include "server/job.h"
#include "server/route.h"
#include "server/toolbox.h"

/* ---- the answer ------------------------------------------------------------------------------------------------- */

/* Takes the charts out of the output. `more` gets them as members of the answer. */
static void take_charts(csn_job *job, csn_buf *more)
{
    csn_auto(buf) csn_buf charts = CSN_BUF_INIT, rest = CSN_BUF_INIT;
    const csn_buf *o = &job->output;

    if (!memmem(o->data, o->len, CSN_ARTIFACT_MARKER, sizeof(CSN_ARTIFACT_MARKER) - 1))
        return;
    rest.max = o->max;
    csn_artifacts_split(o->data, o->len, &rest, &charts);
    if (charts.len == 0 || charts.error < 0 || rest.error < 0)
        return;
    csn_buf_clear(&job->output);
    (void) csn_buf_append(&job->output, rest.data, rest.len);  /* it fitted before */
    (void) csn_buf_puts(more, ",\"artifacts\":{\"charts\":["); /* sticky: no charts then */
    (void) csn_buf_append(more, charts.data, charts.len);
    (void) csn_buf_puts(more, "]}");
}

static void answer(csn_job *job)
{
    csn_auto(buf) csn_buf more = CSN_BUF_INIT;

    take_charts(job, &more);
    csn_job_answer(job, more.error < 0 ? "" : more.data);
}

static void on_done(csn_job *job, int result, const csn_error *err)
{
    if (result >= 0 && job->receipt.ended == CSN_ENDED_TIMEOUT) {
        csn_job_answer_timeout(job);
    } else if (result >= 0 && job->receipt.ended == CSN_ENDED_LOST) {
        csn_req_error(job->req, 410, NULL, "the sandbox went away while the program ran");
        csn_job_free(job);
    } else if (result >= 0) {
        answer(job);
    } else if (result == CSN_E_NOT_FOUND) { /* the interpreter is not in this sandbox */
        csn_job_answer_failed(job, 127, err->message);
    } else {
        csn_req_fail(job->req, err);
        csn_job_free(job);
    }
}

/* ---- languages -------------------------------------------------------------------------------------------------- */

static bool draws(const char *code)
{
    for (const char *p = code; (p = strstr(p, "matplotlib")); p++) {
        const char *line = p;
        while (line > code && line[-1] != '\n')
            line--;
        line += strspn(line, " \t");
        if (csn_starts_with(line, "import ") || csn_starts_with(line, "from "))
            return true;
    }
    return strstr(code, "import seaborn") != NULL;
}

static int python(csn_job *job, const char *code)
{
    csn_jw w = CSN_JW_INIT(&job->input, false);

    if (csn_job_arg(job, "python3") < 0 || csn_job_arg(job, "-u") < 0 || csn_job_arg(job, "-") < 0)
        return -1;
    if (!draws(code))
        return csn_buf_puts(&job->input, code);
    (void) csn_buf_puts(&job->input, "CODE="); /* sticky; a JSON string is a Python string */
    csn_jw_str(&w, code);
    (void) csn_buf_putc(&job->input, '\n');
    return csn_buf_append(&job->input, csn_charts_source, csn_charts_source_size);
}

/* The script's own entry, "-", goes: arguments begin at 1. On the first line, so that lines keep their numbers. */
static const char shift[] = "process.argv.splice(1,1);";

static int javascript(csn_job *job, const char *code)
{
    if (csn_job_arg(job, "node") < 0 || csn_job_arg(job, "-") < 0)
        return -1;
    (void) csn_buf_puts(&job->input, shift); /* sticky */
    return csn_buf_puts(&job->input, code);
}

/* esbuild takes 16 ms; ts-node, where it is all there is, seconds. */
static const char ts_script[] =
    "if command -v esbuild >/dev/null 2>&1; then "
    "js=$(esbuild --loader=ts --bundle --platform=node --format=cjs --packages=external --log-level=warning) || exit 1; "
    "printf '%s\\n' \"process.argv.splice(1,1);$js\" | node - \"$@\"; exit $?; fi\n"
    "d=$(mktemp -d) && cat >\"$d/code.ts\" || exit 1; trap 'rm -rf \"$d\"' EXIT\n"
    "if command -v ts-node >/dev/null 2>&1; then "
    "printf 'process.argv.splice(1,1);require(\"%s\");' \"$d/code.ts\" >\"$d/run.ts\"; "
    "ts-node -T -O '{\"module\":\"commonjs\"}' \"$d/run.ts\" \"$@\" </dev/null\n"
    "elif command -v tsx >/dev/null 2>&1; then tsx \"$d/code.ts\" \"$@\" </dev/null\n"
    "else echo 'TypeScript needs esbuild, ts-node or tsx in the sandbox' >&2; exit 127; fi\n";

static int typescript(csn_job *job, const char *code)
{
    if (csn_job_arg(job, "/bin/sh") < 0 || csn_job_arg(job, "-c") < 0 ||
        csn_job_arg(job, ts_script) < 0 || csn_job_arg(job, "sh") < 0)
        return -1;
    return csn_buf_puts(&job->input, code);
}

static const struct language {
    const char *name;
    int (*prepare)(csn_job *job, const char *code);
} languages[] = {
    { "python", python },
    { "javascript", javascript },
    { "typescript", typescript },
};

static const struct language *find_language(const char *name)
{
    for (size_t i = 0; i < CSN_COUNT(languages); i++)
        if (strcmp(languages[i].name, name) == 0)
            return &languages[i];
    return NULL;
}

/* ---- the request ------------------------------------------------------------------------------------------------ */

static int add_args(csn_job *job, const csn_json *argv)
{
    for (size_t i = 0; i < csn_json_count(argv); i++)
        if (csn_job_arg(job, csn_json_str(csn_json_at(argv, i), "")) < 0)
            return -1;
    return 0;
}

static void post_code_run(csn_req *req)
{
    const csn_json *body = csn_req_json_body(req);
    const char *code = csn_json_get_str(body, "code", NULL);
    const struct language *language = find_language(csn_json_get_str(body, "language", ""));
    double timeout_s;
    csn_job *job;

    if (!body)
        return;
    if (!code || !language) {
        csn_req_error(req, 400, "BAD_REQUEST",
                      !code ? "code is required"
                            : "language must be python, javascript or typescript");
        return;
    }
    if (!csn_job_timeout(req, body, &timeout_s))
        return;
    job = csn_job_new(req, csn_json_get(body, "envs"), NULL, timeout_s, on_done);
    if (!job)
        return;
    if (language->prepare(job, code) < 0 || add_args(job, csn_json_get(body, "argv")) < 0) {
        csn_req_error(req, 400, "BAD_REQUEST", "too much code or too many arguments");
        csn_job_free(job);
        return;
    }
    csn_job_start(job);
}

static const csn_route routes[] = {
    { CSN_PLANE_TOOLBOX, CSN_POST, "/process/code-run", CSN_SCOPE_BOX, CSN_BODY_WHOLE, 0,
      CSN_ROUTE_TENANT, post_code_run },
};
const csn_route_table csn_routes_code_run = CSN_ROUTE_TABLE(routes);
