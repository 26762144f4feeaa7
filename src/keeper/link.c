/* SPDX-License-Identifier: Apache-2.0 */
/* The line to init. Everything it says is said by the attacker (R11, R39): numbers are clamped, and a frame that does not
 * fit the state of the command it speaks of ends the sandbox. */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "serve.h"

enum { FRAMES_MAX = 2 * CSN_PROCESS_MAX }; /* a start and an end of each: init has no more to say */

static void end_lost(csn_keeper *k)
{
    csn_cgroup_usage usage;
    bool is_oom = false;

    if (k->cgroup.n > 0 && csn_cgroup_usage_read(&k->cgroup, &usage) == 0)
        is_oom = usage.n_oom_kills > k->n_oom_kills;
    csn_end_now(k, is_oom ? CSN_ENDED_OOM : CSN_ENDED_LOST);
}

static void reply_failed(csn_command *cmd, const csn_init_failed *failed)
{
    static const char *const doing[] = {
        [CSN_STAGE_FORK] = "make a process",   [CSN_STAGE_USER] = "change the user",
        [CSN_STAGE_TTY] = "make a terminal",   [CSN_STAGE_STDIO] = "set up the streams",
        [CSN_STAGE_SPEC] = "read the command",
    };
    int e = failed->sys_errno > 0 && failed->sys_errno < 4096 ? failed->sys_errno : EIO;
    csn_error err;

    if (failed->stage == CSN_STAGE_CWD)
        (void) csn_fail_sys(&err, -e, "enter directory '%.100s'", cmd->cwd);
    else if (failed->stage < CSN_COUNT(doing) && doing[failed->stage])
        (void) csn_fail_sys(&err, -e, "start '%.100s': %s", cmd->text, doing[failed->stage]);
    else
        (void) csn_fail_sys(&err, -e, "start '%.100s'", cmd->text);
    if (e == EACCES || e == EPERM || e == ENOEXEC)
        err.code = CSN_E_DENIED;
    else if (e == ENOTDIR && failed->stage == CSN_STAGE_CWD)
        err.code = CSN_E_NOT_FOUND;
    else if (failed->stage == CSN_STAGE_FORK && e == EAGAIN)
        err.code = CSN_E_LIMIT;
    if (cmd->owner)
        csn_reply_error(cmd->owner, cmd->spawn_seq, &err);
}

/* --- its frames -------------------------------------------------------------------------------------------------- */

static int on_started(csn_keeper *k, csn_msg *msg)
{
    csn_init_started started;
    csn_command *cmd;
    int pty = csn_msg_take_fd(msg, 0);
    bool wants_pty;

    csn_msg_fixed(msg, &started, sizeof(started));
    cmd = csn_command_find(k, started.process, false);
    wants_pty = cmd && cmd->state.flags & CSN_SPAWN_PTY;
    if (!cmd || cmd->is_started || wants_pty != (pty >= 0)) {
        csn_close(&pty);
        return -EBADMSG;
    }
    cmd->is_started = true;
    if (wants_pty && csn_log_set_pty(cmd, pty) < 0) /* not a terminal: said by the attacker */
        return -EBADMSG;
    if (cmd->owner) {
        const csn_started answer = { .process = cmd->state.process };
        csn_reply(cmd->owner, &(csn_out){ .type = CSN_FRAME_STARTED,
                                          .seq = cmd->spawn_seq,
                                          .fixed = &answer,
                                          .fixed_len = sizeof(answer) });
    }
    return 0;
}

/* An end is told by the command's shepherd, and by init for a shepherd that was killed. One that is killed between its
 * frame and its note for init that it was sent has the end told twice; the first counts. -EBADMSG: nobody was sent. */
static int hear_again(const csn_keeper *k, uint32_t process)
{
    return process != 0 && process <= k->last_command ? 0 : -EBADMSG;
}

static int on_failed(csn_keeper *k, csn_msg *msg)
{
    csn_init_failed failed;
    csn_command *cmd;

    csn_msg_fixed(msg, &failed, sizeof(failed));
    cmd = csn_command_find(k, failed.process, false);
    if (!cmd)
        return hear_again(k, failed.process);
    if (cmd->is_started)
        return -EBADMSG;
    reply_failed(cmd, &failed);
    csn_command_finish(cmd, CSN_ENDED_RUNNING, 0, 0);
    return 0;
}

static int64_t clamp(int64_t value, int64_t max)
{
    return value < 0 ? 0 : value > max ? max : value;
}

