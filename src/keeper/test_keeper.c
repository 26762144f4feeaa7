/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper as its client sees it: frames in, frames out. Runs as root and without privilege. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caisson/engine.h>
#include <caisson/receipt.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"
#include "csn_test.h"
#include "wire/frame.h"
#include "wire/plan.h"
#include "wire/spec.h"

enum { WAIT_MS = 60000 }; /* the machine may be busy with other tests */

typedef struct box {
    const char *state;
    char id[33];
    int fd;
    pid_t keeper;
    uint32_t seq;
    csn_plan plan;
    csn_box_state ready;
    char buf[CSN_FRAME_MAX];
    csn_msg msg;
} box;

/* --- a state directory with a base layer --------------------------------------------------------------------------- */

static void make_dir(const char *state, const char *path)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", state, path);
    if (mkdir(full, 0755) < 0 && errno != EEXIST)
        FAIL("mkdir %s: %s", full, strerror(errno));
}

static void make_file(const char *state, const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", state, path);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void make_link(const char *state, const char *path, const char *target)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", state, path);
    if (symlink(target, full) < 0 && errno != EEXIST)
        FAIL("symlink %s: %s", full, strerror(errno));
}

static void make_base(const char *state, const char *base)
{
    static const char *const root[] = { "dev", "etc", "home", "proc", "root",
                                        "run", "tmp", "usr",  "var" };
    static const char *const links[] = { "bin", "lib", "lib64", "sbin" };
    char path[256], target[64];

    make_dir(state, base);
    for (size_t i = 0; i < sizeof(root) / sizeof(root[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", base, root[i]);
        make_dir(state, path);
    }
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", base, links[i]);
        snprintf(target, sizeof(target), "usr/%s", links[i]);
        make_link(state, path, target);
    }
    snprintf(path, sizeof(path), "%s/etc/passwd", base);
    make_file(state, path,
              "root:x:0:0:root:/root:/bin/sh\ndaytona:x:1000:1000::/home/daytona:/bin/sh\n");
    snprintf(path, sizeof(path), "%s/etc/hostname", base);
    make_file(state, path, "caisson\n");
    snprintf(path, sizeof(path), "%s/etc/hosts", base);
    make_file(state, path, "127.0.0.1 localhost caisson\n");
}

static const char *make_state(void)
{
    static const char *const dirs[] = { "boxes", "names", "ids", "layers", "volumes", "host" };
    const char *state = csn_test_dir();

    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        make_dir(state, dirs[i]);
    make_base(state, "host/root");
    char run[512];
    snprintf(run, sizeof(run), "%s/run", state);
    CHECK(symlink(".", run) == 0 ||
          errno == EEXIST); /* ephemeral boxes lie with the others: one place to look at */
    return state;
}

static bool state_has(const char *state, const char *path)
{
    char full[512];
    struct stat st;

    snprintf(full, sizeof(full), "%s/%s", state, path);
    return lstat(full, &st) == 0;
}

/* --- a keeper -------------------------------------------------------------------------------------------------------- */

static void start_keeper(box *b)
{
    const char *build = getenv("CSN_BUILD");
    char path[512];
    int ends[2];

    snprintf(path, sizeof(path), "%s/caisson-keeper", build ? build : ".");
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    b->keeper = fork();
    CHECK(b->keeper >= 0);
    if (b->keeper == 0) {
        dup2(ends[1], CSN_KEEPER_FD);
        execl(path, "caisson-keeper", (char *) NULL);
        _exit(127);
    }
    close(ends[1]);
    b->fd = ends[0];
}

static uint32_t ask(box *b, uint32_t type, const void *fixed, size_t len, const void *rest,
                    size_t rest_len, const int *fds, size_t n_fds)
{
    csn_out out = { .type = type,
                    .seq = ++b->seq,
                    .fixed = fixed,
                    .fixed_len = len,
                    .rest = rest,
                    .rest_len = rest_len,
                    .fds = fds,
                    .n_fds = n_fds };

    CHECK_INT(csn_frame_send(b->fd, &out), 0);
    return b->seq;
}

/* The next frame; 0 when the keeper has hung up. */
static uint32_t hear(box *b)
{
    csn_msg_done(&b->msg);
    if (csn_wait_fd(b->fd, POLLIN, csn_deadline_in_ms(WAIT_MS)) != 1)
        FAIL("the keeper says nothing");
    int r = csn_frame_recv(b->fd, b->buf, sizeof(b->buf), CSN_SAID_TO_CLIENT, 0, &b->msg);
    if (r < 0)
        FAIL("receive: %s", strerror(-r));
    if (r == 0)
        return 0;
    return b->msg.head.type;
}

static void expect(box *b, uint32_t type)
{
    uint32_t got = hear(b);

    if (got == CSN_FRAME_ERROR && type != CSN_FRAME_ERROR) {
        csn_wire_error e;
        csn_msg_fixed(&b->msg, &e, sizeof(e));
        FAIL("error %d instead of frame %u: %s", e.code, type, e.message);
    }
    CHECK_INT(got, type);
}

static void send_plan(box *b)
{
    static char bytes[CSN_FRAME_MAX];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    csn_plan_pack(&p, &b->plan);
    CHECK_INT(p.error, 0);
    ask(b, CSN_FRAME_PLAN, NULL, 0, bytes, p.len, NULL, 0);
}

static void new_box(box *b, const char *state, uint32_t flags)
{
    char path[128];

    memset(b, 0, sizeof(*b));
    b->state = state;
    b->msg = (csn_msg) CSN_MSG_INIT;
    CHECK_INT(csn_id_hex(b->id, 16), 0);
    snprintf(path, sizeof(path), "boxes/%s", b->id);
    make_dir(state, path);
    b->plan = (csn_plan){
        .mode = CSN_PLAN_RUN,
        .flags = flags | CSN_PLAN_HOST_BASED,
        .state_dir = state,
        .id = b->id,
        .name = "",
        .target = "",
        .hostname = "",
        .id_base = geteuid() == 0 ? 0x40000000 + (int64_t) (getpid() % 1000) * 65536 : 0,
        .id_index = -1,
        .memory_bytes = 256 << 20,
        .cpu_milli = 1000,
        .pids = 64,
        .disk_bytes = 64 << 20,
        .disk_inodes = 5000,
        .open_files = 1024,
        .tmp_bytes = 16 << 20,
        .shm_bytes = 16 << 20,
        .timeout_ms = -1,
        .output_bytes = -1,
        .created_ms = csn_wall_ms(),
    };
}

static void end_quietly(void *user)
{
    box *b = user;

    if (b->plan.flags & CSN_PLAN_DETACHED && b->keeper > 0)
        kill(b->keeper, SIGKILL); /* of its own it would live on */
    if (b->fd >= 0)
        close(b->fd);
    b->fd = -1;
    if (b->keeper > 0)
        waitpid(b->keeper, NULL, 0);
}

static void start_box(box *b, const char *state, uint32_t flags)
{
    new_box(b, state, flags);
    start_keeper(b);
    csn_test_defer(end_quietly, b);
    send_plan(b);
    expect(b, CSN_FRAME_READY);
    csn_msg_fixed(&b->msg, &b->ready, sizeof(b->ready));
}

static uint32_t spawn_with(box *b, const char *shell, csn_spawn spawn, const int *fds, size_t n_fds)
{
    static char bytes[CSN_FRAME_MAX];
    const char *const argv[] = { shell, NULL };
    const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    spawn.kind = CSN_SPAWN_EXEC;
    spawn.flags |= CSN_SPAWN_SHELL;
    csn_spec_pack(&p, argv, env, "/");
    return ask(b, CSN_FRAME_SPAWN, &spawn, sizeof(spawn), bytes, p.len, fds, n_fds);
}

static uint32_t started(box *b)
{
    csn_started s;

    expect(b, CSN_FRAME_STARTED);
    csn_msg_fixed(&b->msg, &s, sizeof(s));
    return s.process;
}

static csn_process_state exited(box *b)
{
    csn_process_state s;

    expect(b, CSN_FRAME_EXITED);
    csn_msg_fixed(&b->msg, &s, sizeof(s));
    return s;
}

/* Runs a shell text; its output goes to `out`. */
static csn_process_state run(box *b, const char *shell, char *out, size_t size)
{
    csn_spawn spawn = { .fds = CSN_FD_STDOUT, .output_bytes = -1 };
    int ends[2];

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    spawn_with(b, shell, spawn, &ends[1], 1);
    close(ends[1]);
    started(b);
    csn_process_state s = exited(b);
    ssize_t n = out ? csn_read_all(ends[0], out, size - 1) : 0;
    CHECK(n >= 0);
    if (out)
        out[n] = '\0';
    close(ends[0]);
    return s;
}

static void stop_box(box *b, int grace_ms, bool delete_too)
{
    csn_stop stop = { .grace_ms = grace_ms, .delete_too = delete_too };
    int status = -1;

    ask(b, CSN_FRAME_STOP, &stop, sizeof(stop), NULL, 0, NULL, 0);
    expect(b, CSN_FRAME_DONE);
    CHECK_INT(hear(b), 0);
    CHECK_INT(waitpid(b->keeper, &status, 0), b->keeper);
    b->keeper = 0;
    CHECK_INT(status, 0);
}

static void check_gone(box *b)
{
    char path[128];

    snprintf(path, sizeof(path), "boxes/%s", b->id);
    CHECK(!state_has(b->state, path));
}

/* --- stories --------------------------------------------------------------------------------------------------------- */

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
    s = run(&b, "f() { f | f & f; }; f", NULL, 0);
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

static csn_process_state wait_log(box *b, uint32_t process, int64_t offset)
{
    csn_wait wait = { .process = process, .log_offset = offset };
    csn_process_state s;

    ask(b, CSN_FRAME_WAIT, &wait, sizeof(wait), NULL, 0, NULL, 0);
    uint32_t type = hear(b);
    if (type == CSN_FRAME_EXITED) /* unasked, and before the answer */
        type = hear(b);
    CHECK_INT(type, CSN_FRAME_STATE);
    csn_msg_fixed(&b->msg, &s, sizeof(s));
    return s;
}

static size_t attach(box *b, uint32_t process, int fds[3])
{
    csn_process_ref ref = { .process = process };
    size_t n;

    ask(b, CSN_FRAME_ATTACH, &ref, sizeof(ref), NULL, 0, NULL, 0);
    expect(b, CSN_FRAME_STATE);
    n = b->msg.n_fds;
    for (size_t i = 0; i < n; i++)
        fds[i] = csn_msg_take_fd(&b->msg, i);
    return n;
}

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

static void connect_box(box *b)
{
    char dir[256];
    struct sockaddr_un addr = { .sun_family = AF_UNIX };

    snprintf(dir, sizeof(dir), "%s/boxes/%s", b->state, b->id);
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/sock", fd);
    b->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(b->fd, (struct sockaddr *) &addr, sizeof(addr)) == 0);
    close(fd);
}

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

