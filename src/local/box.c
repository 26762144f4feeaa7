/* One sandbox as this engine knows it: found on disk, connected, kept true. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "local/local.h"

enum { HELLO_WAIT_MS = 5000 };

static void on_event(csn_conn *conn, csn_msg *msg)
{
    csn_local_box *box = csn_container_of(conn, csn_local_box, conn);
    csn_process_state state;

    if (msg->head.type != CSN_FRAME_EXITED)
        return; /* the late answer of a request that was given up */
    csn_msg_fixed(msg, &state, sizeof(state));
    csn_local_exec_exited(box, &state);
}

static void on_lost(csn_conn *conn)
{
    csn_local_box_lost(csn_container_of(conn, csn_local_box, conn));
}

csn_local_box *csn_local_box_new(csn_local *local, csn_error *err)
{
    csn_local_box *box = csn_calloc(1, sizeof(*box));

    if (!box) {
        csn_fail(err, CSN_E_NO_MEMORY, "make a sandbox");
        return NULL;
    }
    box->base = (csn_box){ .ops = local->base.ops,
                           .backend = &local->base,
                           .wish = { .id_index = -1 },
                           .state = CSN_STATE_CREATING,
                           .n_refs = 1 };
    box->dir_fd = box->lease_fd = box->leaving.pidfd = -1;
    csn_list_init(&box->execs);
    csn_list_init(&box->gate);
    csn_conn_init(&box->conn, local->base.loop, &local->frame_buffer);
    box->conn.on_event = on_event;
    box->conn.on_lost = on_lost;
    csn_list_append(&local->boxes, &box->link);
    return box;
}

void csn_local_box_free(csn_box *base)
{
    csn_local_box *box = csn_local_box_of(base);

    csn_conn_close(&box->conn);
    csn_list_remove(&box->hello.link);
    csn_timer_cancel(&box->hello_timer);
    csn_timer_cancel(&box->gate_timer);
    if (base->backend)
        csn_orphan_add(csn_local_of(base), box->child, false);
    csn_list_remove(&box->link);
    csn_close(&box->dir_fd); /* and with it the lock, if we had it */
    csn_close(&box->lease_fd);
    csn_close(&box->leaving.pidfd);
    csn_wish_done(&box->base.wish);
    free(box);
}

csn_local_box *csn_local_box_known(csn_local *local, const char *id)
{
    csn_list_foreach (node, &local->boxes) {
        csn_local_box *box = csn_list_entry(node, csn_local_box, link);
        if (strcmp(box->base.wish.id, id) == 0 && box->base.state != CSN_STATE_DELETED)
            return box;
    }
    return NULL;
}

void csn_local_box_facts(csn_local_box *box, const csn_box_state *state)
{
    box->base.keeper_pid = state->keeper_pid;
    box->base.init_pid = state->init_pid;
    box->base.facts = (csn_receipt){
        .ended = (csn_ending) state->ended,
        .exit_code = -1,
        .wall_us = state->wall_us > box->waited_us ? state->wall_us - box->waited_us : 0,
        .user_us = state->user_us,
        .sys_us = state->sys_us,
        .peak_memory_bytes = state->peak_memory_bytes,
        .bytes_written = state->disk_bytes,
        .n_processes = state->n_processes_total,
        .stdout_bytes = state->stdout_bytes,
        .stderr_bytes = state->stderr_bytes,
        .walls = state->walls,
        .walls_missing = state->walls_missing,
        .limits_kernel = state->limits_kernel,
        .rung = (csn_rung) state->rung,
        .disk_rung = (csn_disk_rung) state->disk_rung,
        .memory_limit_bytes = state->memory_limit_bytes,
        .cpu_limit_milli = state->cpu_limit_milli,
        .pids_limit = state->pids_limit,
        .disk_limit_bytes = state->disk_limit_bytes,
        .timeout_ms = box->base.wish.timeout_ms,
        .output_limit_bytes = box->base.wish.output_bytes,
        .shares_host_uid = state->shares_host_uid != 0,
        .cpu_rung = (csn_cpu_rung) state->cpu_rung,
        .cpu_asked_milli = state->cpu_asked_milli,
    };
}

