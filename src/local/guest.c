/* SPDX-License-Identifier: Apache-2.0 */
/* A backend whose sandboxes are all lent: another process holds the state directory and its rights, and gave us lines to
 * keepers. Commands and files go over such a line as they do anywhere; what makes, ends or copies a sandbox is not ours. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "local/local.h"
#include "local/open.h"

static int cannot(const csn_box *box, const char *what, csn_error *err)
{
    if (box)
        return csn_fail(err, CSN_E_STATE,
                        "sandbox '%s' is only lent to this engine: ask its lender to %s",
                        box->wish.id, what);
    return csn_fail(err, CSN_E_STATE, "a guest engine can't %s: it has only what is lent to it",
                    what);
}

static const char *place(csn_backend *backend)
{
    (void) backend;
    return "";
}

static int gc(csn_backend *backend, csn_op *op, csn_error *err)
{
    (void) backend;
    return csn_op_end_later(op, err);
}

static int find(csn_backend *backend, const char *key, csn_op *op, csn_error *err)
{
    csn_local *local = csn_container_of(backend, csn_local, base);
    csn_local_box *box = csn_local_box_known(local, key);
    int r;

    if (!box)
        return csn_fail(err, CSN_E_NOT_FOUND, "no sandbox '%.64s' is lent to this engine", key);
    r = csn_op_end_box_later(op, csn_box_ref(&box->base), err);
    if (r < 0)
        csn_box_unref(&box->base);
    return r;
}

static int list(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_op *op,
                csn_error *err)
{
    csn_local *local = csn_container_of(backend, csn_local, base);
    csn_sandbox_info info;

    csn_list_foreach (node, &local->boxes) {
        csn_box *box = &csn_list_entry(node, csn_local_box, link)->base;
        csn_wish_info(&box->wish, box->state, &info);
        fn(&info, user);
    }
    return csn_op_end_later(op, err);
}

static int borrow(csn_backend *backend, csn_wish *wish, int fd, csn_box **ret_box, csn_error *err)
{
    csn_local *local = csn_container_of(backend, csn_local, base);
    csn_local_box *box;
    socklen_t len = sizeof(int);
    int type = 0, r;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET)
        return csn_fail(err, CSN_E_INVALID,
                        "borrow sandbox '%s': descriptor %d is no line to a keeper", wish->id, fd);
    box = csn_local_box_new(local, err);
    if (!box)
        return CSN_E_NO_MEMORY;
    r = csn_conn_open(&box->conn, fd);
    if (r < 0) {
        csn_box_unref(&box->base);
        return csn_fail_sys(err, r, "borrow sandbox '%s'", wish->id);
    }
    box->base.wish = *wish;
    *wish = (csn_wish){ .id_index = -1 };
    box->base.wish.is_detached = true; /* its keeper does not end with us */
    box->base.state = CSN_STATE_STARTED;
    /* Walls and limits come with the first answer, which no command's end can overtake. A dead line shows at its first use. */
    (void) csn_local_stat(&box->base, NULL, NULL);
    *ret_box = &box->base;
    return CSN_OK;
}

static int refresh(csn_box *base, csn_op *op, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);

    csn_box_ref(base);
    if (csn_conn_is_open(&box->conn))
        csn_conn_poll(&box->conn);
    csn_box_unref(base);
    return csn_op_end_later(op, err);
}

static const csn_backend_ops ops = {
    .name = "guest",
    .free = csn_local_free,
    .place = place,
    .cannot = cannot,
    .gc = gc,
    .find = find,
    .list = list,
    .borrow = borrow,
    .box_free = csn_local_box_free,
    .refresh = refresh,
    .stat = csn_local_stat,
    .exec = csn_local_exec_start,
    .attach = csn_local_attach,
    .list_execs = csn_local_list_execs,
    .exec_free = csn_local_exec_free,
    .exec_signal = csn_local_exec_signal,
    .exec_write = csn_local_exec_write,
    .exec_close_stdin = csn_local_exec_close_stdin,
    .exec_resume = csn_local_exec_resume,
    .exec_resize = csn_local_exec_resize,
    .exec_channel = csn_local_exec_channel,
    .exec_read_log = csn_local_exec_read_log,
    .exec_wait = csn_local_exec_wait,
    .file = csn_local_file,
    .put = csn_content_put,
    .get = csn_content_get,
};

int csn_guest_open(csn_loop *loop, const csn_engine_options *opts, csn_backend **ret_backend,
                   csn_error *err)
{
    csn_local *local;
    int r = csn_local_new(loop, &ops, &local, err);

    (void) opts;
    if (r < 0)
        return r;
    *ret_backend = &local->base;
    return CSN_OK;
}
