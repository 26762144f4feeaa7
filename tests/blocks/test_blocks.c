/* Code blocks in real sandboxes; names follow the checklist of the original's behaviour (c7_NN). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caisson/blocks.h>
#include <caisson/image.h>

#include "base/auto.h"
#include "story/story.h"

static void free_blocks(void *b)
{
    csn_blocks_free(b);
}

static csn_blocks *make_blocks(csn_blocks_options o)
{
    csn_blocks *b = NULL;

    o.size = sizeof(o);
    OK(csn_blocks_new(the_engine(), &o, &b, err));
    csn_test_defer(free_blocks, b);
    return b;
}
#define an_executor(...) make_blocks((csn_blocks_options){ __VA_ARGS__ })

static const char *refusal(csn_blocks_options o)
{
    static csn_error err;
    csn_blocks *b = NULL;

    o.size = sizeof(o);
    if (csn_blocks_new(the_engine(), &o, &b, &err) == CSN_OK) {
        csn_blocks_free(b);
        return "accepted";
    }
    return err.message;
}

static void free_result(void *r)
{
    csn_blocks_result_done(r);
    free(r);
}

static csn_blocks_result *run_blocks(csn_blocks *b, const csn_code_block *list, size_t n)
{
    csn_blocks_result *r = calloc(1, sizeof(*r));

    OK(csn_blocks_execute(b, list, n, r, err));
    csn_test_defer(free_result, r);
    return r;
}

#define BLOCK(lang, text) \
    { \
        (text), sizeof(text) - 1, (lang) \
    }
#define run_all(b, ...) \
    run_blocks(b, (const csn_code_block[]){ __VA_ARGS__ }, \
               sizeof((const csn_code_block[]){ __VA_ARGS__ }) / sizeof(csn_code_block))

static void check(const csn_blocks_result *r, int exit_code, const char *output)
{
    if (r->exit_code != exit_code)
        csn_test_note("output: %s", r->output);
    CHECK_INT(r->exit_code, exit_code);
    CHECK_STR(r->output, output);
}

static void check_has(const csn_blocks_result *r, const char *part)
{
    if (!strstr(r->output, part))
        FAIL("'%s' is not in the output: %s", part, r->output);
}

TEST(c7_01_defaults_and_c7_04_generated_name)
{
    csn_blocks *b = an_executor(.name = NULL);

    CHECK(csn_blocks_timeout_s(b) == 60);
    CHECK_INT(strlen(csn_blocks_name(b)), 12);
    CHECK(strncmp(csn_blocks_name(b), "ag2-", 4) == 0);
    CHECK_INT(strlen(csn_blocks_sandbox_id(b)), 32);
}

TEST(c7_05_timeout_below_one_is_refused)
{
    const double bad[] = { 0, -1, 0.5 };

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_STR(refusal((csn_blocks_options){ .timeout_s = &bad[i] }),
                  "Timeout must be greater than or equal to 1.");
}

TEST(c7_06_snapshot_and_image_exclude_each_other)
{
    CHECK(strncmp(refusal((csn_blocks_options){ .snapshot = "", .image = "x" }),
                  "Cannot specify both 'snapshot' and 'image'.", 43) == 0);
}

TEST(c7_07_creation_errors_have_the_right_words)
{
    CHECK_STR(refusal((csn_blocks_options){ .snapshot = "no-such" }),
              "Failed to create Daytona sandbox: snapshot 'no-such' not found");
    CHECK_STR(refusal((csn_blocks_options){ .image = "no-such" }),
              "Failed to create Daytona sandbox: image 'no-such' not found");
    CHECK(strncmp(refusal((csn_blocks_options){ .name = "not a name" }),
                  "Failed to create Daytona sandbox: ", 34) == 0);
}

TEST(c7_20_an_empty_list_is_fine)
{
    csn_blocks *b = an_executor(.name = NULL);
    csn_blocks_result *r = run_blocks(b, NULL, 0);

    check(r, 0, "");
    CHECK_STR(r->sandbox_id, csn_blocks_sandbox_id(b));
}

TEST(c7_21_unsupported_language_is_quoted_as_python_does)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(
        run_all(b, BLOCK("Rust", "x")), 1,
        "Unsupported language: 'Rust'. Supported languages: python, bash, sh, javascript, typescript");
    check(
        run_all(b, BLOCK("it's", "x")), 1,
        "Unsupported language: \"it's\". Supported languages: python, bash, sh, javascript, typescript");
    check(
        run_all(b, BLOCK("", "x")), 1,
        "Unsupported language: ''. Supported languages: python, bash, sh, javascript, typescript");
}

TEST(c7_22_python_is_a_fresh_unbuffered_process_from_stdin)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("python", "import sys; print(sys.argv, __name__)")), 0,
          "['-'] __main__\n");
    check_has(run_all(b, BLOCK("python", "input()")), "EOFError");
    check_has(run_all(b, BLOCK("python", "x = 1\n1/0")), "File \"<stdin>\", line 2");
    check(run_all(
              b, BLOCK("python",
                       "import sys, os\nprint(1)\nprint(2, file=sys.stderr)\nos.system('echo 3')")),
          0, "1\n2\n3\n");
}

TEST(c7_23_to_25_scripts_run_by_their_interpreter_from_a_file)
{
    csn_blocks *b = an_executor(.name = NULL);
    csn_blocks_result *r = run_all(b, BLOCK("bash", "echo $0 ${BASH_VERSION:+bash}"));

    CHECK(strncmp(r->output, "/tmp/ag2_", 9) == 0);
    CHECK_STR(r->output + 9 + 32, ".sh bash\n");
    check(run_all(b, BLOCK("sh", "echo ${BASH_VERSION:-not bash}")), 0, "not bash\n");
    check_has(run_all(b, BLOCK("javascript", "console.log(__filename)")), ".js\n");
}

TEST(c7_26_and_40_typescript_with_types_and_imports)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("ts", "import * as os from 'os';\nconst n: number = 6;\n"
                                 "console.log(n * 7, typeof os.EOL as string)")),
          0, "42 string\n");
}

TEST(c7_27_the_file_is_deleted_also_after_failure_and_time_out)
{
    const double seconds = 4; /* a slow machine starts Python in them */
    csn_blocks *b = an_executor(.timeout_s = &seconds);

    run_all(b, BLOCK("sh", "true"));
    run_all(b, BLOCK("sh", "exit 3"));
    run_all(b, BLOCK("sh", "sleep 60"));
    run_all(b, BLOCK("ts", "const x: number = 1"));
    run_all(b, BLOCK("ts",
                     "setInterval(() => {}, 1000)")); /* ended while the compiled file is in use */
    check(run_all(b, BLOCK("sh", "rm \"$0\"")), 0, "");
    check(
        run_all(b,
                BLOCK("python",
                      "import os; print([n for n in os.listdir('/tmp') if n.startswith('ag2_')])")),
        0, "[]\n");
}

