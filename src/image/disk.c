/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/str.h"

static void free_verb(csn_disk_verb *v)
{
    if (v->free)
        v->free(v);
    csn_names_auto(&v->left);
    free(v);
}

static void finish(csn_disk_verb *v)
{
    csn_op *op = v->op;
    csn_error err = v->err;
    int r = v->result;

    if (r >= 0 && v->tell && op->fate == CSN_OP_WANTED)
        v->tell(v);
    free_verb(v);
    csn_op_end(op, r, &err);
}

static void remove_left(csn_disk_verb *v);

static void on_removed(int result, const csn_error *err, void *user)
{
    csn_disk_verb *v = user;

    if (result < 0 && v->must_go) {
        v->result = result;
        v->err = *err;
    }
    if (result == CSN_E_CANCELLED) /* the engine closes */
        finish(v);
    else
        remove_left(v);
}

static void remove_left(csn_disk_verb *v)
{
    while (v->result >= 0 && v->left.n > 0) {
        char *path = v->left.at[--v->left.n];
        csn_error err = { 0 };
        int r = v->images->remove_tree(path, on_removed, v, v->images->user, &err);

        free(path);
        if (r >= 0)
            return;
        if (v->must_go) {
            v->result = r;
            v->err = err;
        }
    }
    finish(v);
}

static void run_verb(csn_work *work)
{
    csn_disk_verb *v = csn_container_of(work, csn_disk_verb, work);

    v->result = v->run(v, &v->err);
}

static void on_run(csn_work *work)
{
    remove_left(csn_container_of(work, csn_disk_verb, work));
}

void *csn_disk_verb_new(csn_images *images, size_t size, const char *name, csn_op *op,
                        csn_error *err)
{
    csn_disk_verb *v = csn_calloc(1, size);

    if (!v) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "start a request");
        return NULL;
    }
    v->images = images;
    v->state_fd = images->state_fd;
    v->op = op;
    (void) csn_str_copy(v->name, sizeof(v->name), csn_str_of(name ? name : "")); /* checked: fits */
    return v;
}

int csn_disk_verb_start(csn_disk_verb *v, int (*run)(csn_disk_verb *verb, csn_error *err),
                        csn_error *err)
{
    int r;

    v->run = run;
    r = csn_work_start(v->images->workers, &v->work, run_verb, on_run);
    if (r < 0)
        free_verb(v);
    return r < 0 ? csn_fail_sys(err, r, "start a request") : CSN_OK;
}