static int on_exited(csn_keeper *k, csn_msg *msg)
{
    const int64_t max_us = INT64_C(1) << 52;
    csn_init_exited exited;
    csn_command *cmd;
    int64_t max_memory = k->plan.memory_bytes > 0 ? k->plan.memory_bytes : INT64_C(1) << 52;

    csn_msg_fixed(msg, &exited, sizeof(exited));
    cmd = csn_command_find(k, exited.process, false);
    if (!cmd)
        return hear_again(k, exited.process);
    if (!cmd->is_started) { /* its shepherd was killed between the start and the word of it */
        reply_failed(cmd, &(csn_init_failed){ .process = exited.process,
                                              .sys_errno = ECHILD,
                                              .stage = CSN_STAGE_FORK });
        csn_command_finish(cmd, CSN_ENDED_RUNNING, 0, 0);
        return 0;
    }
    cmd->state.user_us = clamp(exited.user_us, max_us);
    cmd->state.sys_us = clamp(exited.sys_us, max_us);
    cmd->state.peak_memory_bytes = clamp(exited.max_rss_bytes, max_memory);
    cmd->state.n_processes = clamp(exited.n_tasks, INT64_C(1) << 40);
    csn_ending ending = csn_command_classify(cmd, exited.wait_status);
    int code = WIFEXITED(exited.wait_status) ? WEXITSTATUS(exited.wait_status) : -1;
    int sig = exited.wait_status != -1 && WIFSIGNALED(exited.wait_status)
                  ? WTERMSIG(exited.wait_status)
                  : 0;
    csn_command_finish(cmd, ending, ending == CSN_ENDED_EXIT ? code : -1, sig);
    return 0;
}

/* False: there is nothing to hear. */
static bool hear_frame(csn_keeper *k)
{
    csn_auto(msg) csn_msg msg = CSN_MSG_INIT;
    int r = csn_frame_recv(k->control_fd, csn_frame_bytes, sizeof(csn_frame_bytes),
                           CSN_SAID_BY_INIT, MSG_DONTWAIT, &msg);

    if (r == -EAGAIN)
        return false;
    if (r == 1 && msg.head.type == CSN_FRAME_INIT_STARTED)
        r = on_started(k, &msg);
    else if (r == 1 && msg.head.type == CSN_FRAME_INIT_FAILED)
        r = on_failed(k, &msg);
    else if (r == 1 && msg.head.type == CSN_FRAME_INIT_EXITED)
        r = on_exited(k, &msg);
    else
        r = -EBADMSG;
    if (r < 0)
        end_lost(k);
    return true;
}

static void on_control(csn_source *src, uint32_t events, void *user)
{
    (void) src;
    (void) events;
    (void) hear_frame(user); /* one a turn: clients have theirs in between */
}

void csn_link_hear(csn_keeper *k)
{
    for (int i = 0; i < FRAMES_MAX && !k->is_ending && hear_frame(k); i++)
        ;
}

static void on_init_dead(csn_source *src, uint32_t events, void *user)
{
    csn_keeper *k = user;

    (void) src;
    (void) events;
    end_lost(k);
}

int csn_link_open(csn_keeper *k)
{
    int r = csn_loop_add(k->loop, k->control_fd, EPOLLIN, on_control, k, &k->control_src);

    return r < 0 ? r
                 : csn_loop_add(k->loop, k->init_pidfd, EPOLLIN, on_init_dead, k, &k->pidfd_src);
}

/* --- what it is told --------------------------------------------------------------------------------------------- */

int csn_link_spawn(csn_keeper *k, const csn_init_spawn *spawn, csn_unpack spec, const int *fds,
                   size_t n_fds)
{
    return csn_frame_send(k->control_fd, &(csn_out){ .type = CSN_FRAME_INIT_SPAWN,
                                                     .fixed = spawn,
                                                     .fixed_len = sizeof(*spawn),
                                                     .rest = spec.data + spec.pos,
                                                     .rest_len = spec.len - spec.pos,
                                                     .fds = fds,
                                                     .n_fds = n_fds,
                                                     .flags = MSG_DONTWAIT });
}

void csn_link_kill(csn_keeper *k, uint32_t process, int sig, bool whole_tree)
{
    const csn_init_kill kill = { .process = process, .signal = sig, .whole_tree = whole_tree };

    /* No room: init does not listen. Whoever needs the death for certain has a timer that ends init itself. */
    (void) csn_frame_send(k->control_fd, &(csn_out){ .type = CSN_FRAME_INIT_KILL,
                                                     .fixed = &kill,
                                                     .fixed_len = sizeof(kill),
                                                     .flags = MSG_DONTWAIT });
}
