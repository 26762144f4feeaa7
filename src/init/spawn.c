/* SPDX-License-Identifier: Apache-2.0 */
/* Init's side of a spawn: a slot, a fork, and back to the loop. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init.h"
#include "init/sys.h"

csn_slot *csn_slot_of_process(uint32_t process)
{
    for (size_t i = 0; process != 0 && i < csn_n_slots; i++)
        if (csn_slots[i].process == process && atomic_load(&csn_slots[i].said) != CSN_SAID_END)
            return &csn_slots[i];
    return NULL;
}

csn_slot *csn_slot_of_shepherd(pid_t pid)
{
    for (size_t i = 0; i < csn_n_slots; i++)
        if (csn_slots[i].process != 0 && csn_slots[i].shepherd == pid)
            return &csn_slots[i];
    return NULL;
}

void csn_slot_free(csn_slot *slot)
{
    memset(slot, 0, sizeof(*slot)); /* its shepherd is gone: nobody else looks */
}

static csn_slot *claim_slot(uint32_t process)
{
    size_t i = 0;

    while (i < csn_n_slots && csn_slots[i].process != 0)
        i++;
    if (i == CSN_PROCESS_MAX)
        return NULL;
    if (i == csn_n_slots)
        csn_n_slots++;
    csn_slots[i].process = process;
    return &csn_slots[i];
}

int csn_is_worker(pid_t pid)
{
    for (size_t i = 0; i < CSN_WORKERS_MAX; i++)
        if (csn_workers[i] == pid)
            return 1;
    return 0;
}

void csn_worker_forget(pid_t pid)
{
    for (size_t i = 0; i < CSN_WORKERS_MAX; i++)
        if (csn_workers[i] == pid)
            csn_workers[i] = 0;
}

/* The first command, and the last: nothing else ever runs here. */
static int is_alone(const csn_init_spawn *request)
{
    return (request->flags & (CSN_SPAWN_LAST | CSN_SPAWN_PTY)) == CSN_SPAWN_LAST &&
           request->process == 1 && csn_n_slots == 1;
}

static void spawn_command(const csn_init_spawn *request, csn_msg *msg)
{
    csn_slot *slot;
    pid_t pid;

    if (request->process == 0 || csn_slot_of_process(request->process)) {
        csn_say_failed(request->process, CSN_STAGE_SPEC, EINVAL);
        return;
    }
    slot = claim_slot(request->process);
    if (!slot) {
        csn_say_failed(request->process, CSN_STAGE_FORK, EAGAIN);
        return;
    }
    if (is_alone(request)) {
        if (csn_start_alone(slot, request, msg) < 0)
            csn_slot_free(slot);
        return;
    }
    pid = csn_sys_fork();
    if (pid == 0)
        csn_shepherd_run(slot, request, msg);
    if (pid < 0) {
        csn_slot_free(slot);
        csn_say_failed(request->process, CSN_STAGE_FORK, -pid);
        return;
    }
    slot->shepherd = pid;
    slot->first_pid = pid;
    slot->born_ms = csn_sys_now_ms();
}

/* The client waits at the other end of the channel: tell it, if there is room, why nobody comes. */
static void refuse_work(csn_msg *msg, int error)
{
    csn_file_done done = { .sys_errno = error };

    if (msg->n_fds > 0)
        (void) csn_frame_send(msg->fds[0], &(csn_out){ .type = CSN_FRAME_FILE_DONE,
                                                       .fixed = &done,
                                                       .fixed_len = sizeof(done),
                                                       .flags = MSG_DONTWAIT });
}

static void spawn_worker(const csn_init_spawn *request, csn_msg *msg)
{
    size_t i = 0;
    pid_t pid;

    while (i < CSN_WORKERS_MAX && csn_workers[i] != 0)
        i++;
    if (i == CSN_WORKERS_MAX || msg->n_fds != 1) {
        refuse_work(msg, msg->n_fds == 1 ? EAGAIN : EINVAL);
        return;
    }
    pid = csn_sys_fork();
    if (pid == 0)
        csn_worker_run(request, msg);
    if (pid < 0)
        refuse_work(msg, -pid);
    else
        csn_workers[i] = pid;
}

void csn_init_spawn_request(csn_msg *msg)
{
    csn_init_spawn request;

    csn_msg_fixed(msg, &request, sizeof(request));
    if (request.kind == CSN_SPAWN_FILES)
        spawn_worker(&request, msg);
    else if (request.kind == CSN_SPAWN_EXEC)
        spawn_command(&request, msg);
    else
        csn_say_failed(request.process, CSN_STAGE_SPEC, EINVAL);
}