/* --- walls -------------------------------------------------------------------------------------------------------------- */

TEST(walls_stand)
{
    static box b;
    char out[8192];

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    CHECK_INT(b.ready.walls_missing, 0);
    run(&b, "grep -E '^(Cap|NoNew|Seccomp:|Uid|Groups)' /proc/self/status; id -u; hostname", out,
        sizeof(out));
    CHECK(strstr(out, "CapBnd:\t0000000000000000"));
    CHECK(strstr(out, "CapEff:\t0000000000000000"));
    CHECK(strstr(out, "NoNewPrivs:\t1"));
    CHECK(strstr(out, "Seccomp:\t2"));
    CHECK(strstr(out, "Uid:\t1000\t1000\t1000\t1000"));
    CHECK(strstr(out, "1000\ncaisson\n"));
    run(&b, "cat /proc/self/mountinfo", out, sizeof(out));
    CHECK(!strstr(out, b.state));
    CHECK(!strstr(out, "caisson-"));
    run(&b, "cat /proc/self/cgroup", out, sizeof(out));
    CHECK(!strstr(out, b.id));
    CHECK(run(&b, "unshare -U true 2>/dev/null", NULL, 0).exit_code != 0);
    CHECK(run(&b, "echo 1 > /proc/sys/kernel/panic 2>/dev/null", NULL, 0).exit_code != 0);
    CHECK(run(&b, "touch /usr/x /etc/x /x 2>/dev/null", NULL, 0).exit_code != 0);
    CHECK_INT(run(&b, "touch /tmp/x /home/daytona/x /dev/shm/x", NULL, 0).exit_code, 0);
    CHECK_INT(run(&b, "echo x > /dev/null && head -c 8 /dev/urandom >/dev/zero", NULL, 0).exit_code,
              0);
    run(&b, "ls /proc | grep -c '^[0-9]'; ls -A /sys /proc/acpi 2>/dev/null; cat /proc/keys", out,
        sizeof(out));
}

