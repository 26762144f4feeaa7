/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and lives, over the wire. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "drive.h"
#include "kern/cgroup.h"
#include "wire/spec.h"

TEST(a_command_runs_and_the_sandbox_goes)
{
    static box b;
    char out[256];

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    CHECK(b.ready.init_pid > 0);
    csn_process_state s = run(&b, "echo hello", out, sizeof(out));
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    CHECK_INT(s.exit_code, 0);
    CHECK_STR(out, "hello\n");
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST(a_program_that_is_not_there_is_named)
{
    static box b;
    static char bytes[4096];
    const char *const argv[] = { "/no/such/program", NULL };
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };
    csn_spawn spawn = { .kind = CSN_SPAWN_EXEC };
    csn_wire_error e;

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    csn_spec_pack(&p, argv, NULL, "/");
    ask(&b, CSN_FRAME_SPAWN, &spawn, sizeof(spawn), bytes, p.len, NULL, 0);
    expect(&b, CSN_FRAME_ERROR);
    csn_msg_fixed(&b.msg, &e, sizeof(e));
    CHECK_INT(e.code, CSN_E_NOT_FOUND);
    CHECK(strstr(e.message, "/no/such/program"));
    CHECK_INT(run(&b, "true", NULL, 0).exit_code, 0);
}

TEST(endings_are_told_apart)
{
    static box b;
    csn_process_state s;

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    s = run(&b, "exit 3", NULL, 0);
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    CHECK_INT(s.exit_code, 3);
    s = run(&b, "kill -TERM $$", NULL, 0);
    CHECK_INT(s.ended, CSN_ENDED_SIGNAL);
    CHECK_INT(s.signal, SIGTERM);
    s = run(&b, "head -c 100000000 /dev/zero > /home/daytona/big", NULL, 0);
    CHECK_INT(s.ended, CSN_ENDED_DISK_FULL);
    s = run(&b, "rm /home/daytona/big; head -c 20000000 /dev/zero > /home/daytona/ok", NULL, 0);
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    CHECK_INT(s.exit_code, 0);
    CHECK(s.wall_us > 0);
}

TEST(a_program_that_eats_memory_dies_and_the_sandbox_lives)
{
    static box b;
    csn_process_state s;

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    s = run(
        &b,
        "exec python3 -c 'x = bytearray(1 << 30); x[::4096] = bytes(1 << 18); import time; time.sleep(30)'",
        NULL, 0);
    CHECK_INT(s.ended, CSN_ENDED_OOM);
    CHECK_INT(run(&b, "true", NULL, 0).exit_code, 0);
}

TEST(a_fork_bomb_ends_at_the_limit)
{
    static box b;
    csn_process_state s;

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    /* Where the kernel doesn't count what it denied: bash tries again when it can't fork; dash would end by itself, on a
     * busy machine before it is noticed. */
    s = run(&b, geteuid() == 0 ? "f() { f | f & f; }; f" : "exec bash -c 'f() { f | f & f; }; f'", NULL, 0);
    CHECK_INT(s.ended, CSN_ENDED_PIDS_LIMIT);
}

TEST(a_deadline_ends_the_whole_tree)
{
    static box b;
    csn_spawn spawn = { .timeout_ms = 300, .output_bytes = -1 };

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    spawn_with(&b, "(setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; sleep 60", spawn,
               NULL, 0);
    started(&b);
    int64_t began = csn_now_ns();
    csn_process_state s = exited(&b);
    CHECK_INT(s.ended, CSN_ENDED_TIMEOUT);
    CHECK((csn_now_ns() - began) / CSN_NS_PER_MS < 2300);
    CHECK_INT(s.timeout_ms, 300);
}

/* --- background -------------------------------------------------------------------------------------------------------- */

