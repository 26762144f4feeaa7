/* Sessions in real sandboxes; names follow the checklist of the original's behaviour (b13_NN). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caisson/interp.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/time.h"
#include "helpers.h"

/* ---- results ---------------------------------------------------------------------------------------------------- */

TEST(b13_01_two_executes_share_one_context)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    csn_exec_result *r = execute(i, "x = 2");

    CHECK_INT(csn_result_kind(r), CSN_EXEC_TEXT);
    CHECK_STR(csn_result_text(r, NULL), "");
    CHECK_STR(value(i, "SUBMIT(x + 3)"), "{\"output\":5}");
}

TEST(card_basic_execution)
{
    csn_interp *i = an_interp(.timeout_s = 300);
    int64_t answer;

    OK(csn_interp_start(i, err));
    csn_exec_result *r =
        execute(i, "\nimport math\nSUBMIT(answer=math.factorial(10), status=\"ok\")\n");

    CHECK_INT(csn_final_int(r, "answer", &answer), CSN_OK);
    CHECK_INT(answer, 3628800);
    CHECK_STR(csn_final_str(r, "status", NULL), "ok");
    CHECK(!csn_final_get(r, "other"));
    OK(csn_interp_shutdown(i, err));
}

TEST(card_multi_step_with_buffers)
{
    csn_interp *i = an_interp(.timeout_s = 600);

    CHECK_STR(
        value(
            i,
            "add_buffer('findings', 'First observation')\nadd_buffer('findings', 'Second observation')\n"
            "SUBMIT(step='collected')"),
        "{\"step\":\"collected\"}");
    CHECK_STR(value(i, "items = get_buffer('findings')\nSUBMIT(count=len(items), items=items)"),
              "{\"count\":2,\"items\":[\"First observation\",\"Second observation\"]}");
}

TEST(b5_texts_of_the_outcomes)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    csn_exec_result *r = execute(i, "print('out')\n1/0");

    CHECK_INT(csn_result_kind(r), CSN_EXEC_ERROR);
    CHECK_STR(csn_result_text(r, NULL), "out\nZeroDivisionError: division by zero");
    CHECK_STR(csn_result_error_name(r), "ZeroDivisionError");
    CHECK(strstr(csn_result_traceback(r), "File \"<stdin>\", line 2"));
    r = execute(i, "import sys\nprint('o')\nprint('e', file=sys.stderr)");
    CHECK_STR(csn_result_text(r, NULL), "o\ne\n");
    CHECK(csn_result_flags(r) & CSN_RESULT_HAD_STDERR);
    r = execute(i, "print('verbatim ')");
    CHECK_STR(csn_result_text(r, NULL), "verbatim \n");
    r = execute(i, "exit(3)");
    CHECK_INT(csn_result_kind(r), CSN_EXEC_TEXT);
}

TEST(b4_numbers_of_any_kind)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    csn_exec_result *r = execute(
        i,
        "SUBMIT(n=float('nan'), big=10**30, f=1.5, b=True, s='a\\0\\u00e4', z=None, l=[float('inf')])");
    int64_t n;
    double d;
    int b;
    size_t len;

    CHECK_INT(csn_final_double(r, "n", &d), CSN_OK);
    CHECK(d != d);
    CHECK_INT(csn_final_int(r, "big", &n), CSN_E_LIMIT);
    CHECK_STR(csn_final_get(r, "big"), "1000000000000000000000000000000");
    CHECK_INT(csn_final_double(r, "f", &d), CSN_OK);
    CHECK(d == 1.5);
    CHECK_INT(csn_final_bool(r, "b", &b), CSN_OK);
    CHECK(b);
    CHECK(csn_final_str(r, "s", &len));
    CHECK_INT(len, 4);
    CHECK(strstr(csn_final_json(r), "\"n\":\"NaN\""));
    CHECK(strstr(csn_final_json(r), "[\"Infinity\"]"));
}

TEST(b13_03_to_05_declared_fields)
{
    csn_interp *i = an_interp(.timeout_s = 0);

    OK(csn_interp_set_output_fields(i, (const char *const[]){ "a:int", "b", NULL }, err));
    CHECK_STR(value(i, "SUBMIT(1, b=2)"), "{\"a\":1,\"b\":2}");
    CHECK_STR(value(i, "SUBMIT(1)"),
              "TypeError: SUBMIT() missing 1 required positional argument: 'b'");
    CHECK_STR(value(i, "SUBMIT(1, 2, c=3)"),
              "TypeError: SUBMIT() got an unexpected keyword argument 'c'");
    OK(csn_interp_set_output_fields(i, NULL, err));
    CHECK_STR(value(i, "SUBMIT(c=3)"), "{\"c\":3}");
}

TEST(b3_variables_and_environment_of_one_execute)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    const char *const envs[] = { "WHO=me=you", NULL };

    CHECK_STR(final_of(execute(i, "import os\nSUBMIT(v['a'], os.environ['WHO'], str(n))",
                               .vars = "{\"v\": {\"a\": 99999999999999999999}, \"n\": NaN}",
                               .envs = envs)),
              "{\"output\":[99999999999999999999,\"me=you\",\"nan\"]}");
    CHECK_STR(value(i, "SUBMIT(v['a'] % 10, os.environ.get('WHO'))"), "{\"output\":[9,null]}");

    csn_exec_result *r = NULL;
    csn_execute_options bad = { .size = sizeof(bad), .vars = "{\"not a name\": 1}" };
    csn_error err = { 0 };

    CHECK_INT(csn_interp_execute(i, "1", 1, &bad, &r, &err), CSN_E_INVALID);
    bad.vars = "{\"class\": 1}";
    CHECK_INT(csn_interp_execute(i, "1", 1, &bad, &r, &err), CSN_E_INVALID);
    CHECK_STR(err.message, "variable name 'class' is a Python keyword");
    CHECK_STR(final_of(execute(i, "SUBMIT(classes)", .vars = "{\"classes\": 1, \"match\": 2}")),
              "{\"output\":1}");
}

