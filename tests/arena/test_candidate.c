/* One candidate: steps, log lines and messages to the letter. "A.4", "A.10", "A.11 n" name the rows of the behaviour
 * that the documents promise. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena/entry.h"
#include "arena/pump.h"
#include "arena/run.h"
#include "base/fd.h"
#include "base/time.h"
#include "contest.h"
#include "core/engine.h"

/* ---- a good run ---- */

/* A.11 4, A.4 row 1 */
TEST(a_good_run_logs_eight_lines_and_returns_seven_fields)
{
    const csn_candidate_result *r =
        run_py("import sys\nprint('working')\n"
               "open(sys.argv[2], 'w').write('# artifact\\r\\nno newline at the end')\n");

    CHECK_STR(the_log(), good_log(r));
    CHECK_STR(r->candidate_id, "x");
    CHECK_INT(strlen(r->sandbox_id), 32);
    CHECK(r->success && !r->error_message && !r->timed_out && !r->cancelled);
    CHECK_STR(r->output, "working\n");
    CHECK_STR(r->artifact_content, "# artifact\r\nno newline at the end");
    CHECK_INT(r->artifact_bytes, 33);
    CHECK_INT(r->exit_code, 0);
    CHECK_STR(r->artifact_path, "/home/daytona/x_output.md");
    CHECK(r->runtime_seconds > r->exec_seconds && r->exec_seconds > 0);
    CHECK(r->has_receipt && r->receipt.ended == CSN_ENDED_EXIT);
    check_nothing_left(r);
}

/* A.11 7 */
TEST(the_script_gets_exactly_two_arguments_a_clean_environment_and_empty_input)
{
    const csn_candidate_result *r;

    (void) setenv("CSN_TEST_SECRET", "of the caller", 1);
    r = run_py(
        "import sys, os\nprint(len(sys.argv), sys.argv[0], os.getcwd())\nprint(repr(sys.stdin.read()))\n"
        "for k in sorted(os.environ):\n  if k not in ('LC_CTYPE', 'PWD', 'SHLVL', '_'): print(k + '=' + os.environ[k])\n" WRITE_OK,
        .env = ARGV("EXTRA=mine"));
    CHECK(r->success);
    CHECK(strstr(r->output, "3 /home/daytona/x.py /home/daytona\n''\n"));
    CHECK(strstr(r->output, "EXTRA=mine\nHOME=/home/daytona\nLANG=C.UTF-8\n"));
    CHECK(strstr(r->output, "PYTHONUNBUFFERED=1\n") && strstr(r->output, "TMPDIR=/tmp\n"));
    CHECK(!strstr(r->output, "SECRET"));
}

/* A.11 6 and more: what no shell may touch. */
TEST(objectives_arrive_byte_for_byte)
{
    static const char *const objectives[] = {
        "it's a 'quoted' \"text\"",
        "two\nlines\n\n",
        "$(touch /tmp/x) `id` ${HOME} $1",
        "--help",
        "-c import os",
        "back\\slash \\n",
        "emoji 🏗️ é 漢字",
        " lead and trail ",
        "*?[a-z]{1,2}~!#&;|<>",
        "\x01\x1b[31m\x7f\xff\xfe",
    };

    for (size_t i = 0; i < CSN_COUNT(objectives); i++) {
        const csn_candidate_result *r =
            run_py("import sys, os\nopen(sys.argv[2], 'wb').write(os.fsencode(sys.argv[1]))\n",
                   .objective = objectives[i]);

        CHECK_MEM(r->artifact_content, r->artifact_len, objectives[i], strlen(objectives[i]));
    }
}

TEST(the_longest_objective_arrives_and_one_byte_more_is_refused)
{
    size_t max = CSN_OBJECTIVE_MAX;
    char *text = malloc(max + 2);
    const csn_candidate_result *r;

    CHECK(text);
    for (size_t i = 0; i <= max; i++)
        text[i] = (char) ('!' + i % 90);
    text[max + 1] = '\0';
    r = run_py("import sys\nopen(sys.argv[2], 'w').write(sys.argv[1])\n", .objective = text,
               .objective_len = max);
    CHECK_STR(r->error_message ? r->error_message : "none", "none");
    CHECK_MEM(r->artifact_content, r->artifact_len, text, max);
    r = run_py(WRITE_OK, .objective = text, .objective_len = max + 1);
    CHECK_STR(r->error_message, "Objective too long: 131072 bytes (limit 131071)");
    CHECK(r->runtime_seconds == 0 && !r->sandbox_id);
    CHECK_STR(the_log(), "");
    r = run_py(WRITE_OK, .objective = "a\0b", .objective_len = 3);
    CHECK_STR(r->error_message, "Objective contains a NUL byte");
    free(text);
}

