/* SPDX-License-Identifier: Apache-2.0 */
/* The handle of a sandbox of a service, and its end. */
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"
#include "call.h"
#include "url.h"

/* ---- the box ---- */

void csn_daytona_facts(csn_receipt *receipt)
{
    *receipt = (csn_receipt){ .ended = CSN_ENDED_RUNNING,
                              .exit_code = -1,
                              .user_us = -1,
                              .sys_us = -1,
                              .peak_memory_bytes = -1,
                              .bytes_written = -1,
                              .n_processes = -1,
                              .rung = CSN_RUNG_REMOTE,
                              .memory_limit_bytes = -1,
                              .cpu_limit_milli = -1,
                              .pids_limit = -1,
                              .disk_limit_bytes = -1,
                              .timeout_ms = -1,
                              .output_limit_bytes = -1 };
}

csn_daytona_box *csn_daytona_box_new(csn_daytona *d, csn_error *err)
{
    csn_daytona_box *box = csn_calloc(1, sizeof(*box));

    if (!box) {
        (void) csn_fail(err, CSN_E_NO_MEMORY, "make a sandbox handle");
        return NULL;
    }
    box->base = (csn_box){
        .ops = d->base.ops, .backend = &d->base, .wish = { .id_index = -1 }, .n_refs = 1
    };
    csn_daytona_facts(&box->base.facts);
    csn_list_init(&box->files);
    csn_list_append(&d->boxes, &box->link);
    return box;
}

void csn_daytona_box_free(csn_box *base)
{
    csn_daytona_box *box = csn_daytona_box_of(base);

    csn_list_remove(&box->link);
    csn_wish_done(&base->wish);
    free(box->toolbox);
    free(box);
}

int csn_daytona_box_check(csn_box *box, csn_error *err)
{
    if (!box->backend)
        return csn_fail(err, CSN_E_STATE, "sandbox '%s': its engine was closed", box->wish.id);
    return CSN_OK;
}

void csn_daytona_box_gone(csn_daytona_box *box)
{
    box->base.state = CSN_STATE_DELETED;
    if (box->last && box->base.backend)
        (void) csn_webline_set_last(&csn_daytona_of(box->base.backend)->line, box->last, "", NULL);
    box->last = 0;
}

int csn_daytona_box_url(csn_buf *out, const csn_daytona *d, const char *id_or_name)
{
    csn_buf_printf(out, "%s/sandbox/", d->url);
    return csn_url_escape(out, id_or_name);
}

/* ---- delete ---- */

typedef struct deletion {
    csn_daytona_box *box; /* counted */
    csn_op *op;           /* NULL: nobody waits */
} deletion;

static void on_deleted(const csn_web_answer *a, int result, const csn_error *err, void *user)
{
    deletion *del = user;
    csn_daytona_box *box = del->box;
    csn_op *op = del->op;
    csn_error own = err ? *err : (csn_error){ 0 };

    if (result < 0 && a && a->end.failure == CSN_WEB_OK && a->end.status == 404)
        result = CSN_OK; /* gone is gone */
    if (result >= 0)
        csn_daytona_box_gone(box);
    free(del);
    csn_op_end(op, result, &own);
    csn_box_unref(&box->base);
}

int csn_daytona_delete(csn_box *base, csn_op *op, csn_error *err)
{
    csn_auto(buf) csn_buf url = CSN_BUF_INIT;
    csn_api_call_spec spec =
        CSN_API_CALL_SPEC(.what = "delete a sandbox", .method = "DELETE",
                          .deadline_ns = csn_deadline_in_ms(CSN_DAYTONA_DELETE_MS));
    int r = csn_daytona_box_check(base, err);

    if (r < 0)
        return r;
    csn_daytona_box_url(&url, csn_daytona_of(base->backend), base->wish.id);
    deletion *del = csn_calloc(1, sizeof(*del));
    if (!del || url.error < 0) {
        free(del);
        return csn_fail(err, CSN_E_NO_MEMORY, "delete sandbox '%s'", base->wish.id);
    }
    *del = (deletion){ .box = csn_daytona_box_of(csn_box_ref(base)), .op = op };
    spec.url = url.data;
    csn_error own = { 0 };
    if (csn_api_call_start(csn_daytona_of(base->backend), &spec, on_deleted, del, &own))
        return CSN_OK;
    free(del);
    csn_box_unref(base);
    if (err)
        *err = own;
    return own.code;
}
