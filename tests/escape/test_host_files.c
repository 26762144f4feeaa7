/* SPDX-License-Identifier: Apache-2.0 */
/* The file verbs against a root that is enemy ground: the engine must never become the deputy of a link that the sandbox
 * planted (R34, CVE-2018-15664), and never hang on or be filled by what is no plain file (R35). */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

enum { FLIP_MS = 3000, AT_ONCE_MS = 5000 };

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const char *format(char *buf, size_t size, const char *fmt, const char *a)
{
    const char *at = strstr(fmt, "%s");

    if (at)
        (void) snprintf(buf, size, "%.*s%s%s", (int) (at - fmt), fmt, a, at + 2);
    else
        (void) snprintf(buf, size, "%s", fmt);
    return buf;
}

/* --- what was seen by a verb -------------------------------------------------------------------------------------- */

/* The sandbox has a file of that name too, of another size. */
static void no_host_entry(const csn_file_info *info, void *user)
{
    (void) user;
    if (strstr(info->path, "secret") && info->size_bytes == (int64_t) strlen(HOST_TEXT))
        FAIL("an entry of the host shows: %s", info->path);
}

static void no_host_line(const csn_file_match *match, void *user)
{
    (void) user;
    FAIL("a line of the host shows: %.*s", (int) match->text_len, match->text);
}

/* Every verb on path/secret and on path itself. Whether it succeeds is the sandbox's affair: what it reaches must be. */
static void every_verb(csn_sandbox *box, const char *path)
{
    char below[512], made[512];
    char *data = NULL;
    size_t len = 0;
    int64_t n = 0;
    int fd = -1;

    (void) snprintf(below, sizeof(below), "%s/secret", path);
    (void) snprintf(made, sizeof(made), "%s/made", path);
    const char *const both[] = { path, below };
    for (size_t i = 0; i < 2; i++) {
        if (csn_file_get(box, both[i], 0, &data, &len, NULL) == CSN_OK) {
            CHECK(!memmem(data, len, HOST_TEXT, strlen(HOST_TEXT)));
            free(data);
        }
        (void) csn_file_search(box, both[i], "canary-of-the-host", 10, no_host_line, NULL, NULL);
        (void) csn_file_replace(box, both[i], "canary", "parrot", &n, NULL);
        (void) csn_file_chmod(box, both[i], 0777, NULL, NULL, NULL);
        (void) csn_file_stat(box, both[i], 1, no_host_entry, NULL, NULL);
        if (csn_file_open(box, both[i], CSN_OPEN_WRITE | CSN_OPEN_TRUNCATE, 0, &fd, NULL) == CSN_OK)
            close(fd);
    }
    (void) csn_file_list(box, path, 0, no_host_entry, NULL, NULL);
    (void) csn_file_find(box, path, "*", 100, no_host_entry, NULL, NULL);
    (void) csn_file_put(box, made, "x", 1, 0666, NULL);
    (void) csn_file_mkdir(box, made, 0777, NULL);
    (void) csn_file_move(box, below, "/home/daytona/taken", NULL);
    (void) csn_file_move(box, "/home/daytona/own", made, NULL);
    (void) csn_file_delete(box, below, 1, NULL);
    (void) csn_file_delete(box, made, 1, NULL);
}

/* --- R34 ---------------------------------------------------------------------------------------------------------- */

TEST_TIMEOUT(no_verb_follows_a_link_out_of_the_sandbox, 120)
{
    static const char *const targets[] = {
        "%s",                              /* absolute */
        "../../../../../../../../../..%s", /* relative */
        "/proc/self/root%s",
        "/proc/1/root%s",
        "/proc/self/cwd/../../..%s",
        "/proc/self/fd/3/../../../..%s",
        "/proc/thread-self/root/..%s",
        "/nowhere%s", /* dangling */
        "loop",       /* itself */
    };
    const char *dir = a_host_directory();
    csn_sandbox *box = an_ephemeral();
    char target[256], command[600];

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        format(target, sizeof(target), targets[i], dir);
        (void) snprintf(
            command, sizeof(command),
            "rm -rf loop middle own taken; echo own > own; ln -s '%s' loop; mkdir middle; ln -s ../loop middle/link",
            target);
        CHECK_STR(ending(sh(box, command)), "exit 0");
        every_verb(box, "loop");
        every_verb(box, "middle/link");
        every_verb(box, target[0] == '/' ? target : "middle/../loop");
        check_untouched(dir);
    }
    /* The last part a link, too. */
    (void) snprintf(command, sizeof(command), "rm -f f; ln -s %s/secret f", dir);
    CHECK_STR(ending(sh(box, command)), "exit 0");
    every_verb(box, "f");
    (void) csn_file_put(box, "f", "through a link", 14, 0644, NULL);
    check_untouched(dir);
}