TEST(an_empty_file_is_an_artifact)
{
    const csn_candidate_result *r = run_py("import sys\nopen(sys.argv[2], 'w')\n");

    CHECK(r->success);
    CHECK_STR(r->artifact_content, "");
    CHECK_INT(r->artifact_bytes, 0);
}

TEST(artifacts_are_bytes)
{
    const csn_candidate_result *r =
        run_py("import sys\nopen(sys.argv[2], 'wb').write(bytes(range(256)) * 3)\n");
    unsigned char want[768];

    for (int i = 0; i < 768; i++)
        want[i] = (unsigned char) i;
    CHECK_MEM(r->artifact_content, r->artifact_len, want, sizeof(want));
}

TEST(an_explicit_output_path_is_used_verbatim)
{
    const csn_candidate_result *r =
        run_py("import sys\nopen(sys.argv[2], 'w').write(sys.argv[2])\n",
               .output_path = "/tmp/some where.txt");

    CHECK_STR(r->artifact_content, "/tmp/some where.txt");
    CHECK_STR(r->artifact_path, "/tmp/some where.txt");
    r = run_py(WRITE_OK, .output_path = "relative.md");
    CHECK_STR(r->error_message, "Output path is not absolute: 'relative.md'");
}

TEST(both_streams_are_merged_in_order_and_stderr_is_there_alone)
{
    const csn_candidate_result *r = run_py(
        "import sys, time\nfor i in range(5):\n  print('out', i, flush=True); time.sleep(0.05)\n"
        "  print('err', i, file=sys.stderr, flush=True); time.sleep(0.05)\n" WRITE_OK);

    CHECK_STR(r->output, "out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nout 4\nerr 4\n");
    CHECK_STR(r->stderr_data, "err 0\nerr 1\nerr 2\nerr 3\nerr 4\n");
}

TEST(scripts_run_by_their_suffix_or_their_first_line)
{
    const csn_candidate_result *r =
        run_script("x.sh", "echo \"$0 $#\"; echo \"long enough: $1\" > \"$2\"\n");

    CHECK_STR(r->output, "/home/daytona/x.sh 2\n");
    CHECK_STR(r->artifact_content, "long enough: do it\n");
    r = run_script("x", "#!/bin/sh\necho \"$0\"; echo hi > \"$2\"\n");
    CHECK_STR(r->output, "/home/daytona/x\n");
    CHECK(r->success);
    r = run_script("x.weird", "no idea\n");
    CHECK(strstr(r->error_message, "Could not write script: "));
    CHECK(strstr(r->error_message, "says what runs it"));
    r = run_script("x.js", "require('fs').writeFileSync(process.argv[3], process.argv[2])\n");
    if (r->exit_code == -1 && strstr(r->error_message, "node"))
        SKIP("no node here: %s", r->error_message);
    CHECK_STR(r->artifact_content, "do it");
}

/* ---- failures ---- */

/* A.11 8, A.4 row 3 */
TEST(a_failing_script_still_hands_over_its_artifact)
{
    const csn_candidate_result *r = run_py(WRITE_OK "print('before')\n1 / 0\n");

    CHECK(!r->success);
    CHECK_STR(r->error_message, "Script exited with code 1");
    CHECK_INT(r->exit_code, 1);
    CHECK_STR(r->artifact_content, "a fine artifact\n");
    CHECK(strstr(r->output, "before\nTraceback") && strstr(r->output, "ZeroDivisionError"));
    CHECK(strstr(
        the_log(),
        "x: [Run] Exit code: 1\nx: [Done] Artifact retrieved\nx: [Sandbox] Cleaning up...\n"));
    check_nothing_left(r);
}

/* A.11 9, A.4 row 2, A.10 row 4 */
TEST(success_without_an_artifact_is_a_failure_with_a_warning)
{
    const csn_candidate_result *r = run_py("print('done')\n");

    CHECK(!r->success);
    CHECK_INT(r->exit_code, 0);
    CHECK_STR(r->error_message, "Could not read artifact: exit 1");
    CHECK(!r->artifact_content);
    CHECK_INT(r->artifact_bytes, -1);
    CHECK(strstr(the_log(), "x: [Run] Exit code: 0\nx: [Warn] Could not read artifact: exit 1\n"
                            "x: [Sandbox] Cleaning up...\n"));
    CHECK_STR(csn_candidate_advice(r->error_message),
              "the script must write to its second argument (sys.argv[2])");
}

