/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "csn_test.h"
#include "init/test_box.h"

static box a_box(void)
{
    return box_start((box_options){ 0 });
}

static const char *sh(box *b, const char *text)
{
    return box_output(b, (command){ .argv = ARGV("/bin/sh", "-c", text) }, NULL);
}

static int status_of(box *b, command c)
{
    csn_init_exited exited;

    box_spawn(b, c);
    box_hear_started(b, NULL);
    exited = box_hear_exited(b);
    return exited.wait_status;
}

/* A command whose stdout we hold, started. Returns the read end. */
static int start_talking(box *b, uint32_t process, const char *text)
{
    int p[2];

    CHECK(pipe2(p, O_CLOEXEC) == 0);
    box_spawn(b, (command){ .argv = ARGV("/bin/sh", "-c", text),
                            .process = process,
                            .fds = CSN_FD_STDOUT,
                            .stdio = { -1, p[1], -1 } });
    close(p[1]);
    CHECK_INT(box_hear_started(b, NULL).process, process);
    return p[0];
}

TEST(a_program_runs_and_its_exit_code_is_told)
{
    box b = a_box();

    CHECK_INT(status_of(&b, (command){ .argv = ARGV("/bin/true") }), 0);
    CHECK_INT(WEXITSTATUS(status_of(&b, (command){ .argv = ARGV("/bin/sh", "-c", "exit 42") })),
              42);
    CHECK_STR(sh(&b, "echo out; echo err >&2"), "out\nerr\n");
}

TEST(a_signal_that_ended_it_is_told)
{
    box b = a_box();

    CHECK_INT(WTERMSIG(status_of(&b, (command){ .argv = ARGV("/bin/sh", "-c", "kill -TERM $$") })),
              SIGTERM);
}

TEST(the_environment_is_exactly_what_was_given)
{
    box b = a_box();

    CHECK_STR(
        box_output(&b, (command){ .argv = ARGV("/usr/bin/env"), .env = ARGV("A=1", "B=two words") },
                   NULL),
        "A=1\nB=two words\n");
    CHECK_STR(box_output(&b, (command){ .argv = ARGV("/usr/bin/env") }, NULL), "");
}

TEST(a_bare_name_is_looked_up_in_the_given_path)
{
    box b = a_box();
    char script[4096], path[4096];
    csn_init_failed failed;
    FILE *f;

    (void) snprintf(script, sizeof(script), "%s/hello-there", b.dir);
    f = fopen(script, "we");
    CHECK(f);
    fputs("#!/bin/sh\necho hello\n", f);
    fclose(f);
    CHECK(chmod(script, 0755) == 0);
    (void) snprintf(path, sizeof(path), "PATH=/nowhere:%s:/bin", b.dir);
    CHECK_STR(box_output(&b, (command){ .argv = ARGV("hello-there"), .env = ARGV(path) }, NULL),
              "hello\n");
    box_spawn(&b, (command){ .argv = ARGV("hello-there") });
    failed = box_hear_failed(&b);
    CHECK_INT(failed.sys_errno, ENOENT);
    CHECK_INT(failed.stage, CSN_STAGE_EXEC);
    CHECK_INT(chmod(script, 0644), 0);
    box_spawn(&b, (command){ .argv = ARGV("hello-there"), .env = ARGV(path) });
    CHECK_INT(box_hear_failed(&b).sys_errno, EACCES);
    CHECK_INT(status_of(&b, (command){ .argv = ARGV("true") }), 0); /* the default path */
}

