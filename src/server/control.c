/* SPDX-License-Identifier: Apache-2.0 */
#include "server/control.h"

#include <stdlib.h>

#include "base/log.h"

csn_cell *csn_control_cell(csn_req *req, size_t i)
{
    const char *name = csn_req_param(req, i);
    csn_cell *cell = csn_boxes_find(csn_req_server(req)->boxes, csn_req_caller(req)->org_id, name);

    if (!cell)
        csn_req_error(req, 404, NULL, "Sandbox with ID or name %.128s not found", name);
    return cell;
}

void csn_control_json(csn_req *req, int status, csn_buf *out)
{
    if (out->error < 0)
        csn_req_error(req, 500, NULL, "The answer could not be written");
    else
        csn_req_json(req, status, out);
}

const char *csn_control_toolbox_url(const csn_req *req, csn_buf *out)
{
    csn_buf_printf(out, "%s/toolbox", csn_req_origin(req));
    return out->data;
}

void csn_control_answer(csn_req *req, int status, const csn_cell *cell)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, url = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_shape_sandbox s;

    csn_cell_shape(cell, csn_control_toolbox_url(req, &url), &s);
    csn_shape_sandbox_write(&s, false, &w);
    csn_control_json(req, status, &out);
}

void csn_control_fail_as(csn_req *req, int status, const csn_error *err)
{
    csn_req_error(req, status, NULL, "%s", err->message);
}

void csn_control_fail(csn_req *req, const csn_error *err)
{
    if (err->code == CSN_E_UNSUPPORTED)
        csn_control_fail_as(req, 422, err);
    else if (err->code == CSN_E_STATE)
        csn_control_fail_as(req, 400, err);
    else
        csn_req_fail(req, err);
}

static void on_gone(csn_req *req, void *user)
{
    csn_wait *wait = user;

    (void) req;
    wait->req = NULL; /* what was asked of the engine goes on; its end finds nobody to tell */
}

csn_wait *csn_wait_new(csn_req *req)
{
    csn_wait *wait = calloc(1, sizeof(*wait));

    if (!wait) {
        csn_req_error(req, 503, NULL, "The server is out of memory");
        return NULL;
    }
    wait->req = req;
    csn_req_keep(req, on_gone, wait);
    return wait;
}

csn_req *csn_wait_end(csn_wait *wait)
{
    csn_req *req = wait->req;

    free(wait);
    return req;
}

void csn_control_done(csn_cell *cell, int result, const csn_error *err, void *user)
{
    csn_req *req = csn_wait_end(user);

    if (!req)
        return;
    if (result < 0)
        csn_control_fail(req, err);
    else if (!cell)
        csn_req_error(req, 404, NULL, "Sandbox not found");
    else
        csn_control_answer(req, 200, cell);
}
