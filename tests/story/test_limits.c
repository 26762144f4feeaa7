/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that go to their limits: each ends in the right receipt, soon after the limit, and a neighbour does not
 * notice. They run in a named pair of sandboxes: the villain's and the neighbour's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <caisson.h>

#include "csn_test.h"

#define MIB(n) ((int64_t) (n) << 20)

static csn_engine *engine;
static csn_sandbox *villain, *neighbour;

static void close_all(void *user)
{
    (void) user;
    if (villain)
        csn_sandbox_delete(villain, NULL);
    csn_sandbox_free(villain);
    if (neighbour)
        csn_sandbox_delete(neighbour, NULL);
    csn_sandbox_free(neighbour);
    csn_engine_free(engine);
}

static csn_sandbox *a_sandbox(const csn_sandbox_options *opts)
{
    csn_sandbox *box = NULL;
    csn_error err = { 0 };
    if (csn_sandbox_create(engine, opts, &box, &err) < 0)
        FAIL("%s", err.message);
    return box;
}

static void two_sandboxes(csn_sandbox_options opts)
{
    csn_error err = { 0 };
    setenv("CAISSON_STATE", csn_test_dir(), 1);
    if (csn_engine_open(NULL, &engine, &err) < 0)
        FAIL("%s", err.message);
    csn_test_defer(close_all, NULL);
    opts.size = sizeof(opts);
    opts.is_ephemeral = 1;
    villain = a_sandbox(&opts);
    csn_sandbox_options plain = { .size = sizeof(plain), .is_ephemeral = 1 };
    neighbour = a_sandbox(&plain);
}
#define GIVEN(...) two_sandboxes((csn_sandbox_options){ __VA_ARGS__ })

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static csn_receipt receipt_of(csn_sandbox *box, csn_process_options o)
{
    csn_run_result result = { 0 };
    csn_error err = { 0 };
    o.size = sizeof(o);
    if (csn_run(box, &o, &result, &err) < 0)
        FAIL("%s", err.message);
    char text[256];
    csn_receipt_text(&result.receipt, text, sizeof(text));
    csn_test_note("%s", text);
    csn_receipt receipt = result.receipt;
    csn_run_result_done(&result);
    return receipt;
}

static void neighbour_is_well(void)
{
    csn_process_options o = { .size = sizeof(o), .shell = "echo well" };
    csn_run_result result = { 0 };
    csn_error err = { 0 };
    int64_t t = now_ms();
    if (csn_run(neighbour, &o, &result, &err) < 0)
        FAIL("the neighbour noticed: %s", err.message);
    CHECK_STR(result.out, "well\n");
    CHECK(now_ms() - t < 2000);
    csn_run_result_done(&result);
}

static const char *ending_of(csn_receipt r)
{
    return csn_ending_name(r.ended);
}

TEST_TIMEOUT(a_fork_bomb_ends_at_the_process_limit, 60)
{
    GIVEN(.pids = 64);
    const char *bomb = "import os\nwhile True:\n  try:\n    os.fork()\n  except OSError:\n    pass\n";
    const char *argv[] = { "python3", "-c", bomb, NULL };
    int64_t t = now_ms();
    CHECK_STR(ending_of(receipt_of(villain, (csn_process_options){ .argv = argv, .timeout_ms = 20000 })), "pids-limit");
    CHECK(now_ms() - t < 8000);
    neighbour_is_well();
}

TEST_TIMEOUT(two_busy_programs_share_the_one_processor_they_got, 60)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        SKIP("kernel: one processor holds everybody");
    GIVEN(.cpu_milli = 1000);
    csn_receipt r = receipt_of(villain, (csn_process_options){
                                            .shell = "spin() { timeout 2 sh -c 'while :; do :; done'; }; "
                                                     "spin & spin & spin & wait" });
    CHECK_STR(ending_of(r), "exit");
    csn_test_note("%lld ms of CPU in %lld ms", (long long) (r.user_us + r.sys_us) / 1000,
                  (long long) r.wall_us / 1000);
    CHECK((double) (r.user_us + r.sys_us) < 1.3 * (double) r.wall_us);
    CHECK(r.cpu_rung != CSN_CPU_NONE);
    neighbour_is_well();
}