TEST(background_output_goes_to_a_log)
{
    static box b;
    csn_spawn spawn = { .flags = CSN_SPAWN_BACKGROUND | CSN_SPAWN_STDIN_PIPE,
                        .output_bytes = 1000 };
    struct {
        uint64_t end;
        uint32_t stream, zero;
    } index[2];
    char text[64];
    int fds[3];

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    spawn_with(&b, "echo one; read x; echo two:$x >&2; head -c 5000 /dev/zero", spawn, NULL, 0);
    uint32_t n = started(&b);
    csn_process_state s = wait_log(&b, n, 0);
    CHECK_INT(s.ended, 0);
    CHECK_INT(attach(&b, n, fds), 3);
    CHECK_INT(csn_write_all(fds[2], "in\n", 3), 0);
    close(fds[2]);
    s = exited(&b);
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    CHECK_INT(s.stdout_bytes, 5004);
    CHECK_INT(s.stderr_bytes, 7);
    CHECK_INT(s.is_cut, 1);
    CHECK_INT(s.log_bytes, 1000 + 7);
    CHECK_INT(pread(fds[0], text, 11, 0), 11);
    CHECK_MEM(text, 11, "one\ntwo:in\n", 11);
    CHECK_INT(pread(fds[1], index, sizeof(index), 0), (int) sizeof(index));
    CHECK_INT(index[0].end, 4);
    CHECK_INT(index[0].stream, 1);
    CHECK_INT(index[1].end, 11);
    CHECK_INT(index[1].stream, 2);
    s = wait_log(&b, n, -1);
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    close(fds[0]);
    close(fds[1]);
}

TEST(a_background_command_that_says_too_much_is_killed_if_so_asked)
{
    static box b;
    csn_spawn spawn = { .flags = CSN_SPAWN_BACKGROUND,
                        .output_bytes = 1000,
                        .kill_on_output_limit = 1 };

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    spawn_with(&b, "yes", spawn, NULL, 0);
    started(&b);
    CHECK_INT(exited(&b).ended, CSN_ENDED_OUTPUT_LIMIT);
}

