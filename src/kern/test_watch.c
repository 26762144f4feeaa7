/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "kern/watch.h"

#define MIB (1u << 20)

static int a_dir(void)
{
    int fd = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

static void write_file(int dir, const char *name, size_t len)
{
    static char bytes[MIB];
    csn_auto(fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    memset(bytes, 'x', sizeof(bytes));
    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, bytes, len), 0);
    CHECK_INT(fsync(fd), 0);
}

TEST(a_tree_counts_blocks_once_and_follows_nothing)
{
    csn_auto(fd) int dir = a_dir();
    csn_disk_usage usage;

    CHECK_INT(mkdirat(dir, "a", 0700) + mkdirat(dir, "a/b", 0700), 0);
    write_file(dir, "a/b/f", MIB);
    write_file(dir, "g", MIB);
    CHECK_INT(linkat(dir, "g", dir, "a/g", 0), 0);
    CHECK_INT(symlinkat("/usr", dir, "a/usr"), 0);
    csn_auto(fd) int hole = openat(dir, "hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(ftruncate(hole, 1ll << 40), 0);
    CHECK_INT(csn_watch_disk(dir, 1000, &usage), 0);
    CHECK_INT(usage.n_files, 7);
    CHECK(!usage.is_partial);
    CHECK(usage.bytes >= 2 * MIB && usage.bytes < 2 * MIB + 64 * 1024);
    CHECK_INT(csn_watch_disk(dir, 3, &usage), 0);
    CHECK(usage.is_partial);
    CHECK_INT(usage.n_seen, 3);
}

TEST(deep_and_wide_trees_are_walked_without_recursion)
{
    csn_auto(fd) int top = a_dir();
    csn_disk_usage usage;
    char name[16];
    int64_t t;
    int dir = dup(top);

    for (int i = 0; i < 900; i++) {
        CHECK_INT(mkdirat(dir, "d", 0700), 0);
        int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        csn_close(&dir);
        dir = next;
    }
    csn_close(&dir);
    for (int i = 0; i < 2000; i++) {
        (void) snprintf(name, sizeof(name), "w%d", i);
        CHECK_INT(mkdirat(top, name, 0700), 0);
    }
    t = csn_now_ns();
    CHECK_INT(csn_watch_disk(top, 100000, &usage), 0);
    csn_test_note("%llu entries in %lld us", (unsigned long long) usage.n_seen,
                  (long long) (csn_now_ns() - t) / 1000);
    CHECK_INT(usage.n_files, 2900);
    CHECK(!usage.is_partial);
}

TEST(what_lies_too_deep_is_said_to_be_missing)
{
    csn_auto(fd) int top = a_dir();
    csn_disk_usage usage;
    int dir = dup(top);

    for (int i = 0; i < 1100; i++) {
        CHECK_INT(mkdirat(dir, "d", 0700), 0);
        int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        csn_close(&dir);
        dir = next;
    }
    csn_close(&dir);
    CHECK_INT(csn_watch_disk(top, 100000, &usage), 0);
    CHECK(usage.is_partial);
    CHECK_INT(usage.n_files, 1024);
}

static pid_t a_child(const char *name, size_t bytes, int *ret_ready)
{
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void) prctl(PR_SET_NAME, name, 0, 0, 0);
        char *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(m, 1, bytes);
        (void) close(p[0]);
        (void) close(p[1]);
        for (;;)
            (void) pause();
    }
    (void) close(p[1]);
    *ret_ready = p[0];
    return pid;
}

static void end_child(void *user)
{
    pid_t pid = *(pid_t *) user;

    (void) kill(pid, SIGKILL);
    (void) waitpid(pid, NULL, 0);
}

static void write_text(int dir, const char *name, const char *text)
{
    csn_auto(fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK_INT(csn_write_all(fd, text, strlen(text)), 0);
}

TEST(page_tables_count_as_memory)
{
    csn_auto(fd) int proc = a_dir();
    csn_watch_sample sample;

    CHECK_INT(mkdirat(proc, "7", 0700), 0);
    write_text(proc, "7/stat", "7 (x) S 1 7 7 0 -1 0 0 0 0 0 5 5 0 0 20 0 3 0 1");
    write_text(proc, "7/status",
               "Name:\tx\nRssAnon:\t     100 kB\nRssShmem:\t      10 kB\nVmPTE:\t    1000 kB\n");
    CHECK_INT(csn_watch_processes(proc, 10, &sample), 0);
    CHECK_INT(sample.n_threads, 3);
    CHECK_INT(sample.memory_bytes, 1110 * 1024);
}

TEST(processes_are_summed_and_their_names_cant_lie)
{
    csn_auto(fd) int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    csn_watch_sample before, after;
    static pid_t pid;
    char byte;
    int ready;

    CHECK_INT(csn_watch_processes(proc, 100000, &before), 0);
    CHECK(before.n_processes >= 1 && before.n_threads >= before.n_processes);
    pid = a_child("x) R 1 1 1 1 1", 32 * MIB, &ready);
    csn_test_defer(end_child, &pid);
    CHECK_INT(csn_read(ready, &byte, 1), 0);
    CHECK_INT(csn_watch_processes(proc, 100000, &after), 0);
    CHECK(after.memory_bytes >= 32 * MIB);
    CHECK_INT(csn_watch_processes(proc, 1, &after), 0);
    CHECK(after.is_partial);
    CHECK_INT(after.n_processes, 1);
    int64_t t = csn_now_ns();
    CHECK_INT(csn_watch_processes(proc, 100000, &after), 0);
    csn_test_note("%u processes in %lld us", after.n_processes,
                  (long long) (csn_now_ns() - t) / 1000);
}

TEST(the_machine_tells_how_many_want_a_processor)
{
    unsigned n = 0;

    CHECK_INT(csn_watch_machine(&n), 0);
    CHECK(n >= 1); /* we do */
}

TEST(netlink_sockets_tell_what_they_hold)
{
    const struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } ask = { .head = { .nlmsg_len = sizeof(ask),
                        .nlmsg_type = RTM_GETLINK,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
    csn_auto(fd) int table = -1;
    csn_auto(fd) int fd =
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    uint64_t before, after;

    CHECK(fd >= 0);
    CHECK_INT(csn_watch_netlink_open(getpid(), &table), 0);
    CHECK_INT(csn_watch_netlink(table, &before), 0);
    for (int i = 0; i < 20; i++)
        (void) send(fd, &ask, sizeof(ask),
                    0); /* the later ones are refused when its buffer is full */
    CHECK_INT(csn_watch_netlink(table, &after), 0); /* the same descriptor, read anew */
    CHECK(after > before + 1024);
}