TEST_TIMEOUT(without_cgroups_a_program_stays_on_the_processors_it_got, 60)
{
    GIVEN(.cpu_milli = 500);
    csn_receipt r = receipt_of(villain, (csn_process_options){ .shell = "[ $(nproc) = 1 ]" });
    if (r.cpu_rung != CSN_CPU_PROCESSORS)
        SKIP("user: here a cgroup holds the limit");
    CHECK_INT(r.exit_code, 0);
    r = receipt_of(villain, (csn_process_options){ .shell = "taskset -p ffff $$ && [ $(nproc) = 1 ]" });
    CHECK_INT(r.exit_code, 0); /* heard, and nothing changed */
    csn_error err = { 0 };
    CHECK_INT(csn_sandbox_resize(villain, 0, 1000, 0, &err), CSN_OK); /* still one of them */
    CHECK_INT(csn_sandbox_resize(villain, 0, 2000, 0, &err), CSN_E_UNSUPPORTED);
}

TEST_TIMEOUT(a_sandbox_with_a_fork_bomb_can_be_stopped_within_two_seconds, 60)
{
    GIVEN(.pids = 256);
    csn_process *process = NULL;
    csn_error err = { 0 };
    csn_process_options o = { .size = sizeof(o), .shell = "b() { b | b & }; b; while :; do b; done" };
    if (csn_process_start(villain, &o, &process, &err) < 0)
        FAIL("%s", err.message);
    neighbour_is_well();
    int64_t t = now_ms();
    CHECK_INT(csn_sandbox_delete(villain, &err), 0);
    CHECK(now_ms() - t < 2000);
    csn_process_free(process);
    villain = csn_sandbox_free(villain);
}

TEST_TIMEOUT(a_memory_hog_dies_of_it_and_the_sandbox_lives, 60)
{
    GIVEN(.memory_bytes = MIB(96));
    const char *argv[] = { "python3", "-c", "x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1", NULL };
    CHECK_STR(ending_of(receipt_of(villain, (csn_process_options){ .argv = argv })), "oom");
    CHECK_INT(receipt_of(villain, (csn_process_options){ .shell = "true" }).exit_code, 0);
    neighbour_is_well();
}

/* Answers that nobody reads lie in buffers that the kernel charges to no cgroup. */
TEST_TIMEOUT(unread_netlink_answers_end_as_oom, 60)
{
    GIVEN(.memory_bytes = MIB(64));
    const char *hog =
        "import socket, struct\n"
        "msg = struct.pack('=IHHII', 32, 18, 0x301, 1, 0) + struct.pack('=BxHiII', 0, 0, 1, 0, 0)\n"
        "kept = []\n"
        "while True:\n"
        "  s = socket.socket(16, 3, 0); s.setsockopt(1, 8, 1 << 30); s.setblocking(False)\n"
        "  kept.append(s)\n"
        "  try:\n"
        "    for _ in range(2200): s.send(msg)\n"
        "  except OSError: pass\n";
    const char *argv[] = { "python3", "-c", hog, NULL };

    CHECK_STR(
        ending_of(receipt_of(villain, (csn_process_options){ .argv = argv, .timeout_ms = 40000 })),
        "oom");
    neighbour_is_well();
}

