/* SPDX-License-Identifier: Apache-2.0 */
/* What fails and who lies: injected faults, a hostile init. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "drive.h"
#include "keeper.h"
#include "kern/affinity.h"
#include "wire/spec.h"

#ifdef CSN_TEST_HOOKS

enum {
    ENOUGH = 12
}; /* some faults are taken in stride (a limit falls back to the watcher): so many good starts in a row
                        * say that the points are used up */

static char ids[1000][33];
static size_t n_ids;

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
        CHECK(n_ids < sizeof(ids) / sizeof(ids[0]));
        memcpy(ids[n_ids++], b.id, sizeof(b.id));
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

/* Others may run sandboxes meanwhile: only groups with our ids count. */
static int check_group(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void) st;
    (void) kind;
    for (size_t i = 0; i < n_ids; i++)
        if (strcmp(path + where->base, ids[i]) == 0)
            FAIL("left behind: %s", path);
    return 0;
}

static void check_no_groups(void)
{
    (void) nftw("/sys/fs/cgroup", check_group, 16, FTW_PHYS); /* groups come and go under it */
}

TEST_TIMEOUT(a_start_that_fails_anywhere_leaves_nothing, 250)
{
    const char *state = make_state();
    unsigned outside, inside;

    outside = fail_each(state, CSN_PLAN_EPHEMERAL, 1);
    inside = fail_each(state, CSN_PLAN_EPHEMERAL, 1001);
    csn_test_note("%u points outside, %u inside", outside, inside);
    CHECK(outside > 20);
    CHECK(inside > 40);
    fail_each(state, CSN_PLAN_DETACHED, 1);
    check_no_groups();
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

/* Says what it has to say about a kill when the second command's input ends, and then ends its output. */
static void be_patient(void)
{
    static char buf[CSN_FRAME_MAX];
    csn_msg msg = CSN_MSG_INIT;
    csn_init_started first = { .process = hear_spawn() }, second = { .process = first.process + 1 };
    csn_init_exited exited = { .process = first.process, .wait_status = SIGKILL };

    say(CSN_FRAME_INIT_STARTED, &first, sizeof(first), NULL, 0);
    if (csn_frame_recv(CSN_KEEPER_FD, buf, sizeof(buf), CSN_SAID_TO_INIT, 0, &msg) != 1)
        _exit(3);
    (void) !read(msg.fds[0], buf, 1);
    say(CSN_FRAME_INIT_STARTED, &second, sizeof(second), NULL, 0);
    say(CSN_FRAME_INIT_EXITED, &exited, sizeof(exited), NULL, 0);
    csn_msg_done(&msg);
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
    csn_init_failed failed = { .sys_errno = EIO, .stage = CSN_STAGE_FORK };

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
    else if (strcmp(how, "patient") == 0)
        be_patient();
    else if (strcmp(how, "silent") == 0) {
        exited.process = hear_spawn();
        say(CSN_FRAME_INIT_EXITED, &exited, sizeof(exited), NULL, 0);
        lie();
    } else if (strcmp(how, "twice") == 0) {
        csn_init_started started = { .process = exited.process = hear_spawn() };
        say(CSN_FRAME_INIT_STARTED, &started, sizeof(started), NULL, 0);
        say(CSN_FRAME_INIT_EXITED, &exited, sizeof(exited), NULL, 0);
        say(CSN_FRAME_INIT_EXITED, &exited, sizeof(exited), NULL, 0);
        failed.process = hear_spawn();
        say(CSN_FRAME_INIT_FAILED, &failed, sizeof(failed), NULL, 0);
        say(CSN_FRAME_INIT_FAILED, &failed, sizeof(failed), NULL, 0);
        lie();
    } else if (strcmp(how, "ahead") == 0) {
        exited.process = hear_spawn() + 1;
        say(CSN_FRAME_INIT_EXITED, &exited, sizeof(exited), NULL, 0);
    } else if (strcmp(how, "false-pty") == 0) {
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

/* A program that kills its shepherd in the very moment of its start. */
TEST(an_end_without_a_start_fails_the_command_and_not_the_sandbox)
{
    static box b;

    start_hostile(&b, make_state(), "silent");
    expect(&b, CSN_FRAME_READY);
    spawn_with(&b, "true", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    CHECK_INT(hear(&b), CSN_FRAME_ERROR);
    spawn_with(&b, "true", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    started(&b);
    (void) exited(&b);
    stop_box(&b, -1, true);
}

/* A shepherd that is killed between its report and its note that it has reported: init reports for it, again. */
TEST(an_end_that_is_told_twice_is_no_reason_to_end_the_sandbox)
{
    static box b;

    start_hostile(&b, make_state(), "twice");
    expect(&b, CSN_FRAME_READY);
    spawn_with(&b, "true", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    started(&b);
    (void) exited(&b);
    spawn_with(&b, "true", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    CHECK_INT(hear(&b), CSN_FRAME_ERROR);
    spawn_with(&b, "true", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    started(&b);
    (void) exited(&b);
    stop_box(&b, -1, true);
}

TEST(an_end_of_a_command_that_was_never_sent_ends_the_sandbox)
{
    static box b;

    start_hostile(&b, make_state(), "ahead");
    expect(&b, CSN_FRAME_READY);
    spawn_with(&b, "true", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    CHECK_INT(hear(&b), CSN_FRAME_ERROR); /* it ended before the command was started */
    check_ended(&b);
}

/* Ends a sandbox in which one command still runs. */
static void stop_with(box *b, uint32_t running)
{
    const csn_stop stop = { .grace_ms = -1, .delete_too = 1 };

    ask(b, CSN_FRAME_STOP, &stop, sizeof(stop), NULL, 0, NULL, 0);
    CHECK_INT(exited(b).process, running);
    expect(b, CSN_FRAME_DONE);
    check_ended(b);
}

/* Two frames wait when it comes back, and the one that says that the tree is gone is the second. */
TEST(a_keeper_that_had_no_turn_for_too_long_hears_init_before_it_ends_the_sandbox)
{
    static box b;
    csn_signal kill_first = { .signal = SIGKILL, .whole_tree = 1, .ending = CSN_ENDED_KILLED };
    int in[2], out[2], status;
    char byte;

    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    start_hostile(&b, make_state(), "patient");
    expect(&b, CSN_FRAME_READY);
    spawn_with(&b, "first", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    kill_first.process = started(&b);
    spawn_with(&b, "second", (csn_spawn){ .fds = CSN_FD_STDIN | CSN_FD_STDOUT, .output_bytes = -1 },
               (const int[]){ in[0], out[1] }, 2);
    close(in[0]);
    close(out[1]);
    ask(&b, CSN_FRAME_SIGNAL, &kill_first, sizeof(kill_first), NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_DONE);
    CHECK(kill(b.keeper, SIGSTOP) == 0);
    CHECK_INT(waitpid(b.keeper, &status, WUNTRACED), b.keeper);
    int64_t due = csn_deadline_in_ms(CSN_KILL_WAIT_MS);
    close(in[1]);
    CHECK_INT(read(out[0], &byte, 1), 0); /* init has said all */
    close(out[0]);
    while (!csn_deadline_passed(due))
        (void) poll(NULL, 0, csn_remaining_ms(due));
    CHECK(kill(b.keeper, SIGCONT) == 0);
    CHECK_INT(started(&b), kill_first.process + 1);
    CHECK_INT(exited(&b).process, kill_first.process);
    csn_signal poke_second = { .process = kill_first.process + 1, .signal = SIGURG };
    ask(&b, CSN_FRAME_SIGNAL, &poke_second, sizeof(poke_second), NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_DONE); /* and not the second's end */
    stop_with(&b, poke_second.process);
}

/* So many that want a processor are others, whoever else runs beside the test. */
static void crowd(void)
{
    const int n = 8 * (int) csn_affinity_count();

    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid > 0)
            continue;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) !nice(19);
        for (;;)
            ;
    }
}

TEST(a_tree_that_gets_no_processor_on_a_crowded_machine_is_waited_for)
{
    static box b;
    csn_signal kill_first = { .signal = SIGKILL, .whole_tree = 1, .ending = CSN_ENDED_KILLED };
    int in[2], out[2];

    crowd(); /* first: they would hold the pipes open */
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    start_hostile(&b, make_state(), "patient");
    expect(&b, CSN_FRAME_READY);
    spawn_with(&b, "first", (csn_spawn){ .output_bytes = -1 }, NULL, 0);
    kill_first.process = started(&b);
    spawn_with(&b, "second", (csn_spawn){ .fds = CSN_FD_STDIN | CSN_FD_STDOUT, .output_bytes = -1 },
               (const int[]){ in[0], out[1] }, 2);
    close(in[0]);
    ask(&b, CSN_FRAME_SIGNAL, &kill_first, sizeof(kill_first), NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_DONE);
    struct pollfd said = { .fd = b.fd, .events = POLLIN };
    CHECK_INT(poll(&said, 1, 2 * CSN_KILL_WAIT_MS), 0); /* neither an end nor a word */
    close(in[1]);
    CHECK_INT(started(&b), kill_first.process + 1);
    CHECK_INT(exited(&b).process, kill_first.process);
    stop_with(&b, kill_first.process + 1);
}