static bool has_subordinate_ids(void)
{
    char line[128], want[32];
    bool found = false;
    FILE *f = fopen("/etc/subuid", "re");

    snprintf(want, sizeof(want), "%u:", (unsigned) geteuid());
    while (f && !found && fgets(line, sizeof(line), f))
        found = strncmp(line, want, strlen(want)) == 0;
    if (f)
        fclose(f);
    return found;
}

TEST(root_inside_is_root_inside)
{
    static box b;
    char out[1024];

    if (geteuid() != 0 && !has_subordinate_ids())
        SKIP("needs a range of ids in /etc/subuid and /etc/subgid");
    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL | CSN_PLAN_ROOT_INSIDE);
    csn_spawn spawn = { .flags = CSN_SPAWN_ROOT, .fds = CSN_FD_STDOUT, .output_bytes = -1 };
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    spawn_with(
        &b,
        "id -u; touch /etc/x /usr/x && chown 5 /etc/x && stat -c %u /etc/x; grep CapBnd /proc/self/status",
        spawn, &ends[1], 1);
    close(ends[1]);
    started(&b);
    CHECK_INT(exited(&b).exit_code, 0);
    ssize_t n = csn_read_all(ends[0], out, sizeof(out) - 1);
    out[n > 0 ? n : 0] = '\0';
    CHECK_STR(out, "0\n5\nCapBnd:\t00000000000004fb\n");
    close(ends[0]);
}