TEST(c7_28_and_38_exit_codes_come_back_with_their_output)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("bash", "for i in 1 2; do echo $i; done; exit 42")), 42, "1\n2\n");
    check(run_all(b, BLOCK("bash", "kill -9 $$")), 137, "");
}

TEST(c7_29_engine_failures_are_results)
{
    csn_blocks *b = an_executor(.name = NULL);
    csn_sandbox *box = NULL;

    OK(csn_sandbox_open(the_engine(), csn_blocks_sandbox_id(b), &box, err));
    OK(csn_sandbox_delete(box, err));
    csn_sandbox_free(box);

    csn_blocks_result *r = run_all(b, BLOCK("python", "1"));

    CHECK_INT(r->exit_code, 1);
    CHECK(strncmp(r->output, "Daytona error: ", 15) == 0);
    CHECK_INT(r->failed_index, 0);
}

TEST(c7_29_and_34_time_out_keeps_the_sandbox_and_the_partial_output)
{
    const double seconds = csn_test_slow();
    csn_blocks *b = an_executor(.timeout_s = &seconds);
    char text[80];

    (void) snprintf(text, sizeof(text), "Execution timed out: command exceeded %d seconds",
                    csn_test_slow());

    for (int i = 0; i < 2; i++) {
        csn_blocks_result *r =
            i ? run_all(b, BLOCK("python", "print('part')\nimport time; time.sleep(60)"))
              : run_all(b, BLOCK("bash", "echo part; sleep 60"));

        check(r, 1, text);
        CHECK_STR(r->partial, "part\n");
        CHECK(r->timed_out);
    }
    check(run_all(b, BLOCK("bash", "pgrep -c sleep")), 1, "0\n");
}

TEST(c7_30_outputs_are_joined_by_one_newline)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("python", "print('first')"), BLOCK("python", "print('second')")), 0,
          "first\n\nsecond\n");
}

