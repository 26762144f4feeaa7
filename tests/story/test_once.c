/* One command in a sandbox of its own: it is there when the command is, and goes with it. */
#include <stdio.h>
#include <string.h>

#include "story.h"

/* Started, or why not. */
static int begin(csn_sandbox_options box, csn_process_options command, csn_process **ret,
                 csn_error *err)
{
    box.size = sizeof(box);
    command.size = sizeof(command);
    return csn_run_once(the_engine(), &box, &command, NULL, ret, NULL, err);
}

static csn_process *once_with(csn_sandbox_options box, csn_process_options command)
{
    csn_process *p = NULL;

    OK(begin(box, command, &p, err));
    return p;
}
#define once(...) once_with((csn_sandbox_options){ 0 }, (csn_process_options){ __VA_ARGS__ })

static csn_receipt receipt_of(csn_process *p)
{
    csn_receipt receipt;

    OK(csn_process_wait(p, 0, &receipt, err));
    return receipt;
}

static csn_state state_of(csn_process *p)
{
    csn_sandbox_info info;

    OK(csn_sandbox_inspect(csn_process_sandbox(p), &info, err));
    return info.state;
}

static bool is_deleted(void *user)
{
    OK(csn_engine_dispatch(the_engine(), 0, err));
    return state_of(user) == CSN_STATE_DELETED;
}

static void check_nothing_is_left(void)
{
    CHECK_INT(count_entries("boxes"), 0);
    CHECK_INT(count_entries("names"), 0);
    CHECK_INT(count_entries("ids"), 0);
}

TEST(the_command_takes_its_sandbox_along)
{
    csn_process *p = once(.shell = "sleep 300 & seq 100000; exit 5");
    csn_receipt receipt = receipt_of(p);
    const char *data;
    size_t len;
    char id[40];

    (void) snprintf(id, sizeof(id), "%s", csn_sandbox_id(csn_process_sandbox(p)));
    CHECK_INT(receipt.ended, CSN_ENDED_EXIT);
    CHECK_INT(receipt.exit_code, 5);
    CHECK_INT(csn_process_output(p, CSN_STDOUT, &data, &len), CSN_OK);
    CHECK_INT(len, 588895);
    CHECK(until(is_deleted, p));
    check_nothing_is_left();
    CHECK_INT(count_cgroups(id), 0);
    OK(csn_sandbox_delete(csn_process_sandbox(p), err));
    csn_process_free(p);
}

TEST(its_receipt_says_how_the_sandbox_was_built)
{
    csn_process *p = once(.shell = "head -c 1000000 /dev/zero > f");
    csn_receipt receipt = receipt_of(p);

    CHECK(receipt.walls & CSN_WALL_SECCOMP);
    CHECK(receipt.memory_limit_bytes > 0);
    if (receipt.disk_rung != CSN_DISK_WATCH) /* there a count comes later */
        CHECK(receipt.bytes_written >= 1000000 && receipt.bytes_written < 2000000);
    csn_process_free(p);
    p = once(.shell = "sleep 60", .timeout_ms = 200);
    CHECK_INT(receipt_of(p).ended, CSN_ENDED_TIMEOUT);
    csn_process_free(p);
}

TEST(a_process_that_is_let_go_of_ends_its_sandbox)
{
    csn_process *p = once(.shell = "sleep 300");

    csn_process_free(p);
    close_the_engine();
    check_nothing_is_left();
}

