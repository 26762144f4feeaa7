/* From a wish to a running sandbox, and from a stopped one to a running one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "image/hostbase.h"
#include "image/image.h"
#include "local/helper.h"
#include "local/local.h"

enum { READY_WAIT_MS = 60 * 1000 };

/* A create or a start under way. */
typedef struct launch {
    csn_request req;
    csn_local_box *box; /* counted */
    bool is_new;
    csn_timer timer;
    csn_box_done_fn *done_box; /* of a create */
    void *user;
    csn_op *op;    /* of a start */
    csn_error err; /* of one that failed, until its keeper is gone */
} launch;

static void let_go_of_dir(csn_local_box *box)
{
    if (box->is_locked)
        csn_box_unlock(box->dir_fd);
    box->is_locked = false;
}

/* Nothing of a create that failed may remain. */
static void undo_create(csn_local_box *box)
{
    csn_local *local = csn_local_of(&box->base);

    if (box->is_locked) {
        box->base.wish.phase = CSN_PHASE_CREATING;
        (void) csn_box_remove(local, &box->base.wish, box->dir_fd, NULL); /* else the sweep does */
    }
    let_go_of_dir(box);
    box->base.state = CSN_STATE_DELETED;
}

static void finish_launch(launch *l, int result, const csn_error *err)
{
    csn_local_box *box = l->box;
    launch done = *l;

    csn_timer_cancel(&l->timer);
    free(l);
    box->is_busy = box->is_early = false;
    let_go_of_dir(box);
    if (done.is_new) {
        done.done_box(result < 0 ? NULL : csn_box_ref(&box->base), result, err, done.user);
    } else {
        csn_op_end(done.op, result, err);
    }
    csn_gate_open(box);
    csn_box_unref(&box->base);
}

/* What was made is taken back when nobody works on it any more. */
static void end_failed(bool is_alive, void *user)
{
    launch *l = user;
    csn_local_box *box = l->box;
    csn_error err = l->err;

    (void) is_alive; /* it isn't spared */
    box->child = 0;
    if (l->is_new)
        undo_create(box);
    else
        box->base.state = CSN_STATE_STOPPED;
    if (box->is_early) {
        box->failure = err;
        csn_conn_fail_all(&box->conn);
    }
    finish_launch(l, err.code, &err);
}

static void fail_launch(launch *l, const csn_error *err)
{
    csn_local_box *box = l->box;

    l->err = *err;
    csn_timer_cancel(&l->timer);
    csn_conn_close(&box->conn);
    box->leaving.pid = box->child;
    box->leaving.is_spared = false;
    csn_leaving_begin(&box->leaving, csn_local_of(&box->base)->base.loop, end_failed, l);
}

static bool on_ready(csn_request *req, csn_msg *msg)
{
    launch *l = csn_container_of(req, launch, req);
    csn_local_box *box = l->box;
    csn_error err = { 0 };
    csn_box_state state;
    int r = csn_msg_result(msg, CSN_FRAME_READY, &err);

    if (r >= 0) {
        csn_msg_fixed(msg, &state, sizeof(state));
        csn_local_box_facts(box, &state);
        if (box->base.wish.phase == CSN_PHASE_CREATING) {
            box->base.wish.phase = CSN_PHASE_KEPT;
            r = csn_record_write(box->dir_fd, &box->base.wish, true, &err);
        }
    }
    if (r < 0) {
        fail_launch(l, &err);
        return true;
    }
    box->base.state = CSN_STATE_STARTED;
    csn_keeper_stock_later(csn_local_of(&box->base));
    if (!box->base.wish.is_detached && !box->has_lease) {
        box->has_lease = true;
        csn_box_ref(&box->base);
    }
    finish_launch(l, CSN_OK, NULL);
    return true;
}

static void on_late(csn_timer *timer, void *user)
{
    launch *l = user;
    csn_error err = { 0 };

    (void) timer;
    if (!csn_box_is_settled(l->box)) /* late as well as lost: on_ready() hears of that */
        return;
    csn_list_remove(&l->req.link);
    csn_fail(&err, CSN_E_TIMEOUT, "the sandbox was not ready within %d s", READY_WAIT_MS / 1000);
    fail_launch(l, &err);
}