TEST(b5_output_beyond_the_cap_is_counted)
{
    csn_interp *i = an_interp(.output_bytes = 1000);
    csn_exec_result *r = execute(i, "print('x' * (5 << 20))\nSUBMIT(1)");
    size_t len;

    CHECK_INT(csn_result_kind(r), CSN_EXEC_FINAL);
    csn_result_stream(r, 1, &len);
    CHECK_INT(len, 1000);
    CHECK_INT(csn_result_bytes(r, 1), (5 << 20) + 1);
    CHECK(csn_result_flags(r) & CSN_RESULT_STDOUT_CUT);
}

struct seen {
    char text[4096];
};

static void note_event(const char *json, void *user)
{
    struct seen *s = user;
    size_t n = strlen(s->text);

    (void) snprintf(s->text + n, sizeof(s->text) - n, "%s\n", json);
}

TEST(b5_events_tell_start_and_end)
{
    struct seen s = { "" };
    csn_interp *i = an_interp(.on_event = note_event, .user_data = &s);

    execute(i, "x  =\n1\n");
    execute(i, "SUBMIT(k=1)");
    CHECK(strstr(s.text, "\"phase\":\"start\""));
    CHECK(strstr(s.text, "\"result_kind\":\"final_output\",\"output_keys\":[\"k\"]"));
    CHECK(strstr(s.text, "\"error_type\":\"SyntaxError\""));
    CHECK(strstr(s.text, "\"code_preview\":\"x = 1\""));
    CHECK(strstr(s.text,
                 "\"code_hash\":\"2cbf73b05e1f071b\"")); /* printf 'SUBMIT(k=1)' | sha256sum */
}

TEST(b13_50_write_file_tells_before_and_after)
{
    struct seen s = { "" };
    csn_interp *i = an_interp(.on_event = note_event, .user_data = &s);

    OK(csn_interp_write_file(i, "d/f.txt", "bytes", 5, err));
    CHECK(strstr(
        s.text,
        "\"durable_write_started\",\"path\":\"/home/daytona/workspace/daytona-workspace/d/f.txt\","
        "\"bytes_total\":5,\"bytes_written\":0"));
    CHECK(strstr(s.text, "\"bytes_written\":5"));
    CHECK_STR(value(i, "SUBMIT(open('d/f.txt').read())"), "{\"output\":\"bytes\"}");
}

TEST(b13_53_slots_are_given_back_exactly_once)
{
    CHECK(setenv("FLEET_MAX_CONCURRENT_SANDBOXES", "1", 1) == 0);
    csn_interp *a = an_interp(.is_sync = 1), *b = an_interp(.is_sync = 1);

    for (int k = 0; k < 3; k++) { /* each needs the other's slot */
        CHECK_STR(value(a, "SUBMIT(1)"), "{\"output\":1}");
        OK(csn_interp_shutdown(a, err));
        OK(csn_interp_shutdown(a, err));
        CHECK_STR(value(b, "SUBMIT(2)"), "{\"output\":2}");
        OK(csn_interp_shutdown(b, err));
    }
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

TEST(b9_a_loop_is_interrupted_and_the_state_survives)
{
    csn_interp *i = an_interp(.execute_timeout_s = 1);
    csn_exec_result *r;

    execute(i, "x = 7");
    r = execute(i, "print('began')\nwhile True: pass");
    CHECK_INT(csn_result_kind(r), CSN_EXEC_FAILURE);
    CHECK_STR(csn_result_text(r, NULL), "Execution timed out after 1 seconds");
    CHECK_STR(csn_result_category(r), "execution_timeout");
    CHECK_STR(csn_result_stream(r, 1, NULL), "began\n");
    CHECK(csn_result_flags(r) & CSN_RESULT_STATE_PRESERVED);
    CHECK_STR(value(i, "SUBMIT(x)"), "{\"output\":7}");
}

TEST(b9_code_that_ignores_the_interrupt_is_killed)
{
    csn_interp *i = an_interp(.execute_timeout_s = 1);
    int64_t t;

    OK(csn_interp_start(i, err));
    t = csn_now_ns();
    csn_exec_result *r = execute(
        i, "import signal\nx = 1\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass");

    CHECK((csn_now_ns() - t) / CSN_NS_PER_MS < 4500);
    CHECK_STR(csn_result_category(r), "execution_timeout");
    CHECK(!(csn_result_flags(r) & CSN_RESULT_STATE_PRESERVED));
    r = execute(i, "SUBMIT('x' in globals())");
    CHECK_STR(csn_final_json(r), "{\"output\":false}");
    CHECK(csn_result_flags(r) & CSN_RESULT_STATE_RESET);
}

TEST(b9_submit_before_the_limit_is_no_success)
{
    csn_interp *i = an_interp(.execute_timeout_s = 1);

    CHECK_INT(csn_result_kind(
                  execute(i, "try:\n    SUBMIT(1)\nexcept BaseException: pass\nwhile True: pass")),
              CSN_EXEC_FAILURE);
}

TEST(b9_the_lifetime_ends_everything)
{
    csn_interp *i = an_interp(.timeout_s = csn_test_slow(), .execute_timeout_s = 60);
    csn_exec_result *r = execute(i, "import time\ntime.sleep(60)");
    char text[64];

    CHECK_STR(csn_result_category(r), "sandbox_expired");
    (void) snprintf(text, sizeof(text), "Sandbox lifetime of %d seconds exceeded", csn_test_slow());
    CHECK_STR(csn_result_text(r, NULL), text);
    CHECK(!csn_interp_sandbox_id(i));
    CHECK_STR(csn_result_category(execute(i, "1")), "sandbox_expired");
    OK(csn_interp_shutdown(i, err));
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}");
}

/* ---- callbacks -------------------------------------------------------------------------------------------------- */

