/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a sandbox, from the client's SPAWN to the receipt. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fault.h"
#include "serve.h"
#include "wire/filereq.h"

enum { TEXT_MAX = 4096 };

csn_command *csn_command_find(csn_keeper *k, uint32_t number, bool or_ended)
{
    csn_list_foreach (node, &k->commands) {
        csn_command *cmd = csn_list_entry(node, csn_command, link);
        if (cmd->state.process == number)
            return cmd;
    }
    if (or_ended)
        csn_list_foreach (node, &k->ended) {
            csn_command *cmd = csn_list_entry(node, csn_command, link);
            if (cmd->state.process == number)
                return cmd;
        }
    return NULL;
}

static void free_command(csn_command *cmd)
{
    csn_list_remove(&cmd->link);
    csn_timer_cancel(&cmd->deadline_timer);
    csn_timer_cancel(&cmd->kill_timer);
    csn_log_free(cmd);
    free(cmd->text);
    free(cmd->cwd);
    free(cmd);
}

/* --- starting ---------------------------------------------------------------------------------------------------- */

/* For lists and for sentences. The spec itself goes to init untouched. */
static int read_text(csn_command *cmd, csn_unpack u)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(TEXT_MAX);
    uint32_t argc = csn_unpack_u32(&u), envc;

    for (uint32_t i = 0; i < argc && u.error == 0; i++) {
        const char *arg = csn_unpack_str(&u);
        size_t n = strlen(arg), room = TEXT_MAX - text.len;
        if (i > 0 && room > 0) {
            (void) csn_buf_putc(&text, ' '); /* sticky: seen below */
            room--;
        }
        (void) csn_buf_append(&text, arg, n < room ? n : room);
    }
    envc = csn_unpack_u32(&u);
    for (uint32_t i = 0; i < envc && u.error == 0; i++)
        (void) csn_unpack_str(&u); /* init reads them */
    cmd->cwd = csn_strdup(csn_unpack_str(&u));
    if (argc == 0 || csn_unpack_end(&u) < 0)
        return -EBADMSG;
    cmd->text = text.len ? csn_buf_take(&text, NULL) : csn_strdup("");
    return cmd->text && cmd->cwd ? 0 : -ENOMEM;
}

static void on_kill_late(csn_timer *timer, void *user)
{
    csn_command *cmd = user;
    csn_keeper *k = cmd->k;
    const uint32_t number = cmd->state.process;
    int64_t again = csn_deadline_in_ms(CSN_KILL_WAIT_MS);

    /* On a crowded machine it may be us who are late, and the word of its end has long been here. */
    csn_link_hear(k);
    cmd = csn_command_find(k, number, false);
    if (!cmd || k->is_ending)
        return;
    /* Frozen for a copy: it dies when it thaws. Without a processor: when it gets one. */
    bool is_excused =
        k->lender || (!csn_deadline_passed(cmd->kill_until_ns) && csn_is_crowded_out(k));
    if (is_excused && csn_timer_set(k->loop, timer, again, on_kill_late, cmd) == 0)
        return;
    csn_end_now(k, cmd->reason); /* the tree did not go: the sandbox does */
}

void csn_command_kill(csn_command *cmd, csn_ending reason)
{
    csn_keeper *k = cmd->k;

    if (!cmd->reason)
        cmd->reason = reason;
    csn_link_kill(k, cmd->state.process, SIGKILL, true);
    if (cmd->kill_timer.loop)
        return;
    cmd->kill_until_ns = csn_deadline_in_ms(CSN_KILL_CROWDED_MS);
    if (csn_timer_set(k->loop, &cmd->kill_timer, csn_deadline_in_ms(CSN_KILL_WAIT_MS), on_kill_late,
                      cmd) < 0)
        csn_end_now(k, cmd->reason);
}

static void on_deadline(csn_timer *timer, void *user)
{
    (void) timer;
    csn_command_kill(user, CSN_ENDED_TIMEOUT);
}