/* --- layers and copies ---------------------------------------------------------------------------------------------------- */

static void run_mode(box *b, uint32_t mode, const char *target, const int *fds, size_t n_fds)
{
    static box other;
    static char bytes[CSN_FRAME_MAX];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    memset(&other, 0, sizeof(other));
    other.msg = (csn_msg) CSN_MSG_INIT;
    other.plan = b->plan;
    other.plan.mode = mode;
    other.plan.target = target;
    start_keeper(&other);
    csn_plan_pack(&p, &other.plan);
    ask(&other, CSN_FRAME_PLAN, NULL, 0, bytes, p.len, fds, n_fds);
    expect(&other, CSN_FRAME_READY);
    CHECK_INT(hear(&other), 0);
    close(other.fd);
    waitpid(other.keeper, NULL, 0);
}

TEST(a_running_sandbox_can_be_copied_into_a_layer)
{
    static box b, c;
    char out[512];
    int fds[2];

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    CHECK_INT(
        run(&b,
            "cd /home/daytona && mkdir -p a/b && echo text > a/b/f && ln a/b/f hard && ln -s a/b/f soft && "
            "truncate -s 10M holes && echo end >> holes && rm -r /var/run /run/x 2>/dev/null; chmod 700 a; "
            "touch -d @1000000 a/b/f",
            NULL, 0)
            .exit_code,
        0);
    ask(&b, CSN_FRAME_LEND, NULL, 0, NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_DONE);
    CHECK_INT(b.msg.n_fds, 2);
    fds[0] = csn_msg_take_fd(&b.msg, 0);
    fds[1] = csn_msg_take_fd(&b.msg, 1);
    run_mode(&b, CSN_PLAN_COPY, "one", fds, 2);
    close(fds[0]);
    close(fds[1]);
    ask(&b, CSN_FRAME_THAW, NULL, 0, NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_DONE);
    CHECK_INT(run(&b, "true", NULL, 0).exit_code, 0);
    stop_box(&b, -1, true);
    new_box(&c, b.state, CSN_PLAN_EPHEMERAL);
    c.plan.n_layers = 2; /* the last one is the base */
    c.plan.layers[0] = "one";
    c.plan.layers[1] = "base";
    make_dir(c.state, "layers/base");
    make_base(c.state, "layers/base/root");
    if (c.plan.id_base)
        c.plan.id_base += 65536000; /* another range: owners on disk don't depend on it */
    start_keeper(&c);
    send_plan(&c);
    expect(&c, CSN_FRAME_READY);
    run(&c, "cd /home/daytona; cat soft; stat -c %h:%Y:%u hard; stat -c %s holes; stat -c %a a",
        out, sizeof(out));
    CHECK_STR(out, "text\n2:1000000:1000\n10485764\n700\n");
    stop_box(&c, -1, true);
    run_mode(&b, CSN_PLAN_REMOVE, "layers/one", NULL, 0);
    CHECK(!state_has(b.state, "layers/one"));
}