TEST(b13_02_the_answer_comes_back_unchanged)
{
    csn_interp *i = an_interp(.llm = echo);

    CHECK_STR(value(i, "SUBMIT(answer=llm_query('{\"looks\": [\"like JSON\"]}'))"),
              "{\"answer\":\"{\\\"looks\\\": [\\\"like JSON\\\"]}\"}");
    CHECK_STR(
        value(
            i,
            "SUBMIT(llm_query('q', context='c'), llm_query_batched(['a', 'b', 'c'], context='x'))"),
        "{\"output\":[\"c\\n\\nq\",[\"x\\n\\na\",\"x\\n\\nb\",\"x\\n\\nc\"]]}");
    CHECK_STR(value(i, "llm_query('  ')"), "ValueError: prompt cannot be empty");
    CHECK_STR(value(i, "SUBMIT(llm_query_batched([]), llm_query_batched('one'))"),
              "{\"output\":[[],[\"one\"]]}");
}

TEST(b8_the_budget_is_all_or_nothing)
{
    csn_interp *i = an_interp(.llm = echo, .max_llm_calls = 3);
    int64_t used, max;

    execute(i, "llm_query('1')");
    CHECK_STR(
        value(i, "llm_query_batched(['a', 'b', 'c'])"),
        "RuntimeError: LLM call limit exceeded: 1 + 3 > 3. Use Python code for aggregation instead of making more LLM "
        "calls.");
    CHECK_STR(value(i, "SUBMIT(llm_query_batched(['a', 'b']))"), "{\"output\":[\"a\",\"b\"]}");
    csn_interp_budget(i, &used, &max);
    CHECK_INT(used, 3);
    CHECK(strstr(value(i, "llm_query('x')"), "LLM call limit exceeded: 3 + 1 > 3."));
}

static int refuse(const char *prompt, size_t len, int64_t timeout_ms, char **ret_text,
                  csn_error *err, void *user)
{
    (void) len;
    (void) timeout_ms;
    (void) ret_text;
    (*(int *) user)++;
    err->code = strstr(prompt, "auth") ? CSN_E_DENIED : CSN_E_SYSTEM;
    (void) snprintf(err->message, sizeof(err->message),
                    "provider says: api_key=hunter2 sk-abcdefghijklmnopqrstuvwx %s", prompt);
    return err->code;
}

TEST(b13_63_credentials_are_redacted_and_failures_raised)
{
    int n = 0;
    csn_interp *i = an_interp(.llm = refuse, .user_data = &n);
    const char *text = value(i, "llm_query('why')");

    CHECK(strstr(text, "RuntimeError: "));
    CHECK(!strstr(text, "sk-abcdef"));
    CHECK(strstr(value(i, "llm_query_batched(['a', 'b'])"),
                 "llm_query_batched failed for 2/2 prompts: prompt[0]: RuntimeError: "));
    CHECK_INT(n, 3);
    CHECK(strstr(value(i, "llm_query('auth')"), "LLM authentication failed"));
    CHECK(strstr(value(i, "llm_query('again')"), "was not asked again"));
    CHECK_INT(n, 4);
}

TEST(b8_no_model_names_the_settings)
{
    csn_interp *i = an_interp(.timeout_s = 0);

    CHECK(strstr(value(i, "llm_query('x')"), "DSPY_LM_MODEL"));
}

static int add(const char *args, const char *kwargs, char **ret_json, csn_error *err, void *user)
{
    csn_auto(json) csn_json *a = NULL;

    (void) kwargs;
    (void) user;
    if (csn_json_parse(args, strlen(args), &a, NULL) < 0 || csn_json_count(a) != 2) {
        (void) snprintf(err->message, sizeof(err->message), "add takes two numbers");
        return CSN_E_INVALID;
    }
    *ret_json = malloc(64);
    (void) snprintf(
        *ret_json, 64, "[%lld]",
        (long long) (csn_json_int(csn_json_at(a, 0), 0) + csn_json_int(csn_json_at(a, 1), 0)));
    return CSN_OK;
}

TEST(b13_12_and_25_tools_of_the_host)
{
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        csn_interp *i = an_interp(.is_sync = is_sync);

        OK(csn_interp_register_tool(i, "add", NULL, add, NULL, err));
        FAILS(csn_interp_register_tool(i, "SUBMIT", NULL, add, NULL, err), CSN_E_INVALID);
        FAILS(csn_interp_register_tool(i, "not a name", NULL, add, NULL, err), CSN_E_INVALID);
        CHECK_STR(value(i, "SUBMIT(add(2, 3))"), "{\"output\":[5]}");
        CHECK_STR(value(i, "add(1)"), "ValueError: add takes two numbers");
        CHECK_STR(
            value(i,
                  "from concurrent.futures import ThreadPoolExecutor as P\n"
                  "with P(16) as p: SUBMIT(sum(r[0] for r in p.map(add, range(100), range(100))))"),
            "{\"output\":9900}");
        CHECK_INT(csn_result_callbacks(execute(i, "add(1, 1); add(1, 1)")), 2);
        OK(csn_interp_register_tool(i, "sub", "(a, b=1)", add, NULL, err));
        CHECK_STR(value(i, "SUBMIT(sub(4))"), "{\"output\":[5]}");
        CHECK(strstr(value(i, "fetch_document_text('x')"),
                     "RuntimeError: fetch_document_text failed"));
        CHECK(strstr(value(i, "fetch_document_text('http://192.0.2.1/')"),
                     "(does the sandbox have a network?)"));
        CHECK_STR(
            value(
                i,
                "store_evidence('k', [1]); SUBMIT(fetch_evidence('k')['content'], list_evidence(), fetch_evidence('z'))"),
            "{\"output\":[[1],[\"k\"],null]}");
    }
}

static int hang(const char *args, const char *kwargs, char **ret_json, csn_error *err, void *user)
{
    char c;

    (void) args;
    (void) kwargs;
    (void) err;
    (void) !read(*(int *) user, &c, 1); /* until the test lets go */
    *ret_json = strdup("1");
    return CSN_OK;
}

TEST(b7_a_callback_has_its_limit)
{
    int ends[2];

    CHECK(pipe(ends) == 0);
    csn_interp *i = an_interp(.tool_timeout_s = 1);

    OK(csn_interp_register_tool(i, "hang", NULL, hang, &ends[0], err));
    CHECK_STR(value(i, "hang()"), "RuntimeError: Tool call failed: Tool call timeout");
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}");
    close(ends[1]);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