TEST(death_by_a_signal_is_128_and_its_number)
{
    const csn_candidate_result *r = run_py("import os\nos.kill(os.getpid(), 9)\n");

    CHECK_INT(r->exit_code, 137);
    CHECK_STR(r->error_message, "Script exited with code 137");
    r = run_py("import os\nos.kill(os.getpid(), 11)\n");
    CHECK_INT(r->exit_code, 139);
}

/* A.4 row 4, A.10 row 3, A.11 10 */
TEST(a_script_that_sleeps_forever_is_timed_out)
{
    int64_t start = csn_now_ns();
    const csn_candidate_result *r =
        run_py(WRITE_OK "import time\nprint('partial', flush=True)\ntime.sleep(1000)\n",
               .timeout_ms = 1000);

    CHECK(csn_now_ns() - start < 4 * CSN_NS_PER_S);
    CHECK(!r->success && r->timed_out);
    CHECK_INT(r->exit_code, -1);
    CHECK_STR(r->error_message, "Execution timed out after 1 seconds");
    CHECK_STR(r->output, "partial\n");
    CHECK(!r->artifact_content); /* not read after a time-out */
    CHECK(strstr(the_log(),
                 "x: [Run] Executing...\nx: [Error] Execution timed out after 1 seconds\n"
                 "x: [Sandbox] Cleaning up...\n"));
    CHECK_STR(csn_candidate_advice(r->error_message),
              "raise the limit with --timeout; look for blocking calls");
    check_nothing_left(r);
}

/* A.10 row 2, A.4 row 5 */
TEST(a_missing_script_is_refused_before_any_sandbox)
{
    const csn_candidate_result *r =
        run_options("/nonexistent/x.py", (csn_run_options){ .size = sizeof(csn_run_options) });

    CHECK_STR(r->error_message,
              "Could not write script: /nonexistent/x.py: No such file or directory");
    CHECK(r->runtime_seconds == 0 && !r->sandbox_id);
    CHECK_STR(the_log(), "");
    CHECK_STR(csn_candidate_advice(r->error_message), "does the path exist, and is it readable?");
    r = run_options("/tmp", (csn_run_options){ .size = sizeof(csn_run_options) });
    CHECK_STR(r->error_message, "Could not write script: /tmp: Is a directory");
}

/* A.10 row 1, A.4 row 5, A.11 5: the reason is whole in the message and cut at 50 characters in the log. */
TEST(a_sandbox_that_can_not_be_created_is_a_result)
{
    const csn_candidate_result *r =
        run_py(WRITE_OK, .image = "no-such-image-with-a-name-that-is-long");
    char want[256];

    CHECK(!r->success && !r->sandbox_id && r->runtime_seconds > 0);
    CHECK(strncmp(r->error_message, "Could not create sandbox: ", 26) == 0);
    CHECK(strlen(r->error_message) > 60);
    CHECK(strstr(r->error_message, "no-such-image-with-a-name-that-is-long"));
    (void) snprintf(
        want, sizeof(want),
        "x: [Sandbox] Connecting...\nx: [Sandbox] Creating sandbox...\nx: [Error] %.50s\n",
        r->error_message);
    CHECK_STR(the_log(), want);
    CHECK_STR(csn_candidate_advice(r->error_message), "caisson doctor");
}

/* A.4 row 5: a disk too small for the script. */
TEST(a_script_that_does_not_fit_is_not_uploaded)
{
    size_t len = (size_t) 4 << 20;
    char *text = malloc(len + 1);
    const csn_candidate_result *r;

    memset(text, '#', len);
    text[len] = '\0';
    r = run_py(text, .disk_bytes = 1 << 20);
    CHECK(!r->success && r->sandbox_id);
    CHECK(strncmp(r->error_message, "Could not write script: ", 24) == 0);
    CHECK(strstr(the_log(), "x: [Error] Could not write script: "));
    CHECK(strstr(the_log(), "x: [Sandbox] Cleaning up...\n"));
    CHECK(!strstr(the_log(), "Executing"));
    check_nothing_left(r);
    free(text);
}

TEST(bad_ids_are_refused)
{
    static const char *const ids[] = {
        "",
        "../x",
        "a/b",
        "a b",
        ".hidden",
        "-x",
        "01234567890123456789012345678901234567890123456789012345678901234"
    };

    for (size_t i = 0; i < CSN_COUNT(ids); i++) {
        csn_candidate c = { .size = sizeof(c), .id = ids[i], .script = a_script("x.py", WRITE_OK) };
        csn_run_options o = { .size = sizeof(o), .objective = "x" };
        csn_candidate_result *r = NULL;
        char want[128];

        OK(csn_candidate_run(the_engine(), &c, &o, &r, err));
        (void) snprintf(want, sizeof(want), "Invalid candidate id: '%s'", ids[i]);
        CHECK_STR(r->error_message, want);
        CHECK(r->runtime_seconds == 0 && !r->sandbox_id);
        csn_candidate_result_free(r);
    }
}

