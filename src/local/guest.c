/* SPDX-License-Identifier: Apache-2.0 */
/* A backend whose sandboxes are all lent: another process holds the state directory and its rights, and gave us lines to
 * keepers. Commands and files go over such a line as they do anywhere; what makes, ends or copies a sandbox is not ours. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "local/local.h"

static int not_ours(const char *id, csn_error *err)
{
    return csn_fail(err, CSN_E_STATE, "sandbox '%s' is only lent to this engine: ask its lender",
                    id);
}

static const char *place(csn_backend *backend)
{
    (void) backend;
    return "";
}

static int gc(csn_backend *backend, uint32_t *ret_n_removed, csn_error *err)
{
    (void) backend;
    (void) err;
    if (ret_n_removed)
        *ret_n_removed = 0;
    return CSN_OK;
}

static int create(csn_backend *backend, csn_wish *wish, csn_box_done_fn *done, void *user,
                  csn_error *err)
{
    (void) backend;
    (void) wish;
    (void) done;
    (void) user;
    return csn_fail(err, CSN_E_STATE, "a guest engine makes no sandboxes");
}

static int fork_box(csn_box *box, csn_wish *wish, csn_box_done_fn *done, void *user, csn_error *err)
{
    (void) wish;
    (void) done;
    (void) user;
    return not_ours(box->wish.id, err);
}

static int find(csn_backend *backend, const char *key, csn_box **ret_box, csn_error *err)
{
    csn_local *local = csn_container_of(backend, csn_local, base);
    csn_local_box *box = csn_local_box_known(local, key);

    if (!box)
        return csn_fail(err, CSN_E_NOT_FOUND, "no sandbox '%.64s' is lent to this engine", key);
    *ret_box = csn_box_ref(&box->base);
    return CSN_OK;
}

static int list(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_error *err)
{
    csn_local *local = csn_container_of(backend, csn_local, base);
    csn_sandbox_info info;

    (void) err;
    csn_list_foreach (node, &local->boxes) {
        csn_box *box = &csn_list_entry(node, csn_local_box, link)->base;
        csn_wish_info(&box->wish, box->state, &info);
        fn(&info, user);
    }
    return CSN_OK;
}

static int lend(csn_box *box, int *ret_fd, csn_error *err)
{
    (void) ret_fd;
    return not_ours(box->wish.id, err);
}

/* Walls and limits come with the first answer, which no command's end can overtake. */
static void on_facts(const csn_receipt *receipt, const csn_usage *usage, int result,
                     const csn_error *err, void *user)
{
    (void) receipt; /* kept in the box already; without it receipts just say less */
    (void) usage;
    (void) result;
    (void) err;
    (void) user;
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
    (void) csn_local_stat(&box->base, on_facts, NULL,
                          NULL); /* a dead line shows at its first use */
    *ret_box = &box->base;
    return CSN_OK;
}

static int refresh(csn_box *base, csn_error *err)
{
    csn_local_box *box = csn_local_box_of(base);

    (void) err;
    csn_box_ref(base);
    if (csn_conn_is_open(&box->conn))
        csn_conn_poll(&box->conn);
    csn_box_unref(base);
    return CSN_OK;
}

static int set_labels(csn_box *box, const char *const *labels, csn_error *err)
{
    (void) labels;
    return not_ours(box->wish.id, err);
}

static int set_timers(csn_box *box, int64_t ttl_ms, int64_t idle_stop_ms, csn_done_fn done,
                      void *user, csn_error *err)
{
    (void) ttl_ms;
    (void) idle_stop_ms;
    (void) done;
    (void) user;
    return not_ours(box->wish.id, err);
}

static int resize(csn_box *box, int64_t memory_bytes, int64_t cpu_milli, int64_t disk_bytes,
                  csn_done_fn done, void *user, csn_error *err)
{
    (void) memory_bytes;
    (void) cpu_milli;
    (void) disk_bytes;
    (void) done;
    (void) user;
    return not_ours(box->wish.id, err);
}

static int change(csn_box *box, csn_done_fn done, void *user, csn_error *err)
{
    (void) done;
    (void) user;
    return not_ours(box->wish.id, err);
}

static int stop(csn_box *box, int grace_ms, csn_done_fn done, void *user, csn_error *err)
{
    (void) grace_ms;
    return change(box, done, user, err);
}

static int snapshot(csn_box *box, const char *image, csn_done_fn done, void *user, csn_error *err)
{
    (void) image;
    return change(box, done, user, err);
}

static const csn_backend_ops ops = {
    .name = "guest",
    .free = csn_local_free,
    .place = place,
    .gc = gc,
    .create = create,
    .fork = fork_box,
    .find = find,
    .list = list,
    .lend = lend,
    .borrow = borrow,
    .box_free = csn_local_box_free,
    .refresh = refresh,
    .set_labels = set_labels,
    .set_timers = set_timers,
    .resize = resize,
    .start = change,
    .stop = stop,
    .delete = change,
    .stat = csn_local_stat,
    .snapshot = snapshot,
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
    .file_cancel = csn_local_file_cancel,
};

int csn_guest_open(csn_loop *loop, csn_backend **ret_backend, csn_error *err)
{
    csn_local *local;
    int r = csn_local_new(loop, &ops, &local, err);

    if (r < 0)
        return r;
    *ret_backend = &local->base;
    return CSN_OK;
}
