/* Children: where they run, what they may spend, and that they end with their parents. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "helpers.h"

TEST(b13_28_to_31_children_answer)
{
    csn_interp *i = an_interp(.llm = planner);

    CHECK_STR(value(i, "SUBMIT(sub_rlm('up', 'small'))"), "{\"output\":\"SMALL\"}");
    CHECK_STR(
        value(
            i,
            "SUBMIT(rlm_query('leaf'), sub_rlm_batched(['leaf', 'leaf', 'up'], 'c'), sub_rlm_batched([]))"),
        "{\"output\":[\"leaf1\",[\"leaf1\",\"leaf1\",\"C\"],[]]}");
    CHECK_STR(value(i, "sub_rlm(' ')"), "ValueError: sub_rlm prompt cannot be empty");
    CHECK_INT(count_boxes(), 1);
}

TEST(b13_26_at_the_limit_of_depth_the_model_is_asked)
{
    csn_interp *i = an_interp(.llm = planner, .max_recursion_depth = 1);

    CHECK_STR(value(i, "SUBMIT(sub_rlm('deeper'))"), "{\"output\":\"plain/1\"}");

    csn_interp *strict = an_interp(.llm = planner, .max_recursion_depth = -1, .is_depth_strict = 1);

    CHECK_STR(value(strict, "sub_rlm('leaf')"),
              "RuntimeError: sub_rlm max recursion depth (0) reached. Cannot recurse further.");
}

TEST(b13_27_and_37_children_pay_from_their_parents)
{
    csn_interp *i = an_interp(.llm = planner, .max_llm_calls = 2);
    int64_t used, max;

    CHECK_STR(value(i, "SUBMIT(sub_rlm('ask'))"), "{\"output\":\"plain\"}");
    csn_interp_budget(i, &used, &max);
    CHECK_INT(used, 1);
    execute(i, "llm_query('x')");
    CHECK_STR(value(i, "sub_rlm('leaf')"),
              "RuntimeError: LLM call budget exhausted — cannot spawn sub_rlm child.");
}

TEST(b13_32_to_36_where_children_run)
{
    csn_interp *copy = an_interp(.llm = planner);

    execute(copy, "open('/home/daytona/mark', 'w').write('parent')");
    CHECK_STR(value(copy, "SUBMIT(sub_rlm('file'))"), "{\"output\":\"parent\"}");

    csn_interp *shared = an_interp(.llm = planner, .child_isolation_mode = "context");

    execute(shared, "open('/home/daytona/mark', 'w').write('shared')");
    CHECK_STR(value(shared, "x = 1\nSUBMIT(sub_rlm('file'), x)"), "{\"output\":[\"shared\",1]}");
    CHECK_STR(value(shared, "SUBMIT(x)"), "{\"output\":1}");

    csn_interp *durable = an_interp(.llm = planner, .volume_name = "children");

    execute(durable, "open('/home/daytona/mark', 'w').write('no')");
    CHECK_STR(
        value(
            durable,
            "import os\na = sub_rlm('file')\nSUBMIT(a, len(os.listdir('/home/daytona/memory/meta/rlm-children')))"),
        "{\"output\":[\"none\",1]}");
    CHECK_INT(count_boxes(), 3);
}

TEST(b8_delegation_from_the_host)
{
    csn_interp *i = an_interp(.llm = planner);
    csn_auto(mem) char *json = NULL;
    csn_auto(mem) char *empty = NULL;

    OK(csn_interp_start(i, err));
    OK(csn_interp_delegate(i, "leaf", NULL, &json, err));
    CHECK_STR(json, "{\"status\":\"ok\",\"answer\":\"leaf1\"}");
    OK(csn_interp_delegate(i, " ", NULL, &empty, err));
    CHECK(strstr(empty, "\"reason\":\"invalid_query\""));
}

TEST(b13_29_children_in_one_sandbox_run_at_once)
{
    csn_interp *i = an_interp(.llm = planner, .child_isolation_mode = "context");

    CHECK_STR(value(i, "SUBMIT(sub_rlm_batched(['meet', 'meet']))"),
              "{\"output\":[\"True\",\"True\"]}");
    CHECK_INT(count_boxes(), 1);
}

TEST(b13_33_a_child_that_runs_out_of_time_leaves_the_parents_sandbox)
{
    csn_interp *i = an_interp(.llm = planner, .child_isolation_mode = "context",
                              .delegate_execution_timeout_s = 1);
    char id[40];

    execute(i, "x = 5");
    (void) snprintf(id, sizeof(id), "%s", csn_interp_sandbox_id(i));
    CHECK(strstr(value(i, "sub_rlm('hang')"), "RuntimeError: sub_rlm failed: "));
    CHECK_STR(value(i, "SUBMIT(x)"), "{\"output\":5}");
    CHECK_STR(csn_interp_sandbox_id(i), id);
}

TEST(b8_several_delegations_from_the_host)
{
    const char *const queries[] = { "leaf", "silent", "up", NULL }, *const blank[] = { "a", " ",
                                                                                       NULL };
    csn_interp *i =
        an_interp(.llm = planner, .delegate_max_iterations = 1, .delegate_max_calls = 4);
    csn_auto(mem) char *json = NULL;
    csn_auto(mem) char *refused = NULL;
    csn_auto(mem) char *late = NULL;

    execute(i, "open('doc.html', 'w').write('<p>from paper</p>')");
    OK(csn_interp_delegate_batch(i, queries, "c", "doc.html", &json, err));
    CHECK(strstr(json,
                 "{\"status\":\"error\",\"results\":[{\"status\":\"ok\",\"answer\":\"leaf1\"},"));
    CHECK(strstr(json, "{\"status\":\"ok\",\"answer\":\"FROM PAPER\\n\\n\\nC\"}],"));
    CHECK(strstr(
        json, "\"errors\":[{\"index\":1,\"reason\":\"child_error\",\"error\":\"sub_rlm failed: "));
    OK(csn_interp_delegate_batch(i, blank, NULL, NULL, &refused, err));
    CHECK(strstr(refused, "{\"status\":\"error\",\"reason\":\"invalid_query\""));
    OK(csn_interp_delegate_batch(i, queries, NULL, NULL, &late, err));
    CHECK(strstr(late, "\"reason\":\"budget_exhausted\""));
    CHECK_INT(count_boxes(), 1);
}

/* The last child's member, as the parent's metadata tells it. */
static const char *told(csn_interp *i, const char *key)
{
    static char shown[128];
    csn_auto(mem) char *json = NULL;
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *list, *v;

    OK(csn_interp_metadata(i, &json, err));
    CHECK_INT(csn_json_parse(json, strlen(json), &doc, NULL), 0);
    list = csn_json_get(doc, "children");
    v = csn_json_get(csn_json_at(list, csn_json_count(list) - 1), key);
    if (csn_json_type_of(v) == CSN_JSON_INT)
        (void) snprintf(shown, sizeof(shown), "%lld", (long long) csn_json_int(v, -1));
    else
        (void) snprintf(shown, sizeof(shown), "%s", csn_json_str(v, "(none)"));
    return shown;
}

