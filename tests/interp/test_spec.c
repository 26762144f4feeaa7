/* What sandbox, workspace and model a session asks for. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "helpers.h"

static void inspect(csn_interp *i, void (*fn)(const csn_sandbox_info *info, void *user), void *user)
{
    csn_sandbox *box = NULL;
    csn_sandbox_info info;

    OK(csn_sandbox_open(the_engine(), csn_interp_sandbox_id(i), &box, err));
    OK(csn_sandbox_inspect(box, &info, err));
    fn(&info, user);
    csn_sandbox_free(box);
}

static void see_defaults(const csn_sandbox_info *info, void *user)
{
    (void) user;
    CHECK_INT(
        fnmatch(
            "fleet-rlm-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]-[0-9][0-9][0-9][0-9][0-9][0-9]*",
            info->name, 0),
        0);
    CHECK_STR(info->labels[0], "managed-by=fleet-rlm");
    CHECK(!info->labels[1]);
    CHECK_INT(info->network, CSN_NET_NONE);
    CHECK_INT(info->n_mounts, 0);
    CHECK(info->is_ephemeral);
}

TEST(b13_54_defaults_of_the_sandbox)
{
    csn_interp *i = an_interp(.timeout_s = 0);

    OK(csn_interp_start(i, err));
    inspect(i, see_defaults, NULL);
}

static void see_given(const csn_sandbox_info *info, void *user)
{
    (void) user;
    CHECK_STR(info->name, "mine");
    CHECK_STR(info->labels[1], "team=a");
    CHECK(!info->labels[2]);
    CHECK_STR(info->env[0], "K=v");
    CHECK_INT(info->memory_bytes, 256 << 20);
    CHECK_INT(info->n_mounts, 1);
    CHECK_STR(info->mounts[0].volume, "spec");
    CHECK_STR(info->mounts[0].subpath, "part");
    CHECK_STR(info->mounts[0].path, "/home/daytona/memory");
}

TEST(b13_54_what_is_given_is_copied_and_blanks_are_dropped)
{
    char label[] = "team=a", env[] = "K=v", name[] = "mine";
    const char *const labels[] = { label, "=x", "y=", NULL }, *const envs[] = { env, NULL };
    csn_interp *i =
        an_interp(.labels = labels, .env = envs, .name = name, .memory_bytes = 256 << 20,
                  .volume_name = " spec ", .volume_subpath = "part");

    label[0] = env[0] = name[0] = '!'; /* the caller's strings are his again */
    OK(csn_interp_start(i, err));
    inspect(i, see_given, NULL);
}

TEST(b13_54_image_wins_over_snapshot)
{
    csn_interp *i = an_interp(.image = "host", .snapshot = "no-such");

    OK(csn_interp_start(i, err));
    csn_interp *none = an_interp(.snapshot = "no-such");

    FAILS(csn_interp_start(none, err), CSN_E_NOT_FOUND);
    CHECK_STR(metadata(none, "runtime_failure_category"), "sandbox_create_clone_error");
}

TEST(b13_45_the_volume_of_the_spec_is_kept)
{
    csn_interp *i = an_interp(.volume_name = "  kept-vol ");

    OK(csn_interp_start(i, err));
    CHECK_STR(metadata(i, "volume_name"), "kept-vol");
    OK(csn_interp_shutdown(i, err));
    CHECK(strstr(exported(i), "\"volume_name\": \"kept-vol\""));
    OK(csn_interp_start(i, err));
    CHECK_STR(metadata(i, "volume_name"), "kept-vol");
}

TEST(b13_46_another_origin_of_the_same_name_is_cloned_again)
{
    char *one = make_repo("a/proj", "first"), *two = make_repo("b/proj", "second");
    csn_interp *i = an_interp(.repo_url = one);

    CHECK_STR(value(i, "open('stray', 'w').close()\nSUBMIT(open('README.md').read())"),
              "{\"output\":\"first\\n\"}");
    OK(csn_interp_configure_workspace(i, two, NULL, NULL, NULL, 0, err));
    CHECK_STR(value(i, "import os\nSUBMIT(open('README.md').read(), os.path.exists('stray'))"),
              "{\"output\":[\"second\\n\",false]}");
}