static int check_spawn(const csn_keeper *k, const csn_spawn *spawn, size_t n_fds, csn_error *err)
{
    const uint32_t streams = CSN_FD_STDIN | CSN_FD_STDOUT | CSN_FD_STDERR;
    uint32_t allowed = spawn->kind == CSN_SPAWN_FILES ? CSN_FD_CHANNEL : streams;

    if (k->is_ending)
        return csn_fail(err, CSN_E_STATE, "the sandbox is about to end");
    if (k->lender)
        return csn_fail(err, CSN_E_BUSY, "the sandbox is frozen for a copy");
    if (spawn->kind != CSN_SPAWN_EXEC && spawn->kind != CSN_SPAWN_FILES)
        return csn_fail(err, CSN_E_PROTOCOL, "unknown kind of command %u", spawn->kind);
    if (spawn->flags & (CSN_SPAWN_BACKGROUND | CSN_SPAWN_PTY))
        allowed = 0;
    if ((spawn->fds & ~allowed) || n_fds != (size_t) __builtin_popcount(spawn->fds))
        return csn_fail(err, CSN_E_PROTOCOL, "the command's descriptors don't fit its kind");
    if (spawn->flags & CSN_SPAWN_CHANNEL &&
        (spawn->flags & (CSN_SPAWN_BACKGROUND | CSN_SPAWN_PTY | CSN_SPAWN_STDIN_PIPE)) !=
            CSN_SPAWN_BACKGROUND)
        return csn_fail(err, CSN_E_PROTOCOL, "a channel is for plain background commands");
    if (spawn->flags & CSN_SPAWN_ROOT && !(k->plan.flags & CSN_PLAN_ROOT_INSIDE))
        return csn_fail(err, CSN_E_DENIED, "root inside is not allowed in this sandbox");
    if (spawn->kind == CSN_SPAWN_EXEC && k->n_running >= CSN_PROCESS_MAX)
        return csn_fail(err, CSN_E_LIMIT, "%d commands are running, more are not allowed",
                        CSN_PROCESS_MAX);
    return CSN_OK;
}

static csn_init_spawn for_init(const csn_keeper *k, const csn_spawn *spawn, uint32_t process)
{
    bool is_root = spawn->flags & CSN_SPAWN_ROOT || csn_walls_off(k) & CSN_WALL_USERNS;
    uint32_t id = is_root ? 0 : CSN_INSIDE_UID;

    return (csn_init_spawn){
        .process = process,
        .kind = spawn->kind,
        .flags = spawn->flags,
        .fds = spawn->fds,
        .rows = spawn->rows ? spawn->rows : 24,
        .cols = spawn->cols ? spawn->cols : 80,
        .uid = id,
        .gid = id,
    };
}

static int fail_link(csn_error *err, int r)
{
    return r == -EAGAIN
               ? csn_fail(err, CSN_E_BUSY, "the sandbox does not take more commands at present")
               : csn_fail_sys(err, r, "pass the command to init");
}

static bool is_writing(csn_unpack request)
{
    csn_filereq req;

    if (csn_filereq_unpack(&request, &req) < 0)
        return false; /* the worker will say so */
    return (req.verb == CSN_FILEREQ_OPEN && (req.flags & CSN_OPEN_WRITE)) ||
           req.verb == CSN_FILE_MKDIR || req.verb == CSN_FILE_REPLACE;
}

/* Commands that write too much are killed; a file worker is gone before anybody has counted, so it is not let in. */
static int check_disk(csn_keeper *k, csn_unpack request, csn_error *err)
{
    if (k->disk_rung != CSN_DISK_WATCH || !csn_disk_is_full(k) || !is_writing(request))
        return CSN_OK;
    csn_watch_busy(k); /* it may have become emptier */
    return csn_fail(err, CSN_E_LIMIT, "the sandbox's disk is full: %lld of %lld bytes",
                    (long long) k->disk_bytes, (long long) k->plan.disk_bytes);
}