/* ---- setup ---- */

TEST(a_setup_step_runs_before_the_script)
{
    const csn_candidate_result *r =
        run_py("import sys\nopen(sys.argv[2], 'w').write(open('/home/daytona/made').read())\n",
               .setup = "echo made by setup | tee made");

    CHECK_STR(r->artifact_content, "made by setup\n");
    CHECK_STR(r->setup_output, "made by setup\n");
    CHECK_STR(r->output, "");
    CHECK(strstr(the_log(), "x: [Sandbox] Script uploaded\nx: [Setup] Installing dependencies...\n"
                            "x: [Setup] Exit code: 0\nx: [Run] Executing...\n"));
}

TEST(a_failing_setup_step_ends_the_run_and_names_the_missing_network)
{
    const csn_candidate_result *r = run_py(WRITE_OK, .setup = "echo oops; exit 7");

    CHECK_STR(r->error_message,
              "Dependency installation failed (exit 7); network access is disabled");
    CHECK_STR(r->setup_output, "oops\n");
    CHECK(strstr(the_log(), "x: [Setup] Exit code: 7\nx: [Sandbox] Cleaning up...\n"));
    CHECK(!strstr(the_log(), "Executing") && !r->artifact_content);
    CHECK_INT(r->exit_code, -1);
}

TEST(a_setup_step_has_a_limit_of_its_own)
{
    const csn_candidate_result *r = run_py(WRITE_OK, .setup = "sleep 100", .setup_timeout_ms = 500);

    CHECK_STR(r->error_message, "Dependency installation timed out after 0.5 seconds");
    CHECK(!r->timed_out && strstr(the_log(), "x: [Sandbox] Cleaning up...\n"));
    check_nothing_left(r);
}

static const char make_wheel[] =
    "import sys, zipfile\n"
    "z = zipfile.ZipFile(sys.argv[2], 'w')\n"
    "z.writestr('csndemo.py', 'WORD = \"from a wheel\"\\n')\n"
    "info = 'csndemo-1.0.dist-info/'\n"
    "z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: csndemo\\nVersion: 1.0\\n')\n"
    "z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\n'\n"
    "           'Tag: py3-none-any\\n')\n"
    "z.writestr(info + 'RECORD', '')\nz.close()\n";

TEST(pip_installs_from_a_directory_of_wheels_without_network)
{
    const char *wheels = a_directory("wheels");
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    const csn_candidate_result *r;

    csn_buf_printf(&path, "%s/csndemo-1.0-py3-none-any.whl", wheels);
    CHECK(run_py(make_wheel, .artifact_file = path.data)->success);
    r = run_py("import csndemo, sys\nopen(sys.argv[2], 'w').write(csndemo.WORD)\n",
               .pip = ARGV("csndemo"), .find_links = wheels);
    if (r->error_message && strstr(r->error_message, "pip is not installed"))
        SKIP("%s", r->error_message);
    if (!r->success)
        FAIL("%s: %s", r->error_message, r->setup_output);
    CHECK_STR(r->artifact_content, "from a wheel");
    r = run_py(WRITE_OK, .pip = ARGV("csn-no-such-package"), .find_links = wheels);
    CHECK_STR(r->error_message,
              "Dependency installation failed (exit 1); network access is disabled");
}

/* ---- limits and failures that no real sandbox shows on demand: an engine with one verb broken ---- */

static csn_backend_ops broken, whole;

static void mend(void *user)
{
    csn_engine *engine = user;

    engine->backend->ops = &whole;
}

/* The engine's table, to be broken. */
static csn_backend_ops *break_engine(void)
{
    if (!whole.name) {
        whole = *the_engine()->backend->ops;
        csn_test_defer(mend, the_engine());
    }
    broken = whole;
    the_engine()->backend->ops = &broken;
    return &broken;
}

typedef struct single {
    csn_pump pump;
    csn_candidate_result *result;
} single;

static void single_log(csn_job *job, const char *message)
{
    keep_log(job->plan->id, message, NULL);
}

static void single_done(csn_job *job)
{
    single *s = job->owner;

    s->result = job->result;
    job->result = NULL;
    csn_pump_end(&s->pump, job);
}

