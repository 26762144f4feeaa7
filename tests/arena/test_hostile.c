/* Candidates that mean harm or do not care: the right result, bounded memory, nothing left behind. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "contest.h"

static long rss_kib(void)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char *end;

    CHECK_INT(csn_read_file(AT_FDCWD, "/proc/self/statm", &text, 4096), 0);
    (void) strtol(text.data, &end, 10); /* the size; what is resident comes second */
    return strtol(end, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

/* The most it had since reset_peak(). */
static long peak_kib(void)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    const char *line;

    CHECK_INT(csn_read_file(AT_FDCWD, "/proc/self/status", &text, 65536), 0);
    line = strstr(text.data, "VmHWM:");
    return line ? strtol(line + 6, NULL, 10) : 0;
}

static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    CHECK(fd >= 0 && write(fd, "5", 1) == 1);
    (void) close(fd);
}

TEST_TIMEOUT(a_hundred_megabytes_of_output_are_counted_and_cut, 120)
{
    const csn_candidate_result *r;
    long before;

    CHECK(run_py(WRITE_OK)->success); /* everything that is set up once is */
    before = rss_kib();
    reset_peak();
    r = run_py(
        WRITE_OK
        "import os\nline = b'x' * 999 + b'\\n'\nfor _ in range(100000): os.write(1, line)\n");
    csn_test_note("resident %ld KiB before, at most %ld KiB", before, peak_kib());
    CHECK(r->success && r->output_truncated);
    CHECK_INT(r->output_bytes, 100000000);
    CHECK_INT(r->output_len, 10 << 20);
    CHECK(peak_kib() - before <= 32 << 10);
    check_nothing_left(r);
}

TEST(a_daemon_neither_delays_the_result_nor_survives)
{
    int64_t start = csn_now_ns();
    const csn_candidate_result *r =
        run_py(WRITE_OK "import os, signal, time\n"
                        "if os.fork() == 0:\n  os.setsid()\n  if os.fork(): os._exit(0)\n"
                        "  signal.signal(signal.SIGTERM, signal.SIG_IGN)\n  time.sleep(600)\n"
                        "print('parent done')\n");

    csn_test_note("%.3f s", r->runtime_seconds);
    CHECK(r->success);
    CHECK_STR(r->output, "parent done\n");
    CHECK(csn_now_ns() - start < 4 * CSN_NS_PER_S);
    check_nothing_left(r);
}

TEST(a_daemon_that_keeps_printing_does_not_delay_the_result)
{
    int64_t start = csn_now_ns();
    const csn_candidate_result *r = run_py(WRITE_OK "import os\nif os.fork() == 0:\n  os.setsid()\n"
                                                    "  while True: os.write(1, b'noise\\n')\n");

    CHECK(r->success);
    CHECK(csn_now_ns() - start < 4 * CSN_NS_PER_S);
    check_nothing_left(r);
}

TEST(closing_stdout_is_no_error)
{
    CHECK(run_py("import os, sys\nos.close(1)\nos.close(2)\n" WRITE_OK)->success);
    CHECK(run_py("import os, sys\nos.dup2(os.open('/dev/null', 1), 1)\nprint('gone')\n" WRITE_OK)
              ->success);
}

static const char *failure(const char *script)
{
    const csn_candidate_result *r = run_py(script);

    CHECK(!r->success && !r->artifact_content);
    CHECK_INT(r->exit_code, 0);
    CHECK(r->runtime_seconds < 5);
    CHECK(strstr(the_log(), "x: [Sandbox] Cleaning up...\n"));
    check_nothing_left(r);
    return r->error_message;
}

TEST(what_is_not_a_regular_file_is_no_artifact)
{
    CHECK_STR(failure("import os, sys\nos.mkfifo(sys.argv[2])\n"),
              "Could not read artifact: not a regular file");
    CHECK_STR(failure("import os, sys\nos.mkdir(sys.argv[2])\n"),
              "Could not read artifact: not a regular file");
    CHECK_STR(failure("import socket, sys\nsocket.socket(socket.AF_UNIX).bind(sys.argv[2])\n"),
              "Could not read artifact: not a regular file");
    CHECK_STR(failure("import os, sys\nos.symlink('/dev/zero', sys.argv[2])\n"),
              "Could not read artifact: not a regular file");
    CHECK_STR(failure("import os, sys\nos.symlink(sys.argv[2], sys.argv[2])\n"),
              failure("import os, sys\nos.symlink(sys.argv[2], sys.argv[2])\n"));
}

TEST(a_symlink_reaches_no_host_file)
{
    const char *secret = a_script("secret.txt", "of the host");
    csn_auto(buf) csn_buf script = CSN_BUF_INIT;

    csn_buf_printf(&script, "import os, sys\nos.symlink('%s', sys.argv[2])\n", secret);
    CHECK_STR(failure(script.data), "Could not read artifact: exit 1");
    csn_buf_clear(&script);
    csn_buf_printf(&script, "import os, sys\nos.symlink('../../../../../..%s', sys.argv[2])\n",
                   secret);
    CHECK_STR(failure(script.data), "Could not read artifact: exit 1");
    /* one that stays inside is fine */
    CHECK_STR(
        run_py(
            "import os, sys\nopen('/tmp/real', 'w').write('inside')\nos.symlink('/tmp/real', sys.argv[2])\n")
            ->artifact_content,
        "inside");
}

/* The engine's own file size limit stops the terabyte first; what passes it meets the arena's. */
TEST(a_sparse_terabyte_is_refused_by_its_size)
{
    long before = rss_kib();
    const csn_candidate_result *r;

    reset_peak();
    r = run_py("import sys\nf = open(sys.argv[2], 'wb')\nf.truncate(1 << 40)\n");
    CHECK(!r->success && r->artifact_bytes <= 0);
    if (r->exit_code == 0)
        CHECK_STR(r->error_message,
                  "Could not read artifact: 1099511627776 bytes exceeds limit 67108864");
    check_nothing_left(r);
    CHECK_STR(failure("import sys\nf = open(sys.argv[2], 'wb')\nf.truncate(100 << 20)\n"),
              "Could not read artifact: 104857600 bytes exceeds limit 67108864");
    CHECK(peak_kib() - before <= 32 << 10);
}

TEST(an_unreadable_artifact_is_no_artifact)
{
    CHECK_STR(
        failure("import os, sys\nopen(sys.argv[2], 'w').write('x')\nos.chmod(sys.argv[2], 0)\n"),
        "Could not read artifact: exit 1");
}

TEST(an_endless_line_and_binary_noise_are_kept_as_they_are)
{
    const csn_candidate_result *r =
        run_py(WRITE_OK "import os\nos.write(1, b'\\xff\\x00' * 1000000)\n");

    CHECK(r->success);
    CHECK_INT(r->output_len, 2000000);
    CHECK(r->output[0] == '\xff' && r->output[1] == '\0' && r->output[1999998] == '\xff');
}

TEST(a_fork_bomb_hurts_only_itself)
{
    const csn_candidate_result *r =
        run_py("import os, sys\n"
               "try:\n  while True:\n    if os.fork() == 0:\n      import time; time.sleep(100)\n"
               "except OSError: pass\n" WRITE_OK,
               .pids = 64);

    csn_test_note("%s", r->error_message ? r->error_message : "survived its own bomb");
    check_nothing_left(r);
    CHECK(run_py(WRITE_OK)->success);
}