TEST(the_loop_ends_with_what_the_model_saw)
{
    csn_interp *i = an_interp(.llm = planner);
    csn_rlm_options o = { .size = sizeof(o), .max_iterations = 2 };
    csn_rlm_result r = { 0 };

    CHECK_INT(csn_rlm_run(i, "silent", &o, &r, NULL), CSN_E_PROTOCOL);
    o.context = "input";
    OK(csn_rlm_run(i, "shout", &o, &r, err));
    CHECK_STR(r.final_json, "{\"answer\":\"INPUT\"}");
    CHECK_INT(r.iterations, 1);
    csn_rlm_result_done(&r);
}

/* Asks for the inputs in code, and keeps what it was told. */
static int look_at_inputs(const char *prompt, size_t len, int64_t timeout_ms, char **ret_text,
                          csn_error *err, void *user)
{
    (void) timeout_ms;
    (void) err;
    csn_buf_append(user, prompt, len);
    *ret_text = strdup("SUBMIT(answer=[len(prompt), prompt[-4:], len(context), context[-4:]])");
    return CSN_OK;
}

TEST(b8_inputs_are_variables_and_the_planner_sees_previews)
{
    csn_auto(buf) csn_buf seen = CSN_BUF_INIT_MAX(64 << 20);
    csn_interp *i = an_interp(.llm = look_at_inputs, .user_data = &seen);
    csn_rlm_options o = { .size = sizeof(o), .max_iterations = 1 };
    csn_rlm_result r = { 0 };
    csn_auto(buf) csn_buf task = CSN_BUF_INIT;
    csn_auto(buf) csn_buf context = CSN_BUF_INIT;

    for (int n = 0; n < 5000; n++) {
        csn_buf_printf(&task, "t%04d ", n);
        csn_buf_printf(&context, "ä%04d ", n);
    }
    csn_buf_puts(&task, "tend");
    csn_buf_puts(&context, "cend");
    o.context = context.data;
    OK(csn_rlm_run(i, task.data, &o, &r, err));
    CHECK_STR(r.final_json, "{\"answer\":[30004,\"tend\",30004,\"cend\"]}");
    csn_rlm_result_done(&r);
    CHECK(strstr(seen.data, "prompt (str, 30004 characters)"));
    CHECK(strstr(seen.data, "context (str, 30004 characters)"));
    CHECK(strstr(seen.data, "t0000 ") && strstr(seen.data, "ä0000 "));
    CHECK(!strstr(seen.data, "t2500 ") && !strstr(seen.data, "ä2500 "));
    CHECK(strstr(seen.data, "tend") && strstr(seen.data, "cend"));
    CHECK(seen.len < 16384);

    csn_buf_clear(&seen);
    CHECK_STR(value(i, "SUBMIT(sub_rlm('do it', 'x' * 20000 + 'tail'))"),
              "{\"output\":\"[5,\\\"o it\\\",20004,\\\"tail\\\"]\"}");
    CHECK(seen.len < 16384);
}

/* ---- sessions --------------------------------------------------------------------------------------------------- */

TEST(b13_38_exported_state_resumes_with_its_variables)
{
    csn_interp *i = an_interp(.is_kept = 1), *again;
    char *state, id[40];

    execute(i, "x = 41");
    (void) snprintf(id, sizeof(id), "%s", csn_interp_sandbox_id(i));
    state = exported(i);
    OK(csn_interp_shutdown(i, err));
    again = an_interp(.timeout_s = 0);
    OK(csn_interp_import_state(again, state, strlen(state), err));
    CHECK_STR(value(again, "SUBMIT(x + 1)"), "{\"output\":42}");
    CHECK_STR(csn_interp_sandbox_id(again), id);
    CHECK_STR(exported(again), state);
    CHECK_STR(metadata(again, "sandbox_transition"), "resumed");
}

TEST(b13_39_a_stale_context_gives_a_new_one)
{
    csn_interp *i = an_interp(.is_kept = 1, .deletes_context = 1), *again;
    char *state;

    execute(i, "x = 1\nopen('f', 'w').write('kept')");
    state = exported(i);
    OK(csn_interp_shutdown(i, err));
    again = an_interp(.timeout_s = 0);
    OK(csn_interp_import_state(again, state, strlen(state), err));
    csn_exec_result *r = execute(again, "SUBMIT('x' in globals(), open('f').read())");

    CHECK_STR(final_of(r), "{\"output\":[false,\"kept\"]}");
    CHECK(csn_result_flags(r) & CSN_RESULT_STATE_RESET);
    CHECK(strcmp(exported(again), state) != 0);
}

TEST(b13_42_what_cannot_be_resumed_is_made_again)
{
    static const char state[] =
        "{\"daytona\":{\"sandbox_id\":\"0123456789abcdef0123456789abcdef\",\"context_id\":\"1\"}}";
    csn_interp *i = an_interp(.timeout_s = 0);

    OK(csn_interp_import_state(i, state, sizeof(state) - 1, err));
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}");
    CHECK_STR(metadata(i, "sandbox_transition"), "recreated");
    CHECK_STR(metadata(i, "runtime_degraded"), "true");
    CHECK_STR(metadata(i, "runtime_failure_category"), "sandbox_resume_error");
}

TEST(b2_malformed_state_is_as_if_there_were_none)
{
    const char *const bad[] = {
        "",
        "{",
        "[]",
        "{\"daytona\": 3}",
        "{\"daytona\": {\"sandbox_id\": \"../../x\"}}",
        "{\"daytona\": {\"context_paths\": [1, null], \"context_id\": \"-5\"}}"
    };
    csn_interp *i = an_interp(.timeout_s = 0);

    for (size_t k = 0; k < CSN_COUNT(bad); k++)
        OK(csn_interp_import_state(i, bad[k], strlen(bad[k]), err));
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}");
    CHECK_STR(metadata(i, "sandbox_transition"), "created");
}