TEST(a_link_within_the_sandbox_leads_to_the_sandboxs_own_files)
{
    csn_sandbox *box = an_ephemeral();
    char *data = NULL;
    size_t len = 0;

    CHECK_STR(ending(sh(box, "ln -s /etc/passwd users; ln -s /etc/shadow secrets")), "exit 0");
    OK(csn_file_get(box, "users", 0, &data, &len, err));
    CHECK(strstr(data, "daytona:"));
    free(data);
    data = NULL;
    if (csn_file_get(box, "secrets", 0, &data, &len, NULL) == CSN_OK)
        CHECK(!strstr(data, "$y$") && !strstr(data, "$6$"));
    free(data);
}

/* Exchanges a directory and a link as fast as it can, thousands of times a second, until it is killed. */
#define FLIP \
    "import ctypes, os, platform, sys\n" \
    "os.makedirs('d/sub', exist_ok=True); open('d/secret', 'w').write('inside\\n'); open('own', 'w').write('own')\n" \
    "os.symlink(sys.argv[1], 'l')\n" \
    "number = 276 if platform.machine() == 'aarch64' else 316\n" \
    "call = ctypes.CDLL(None, use_errno=True).syscall\n" \
    "def flip(): return call(number, -100, b'd', -100, b'l', 2)\n" \
    "if flip() != 0: sys.exit('no RENAME_EXCHANGE: %d' % ctypes.get_errno())\n" \
    "print('flipping', flush=True)\n" \
    "n = 0\n" \
    "while not os.path.exists('stop'):\n" \
    "    for i in range(500): flip()\n" \
    "    n += 500\n" \
    "print(n, flush=True)\n"

TEST_TIMEOUT(a_directory_that_flips_to_a_link_never_leads_a_verb_outside, 120)
{
    const char *dir = a_host_directory();
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = { .size = sizeof(o),
                              .argv = ARGV("python3", "-c", FLIP, dir),
                              .is_background = 1 };
    csn_process *flipper = NULL;
    csn_log_chunk chunk = { 0 };
    int rounds = 0;

    OK(csn_process_start(box, &o, &flipper, err));
    OK(csn_process_read_log(flipper, 0, 20000, &chunk, err));
    CHECK_MEM(chunk.data, chunk.len, "flipping\n", 9);
    for (int64_t end = now_ms() + FLIP_MS; now_ms() < end; rounds++)
        every_verb(box, "d");
    check_untouched(dir);
    OK(csn_file_put(box, "stop", "", 0, 0644, err));
    OK(csn_process_wait(flipper, 20000, NULL, err));
    OK(csn_process_read_log(flipper, 9, 1000, &chunk, err));
    long flips = strtol(chunk.data, NULL, 10);
    csn_test_note("%d rounds of every verb against %ld flips", rounds, flips);
    CHECK(rounds > 5 && flips > 1000L * FLIP_MS / 1000);
    csn_process_free(flipper);
}

/* --- R35 ---------------------------------------------------------------------------------------------------------- */