/* A file worker answers its client itself; nothing is remembered here. */
static int spawn_files(csn_client *client, const csn_spawn *spawn, csn_msg *msg, csn_error *err)
{
    const csn_init_spawn init = for_init(client->k, spawn, 0);
    const csn_started answer = { .process = 0 };
    int r = check_disk(client->k, csn_msg_rest(msg, sizeof(*spawn)), err);

    if (r != CSN_OK)
        return r;
    r = csn_link_spawn(client->k, &init, csn_msg_rest(msg, sizeof(*spawn)), msg->fds, msg->n_fds);
    if (r < 0)
        return fail_link(err, r);
    csn_watch_busy(client->k);
    csn_reply(client, &(csn_out){ .type = CSN_FRAME_STARTED,
                                  .seq = msg->head.seq,
                                  .fixed = &answer,
                                  .fixed_len = sizeof(answer) });
    return CSN_OK;
}

static csn_command *new_command(csn_client *client, const csn_spawn *spawn, uint32_t seq)
{
    csn_keeper *k = client->k;
    csn_command *cmd = csn_calloc(1, sizeof(*cmd));

    if (!cmd)
        return NULL;
    cmd->k = k;
    cmd->owner = client;
    cmd->spawn_seq = seq;
    cmd->kill_on_limit = spawn->kill_on_output_limit;
    cmd->start_ns = csn_now_ns();
    cmd->oom_at_start = k->n_oom_kills;
    cmd->denied_at_start = k->n_fork_denied;
    cmd->was_disk_full = csn_disk_is_full(k);
    cmd->full_at_start = k->n_memory_full;
    cmd->disk_at_start = csn_disk_used(k);
    cmd->state = (csn_process_state){
        .flags =
            spawn->flags | (spawn->flags & CSN_SPAWN_PTY ? (uint32_t) CSN_SPAWN_BACKGROUND : 0u),
        .started_ms = csn_wall_ms(),
        .timeout_ms = spawn->timeout_ms > 0 ? spawn->timeout_ms : -1,
        .output_bytes = spawn->output_bytes,
    };
    csn_list_init(&cmd->link);
    return cmd;
}

/* Background streams are the keeper's own pipes; init gets their far ends. */
static int pass_command(csn_command *cmd, csn_init_spawn *init, csn_msg *msg, csn_error *err)
{
    int far[4] = { -1, -1, -1, -1 }, fds[4];
    size_t n = 0;
    int r;

    for (size_t i = 0; i < msg->n_fds; i++)
        fds[n++] = msg->fds[i];
    if (cmd->state.flags & CSN_SPAWN_BACKGROUND) {
        r = csn_log_open(cmd, far, err);
        if (r != CSN_OK)
            return r;
        init->fds = 0;
        for (size_t i = 0; i < 4; i++)
            if (far[i] >= 0) {
                init->fds |= 1u << i;
                fds[n++] = far[i];
            }
    }
    r = csn_link_spawn(cmd->k, init, csn_msg_rest(msg, sizeof(csn_spawn)), fds, n);
    csn_close_many(far, 4);
    return r < 0 ? fail_link(err, r) : CSN_OK;
}

static int spawn_command(csn_client *client, const csn_spawn *spawn, csn_msg *msg, csn_error *err)
{
    csn_keeper *k = client->k;
    csn_command *cmd = new_command(client, spawn, msg->head.seq);
    csn_init_spawn init = for_init(k, spawn, k->last_command + 1);
    int r = cmd ? read_text(cmd, csn_msg_rest(msg, sizeof(*spawn))) : -ENOMEM;

    if (r < 0) {
        if (cmd)
            free_command(cmd);
        return r == -EBADMSG ? csn_fail(err, CSN_E_PROTOCOL, "the command can't be read")
                             : csn_fail_sys(err, r, "remember the command");
    }
    cmd->state.process = ++k->last_command;
    r = pass_command(cmd, &init, msg, err);
    if (r == CSN_OK && spawn->timeout_ms > 0) {
        int e = csn_timer_set(k->loop, &cmd->deadline_timer, csn_deadline_in_ms(spawn->timeout_ms),
                              on_deadline, cmd);
        if (e < 0)
            r = csn_fail_sys(err, e, "set the time-out");
    }
    if (r != CSN_OK) {
        free_command(cmd);
        return r;
    }
    csn_list_append(&k->commands, &cmd->link);
    k->n_running++;
    csn_watch_busy(k);
    return CSN_OK;
}

