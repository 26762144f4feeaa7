/* SPDX-License-Identifier: Apache-2.0 */
/* The next sandbox, built while this one is used.
 *
 * Who makes short-lived sandboxes one after the other mostly makes them alike. After the second create of one shape the
 * engine keeps one more of it ready: a whole sandbox, walls up, in which nothing has run. The next create of that shape
 * takes it and has only to write down whose it is. Its record says `standby`, so nobody sees it in a list; it is attached
 * to this engine and ends with it, however that ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "local/local.h"

enum { ALIKE_MIN = 2, HASTE_NS = 500 * 1000 };

static bool is_eligible(const csn_wish *w)
{
    return w->is_ephemeral && !w->is_detached && !w->is_shared && !w->name[0] && w->n_mounts == 0 &&
           w->network == CSN_NET_NONE && w->ttl_ms == 0 && w->idle_stop_ms == 0 &&
           w->walls_off == 0;
}

static bool same_list(char *const *a, char *const *b)
{
    size_t i = 0;

    while (a && b && a[i] && b[i] && strcmp(a[i], b[i]) == 0)
        i++;
    return !(a && a[i]) && !(b && b[i]);
}

/* Alike in all that a keeper is told. What only commands inherit and what only the record keeps may differ. */
static bool same_shape(const csn_wish *a, const csn_wish *b)
{
    return csn_streq(a->image, b->image) && csn_streq(a->user, b->user) &&
           same_list(a->layers, b->layers) && a->is_host_based == b->is_host_based &&
           a->allow_ptrace == b->allow_ptrace && a->is_root == b->is_root &&
           a->is_shared == b->is_shared &&
           a->memory_bytes == b->memory_bytes && a->cpu_milli == b->cpu_milli &&
           a->pids == b->pids && a->disk_bytes == b->disk_bytes &&
           a->disk_inodes == b->disk_inodes && a->open_files == b->open_files &&
           a->tmp_bytes == b->tmp_bytes && a->shm_bytes == b->shm_bytes &&
           a->timeout_ms == b->timeout_ms && a->output_bytes == b->output_bytes &&
           a->strict == b->strict;
}

static void forget(csn_standby *s)
{
    if (s->box)
        csn_box_unref(&s->box->base);
    s->box = NULL;
}

/* The one that is ready is of another shape now: it goes, nobody waits for it. */
static void discard(csn_standby *s)
{
    csn_local_box *box = s->box;

    s->box = NULL;
    if (!box)
        return;
    (void) csn_local_delete(&box->base, NULL, NULL); /* what is left is swept */
    csn_box_unref(&box->base);
}

void csn_standby_note(csn_local *local, const csn_wish *wish)
{
    csn_standby *s = &local->standby;

    if (!is_eligible(wish))
        return;
    if (s->n_alike > 0 && same_shape(&s->shape, wish)) {
        s->n_alike++;
        return;
    }
    csn_wish_done(&s->shape);
    s->n_alike = csn_wish_copy(wish, &s->shape, NULL) < 0 ? 0 : 1; /* no memory: no standby */
    discard(s);
}

/* Its lists are exchanged, so that the caller frees what was there before. */
static void dress(csn_local_box *box, csn_wish *wish)
{
    csn_wish *own = &box->base.wish, old = *own;

    own->env = wish->env;
    own->labels = wish->labels;
    own->cwd = wish->cwd;
    wish->env = old.env;
    wish->labels = old.labels;
    wish->cwd = old.cwd;
    own->phase = CSN_PHASE_KEPT;
    own->created_ms = csn_wall_ms();
}

/* Its keeper counts from the day it was built; we from the day it was given away. */
void csn_standby_note_age(csn_local_box *box)
{
    box->waited_us += box->base.facts.wall_us - (csn_now_ns() - box->given_ns) / 1000;
}

/* Whose it is, is written down. CSN_E_BUSY: not now, somebody looks at it. */
static int give(csn_local_box *box, csn_wish *wish, csn_error *err)
{
    int r = csn_box_lock(box->dir_fd);

    if (r == -EWOULDBLOCK)
        return csn_fail(err, CSN_E_BUSY, "the sandbox that stands ready is being looked at");
    if (r < 0)
        return csn_fail(err, CSN_E_LOST, "the sandbox that stood ready is gone");
    dress(box, wish);
    r = csn_record_write(box->dir_fd, &box->base.wish, false, err);
    csn_box_unlock(box->dir_fd);
    box->given_ns = csn_now_ns();
    if (r >= 0)
        r = csn_local_ask_age(box, err); /* answered before anything that is asked of it later */
    return r;
}