/* Gives a keeper the plan. */
static int hand_over(launch *l, csn_error *err)
{
    csn_local_box *box = l->box;
    csn_local *local = csn_local_of(&box->base);
    csn_keeper keeper = { .fd = -1 };
    csn_plan plan;
    int r = csn_keeper_take(local, &keeper, err);

    if (r < 0)
        return r;
    r = csn_conn_open(&box->conn, keeper.fd);
    if (r < 0) {
        csn_keeper_end(local, &keeper);
        return csn_fail_sys(err, r, "talk to the keeper");
    }
    box->child = keeper.pid;
    csn_plan_of(local, &box->base.wish, CSN_PLAN_RUN, &plan);
    if (local->standby.is_hasty)
        plan.flags &= ~(uint32_t) CSN_PLAN_PATIENT;
    r = csn_timer_set(local->base.loop, &l->timer, csn_deadline_in_ms(READY_WAIT_MS), on_late, l);
    if (r == 0)
        r = csn_plan_ask(&box->conn, &plan, NULL, 0, &l->req, on_ready);
    if (r < 0) { /* it has no plan: it exits */
        csn_timer_cancel(&l->timer);
        csn_conn_close(&box->conn);
        csn_orphan_add(local, box->child, true);
        box->child = 0;
        return csn_fail_sys(err, r, "send the plan to the keeper");
    }
    box->is_busy = true;
    local->n_created++;
    return CSN_OK;
}

/* Said here by name, before anything exists; one that goes meanwhile is the keeper's to report. */
typedef int find_image_fn(int state_fd, const char *name, csn_image_ref *ret, csn_error *err);

