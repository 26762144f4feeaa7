/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "csn_test.h"
#include "server/confine.h"
#include "store/store.h"

#ifdef __SANITIZE_ADDRESS__
#define HAS_FILTER 0
#else
#define HAS_FILTER 1
#endif

static const char *confined(void)
{
    const char *dir = csn_test_dir();
    csn_error err = { 0 };

    if (csn_front_confine(dir, false, &err) != CSN_OK)
        csn_test_fail(__FILE__, __LINE__, "%s", err.message);
    return dir;
}

TEST(no_program_no_process_no_socket)
{
    char *const argv[] = { NULL };

    if (!HAS_FILTER)
        csn_test_skip("build: the filter is off under a sanitizer");
    (void) confined();
    CHECK_INT(execve("/bin/true", argv, argv), -1);
    CHECK_INT(errno, EPERM);
    CHECK_INT(fork(), -1);
    CHECK_INT(socket(AF_INET, SOCK_STREAM, 0), -1);
    CHECK_INT(errno, EPERM);
    CHECK_INT(socket(AF_UNIX, SOCK_STREAM, 0), -1);
    CHECK_INT(ptrace(PTRACE_TRACEME, 0, 0, 0), -1);
    CHECK_INT(chdir("/"), -1);
}

TEST(no_executable_memory)
{
    void *p;

    if (!HAS_FILTER)
        csn_test_skip("build: the filter is off under a sanitizer");
    (void) confined();
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
          MAP_FAILED);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    CHECK_INT(mprotect(p, 4096, PROT_READ | PROT_EXEC), -1);
    CHECK_INT(mprotect(p, 4096, PROT_READ), 0);
}

TEST(no_file_but_its_own)
{
    (void) confined();
    CHECK_INT(open("/etc/passwd", O_RDONLY), -1);
    CHECK_INT(errno, EACCES);
    CHECK_INT(open("/proc/self/maps", O_RDONLY), -1);
    CHECK(open("/dev/urandom", O_RDONLY) >= 0); /* seeds */
}

/* This kernel's calls of that name fail from now on, as those of one without it. */
static void without_landlock(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog prog = { .len = CSN_COUNT(code), .filter = code };

    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

TEST(without_landlock_it_does_not_start)
{
    const char *dir = csn_test_dir();
    csn_error err = { 0 };

    without_landlock();
    CHECK_INT(csn_front_confine(dir, false, &err), CSN_E_UNSUPPORTED);
    CHECK(strstr(err.message, "--optional landlock") != NULL);
}

TEST(unless_that_is_optional)
{
    const char *dir = csn_test_dir();
    csn_error err = { 0 };

    without_landlock();
    CHECK_INT(csn_front_confine(dir, true, &err), CSN_OK);
}

TEST(what_it_needs_works)
{
    const char *dir = confined();
    csn_store *store = NULL;
    csn_error err = { 0 };
    char path[512];
    int pair[2];

    (void) snprintf(path, sizeof(path), "%s/caisson.db", dir);
    CHECK_INT(csn_store_open(path, &store, &err), CSN_OK);
    csn_store_free(store);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(csn_send_fds(pair[0], "x", 1, &pair[1], 1), 0);
    csn_close_many(pair, 2);
}