TEST(c7_31_stops_at_the_first_failure)
{
    csn_blocks *b = an_executor(.name = NULL);
    csn_blocks_result *r = run_all(b, BLOCK("sh", "echo one"), BLOCK("sh", "echo two; false"),
                                   BLOCK("sh", "touch /tmp/three"));

    check(r, 1, "two\n");
    CHECK_INT(r->n_run, 2);
    CHECK_INT(r->failed_index, 1);
    CHECK_STR(r->runs[0].output, "one\n");
    check(run_all(b, BLOCK("sh", "test -e /tmp/three || echo no")), 0, "no\n");
    check_has(run_all(b, BLOCK("sh", "touch /tmp/ran"), BLOCK("cobol", "x")),
              "Unsupported language: 'cobol'");
    check(run_all(b, BLOCK("sh", "ls /tmp/ran")), 0, "/tmp/ran\n");
}

TEST(c7_32_and_42_same_sandbox_id_in_every_result)
{
    csn_blocks *b = an_executor(.name = NULL);

    CHECK_STR(run_all(b, BLOCK("sh", "true"))->sandbox_id, csn_blocks_sandbox_id(b));
    CHECK_STR(run_all(b, BLOCK("sh", "false"))->sandbox_id, csn_blocks_sandbox_id(b));
    CHECK_STR(run_all(b, BLOCK("x", ""))->sandbox_id, csn_blocks_sandbox_id(b));
}

TEST(c7_33_and_41_aliases_and_mixed_languages)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("py", "open('f', 'w').write('x')"), BLOCK("Shell", "cat f"),
                  BLOCK("JS", "console.log(1 + 1)")),
          0, "\nx\n2\n");
}

TEST(c7_35_to_37_python_errors)
{
    csn_blocks *b = an_executor(.name = NULL);
    csn_blocks_result *r = run_all(b, BLOCK("python", "print(nope)"));

    CHECK(r->exit_code != 0);
    check_has(r, "NameError");
    r = run_all(b, BLOCK("python", "if:"));
    CHECK(r->exit_code != 0);
    check_has(r, "SyntaxError");
    check(run_all(b, BLOCK("python", "import math\nfor i in range(2):\n    print(math.sqrt(i))")),
          0, "0.0\n1.0\n");
}

TEST(c7_44_variables_of_the_environment)
{
    const char *const env[] = { "SECRET=it's", NULL };
    csn_blocks *b = an_executor(.env = env);

    check(run_all(b, BLOCK("python", "import os; print(os.environ['SECRET'])")), 0, "it's\n");
}

TEST(c7_45_and_49_restart_gives_another_sandbox_also_after_loss_and_delete)
{
    csn_blocks *b = an_executor(.name = "restarted");
    char first[40];

    (void) snprintf(first, sizeof(first), "%s", csn_blocks_sandbox_id(b));
    run_all(b, BLOCK("sh", "touch ~/here"));
    OK(csn_blocks_restart(b, err));
    CHECK(strcmp(first, csn_blocks_sandbox_id(b)) != 0);
    check(run_all(b, BLOCK("sh", "ls ~")), 0, "");
    csn_blocks_delete(b);
    OK(csn_blocks_restart(b, err));
    check(run_all(b, BLOCK("sh", "echo alive")), 0, "alive\n");
}

TEST(c7_46_and_47_delete_is_idempotent_and_final)
{
    csn_blocks *b = an_executor(.name = NULL);
    csn_blocks_result r = { 0 };
    csn_error err = { 0 };

    csn_blocks_delete(b);
    csn_blocks_delete(b);
    CHECK(!csn_blocks_sandbox_id(b));
    CHECK_INT(csn_blocks_execute(b, NULL, 0, &r, &err), CSN_E_STATE);
    CHECK_STR(err.message, "Executor has been deleted");
    CHECK_INT(count_entries("boxes"), 0);
}

TEST(c7_53_languages_are_inferred_with_the_sandbox_s_python)
{
    csn_blocks *b = an_executor(.name = NULL);

#define INFER(text) csn_blocks_infer(b, text, sizeof(text) - 1)
    CHECK_STR(INFER("print('hi')"), "python");
    CHECK_STR(INFER("pip install x"), "sh");
    CHECK_STR(INFER("python3 a.py"), "sh");
    CHECK_STR(INFER("this is prose."), "");
    CHECK_STR(INFER("def f(:"), "");
    CHECK_STR(INFER("using System; class A { static void Main() {} }"), "");
}

TEST(shell_blocks_from_windows_run)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("bash", "if true; then\r\n  echo yes\r\nfi\r\n")), 0, "yes\n");
}