static int check_volumes(const csn_local *local, const csn_wish *wish, csn_error *err)
{
    char path[96];

    for (size_t i = 0; i < wish->n_mounts; i++) {
        (void) snprintf(path, sizeof(path), "volumes/%s/data", wish->mounts[i].volume); /* fits */
        if (faccessat(local->state_fd, path, F_OK, 0) < 0)
            return csn_fail_sys(err, -errno, "open volume '%s'", wish->mounts[i].volume);
        (void) snprintf(path, sizeof(path), "volumes/%s/data.img",
                        wish->mounts[i].volume); /* fits */
        if (!local->is_privileged &&
            faccessat(local->state_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return csn_fail(
                err, CSN_E_UNSUPPORTED,
                "volume '%s' is a file system in a file, which only the machine's root can mount",
                wish->mounts[i].volume);
    }
    return CSN_OK;
}

/* `find`: csn_image_resolve() or csn_image_find(), whose 1 is then the answer. */
static int take_image(csn_local *local, csn_wish *wish, find_image_fn *find, csn_error *err)
{
    csn_auto(image_ref) csn_image_ref ref = CSN_IMAGE_REF_INIT;
    int r;

    r = check_volumes(local, wish, err);
    if (r < 0 || wish->layers) /* a fork: its layers are known */
        return r;
    r = find(local->state_fd, wish->image, &ref, err);
    if (r != CSN_OK)
        return r;
    wish->layers = csn_calloc(ref.n_layers + 1, sizeof(*wish->layers));
    for (uint32_t i = 0; wish->layers && i < ref.n_layers; i++)
        if (!(wish->layers[i] = csn_strdup(ref.layers[i])))
            return csn_fail(err, CSN_E_NO_MEMORY, "note the layers of image '%s'", wish->image);
    wish->image_env = csn_list_copy((const char *const *) ref.env);
    if (!wish->layers || !wish->image_env)
        return csn_fail(err, CSN_E_NO_MEMORY, "note the layers of image '%s'", wish->image);
    wish->is_host_based = ref.is_host_based != 0;
    if (!wish->cwd[0] && ref.cwd && ref.cwd[0] == '/') {
        free(wish->cwd);
        wish->cwd = ref.cwd;
        ref.cwd = NULL;
    }
    return CSN_OK;
}

/* Everything that must exist before the keeper: directory, name, id range, record. */
static int claim_all(csn_local_box *box, csn_error *err)
{
    csn_local *local = csn_local_of(&box->base);
    csn_wish *wish = &box->base.wish;
    int r = csn_claim_box(local, wish, &box->dir_fd, err);

    if (r < 0)
        return r;
    box->is_locked = true;
    wish->created_ms = csn_wall_ms();
    if (wish->phase != CSN_PHASE_STANDBY)
        wish->phase = wish->is_ephemeral ? CSN_PHASE_KEPT : CSN_PHASE_CREATING;
    if (wish->name[0] && (r = csn_claim_name(local, wish->name, wish->id, err)) < 0)
        return r;
    if (local->is_privileged && (r = csn_claim_range(local, wish, err)) < 0)
        return r;
    if (!wish->is_detached && !wish->is_ephemeral && (r = csn_lease_claim(box, err)) < 0)
        return r;
    return csn_record_write(box->dir_fd, wish, false, err);
}

/* The layers are held from before the image is looked up until the record names them, so no sweep takes them away. */
static int prepare(csn_local_box *box, csn_error *err)
{
    csn_local *local = csn_local_of(&box->base);
    csn_auto(fd) int hold = -1;
    int r = csn_layers_hold(local->state_fd, &hold, err);

    if (r >= 0)
        r = take_image(local, &box->base.wish, csn_image_resolve, err);
    if (r >= 0)
        r = claim_all(box, err);
    return r;
}

csn_local_box *csn_local_launch_box(csn_local *local, csn_wish *wish, csn_box_done_fn *done,
                                    void *user, csn_error *err)
{
    launch *l = csn_calloc(1, sizeof(*l));
    csn_local_box *box = csn_local_box_new(local, err);
    int r;

    if (!l || !box) {
        free(l);
        if (box)
            csn_box_unref(&box->base);
        csn_fail(err, CSN_E_NO_MEMORY, "create a sandbox");
        return NULL;
    }
    box->base.wish = *wish;
    *wish = (csn_wish){ .id_index = -1 };
    *l = (launch){ .box = box, .is_new = true, .done_box = done, .user = user };
    r = prepare(box, err);
    if (r >= 0)
        r = hand_over(l, err);
    if (r < 0) {
        undo_create(box);
        free(l);
        csn_box_unref(&box->base);
        csn_fail_in(err, csn_state_blame(local, r, err), "create a sandbox");
        return NULL;
    }
    return box;
}

/* Takes a reference of the box. */
static int hand_out(csn_local_box *box, csn_op *op, csn_error *err)
{
    int r = csn_op_end_box_later(op, &box->base, err);

    if (r < 0)
        csn_box_unref(&box->base);
    return r;
}

static int hand_out_ready(csn_local *local, csn_local_box *box, csn_op *op, csn_error *err)
{
    int r = hand_out(box, op, err); /* if not, the lease ends it with the engine */

    if (r < 0)
        return r;
    local->n_created++;
    csn_keeper_stock_later(local);
    return CSN_OK;
}

/* Whoever has it learns of a failure by the first thing he asks. */
static void on_built(csn_box *box, int result, const csn_error *err, void *user)
{
    (void) result;
    (void) err;
    (void) user;
    if (box)
        csn_box_unref(box);
}

static int launch_early(csn_local *local, csn_wish *wish, csn_op *op, csn_error *err)
{
    csn_error own = { 0 };
    csn_local_box *box = csn_local_launch_box(local, wish, on_built, NULL, &own);
    int r;

    if (!box) {
        if (err)
            *err = own;
        return own.code;
    }
    box->is_early = true;
    csn_box_ref(&box->base);
    r = hand_out(box, op, err);
    if (r < 0) {
        box->is_deleting = true;
        csn_local_box_lost(box);
    }
    return r;
}

/* Its keeper is hung up on: on_ready() hears of that, and undoes what was made. */
static void give_up_launch(csn_op *op)
{
    csn_local_box *box = op->request;

    box->is_deleting = true;
    csn_local_box_lost(box);
}

int csn_local_launch(csn_local *local, csn_wish *wish, csn_op *op, csn_error *err)
{
    csn_error own = { 0 };
    csn_local_box *box = csn_local_launch_box(local, wish, csn_op_end_box, op, &own);

    if (!box) {
        if (err)
            *err = own;
        return own.code;
    }
    op->give_up = give_up_launch;
    op->request = box;
    return CSN_OK;
}

/* A create that waits until the machine's base layer is made: that takes a while when the machine has changed. */
typedef struct base_waiter {
    csn_work work;
    csn_local *local;
    csn_op *op; /* NULL: given up */
    csn_wish wish;
    int state_fd; /* of its own */
    int result;
    csn_error err;
} base_waiter;

static int create(csn_local *local, csn_wish *wish, find_image_fn *find, csn_op *op,
                  csn_error *err);

static void free_base_waiter(base_waiter *w)
{
    csn_wish_done(&w->wish);
    csn_close(&w->state_fd);
    free(w);
}

static void make_base(csn_work *work)
{
    base_waiter *w = csn_container_of(work, base_waiter, work);
    char layer[65];

    w->result = csn_hostbase_prepare(w->state_fd, layer, &w->err);
}

static void on_base(csn_work *work)
{
    base_waiter *w = csn_container_of(work, base_waiter, work);
    csn_op *op = w->op;
    int r = w->result;

    if (op) {
        op->give_up = NULL;
        if (r >= 0)
            r = create(w->local, &w->wish, csn_image_resolve, op, &w->err);
        else
            r = csn_fail_in(&w->err, csn_state_blame(w->local, r, &w->err), "create a sandbox");
        if (r < 0)
            csn_op_end(op, r, &w->err);
    }
    free_base_waiter(w);
}

static void give_up_base(csn_op *op)
{
    ((base_waiter *) op->request)->op =
        NULL; /* the layer is made all the same: the next create wants it */
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

static int await_base(csn_local *local, csn_wish *wish, csn_op *op, csn_error *err)
{
    base_waiter *w = csn_calloc(1, sizeof(*w));
    int r;

    if (!w)
        return csn_fail(err, CSN_E_NO_MEMORY, "create a sandbox");
    *w = (base_waiter){ .local = local, .op = op, .wish = *wish };
    *wish = (csn_wish){ .id_index = -1 };
    w->state_fd = csn_fd_dup(local->state_fd, 3);
    r = w->state_fd < 0 ? w->state_fd
                        : csn_work_start(local->workers, &w->work, make_base, on_base);
    if (r < 0) {
        free_base_waiter(w);
        return csn_fail_sys(err, r, "create a sandbox");
    }
    op->give_up = give_up_base;
    op->request = w;
    return CSN_OK;
}

static int create(csn_local *local, csn_wish *wish, find_image_fn *find, csn_op *op, csn_error *err)
{
    csn_auto(fd) int hold = -1;
    csn_local_box *ready;
    int r = csn_layers_hold(local->state_fd, &hold, err);

    if (r >= 0)
        r = take_image(local, wish, find, err);
    if (r < 0)
        return csn_fail_in(err, csn_state_blame(local, r, err), "create a sandbox");
    if (r > 0)
        return await_base(local, wish, op, err);
    local->is_once = wish->is_once;
    csn_standby_note(local, wish);
    ready = csn_standby_take(local, wish);
    if (ready)
        return hand_out_ready(local, ready, op, err);
    if (csn_standby_join(local, wish, op))
        return CSN_OK;
    return wish->is_eager ? launch_early(local, wish, op, err)
                          : csn_local_launch(local, wish, op, err);
}

int csn_local_create(csn_backend *backend, csn_wish *wish, csn_op *op, csn_error *err)
{
    return create(csn_container_of(backend, csn_local, base), wish, csn_image_find, op, err);
}

static int lock_stopped(csn_local_box *box, const csn_gated *verb, csn_error *err)
{
    int r = csn_box_lock(box->dir_fd);

    if (r == -EWOULDBLOCK && !verb->is_late)
        return CSN_GATE_LOCKED;
    if (r == -ENOENT)
        return csn_fail(err, CSN_E_NOT_FOUND, "sandbox '%s' was deleted", box->base.wish.id);
    if (r < 0)
        return csn_fail(err, CSN_E_BUSY, "sandbox '%s' is being changed by somebody else",
                        box->base.wish.id);
    box->is_locked = true;
    return CSN_OK;
}

/* A start that is given up leaves the sandbox stopped. */
static void give_up_start(csn_op *op)
{
    csn_local_box_lost(op->request);
}

static int start(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    csn_box *base = &box->base;
    launch *l;
    int r = csn_local_box_refresh(base, err);

    if (r < 0)
        return r;
    if (!csn_box_is_settled(box))
        return CSN_GATE_WAIT;
    if (base->state == CSN_STATE_STARTED)
        return csn_op_end_later(op, err);
    if (base->state == CSN_STATE_STOPPED && box->lease_fd < 0 &&
        csn_lease_of(box->dir_fd) == CSN_LEASE_HELD)
        return csn_fail(err, CSN_E_STATE, "start sandbox '%s': it is attached to another program",
                        base->wish.id);
    if (base->state == CSN_STATE_CREATING && !box->is_busy && !verb->is_late)
        return CSN_GATE_LOCKED; /* somebody changes it, or looks at it */
    if (base->state != CSN_STATE_STOPPED || box->is_busy)
        return csn_fail(err, CSN_E_STATE, "start sandbox '%s': it is %s", base->wish.id,
                        csn_state_name(base->state));
    if ((r = lock_stopped(box, verb, err)) != CSN_OK)
        return r;
    if (csn_box_has_keeper(box->dir_fd)) { /* somebody was faster */
        let_go_of_dir(box);
        return csn_op_end_later(op, err);
    }
    l = csn_calloc(1, sizeof(*l));
    if (!l) {
        let_go_of_dir(box);
        return csn_fail(err, CSN_E_NO_MEMORY, "start sandbox '%s'", base->wish.id);
    }
    *l = (launch){ .box = box, .op = op };
    csn_box_ref(base);
    r = hand_over(l, err);
    if (r < 0) {
        let_go_of_dir(box);
        free(l);
        csn_box_unref(base);
        return csn_fail_in(err, r, "start sandbox '%s'", base->wish.id);
    }
    op->give_up = give_up_start;
    op->request = box;
    return CSN_OK;
}

int csn_local_start(csn_box *box, csn_op *op, csn_error *err)
{
    return csn_gate_enter(csn_local_box_of(box), &(csn_gated){ .run = start }, op, err);
}
