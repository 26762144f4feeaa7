/* Snapshot and fork: the upper layers of a sandbox, frozen for a moment or stopped, become a layer of their own. A
 * snapshot names it as an image, a fork puts it on top of the same layers below a new sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/image.h"
#include "local/helper.h"
#include "local/local.h"

typedef struct copy_op {
    csn_request req;
    csn_local_box *box; /* counted */
    int hold_fd;        /* the layers: ours is named by nobody until the end */
    bool is_lent, is_locked;
    char layer[33];
    char *image; /* of a snapshot; NULL: a fork */
    bool has_own;
    csn_wish own;  /* of a fork: what is not its parent's */
    csn_wish wish; /* of a fork */
    csn_op *verb_op;
    csn_helper *helper; /* while it copies; NULL: not yet, or no more */
    bool is_cancelled;
} copy_op;

/* The sandbox goes on. */
static void give_back(copy_op *op)
{
    csn_out thaw = { .type = CSN_FRAME_THAW };

    if (op->is_lent)
        (void) csn_conn_ask(&op->box->conn, &thaw, NULL, NULL); /* lost: then it is thawed, too */
    if (op->is_locked)
        csn_box_unlock(op->box->dir_fd);
    op->is_lent = op->is_locked = false;
}

static void free_op(void *data)
{
    copy_op *op = data;

    give_back(op);
    csn_close(&op->hold_fd);
    csn_wish_done(&op->wish);
    csn_wish_done(&op->own);
    free(op->image);
    csn_box_unref(&op->box->base);
    free(op);
}

/* Of a fork that went well the rest is the new sandbox's. */
static void finish(copy_op *op, int r, csn_error *err)
{
    csn_local *local = csn_local_of(&op->box->base);
    csn_op *verb_op = op->verb_op;
    bool is_fork = !op->image;

    if (r < 0)
        csn_fail_in(err, r, "copy the files of sandbox '%s'", op->box->base.wish.id);
    free_op(op);
    if (r < 0 && verb_op->fate != CSN_OP_WANTED)
        (void) csn_layer_sweep(local->state_fd, NULL, NULL, NULL, NULL); /* what stays is gc's */
    if (r < 0 || !is_fork)
        csn_op_end(verb_op, r, err);
}

/* Waits for the keeper, which answers soon, or ends the copy; both lead to finish(). */
static void give_up(csn_op *verb_op)
{
    copy_op *op = verb_op->request;

    op->is_cancelled = true;
    if (op->helper)
        csn_helper_cancel(op->helper);
}

static int put_image(copy_op *op, csn_error *err)
{
    const csn_wish *wish = &op->box->base.wish;
    csn_auto(image_ref) csn_image_ref below = CSN_IMAGE_REF_INIT;
    csn_image_ref ref = { .is_host_based = wish->is_host_based,
                          .env = wish->image_env,
                          .cwd = wish->cwd[0] ? wish->cwd : NULL };

    int r = csn_streq(wish->image, "host")
                ? CSN_OK
                : csn_image_resolve(csn_local_of(&op->box->base)->state_fd, wish->image, &below, err);
    if (r < 0 && r != CSN_E_NOT_FOUND)
        return r;
    ref.entrypoint = below.entrypoint; /* what the image below was made to run, this one is */
    ref.cmd = below.cmd;
    ref.user = below.user;
    memcpy(ref.layers[ref.n_layers++], op->layer, sizeof(op->layer));
    for (size_t i = 0; wish->layers[i]; i++) {
        if (ref.n_layers >= CSN_IMAGE_LAYERS_MAX || strlen(wish->layers[i]) >= CSN_LAYER_ID_SIZE)
            return csn_fail(err, CSN_E_LIMIT, "more than %d layers", CSN_IMAGE_LAYERS_MAX);
        memcpy(ref.layers[ref.n_layers++], wish->layers[i], strlen(wish->layers[i]) + 1);
    }
    return csn_image_put(csn_local_of(&op->box->base)->state_fd, op->image, &ref, "snapshot", err);
}

/* The new sandbox: its own layer first, then what its parent stood on. */
static int add_layer(copy_op *op, csn_error *err)
{
    size_t n = 0;

    while (op->wish.layers[n])
        n++;
    if (n + 1 > CSN_IMAGE_LAYERS_MAX)
        return csn_fail(err, CSN_E_LIMIT, "more than %d layers", CSN_IMAGE_LAYERS_MAX);
    char **layers = csn_calloc(n + 2, sizeof(*layers));
    char *own = csn_strdup(op->layer);
    if (!layers || !own) {
        free(layers);
        free(own);
        return csn_fail(err, CSN_E_NO_MEMORY, "note the layers of a fork");
    }
    memcpy(layers + 1, op->wish.layers, (n + 1) * sizeof(*layers));
    layers[0] = own;
    free(op->wish.layers);
    op->wish.layers = layers;
    return CSN_OK;
}

static void on_copied(int result, const csn_error *why, void *user)
{
    copy_op *op = user;
    csn_error err = { 0 };

    if (why)
        err = *why;
    op->helper = NULL;
    op->verb_op->give_up = NULL;
    give_back(op);
    if (result >= 0 && op->image)
        result = put_image(op, &err);
    else if (result >= 0 && (result = add_layer(op, &err)) >= 0)
        result = csn_local_create(op->box->base.backend, &op->wish, op->verb_op, &err);
    finish(op, result, &err);
}

static int start_copy(copy_op *op, int source_fd, int userns_fd, csn_error *err)
{
    return csn_helper_copy(csn_local_of(&op->box->base), &op->box->base.wish, op->layer, source_fd,
                           userns_fd, on_copied, op, &op->helper, err);
}