TEST(what_is_no_plain_file_is_refused_at_once)
{
    static const char *const paths[] = { "fifo",        "socket",    "/dev/null", "/dev/zero",
                                         "/dev/random", "/dev/ptmx", ".",         "to-fifo",
                                         "to-zero",     "/dev/tty" };
    csn_sandbox *box = an_ephemeral();
    const int64_t start = now_ms();

    CHECK_STR(
        ending(sh(box,
                  "mkfifo fifo; ln -s fifo to-fifo; ln -s /dev/zero to-zero; "
                  "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"")),
        "exit 0");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        static const int flags[] = { CSN_OPEN_READ, CSN_OPEN_WRITE, CSN_OPEN_READ | CSN_OPEN_WRITE,
                                     CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_TRUNCATE };
        char *data = NULL;
        size_t len = 0;
        int64_t n = 0;
        int fd = -1;
        for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
            CHECK(csn_file_open(box, paths[i], flags[k], 0644, &fd, NULL) < 0);
        CHECK(csn_file_get(box, paths[i], 0, &data, &len, NULL) < 0);
        CHECK(csn_file_put(box, paths[i], "x", 1, 0644, NULL) < 0);
        CHECK(csn_file_replace(box, paths[i], "a", "b", &n, NULL) < 0);
    }
    OK(csn_file_search(box, ".", "nothing", 10, no_host_line, NULL, err));
    CHECK(now_ms() - start < 6 * AT_ONCE_MS);
}

static void take_size(const csn_file_info *info, void *user)
{
    *(int64_t *) user = info->size_bytes;
}

TEST_TIMEOUT(a_sparse_terabyte_costs_nothing, 40)
{
    csn_sandbox *box = a_sandbox(.disk_bytes = CSN_UNLIMITED);
    const int64_t start = now_ms();
    char *data = NULL;
    size_t len = 0;
    int64_t size = 0, n = 0;

    CHECK_STR(ending(sh(box, "truncate -s 1T sparse")), "exit 0");
    OK(csn_file_stat(box, "sparse", 1, take_size, &size, err));
    CHECK_INT(size, INT64_C(1) << 40); /* as large as it looks */
    FAILS(csn_file_get(box, "sparse", 0, &data, &len, err), CSN_E_TOO_LARGE);
    FAILS(csn_file_replace(box, "sparse", "a", "b", &n, err), CSN_E_TOO_LARGE);
    OK(csn_file_search(box, ".", "needle", 10, no_host_line, NULL, err));
    CHECK_STR(ending(sh(box, "seq 10000 > text; truncate -s 1T text")),
              "exit 0"); /* begins like a text */
    OK(csn_file_search(box, "text", "needle", 10, no_host_line, NULL, err));
    CHECK(now_ms() - start < 2 * AT_ONCE_MS);
    OK(csn_sandbox_delete(box, err));
}

TEST(a_file_that_grows_while_it_is_read_is_bounded)
{
    csn_sandbox *box = an_ephemeral();
    csn_process_options o = {
        .size = sizeof(o),
        .shell = "echo go; while :; do cat /usr/bin/python3 >>grows; : >grows; done",
        .is_background = 1
    };
    csn_process *writer = NULL;
    csn_log_chunk chunk = { 0 };

    OK(csn_process_start(box, &o, &writer, err));
    OK(csn_process_read_log(writer, 0, 20000, &chunk, err));
    for (int i = 0; i < 100; i++) {
        char *data = NULL;
        size_t len = 0;
        if (csn_file_get(box, "grows", 1 << 20, &data, &len, NULL) == CSN_OK)
            CHECK(len <= 1 << 20);
        free(data);
    }
    OK(csn_process_signal(writer, 9, 1, err));
    OK(csn_process_wait(writer, 0, NULL, err));
    csn_process_free(writer);
}

static void count(const csn_file_info *info, void *user)
{
    (void) info;
    ++*(int *) user;
}

TEST_TIMEOUT(a_huge_directory_is_bounded, 120)
{
    csn_sandbox *box = an_ephemeral();
    int n = 0;

    CHECK_STR(ending(sh(box, "mkdir huge && cd huge && seq 30000 | xargs touch")), "exit 0");
    FAILS(csn_file_list(box, "huge", 1000, count, &n, err), CSN_E_TOO_LARGE);
    CHECK_INT(n, 1000);
    n = 0;
    OK(csn_file_list(box, "huge", 0, count, &n, err));
    CHECK_INT(n, 30000);
    n = 0;
    (void) csn_file_find(box, "huge", "*", 500, count, &n, NULL);
    CHECK(n <= 500);
    OK(csn_file_delete(box, "huge", 1, err));
}

static void check_mode(const csn_file_info *info, void *user)
{
    (void) user;
    CHECK_INT(info->mode & 07000, 0);
}

TEST(nothing_is_uploaded_with_special_bits)
{
    csn_sandbox *box = an_ephemeral();

    (void) csn_file_put(box, "setuid", "#!/bin/sh\n", 10, 06755, NULL);
    (void) csn_file_stat(box, "setuid", 0, check_mode, NULL, NULL);
    (void) csn_file_mkdir(box, "setgid", 02777, NULL);
    (void) csn_file_stat(box, "setgid", 0, check_mode, NULL, NULL);
}