TEST(b2_a_sandbox_that_vanished_is_made_again)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    csn_sandbox *box = NULL;

    execute(i, "x = 1");
    OK(csn_sandbox_open(the_engine(), csn_interp_sandbox_id(i), &box, err));
    OK(csn_sandbox_delete(box, err));
    csn_sandbox_free(box);
    csn_exec_result *r = execute(i, "SUBMIT('x' in globals())");

    if (csn_result_kind(r) == CSN_EXEC_FAILURE) /* its end was noticed in the middle of it */
        r = execute(i, "SUBMIT('x' in globals())");
    CHECK_STR(final_of(r), "{\"output\":false}");
}

TEST(b13_43_shutdown_twice_and_start_again)
{
    csn_interp *i = an_interp(.timeout_s = 0);

    OK(csn_interp_shutdown(i, err));
    OK(csn_interp_start(i, err));
    OK(csn_interp_start(i, err));
    OK(csn_interp_shutdown(i, err));
    OK(csn_interp_shutdown(i, err));
    CHECK_INT(count_boxes(), 0);
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}");
}

/* ---- workspace -------------------------------------------------------------------------------------------------- */

TEST(b13_44_a_session_stages_everything)
{
    char *repo = make_repo("proj.git", "one");
    const char *const context[] = { repo, " ", repo, NULL };
    csn_interp *i = an_interp(.repo_url = repo, .volume_name = "vol", .context_paths = context);

    CHECK_STR(
        value(i, "SUBMIT(REPO_PATH, open('README.md').read(), str(MEMORY_ROOT))"),
        "{\"output\":[\"/home/daytona/workspace/proj\",\"one\\n\",\"/home/daytona/memory\"]}");
    CHECK_STR(
        value(
            i,
            "import json\nm = json.load(open('.fleet-rlm/context/manifest.json'))['sources']\n"
            "SUBMIT(len(m), m[0]['source_id'], m[0]['kind'], m[0]['file_count'], read_file(m[0]['staged_path'] + '/README.md'))"),
        "{\"output\":[1,\"context-1\",\"directory\",1,\"one\\n\"]}");
    CHECK_STR(
        value(i, "import os\nSUBMIT(sorted(os.listdir(MEMORY_ROOT)))"),
        "{\"output\":[\"artifacts\",\"buffers\",\"knowledge\",\"logs\",\"memories\",\"memory\",\"meta\",\"sessions\","
        "\"skills\",\"uploads\"]}");
    CHECK_STR(
        value(
            i,
            "SUBMIT(run('git config remote.origin.url')['stdout'].strip() == context['repo_url'])"),
        "{\"output\":true}");
}

TEST(b10_refs_are_found_as_people_paste_them)
{
    char *repo = make_repo("r", "one");
    const char *const refs[][2] = { { "feature/x", "two" },
                                    { "v2", "two" },
                                    { "feature/x/src/main.py", "two" },
                                    { "main", "one" } };

    for (size_t k = 0; k < CSN_COUNT(refs); k++) {
        csn_interp *i = an_interp(.repo_url = repo, .repo_ref = refs[k][0]);
        char want[64];

        (void) snprintf(want, sizeof(want), "{\"output\":\"%s\\n\"}", refs[k][1]);
        CHECK_STR(value(i, "SUBMIT(open('README.md').read())"), want);
        OK(csn_interp_shutdown(i, err));
    }
    csn_interp *i = an_interp(.repo_url = repo, .repo_ref = "nope");
    csn_exec_result *r = execute(i, "1");

    CHECK_STR(csn_result_category(r), "sandbox_create_clone_error");
    CHECK_STR(csn_result_phase(r), "repo_clone");
    CHECK_STR(csn_result_text(r, NULL),
              "Daytona repo clone failure: requested ref is not available: nope");
    CHECK_INT(count_boxes(), 0);
}

TEST(b13_40_a_change_of_workspace_keeps_the_state)
{
    char *one = make_repo("a/proj", "first"), *two = make_repo("b/proj", "second");
    csn_interp *i = an_interp(.repo_url = one);
    char id[40];

    execute(i, "x = 5");
    (void) snprintf(id, sizeof(id), "%s", csn_interp_sandbox_id(i));
    OK(csn_interp_configure_workspace(i, two, NULL, NULL, NULL, 0, err));
    CHECK_STR(value(i, "SUBMIT(x, open('README.md').read())"), "{\"output\":[5,\"second\\n\"]}");
    CHECK_STR(csn_interp_sandbox_id(i), id);
    CHECK_STR(metadata(i, "workspace_reconfigured"), "true");
    CHECK_STR(metadata(i, "sandbox_transition"), "reused");
    need_volumes();
    OK(csn_interp_configure_workspace(i, two, NULL, NULL, "vol", 0, err));
    CHECK_STR(value(i, "SUBMIT('x' in globals())"), "{\"output\":false}");
    CHECK_STR(metadata(i, "sandbox_transition"), "recreated");
}

TEST(b13_41_a_failed_change_makes_a_new_sandbox)
{
    char *repo = make_repo("proj", "x");
    csn_interp *i = an_interp(.repo_url = repo);

    execute(i, "import shutil, os\nos.chdir('/')\nshutil.rmtree(REPO_PATH + '/.git')\nx = 1");
    OK(csn_interp_configure_workspace(i, repo, "feature/x", NULL, NULL, 0, err));
    CHECK_STR(value(i, "SUBMIT('x' in globals(), open('README.md').read())"),
              "{\"output\":[false,\"two\\n\"]}");
    CHECK_STR(metadata(i, "sandbox_transition"), "recreated");
    CHECK_STR(metadata(i, "runtime_degraded"), "true");
}

TEST(b10_documents_are_staged_with_their_text)
{
    char command[2048], dir[512];
    const char *const context[] = { dir, NULL };

    (void) snprintf(dir, sizeof(dir), "%s/papers", csn_test_dir());
    (void) snprintf(command, sizeof(command),
                    "mkdir '%s' && cd '%s' && python3 '%s/tests/interp/make_documents.py' . && "
                    "printf 'PK\\003\\004bad' > bad.docx && chmod -R a+rX .",
                    dir, dir, getenv("CSN_SOURCE"));
    CHECK(shell(command));
    csn_interp *i = an_interp(.context_paths = context);

    CHECK_STR(
        value(
            i,
            "import json\nm = json.load(open('.fleet-rlm/context/manifest.json'))['sources'][0]\n"
            "SUBMIT(m['extraction_method'], m['file_count'], m['skipped_count'], "
            "[w.split(':')[0] for w in m['warnings']], read_file(m['staged_path'] + '/paper.pdf.extracted.txt'), "
            "open(m['staged_path'] + '/paper.pdf', 'rb').read(5).decode())"),
        "{\"output\":[\"text\",9,0,[\"Skipped bad.docx\"],\"Paper says (hi)\\nsecond line\\n\",\"%PDF-\"]}");
}

