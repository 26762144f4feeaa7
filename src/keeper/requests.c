/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may ask once the sandbox stands. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "serve.h"
#include "setup.h"

enum { COMMAND_TEXT_MAX = 4096 };

static void not_found(csn_client *client, uint32_t seq, uint32_t process)
{
    csn_error err;

    (void) csn_fail(&err, CSN_E_NOT_FOUND, "there is no command %u", process);
    csn_reply_error(client, seq, &err);
}

static void reply_state(csn_client *client, uint32_t seq, const csn_command *cmd, const int *fds,
                        size_t n_fds)
{
    csn_reply(client, &(csn_out){ .type = CSN_FRAME_STATE,
                                  .seq = seq,
                                  .fixed = &cmd->state,
                                  .fixed_len = sizeof(cmd->state),
                                  .fds = fds,
                                  .n_fds = n_fds });
}

/* --- commands ---------------------------------------------------------------------------------------------------- */

static void on_signal(csn_client *client, csn_msg *msg)
{
    csn_signal sig;

    csn_msg_fixed(msg, &sig, sizeof(sig));
    csn_command_signal(client, msg->head.seq, &sig);
}

static void on_attach(csn_client *client, csn_msg *msg)
{
    csn_process_ref ref;
    csn_command *cmd;
    csn_error err;
    int fds[3] = { -1, -1, -1 };
    size_t n = 0;

    csn_msg_fixed(msg, &ref, sizeof(ref));
    cmd = csn_command_find(client->k, ref.process, true);
    if (!cmd || !cmd->log) {
        not_found(client, msg->head.seq, ref.process);
        return;
    }
    int r = csn_log_lend(cmd, fds, &n);
    if (r < 0) {
        (void) csn_fail_sys(&err, r, "open the log of command %u", ref.process);
        csn_reply_error(client, msg->head.seq, &err);
    } else {
        reply_state(client, msg->head.seq, cmd, fds, n);
    }
    csn_close_many(fds, n);
}

static void on_wait(csn_client *client, csn_msg *msg)
{
    csn_wait wait;
    csn_command *cmd;
    csn_waiter *waiter;
    csn_error err;

    csn_msg_fixed(msg, &wait, sizeof(wait));
    cmd = csn_command_find(client->k, wait.process, true);
    if (!cmd) {
        not_found(client, msg->head.seq, wait.process);
        return;
    }
    if (csn_command_is_told(cmd, wait.log_offset, wait.flags & CSN_WAIT_CLOSED)) {
        reply_state(client, msg->head.seq, cmd, NULL, 0);
        return;
    }
    waiter = client->n_waiters < CSN_WAITS_MAX ? csn_calloc(1, sizeof(*waiter)) : NULL;
    if (!waiter) {
        (void) csn_fail(&err, CSN_E_LIMIT, "more than %d waits on one connection", CSN_WAITS_MAX);
        csn_reply_error(client, msg->head.seq, &err);
        return;
    }
    *waiter = (csn_waiter){ .client = client,
                            .process = wait.process,
                            .seq = msg->head.seq,
                            .log_offset = wait.log_offset,
                            .is_for_close = wait.flags & CSN_WAIT_CLOSED };
    csn_list_append(&client->waiters, &waiter->link);
    client->n_waiters++;
}

static void reply_listed(csn_client *client, uint32_t seq, const csn_command *cmd)
{
    char bytes[COMMAND_TEXT_MAX + 16];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    csn_pack_bytes(&p, cmd->text, strnlen(cmd->text, COMMAND_TEXT_MAX));
    csn_reply(client, &(csn_out){ .type = CSN_FRAME_STATE,
                                  .seq = seq,
                                  .fixed = &cmd->state,
                                  .fixed_len = sizeof(cmd->state),
                                  .rest = bytes,
                                  .rest_len = p.len });
}

static void on_list(csn_client *client, csn_msg *msg)
{
    csn_keeper *k = client->k;
    int64_t n = 0;

    csn_list_foreach (node, &k->ended) {
        reply_listed(client, msg->head.seq, csn_list_entry(node, csn_command, link));
        n++;
    }
    csn_list_foreach (node, &k->commands) {
        reply_listed(client, msg->head.seq, csn_list_entry(node, csn_command, link));
        n++;
    }
    csn_reply_done(client, msg->head.seq, n);
}

static void on_close_stdin(csn_client *client, csn_msg *msg)
{
    csn_process_ref ref;
    csn_command *cmd;

    csn_msg_fixed(msg, &ref, sizeof(ref));
    cmd = csn_command_find(client->k, ref.process, true);
    if (!cmd || !cmd->log) {
        not_found(client, msg->head.seq, ref.process);
        return;
    }
    if (!(cmd->state.flags & CSN_SPAWN_PTY))
        csn_close(&cmd->log->in_fd);
    csn_reply_done(client, msg->head.seq, 0);
}

/* --- the sandbox ------------------------------------------------------------------------------------------------- */

