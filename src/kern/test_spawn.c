/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "kern/missing.h"
#include "kern/pidfd.h"
#include "kern/spawn.h"
#include "kern/userns.h"

TEST(a_child_tells_how_it_ended)
{
    csn_child_end end;
    int pidfd = -1;
    pid_t pid = csn_clone(0, -1, &pidfd);

    if (pid == 0)
        _exit(7);
    CHECK(pid > 0);
    CHECK(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
    CHECK_INT(csn_pidfd_reap_until(pidfd, csn_deadline_in_ms(5000), &end), 0);
    CHECK_INT(end.pid, pid);
    CHECK(!end.by_signal);
    CHECK_INT(end.status, 7);
    CHECK_INT(csn_pidfd_signal(pidfd, SIGKILL), -ESRCH);
    CHECK_INT(csn_pidfd_reap(pidfd, true, &end), -ECHILD);
    CHECK_INT(csn_reap_any(&end), -ECHILD);
}

TEST(a_running_child_is_waited_for_no_longer_than_the_deadline)
{
    csn_child_end end;
    int pidfd = -1;

    if (csn_clone(0, -1, &pidfd) == 0)
        for (;;)
            (void) pause();
    CHECK_INT(csn_pidfd_reap(pidfd, true, &end), -EAGAIN);
    CHECK_INT(csn_pidfd_reap_until(pidfd, csn_deadline_in_ms(10), &end), -ETIMEDOUT);
    CHECK_INT(csn_reap_any(&end), 0);
    CHECK_INT(csn_pidfd_signal(pidfd, SIGTERM), 0);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &end), 0);
    CHECK(end.by_signal);
    CHECK_INT(end.status, SIGTERM);
}

TEST(a_sealed_program_runs_and_cannot_be_changed)
{
    static char bytes[4 << 20];
    csn_child_end end;
    int fd = -1, pidfd = -1;
    csn_auto(fd) int file = open("/bin/true", O_RDONLY | O_CLOEXEC);
    ssize_t n = csn_read_all(file, bytes, sizeof(bytes));

    CHECK(n > 0);
    CHECK_INT(csn_memfd_sealed("true", bytes, (size_t) n, &fd), 0);
    CHECK_INT(csn_memfd_check_sealed(fd), 0);
    CHECK_INT(csn_memfd_check_sealed(file), -EPERM);
    CHECK_INT(write(fd, "x", 1), -1);
    CHECK_INT(ftruncate(fd, 0), -1);
    if (csn_clone(0, -1, &pidfd) == 0) {
        (void) csn_exec_fd(fd, (char *[]){ (char[]){ "true" }, NULL }, (char *[]){ NULL });
        _exit(127);
    }
    CHECK_INT(csn_pidfd_reap(pidfd, false, &end), 0);
    CHECK_INT(end.status, 0);
}

TEST(a_program_gets_the_descriptors_it_is_given_and_no_others)
{
    char *argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" },
                     (char[]){ "echo out; echo err >&2; echo kept >&3; ls /proc/self/fd | wc -l" },
                     NULL };
    csn_auto(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    csn_child_end end;
    char text[64] = "";
    int p[2], pidfd = -1, leak = dup(null);
    pid_t pid;

    CHECK(leak >= 0);
    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    CHECK_INT(csn_spawn_program(argv, (char *[]){ (char[]){ "PATH=/usr/bin:/bin" }, NULL },
                                (int[]){ null, p[1], p[1] }, (int[]){ p[1] }, 1, &pid, &pidfd),
              0);
    (void) close(p[1]);
    CHECK(csn_read_all(p[0], text, sizeof(text) - 1) >= 0);
    CHECK_STR(text, "out\nerr\nkept\n5\n"); /* 0 1 2 3, and ls's own */
    CHECK_INT(csn_pidfd_reap(pidfd, false, &end), 0);
    CHECK_INT(end.status, 0);
}

/* A child in all eight namespaces, mapped as inside uid 1000; `body`'s result is its exit code. */
static int in_namespaces(int (*body)(void))
{
    csn_idmap uid = { 1000, geteuid(), 1 }, gid = { 1000, getegid(), 1 };
    csn_child_end end;
    int go[2], pidfd = -1;
    char byte = 0;

    CHECK_INT(pipe2(go, O_CLOEXEC), 0);
    pid_t pid = csn_clone(CSN_CLONE_ALL_NS, -1, &pidfd);
    if (pid == -EPERM || pid == -ENOSPC || pid == -EINVAL)
        SKIP("kernel: not all eight namespaces can be made here: %d", -pid);
    CHECK(pid >= 0);
    if (pid == 0) {
        if (csn_read(go[0], &byte, 1) != 1)
            _exit(100);
        _exit(body());
    }
    CHECK_INT(csn_userns_map(pid, &uid, 1, &gid, 1, true), 0);
    CHECK_INT(csn_write_all(go[1], "x", 1), 0);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &end), 0);
    CHECK(!end.by_signal);
    return end.status;
}

static char outside[8][64];
static const char *const kinds[8] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time" };

static void read_links(char links[8][64])
{
    for (int i = 0; i < 8; i++) {
        char path[64];
        (void) snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
        ssize_t n = readlink(path, links[i], 63);
        links[i][n > 0 ? n : 0] = '\0';
    }
}