TEST(b10_missing_context_is_named)
{
    const char *const context[] = { "/no/such/thing", NULL };
    csn_interp *i = an_interp(.context_paths = context);
    csn_exec_result *r = execute(i, "1");

    CHECK_STR(csn_result_text(r, NULL), "Context path does not exist: /no/such/thing");
    CHECK_STR(csn_result_category(r), "context_stage_error");
}

/* ---- volumes ---------------------------------------------------------------------------------------------------- */

TEST(card_volume_persistence)
{
    csn_interp *i = an_interp(.timeout_s = 300, .volume_name = "my-project");

    CHECK_STR(
        value(
            i,
            "import json, pathlib\nout = pathlib.Path('/home/daytona/memory/knowledge/report.json')\n"
            "out.parent.mkdir(parents=True, exist_ok=True)\nout.write_text(json.dumps({'key': 'value'}))\n"
            "SUBMIT(saved=str(out))"),
        "{\"saved\":\"/home/daytona/memory/knowledge/report.json\"}");
    OK(csn_interp_shutdown(i, err));
    CHECK_STR(
        value(
            i,
            "import json, pathlib\ndata = json.loads(pathlib.Path('/home/daytona/memory/knowledge/report.json').read_text())\n"
            "SUBMIT(data=data)"),
        "{\"data\":{\"key\":\"value\"}}");
}

TEST(two_sessions_on_one_volume_lose_nothing)
{
    csn_interp *a = an_interp(.volume_name = "both"), *b = an_interp(.volume_name = "both");
    static const char work[] =
        "import threading\ndef work(who):\n    for n in range(200):\n"
        "        save_to_volume('%s/%d' % (who, n), 'x' * n)\n"
        "        with open('/home/daytona/memory/log', 'a') as f: f.write(who + '\\n')\n";

    execute(a, work);
    execute(b, work);
    execute(
        b, "t = threading.Thread(target=work, args=('b',))\nt.start()"); /* goes on while a works */
    CHECK_STR(value(a, "work('a')"), "");
    CHECK_STR(value(b, "t.join()"), "");
    CHECK_STR(
        value(
            a,
            "import os\nlines = open('/home/daytona/memory/log').read().split()\n"
            "SUBMIT(lines.count('a'), lines.count('b'), len(os.listdir('/home/daytona/memory/a')), "
            "len(os.listdir('/home/daytona/memory/b')))"),
        "{\"output\":[200,200,200,200]}");
}

TEST(b13_64_to_66_a_volume_is_looked_at_from_outside)
{
    csn_interp *i = an_interp(.volume_name = "look");
    csn_auto(mem) char *tree = NULL;
    csn_auto(mem) char *file = NULL;
    csn_auto(mem) char *none = NULL;

    execute(
        i,
        "import os\nsave_to_volume('d/e/f/g.txt', 'hello')\nos.symlink('/etc/passwd', '/home/daytona/memory/link')");
    OK(csn_interp_shutdown(i, err));
    OK(csn_volume_tree(the_engine(), "look", "/", 2, &tree, err));
    CHECK(strstr(tree, "\"path\": \"/d/e\""));
    CHECK(!strstr(tree, "g.txt"));
    CHECK(strstr(tree, "\"truncated\": true"));
    OK(csn_volume_cat(the_engine(), "look", "d/e/f/g.txt", 3, &file, err));
    CHECK(strstr(file, "\"content\": \"hel\""));
    CHECK(strstr(file, "\"size\": 5"));
    CHECK(strstr(file, "\"truncated\": true"));
    FAILS(csn_volume_cat(the_engine(), "look", "../x", 0, &none, err), CSN_E_INVALID);
    FAILS(csn_volume_tree(the_engine(), "look", "a/../../b", 0, &none, err), CSN_E_INVALID);
    FAILS(csn_volume_cat(the_engine(), "look", "", 0, &none, err), CSN_E_INVALID);
    CHECK_INT(csn_volume_cat(the_engine(), "look", "nothing", 0, &none, NULL), CSN_E_NOT_FOUND);
}

/* ---- smoke ------------------------------------------------------------------------------------------------------ */

static const char *smoke(const char *repo, const char *ref, const char *key)
{
    static char shown[256];
    csn_auto(mem) char *json = NULL;
    csn_auto(json) csn_json *doc = NULL;

    (void) csn_interp_smoke(the_engine(), repo, ref, 0, &json, NULL); /* the report says it */
    CHECK_INT(csn_json_parse(json, strlen(json), &doc, NULL), 0);
    (void) snprintf(shown, sizeof(shown), "%s/%s/%lld",
                    csn_json_get_str(doc, "termination_phase", ""),
                    csn_json_get_str(doc, key, "null"),
                    (long long) csn_json_get_int(doc, "persisted_state_value", -1));
    return shown;
}

TEST(b13_68_to_71_the_smoke_test)
{
    char *good = make_repo("good", "text"), *empty = make_repo("empty", "");

    CHECK_STR(smoke(good, NULL, "finalization_mode"), "completed/SUBMIT/5");
    CHECK_STR(smoke(empty, NULL, "error_category"), "exec_step_1/driver_execution_error/-1");
    CHECK_STR(smoke(good, "no-such", "error_category"), "repo_clone/sandbox_create_clone_error/-1");
    CHECK_STR(smoke("/nowhere", NULL, "error_category"),
              "repo_clone/sandbox_create_clone_error/-1");
    CHECK_INT(count_boxes(), 0);
}

/* ---- hostile code ----------------------------------------------------------------------------------------------- */

