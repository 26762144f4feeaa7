/* SPDX-License-Identifier: Apache-2.0 */
/* A shepherd: starts one program, adopts its orphans, waits for it, tells the keeper. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/child.h"
#include "init/init.h"
#include "init/sys.h"
#include "init/tree.h"

enum {
    STRINGS_MAX =
        128 * 1024, /* argv and environment: 2 MiB of strings hold more, but nobody's do */
    STACK_SIZE = 64 * 1024
};

static const char *strings[STRINGS_MAX + 2];
static _Alignas(16) char child_stack[STACK_SIZE];

void csn_say_failed(uint32_t process, int stage, int error)
{
    csn_init_failed body = { .process = process, .sys_errno = error, .stage = (uint32_t) stage };

    (void) csn_frame_send(
        CSN_CONTROL_FD,
        &(csn_out){ .type = CSN_FRAME_INIT_FAILED, .fixed = &body, .fixed_len = sizeof(body) });
}

static int64_t microseconds(struct timeval t)
{
    return (int64_t) t.tv_sec * 1000000 + t.tv_usec;
}

void csn_say_exited(uint32_t process, int wait_status, const struct rusage *usage, int64_t n_tasks)
{
    csn_init_exited body = {
        .process = process,
        .wait_status = wait_status,
        .user_us = microseconds(usage->ru_utime),
        .sys_us = microseconds(usage->ru_stime),
        .max_rss_bytes = (int64_t) usage->ru_maxrss * 1024,
        .n_tasks = n_tasks,
    };

    (void) csn_frame_send(
        CSN_CONTROL_FD,
        &(csn_out){ .type = CSN_FRAME_INIT_EXITED, .fixed = &body, .fixed_len = sizeof(body) });
}

static void say_started(csn_slot *slot, pid_t pid, int master)
{
    csn_init_started body = { .process = slot->process, .pid = pid };

    atomic_store(&slot->said,
                 CSN_SAID_STARTED); /* first: the program runs and may kill us any time */
    (void) csn_frame_send(CSN_CONTROL_FD, &(csn_out){ .type = CSN_FRAME_INIT_STARTED,
                                                      .fixed = &body,
                                                      .fixed_len = sizeof(body),
                                                      .fds = &master,
                                                      .n_fds = master >= 0 ? 1 : 0 });
}

/* stdin, stdout, stderr, channel, in this order, as far as they were sent. */
static int sort_stdio(const csn_init_spawn *request, const csn_msg *msg, int stdio[4])
{
    size_t next = 0;

    for (int i = 0; i < 4; i++) {
        stdio[i] = -1;
        if (!(request->fds & (1u << i)))
            continue;
        if (next >= msg->n_fds)
            return -EINVAL;
        stdio[i] = msg->fds[next++];
    }
    return next == msg->n_fds && (request->fds & ~15u) == 0 ? 0 : -EINVAL;
}

static pid_t fail(csn_slot *slot, int stage, int error)
{
    csn_say_failed(slot->process, stage, error);
    atomic_store(&slot->said, CSN_SAID_END);
    return -1;
}

/* The child shares our memory until it executes or fails, so the outcome is known when this returns. The slot learns
 * the number as late: until the keeper heard of the command it sends it no signal. The program's number; -1: the keeper
 * was told why not. */