static void free_result(void *user)
{
    csn_candidate_result_free(user);
}

static const csn_candidate_result *run_broken(csn_run_options o)
{
    static const csn_job_watch watch = { single_log, NULL, single_done, NULL };
    csn_candidate c = { .size = sizeof(c), .id = "x", .script = a_script("x.py", WRITE_OK) };
    csn_entry entry;
    single s = { 0 };
    csn_job *job;

    forget_log();
    o.objective = "do it";
    OK(csn_run_options_fill(&o, err));
    CHECK_INT(csn_entry_prepare(&entry, &c, &o), 0);
    csn_pump_init(&s.pump, the_engine(), &o);
    job = csn_job_new(&entry.plan, the_engine(), &watch, &s);
    csn_pump_add(&s.pump, job);
    csn_job_begin(job, csn_now_ns());
    while (!s.result)
        (void) csn_pump_once(&s.pump);
    csn_pump_done(&s.pump);
    csn_entry_done(&entry);
    csn_test_defer(free_result, s.result);
    return s.result;
}

static void give_up(csn_op *op)
{
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

static int never_put(csn_box *box, const csn_put_call *call, csn_op *op, csn_error *err)
{
    (void) box, (void) call, (void) err;
    op->give_up = give_up;
    return CSN_OK;
}

static int never_get(csn_box *box, const csn_get_call *call, csn_op *op, csn_error *err)
{
    (void) box, (void) call, (void) err;
    op->give_up = give_up;
    return CSN_OK;
}

static void say_failed(int result, const csn_error *err, void *user)
{
    csn_error wrong = { .code = CSN_E_BUSY, .message = "the keeper is gone fishing" };

    (void) result, (void) err;
    csn_op_end(user, CSN_E_BUSY, &wrong);
}

static int failing_delete(csn_box *box, csn_op *op, csn_error *err)
{
    csn_op *step = csn_op_new_plain(the_engine(), say_failed, op, err);

    return csn_op_begun(step, whole.delete(box, step, err)) ? CSN_OK : CSN_E_SYSTEM;
}

/* A.11 11, A.10 row 5 */
TEST(a_failing_cleanup_only_warns)
{
    const csn_candidate_result *r;

    break_engine()->delete = failing_delete;
    r = run_broken((csn_run_options){ .size = sizeof(csn_run_options) });
    CHECK(r->success && !r->error_message);
    CHECK(strstr(
        the_log(),
        "x: [Sandbox] Cleaning up...\nx: [Warn] Cleanup failed: the keeper is gone fishing\n"));
}

/* A.11 14 */
TEST(the_time_limits_are_separate)
{
    const csn_candidate_result *r;

    break_engine()->put = never_put;
    r = run_broken((csn_run_options){ .size = sizeof(csn_run_options), .upload_timeout_ms = 200 });
    CHECK_STR(r->error_message, "Could not write script: timed out after 0.2 seconds");
    CHECK(!r->timed_out);
    break_engine()->get = never_get;
    r = run_broken(
        (csn_run_options){ .size = sizeof(csn_run_options), .artifact_timeout_ms = 300 });
    CHECK_STR(r->error_message, "Could not read artifact: timed out after 0.3 seconds");
    CHECK(strstr(the_log(), "x: [Warn] Could not retrieve artifact: timed out after 0.3 seconds\n"
                            "x: [Sandbox] Cleaning up...\n"));
    CHECK_INT(r->exit_code, 0);
}

TEST(defaults_are_the_documented_ones)
{
    csn_run_options o = { .size = sizeof(o) };

    OK(csn_run_options_fill(&o, err));
    CHECK_INT(o.upload_timeout_ms, 30000);
    CHECK_INT(o.timeout_ms, 60000);
    CHECK_INT(o.artifact_timeout_ms, 10000);
    CHECK_INT(o.setup_timeout_ms, 60000);
    CHECK_INT(o.output_bytes, 10 << 20);
    CHECK_INT(o.artifact_bytes, 64 << 20);
}

/* ---- the local copy ---- */

TEST(the_local_copy_is_whole_and_a_stale_one_is_gone)
{
    const char *dir = a_directory("copies");
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    csn_buf_printf(&path, "%s/deep/er/post.md", dir);
    CHECK(run_py(WRITE_OK, .artifact_file = path.data)->success);
    CHECK_INT(csn_read_file(AT_FDCWD, path.data, &text, 1000), 0);
    CHECK_STR(text.data, "a fine artifact\n");
    CHECK(!run_py("print(1)\n", .artifact_file = path.data)->success);
    CHECK(access(path.data, F_OK) < 0);
}
