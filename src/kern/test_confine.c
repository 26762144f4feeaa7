/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "csn_test.h"
#include "kern/caps.h"
#include "kern/landlock.h"
#include "kern/rlimit.h"
#include "kern/test_confined.h"

static int open_errno(const char *path, int flags)
{
    csn_auto(fd) int fd = open(path, flags | O_CLOEXEC, 0600);

    return fd < 0 ? errno : 0;
}

TEST(landlock_lets_through_what_was_allowed_and_nothing_else)
{
    csn_landlock rs = CSN_LANDLOCK_INIT;
    char in[600], deeper[600];
    const char *dir = csn_test_dir();

    if (csn_landlock_abi() < 0)
        SKIP("kernel: no landlock");
    csn_test_note("ABI %d", csn_landlock_abi());
    csn_auto(fd) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    csn_auto(fd) int etc_fd = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    csn_auto(fd) int null_fd = open("/dev/null", O_PATH | O_CLOEXEC);
    (void) snprintf(in, sizeof(in), "%s/file", dir);
    (void) snprintf(deeper, sizeof(deeper), "%s/sub", dir);
    CHECK_INT(csn_landlock_begin(&rs, CSN_LANDLOCK_SCOPE_UNIX | CSN_LANDLOCK_SCOPE_SIGNAL), 0);
    CHECK_INT(csn_landlock_allow(&rs, dir_fd, CSN_LANDLOCK_READ | CSN_LANDLOCK_WRITE), 0);
    CHECK_INT(csn_landlock_allow(&rs, etc_fd, CSN_LANDLOCK_READ), 0);
    CHECK_INT(csn_landlock_allow(&rs, null_fd, CSN_LANDLOCK_READ | CSN_LANDLOCK_WRITE), 0);
    CHECK_INT(csn_no_new_privs(), 0);
    CHECK_INT(csn_landlock_restrict(&rs), 0);
    CHECK_INT(rs.fd, -1);
    CHECK_INT(open_errno(in, O_WRONLY | O_CREAT), 0);
    CHECK_INT(truncate(in, 0), 0);
    CHECK_INT(mkdir(deeper, 0700), 0);
    CHECK_INT(open_errno("/etc/passwd", O_RDONLY), 0);
    CHECK_INT(open_errno("/etc/csn-test", O_WRONLY | O_CREAT), EACCES);
    CHECK_INT(open_errno("/usr/bin/env", O_RDONLY), EACCES);
    CHECK_INT(open_errno("/dev/null", O_RDWR), 0);
    CHECK_INT(open_errno("/dev/zero", O_RDONLY), EACCES);
    CHECK_INT(mknod(deeper, S_IFCHR | 0600, 0), -1);
    if (csn_landlock_abi() >= 6)
        CHECK_INT(kill(getppid(), 0), -1);
}

TEST(all_five_sets_of_capabilities_become_empty)
{
    csn_caps caps;

    if (!csn_caps_have(8 /* SETPCAP */))
        SKIP("user: needs CAP_SETPCAP");
    CHECK_INT(csn_caps_drop_all(), 0);
    CHECK_INT(csn_caps_get(&caps), 0);
    CHECK_INT(caps.effective | caps.permitted | caps.inheritable | caps.bounding | caps.ambient, 0);
    CHECK_INT(csn_caps_clear(), 0);
}

TEST(root_inside_keeps_eight_and_no_more)
{
    csn_caps caps;

    if (!csn_caps_have(8 /* SETPCAP */))
        SKIP("user: needs CAP_SETPCAP");
    CHECK_INT(csn_caps_keep(CSN_CAPS_ROOT_INSIDE), 0);
    CHECK_INT(csn_caps_get(&caps), 0);
    CHECK_INT(caps.effective, CSN_CAPS_ROOT_INSIDE);
    CHECK_INT(caps.permitted, CSN_CAPS_ROOT_INSIDE);
    CHECK_INT(caps.bounding, CSN_CAPS_ROOT_INSIDE);
    CHECK_INT(caps.inheritable | caps.ambient, 0);
    CHECK_INT(__builtin_popcountll(CSN_CAPS_ROOT_INSIDE), 8);
}

TEST(limits_are_lowered_hard_and_soft)
{
    csn_rlimits limits = { .n_files = 100, .file_bytes = 12345, .n_processes = 77 };
    struct rlimit r;

    CHECK_INT(csn_rlimit_apply(&limits), 0);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &r), 0);
    CHECK_INT(r.rlim_cur, 100);
    CHECK_INT(r.rlim_max, 100);
    CHECK_INT(getrlimit(RLIMIT_CORE, &r), 0);
    CHECK_INT(r.rlim_max, 0);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &r), 0);
    CHECK_INT(r.rlim_max, 12345);
    CHECK_INT(getrlimit(RLIMIT_NPROC, &r), 0);
    CHECK_INT(r.rlim_max, 77);
    CHECK_INT(getrlimit(RLIMIT_MEMLOCK, &r), 0);
    CHECK(r.rlim_max <= 8 << 20);
    CHECK_INT(csn_rlimit_core("core.%p"), 0);
    CHECK_INT(csn_rlimit_core("|/usr/lib/systemd/systemd-coredump %P"), 1);
    CHECK_INT(csn_rlimit_apply(NULL), 0); /* defaults above what we have now: nothing is raised */
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &r), 0);
    CHECK_INT(r.rlim_max, 100);
}

TEST(one_sandbox_gets_a_quarter_of_the_machines_open_files)
{
    CHECK_INT(csn_rlimit_files(0, 512, 2465620), 1203);
    CHECK_INT(csn_rlimit_files(1024, 512, 2465620), 1024);
    CHECK_INT(csn_rlimit_files(0, 512, UINT64_MAX), 16384);
    CHECK_INT(csn_rlimit_files(1 << 20, 1, 2465620), 616405);
    CHECK_INT(csn_rlimit_files(0, 0, 2465620), 256);
    CHECK_INT(csn_rlimit_files(0, 512, 0), 256);
    CHECK_INT(csn_rlimit_files(64, 512, 0), 64);
}
