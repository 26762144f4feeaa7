/* SPDX-License-Identifier: Apache-2.0 */
/* The only command of a sandbox that ends with it: init starts it without a shepherd. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_box.h"

static box a_box(void)
{
    return box_start((box_options){ 0 });
}

static command alone(const char *text)
{
    static const char *argv[] = { "/bin/sh", "-c", NULL, NULL };

    argv[2] = text;
    return (command){ .argv = argv, .process = 1, .flags = CSN_SPAWN_LAST };
}

static int start_talking(box *b, const char *text)
{
    command c = alone(text);
    int p[2];

    CHECK(pipe2(p, O_CLOEXEC) == 0);
    c.fds = CSN_FD_STDOUT;
    c.stdio[0] = c.stdio[2] = -1;
    c.stdio[1] = p[1];
    box_spawn(b, c);
    close(p[1]);
    CHECK_INT(box_hear_started(b, NULL).process, 1);
    return p[0];
}

TEST(a_lone_command_is_inits_own_child)
{
    box b = a_box();
    csn_init_exited exited;

    CHECK_STR(box_output(&b, alone("echo $PPID; /bin/true; /bin/true; exit 6"), &exited), "1\n");
    CHECK_INT(WEXITSTATUS(exited.wait_status), 6);
    CHECK_INT(exited.n_tasks, 3);
    CHECK(exited.max_rss_bytes > 100000 && exited.max_rss_bytes < 100000000);
    CHECK_STR(box_output(&b, (command){ .argv = ARGV("/bin/sh", "-c", "test $PPID != 1 && echo after") }, NULL),
              "after\n");
}

TEST(a_lone_command_that_cannot_be_started_is_told_and_init_goes_on)
{
    box b = a_box();

    box_spawn(&b, (command){ .argv = ARGV("/no/such"), .process = 1, .flags = CSN_SPAWN_LAST });
    CHECK_INT(box_hear_failed(&b).process, 1);
    wait_for_processes(&b, 1);
    CHECK_STR(box_output(&b, (command){ .argv = ARGV("/bin/echo", "on"), .process = 2 }, NULL), "on\n");
}

TEST(a_lone_command_inherits_nothing_but_its_streams)
{
    box b = a_box();

    CHECK_STR(box_output(&b, alone("ls /proc/self/fd | tr '\\n' ' '; grep -c SigBlk:.0000000000000000 /proc/self/status"), NULL),
              "0 1 2 3 1\n"); /* 3 is the directory that ls reads */
}

TEST(killing_a_lone_command_takes_daemons_sessions_and_stopped_ones)
{
    box b = a_box();
    int out = start_talking(&b, "trap '' TERM HUP INT; (setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ;"
                                "sh -c 'kill -STOP $$' & sh -c 'sleep 1000 & exec sleep 1000' & "
                                "echo ready; sleep 1000");

    wait_for_text(out, "ready");
    box_kill(&b, 1, SIGKILL, true);
    CHECK_INT(WTERMSIG(box_hear_exited(&b).wait_status), SIGKILL);
    wait_for_processes(&b, 1);
    close(out);
}

TEST(a_signal_reaches_all_of_a_lone_command_or_its_main_process)
{
    box b = a_box();
    int out = start_talking(&b, "trap 'sleep 0.1; echo main; exit 3' TERM; trap 'echo one' USR1; "
                                "(trap 'echo child; exit' TERM; trap 'echo two' USR1; echo ready; "
                                "while :; do sleep 1000 & wait $!; done) & while :; do wait $!; done");

    wait_for_text(out, "ready");
    box_kill(&b, 1, SIGUSR1, false);
    wait_for_text(out, "one\n");
    box_kill(&b, 1, SIGTERM, true);
    wait_for_text(out, "child\nmain\n");
    CHECK_INT(WEXITSTATUS(box_hear_exited(&b).wait_status), 3);
    close(out);
}

TEST(a_lone_command_may_stop_itself)
{
    box b = a_box();
    int out = start_talking(&b, "echo ready; kill -STOP $$; echo woken");
    struct pollfd woken = { .fd = out, .events = POLLIN };

    wait_for_text(out, "ready\n");
    CHECK_INT(poll(&woken, 1, 100), 0);
    box_kill(&b, 1, SIGCONT, false);
    wait_for_text(out, "woken\n");
    CHECK_INT(box_hear_exited(&b).wait_status, 0);
    close(out);
}