static pid_t start(csn_slot *slot, const csn_init_spawn *request, csn_msg *msg)
{
    csn_unpack rest = csn_msg_rest(msg, sizeof(*request));
    csn_child child = {
        .flags = request->flags, .tty = -1, .uid = request->uid, .gid = request->gid
    };
    csn_spec spec;
    int r, master = -1;
    pid_t pid;

    r = csn_spec_unpack(&rest, strings + 2, STRINGS_MAX, &spec);
    if (r == 0)
        r = sort_stdio(request, msg, child.stdio);
    if (r < 0)
        return fail(slot, CSN_STAGE_SPEC, -r);
    if (request->flags & CSN_SPAWN_PTY)
        r = csn_tty_open(request->rows, request->cols, request->uid, &master, &child.tty);
    if (r < 0)
        return fail(slot, CSN_STAGE_TTY, -r);
    child.spec = &spec;
    child.change_user = request->uid != geteuid() || request->gid != getegid();
    pid = clone(csn_child_run, child_stack + sizeof(child_stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
                &child);
    if (pid < 0)
        return fail(slot, CSN_STAGE_FORK, errno);
    if (child.stage != 0)
        return fail(slot, child.stage, child.error);
    atomic_store(&slot->main_pid, pid);
    say_started(slot, pid, master);
    return pid;
}

static int has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Waits for main, adopting and burying what it leaves behind. When the tree is being killed, the last to go is us.
 * 1: somebody may be left. */
static int tend(csn_slot *slot, pid_t main_pid, int *ret_status)
{
    for (;;) {
        siginfo_t info;
        int status;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0)
            return 0; /* ECHILD: nobody is left */
        if (info.si_pid == main_pid)
            atomic_store(&slot->main_pid, 0); /* before its number can be given to another */
        if (waitpid(info.si_pid, &status, 0) < 0)
            return 0;
        if (info.si_pid == main_pid) {
            *ret_status = status;
            if (!atomic_load(&slot->is_killed))
                return 1;
        }
    }
}

_Noreturn void csn_shepherd_run(csn_slot *slot, const csn_init_spawn *request, csn_msg *msg)
{
    struct rusage usage;
    int status = -1;
    sigset_t all;
    pid_t pid, self = getpid();

    sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, NULL);      /* valid arguments */
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* valid arguments */
    pid = start(slot, request, msg);
    if (pid < 0)
        _exit(0);
    (void) csn_sys_close_range(CSN_CONTROL_FD + 1); /* the streams are the program's alone */
    if (tend(slot, pid, &status) && has_children())
        atomic_store(csn_has_leftovers, 1);
    (void) getrusage(RUSAGE_CHILDREN, &usage); /* valid arguments */
    csn_say_exited(slot->process, status, &usage, csn_tasks_since(self));
    atomic_store(&slot->said, CSN_SAID_END);
    _exit(0);
}

/* --- the only command ------------------------------------------------------------------------------------------------ */

/* With its end the sandbox ends, so there is nobody to tell its tree from: init adopts all orphans as it is, and whoever
 * must die dies with everybody. A fork, a process and two wake-ups less on the way of the shortest runs. */
int csn_start_alone(csn_slot *slot, const csn_init_spawn *request, csn_msg *msg)
{
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &before); /* valid arguments: no handler of ours runs in the child */
    pid = start(slot, request, msg);
    (void) sigprocmask(SIG_SETMASK, &before, NULL); /* as it was */
    (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* again: a child that changed its user did so in our memory */
    if (pid < 0)
        return -1;
    slot->is_alone = 1;
    slot->shepherd = slot->first_pid = pid;
    slot->born_ms = csn_sys_now_ms();
    return 0;
}

/* Not RUSAGE_CHILDREN: file workers are children, too. */
void csn_alone_count(const struct rusage *usage)
{
    csn_slot *slot = &csn_slots[0];

    if (csn_n_slots == 0 || !slot->is_alone)
        return;
    timeradd(&slot->usage.ru_utime, &usage->ru_utime, &slot->usage.ru_utime);
    timeradd(&slot->usage.ru_stime, &usage->ru_stime, &slot->usage.ru_stime);
    if (usage->ru_maxrss > slot->usage.ru_maxrss)
        slot->usage.ru_maxrss = usage->ru_maxrss;
}

void csn_alone_is_gone(csn_slot *slot, int wait_status)
{
    csn_say_exited(slot->process, wait_status, &slot->usage, csn_tasks_since(slot->first_pid) + 1);
    csn_slot_free(slot);
}