static bool on_lent(csn_request *req, csn_msg *msg)
{
    copy_op *op = csn_container_of(req, copy_op, req);
    csn_error err = { 0 };
    int r = csn_msg_result(msg, CSN_FRAME_DONE, &err);

    if (r >= 0) {
        csn_auto(fd) int source = csn_msg_take_fd(msg, 0);
        csn_auto(fd) int userns = csn_msg_take_fd(msg, 1);
        op->is_lent = true;
        if (op->is_cancelled)
            r = csn_fail(&err, CSN_E_CANCELLED, "cancelled");
        else if (source < 0)
            r = csn_fail(&err, CSN_E_PROTOCOL, "the keeper lent no directory");
        else
            r = start_copy(op, source, userns, &err);
    }
    if (r < 0)
        finish(op, r, &err);
    return true;
}

static int copy_stopped(copy_op *op, const csn_gated *verb, csn_error *err)
{
    csn_auto(fd) int source = -1;
    int r = csn_box_lock(op->box->dir_fd);

    if (r == -EWOULDBLOCK && !verb->is_late)
        return CSN_GATE_LOCKED;
    if (r < 0)
        return csn_fail(err, CSN_E_BUSY, "sandbox '%s' is being changed by somebody else",
                        op->box->base.wish.id);
    op->is_locked = true;
    source = openat(op->box->dir_fd, "disk", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0 && errno == ENOENT) /* the keeper mounts it */
        source = openat(op->box->dir_fd, "disk.img", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0)
        return csn_fail_sys(err, -errno, "open the files of sandbox '%s'", op->box->base.wish.id);
    return start_copy(op, source, -1, err);
}

/* Once, before the first try that may lead to a copy. */
static int prepare(copy_op *op, csn_error *err)
{
    int r = CSN_OK;

    if (!op->image)
        r = csn_wish_fork(&op->box->base.wish, op->has_own ? &op->own : NULL, &op->wish, err);
    if (r >= 0)
        r = csn_layers_hold(csn_local_of(&op->box->base)->state_fd, &op->hold_fd, err);
    if (r < 0)
        return r;
    r = csn_layer_new_id(op->layer);
    return r < 0 ? csn_fail_sys(err, r, "name a layer") : CSN_OK;
}

static int begin(copy_op *op, const csn_gated *verb, csn_error *err)
{
    csn_out lend = { .type = CSN_FRAME_LEND };
    int r = op->box->is_busy ? csn_local_box_need(op->box, "copy its files", err)
                             : csn_local_box_refresh(&op->box->base, err);

    if (r >= 0 && !csn_box_is_settled(op->box))
        return CSN_GATE_WAIT;
    if (r >= 0 && op->hold_fd < 0)
        r = prepare(op, err);
    if (r < 0)
        return r;
    if (csn_conn_is_open(&op->box->conn)) {
        r = csn_conn_ask(&op->box->conn, &lend, &op->req, on_lent);
        return r < 0 ? csn_fail_sys(err, r, "ask the keeper for the files") : CSN_OK;
    }
    if (op->box->base.state == CSN_STATE_STOPPED)
        return copy_stopped(op, verb, err);
    return csn_fail(err, CSN_E_STATE, "sandbox '%s' is %s", op->box->base.wish.id,
                    csn_state_name(op->box->base.state));
}

static copy_op *new_op(csn_box *box, csn_op *verb_op, csn_error *err)
{
    copy_op *op = csn_calloc(1, sizeof(*op));

    if (!op) {
        csn_fail(err, CSN_E_NO_MEMORY, "copy the files of sandbox '%s'", box->wish.id);
        return NULL;
    }
    op->box = csn_local_box_of(csn_box_ref(box));
    op->hold_fd = -1;
    op->wish.id_index = op->own.id_index = -1;
    op->verb_op = verb_op;
    return op;
}

static int run(csn_local_box *box, csn_gated *verb, csn_op *verb_op, csn_error *err)
{
    copy_op *op = verb->data;
    int r = begin(op, verb, err);

    (void) box;
    if (r != CSN_OK)
        return r;
    verb->data = NULL;
    verb_op->give_up = give_up;
    verb_op->request = op;
    return CSN_OK;
}

static int enter(copy_op *op, csn_error *err)
{
    return csn_gate_enter(op->box, &(csn_gated){ .run = run, .data = op, .free_data = free_op },
                          op->verb_op, err);
}

int csn_local_snapshot(csn_box *box, const char *image, csn_op *verb_op, csn_error *err)
{
    csn_auto(image_ref) csn_image_ref ref = CSN_IMAGE_REF_INIT;
    csn_local *local = csn_local_of(box);
    copy_op *op;

    if (csn_image_resolve(local->state_fd, image, &ref, NULL) >= 0)
        return csn_fail(err, CSN_E_EXISTS, "there is an image '%s' already", image);
    if (!(op = new_op(box, verb_op, err)))
        return CSN_E_NO_MEMORY;
    op->image = csn_strdup(image);
    if (op->image)
        return enter(op, err);
    free_op(op);
    return csn_fail(err, CSN_E_NO_MEMORY, "name an image");
}

int csn_local_fork(csn_box *box, csn_wish *own, csn_op *verb_op, csn_error *err)
{
    copy_op *op = new_op(box, verb_op, err);

    if (!op)
        return CSN_E_NO_MEMORY;
    op->has_own = own != NULL;
    if (own) {
        op->own = *own;
        *own = (csn_wish){ .id_index = -1 };
    }
    return enter(op, err);
}
