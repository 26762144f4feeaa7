/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation. One caisson-keeper per sandbox, started by the client library with a SEQPACKET connection as
 * descriptor 3. The first frame is a plan; what happens then is its mode:
 *
 *   RUN     setup.c builds the sandbox (its child's half: inside.c), READY is answered, and the loop serves until the
 *           sandbox ends: by STOP, by its timers, by init's death, or, attached, by the end of the creator's connection.
 *           Then everything goes: init (and with it the PID namespace), cgroups, sockets, and files if it is deleted.
 *   COPY    copy.c copies upper layers into a layer.     REMOVE    remove.c removes a tree.
 *
 * A keeper that has to wait for its plan (a spare one) makes the namespaces meanwhile; nobody has run in them yet.
 *
 * It is one thread. It trusts its client (same user; checked), not init: link.c checks and clamps what comes from there,
 * and any frame that must not be ends the sandbox. It waits for nothing inside the loop but the loop. If it dies, the
 * kernel kills init (PDEATHSIG) and the lock on the box is gone, by which the next engine finds what to sweep. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "copy.h"
#include "init_image.h"
#include "inside.h"
#include "kern/missing.h"
#include "kern/spawn.h"
#include "remove.h"
#include "serve.h"
#include "setup.h"

enum { PATIENCE_MS = 2 };

char csn_frame_bytes[CSN_FRAME_MAX];

/* 0, 1 and 2 are somebody's, even if the starter left them closed: no descriptor of ours may land there. */
static int fill_stdio(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0) {
            int null = open("/dev/null", O_RDWR);
            if (null < 0)
                return -errno;
            if (null != fd) {
                (void) close(null); /* cannot be: the lowest free number is given */
                return -EBADF;
            }
        }
    return 0;
}

static void unset_all(csn_keeper *k)
{
    int *const fds[] = { &k->state_fd,    &k->place_fd,   &k->box_fd,        &k->lock_fd,
                         &k->logs_fd,     &k->listen_fd,  &k->init_image_fd, &k->control_fd,
                         &k->setup_fd,    &k->init_pidfd, &k->userns_fd,     &k->netns_fd,
                         &k->mntns_fd,    &k->disk_fd,    &k->proc_fd,       &k->netlink_fd,
                         &k->slirp_pidfd, &k->survey_fd,  &k->survey_pidfd };

    for (size_t i = 0; i < CSN_COUNT(fds); i++)
        *fds[i] = -1;
    csn_cgroup_init(&k->cgroup);
    csn_list_init(&k->clients);
    csn_list_init(&k->commands);
    csn_list_init(&k->ended);
}

/* As early as can be: the child has half a millisecond of work that needs nothing but itself. Where all controllers
 * are on v2 it is better born in its cgroup, which is not there yet. A failure here shows again, with its sentence, in
 * its step of the setup. */
static void clone_early(csn_keeper *k)
{
    struct statfs fs;

    if (k->is_cloned_early || statfs("/sys/fs/cgroup", &fs) < 0 || fs.f_type == CGROUP2_SUPER_MAGIC)
        return;
    k->is_cloned_early = csn_clone_inside(k, NULL) == CSN_OK;
}

/* While there is no plan yet: what every sandbox needs. */
static void prepare(csn_keeper *k)
{
    struct pollfd creator = { .fd = CSN_KEEPER_FD, .events = POLLIN };

    if (poll(&creator, 1, 0) != 0)
        return;
    clone_early(k);
    (void) csn_cgroups_look(k); /* tried again with the plan, like these two */
    if (csn_memfd_sealed("init", csn_init_image, csn_init_image_size, &k->init_image_fd) < 0)
        k->init_image_fd = -1;
    (void) csn_loop_new(&k->loop);
}

/* The plan's strings point into the message, which the next frame overwrites: they get bytes of their own. */
static int take_plan(csn_keeper *k, csn_msg *msg, csn_error *err)
{
    csn_unpack u;

    if (msg->head.type != CSN_FRAME_PLAN)
        return csn_fail(err, CSN_E_PROTOCOL, "the first frame must be a plan");
    if (msg->head.len > CSN_FRAME_MAX)
        return csn_fail(err, CSN_E_TOO_LARGE, "the plan has more than %d bytes", CSN_FRAME_MAX);
    k->plan_bytes = csn_malloc(msg->head.len + 1);
    if (!k->plan_bytes)
        return csn_fail_sys(err, -ENOMEM, "keep the plan");
    memcpy(k->plan_bytes, msg->body, msg->head.len);
    k->plan_len = msg->head.len;
    u = (csn_unpack){ .data = k->plan_bytes, .len = k->plan_len };
    if (csn_plan_unpack(&u, &k->plan) < 0)
        return csn_fail(err, CSN_E_PROTOCOL, "the plan can't be read");
    return CSN_OK;
}