TEST(a_frozen_sandbox_thaws_when_its_copier_goes)
{
    static box b, copier;
    csn_spawn spawn = { .flags = CSN_SPAWN_BACKGROUND, .output_bytes = -1 };
    csn_wire_error e;

    start_box(&b, make_state(), CSN_PLAN_DETACHED);
    spawn_with(&b, "i=0; while [ $i -lt 5 ]; do sleep 0.1; i=$((i+1)); done; echo done", spawn, NULL, 0);
    uint32_t n = started(&b);
    copier = b;
    copier.msg = (csn_msg) CSN_MSG_INIT;
    connect_box(&copier);
    ask(&copier, CSN_FRAME_LEND, NULL, 0, NULL, 0, NULL, 0);
    expect(&copier, CSN_FRAME_DONE);
    CHECK_INT(copier.msg.n_fds, 2);
    spawn_with(&b, "true", spawn, NULL, 0);
    expect(&b, CSN_FRAME_ERROR);
    csn_msg_fixed(&b.msg, &e, sizeof(e));
    CHECK_INT(e.code, CSN_E_BUSY);
    csn_msg_done(&copier.msg);
    close(copier.fd);
    csn_process_state s = exited(&b);
    CHECK_INT(s.process, n);
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST_TIMEOUT(deep_trees_go, 180)
{
    static box b;
    char out[64];

    start_box(&b, make_state(), 0);
    run(&b,
        "python3 -c 'import os\nos.chdir(\"/home/daytona\")\nfor i in range(3000):\n os.mkdir(\"d\"); os.chdir(\"d\"); "
        "open(\"f\", \"w\")\nprint(i + 1)'",
        out, sizeof(out));
    CHECK_STR(out, "3000\n");
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST(volumes_are_shared_and_bounded_to_their_place)
{
    static box b, c;
    char out[64], path[300];

    new_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    make_dir(b.state, "volumes/v");
    make_dir(b.state, "volumes/v/data");
    snprintf(path, sizeof(path), "%s/volumes/v/data", b.state);
    if (geteuid() == 0)
        CHECK(chown(path, 1000, 1000) == 0);
    b.plan.n_mounts = 1;
    b.plan.mounts[0] = (csn_plan_mount){ "v", "/data", "sub/dir", 0 };
    start_keeper(&b);
    csn_test_defer(end_quietly, &b);
    send_plan(&b);
    expect(&b, CSN_FRAME_READY);
    CHECK_INT(run(&b, "echo shared > /data/f", NULL, 0).exit_code, 0);
    new_box(&c, b.state, CSN_PLAN_EPHEMERAL);
    c.plan.n_mounts = 1;
    c.plan.mounts[0] = (csn_plan_mount){ "v", "/mnt/data", "", 1 };
    if (c.plan.id_base)
        c.plan.id_base += 65536000;
    start_keeper(&c);
    csn_test_defer(end_quietly, &c);
    send_plan(&c);
    expect(&c, CSN_FRAME_READY);
    run(&c, "cat /mnt/data/sub/dir/f; touch /mnt/data/x 2>/dev/null || echo refused", out,
        sizeof(out));
    CHECK_STR(out, "shared\nrefused\n");
}

TEST(a_strict_disk_is_full_when_it_is_full)
{
    static box b;
    char out[64];

    new_box(&b, make_state(), 0);
    b.plan.strict = CSN_LIMIT_DISK;
    b.plan.disk_bytes = 32 << 20;
    start_keeper(&b);
    csn_test_defer(end_quietly, &b);
    send_plan(&b);
    if (geteuid() != 0) {
        csn_wire_error e;
        expect(&b, CSN_FRAME_ERROR);
        csn_msg_fixed(&b.msg, &e, sizeof(e));
        CHECK_INT(e.code, CSN_E_UNSUPPORTED);
        return;
    }
    expect(&b, CSN_FRAME_READY);
    csn_msg_fixed(&b.msg, &b.ready, sizeof(b.ready));
    CHECK_INT(b.ready.disk_rung, CSN_DISK_LOOP);
    CHECK(b.ready.limits_kernel & CSN_LIMIT_DISK);
    CHECK_INT(run(&b, "head -c 100000000 /dev/zero > /home/daytona/big", NULL, 0).ended,
              CSN_ENDED_DISK_FULL);
    CHECK_INT(run(&b, "rm /home/daytona/big; echo kept > /home/daytona/f", NULL, 0).exit_code, 0);
    stop_box(&b, -1, false);
    close(b.fd);
    start_keeper(&b);
    send_plan(&b);
    expect(&b, CSN_FRAME_READY);
    run(&b, "cat /home/daytona/f", out, sizeof(out));
    CHECK_STR(out, "kept\n");
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST(a_watched_disk_ends_what_overfills_it)
{
    static box b;

    start_box(&b, make_state(), 0);
    CHECK_INT(run(&b, "head -c 200000000 /dev/zero > /home/daytona/big; sleep 20", NULL, 0).ended,
              CSN_ENDED_DISK_FULL);
    CHECK_INT(run(&b, "rm /home/daytona/big; sleep 1", NULL, 0).ended, CSN_ENDED_EXIT);
    CHECK_INT(run(&b,
                  "mkdir -m 700 /home/daytona/closed; cd /home/daytona/closed; for i in 1 2 3 4; do "
                  "head -c 30000000 /dev/zero > $i; done; chmod 000 .; sleep 20",
                  NULL, 0)
                  .ended,
              CSN_ENDED_DISK_FULL);
}

TEST(an_outbound_sandbox_has_a_link_and_no_private_neighbours)
{
    static box b;
    char out[1024];

    if (access("/usr/bin/slirp4netns", X_OK) < 0)
        SKIP("slirp4netns is not installed");
    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL | CSN_PLAN_OUTBOUND);
    run(&b, "cat /proc/net/dev /etc/resolv.conf", out, sizeof(out));
    CHECK(strstr(out, "tap0"));
    CHECK(strstr(out, "nameserver 198.18.0.3"));
    run(&b,
        "for a in 10.0.0.1 192.168.1.1 169.254.169.254 100.64.0.1; do python3 -c \"import socket,sys\n"
        "s=socket.socket()\ns.settimeout(2)\nprint(s.connect_ex((sys.argv[1],80)))\" $a; done",
        out, sizeof(out));
    for (const char *p = out; *p; p = strchr(p, '\n') + 1) {
        int e = atoi(p);
        CHECK(e == EHOSTUNREACH || e == ENETUNREACH || e == EACCES);
    }
    stop_box(&b, -1, true);
    check_gone(&b);
}

#ifdef CSN_TEST_HOOKS

enum {
    ENOUGH = 12
}; /* some faults are taken in stride (a limit falls back to the watcher): so many good starts in a row
                        * say that the points are used up */

static void check_failed(box *b)
{
    csn_wire_error e;

    csn_msg_fixed(&b->msg, &e, sizeof(e));
    CHECK(e.message[0] != '\0');
    CHECK_INT(hear(b), 0);
    CHECK_INT(waitpid(b->keeper, NULL, 0), b->keeper);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* nobody was left to us */
}

/* Fails the k-th point, k = first, first + 1 … Returns how many starts failed. */
static unsigned fail_each(const char *state, uint32_t flags, int64_t first)
{
    static box b;
    unsigned n_failed = 0, n_good = 0;

    for (int64_t k = first; n_good < ENOUGH; k++) {
        new_box(&b, state, flags);
        b.plan.fault_at = k;
        start_keeper(&b);
        send_plan(&b);
        uint32_t type = hear(&b);
        if (type == CSN_FRAME_ERROR) {
            check_failed(&b);
            n_failed++;
            n_good = 0;
        } else {
            CHECK_INT(type, CSN_FRAME_READY);
            stop_box(&b, -1, true);
            n_good++;
        }
        close(b.fd);
        CHECK(k < first + 500);
    }
    return n_failed;
}

static unsigned count_groups(void)
{
    FILE *f = popen("find /sys/fs/cgroup -type d -path '*caisson/*' 2>/dev/null | wc -l", "r");
    unsigned n = 0;

    CHECK(f && fscanf(f, "%u", &n) == 1);
    pclose(f);
    return n;
}

TEST_TIMEOUT(a_start_that_fails_anywhere_leaves_nothing, 250)
{
    const char *state = make_state();
    unsigned before = count_groups(), outside, inside;

    outside = fail_each(state, CSN_PLAN_EPHEMERAL, 1);
    inside = fail_each(state, CSN_PLAN_EPHEMERAL, 1001);
    csn_test_note("%u points outside, %u inside", outside, inside);
    CHECK(outside > 20);
    CHECK(inside > 40);
    fail_each(state, CSN_PLAN_DETACHED, 1);
    CHECK(count_groups() <= before);
}

#endif

/* --- a hostile init ---------------------------------------------------------------------------------------------------- */

/* This very program is given to the keeper as init; the sandbox's host name says what it is to do (R11, R39). */
static void say(uint32_t type, const void *fixed, size_t len, const int *fds, size_t n_fds)
{
    csn_out out = { .type = type, .fixed = fixed, .fixed_len = len, .fds = fds, .n_fds = n_fds };

    if (csn_frame_send(CSN_KEEPER_FD, &out) < 0)
        _exit(2);
}

static uint32_t hear_spawn(void)
{
    static char buf[CSN_FRAME_MAX];
    csn_msg msg = CSN_MSG_INIT;
    csn_init_spawn spawn;

    if (csn_frame_recv(CSN_KEEPER_FD, buf, sizeof(buf), CSN_SAID_TO_INIT, 0, &msg) != 1)
        _exit(3);
    csn_msg_fixed(&msg, &spawn, sizeof(spawn));
    csn_msg_done(&msg);
    return spawn.process;
}

static void lie(void)
{
    csn_init_started started = { .process = hear_spawn(), .pid = -77 };
    csn_init_exited exited = { .process = started.process,
                               .wait_status = 0x7fffff00,
                               .user_us = INT64_MIN,
                               .sys_us = INT64_MAX,
                               .max_rss_bytes = INT64_MAX,
                               .n_tasks = INT64_MAX };

    say(CSN_FRAME_INIT_STARTED, &started, sizeof(started), NULL, 0);
    say(CSN_FRAME_INIT_EXITED, &exited, sizeof(exited), NULL, 0);
}

static void be_hostile(const char *how)
{
    csn_init_exited exited = { .process = 1 };

    if (strcmp(how, "mute") == 0)
        _exit(0);
    say(CSN_FRAME_INIT_READY, NULL, 0, NULL, 0);
    if (strcmp(how, "garbage") == 0)
        (void) !write(CSN_KEEPER_FD, "garbage", 7);
    else if (strcmp(how, "early") == 0)
        say(CSN_FRAME_INIT_EXITED, &exited, sizeof(exited), NULL, 0);
    else if (strcmp(how, "again") == 0)
        say(CSN_FRAME_INIT_READY, NULL, 0, NULL, 0);
    else if (strcmp(how, "liar") == 0)
        lie();
    else if (strcmp(how, "false-pty") == 0) {
        csn_init_started started = { .process = hear_spawn() };
        int fd = open("/tmp/x", O_RDWR | O_CREAT, 0600);
        say(CSN_FRAME_INIT_STARTED, &started, sizeof(started), &fd, 1);
    }
    for (;;)
        pause();
}

__attribute__((constructor)) static void maybe_init(void)
{
    char name[64] = "";

    if (getpid() == 1 && gethostname(name, sizeof(name) - 1) == 0)
        be_hostile(name);
}

static int own_image(void)
{
    static char bytes[65536];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = memfd_create("init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ssize_t n;

    CHECK(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof(bytes))) > 0)
        CHECK_INT(csn_write_all(out, bytes, (size_t) n), 0);
    close(in);
    CHECK(fchmod(out, 0555) == 0);
    CHECK(fcntl(out, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
    return out;
}

static void start_hostile(box *b, const char *state, const char *how)
{
    static char bytes[CSN_FRAME_MAX];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };
    int image = own_image();

    new_box(b, state, CSN_PLAN_EPHEMERAL);
    b->plan.hostname = how;
    start_keeper(b);
    csn_plan_pack(&p, &b->plan);
    ask(b, CSN_FRAME_PLAN, NULL, 0, bytes, p.len, &image, 1);
    close(image);
}

static void check_ended(box *b)
{
    CHECK_INT(hear(b), 0);
    CHECK_INT(waitpid(b->keeper, NULL, 0), b->keeper);
    close(b->fd);
    check_gone(b);
}

TEST(an_init_that_breaks_the_rules_loses_its_sandbox)
{
    static const char *const ways[] = { "garbage", "early", "again" };
    static box b;
    const char *state = make_state();

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        start_hostile(&b, state, ways[i]);
        expect(&b, CSN_FRAME_READY);
        check_ended(&b);
    }
    start_hostile(&b, state, "mute");
    expect(&b, CSN_FRAME_ERROR);
    CHECK_INT(hear(&b), 0);
    waitpid(b.keeper, NULL, 0);
    close(b.fd);
    start_hostile(&b, state, "false-pty");
    expect(&b, CSN_FRAME_READY);
    spawn_with(&b, "true", (csn_spawn){ .flags = CSN_SPAWN_PTY }, NULL, 0);
    CHECK(hear(&b) != CSN_FRAME_STARTED);
    CHECK_INT(hear(&b), 0);
    waitpid(b.keeper, NULL, 0);
    close(b.fd);
}

TEST(what_init_counts_is_clamped)
{
    static box b;

    start_hostile(&b, make_state(), "liar");
    expect(&b, CSN_FRAME_READY);
    spawn_with(&b, "true", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    started(&b);
    csn_process_state s = exited(&b);
    CHECK_INT(s.user_us, 0);
    CHECK(s.sys_us > 0 && s.sys_us <= INT64_C(1) << 52);
    CHECK(s.peak_memory_bytes <= b.plan.memory_bytes);
    CHECK(s.n_processes <= INT64_C(1) << 40);
    CHECK(s.exit_code >= -1 && s.exit_code <= 255);
    stop_box(&b, -1, true);
}