void csn_command_spawn(csn_client *client, csn_msg *msg)
{
    csn_spawn spawn;
    csn_error err;

    csn_msg_fixed(msg, &spawn, sizeof(spawn));
    int r = check_spawn(client->k, &spawn, msg->n_fds, &err);
    if (r == CSN_OK)
        r = spawn.kind == CSN_SPAWN_FILES ? spawn_files(client, &spawn, msg, &err)
                                          : spawn_command(client, &spawn, msg, &err);
    /* An early one, and nobody is there to run it: why is said in answer to the plan. */
    if (r != CSN_OK && (client->k->control_src || err.sys_errno != EPIPE))
        csn_reply_error(client, msg->head.seq, &err);
}

void csn_commands_begin(csn_keeper *k)
{
    csn_list_foreach (node, &k->commands) {
        csn_command *cmd = csn_list_entry(node, csn_command, link);
        cmd->start_ns = k->built_ns;
        cmd->state.started_ms = csn_wall_ms();
        cmd->disk_at_start = csn_disk_when_built(k);
        if (cmd->state.timeout_ms > 0 &&
            csn_timer_set(k->loop, &cmd->deadline_timer, csn_deadline_in_ms(cmd->state.timeout_ms),
                          on_deadline, cmd) < 0)
            csn_end_now(k, CSN_ENDED_LOST);
    }
}

/* --- signals ----------------------------------------------------------------------------------------------------- */

void csn_command_signal(csn_client *client, uint32_t seq, const csn_signal *sig)
{
    csn_command *cmd = csn_command_find(client->k, sig->process, true);
    csn_error err;

    if (!cmd) {
        (void) csn_fail(&err, CSN_E_NOT_FOUND, "there is no command %u", sig->process);
        csn_reply_error(client, seq, &err);
        return;
    }
    if (sig->signal < 1 || sig->signal > 64 || sig->ending > CSN_ENDED_LOST) {
        (void) csn_fail(&err, CSN_E_INVALID, "%d is not a signal", sig->signal);
        csn_reply_error(client, seq, &err);
        return;
    }
    if (!cmd->state.ended && sig->signal == SIGKILL && sig->whole_tree)
        csn_command_kill(cmd, (csn_ending) sig->ending);
    else if (!cmd->state.ended) {
        if (sig->ending && !cmd->reason)
            cmd->reason = (csn_ending) sig->ending;
        csn_link_kill(client->k, cmd->state.process, sig->signal, sig->whole_tree);
    }
    csn_reply_done(client, seq, 0);
}

/* --- ending ------------------------------------------------------------------------------------------------------ */

bool csn_command_is_told(const csn_command *cmd, int64_t log_offset, bool is_for_close)
{
    return (cmd->state.ended && !(is_for_close && csn_log_is_open(cmd))) ||
           (log_offset >= 0 && cmd->state.log_bytes > log_offset);
}

static void answer_waiters(csn_command *cmd)
{
    csn_list_foreach (c, &cmd->k->clients) {
        csn_client *client = csn_list_entry(c, csn_client, link);
        csn_list_foreach (node, &client->waiters) {
            csn_waiter *w = csn_list_entry(node, csn_waiter, link);
            if (w->process != cmd->state.process ||
                !csn_command_is_told(cmd, w->log_offset, w->is_for_close))
                continue;
            csn_reply(client, &(csn_out){ .type = CSN_FRAME_STATE,
                                          .seq = w->seq,
                                          .fixed = &cmd->state,
                                          .fixed_len = sizeof(cmd->state) });
            csn_list_remove(&w->link);
            client->n_waiters--;
            free(w);
        }
    }
}

void csn_command_log_grew(csn_command *cmd)
{
    answer_waiters(cmd);
}

bool csn_commands_forget_one(csn_keeper *k, const csn_command *except)
{
    csn_list_foreach (node, &k->ended) {
        csn_command *cmd = csn_list_entry(node, csn_command, link);
        if (cmd == except)
            continue;
        free_command(cmd);
        k->n_ended--;
        return true;
    }
    return false;
}