TEST(b13_47_builder_files_and_hooks_of_the_repository_are_only_files)
{
    char *repo = make_repo("built", "one"), command[2048];

    (void) snprintf(
        command, sizeof(command),
        "cd '%s' && mkdir .devcontainer && echo 'FROM scratch' > Dockerfile && echo '{}' > "
        ".devcontainer/devcontainer.json && printf '#!/bin/sh\ntouch /tmp/hooked %s/../hooked' > "
        ".git/hooks/post-checkout && chmod +x .git/hooks/post-checkout && git add . && "
        "git -c user.name=a -c user.email=a@b commit -q -m b && chmod -R a+rX .",
        repo, repo);
    CHECK(shell(command));
    csn_interp *i = an_interp(.repo_url = repo);

    CHECK_STR(value(i,
                    "import os\nSUBMIT(open('Dockerfile').read(), os.path.exists('/tmp/hooked'), "
                    "os.path.exists('/usr/bin/python3'))"),
              "{\"output\":[\"FROM scratch\\n\",false,true]}");
    (void) snprintf(command, sizeof(command), "test ! -e '%s/../hooked'", repo);
    CHECK(shell(command));
}

/* What a repository lacks git would fetch, by a command that the repository itself names. */
TEST(b10_a_repository_names_no_command_for_the_host)
{
    char *repo = make_repo("lacking", "one"), command[2048];

    (void) snprintf(
        command, sizeof(command),
        "cd '%s' && b=$(git rev-parse HEAD:README.md) && rm -f .git/objects/*/${b#[0-9a-f][0-9a-f]} && git config "
        "core.repositoryformatversion 1 && git config extensions.partialClone evil && git config remote.evil.url \"$PWD\" && "
        "git config remote.evil.promisor true && git config remote.evil.uploadpack \"touch '$PWD/../fetched'; false\" && "
        "chmod -R a+rX . && chmod a+rwx ..",
        repo);
    CHECK(shell(command));
    csn_interp *i = an_interp(.repo_url = repo);
    const csn_exec_result *r = execute(i, "print(1)");

    CHECK_INT(csn_result_kind(r), CSN_EXEC_FAILURE);
    CHECK_STR(csn_result_phase(r), "repo_clone");
    (void) snprintf(command, sizeof(command), "test ! -e '%s/../fetched'", repo);
    CHECK(shell(command));
}

TEST(b13_49_deleting_the_context_keeps_the_sandbox)
{
    csn_interp *i = an_interp(.is_kept = 1, .deletes_context = 1);
    csn_sandbox *box = NULL;
    csn_sandbox_info info;
    char id[40];

    execute(i, "open('f', 'w').write('here')");
    (void) snprintf(id, sizeof(id), "%s", csn_interp_sandbox_id(i));
    OK(csn_interp_shutdown(i, err));
    OK(csn_sandbox_open(the_engine(), id, &box, err));
    OK(csn_sandbox_inspect(box, &info, err));
    CHECK_INT(info.state, CSN_STATE_STARTED);
    CHECK_STR(sh(box, "cat workspace/daytona-workspace/f; pgrep -c python3 || true")->out,
              "here0\n");
    OK(csn_sandbox_delete(box, err));
    csn_sandbox_free(box);
}

TEST(b13_24_a_given_model_comes_before_the_configured_one)
{
    csn_interp *given = an_interp(.llm = echo, .llm_cmd = "echo from-command"),
               *own = an_interp(.llm_cmd = "printf from-command");

    CHECK_STR(value(given, "SUBMIT(llm_query('as said'))"), "{\"output\":\"as said\"}");
    CHECK_STR(value(own, "SUBMIT(llm_query('as said'))"), "{\"output\":\"from-command\"}");
}