static int take_init_image(csn_keeper *k, csn_msg *msg, csn_error *err)
{
    int fd = csn_msg_take_fd(msg, 0), r;

    if (fd >= 0) {
        csn_close(&k->init_image_fd);
        k->init_image_fd = fd;
        r = csn_memfd_check_sealed(fd);
        return r < 0 ? csn_fail_sys(err, r, "check the image of init") : CSN_OK;
    }
    if (k->init_image_fd >= 0)
        return CSN_OK;
    r = csn_memfd_sealed("init", csn_init_image, csn_init_image_size, &k->init_image_fd);
    return r < 0 ? csn_fail_sys(err, r, "make the image of init") : CSN_OK;
}

static void send_ready(csn_keeper *k, csn_client *creator, uint32_t seq)
{
    csn_box_state state;

    csn_box_state_fill(k, &state);
    csn_reply(creator, &(csn_out){ .type = CSN_FRAME_READY,
                                   .seq = seq,
                                   .fixed = &state,
                                   .fixed_len = sizeof(state) });
}

/* The loop and what hangs in it. Made before the sandbox: what fails here needs no undoing. */
static int open_service(csn_keeper *k, csn_client **ret_creator, csn_error *err)
{
    int r = k->loop ? 0 : csn_loop_new(&k->loop);

    if (r == 0)
        r = csn_client_add(k, CSN_KEEPER_FD, true, ret_creator);
    return r < 0 ? csn_fail_sys(err, r, "start the event loop") : CSN_OK;
}

static int run_sandbox(csn_keeper *k, csn_msg *msg, csn_error *err)
{
    csn_client *creator = NULL;
    int r = take_init_image(k, msg, err);

    if (r == CSN_OK)
        r = open_service(k, &creator, err);
    if (r == CSN_OK)
        r = csn_setup_run(k, err);
    if (r != CSN_OK)
        return r;
    r = csn_link_open(k);
    if (r < 0) {
        csn_setup_undo(k);
        return csn_fail_sys(err, r, "listen to init");
    }
    k->started_ns = k->last_use_ns = csn_now_ns();
    k->started_ms = csn_wall_ms();
    csn_commands_begin(k);
    csn_fault_arm(0); /* fault_at counts the points of the start */
    send_ready(k, creator, msg->head.seq);
    csn_timers_set(k);
    csn_watch_start(k);
    (void) csn_loop_run(k->loop); /* whatever ended it, the sandbox goes */
    csn_end_finish(k);
    return CSN_OK;
}

/* Built ahead, beside the end of the one before: that one first. */
static void be_patient(const csn_keeper *k)
{
    struct pollfd creator = { .fd = CSN_KEEPER_FD, .events = POLLIN };

    if (k->plan.flags & CSN_PLAN_PATIENT)
        (void) poll(&creator, 1, PATIENCE_MS); /* whatever happens, we go on */
}

static int run_plan(csn_keeper *k, csn_msg *msg, csn_error *err)
{
    int r = take_plan(k, msg, err);

    if (r != CSN_OK)
        return r;
    csn_fault_arm(
        k->plan.fault_at > 0 && k->plan.fault_at <= CSN_FAULT_INSIDE ? (long) k->plan.fault_at : 0);
    if (k->plan.mode == CSN_PLAN_RUN) {
        be_patient(k);
        clone_early(k);
        if (k->is_cloned_early)
            (void) csn_forward_plan(k); /* at once: it wakes while we map. Dead: seen soon */
        return run_sandbox(k, msg, err);
    }
    if (k->is_cloned_early)
        csn_setup_undo(k);
    r = k->plan.mode == CSN_PLAN_COPY ? csn_copy_run(k, msg, err) : csn_remove_run(k, err);
    if (r == CSN_OK) {
        const csn_box_state nothing = { .keeper_pid = getpid() };
        (void) csn_frame_send(CSN_KEEPER_FD, &(csn_out){ .type = CSN_FRAME_READY,
                                                         .seq = msg->head.seq,
                                                         .fixed = &nothing,
                                                         .fixed_len = sizeof(nothing) });
    }
    return r;
}

int main(void)
{
    static csn_keeper keeper;
    csn_auto(msg) csn_msg msg = CSN_MSG_INIT;
    csn_error err = { 0, 0, "" };
    int r;

    unset_all(&keeper);
    (void) umask(022);               /* never fails; what is private says so by its own mode */
    (void) signal(SIGPIPE, SIG_IGN); /* a gone reader is an errno */
    (void) signal(SIGXFSZ,
                  SIG_IGN); /* a file beyond the caller's ulimit -f as well; init sets both back */
    if (fill_stdio() < 0 || csn_fd_cloexec(CSN_KEEPER_FD, true) < 0)
        return 1;
    prepare(&keeper);
    r = csn_frame_recv(CSN_KEEPER_FD, csn_frame_bytes, sizeof(csn_frame_bytes), CSN_SAID_BY_CLIENT,
                       0, &msg);
    if (r <= 0) { /* a spare that is not needed after all */
        csn_setup_undo(&keeper);
        return r < 0;
    }
    r = run_plan(&keeper, &msg, &err);
    if (r != CSN_OK) {
        csn_setup_undo(&keeper);
        if (!keeper.is_creator_gone) /* else the number may be another's by now */
            csn_frame_error(CSN_KEEPER_FD, msg.head.seq, &err);
    }
    return r != CSN_OK;
}
