/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation. caisson-init is PID 1 of a sandbox. The keeper's set-up child built the root, pivoted, dropped
 * every right, installed landlock and seccomp and then executed this program from a sealed memfd, with one socket to
 * the keeper as descriptor 3. It knows no policy and allocates nothing. Its processes:
 *
 *   init        hears the keeper, reaps, kills. Never touches a file of the sandbox but /dev/null and /proc.
 *   shepherd    one per command, a fork of init: starts the program, tells the keeper itself (frames are atomic), adopts
 *               the program's orphans (subreaper), waits, tells the end. Blocks all signals, so only SIGKILL ends it.
 *               A command that is all there ever is has none: init starts it and waits for it as for any orphan.
 *   worker      one per file request, a fork of init: does it with the sandbox's rights and answers on its channel.
 *
 * Code inside runs as the same user, so it can kill a shepherd or a worker, not read or trace them (they are not
 * dumpable) and not signal init (the kernel protects PID 1 from its own namespace). Whoever kills a shepherd loses: init
 * then kills every process that belongs to no living shepherd. Init ends when its socket does, and the kernel ends the
 * namespace with it. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/init.h"
#include "init/sys.h"

enum { FRAMES_AT_ONCE = 16, REAPED_AT_ONCE = 512, FLAGS_BYTES = 64 };

csn_slot *csn_slots;
size_t csn_n_slots;
pid_t csn_workers[CSN_WORKERS_MAX];
_Atomic uint32_t *csn_has_leftovers, *csn_oom_is_set;

static _Alignas(16) char frame_buf[CSN_FRAME_MAX];

static void on_child(int sig)
{
    (void) sig; /* it only has to interrupt ppoll() */
}

static void prepare_signals(void)
{
    struct sigaction act = { .sa_handler = SIG_DFL };
    sigset_t blocked;

    /* An ignored signal would stay ignored in every program ever run here. */
    for (int sig = 1; sig < 65; sig++)
        if (sig != SIGKILL && sig != SIGSTOP && sig != SIGCHLD)
            (void) sigaction(sig, &act, NULL); /* the libc keeps two for itself and says EINVAL */
    act.sa_handler = on_child;
    (void) sigaction(SIGCHLD, &act, NULL); /* a valid signal */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    (void) sigprocmask(SIG_SETMASK, &blocked, NULL); /* valid arguments */
}

void csn_init_prepare(void)
{
    const size_t size = sizeof(csn_slot) * CSN_PROCESS_MAX + FLAGS_BYTES;
    char *shared;

    (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  /* valid arguments */
    (void) prctl(PR_SET_NAME, "init", 0, 0, 0); /* a memfd's name says nothing */
    prepare_signals();
    csn_sys_be_quick(); /* a fork bomb has a thousand turns to our one */
    (void) fcntl(CSN_CONTROL_FD, F_SETFD, FD_CLOEXEC); /* not open: the first receive says so */
    umask(022);
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        _exit(1);
    csn_oom_is_set = (void *) shared; /* beside the first slots: one page for most sandboxes */
    csn_has_leftovers = csn_oom_is_set + 1;
    csn_slots = (void *) (shared + FLAGS_BYTES);
}

static void hear(csn_msg *msg)
{
    csn_init_kill kill_request;

    if (msg->head.type == CSN_FRAME_INIT_SPAWN) {
        csn_init_spawn_request(msg);
        return;
    }
    csn_msg_fixed(msg, &kill_request, sizeof(kill_request));
    csn_init_kill_request(&kill_request);
}

/* 0: go on; -1: the keeper is gone or talks nonsense. */
static int hear_frames(void)
{
    for (int i = 0; i < FRAMES_AT_ONCE; i++) {
        csn_msg msg = CSN_MSG_INIT;
        int r = csn_frame_recv(CSN_CONTROL_FD, frame_buf, sizeof(frame_buf), CSN_SAID_TO_INIT,
                               MSG_DONTWAIT, &msg);
        if (r == -EAGAIN)
            return 0;
        if (r <= 0)
            return -1;
        hear(&msg);
        csn_msg_done(&msg);
    }
    return 0;
}

static void buried(pid_t pid, int status, const struct rusage *usage)
{
    csn_slot *slot = csn_slot_of_shepherd(pid);

    if (csn_is_worker(pid)) {
        csn_worker_forget(pid);
        return;
    }
    csn_alone_count(usage);
    if (slot && slot->is_alone)
        csn_alone_is_gone(slot, status);
    else if (slot)
        csn_shepherd_is_gone(slot, usage);
}

/* A command that init started itself may stop as it likes. */
static int is_ours(pid_t pid)
{
    const csn_slot *slot = csn_slot_of_shepherd(pid);

    return (slot && !slot->is_alone) || csn_is_worker(pid);
}

/* All that ended, orphans of the sandbox included; not more than a fork bomb may ask of one turn. */
static int reap(void)
{
    for (int i = 0; i < REAPED_AT_ONCE; i++) {
        struct rusage usage;
        int status;
        pid_t pid = wait4(-1, &status, WNOHANG | WUNTRACED, &usage);
        if (pid <= 0)
            return 0;
        if (!WIFSTOPPED(status))
            buried(pid, status, &usage);
        else if (is_ours(pid))
            (void) kill(pid, SIGCONT); /* code inside may stop ours as often as it likes */
    }
    return 1;
}

void csn_init_serve(void)
{
    struct pollfd control = { .fd = CSN_CONTROL_FD, .events = POLLIN };
    sigset_t open_mask;
    int wait_ms = -1;

    sigemptyset(&open_mask);
    for (;;) {
        struct timespec timeout = { wait_ms / 1000, (long) (wait_ms % 1000) * 1000000 };
        int n = ppoll(&control, 1, wait_ms >= 0 ? &timeout : NULL, &open_mask);
        if (n > 0 && hear_frames() < 0)
            return;
        n = reap();
        wait_ms = csn_kill_step();
        if (n > 0)
            wait_ms = 0;
    }
}

#ifndef CSN_INIT_HOSTED
/* Programs without a stream get the sandbox's own /dev/null, not one of the host. */
static void prepare_stdio(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (fd < 0)
        return; /* the keeper's stays */
    if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
        for (int i = 0; i < 3; i++)
            (void) dup2(fd, i); /* 0, 1 and 2 always exist or are free */
    if (fd > 2)
        (void) close(fd); /* copied */
}

/* What the kernel copied for us stays readable on the stack as /proc/1/cmdline and environ: wipe it. */
static void wipe(char **strings)
{
    for (; strings && *strings; strings++) {
        explicit_bzero(*strings, strlen(*strings));
        *strings = NULL;
    }
}

int main(int argc, char **argv)
{
    (void) argc;
    wipe(environ);
    wipe(argv);
    csn_init_prepare();
    prepare_stdio();
    if (csn_frame_send(CSN_CONTROL_FD, &(csn_out){ .type = CSN_FRAME_INIT_READY }) == 0)
        csn_init_serve();
    _exit(0);
}
#endif