static int dial(csn_local_box *box, int *ret_fd)
{
    csn_auto(fd) int fd = -1;
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int r;

    if ((r = csn_fault_as("socket", EMFILE)) < 0)
        return r;
    /* Not blocking: the keeper's line of clients may be full. */
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* By descriptor: the path may be longer than the 108 bytes there are, and may have been renamed. */
    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/sock", box->dir_fd);
    if (connect(fd, (struct sockaddr *) &addr, sizeof(addr)) < 0)
        return -errno;
    *ret_fd = csn_take_fd(&fd);
    return 0;
}

int csn_local_box_lend(csn_box *base, int *ret_fd, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);
    int r = csn_local_box_need(box, "lend it", err);

    if (r < 0)
        return r;
    r = dial(box, ret_fd);
    return r < 0 ? csn_fail(err, CSN_E_STATE,
                            "lend sandbox '%s': its keeper has no door (create it detached)",
                            base->wish.id)
                 : CSN_OK;
}

/* Nobody answers: is it being made, stopped, a left-over, or attached to somebody else's engine and without a door? */
static csn_state state_without_keeper(csn_local_box *box)
{
    const csn_wish *wish = &box->base.wish;
    bool has_keeper;

    if (csn_box_is_removed(box->dir_fd))
        return CSN_STATE_DELETED;
    if (wish->phase == CSN_PHASE_DELETING)
        return CSN_STATE_DELETING;
    if (box->is_locked)
        return CSN_STATE_STOPPED;
    if (flock(box->dir_fd, LOCK_SH | LOCK_NB) < 0)
        return CSN_STATE_CREATING;
    has_keeper = csn_box_has_keeper(box->dir_fd);
    csn_box_unlock(box->dir_fd);
    if (has_keeper) {
        box->base.keeper_pid = csn_box_keeper_pid(box->dir_fd);
        return CSN_STATE_STARTED;
    }
    return wish->is_ephemeral || wish->phase == CSN_PHASE_CREATING ||
                   csn_lease_of(box->dir_fd) == CSN_LEASE_GONE
               ? CSN_STATE_DELETED
               : CSN_STATE_STOPPED;
}

/* ---- the first question to a keeper ---- */

static void end_hello(csn_local_box *box)
{
    csn_timer_cancel(&box->hello_timer);
    csn_gate_open(box);
}

static bool on_hello(csn_request *req, csn_msg *msg)
{
    csn_local_box *box = csn_container_of(req, csn_local_box, hello);
    csn_box_state state;

    if (msg && msg->head.type == CSN_FRAME_STATE && msg->head.len == sizeof(state)) {
        csn_msg_fixed(msg, &state, sizeof(state));
        csn_local_box_facts(box, &state);
    } else if (!msg && box->base.state != CSN_STATE_DELETED) {
        box->base.state = state_without_keeper(box);
    }
    end_hello(box);
    return true;
}

/* It is slow. Whoever waits goes on with what is known; the answer is taken when it comes. */
static void on_hello_late(csn_timer *timer, void *user)
{
    (void) timer;
    csn_gate_open(user);
}

/* Keepers answer in order: what they are asked next is answered when the facts are known. */
static int ask_hello(csn_local_box *box)
{
    csn_out out = { .type = CSN_FRAME_STAT };
    int r = csn_timer_set(box->conn.loop, &box->hello_timer, csn_deadline_in_ms(HELLO_WAIT_MS),
                          on_hello_late, box);

    if (r == 0)
        r = csn_conn_ask(&box->conn, &out, &box->hello, on_hello);
    if (r < 0)
        csn_timer_cancel(&box->hello_timer);
    return r;
}

int csn_local_box_connect(csn_local_box *box)
{
    csn_auto(fd) int fd = -1;
    int r;

    if (csn_conn_is_open(&box->conn))
        return 0;
    if ((r = dial(box, &fd)) < 0)
        return r;
    r = csn_conn_open(&box->conn, fd);
    if (r < 0)
        return r;
    (void) csn_take_fd(&fd);           /* the connection's now */
    csn_list_remove(&box->hello.link); /* of an earlier connection */
    if ((r = ask_hello(box)) < 0) {
        csn_conn_close(&box->conn);
        return r;
    }
    box->base.state = CSN_STATE_STARTED;
    return 0;
}