static void keep_ended(csn_command *cmd)
{
    csn_keeper *k = cmd->k;

    csn_list_append(&k->ended, &cmd->link);
    if (++k->n_ended > CSN_ENDED_MAX)
        (void) csn_commands_forget_one(k, cmd); /* there is one */
}

static void add_up(csn_command *cmd)
{
    csn_keeper *k = cmd->k;
    csn_process_state *s = &cmd->state;
    int64_t disk = csn_disk_used(k);

    s->wall_us = (csn_now_ns() - cmd->start_ns) / 1000;
    s->bytes_written = disk > cmd->disk_at_start ? disk - cmd->disk_at_start : 0;
    k->user_us += s->user_us;
    k->sys_us += s->sys_us;
    k->n_tasks += s->n_processes;
    if (s->peak_memory_bytes > k->peak_memory_bytes)
        k->peak_memory_bytes = s->peak_memory_bytes;
}

void csn_command_finish(csn_command *cmd, csn_ending ending, int exit_code, int sig)
{
    csn_keeper *k = cmd->k;
    bool is_last = cmd->state.flags & CSN_SPAWN_LAST;

    csn_timer_cancel(&cmd->deadline_timer);
    csn_timer_cancel(&cmd->kill_timer);
    csn_list_remove(&cmd->link);
    k->n_running--;
    if (cmd->reason == CSN_ENDED_DISK_FULL)
        k->disk_ended_ns = csn_now_ns();
    if (ending == CSN_ENDED_RUNNING) { /* it never began */
        free_command(cmd);
        return;
    }
    if (cmd->log)
        csn_log_drain(cmd);
    add_up(cmd);
    cmd->state.ended = ending;
    cmd->state.exit_code = exit_code;
    cmd->state.signal = sig;
    answer_waiters(cmd);
    if (cmd->owner)
        csn_reply(cmd->owner, &(csn_out){ .type = CSN_FRAME_EXITED,
                                          .seq = cmd->spawn_seq,
                                          .fixed = &cmd->state,
                                          .fixed_len = sizeof(cmd->state) });
    if (cmd->log)
        keep_ended(cmd);
    else
        free_command(cmd);
    csn_touch(k);
    if (is_last && !k->is_ending)
        csn_end_begin(k, CSN_ENDED_KILLED, -1, false);
}

void csn_commands_end_all(csn_keeper *k, csn_ending ending)
{
    csn_list *node;

    while ((node = csn_list_first(&k->commands))) {
        csn_command *cmd = csn_list_entry(node, csn_command, link);
        csn_error err;
        if (cmd->is_started) {
            csn_command_finish(cmd, cmd->reason ? cmd->reason : ending, -1, 0);
            continue;
        }
        (void) csn_fail(&err, CSN_E_LOST, "the sandbox ended before '%.100s' was started",
                        cmd->text);
        if (cmd->owner)
            csn_reply_error(cmd->owner, cmd->spawn_seq, &err);
        csn_command_finish(cmd, CSN_ENDED_RUNNING, 0, 0);
    }
}

void csn_commands_free_all(csn_keeper *k)
{
    csn_list *node;

    while ((node = csn_list_first(&k->ended)))
        free_command(csn_list_entry(node, csn_command, link));
}

/* R28: attached commands end with whoever reads them; background ones live on. */
void csn_commands_client_gone(csn_keeper *k, csn_client *client)
{
    csn_list_foreach (node, &k->commands) {
        csn_command *cmd = csn_list_entry(node, csn_command, link);
        if (cmd->owner != client)
            continue;
        cmd->owner = NULL;
        if (!cmd->log && !k->is_ending)
            csn_command_kill(cmd, CSN_ENDED_KILLED);
    }
    csn_list_foreach (node, &k->ended) {
        csn_command *cmd = csn_list_entry(node, csn_command, link);
        if (cmd->owner == client)
            cmd->owner = NULL;
    }
}