TEST(a_terminal_is_one)
{
    static box b;
    csn_spawn spawn = { .flags = CSN_SPAWN_PTY, .output_bytes = -1, .rows = 33, .cols = 99 };
    char text[512];
    int fds[3];

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    spawn_with(&b, "tty; stty size; read x; echo got $x", spawn, NULL, 0);
    uint32_t n = started(&b);
    CHECK_INT(attach(&b, n, fds), 3);
    CHECK_INT(csn_write_all(fds[2], "hi\n", 3), 0);
    csn_process_state s = exited(&b);
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    ssize_t len = pread(fds[0], text, sizeof(text) - 1, 0);
    CHECK(len > 0);
    text[len] = '\0';
    CHECK(strstr(text, "/dev/pts/"));
    CHECK(strstr(text, "33 99"));
    CHECK(strstr(text, "got hi"));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

/* --- lives -------------------------------------------------------------------------------------------------------------- */

TEST(a_detached_sandbox_outlives_its_creator)
{
    static box b;
    csn_box_state state;
    csn_spawn spawn = { .flags = CSN_SPAWN_BACKGROUND, .output_bytes = -1 };

    start_box(&b, make_state(), CSN_PLAN_DETACHED);
    spawn_with(&b, "sleep 100", spawn, NULL, 0);
    started(&b);
    close(b.fd);
    connect_box(&b);
    ask(&b, CSN_FRAME_STAT, NULL, 0, NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_STATE);
    csn_msg_fixed(&b.msg, &state, sizeof(state));
    CHECK_INT(state.n_commands_running, 1);
    ask(&b, CSN_FRAME_LIST, NULL, 0, NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_STATE);
    csn_unpack u = csn_msg_rest(&b.msg, sizeof(csn_process_state));
    CHECK_STR(csn_unpack_str(&u), "sleep 100");
    expect(&b, CSN_FRAME_DONE);
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST(an_attached_sandbox_ends_with_its_creator)
{
    static box b;
    csn_spawn spawn = { .output_bytes = -1 };

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    spawn_with(&b, "sleep 100", spawn, NULL, 0);
    started(&b);
    close(b.fd);
    b.fd = -1;
    CHECK_INT(waitpid(b.keeper, NULL, 0), b.keeper);
    b.keeper = 0;
    CHECK(kill(b.ready.init_pid, 0) < 0 && errno == ESRCH);
    check_gone(&b);
}

TEST(files_stay_from_one_run_to_the_next)
{
    static box b;
    char out[64], path[128];

    start_box(&b, make_state(), 0);
    CHECK_INT(
        run(&b,
            "echo kept > /home/daytona/f; chmod 000 /home/daytona/f; mkdir -m 000 /home/daytona/d",
            NULL, 0)
            .exit_code,
        0);
    stop_box(&b, 0, false);
    close(b.fd);
    start_keeper(&b);
    send_plan(&b);
    expect(&b, CSN_FRAME_READY);
    run(&b, "chmod 600 /home/daytona/f; cat /home/daytona/f", out, sizeof(out));
    CHECK_STR(out, "kept\n");
    snprintf(path, sizeof(path), "boxes/%s/disk/root/upper/home/daytona/f", b.id);
    stop_box(&b, -1, true);
    CHECK(!state_has(b.state, path));
    check_gone(&b);
}

TEST(a_sandbox_has_one_keeper)
{
    static box b, second;

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    second = b;
    second.msg = (csn_msg) CSN_MSG_INIT;
    start_keeper(&second);
    send_plan(&second);
    csn_wire_error e;
    expect(&second, CSN_FRAME_ERROR);
    csn_msg_fixed(&second.msg, &e, sizeof(e));
    CHECK_INT(e.code, CSN_E_STATE);
    close(second.fd);
    waitpid(second.keeper, NULL, 0);
    CHECK_INT(run(&b, "true", NULL, 0).exit_code, 0);
}

TEST(stop_is_polite_first)
{
    static box b;
    csn_spawn spawn = { .flags = CSN_SPAWN_BACKGROUND, .output_bytes = -1 };
    csn_stop stop = { .grace_ms = 5000 };

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    spawn_with(&b, "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done", spawn, NULL, 0);
    uint32_t n = started(&b);
    wait_log(&b, n, 0);
    ask(&b, CSN_FRAME_STOP, &stop, sizeof(stop), NULL, 0, NULL, 0);
    csn_process_state s = exited(&b);
    CHECK_INT(s.exit_code, 7);
    expect(&b, CSN_FRAME_DONE);
}

/* A zombie is dead: whoever inherited it takes his time. */
static bool is_alive(pid_t pid)
{
    char path[64], text[256] = "";
    const char *state;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = csn_read_all(fd, text, sizeof(text) - 1);
    close(fd);
    state = n > 0 ? strrchr(text, ')') : NULL;
    return state && state[2] != 'Z' && state[2] != 'X';
}

TEST(a_killed_keeper_takes_its_sandbox_along)
{
    static box b;
    csn_spawn spawn = { .output_bytes = -1 };

    start_box(&b, make_state(), CSN_PLAN_DETACHED);
    spawn_with(&b, "sleep 100", spawn, NULL, 0);
    started(&b);
    kill(b.keeper, SIGKILL);
    waitpid(b.keeper, NULL, 0);
    b.keeper = 0;
    int64_t deadline = csn_deadline_in_ms(2000);
    while (is_alive(b.ready.init_pid) && !csn_deadline_passed(deadline))
        poll(NULL, 0, 5);
    CHECK(!is_alive(b.ready.init_pid));
    static csn_cgroup_host host; /* what it could not remove, the next engine sweeps */
    CHECK_INT(csn_cgroup_probe(&host), 0);
    CHECK_INT(csn_cgroup_sweep(&host, b.id), 0);
}

TEST(when_init_dies_commands_are_lost)
{
    static box b;
    csn_spawn spawn = { .output_bytes = -1 };

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    spawn_with(&b, "sleep 100", spawn, NULL, 0);
    started(&b);
    kill(b.ready.init_pid, SIGKILL);
    CHECK_INT(exited(&b).ended, CSN_ENDED_LOST);
    CHECK_INT(hear(&b), 0);
}

TEST(an_idle_sandbox_stops_and_an_old_one_goes)
{
    static box b;

    new_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    b.plan.idle_stop_ms = 200;
    start_keeper(&b);
    send_plan(&b);
    expect(&b, CSN_FRAME_READY);
    CHECK_INT(run(&b, "sleep 0.5", NULL, 0).exit_code, 0);
    CHECK_INT(hear(&b), 0);
    waitpid(b.keeper, NULL, 0);
    close(b.fd);
    new_box(&b, b.state, 0);
    b.plan.ttl_ms = 300;
    start_keeper(&b);
    send_plan(&b);
    expect(&b, CSN_FRAME_READY);
    CHECK_INT(hear(&b), 0);
    waitpid(b.keeper, NULL, 0);
    check_gone(&b);
}