TEST(a_script_without_an_interpreter_line_is_run_by_the_shell_and_binary_junk_is_not)
{
    box b = a_box();
    char script[4096];
    int fd;

    (void) snprintf(script, sizeof(script), "%s/script", b.dir);
    fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    CHECK(write(fd, "echo \"$0 $1\" | sed 's,.*/,,'\n", 29) == 29);
    close(fd);
    CHECK_INT(chmod(script, 0755), 0);
    CHECK_STR(box_output(&b, (command){ .argv = ARGV(script, "arg") }, NULL), "script arg\n");
    fd = open(script, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK(write(fd, "\1\0\2\3", 4) == 4);
    close(fd);
    box_spawn(&b, (command){ .argv = ARGV(script) });
    CHECK_INT(box_hear_failed(&b).sys_errno, ENOEXEC);
}

TEST(shell_text_is_run_by_sh)
{
    box b = a_box();

    CHECK_STR(box_output(&b, (command){ .argv = ARGV("echo a; echo $0"), .flags = CSN_SPAWN_SHELL },
                         NULL),
              "a\nsh\n");
}

TEST(the_working_directory_is_resolved_inside_and_magic_links_are_refused)
{
    box b = a_box();
    static const char *const magic[] = { "/proc/self/cwd", "/proc/1/root", "/proc/self/fd/3",
                                         "/proc/self/root/tmp" };

    CHECK_STR(box_output(&b, (command){ .argv = ARGV("/bin/pwd"), .cwd = "/usr/lib/../bin" }, NULL),
              "/usr/bin\n");
    CHECK_STR(box_output(&b, (command){ .argv = ARGV("/bin/pwd"), .cwd = "." }, NULL),
              "/home/daytona\n");
    for (size_t i = 0; i < sizeof(magic) / sizeof(magic[0]); i++) {
        csn_init_failed failed;
        box_spawn(&b, (command){ .argv = ARGV("/bin/pwd"), .cwd = magic[i] });
        failed = box_hear_failed(&b);
        CHECK_INT(failed.stage, CSN_STAGE_CWD);
        CHECK(failed.sys_errno == ELOOP || failed.sys_errno == EACCES ||
              failed.sys_errno == ENOENT);
    }
    box_spawn(&b, (command){ .argv = ARGV("/bin/pwd"), .cwd = "/nowhere" });
    CHECK_INT(box_hear_failed(&b).sys_errno, ENOENT);
    box_spawn(&b, (command){ .argv = ARGV("/bin/pwd"), .cwd = "/etc/passwd" });
    CHECK_INT(box_hear_failed(&b).sys_errno, ENOTDIR);
}

TEST(a_program_inherits_nothing_but_its_streams)
{
    box b = a_box();

    CHECK_STR(sh(&b, "ls /proc/self/fd | wc -l"), "4\n"); /* 0, 1, 2 and the listing's own */
    CHECK_STR(sh(&b, "readlink /proc/$$/fd/0"), "/dev/null\n");
    CHECK_STR(sh(&b, "grep -E '^Sig(Blk|Ign)' /proc/self/status"),
              "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    CHECK_STR(sh(&b, "umask"), "0022\n");
    CHECK_STR(sh(&b, "test $(ps -o sid= -p $$) = $$ && echo session"), "session\n");
}

TEST(init_and_shepherds_cannot_be_read_traced_or_killed_from_inside)
{
    box b = a_box();

    CHECK_STR(sh(&b, "cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null; ls /proc/1/fd "
                     "2>/dev/null; kill -9 1 2>/dev/null; kill -STOP 1; echo alive"),
              "alive\n");
    CHECK_STR(sh(&b, "cat /proc/$PPID/environ 2>/dev/null; ls /proc/$PPID/fd 2>/dev/null; echo no"),
              "no\n");
    CHECK_STR(sh(&b, "true; kill -TERM -1; kill -INT $PPID; kill -HUP $PPID; echo ok"), "ok\n");
}

TEST(streams_are_merged_when_asked)
{
    box b = a_box();
    int p[2];
    char text[16] = "";

    CHECK(pipe2(p, O_CLOEXEC) == 0);
    box_spawn(&b, (command){ .argv = ARGV("/bin/sh", "-c", "echo x >&2"),
                             .flags = CSN_SPAWN_MERGED,
                             .fds = CSN_FD_STDOUT,
                             .stdio = { -1, p[1], -1 } });
    close(p[1]);
    box_hear_started(&b, NULL);
    box_hear_exited(&b);
    CHECK(read(p[0], text, sizeof(text) - 1) == 2);
    CHECK_STR(text, "x\n");
    CHECK(read(p[0], text, sizeof(text)) == 0); /* nobody else holds the pipe */
}

TEST(a_spec_larger_than_a_frame_arrives_whole)
{
    box b = a_box();
    enum { LEN = 120000 };
    char *big = malloc(LEN + 1);
    static const char *argv[5000];
    char want[32];

    memset(big, 'x', LEN);
    big[LEN] = '\0';
    CHECK_STR(
        box_output(&b, (command){ .argv = ARGV("/bin/sh", "-c", "echo ${#1}", "sh", big) }, NULL),
        "120000\n");
    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = "echo $#";
    for (int i = 3; i < 4999; i++)
        argv[i] = "many-arguments";
    (void) snprintf(want, sizeof(want), "%d\n", 4999 - 4);
    CHECK_STR(box_output(&b, (command){ .argv = argv }, NULL), want);
    free(big);
}

TEST(a_malformed_spec_is_refused_and_init_goes_on)
{
    box b = a_box();
    csn_init_spawn body = { .process = 7, .kind = CSN_SPAWN_EXEC, .uid = 1000, .gid = 1000 };
    csn_init_failed failed;

    CHECK_INT(csn_frame_send(b.sock, &(csn_out){ .type = CSN_FRAME_INIT_SPAWN,
                                                 .fixed = &body,
                                                 .fixed_len = sizeof(body),
                                                 .rest = "\377\377\377\377junk",
                                                 .rest_len = 8 }),
              0);
    failed = box_hear_failed(&b);
    CHECK_INT(failed.process, 7);
    CHECK_INT(failed.stage, CSN_STAGE_SPEC);
    CHECK_INT(status_of(&b, (command){ .argv = ARGV("/bin/true") }), 0);
}

TEST(a_terminal_is_the_programs_own_and_has_the_size_asked_for)
{
    box b = a_box();
    struct winsize size = { .ws_row = 50, .ws_col = 132 };
    csn_init_exited exited;
    int master;

    box_spawn(&b, (command){ .argv = ARGV("/bin/sh", "-c",
                                          "tty; stty size; exec 9</dev/tty && echo control; "
                                          "read line; echo got $line; stty size"),
                             .env = ARGV("PATH=/usr/bin:/bin"),
                             .flags = CSN_SPAWN_PTY,
                             .rows = 30,
                             .cols = 100 });
    box_hear_started(&b, &master);
    CHECK(master >= 0);
    wait_for_text(master, "/dev/pts/0\r\n30 100\r\ncontrol\r\n");
    CHECK(ioctl(master, TIOCSWINSZ, &size) == 0);
    CHECK(write(master, "word\n", 5) == 5);
    wait_for_text(master, "got word\r\n50 132\r\n");
    exited = box_hear_exited(&b);
    CHECK_INT(exited.wait_status, 0);
}

TEST(closing_a_terminal_hangs_its_program_up)
{
    box b = a_box();
    int master;

    box_spawn(&b,
              (command){ .argv = ARGV("/bin/sh", "-c", "echo here; while :; do sleep 100; done"),
                         .flags = CSN_SPAWN_PTY });
    box_hear_started(&b, &master);
    wait_for_text(master, "here");
    close(master);
    CHECK_INT(WTERMSIG(box_hear_exited(&b).wait_status), SIGHUP);
}

TEST(time_memory_and_tasks_are_counted)
{
    box b = a_box();
    csn_init_exited exited;

    box_output(&b,
               (command){ .argv = ARGV("/bin/sh", "-c",
                                       "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; "
                                       "/bin/true; /bin/true") },
               &exited);
    CHECK_INT(exited.n_tasks, 3);
    CHECK(exited.user_us > 1000 && exited.user_us < 10000000);
    CHECK(exited.max_rss_bytes > 100000 && exited.max_rss_bytes < 100000000);
}

TEST(a_signal_reaches_the_main_process_alone)
{
    box b = a_box();
    int out = start_talking(&b, 5,
                            "trap 'echo main; exit 3' TERM; "
                            "(trap 'echo child' TERM; echo ready; sleep 1000 & wait $!) & "
                            "wait $!; wait $!");

    wait_for_text(out, "ready");
    box_kill(&b, 5, SIGTERM, false);
    CHECK_INT(WEXITSTATUS(box_hear_exited(&b).wait_status), 3);
    close(out);
}

TEST(a_signal_to_the_tree_reaches_everyone_in_it)
{
    box b = a_box();
    int out = start_talking(&b, 5,
                            "trap 'sleep 0.1; echo main; exit 3' TERM; "
                            "(trap 'echo child; exit' TERM; echo ready; while :; do sleep 1000 & "
                            "wait $!; done) & while :; do wait $!; done");

    wait_for_text(out, "ready");
    box_kill(&b, 5, SIGTERM, true);
    wait_for_text(out, "child\nmain\n");
    CHECK_INT(WEXITSTATUS(box_hear_exited(&b).wait_status), 3);
}

TEST(a_kill_of_the_tree_takes_daemons_sessions_and_stopped_ones)
{
    box b = a_box();
    int out =
        start_talking(&b, 9,
                      "trap '' TERM HUP INT; (setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ;"
                      "sh -c 'kill -STOP $$' & sh -c 'sleep 1000 & exec sleep 1000' & "
                      "echo ready; sleep 1000");

    wait_for_text(out, "ready");
    box_kill(&b, 9, SIGKILL, true);
    CHECK_INT(WTERMSIG(box_hear_exited(&b).wait_status), SIGKILL);
    CHECK(count_processes(&b) <= 2); /* the shepherd may still be on its way out */
    wait_for_processes(&b, 1);
    CHECK_STR(sh(&b, "echo still here"), "still here\n");
}

TEST(killing_one_tree_leaves_the_others_alone)
{
    box b = a_box();
    int one = start_talking(&b, 1, "(setsid sleep 1000 &); echo ready; sleep 1000");
    int two = start_talking(&b, 2, "echo ready; read x; (sleep 1000 &); sleep 1000; echo end");

    wait_for_text(one, "ready");
    wait_for_text(two, "ready");
    box_kill(&b, 1, SIGKILL, true);
    CHECK_INT(box_hear_exited(&b).process, 1);
    wait_for_processes(&b,
                       5); /* init; the second's shepherd, shell and two sleeps: stdin was empty */
    box_kill(&b, 2, SIGKILL, true);
    CHECK_INT(box_hear_exited(&b).process, 2);
    wait_for_processes(&b, 1);
    close(one);
    close(two);
}

TEST(what_a_command_leaves_running_outlives_it_and_is_reaped)
{
    box b = a_box();
    int out = start_talking(&b, 1, "setsid sleep 1000 >/dev/null & setsid true & echo done");

    wait_for_text(out, "done");
    CHECK_INT(box_hear_exited(&b).wait_status, 0);
    wait_for_processes(&b, 2);
    box_kill(&b, 0, SIGKILL, false);
    wait_for_processes(&b, 1);
}

TEST(whoever_kills_his_shepherd_takes_all_his_processes_with_him)
{
    box b = a_box();
    int other = start_talking(&b, 2, "echo ready; read x; sleep 1000");
    int out, go;
    char text[4096], fifo[4096];
    csn_init_exited exited;

    wait_for_text(other, "ready");
    (void) snprintf(fifo, sizeof(fifo), "%s/go", b.dir);
    CHECK(mkfifo(fifo, 0666) == 0 && chmod(fifo, 0666) == 0);
    (void) snprintf(text, sizeof(text),
                    "(setsid sh -c 'while :; do sleep 1000; done' &); sleep 1000 & echo ready; "
                    "read x < %.3000s; kill -9 $PPID; sleep 1000",
                    fifo);
    out = start_talking(&b, 1, text);
    wait_for_text(out, "ready");
    go = open(fifo, O_WRONLY | O_CLOEXEC);
    CHECK(write(go, "\n", 1) == 1);
    exited = box_hear_exited(&b);
    CHECK_INT(exited.process, 1);
    CHECK_INT(exited.wait_status, -1);
    wait_for_processes(&b, 4); /* init; the second's shepherd, shell, sleep */
    close(out);
    box_kill(&b, 2, SIGKILL, true);
    CHECK_INT(box_hear_exited(&b).process, 2);
    wait_for_processes(&b, 1);
}

/* It may be dead before it could say that the program runs. */
TEST(a_shepherd_killed_at_birth_is_reported_all_the_same)
{
    box b = a_box();

    for (uint32_t i = 1; i <= 30; i++) {
        csn_msg msg;
        box_spawn(&b, (command){ .argv = ARGV("/bin/sh", "-c", "kill -9 $PPID; sleep 1000"),
                                 .process = i });
        msg = box_hear(&b);
        if (msg.head.type == CSN_FRAME_INIT_STARTED)
            CHECK_INT(box_hear_exited(&b).wait_status, -1);
        else if (msg.head.type != CSN_FRAME_INIT_EXITED) /* killed before it could say "started" */
            CHECK_INT(msg.head.type, CSN_FRAME_INIT_FAILED);
        wait_for_processes(&b, 1);
    }
    CHECK_STR(sh(&b, "echo fine"), "fine\n");
}

TEST(a_stopped_shepherd_is_woken)
{
    box b = a_box();
    csn_init_exited exited;

    box_output(&b, (command){ .argv = ARGV("/bin/sh", "-c", "kill -STOP $PPID; exit 7") }, &exited);
    CHECK_INT(WEXITSTATUS(exited.wait_status), 7);
}

/* Makes a C program out of the text; the test is skipped without a compiler. */
static const char *compiled(box *b, const char *text)
{
    static char path[4096], source[4096];
    FILE *f;

    (void) snprintf(path, sizeof(path), "%s/program", b->dir);
    (void) snprintf(source, sizeof(source), "%s/program.c", b->dir);
    f = fopen(source, "we");
    CHECK(f);
    fputs(text, f);
    fclose(f);
    if (run_outside(ARGV("cc", "-w", "-O1", "-o", path, source)) < 0)
        SKIP("no C compiler");
    return path;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void kill_those_who_hide(box *b)
{
    const char *path = compiled(
        b,
        "#include <sys/prctl.h>\n#include <unistd.h>\n"
        "int main(void) { prctl(PR_SET_DUMPABLE, 0); if (fork() == 0) { setsid(); "
        "prctl(PR_SET_DUMPABLE, 0);"
        " if (fork() == 0) { setsid(); write(1, \"ready\\n\", 6); pause(); } pause(); } pause(); }");
    char text[4096];
    int out;

    (void) snprintf(text, sizeof(text), "%s; sleep 1000", path);
    out = start_talking(b, 1, text);
    wait_for_text(out, "ready");
    box_kill(b, 1, SIGKILL, true);
    CHECK_INT(WTERMSIG(box_hear_exited(b).wait_status), SIGKILL);
}

TEST(processes_that_hide_from_proc_are_found)
{
    box b = a_box();

    kill_those_who_hide(&b);
    wait_for_processes(&b, 1);
}

TEST(before_linux_6_13_trees_are_found_by_proc_and_session)
{
    box b;
    int other, worker;
    char byte;
    csn_filereq req = { .verb = 8, .mode = -1, .path = "/usr", .arg = "e" };

    CHECK(setenv("CSN_TEST_OLD_KERNEL", "1", 1) == 0);
    b = a_box();
    other = start_talking(&b, 2, "(sleep 1000 &) ; echo ready; read x; sleep 1000");
    worker = box_ask(&b, &req, 1000); /* blocks soon, since nobody reads */
    wait_for_text(other, "ready");
    CHECK(recv(worker, &byte, 1, MSG_PEEK) == 1);
    wait_for_processes(&b, 6); /* init, worker; the second's shepherd, shell, two sleeps */
    kill_those_who_hide(&b);
    wait_for_processes(&b, 6);
    box_kill(&b, 2, SIGKILL, true);
    CHECK_INT(box_hear_exited(&b).process, 2);
    close(worker);
    wait_for_processes(&b, 1);
}

/* As many as 400 at once: RLIMIT_NPROC counts by user and stands for the pids cgroup here. */
static const char bomb[] =
    "#include <sys/resource.h>\n#include <unistd.h>\n#include <signal.h>\n"
    "int main(void) { struct rlimit l = { 400, 400 }; setrlimit(RLIMIT_NPROC, &l);"
    " signal(SIGTERM, SIG_IGN); write(1, \"ready\\n\", 6);"
    " for (;;) if (fork() == 0) setsid(); else if (getpid() % 3 == 0 && getppid() != 1) _exit(0); }";

/* Two seconds where a process is made and reaped in a millisecond or less. An emulated machine has more, and more than in
 * proportion: hundreds of processes take turns there with those who end them. */
static int64_t two_seconds_here(void)
{
    enum { N = 100 };
    int64_t start = now_ms();

    for (int i = 0; i < N; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
    }
    int64_t took = now_ms() - start;
    return 2000 * (took > N ? took : N) / N * (csn_test_slow() > 1 ? 4 : 1);
}

static void explode_and_kill(box *b, uint32_t process)
{
    const int64_t limit_ms = two_seconds_here(); /* before it explodes */
    int out = start_talking(b, process, compiled(b, bomb));
    int64_t start;
    csn_init_exited exited;

    wait_for_text(out, "ready");
    for (int i = 0; i < 500 && count_processes(b) < 200; i++)
        (void) poll(NULL, 0, 10);
    csn_test_note("%d processes in the bomb", count_processes(b));
    start = now_ms();
    box_kill(b, process, SIGKILL, true);
    exited = box_hear_exited(b);
    CHECK_INT(exited.process, process);
    CHECK_INT(exited.wait_status, SIGKILL);
    csn_test_note("killed in %d ms, %lld tasks", (int) (now_ms() - start),
                  (long long) exited.n_tasks);
    CHECK(now_ms() - start < limit_ms);
}

TEST(a_fork_bomb_is_killed_within_two_seconds)
{
    box b = a_box();

    explode_and_kill(&b, 1);
    wait_for_processes(&b, 1);
    CHECK_STR(sh(&b, "echo fine"), "fine\n");
}

TEST(a_fork_bomb_beside_another_command_dies_alone)
{
    box b = a_box();
    int other = start_talking(&b, 2, "echo ready; read x; sleep 1000");

    wait_for_text(other, "ready");
    explode_and_kill(&b, 1);
    wait_for_processes(&b, 4);
    box_kill(&b, 2, SIGKILL, true);
    CHECK_INT(box_hear_exited(&b).process, 2);
    wait_for_processes(&b, 1);
}

TEST(what_earlier_commands_left_survives_the_end_of_a_bomb)
{
    box b = a_box();
    int out = start_talking(&b, 2, "setsid sleep 1000 >/dev/null & echo done");

    wait_for_text(out, "done");
    CHECK_INT(box_hear_exited(&b).wait_status, 0);
    explode_and_kill(&b, 1);
    wait_for_processes(&b, 2);
}

/* Shells with job control go on without a child that stops, and who has stopped by himself counts on it. */
TEST(a_freeze_is_noticed_by_nobody)
{
    box b = a_box();
    int jobs, still;

    if (access("/bin/bash", X_OK) < 0)
        SKIP("no bash");
    still = start_talking(&b, 6, "echo ready; kill -STOP $$; echo woken");
    jobs = start_talking(&b, 5,
                         "exec bash -c 'set -m; bash -c \"echo ready; for i in {1..100}; do "
                         "bash -c :; done; exit 7\"; echo status $?'");
    wait_for_text(jobs, "ready");
    wait_for_text(still, "ready");
    for (int i = 0; i < 50; i++) {
        box_kill(&b, 0, SIGSTOP, false);
        box_kill(&b, 0, SIGCONT, false);
    }
    wait_for_text(jobs, "status 7\n");
    CHECK_INT(WEXITSTATUS(box_hear_exited(&b).wait_status), 0);
    box_kill(&b, 6, SIGKILL, true);
    CHECK_INT(WTERMSIG(box_hear_exited(&b).wait_status), SIGKILL);
    close(still);
    close(jobs);
}

TEST(everyone_can_be_killed_at_once)
{
    box b = a_box();

    for (uint32_t i = 1; i <= 5; i++)
        close(start_talking(&b, i, "trap '' TERM; (setsid sleep 1000 &); sleep 1000; sleep 1000"));
    box_kill(&b, 0, SIGKILL, false);
    for (int i = 0; i < 5; i++)
        CHECK_INT(box_hear_exited(&b).wait_status, SIGKILL);
    wait_for_processes(&b, 1);
}

TEST(more_commands_than_places_are_refused_and_places_come_back)
{
    box b = a_box();
    csn_init_failed failed;

    for (uint32_t i = 1; i <= CSN_PROCESS_MAX; i++) {
        box_spawn(&b, (command){ .argv = ARGV("/bin/sleep", "1000"), .process = i });
        box_hear_started(&b, NULL);
    }
    box_spawn(&b, (command){ .argv = ARGV("/bin/true"), .process = 1000 });
    failed = box_hear_failed(&b);
    CHECK_INT(failed.process, 1000);
    CHECK_INT(failed.sys_errno, EAGAIN);
    box_spawn(&b, (command){ .argv = ARGV("/bin/true"), .process = 5 }); /* a number in use */
    CHECK_INT(box_hear_failed(&b).stage, CSN_STAGE_SPEC);
    box_kill(&b, 0, SIGKILL, false);
    for (int i = 0; i < CSN_PROCESS_MAX; i++)
        box_hear_exited(&b);
    CHECK_INT(status_of(&b, (command){ .argv = ARGV("/bin/true") }), 0);
}

TEST(signals_to_nobody_and_from_nowhere_do_nothing)
{
    box b = a_box();

    box_kill(&b, 77, SIGKILL, true);
    box_kill(&b, 77, SIGTERM, false);
    box_kill(&b, 1, 0, true);
    box_kill(&b, 0, 4711, false);
    box_kill(&b, 0, -1, false);
    CHECK_STR(sh(&b, "echo ok"), "ok\n");
}

TEST(init_ends_with_its_keeper_and_takes_all_along)
{
    box b = a_box();
    int out = start_talking(&b, 1, "echo ready; exec sleep 1000");
    char c;
    int status;

    wait_for_text(out, "ready");
    close(b.sock);
    CHECK(waitpid(b.outer, &status, 0) == b.outer);
    CHECK_INT(status, 0);
    CHECK(read(out, &c, 1) == 0);
}

TEST(root_inside_gives_programs_of_the_user_no_capability)
{
    box b = box_start((box_options){ .as_root = true });

    CHECK_STR(
        sh(&b, "id -u; id -g; id -G; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | "
               "sort -u"),
        "1000\n1000\n1000\n0000000000000000\n");
    CHECK_STR(
        box_output(&b, (command){ .argv = ARGV("/bin/sh", "-c", "id -u"), .flags = CSN_SPAWN_ROOT },
                   NULL),
        "0\n");
    CHECK_STR(sh(&b, "cat /proc/self/oom_score_adj"), "500\n");
    CHECK_STR(sh(&b, "cat /proc/1/environ 2>&1 | head -c 3; kill -9 $PPID 2>&1 | grep -c ermi; "
                     "echo alive"),
              "cat1\nalive\n");
}

TEST(trees_of_another_user_are_found_too)
{
    box b = box_start((box_options){ .as_root = true });
    int out = start_talking(&b, 1, "(setsid sh -c 'sleep 1000; true' &); echo ready; sleep 1000");

    wait_for_text(out, "ready");
    box_kill(&b, 1, SIGKILL, true);
    box_hear_exited(&b);
    wait_for_processes(&b, 1);
}

TEST(a_user_that_may_not_be_taken_is_refused)
{
    box b = a_box();
    csn_init_failed failed;

    box_spawn(&b, (command){ .argv = ARGV("/bin/true"), .flags = CSN_SPAWN_ROOT });
    failed = box_hear_failed(&b);
    CHECK_INT(failed.stage, CSN_STAGE_USER);
    CHECK_INT(failed.sys_errno, EPERM);
}

TEST(the_program_that_is_shipped_does_the_same)
{
    box b = box_start((box_options){ .real_binary = true });
    int out;

    CHECK_STR(sh(&b, "cat /proc/1/cmdline /proc/1/environ 2>/dev/null; id -u"), "1000\n");
    out = start_talking(&b, 3, "(setsid sleep 1000 &); echo ready; sleep 1000");
    wait_for_text(out, "ready");
    box_kill(&b, 3, SIGKILL, true);
    CHECK_INT(box_hear_exited(&b).wait_status, SIGKILL);
    wait_for_processes(&b, 1);
}