TEST(code_with_a_byte_order_mark_runs)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("python", "\xef\xbb\xbfprint(1)")), 0, "1\n");
    check(run_all(b, BLOCK("bash", "\xef\xbb\xbf:; echo 2")), 0, "2\n");
    check(run_all(b, BLOCK("sh", "\xef\xbb\xbf#!/bin/sh\r\necho 3\r\n")), 0, "3\n");
    CHECK_STR(INFER("\xef\xbb\xbfpip install x"), "sh");
    CHECK_STR(INFER("\xef\xbb\xbfprint(1)"), "python");
}

TEST(daemons_do_not_delay_the_result_and_live_on)
{
    csn_blocks *b = an_executor(.name = NULL);

    check(run_all(b, BLOCK("bash", "(setsid sleep 61 &) ; echo done")), 0, "done\n");
    /* It may not have become sleep yet; if it is gone, the block's limit ends the wait. */
    check(run_all(b, BLOCK("bash", "until pgrep -x sleep >/dev/null; do :; done; echo lives")), 0,
          "lives\n");
}

TEST(a_missing_program_is_127_and_named)
{
    const char *const env[] = { "PATH=/usr/lib", NULL };
    csn_blocks *b = an_executor(.env = env);
    csn_blocks_result *r = run_all(b, BLOCK("javascript", "1"));

    CHECK_INT(r->exit_code, 127);
    check_has(r, "node");
    r = run_all(b, BLOCK("typescript", "1"));
    CHECK_INT(r->exit_code, 127);
    check_has(r, "ts-node");
}

TEST(output_beyond_the_cap_is_cut_and_said)
{
    csn_blocks *b = an_executor(.output_bytes = 1000);
    csn_blocks_result *r = run_all(b, BLOCK("sh", "yes | head -c 100000"));

    CHECK_INT(r->exit_code, 0);
    CHECK_INT(r->output_len, 1000);
    CHECK(r->is_cut);
}

static const char *named(const char *executor, const char *config)
{
    static csn_error err;
    csn_blocks *b = NULL;

    if (csn_blocks_by_name(the_engine(), executor, config, &b, &err) < 0)
        return err.message;
    (void) snprintf(err.message, sizeof(err.message), "%s %g", csn_blocks_name(b),
                    csn_blocks_timeout_s(b));
    csn_blocks_free(b);
    return err.message;
}