TEST(b13_35_and_36_children_have_names_and_leave_a_record)
{
    csn_interp *i = an_interp(.llm = planner, .max_llm_calls = 9);

    CHECK_STR(value(i, "SUBMIT(sub_rlm('leaf'))"), "{\"output\":\"leaf1\"}");
    CHECK_STR(told(i, "strategy"), "fork");
    CHECK_STR(told(i, "mode"), "auto");
    CHECK_STR(told(i, "lease"), "9");
    CHECK_STR(told(i, "cleanup"), "sandbox_deleted");
    CHECK_STR(told(i, "parent_sandbox_id"), csn_interp_sandbox_id(i));
    CHECK_INT(strlen(told(i, "child_sandbox_id")), is_remote() ? 36 : 32);
    CHECK(strncmp(told(i, "name"), "fleet-rlm-fork-child-", 21) == 0);
    CHECK_INT(strlen(told(i, "name")), 21 + 12);
    CHECK_STR(value(i, "SUBMIT(sub_rlm_batched(['leaf', 'ask']))"),
              "{\"output\":[\"leaf1\",\"plain\"]}");
    CHECK_INT(count_boxes(), 1);
}

static void count_started(const csn_sandbox_info *info, void *user)
{
    *(int *) user += info->state == CSN_STATE_STARTED;
}

static bool has_two_started(void *user)
{
    int n = 0;

    (void) user;
    OK(csn_sandbox_list(the_engine(), count_started, &n, err));
    return n == 2;
}

TEST(a_child_ends_with_its_killed_parent)
{
    pid_t pid;

    (void) the_engine();
    pid = fork();
    if (pid == 0) {
        csn_interp_options o = { .size = sizeof(o), .llm = planner };
        csn_interp *i = NULL;
        csn_exec_result *r = NULL;
        csn_error err = { 0 };

        if (csn_interp_new(another_engine(), &o, &i, &err) == CSN_OK)
            (void) csn_interp_execute(i, "sub_rlm('hang')", 15, NULL, &r, &err);
        _exit(1);
    }
    if (!until(has_two_started, NULL))
        FAIL("the child's sandbox never came");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (!until(has_no_boxes, NULL))
        FAIL("%d sandboxes stay", count_boxes());
}