TEST(hostile_code_ends_itself_at_most)
{
    static const char *const codes[] = {
        "import os\nos._exit(3)",
        "import os\nos.closerange(0, 4096)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "import sys\nsys.setrecursionlimit(10**7)\ndef f(): f()\nf()",
        "import ctypes\nctypes.string_at(0)",
        "import os\nfor n in range(3, 300):\n    try: os.write(n, b'B' + b'\\xff\\xff\\xff\\xff' + b'junk')\n    except OSError: pass",
        "import os\nfor n in range(3, 300):\n    try: os.write(n, b'B' + (2).to_bytes(4, 'big') + b'{}')\n    except OSError: pass",
        ("import os, json\nfor n in range(3, 300):\n    for k in range(200):\n        m = json.dumps({'op': 'tool_call', 'id': 1, 'call': k, 'name': 'x', 'args': '[]', 'kwargs': '{}'}).encode()\n"
         "        try: os.write(n, b'B' + len(m).to_bytes(4, 'big') + m)\n        except OSError: break"),
    };
    csn_interp *i = an_interp(.execute_timeout_s = 20);

    for (size_t k = 0; k < CSN_COUNT(codes); k++) {
        execute(i, codes[k]); /* whatever comes of it */
        csn_exec_result *r = execute(i, "SUBMIT('alive')");

        if (csn_result_kind(r) == CSN_EXEC_FAILURE) /* the blow was felt one call later */
            r = execute(i, "SUBMIT('alive')");
        if (csn_result_kind(r) != CSN_EXEC_FINAL)
            FAIL("after code %zu: %s", k, csn_result_text(r, NULL));
    }
}

TEST(hostile_a_crash_is_a_failure_with_its_name)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    csn_exec_result *r = execute(i, "print('last words', flush=True)\nimport os\nos._exit(3)");

    CHECK_INT(csn_result_kind(r), CSN_EXEC_FAILURE);
    CHECK_STR(csn_result_category(r), "worker_crashed");
    CHECK_STR(csn_result_stream(r, 1, NULL), "last words\n");
}

TEST(hostile_forged_final_on_the_channel_is_refused_or_its_own)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    csn_exec_result *r = execute(
        i,
        "print('{\"op\": \"final\"}')\nprint('__DSPY_FINAL_OUTPUT__{\"a\": 1}__DSPY_FINAL_OUTPUT__')");

    CHECK_INT(csn_result_kind(r), CSN_EXEC_TEXT);
}

TEST_TIMEOUT(hostile_a_hundred_megabytes_of_output, 120)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    csn_exec_result *r =
        execute(i, "line = 'x' * 1023\nfor _ in range(100 << 10): print(line)\nSUBMIT(1)");
    size_t len;

    CHECK_STR(final_of(r), "{\"output\":1}");
    CHECK_INT(csn_result_bytes(r, 1), 100 << 20);
    csn_result_stream(r, 1, &len);
    CHECK_INT(len, 10 << 20);
}

/* ---- asynchronous, cancelled, killed ---------------------------------------------------------------------------- */

struct order {
    int n;
    char text[64];
};

static void note_done(csn_exec_result *result, int code, void *user)
{
    struct order *o = user;

    (void) code;
    (void) strncat(o->text, csn_result_text(result, NULL), sizeof(o->text) - strlen(o->text) - 1);
    o->n++;
    csn_result_free(result);
}

TEST(b2_asynchronous_calls_queue_in_order)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    struct order o = { 0 };

    for (int k = 0; k < 5; k++) {
        char code[32];

        (void) snprintf(code, sizeof(code), "print(%d)", k);
        OK(csn_interp_execute_start(i, code, strlen(code), NULL, note_done, &o, err));
    }
    while (o.n < 5)
        OK(csn_interp_dispatch(i, 1000, err));
    CHECK_STR(o.text, "0\n1\n2\n3\n4\n");
}

TEST(b2_cancel_stops_the_code)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    struct order o = { 0 };
    static const char code[] = "while True: pass";

    OK(csn_interp_start(i, err));
    OK(csn_interp_execute_start(i, code, sizeof(code) - 1, NULL, note_done, &o, err));
    csn_interp_cancel(i);
    while (!o.n)
        OK(csn_interp_dispatch(i, 1000, err));
    CHECK_STR(o.text, "Execution cancelled");
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}");
}

/* What the test waits for, or two minutes. */
static void dispatch_until(csn_interp *i, const struct order *o, int n)
{
    int64_t deadline = csn_deadline_in_ms(120000);

    while (o->n < n && !csn_deadline_passed(deadline))
        OK(csn_interp_dispatch(i, 1000, err));
    CHECK_INT(o->n, n);
}

static void start_all(csn_interp *i, const char *const *codes, struct order *o)
{
    for (; *codes; codes++)
        OK(csn_interp_execute_start(i, *codes, strlen(*codes), NULL, note_done, o, err));
}

TEST(b3_a_queue_goes_on_after_its_process_died)
{
    static const char *const codes[] = { "import os; os._exit(3)", "print(1)", "print(2)", NULL };
    csn_interp *i = an_interp(.timeout_s = 0);
    struct order o = { 0 };

    start_all(i, codes, &o);
    dispatch_until(i, &o, 3);
    CHECK_STR(o.text, "the interpreter process ended1\n2\n");
    start_all(i, codes, &o);
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}"); /* behind the others, and not stuck there */
    CHECK_INT(o.n, 6);
}

TEST(b2_shutdown_ends_what_is_queued)
{
    static const char *const codes[] = { "while True: pass", "while True: pass", "print(1)", NULL };
    csn_interp *i = an_interp(.timeout_s = 0);
    struct order o = { 0 };

    start_all(i, codes, &o);
    OK(csn_interp_shutdown(i, err));
    CHECK_INT(o.n, 3);
    CHECK_STR(value(i, "SUBMIT(1)"), "{\"output\":1}");
}

static void on_text(int stream, const char *data, size_t len, void *user)
{
    (void) stream;
    (void) !write(*(int *) user, data, len);
}

