/* Commands: what goes in, what comes out, how they end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "kern/lines.h"
#include "story.h"

TEST(a_command_runs_as_daytona_at_home_and_leaves_a_receipt)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r = sh(box, "id -un; pwd; echo $HOME; echo oops >&2; exit 3");

    CHECK_STR(r->out, "daytona\n/home/daytona\n/home/daytona\n");
    CHECK_STR(r->err, "oops\n");
    CHECK_STR(ending(r), "exit 3");
    CHECK_INT(csn_receipt_status(&r->receipt), 3);
    CHECK_INT(r->receipt.stdout_bytes, 36);
    CHECK_INT(r->receipt.stderr_bytes, 5);
    CHECK(r->receipt.wall_us > 0 && r->receipt.peak_memory_bytes > 0);
    CHECK(r->receipt.walls & CSN_WALL_SECCOMP);
    CHECK_INT(r->receipt.walls_missing, 0);
}

TEST(argv_is_taken_as_it_is)
{
    csn_sandbox *box = an_ephemeral();

    CHECK_STR(run(box, .argv = ARGV("printf", "%s|", "a b", "", "$HOME", "*", "\n"))->out,
              "a b||$HOME|*|\n|");
}

TEST(bytes_are_exact)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r = sh(box, "printf 'a\\000b\\377\\n'; printf '\\000' >&2");

    CHECK_MEM(r->out, r->out_len, "a\0b\377\n", 5);
    CHECK_MEM(r->err, r->err_len, "\0", 1);
}

TEST(a_program_that_is_not_there_is_not_found)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o), .argv = ARGV("no-such-program") };
    csn_process_options c = { .size = sizeof(c), .argv = ARGV("true"), .cwd = "/no/such/dir" };
    csn_process_options d = { .size = sizeof(d), .argv = ARGV("/etc/passwd") };
    csn_run_result r;

    FAILS(csn_run(box, &o, &r, err), CSN_E_NOT_FOUND);
    FAILS(csn_run(box, &c, &r, err), CSN_E_NOT_FOUND);
    FAILS(csn_run(box, &d, &r, err), CSN_E_DENIED);
    CHECK_STR(ending(sh(box, "true")), "exit 0");
}

TEST(options_that_make_no_sense_are_refused)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options none = { .size = sizeof(none) };
    csn_process_options both = { .size = sizeof(both), .shell = "true", .argv = ARGV("true") };
    csn_process_options root = { .size = sizeof(root), .shell = "true", .user = "root" };
    csn_process_options env = { .size = sizeof(env), .shell = "true", .env = ARGV("novalue") };
    struct {
        csn_process_options known;
        char unknown;
    } newer = { { .size = sizeof(newer), .shell = "true" }, 1 };
    csn_run_result r;

    FAILS(csn_run(box, &none, &r, err), CSN_E_INVALID);
    FAILS(csn_run(box, &both, &r, err), CSN_E_INVALID);
    FAILS(csn_run(box, &root, &r, err), CSN_E_DENIED);
    FAILS(csn_run(box, &env, &r, err), CSN_E_INVALID);
    FAILS(csn_run(box, &newer.known, &r, err), CSN_E_INVALID);
    newer.unknown = 0;
    OK(csn_run(box, &newer.known, &r, err));
    csn_run_result_done(&r);
}

TEST(the_commands_environment_wins_over_the_sandboxs_and_that_over_the_base)
{
    csn_sandbox *box = an_ephemeral(.env = ARGV("A=box", "B=box", "LANG=xx"));

    CHECK_STR(run(box, .shell = "echo $A $B $LANG $USER", .env = ARGV("B=own", "USER=me"))->out,
              "box own xx me\n");
}

TEST(stdin_may_be_nothing_bytes_or_a_descriptor)
{
    csn_sandbox *box = an_ephemeral();
    size_t len = 3 << 20;
    char *much = malloc(len);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    off_t size = lseek(fd, 0, SEEK_END);

    memset(much, 'x', len);
    CHECK(size > 0 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK_STR(sh(box, "wc -c")->out, "0\n");
    CHECK_STR(run(box, .shell = "cat", .stdin_kind = CSN_STDIN_BYTES, .stdin_data = "hi",
                  .stdin_len = 2)
                  ->out,
              "hi");
    CHECK_STR(run(box, .shell = "wc -c", .stdin_kind = CSN_STDIN_BYTES, .stdin_data = much,
                  .stdin_len = len)
                  ->out,
              "3145728\n");
    CHECK_INT(run(box, .shell = "cat", .stdin_kind = CSN_STDIN_FD, .stdin_fd = fd)->out_len,
              size);
    /* One that does not read it must not end us by SIGPIPE. */
    CHECK_STR(ending(run(box, .shell = "exec <&-; sleep 0.1", .stdin_kind = CSN_STDIN_BYTES,
                         .stdin_data = much, .stdin_len = len)),
              "exit 0");
    close(fd);
    free(much);
}