static void fill_usage(csn_keeper *k, csn_box_state *s)
{
    csn_cgroup_usage usage;

    s->n_processes_now = k->n_running;
    if (k->cgroup.n > 0 && csn_cgroup_usage_read(&k->cgroup, &usage) == 0) {
        s->memory_bytes = (int64_t) usage.memory_bytes;
        s->n_processes_now = usage.n_processes ? (int64_t) usage.n_processes : s->n_processes_now;
        if ((int64_t) usage.memory_peak_bytes > k->peak_memory_bytes)
            k->peak_memory_bytes = (int64_t) usage.memory_peak_bytes;
        if ((int64_t) usage.cpu_usec >
            s->user_us + s->sys_us) /* commands that still run count here alone */
            s->user_us = (int64_t) usage.cpu_usec - s->sys_us;
    }
    s->peak_memory_bytes = k->peak_memory_bytes;
    (void) csn_disk_used(k); /* refreshes the two below where that is cheap */
    s->disk_bytes = k->disk_bytes;
    s->disk_inodes = k->disk_inodes;
}

void csn_box_state_fill(csn_keeper *k, csn_box_state *ret_state)
{
    *ret_state = (csn_box_state){
        .keeper_pid = getpid(),
        .init_pid = k->init_pid,
        .walls = k->walls,
        .walls_missing = k->walls_missing,
        .limits_kernel = k->limits_kernel,
        .rung = k->rung,
        .disk_rung = k->disk_rung,
        .shares_host_uid = !k->is_privileged,
        .memory_limit_bytes = k->plan.memory_bytes,
        .cpu_limit_milli = k->plan.cpu_milli,
        .pids_limit = csn_pids_limit(k),
        .disk_limit_bytes = k->plan.disk_bytes,
        .started_ms = k->started_ms,
        .wall_us = k->started_ns ? (csn_now_ns() - k->started_ns) / 1000 : 0,
        .user_us = k->user_us,
        .sys_us = k->sys_us,
        .n_processes_total = k->n_tasks,
        .stdout_bytes = k->stdout_bytes,
        .stderr_bytes = k->stderr_bytes,
        .n_commands_running = k->n_running,
        .ended = k->ending,
        .cpu_rung = csn_cpu_rung_of(k),
        .cpu_asked_milli = k->cpu_asked_milli,
    };
}

static void on_stat(csn_client *client, csn_msg *msg)
{
    csn_box_state state;

    csn_box_state_fill(client->k, &state);
    fill_usage(client->k, &state);
    csn_reply(client, &(csn_out){ .type = CSN_FRAME_STATE,
                                  .seq = msg->head.seq,
                                  .fixed = &state,
                                  .fixed_len = sizeof(state) });
}

static void on_stop(csn_client *client, csn_msg *msg)
{
    csn_stop stop;

    csn_msg_fixed(msg, &stop, sizeof(stop));
    client->wants_end = true;
    client->stop_seq = msg->head.seq;
    csn_end_begin(client->k, CSN_ENDED_KILLED, stop.grace_ms, stop.delete_too);
}

static void on_lend(csn_client *client, csn_msg *msg)
{
    csn_lend(client, msg->head.seq);
}

static void on_thaw(csn_client *client, csn_msg *msg)
{
    if (client->k->lender == client)
        csn_thaw(client->k);
    csn_reply_done(client, msg->head.seq, 0);
}

static void on_timers(csn_client *client, csn_msg *msg)
{
    csn_timers timers;

    csn_msg_fixed(msg, &timers, sizeof(timers));
    client->k->plan.ttl_ms = timers.ttl_ms;
    client->k->plan.idle_stop_ms = timers.idle_stop_ms;
    csn_timers_set(client->k);
    csn_reply_done(client, msg->head.seq, 0);
}

static void on_resize(csn_client *client, csn_msg *msg)
{
    csn_error err = { 0 };
    csn_resize to;

    csn_msg_fixed(msg, &to, sizeof(to));
    if (csn_cgroups_resize(client->k, to.memory_bytes, to.cpu_milli, &err) < 0)
        csn_reply_error(client, msg->head.seq, &err);
    else
        csn_reply_done(client, msg->head.seq, 0);
}

static void (*const handlers[])(csn_client *client, csn_msg *msg) = {
    [CSN_FRAME_SPAWN] = csn_command_spawn,
    [CSN_FRAME_SIGNAL] = on_signal,
    [CSN_FRAME_ATTACH] = on_attach,
    [CSN_FRAME_WAIT] = on_wait,
    [CSN_FRAME_LIST] = on_list,
    [CSN_FRAME_STAT] = on_stat,
    [CSN_FRAME_STOP] = on_stop,
    [CSN_FRAME_LEND] = on_lend,
    [CSN_FRAME_THAW] = on_thaw,
    [CSN_FRAME_TIMERS] = on_timers,
    [CSN_FRAME_CLOSE_STDIN] = on_close_stdin,
    [CSN_FRAME_RESIZE] = on_resize,
};

void csn_request_handle(csn_client *client, csn_msg *msg)
{
    uint32_t type = msg->head.type;

    if (type >= CSN_COUNT(handlers) || !handlers[type]) {
        csn_client_drop(client); /* a second plan, say */
        return;
    }
    csn_touch(client->k);
    handlers[type](client, msg);
}