TEST(c6_an_executor_by_its_name)
{
    CHECK_STR(named("docker", NULL), "Unknown code executor docker");
    CHECK_STR(named("daytona", "{\"name\": \"ag2-named\", \"timeout\": 7}"), "ag2-named 7");
    CHECK_STR(named("daytona", "{\"timeout\": 0}"), "Timeout must be greater than or equal to 1.");
    CHECK_STR(named("daytona", "{\"colour\": 1}"), "unexpected keyword argument 'colour'");
    CHECK_STR(named("daytona", "[]"), "the executor's settings are no JSON object");

    csn_blocks *b = NULL;
    char *reply = NULL;
    size_t len;

    OK(csn_blocks_by_name(the_engine(), "daytona", "{\"env_vars\": {\"WHO\": \"me\"}}", &b, err));
    csn_test_defer(free_blocks, b);
    OK(csn_blocks_reply(run_all(b, BLOCK("sh", "echo $WHO")), &reply, &len, err));
    CHECK_STR(reply, "exitcode: 0 (execution succeeded)\nCode output: me\n");
    free(reply);
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

struct seen {
    char name[80], image[80], env[80];
    int64_t memory_bytes, cpu_milli, disk_bytes, idle_stop_ms;
};

static struct seen settings(const csn_blocks *b)
{
    csn_sandbox *box = NULL;
    csn_sandbox_info info;
    struct seen s = { 0 };

    OK(csn_sandbox_open(the_engine(), csn_blocks_sandbox_id(b), &box, err));
    OK(csn_sandbox_inspect(box, &info, err));
    (void) snprintf(s.name, sizeof(s.name), "%s", info.name);
    (void) snprintf(s.image, sizeof(s.image), "%s", info.image);
    (void) snprintf(s.env, sizeof(s.env), "%s", info.env[0] ? info.env[0] : "");
    s.memory_bytes = info.memory_bytes;
    s.cpu_milli = info.cpu_milli;
    s.disk_bytes = info.disk_bytes;
    s.idle_stop_ms = info.idle_stop_ms;
    csn_sandbox_free(box);
    return s;
}

static void forget_image(void *name)
{
    (void) csn_image_remove(the_engine(), name, NULL); /* the state goes anyway */
}

/* An image with a program that no other has. */
static const char *an_image(void)
{
    csn_sandbox *box = an_ephemeral(.name = NULL);

    CHECK_STR(ending(sh(box, "printf '#!/bin/sh\\necho extra\\n' > ~/extra; chmod +x ~/extra")),
              "exit 0");
    OK(csn_sandbox_snapshot(box, "with-extra", err));
    csn_test_defer(forget_image, (void *) "with-extra");
    return "with-extra";
}

TEST(c7_03_and_09_defaults_reach_the_sandbox)
{
    const char *const env[] = { "K=v", NULL };
    const double limit = 7.5;
    csn_blocks *b =
        an_executor(.name = "mine", .env = env, .timeout_s = &limit, .cpu = 0.5, .memory_gb = 0.25);
    struct seen s = settings(b), plain = settings(an_executor(.output_bytes = 0));

    CHECK_STR(s.name, "mine");
    CHECK_STR(s.env, "K=v");
    CHECK_STR(s.image, "host");
    CHECK(csn_blocks_timeout_s(b) == 7.5);
    CHECK_INT(s.idle_stop_ms, 0);
    CHECK_INT(s.memory_bytes, plain.memory_bytes); /* resources count with an image only */
    CHECK_STR(plain.env, "");
}

TEST(c7_10_to_13_and_51_snapshots_and_images)
{
    const char *image = an_image();
    csn_blocks *snapshot = an_executor(.snapshot = image, .memory_gb = 0.25),
               *whole =
                   an_executor(.image = image, .memory_gb = 0.25, .cpu = 0.5, .disk_gb = 0.0625),
               *part = an_executor(.image = image, .cpu = 0.5);
    struct seen s = settings(snapshot), w = settings(whole), p = settings(part);

    CHECK_STR(s.image, image);
    CHECK_STR(w.image, image);
    CHECK_INT(s.idle_stop_ms, 0);
    CHECK_INT(w.idle_stop_ms, 0);
    CHECK_INT(w.memory_bytes, 256 << 20);
    CHECK_INT(w.cpu_milli, 500);
    CHECK_INT(w.disk_bytes, 64 << 20);
    CHECK(s.memory_bytes != 256 << 20);
    CHECK_INT(p.cpu_milli, 500);
    CHECK_INT(p.memory_bytes, s.memory_bytes);
}

TEST(c7_39_and_43_an_image_with_something_extra)
{
    csn_blocks *b = an_executor(.image = an_image());

    check(run_all(b, BLOCK("sh", "~/extra"), BLOCK("js", "console.log(2 ** 10)")), 0,
          "extra\n\n1024\n");
}

static bool has_no_boxes(void *user)
{
    (void) user;
    return count_entries("boxes") == 0;
}

static bool has_one_box(void *user)
{
    (void) user;
    return count_entries("boxes") == 1;
}

TEST(c7_08_and_48_the_sandbox_ends_with_its_program_however_that_ends)
{
    const int ways[] = { 0, SIGKILL, SIGABRT }; /* 0: it leaves without a word of goodbye */

    (void) the_engine();
    for (size_t k = 0; k < CSN_COUNT(ways); k++) {
        int ends[2];
        char c;

        CHECK(pipe(ends) == 0);
        pid_t pid = fork();
        if (pid == 0) {
            csn_blocks *b = NULL;

            if (csn_blocks_new(another_engine(), NULL, &b, NULL) < 0)
                _exit(1);
            close(ends[1]);
            if (!ways[k])
                _exit(0);
            (void) pause();
        }
        close(ends[1]);
        CHECK(read(ends[0], &c, 1) == 0); /* it closed its end: the executor is there */
        close(ends[0]);
        if (ways[k]) {
            CHECK(has_one_box(NULL));
            kill(pid, ways[k]);
        }
        waitpid(pid, NULL, 0);
        if (!until(has_no_boxes, NULL))
            FAIL("way %d: %d sandboxes stay", ways[k], count_entries("boxes"));
    }
}

TEST(c7_50_a_result_begins_empty_and_names_its_sandbox)
{
    csn_blocks_result none = { 0 };
    csn_blocks *b = an_executor(.name = NULL);

    CHECK_STR(none.sandbox_id, "");
    csn_blocks_result_done(&none);
    CHECK_STR(run_all(b, BLOCK("sh", "true"))->sandbox_id, csn_blocks_sandbox_id(b));
}