static bool has_echo(csn_process *p)
{
    const char *data;
    size_t len;

    CHECK(csn_process_output(p, CSN_STDOUT, &data, &len) == CSN_OK);
    return len == 5;
}

TEST(stdin_may_be_a_pipe_that_is_written_and_closed)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o), .shell = "cat", .stdin_kind = CSN_STDIN_PIPE };
    csn_process *p = NULL;
    csn_receipt receipt;
    size_t n = 0;

    OK(csn_process_start(box, &o, &p, err));
    OK(csn_process_write(p, "hello", 5, &n, err));
    CHECK_INT(n, 5);
    while (!has_echo(p))
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    FAILS(csn_process_wait(p, 20, NULL, err), CSN_E_TIMEOUT);
    OK(csn_process_close_stdin(p, err));
    OK(csn_process_wait(p, 0, &receipt, err));
    CHECK_INT(receipt.exit_code, 0);
    csn_process_free(p);
}

TEST(both_streams_come_in_the_order_they_were_written)
{
    csn_sandbox *box = an_ephemeral();
    const char *script = "for i in 1 2 3 4 5; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done";

    CHECK_STR(sh(box, script)->merged, "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n");
    CHECK_STR(run(box, .shell = "echo a; echo b >&2; echo c", .merge_stderr = 1)->out, "a\nb\nc\n");
}

TEST(output_beyond_its_limit_is_cut_and_counted)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r =
        run(box, .shell = "head -c 1000000 /dev/zero; echo end >&2", .output_bytes = 1000);

    CHECK_INT(r->out_len, 1000);
    CHECK_STR(r->err, "end\n");
    CHECK_INT(r->receipt.stdout_bytes, 1000000);
    CHECK(r->receipt.is_output_cut);
    CHECK_STR(ending(r), "exit 0");
}

TEST(output_beyond_its_limit_may_end_the_command)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r =
        run(box, .shell = "yes", .output_bytes = 100000, .output_policy = CSN_OUTPUT_KILL);

    CHECK_STR(ending(r), "output-limit");
    CHECK_INT(r->out_len, 100000);
    CHECK_STR(ending(sh(box, "true")), "exit 0");
}

/* What a command writes may overtake the word that it was started. */
TEST(the_first_bytes_may_be_too_many)
{
    csn_sandbox *box = an_ephemeral();

    for (int i = 0; i < 24; i++)
        CHECK_STR(ending(run(box, .argv = ARGV("yes"), .output_bytes = 1, .output_policy = CSN_OUTPUT_KILL)),
                  "output-limit");
}