TEST(a_file_is_there_before_the_command)
{
    const csn_file_source from = { .size = sizeof(from), .data = "echo from the file", .len = 18 };
    const csn_once_file file = { .path = "/home/daytona/script", .from = &from },
                        nowhere = { .path = "/proc/nowhere/script", .from = &from };
    csn_process_options o = { .size = sizeof(o), .argv = ARGV("sh", "script") };
    csn_process *p = NULL;
    const char *data;
    size_t len;
    int is_made = 0;

    OK(csn_run_once(the_engine(), NULL, &o, &file, &p, &is_made, err));
    CHECK_INT(is_made, 1);
    CHECK_INT(receipt_of(p).exit_code, 0);
    CHECK_INT(csn_process_output(p, CSN_STDOUT, &data, &len), CSN_OK);
    CHECK_STR(data, "from the file\n");
    OK(csn_sandbox_delete(csn_process_sandbox(p), err));
    csn_process_free(p);

    csn_error why = { 0 };
    CHECK(csn_run_once(the_engine(), NULL, &o, &nowhere, &p, &is_made, &why) < 0);
    CHECK_INT(is_made, 0);
    if (!strstr(why.message, "copy '/proc/nowhere/script' in"))
        FAIL("it says '%s'", why.message);
    close_the_engine(); /* with what it keeps ready */
    check_nothing_is_left();
}

TEST(a_command_that_cannot_be_started_leaves_nothing)
{
    csn_process_options o = { .size = sizeof(o), .argv = ARGV("/no/such") };
    csn_process *p = NULL;
    int is_made = 0;

    FAILS(csn_run_once(the_engine(), NULL, &o, NULL, &p, &is_made, err), CSN_E_NOT_FOUND);
    CHECK_INT(is_made, 1);
    CHECK(!p);
    check_nothing_is_left();
}

TEST(a_sandbox_that_cannot_be_built_says_why)
{
    const csn_mount mount = { .volume = "v", .path = "/etc/passwd/x" };
    csn_process_options o = { .size = sizeof(o), .shell = "true" };
    csn_process *p = NULL;
    csn_error why = { 0 };
    int is_made = 1;

    OK(csn_volume_create(the_engine(), "v", err));
    /* With a network the reason is there long before the command is heard. */
    for (csn_network net = CSN_NET_NONE; csn_network_check(net, NULL) == CSN_OK; net++) {
        csn_sandbox_options box = {
            .size = sizeof(box), .mounts = &mount, .n_mounts = 1, .network = net
        };
        int result = csn_run_once(the_engine(), &box, &o, NULL, &p, &is_made, &why);

        CHECK(result < 0 && result == why.code);
        CHECK_INT(is_made, 0);
        if (!strstr(why.message, "/etc/passwd/x"))
            FAIL("it says '%s'", why.message);
    }
    check_nothing_is_left();
}

TEST(what_cannot_be_once_is_refused)
{
    csn_process *p = NULL;

    FAILS(begin((csn_sandbox_options){ .is_detached = 1 }, (csn_process_options){ .shell = "true" },
                &p, err),
          CSN_E_INVALID);
    FAILS(begin((csn_sandbox_options){ 0 }, (csn_process_options){ .shell = "true", .is_pty = 1 },
                &p, err),
          CSN_E_INVALID);
    FAILS(begin((csn_sandbox_options){ 0 },
                (csn_process_options){ .shell = "true", .is_background = 1 }, &p, err),
          CSN_E_INVALID);
    FAILS(begin((csn_sandbox_options){ 0 }, (csn_process_options){ 0 }, &p, err), CSN_E_INVALID);
    CHECK(!csn_process_sandbox(NULL));
    check_nothing_is_left();
}

TEST(an_interrupt_leaves_nothing)
{
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 300" };
    csn_process *p = NULL;
    int is_made;

    csn_engine_interrupt(the_engine());
    FAILS(csn_run_once(the_engine(), NULL, &o, NULL, &p, &is_made, err), CSN_E_CANCELLED);
    close_the_engine();
    check_nothing_is_left();
}

/* Also in an engine that keeps something ready: nothing of the one is the other's. */
TEST(one_after_the_other_each_has_its_own)
{
    for (int i = 0; i < 6; i++) {
        csn_process *p = once(.shell = "test ! -e mine && echo > mine");

        CHECK_INT(receipt_of(p).exit_code, 0);
        OK(csn_sandbox_delete(csn_process_sandbox(p), err));
        csn_process_free(p);
    }
}