/* Somebody asked while it was being built, and waits. */
static void serve_waiter(csn_local *local, csn_local_box *box)
{
    csn_standby_waiter w = local->standby.waiter;
    csn_error err = { 0 };
    int r;

    local->standby.waiter = (csn_standby_waiter){ .wish = { .id_index = -1 } };
    w.op->give_up = NULL;
    if (box && give(box, &w.wish, &err) >= 0) {
        csn_wish_done(&w.wish);
        csn_op_end_box(&box->base, CSN_OK, NULL, w.op);
        return;
    }
    if (box && err.code == CSN_E_BUSY)
        local->standby.box = box; /* for the next */
    else if (box)
        csn_box_unref(&box->base); /* the lease ends it with the engine */
    r = csn_local_launch(local, &w.wish, w.op, &err);
    csn_wish_done(&w.wish);
    if (r < 0)
        csn_op_end(w.op, r, &err);
}

static void on_built(csn_box *box, int result, const csn_error *err, void *user)
{
    csn_local *local = user;
    csn_standby *s = &local->standby;

    (void) err; /* the create that needs one will say why */
    s->building = NULL;
    s->ready_ns = csn_now_ns();
    if (result < 0)
        s->n_alike = 0;
    if (s->waiter.op) {
        serve_waiter(local, result < 0 ? NULL : csn_local_box_of(box));
        return;
    }
    if (result < 0)
        return;
    s->box = csn_local_box_of(box); /* with its reference */
    if (s->n_alike == 0 || !same_shape(&s->shape, &box->wish))
        discard(s);
}

bool csn_standby_build(csn_local *local)
{
    csn_standby *s = &local->standby;
    csn_auto(wish) csn_wish wish = { .id_index = -1 };

    if (s->box || s->building)
        return true;
    if (s->n_alike < ALIKE_MIN || csn_wish_copy(&s->shape, &wish, NULL) < 0)
        return false;
    wish.phase = CSN_PHASE_STANDBY;
    s->building = csn_local_launch_box(local, &wish, on_built, local, NULL);
    return s->building != NULL;
}

/* It may be ready, and nobody has looked. */
static void look_at_building(csn_standby *s)
{
    csn_local_box *box = s->building;

    if (!box)
        return;
    csn_box_ref(&box->base);
    csn_conn_poll(&box->conn);
    csn_box_unref(&box->base);
}

csn_local_box *csn_standby_take(csn_local *local, csn_wish *wish)
{
    csn_standby *s = &local->standby;
    csn_local_box *box;
    int r;

    look_at_building(s);
    box = s->box;
    if (!box || !is_eligible(wish) || !same_shape(&s->shape, wish))
        return NULL;
    csn_conn_poll(&box->conn); /* whether it still lives */
    if (box->base.state != CSN_STATE_STARTED || !csn_conn_is_open(&box->conn)) {
        forget(s);
        return NULL;
    }
    s->box = NULL;
    s->is_hasty = csn_now_ns() - s->ready_ns < HASTE_NS;
    r = give(box, wish, NULL);
    if (r == CSN_E_BUSY)
        s->box = box; /* for the next */
    else if (r < 0)
        csn_box_unref(&box->base); /* the lease ends it with the engine */
    if (r < 0)
        return NULL;
    return box;
}

static void give_up_waiting(csn_op *op)
{
    csn_standby_waiter *w = op->request;

    csn_wish_done(&w->wish);
    *w = (csn_standby_waiter){ .wish = { .id_index = -1 } };
    csn_op_end(op, CSN_E_CANCELLED, NULL);
}

bool csn_standby_join(csn_local *local, csn_wish *wish, csn_op *op)
{
    csn_standby *s = &local->standby;

    if (!s->building || s->waiter.op || !is_eligible(wish) ||
        !same_shape(&s->building->base.wish, wish))
        return false;
    s->is_hasty = true;
    (void) csn_conn_ask(&s->building->conn, &(csn_out){ .type = CSN_FRAME_STAT }, NULL,
                        NULL); /* any frame: its patience ends */
    s->waiter = (csn_standby_waiter){ .wish = *wish, .op = op };
    *wish = (csn_wish){ .id_index = -1 };
    op->give_up = give_up_waiting;
    op->request = &s->waiter;
    return true;
}

void csn_standby_done(csn_local *local)
{
    forget(&local->standby);
    local->standby.n_alike = 0;
    csn_wish_done(&local->standby.shape);
}