TEST_TIMEOUT(unread_bytes_in_tcp_connections_end_as_oom, 60)
{
    GIVEN(.memory_bytes = MIB(64));
    const char *hog = /* each process opens as many as it may, and keeps them */
        "import os, signal, socket\n"
        "while True:\n"
        "  l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(1000); kept = []\n"
        "  try:\n"
        "    while True:\n"
        "      a = socket.socket(); kept.append(a); a.connect(l.getsockname())\n"
        "      kept.append(l.accept()[0]); a.setblocking(False)\n"
        "      try:\n"
        "        while True: a.send(b'x' * 65536)\n"
        "      except BlockingIOError: pass\n"
        "  except OSError: pass\n"
        "  if os.fork(): signal.pause()\n"
        "  for s in kept: s.close()\n"
        "  l.close()\n";
    const char *argv[] = { "python3", "-c", hog, NULL };
    csn_receipt before = receipt_of(villain, (csn_process_options){ .shell = "true" });

    if (!(before.limits_kernel & CSN_LIMIT_MEMORY))
        SKIP("kernel: without a cgroup nobody counts TCP");
    CHECK_STR(
        ending_of(receipt_of(villain, (csn_process_options){ .argv = argv, .timeout_ms = 40000 })),
        "oom");
    neighbour_is_well();
}

/* Some, as ordinary programs have them, are nothing. */
TEST_TIMEOUT(sockets_within_the_budget_end_nobody, 60)
{
    GIVEN(.memory_bytes = MIB(64));
    const char *some =
        "import socket, struct, time\n"
        "msg = struct.pack('=IHHII', 32, 18, 0x301, 1, 0) + struct.pack('=BxHiII', 0, 0, 1, 0, 0)\n"
        "kept = [socket.socket(16, 3, 0) for _ in range(20)]\n"
        "for s in kept: s.send(msg)\n"
        "time.sleep(1)\n";
    const char *argv[] = { "python3", "-c", some, NULL };

    CHECK_STR(
        ending_of(receipt_of(villain, (csn_process_options){ .argv = argv, .timeout_ms = 40000 })),
        "exit");
}

TEST_TIMEOUT(files_in_memory_count_as_memory, 60)
{
    GIVEN(.memory_bytes = MIB(96), .tmp_bytes = MIB(512), .disk_bytes = MIB(16));
    csn_receipt r = receipt_of(villain, (csn_process_options){ .shell = "head -c 300000000 /dev/zero > /tmp/x" });
    CHECK(r.ended == CSN_ENDED_OOM || (r.ended == CSN_ENDED_EXIT && r.exit_code != 0) || r.ended == CSN_ENDED_DISK_FULL);
    neighbour_is_well();
}

TEST_TIMEOUT(a_disk_filler_meets_a_full_disk, 60)
{
    GIVEN(.disk_bytes = MIB(32));
    CHECK_STR(ending_of(receipt_of(villain, (csn_process_options){ .shell = "head -c 200000000 /dev/zero > big" })),
              "disk-full");
    CHECK_INT(receipt_of(villain, (csn_process_options){ .shell = "rm big && echo back > small" }).exit_code, 0);
    neighbour_is_well();
}

/* Longer than it takes until the disk is measured again, where it is only measured. */
TEST_TIMEOUT(who_did_not_fill_the_disk_is_not_blamed_for_it, 60)
{
    GIVEN(.disk_bytes = MIB(32), .is_ephemeral = 0);
    CHECK_STR(ending_of(receipt_of(
                  villain, (csn_process_options){ .shell = "head -c 200000000 /dev/zero > big" })),
              "disk-full");
    csn_receipt r = receipt_of(villain, (csn_process_options){ .shell = "sleep 1; exit 7" });
    CHECK_STR(ending_of(r), "exit");
    CHECK_INT(r.exit_code, 7);
    CHECK_INT(receipt_of(villain,
                         (csn_process_options){ .shell = "sleep 1; rm big && echo back > small" })
                  .exit_code,
              0);
}

TEST_TIMEOUT(a_maker_of_empty_files_meets_the_inode_limit, 60)
{
    GIVEN(.disk_inodes = 500);
    const char *argv[] = { "python3", "-c", "for i in range(100000): open('f%d' % i, 'w').close()", NULL };
    CHECK_STR(ending_of(receipt_of(villain, (csn_process_options){ .argv = argv })), "disk-full");
    neighbour_is_well();
}