/* /proc is still the outer one, where "self" is us under our outer number: right for links. */
static int all_differ(void)
{
    char inside[8][64];
    int same = 0;

    read_links(inside);
    for (int i = 0; i < 8; i++)
        same += inside[i][0] == '\0' || !strcmp(inside[i], outside[i]);
    return same + (getpid() != 1) + (getuid() != 1000) + (getgid() != 1000);
}

TEST(a_child_lives_in_eight_namespaces_of_its_own)
{
    read_links(outside);
    CHECK_INT(in_namespaces(all_differ), 0);
}

static int nested_are_refused(void)
{
    static const int flags[] = { CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
                                 CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80 };
    int wrong = 0;

    if (csn_userns_forbid_nested(-1) < 0)
        return 99;
    for (size_t i = 0; i < CSN_COUNT(flags); i++)
        wrong += unshare(flags[i]) == 0 || errno != ENOSPC;
    return wrong;
}

/* A container runtime's filter of 2020: clone3 isn't there. */
static void take_call_away(unsigned number)
{
    struct sock_filter code[] = {
        { BPF_LD | BPF_W | BPF_ABS, 0, 0, 0 },
        { BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number },
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS },
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
    };
    struct sock_fprog program = { CSN_COUNT(code), code };

    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

TEST(without_clone3_the_same_namespaces_are_made)
{
    int pidfd = -1;

    read_links(outside);
    take_call_away(SYS_clone3);
    CHECK_INT(csn_clone(0, open("/", O_RDONLY | O_CLOEXEC), &pidfd), -ENOTSUP);
    CHECK_INT(in_namespaces(all_differ), 0);
}

TEST(no_namespace_can_be_made_below_after_it_is_forbidden)
{
    CHECK_INT(in_namespaces(nested_are_refused), 0);
}

TEST(a_map_of_65536_ids_and_an_unused_namespace)
{
    csn_idmap map = { 0, 0x40000000, 65536 };
    csn_auto(fd) int fd = -1;
    int r = csn_userns_make(&map, 1, &map, 1, &fd);

    if (r == -EPERM)
        SKIP("user: needs CAP_SETUID");
    CHECK_INT(r, 0);
    CHECK(fd >= 0);
    CHECK_INT(csn_userns_make((csn_idmap[9]){ { 0, 0, 1 } }, 9, &map, 1, &fd), -E2BIG);
}

TEST(subordinate_ids_are_found_by_name_or_number)
{
    char path[512];
    uint32_t start, count;

    (void) snprintf(path, sizeof(path), "%s/subuid", csn_test_dir());
    FILE *f = fopen(path, "we");
    CHECK(f);
    (void) fputs("# comment\nann:100000:65536\n\n1007:300000:10\n1007:400000:65536\nbad:x:1\n"
                 "big:4294967295:65536\nzero:0:65536\nlast:500000:65536",
                 f);
    CHECK_INT(fclose(f), 0);
    CHECK_INT(csn_subid_find(path, 5, "ann", 65536, &start, &count), 0);
    CHECK_INT(start, 100000);
    CHECK_INT(csn_subid_find(path, 1007, NULL, 65536, &start, &count), 0);
    CHECK_INT(start, 400000);
    CHECK_INT(csn_subid_find(path, 5, "last", 1, &start, &count), 0);
    CHECK_INT(csn_subid_find(path, 5, "big", 1, &start, &count), -ENOENT);
    CHECK_INT(csn_subid_find(path, 5, "zero", 1, &start, &count), -ENOENT);
    CHECK_INT(csn_subid_find(path, 5, "bad", 1, &start, &count), -ENOENT);
    CHECK_INT(csn_subid_find("/nonexistent", 5, "ann", 1, &start, &count), -ENOENT);
}

static int use_up_uts(void)
{
    int r = csn_write_file(AT_FDCWD, "/proc/sys/user/max_uts_namespaces", "0", 1);

    return r < 0 ? 99 : csn_unshare(CSN_CLONE_NEWUTS) == -EUSERS ? 0 : 1;
}

TEST(a_limit_on_namespaces_is_not_called_a_full_disk)
{
    csn_child_end end = { 0 };
    int pidfd = -1;
    pid_t pid = csn_clone(CSN_CLONE_NEWUSER, -1, &pidfd);

    if (pid == 0)
        _exit(use_up_uts());
    if (pid < 0)
        SKIP("user: no user namespaces here");
    CHECK_INT(csn_pidfd_reap(pidfd, false, &end), 0);
    CHECK_INT(end.status, 0);
    close(pidfd);
}

static void end_a_child(void)
{
    int pidfd = -1;
    pid_t pid = csn_clone(0, -1, &pidfd);

    if (pid == 0)
        for (;;)
            pause();
    CHECK_INT(csn_child_kill(pid, pidfd), 0);
    CHECK_INT(csn_reap_any(NULL), -ECHILD);
    close(pidfd);
}

TEST(a_child_is_ended_for_good_also_without_pidfd_send_signal)
{
    end_a_child();
    take_call_away(SYS_pidfd_send_signal);
    end_a_child();
}
