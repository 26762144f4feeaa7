#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "csn_test.h"
#include "program.h"

static char *empty_env[] = { NULL };

/* Runs `script` in a shell with its output in `out` and `extra` (-1: none) as descriptor 3; its exit status. */
static int run_shell(const char *script, int extra, csn_buf *out)
{
    char name[] = "sh", flag[] = "-c", text[512];
    char *argv[] = { name, flag, text, NULL };
    csn_auto(fd) int pidfd = -1, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int ends[2], status = 0;
    pid_t pid = 0;

    CHECK_INT(csn_str_copy(text, sizeof(text), csn_str_of(script)), 0);
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = { null, ends[1], ends[1], extra };
    csn_program program = {
        .path = "/bin/sh",
        .argv = argv,
        .envp = empty_env,
        .fds = fds,
        .n_fds = extra < 0 ? 3 : 4,
    };
    CHECK_INT(csn_program_start(&program, &pid, &pidfd), 0);
    CHECK(pidfd >= 0);
    csn_close(&ends[1]);
    CHECK_INT(csn_read_to_buf(ends[0], out, 1 << 20), 0);
    csn_close(&ends[0]);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(a_program_has_the_descriptors_it_was_given_and_no_other)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(fd) int extra = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    int open_here =
        open("/dev/full", O_RDONLY); /* not close-on-exec: it must be closed for the program */

    CHECK(extra >= 0 && open_here >= 0);
    CHECK_INT(
        run_shell("readlink /proc/self/fd/3; ls /proc/$$/fd; exit 7", extra, &out),
        7);
    CHECK_STR(out.data, "/dev/zero\n0\n1\n2\n3\n");
    csn_close(&open_here);
}

TEST(a_program_is_a_group_of_its_own_with_signals_as_at_birth)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    sigset_t hup, mask;

    (void) signal(SIGINT, SIG_IGN);
    sigemptyset(&hup);
    sigaddset(&hup, SIGHUP);
    CHECK_INT(sigprocmask(SIG_BLOCK, &hup, NULL), 0);
    /* without a child: Debian 13's dash blocks all signals while one of its own starts */
    CHECK_INT(run_shell("while read -r key value; do case $key in SigBlk:|SigIgn:) "
                        "printf %s%s $key $value;; esac; done </proc/$$/status; "
                        "read -r _ _ _ _ group _ </proc/$$/stat; test $group = $$ && echo leader",
                        -1, &out),
              0);
    CHECK_STR(out.data, "SigBlk:0000000000000000SigIgn:0000000000000000leader\n");
    CHECK(signal(SIGINT, SIG_DFL) == SIG_IGN); /* ours stayed as they were */
    CHECK_INT(sigprocmask(SIG_UNBLOCK, &hup, &mask), 0);
    CHECK_INT(sigismember(&mask, SIGHUP), 1);
}

TEST(what_kept_a_program_from_running_is_told_and_nothing_is_left)
{
    char name[] = "no-such-program-anywhere", *argv[] = { name, NULL };
    const int fds[] = { 0, 1, 2 };
    csn_program program = { .path = name, .argv = argv, .envp = empty_env, .fds = fds, .n_fds = 3 };
    int pidfd = -1, before = csn_test_count_fds();
    pid_t pid = 0;

    CHECK_INT(csn_program_start(&program, &pid, &pidfd), -ENOENT);
    program.path = "/etc/passwd";
    CHECK_INT(csn_program_start(&program, &pid, &pidfd), -EACCES);
    CHECK_INT(pidfd, -1);
    CHECK_INT(csn_test_count_fds(), before);
    CHECK_INT(waitpid(-1, NULL, 0), -1);
    CHECK_INT(errno, ECHILD);
}

static void *start_many(void *user)
{
    (void) user;
    for (int i = 0; i < 20; i++) {
        csn_auto(buf) csn_buf out = CSN_BUF_INIT;
        CHECK_INT(run_shell("echo x", -1, &out), 0);
        CHECK_STR(out.data, "x\n");
    }
    return NULL;
}

TEST(several_threads_may_start_programs_at_once)
{
    pthread_t threads[4];

    for (size_t i = 0; i < CSN_COUNT(threads); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, start_many, NULL), 0);
    for (size_t i = 0; i < CSN_COUNT(threads); i++)
        CHECK_INT(pthread_join(threads[i], NULL), 0);
}

/* systemd's state of things, in a namespace of the test's own. */
static void share_mounts(void)
{
    if (unshare(CLONE_NEWNS) < 0)
        SKIP("user: only root can make a mount namespace: %s", strerror(errno));
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL), 0);
}

TEST(what_a_program_mounts_and_unmounts_stays_its_own)
{
    csn_auto(buf) csn_buf before = CSN_BUF_INIT, after = CSN_BUF_INIT, out = CSN_BUF_INIT;
    char script[512];

    share_mounts();
    CHECK_INT(csn_read_file(AT_FDCWD, "/proc/self/mountinfo", &before, 1 << 20), 0);
    (void) snprintf(script, sizeof(script), "mount -t tmpfs none '%s' && umount -l /proc",
                    csn_test_dir());
    CHECK_INT(run_shell(script, -1, &out), 0);
    CHECK_INT(csn_read_file(AT_FDCWD, "/proc/self/mountinfo", &after, 1 << 20), 0);
    CHECK_STR(after.data, before.data);
}

TEST(without_the_right_to_mount_a_program_runs_as_it_is)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
        FAIL("become nobody: %s", strerror(errno));
    CHECK_INT(run_shell("echo ran", -1, &out), 0);
    CHECK_STR(out.data, "ran\n");
}
