/* SPDX-License-Identifier: Apache-2.0 */
/* Filters by number are per ABI: the other doors must be shut (R17). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

#ifdef __x86_64__
/* Runs `fn` in a child; killed by the filter means contained. */
static enum verdict in_child(void (*fn)(const struct attack *), const struct attack *self)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        fn(self);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? CONTAINED : BREACH;
}

static void call_by_int80(const struct attack *self)
{
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(self->arg[0]), "b"(0), "c"(0), "d"(0) : "memory");
}

static void call_by_x32(const struct attack *self)
{
    syscall(0x40000000L | self->arg[0], 0, 0, 0);
}

static enum verdict by_int80(const struct attack *self)
{
    return in_child(call_by_int80, self);
}

static enum verdict by_x32(const struct attack *self)
{
    return in_child(call_by_x32, self);
}
#endif

const struct attack attacks_abi[] = {
#ifdef __x86_64__
    { "int80_getpid", "R17", W_SECCOMP, 0, by_int80, { 20 }, NULL },
    { "int80_mount", "R17", W_SECCOMP, 0, by_int80, { 21 }, NULL },
    { "int80_unshare", "R13, R17", W_SECCOMP, 0, by_int80, { 310 }, NULL },
    { "x32_getpid", "R17", W_SECCOMP, 0, by_x32, { 39 }, NULL },
    { "x32_mount", "R17", W_SECCOMP, 0, by_x32, { 165 }, NULL },
#endif
    { 0 },
};