/* A child that executes until it is killed; its state goes to a file first. */
static pid_t start_victim(bool is_kept, const char *state_file, int to)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    csn_engine *e = another_engine();
    csn_interp_options o = {
        .size = sizeof(o), .is_kept = is_kept, .on_output = on_text, .user_data = &to
    };
    csn_interp *i = NULL;
    csn_exec_result *r = NULL;
    char *state = NULL;
    static const char code[] = "print('in', flush=True)\nimport time\ntime.sleep(600)";

    csn_error err = { 0 };

    if (csn_interp_new(e, &o, &i, &err) < 0 ||
        csn_interp_execute(i, "x = 12", 6, NULL, &r, &err) < 0 ||
        csn_interp_export_state(i, &state, &err) < 0) {
        csn_test_note("the victim: %s", err.message);
        _exit(1);
    }
    int fd = open(state_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void) !write(fd, state, strlen(state));
    close(fd);
    (void) csn_interp_execute(i, code, sizeof(code) - 1, NULL, &r, NULL);
    _exit(0);
}

static void kill_in_the_middle(bool is_kept, const char *state_file)
{
    int ends[2];
    char text[16] = "";

    CHECK(pipe(ends) == 0);
    pid_t pid = start_victim(is_kept, state_file, ends[1]);

    close(ends[1]);
    for (size_t n = 0; n < 3; n++) /* it may come in pieces */
        CHECK(read(ends[0], text + n, 1) == 1);
    CHECK_STR(text, "in\n");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ends[0]);
}

TEST(killed_in_the_middle_without_a_session_leaves_nothing)
{
    char file[512];

    (void) the_engine();
    (void) snprintf(file, sizeof(file), "%s/victim.json", the_state());
    kill_in_the_middle(false, file);
    if (!until(has_no_boxes, NULL))
        FAIL("%d sandboxes stay", count_boxes());
}

TEST(killed_in_the_middle_a_kept_session_resumes_with_its_variables)
{
    char file[512], state[4096] = "";
    csn_interp *i;

    (void) the_engine();
    (void) snprintf(file, sizeof(file), "%s/victim.json", the_state());
    kill_in_the_middle(true, file);
    FILE *f = fopen(file, "r");
    size_t n = fread(state, 1, sizeof(state) - 1, f);

    fclose(f);
    i = an_interp(.timeout_s = 0);
    OK(csn_interp_import_state(i, state, n, err));
    csn_exec_result *r = execute(i, "SUBMIT(x)");

    CHECK_STR(final_of(r), "{\"output\":12}");
    CHECK(!(csn_result_flags(r) & CSN_RESULT_STATE_RESET));
    OK(csn_interp_shutdown(i, err));
    CHECK_INT(count_boxes(), 0);
}

static long resident_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;

    (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    FILE *f = fopen(path, "r");

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

TEST_TIMEOUT(ten_thousand_executes_keep_memory_flat, 180)
{
    csn_interp *i = an_interp(.timeout_s = 0);
    /* The kernel may make a large page of small ones, half of them never used. */
    const char *const memory =
        "m = {l.split(':')[0]: int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.endswith('kB\\n')}\n"
        "SUBMIT(m['Rss'] - m['AnonHugePages'])";
    int64_t inside[2];
    long outside[2];

    execute(i, "x = 0");
    for (int half = 0; half < 2; half++) {
        for (int k = 0; k < 5000; k++) {
            csn_exec_result *r = NULL;

            OK(csn_interp_execute(i, "x += 1; print(x)", 16, NULL, &r, err));
            csn_result_free(r);
        }
        CHECK_INT(csn_final_int(execute(i, memory), "output", &inside[half]), CSN_OK);
        outside[half] = resident_kib(getpid());
    }
    CHECK_STR(value(i, "SUBMIT(x)"), "{\"output\":10000}");
    csn_test_note("inside %lld → %lld KiB, outside %ld → %ld KiB", (long long) inside[0],
                  (long long) inside[1], outside[0], outside[1]);
    CHECK(inside[1] - inside[0] < 1024);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* they keep what was freed, to watch it */
    CHECK(outside[1] - outside[0] < 1024);
#endif
}

/* ---- large values ------------------------------------------------------------------------------------------------ */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* Python is not slowed down */
/* How often as long SUBMIT takes as Python needs to write and read the same value. */
static double submit_ratio(csn_interp *i)
{
    static const char measure[] = "import json, time\n"
                                  "start = time.monotonic()\n"
                                  "json.loads(json.dumps(v))\n"
                                  "SUBMIT(time.monotonic() - start)";
    double best_python = 1e9, best_submit = 1e9, seconds;

    /* Both are as fast as their best: on a busy machine it takes more of them until other programs were in neither. */
    for (int n = 0; n < 4 || (n < 16 && best_submit > 3 * best_python); n++) {
        CHECK_INT(csn_final_double(execute(i, measure), "output", &seconds), CSN_OK);
        best_python = seconds < best_python ? seconds : best_python;

        int64_t start = csn_now_ns();
        csn_exec_result *r = NULL;

        OK(csn_interp_execute(i, "SUBMIT(v)", 9, NULL, &r, err));
        seconds = (double) (csn_now_ns() - start) / 1e9;
        CHECK_INT(csn_result_kind(r), CSN_EXEC_FINAL);
        CHECK(strlen(csn_final_get(r, "output")) > (size_t) 58 << 20);
        csn_result_free(r);
        best_submit = seconds < best_submit ? seconds : best_submit;
    }
    csn_test_note("json.dumps and loads %.3f s, SUBMIT %.3f s: %.2f times", best_python,
                  best_submit, best_submit / best_python);
    return best_submit / best_python;
}

TEST(b4_submit_of_60_mib_takes_three_times_as_long_as_json_at_most)
{
    static const char *const values[] = { "v = 'x' * (60 << 20)", "v = '\\n\"' * (15 << 20)",
                                          "v = 'Grüße 你好! ' * (15 << 18)",
                                          "v = list(range(7_000_000))" };
    csn_interp *i = an_interp(.memory_bytes = (int64_t) 2 << 30);

    for (size_t k = 0; k < CSN_COUNT(values); k++) {
        execute(i, values[k]);
        CHECK(submit_ratio(i) <= 3);
    }
}
#endif