TEST(a_command_that_takes_too_long_is_killed_with_its_whole_tree)
{
    csn_sandbox *box = an_ephemeral();
    const int64_t slow = csn_test_slow();
    const csn_run_result *r = run(box, .shell = "echo begin; (sleep 300 & sleep 300) & sleep 300",
                                  .timeout_ms = 200 * slow);

    CHECK_STR(ending(r), "timeout");
    CHECK_STR(r->out, "begin\n");
    CHECK_INT(csn_receipt_status(&r->receipt), 124);
    CHECK(r->receipt.wall_us >= 200000 * slow && r->receipt.wall_us < 2200000 * slow);
    CHECK_STR(sh(box, "ps -e -o comm= | grep -c sleep")->out, "0\n");
}

TEST(a_daemon_that_keeps_the_pipes_open_does_not_keep_the_caller)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r = sh(box, "setsid sleep 300 & echo done");

    CHECK_STR(r->out, "done\n");
    CHECK(r->receipt.wall_us < 5000000);
}

TEST(a_signal_is_told_by_number)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r = sh(box, "kill -SEGV $$");

    CHECK_STR(ending(r), "signal 11");
    CHECK_INT(csn_receipt_status(&r->receipt), 139);
}

static int pause_once(csn_process *p, csn_stream stream, const void *data, size_t len, void *user)
{
    size_t *seen = user;

    (void) p;
    (void) stream;
    (void) data;
    *seen += len;
    return 1;
}

TEST(a_reader_that_pauses_makes_the_program_wait)
{
    csn_sandbox *box = an_ephemeral();
    size_t seen = 0;
    csn_process_options o = { .size = sizeof(o),
                              .shell = "head -c 8000000 /dev/zero",
                              .output_bytes = CSN_UNLIMITED,
                              .on_output = pause_once,
                              .user_data = &seen };
    csn_process *p = NULL;
    csn_receipt receipt = { 0 };
    int n_turns = 0;

    OK(csn_process_start(box, &o, &p, err));
    while (seen == 0)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    FAILS(csn_process_wait(p, 300, NULL, err), CSN_E_TIMEOUT);
    CHECK(seen <= 65536);
    while (seen < 8000000 && n_turns++ < 100000) {
        CHECK_INT(csn_process_resume(p), CSN_OK);
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    }
    csn_process_resume(p);
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK_INT(receipt.stdout_bytes, 8000000);
    csn_process_free(p);
}

TEST(signals_reach_the_command_or_its_tree)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o),
                              .shell = "trap 'echo caught; exit 5' TERM; echo up; while :; do sleep 0.02; done" };
    csn_process *p = NULL;
    csn_receipt receipt;
    const char *data;
    size_t len = 0;

    OK(csn_process_start(box, &o, &p, err));
    while (len == 0) {
        OK(csn_engine_dispatch(the_engine(), 10000, err));
        CHECK(csn_process_output(p, CSN_STDOUT, &data, &len) == CSN_OK);
    }
    OK(csn_process_signal(p, SIGTERM, 0, err));
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK_INT(receipt.exit_code, 5);
    FAILS(csn_process_signal(p, SIGTERM, 0, err), CSN_E_STATE);
    csn_process_free(p);
}

TEST(freeing_a_running_command_kills_it)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 300" };
    csn_process *p = NULL;

    OK(csn_process_start(box, &o, &p, err));
    csn_process_free(p);
    for (int i = 0; i < 500; i++)
        if (strcmp(sh(box, "ps -e -o comm= | grep -c sleep")->out, "0\n") == 0)
            return;
    FAIL("it still runs");
}

/* Until it executes, a program looks like one that hides whose it is (before Linux 6.13). */
TEST(a_command_that_starts_while_another_is_killed_lives)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 300" };

    for (int i = 0; i < 25; i++) {
        csn_process *p = NULL;
        OK(csn_process_start(box, &o, &p, err));
        csn_process_free(p);
        const csn_run_result *r = sh(box, "echo alive");
        CHECK_STR(ending(r), "exit 0");
        CHECK_STR(r->out, "alive\n");
    }
}