TEST(b13_55_settings_of_the_remote_that_are_wrong_do_not_concern_us)
{
    CHECK(setenv("DAYTONA_API_BASE_URL", "http://x", 1) == 0);
    csn_interp *i = an_interp(.llm_cmd = "printf yes");

    CHECK(unsetenv("DAYTONA_API_BASE_URL") == 0);
    CHECK_STR(value(i, "SUBMIT(llm_query('q'))"), "{\"output\":\"yes\"}");
}

TEST(b13_34_children_on_a_volume_have_a_place_of_their_own)
{
    csn_interp *i = an_interp(.llm = planner, .volume_name = "places");
    char want[128];

    execute(i, "sub_rlm('leaf')\nsub_rlm('leaf')\nimport os");
    (void) snprintf(want, sizeof(want), "{\"output\":[[\"%s\"],2,true]}", csn_interp_sandbox_id(i));
    CHECK_STR(value(i,
                    "root = MEMORY_ROOT / 'meta/rlm-children'\nids = os.listdir(root)\n"
                    "mine = os.listdir(root / ids[0])\n"
                    "SUBMIT(ids, len(set(mine)), all(len(m) == 16 and m.isalnum() for m in mine))"),
              want);
}

/* An image whose python3 counts on the volume how often it was started, and says nothing. */
static void make_mute_image(void)
{
    csn_sandbox *box = an_ephemeral(.name = NULL);

    CHECK_STR(
        ending(sh(
            box, "mkdir bin && printf '#!/bin/sh\\necho x >> ~/memory/tries\\nexec sleep 600\\n' > "
                 "bin/python3 && chmod +x bin/python3")),
        "exit 0");
    OK(csn_sandbox_snapshot(box, "mute", err));
}

TEST(b13_59_and_60_a_start_is_tried_again_and_what_failed_is_gone)
{
    const char *const env[] = { "PATH=/home/daytona/bin:/usr/bin:/bin", NULL };
    csn_auto(mem) char *file = NULL;
    csn_auto(mem) char *later = NULL;

    make_mute_image();
    csn_interp *i =
        an_interp(.image = "mute", .env = env, .volume_name = "tries", .health_timeout_s = 1);
    csn_exec_result *r = execute(i, "1");

    CHECK(strstr(csn_result_text(r, NULL), "Broker server failed to start within timeout"));
    CHECK_STR(csn_result_category(r), "driver_handshake_error");
    CHECK_STR(csn_result_phase(r), "driver_start");
    CHECK(!csn_interp_sandbox_id(i));
    OK(csn_volume_cat(the_engine(), "tries", "tries", 0, &file, err));
    CHECK(strstr(file, "\"content\": \"x\\nx\\n\""));
    execute(i, "1"); /* a later call tries again */
    OK(csn_volume_cat(the_engine(), "tries", "tries", 0, &later, err));
    CHECK(strstr(later, "\"content\": \"x\\nx\\nx\\nx\\n\""));
}

static const char *phase_of(const char *repo)
{
    static char shown[64];
    csn_auto(mem) char *json = NULL;
    const char *at;

    (void) csn_interp_smoke(the_engine(), repo, NULL, 0, &json, NULL); /* the report says it */
    at = strstr(json, "\"error_category\": \"");
    (void) snprintf(shown, sizeof(shown), "%.*s", at ? (int) strcspn(at + 19, "\"") : 4,
                    at ? at + 19 : "none");
    return shown;
}

TEST(b13_69_and_72_a_bad_setting_fails_the_smoke_test_in_config)
{
    CHECK(setenv("RLM_CHILD_ISOLATION_MODE", "sideways", 1) == 0);
    CHECK_STR(phase_of("/nowhere"), "config_error");
    CHECK(unsetenv("RLM_CHILD_ISOLATION_MODE") == 0);
    CHECK_STR(phase_of("/nowhere"), "sandbox_create_clone_error");
    CHECK_INT(count_boxes(), 0);
}