TEST_TIMEOUT(a_gigabyte_of_output_is_cut_and_counted, 120)
{
    GIVEN(.size = 0);
    csn_receipt r = receipt_of(villain, (csn_process_options){ .shell = "head -c 1000000000 /dev/zero" });
    CHECK_STR(ending_of(r), "exit");
    CHECK_INT(r.stdout_bytes, 1000000000);
    CHECK(r.is_output_cut);
    neighbour_is_well();
}

TEST_TIMEOUT(an_output_flood_is_killed_where_that_was_asked, 60)
{
    GIVEN(.size = 0);
    int64_t t = now_ms();
    csn_receipt r = receipt_of(villain, (csn_process_options){ .shell = "yes", .output_bytes = MIB(4),
                                                               .output_policy = CSN_OUTPUT_KILL });
    CHECK_STR(ending_of(r), "output-limit");
    CHECK(now_ms() - t < 3000);
    neighbour_is_well();
}

TEST_TIMEOUT(a_daemon_that_ignores_signals_does_not_delay_the_answer, 60)
{
    GIVEN(.size = 0);
    const char *daemon = "import os, signal, time\n"
                         "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                         "if os.fork(): os._exit(3)\n"
                         "os.setsid()\n"
                         "if os.fork(): os._exit(0)\n"
                         "while True: time.sleep(100)\n";
    const char *argv[] = { "python3", "-c", daemon, NULL };
    int64_t t = now_ms();
    CHECK_INT(receipt_of(villain, (csn_process_options){ .argv = argv }).exit_code, 3);
    CHECK(now_ms() - t < 3000);
    t = now_ms();
    csn_error err = { 0 };
    CHECK_INT(csn_sandbox_stop(villain, 100, &err), 0);
    CHECK(now_ms() - t < 2000);
}

TEST_TIMEOUT(a_time_limit_takes_the_whole_tree_daemons_included, 60)
{
    GIVEN(.size = 0);
    const char *tree = "import os, signal, time\n"
                       "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\n"
                       "if os.fork() == 0:\n"
                       "  os.setsid()\n"
                       "  if os.fork(): os._exit(0)\n"
                       "  while True: time.sleep(1)\n"
                       "while True: time.sleep(1)\n";
    const char *argv[] = { "python3", "-c", tree, NULL };
    int64_t t = now_ms();
    CHECK_STR(ending_of(receipt_of(villain, (csn_process_options){ .argv = argv, .timeout_ms = 700 })), "timeout");
    CHECK(now_ms() - t < 2700);
    /* Nobody but this shell and its init: ps is a reader of /proc, which shows this sandbox alone. */
    CHECK_INT(receipt_of(villain, (csn_process_options){ .shell = "! grep -lq python /proc/[0-9]*/comm" }).exit_code, 0);
    neighbour_is_well();
}

TEST_TIMEOUT(a_program_that_closes_its_stdio_is_an_ordinary_program, 60)
{
    GIVEN(.size = 0);
    csn_receipt r = receipt_of(villain, (csn_process_options){ .shell = "exec <&- >&- 2>&-; sleep 0.2; exit 5" });
    CHECK_STR(ending_of(r), "exit");
    CHECK_INT(r.exit_code, 5);
}

TEST_TIMEOUT(a_busy_program_gets_no_more_than_its_share, 60)
{
    GIVEN(.cpu_milli = 300);
    const char *argv[] = { "python3", "-c",
                           "import threading, time, os\n"
                           "end = time.time() + 1.5\n"
                           "def f():\n"
                           "  while time.time() < end: pass\n"
                           "for _ in range(3):\n"
                           "  if os.fork() == 0: f(); os._exit(0)\n"
                           "f()\n"
                           "for _ in range(3): os.wait()\n",
                           NULL };
    csn_receipt r = receipt_of(villain, (csn_process_options){ .argv = argv });
    if (!(r.limits_kernel & CSN_LIMIT_CPU))
        SKIP("kernel: no cpu controller is to be had here");
    CHECK_STR(ending_of(r), "exit");
    double share = (double) (r.user_us + r.sys_us) / (double) r.wall_us;
    csn_test_note("share %.2f of a core, limit 0.30", share);
    CHECK(share < 0.45);
}