TEST(many_commands_run_at_once_in_one_sandbox)
{
    csn_sandbox *box = an_ephemeral(.pids = 400);
    csn_process *p[20];
    csn_receipt receipt;
    char text[32], want[8];
    const char *data;
    size_t len;

    for (int i = 0; i < 20; i++) {
        (void) snprintf(text, sizeof(text), "sleep 0.2; echo %d", i);
        csn_process_options o = { .size = sizeof(o), .shell = text };
        OK(csn_process_start(box, &o, &p[i], err));
    }
    for (int i = 0; i < 20; i++) {
        OK(csn_process_wait(p[i], 20000, &receipt, err));
        CHECK(csn_process_output(p[i], CSN_STDOUT, &data, &len) == CSN_OK);
        (void) snprintf(want, sizeof(want), "%d\n", i);
        CHECK_STR(data, want);
        csn_process_free(p[i]);
    }
}

TEST(a_flood_of_a_gigabyte_passes_in_bounded_memory)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r = run(box, .shell = "head -c 300000000 /dev/zero", .output_bytes = 4096);

    CHECK_INT(r->receipt.stdout_bytes, 300000000);
    CHECK_INT(r->out_len, 4096);
}

static void interrupt_it(int sig)
{
    (void) sig;
    csn_engine_interrupt(the_engine());
}

TEST(an_interrupt_ends_the_wait_and_the_command)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o), .shell = "sleep 300" };
    struct sigaction act = { .sa_handler = interrupt_it };
    csn_run_result r;

    sigaction(SIGALRM, &act, NULL);
    struct itimerspec in = { .it_value = { .tv_nsec = 100000000 } };
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 &&
          timer_settime(timer, 0, &in, NULL) == 0);
    FAILS(csn_run(box, &o, &r, err), CSN_E_CANCELLED);
    CHECK_STR(ending(sh(box, "true")), "exit 0");
}

TEST(a_program_may_open_its_own_streams_again)
{
    csn_sandbox *box = an_ephemeral();
    const csn_run_result *r = sh(box, "echo one > /dev/stdout; echo two > /proc/self/fd/1; echo three > /dev/stderr");

    CHECK_STR(r->out, "one\ntwo\n");
    CHECK_STR(r->err, "three\n");
}

TEST(children_that_hold_the_output_are_waited_for_when_asked)
{
    csn_sandbox *box = an_ephemeral();
    const char *text = "(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo late) & echo now";

    CHECK_STR(run(box, .shell = "(sleep 0.2; echo late) & echo now", .linger_ms = 20000)->merged,
              "now\nlate\n");
    CHECK_STR(run(box, .shell = "sleep 1000 & echo now", .linger_ms = 50)->merged, "now\n");
    CHECK_STR(run(box, .shell = text, .linger_ms = 20000)->merged, "now\nlate\n");
}

TEST(a_command_can_be_given_descriptors_of_the_callers_own)
{
    csn_sandbox *box = an_ephemeral();
    char said[16] = "";
    int ends[2];

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    const int fds[3] = { -1, ends[1], -1 };
    CHECK_STR(ending(run(box, .shell = "cat; echo mine; echo nobodys >&2", .own_fds = fds)), "exit 0");
    CHECK(close(ends[1]) == 0);
    CHECK_INT(read(ends[0], said, sizeof(said) - 1), 5);
    CHECK_STR(said, "mine\n");
    CHECK(close(ends[0]) == 0);
}

/* The table of open files is one for all namespaces. */
TEST(a_sandbox_can_open_a_quarter_of_the_machines_files_at_most)
{
    csn_sandbox *box = an_ephemeral(.pids = 400);
    uint64_t all = 0, each = 0;

    CHECK_INT(csn_small_read_u64(AT_FDCWD, "/proc/sys/fs/file-max", &all), 0);
    CHECK_INT(csn_parse_u64(csn_str_trim(csn_str_of(sh(box, "ulimit -Hn")->out)), &each), 0);
    CHECK(each >= 256 && (each == 256 || each <= all / 4 / 400));
}
