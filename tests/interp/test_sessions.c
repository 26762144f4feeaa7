/* Sessions as wholes: conversations on the volume, copies, images, limits. */
#include <stdio.h>
#include <stdlib.h>

#include <caisson/image.h>

#include "base/auto.h"
#include "helpers.h"

static const char *history(csn_interp *i)
{
    char *json = NULL;

    OK(csn_interp_history(i, &json, err));
    csn_test_defer(free, json);
    return json;
}

static const char *created_at(const char *json)
{
    return strstr(json, "\"created_at\": \"");
}

TEST(b11_a_conversation_is_kept_on_the_volume)
{
    csn_interp *i = an_interp(.volume_name = "talk", .session_id = "s1"), *again, *other;
    csn_auto(mem) char *file = NULL;

    execute(i, "x = 1");
    execute(i, "key = 'password=hunter2'\nSUBMIT(answer=x)");
    OK(csn_interp_shutdown(i, err));
    OK(csn_volume_cat(the_engine(), "talk", "sessions/s1/conversation.json", 0, &file, err));
    CHECK(strstr(file, "x = 1"));
    CHECK(!strstr(file, "hunter2"));
    again = an_interp(.volume_name = "talk", .session_id = "s1");
    execute(again, "1/0");
    CHECK(created_at(history(again)) &&
          strncmp(created_at(history(again)), created_at(history(i)), 40) == 0);
    CHECK(strstr(history(again), "\"kind\":\"final\""));
    CHECK(strstr(history(again), "{\\\"answer\\\":1}"));
    CHECK(strstr(history(again), "ZeroDivisionError"));
    other = an_interp(.volume_name = "talk", .session_id = "s2");
    execute(other, "2");
    CHECK(!strstr(history(other), "ZeroDivisionError"));
    CHECK_STR(value(again, "import os\nSUBMIT(sorted(os.listdir(MEMORY_ROOT / 'sessions')))"),
              "{\"output\":[\"s1\",\"s2\"]}");
}

TEST(b11_conversations_of_the_old_layout_are_read)
{
    csn_interp *i = an_interp(.volume_name = "old");

    CHECK_STR(
        value(
            i,
            "import os, json\nd = MEMORY_ROOT / 'meta/workspaces/w/users/u'\nos.makedirs(d)\n"
            "(d / 'react-session-s.json').write_text(json.dumps({'history': [{'code': 'old turn'}]}))\nSUBMIT(1)"),
        "{\"output\":1}");
    OK(csn_interp_shutdown(i, err));
    i = an_interp(.volume_name = "old", .session_id = "s");
    execute(i, "2");
    CHECK(strstr(history(i), "old turn"));
    CHECK_STR(value(i, "SUBMIT('old turn' in load_from_volume('sessions/s/conversation.json'))"),
              "{\"output\":true}");
}

TEST(b12_session_restore_failed_is_told_and_nothing_is_lost)
{
    csn_interp *i = an_interp(.volume_name = "bad");

    execute(i, "save_to_volume('sessions/s/conversation.json', '{broken')");
    OK(csn_interp_shutdown(i, err));
    i = an_interp(.volume_name = "bad", .session_id = "s");
    CHECK_STR(value(i, "SUBMIT(load_from_volume('sessions/s/conversation.json.unreadable'))"),
              "{\"output\":\"{broken\"}");
    CHECK_STR(metadata(i, "runtime_failure_phase"), "session_restore");
    CHECK_STR(metadata(i, "runtime_degraded"), "true");
}

TEST(b11_a_session_id_is_a_name)
{
    csn_interp_options o = { .size = sizeof(o), .session_id = "../x" };
    csn_interp *i = NULL;

    FAILS(csn_interp_new(the_engine(), &o, &i, err), CSN_E_INVALID);
}

TEST(b13_48_activity_is_refreshed_and_limits_are_changed)
{
    csn_interp *i = an_interp(.memory_bytes = 96 << 20);
    static const char eat[] = "import time\nx = b'x' * (128 << 20)\ntime.sleep(60)";

    csn_interp_touch(i); /* nothing there yet: fine */
    execute(i, "y = 1");
    csn_interp_touch(i);
    CHECK_STR(csn_result_category(execute(i, eat)), "worker_crashed");
    OK(csn_interp_resize(i, 512 << 20, 0, 0, err));
    CHECK_STR(value(i, "x = b'x' * (128 << 20)\nSUBMIT(len(x))"), "{\"output\":134217728}");
    FAILS(csn_interp_resize(i, 0, 0, 1 << 30, err), CSN_E_STATE);
}

TEST(b13_51_a_fork_copies_sources_and_files)
{
    char *repo = make_repo("proj", "one");
    csn_interp *i = an_interp(.repo_url = repo, .repo_ref = "feature/x", .volume_name = "vol"),
               *copy = NULL;

    execute(i, "open('only-here', 'w').write('kept')\nx = 1");
    OK(csn_interp_fork(i, &copy, err));
    CHECK_STR(
        value(copy, "SUBMIT(REPO_PATH, open('only-here').read(), open('README.md').read(), "
                    "context['repo_ref'], 'x' in globals(), save_to_volume('f', '1'))"),
        "{\"output\":[\"/home/daytona/workspace/proj\",\"kept\",\"two\\n\",\"feature/x\",false,"
        "\"/home/daytona/memory/f\"]}");
    CHECK(strcmp(csn_interp_sandbox_id(copy), csn_interp_sandbox_id(i)) != 0);
    CHECK(strstr(exported(copy), repo));
    CHECK(strstr(exported(copy), "\"volume_name\": \"vol\""));
    execute(copy, "open('only-here', 'w').write('changed')");
    CHECK_STR(value(i, "SUBMIT(open('only-here').read(), x, load_from_volume('f'))"),
              "{\"output\":[\"kept\",1,\"1\"]}");
    csn_interp_free(copy);
    CHECK_INT(count_boxes(), 1);
}

TEST(b13_52_a_snapshot_is_an_image)
{
    csn_interp *i = an_interp(.timeout_s = 0), *next;
    csn_auto(mem) char *json = NULL;
    csn_auto(mem) char *none = NULL;
    char want[160];

    execute(i, "open('/home/daytona/in-image', 'w').write('yes')");
    OK(csn_interp_snapshot(i, "snap", &json, err));
    (void) snprintf(want, sizeof(want),
                    "{\"name\":\"snap\",\"sandbox_id\":\"%s\",\"status\":\"created\"}",
                    csn_interp_sandbox_id(i));
    CHECK_STR(json, want);
    FAILS(csn_interp_snapshot(i, "snap", &none, err), CSN_E_EXISTS);
    CHECK_STR(metadata(i, "runtime_failure_category"), "sandbox_snapshot_error");
    next = an_interp(.snapshot = "snap");
    CHECK_STR(value(next, "SUBMIT(open('/home/daytona/in-image').read())"), "{\"output\":\"yes\"}");
    OK(csn_interp_shutdown(next, err));
    OK(csn_interp_shutdown(i, err));
    OK(csn_image_remove(the_engine(), "snap", err));
}