static int reread(csn_local_box *box, csn_error *err)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    int r = csn_record_read(box->dir_fd, &wish, err);

    if (r < 0)
        return r;
    csn_wish old = box->base.wish;
    box->base.wish = wish;
    wish = old;
    return CSN_OK;
}

int csn_local_box_refresh(csn_box *base, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);
    int r;

    if (base->state == CSN_STATE_DELETED || box->is_busy)
        return CSN_OK;
    csn_box_ref(base);
    if (csn_conn_is_open(&box->conn))
        csn_conn_poll(&box->conn);
    r = base->state == CSN_STATE_DELETED ? CSN_OK : reread(box, err);
    /* Its record goes first, then its directory, its name and its ids; then the keeper hangs up. */
    if (r == CSN_E_NOT_FOUND) {
        base->state = csn_box_is_removed(box->dir_fd) && !csn_conn_is_open(&box->conn)
                          ? CSN_STATE_DELETED
                          : CSN_STATE_DELETING;
        r = CSN_OK;
    } else if (r >= 0 && base->state != CSN_STATE_DELETED && !csn_conn_is_open(&box->conn) &&
               csn_box_is_settled(box) && csn_local_box_connect(box) < 0) {
        base->state = state_without_keeper(box);
    }
    if (r >= 0)
        r = CSN_OK;
    if (base->state == CSN_STATE_DELETED && box->lease_fd >= 0)
        csn_lease_drop(box); /* somebody else deleted it */
    csn_box_unref(base);
    return r;
}

int csn_local_box_load(csn_local *local, const char *id, csn_local_box **ret_box, csn_error *err)
{
    csn_local_box *box = csn_local_box_new(local, err);
    int r;

    if (!box)
        return CSN_E_NO_MEMORY;
    box->dir_fd = csn_claim_open(local, id);
    if (box->dir_fd < 0)
        r = box->dir_fd == -ENOENT ? csn_fail(err, CSN_E_NOT_FOUND, "no sandbox '%s'", id)
                                   : csn_fail_sys(err, box->dir_fd, "open sandbox '%s'", id);
    else
        r = reread(box, err);
    if (r >= 0)
        r = csn_local_box_refresh(&box->base, err);
    if (r >= 0 && box->base.state == CSN_STATE_DELETED)
        r = csn_fail(err, CSN_E_NOT_FOUND, "no sandbox '%s'", id);
    if (r < 0) {
        csn_box_unref(&box->base);
        return r;
    }
    *ret_box = box;
    return CSN_OK;
}

int csn_local_box_need(csn_local_box *box, const char *verb, csn_error *err)
{
    if (box->is_busy)
        return csn_fail(err, CSN_E_STATE, "%s: sandbox '%s' is not yet started", verb,
                        box->base.wish.id);
    if (box->failure.code)
        return err ? (*err = box->failure).code : box->failure.code;
    if (!csn_conn_is_open(&box->conn) && box->base.state != CSN_STATE_DELETED && box->dir_fd >= 0) {
        int r = csn_local_box_refresh(&box->base, err);
        if (r < 0)
            return r;
    }
    if (csn_conn_is_open(&box->conn))
        return CSN_OK;
    if (!csn_box_is_settled(box))
        return csn_fail(err, CSN_E_STATE, "%s: sandbox '%s' is ending", verb, box->base.wish.id);
    if (box->base.state == CSN_STATE_STARTED)
        return csn_fail(err, CSN_E_STATE, "%s: sandbox '%s' is attached to another program", verb,
                        box->base.wish.id);
    return csn_fail(err, CSN_E_STATE, "%s: sandbox '%s' is %s", verb, box->base.wish.id,
                    csn_state_name(box->base.state));
}

static int refresh(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    int r = csn_local_box_refresh(&box->base, err);

    (void) verb;
    if (r < 0)
        return r;
    return csn_box_is_settled(box) ? csn_op_end_later(op, err) : CSN_GATE_WAIT;
}

int csn_local_refresh(csn_box *box, csn_op *op, csn_error *err)
{
    return csn_gate_enter(csn_local_box_of(box), &(csn_gated){ .run = refresh }, op, err);
}
