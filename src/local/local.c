#include "local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "kern/overlay.h"
#include "kern/way.h"
#include "local/helper.h"
#include "local/open.h"

enum { CLOSE_WAIT_MS = 10 * 1000, N_WORKERS = 4 };

static csn_local *local_of(csn_backend *backend)
{
    return csn_container_of(backend, csn_local, base);
}

static const char *place(csn_backend *backend)
{
    return local_of(backend)->state_dir;
}

static int cannot(const csn_box *box, const char *what, csn_error *err)
{
    (void) box;
    return csn_fail(err, CSN_E_UNSUPPORTED, "this machine's backend can't %s", what);
}

static int gc(csn_backend *backend, csn_op *op, csn_error *err)
{
    uint32_t n_removed = 0;
    int r = csn_local_sweep(local_of(backend), true, &n_removed, err);

    if (r < 0)
        return r;
    op->value.n = n_removed;
    return csn_op_end_later(op, err);
}

static int hand_out(csn_local_box *box, csn_gated *verb, csn_op *op, csn_error *err)
{
    int r;

    (void) verb;
    if (box->base.state == CSN_STATE_DELETED)
        return csn_fail(err, CSN_E_NOT_FOUND, "no sandbox '%s'", box->base.wish.id);
    r = csn_op_end_box_later(op, csn_box_ref(&box->base), err);
    if (r < 0)
        csn_box_unref(&box->base);
    return r;
}

static int find(csn_backend *backend, const char *key, csn_op *op, csn_error *err)
{
    csn_local *local = local_of(backend);
    csn_local_box *box;
    char id[CSN_ID_SIZE];
    int r = csn_claim_find(local, key, id, err);

    if (r < 0)
        return r;
    box = csn_local_box_known(local, id);
    if (box)
        csn_box_ref(&box->base);
    else if ((r = csn_local_box_load(local, id, &box, err)) < 0)
        return csn_fail_in(err, r, "open sandbox '%.64s'", key);
    r = csn_gate_enter(box, &(csn_gated){ .run = hand_out }, op, err);
    csn_box_unref(&box->base);
    return r;
}

/* What a box is, without disturbing its keeper. Gone in the meantime, or a left-over: not shown. */
static bool look_at(csn_local *local, const char *id, csn_wish *wish, csn_state *ret_state)
{
    csn_auto(fd) int fd = csn_claim_open(local, id);

    if (fd < 0 || csn_record_read(fd, wish, NULL) < 0)
        return false;
    if (wish->phase == CSN_PHASE_STANDBY)
        return false;
    if (wish->phase == CSN_PHASE_DELETING) {
        *ret_state = CSN_STATE_DELETING;
    } else if (flock(fd, LOCK_SH | LOCK_NB) < 0) { /* its creator or starter is at work */
        *ret_state = CSN_STATE_CREATING;
    } else if (csn_box_has_keeper(fd)) {
        *ret_state = CSN_STATE_STARTED;
    } else {
        *ret_state = CSN_STATE_STOPPED;
        return !wish->is_ephemeral && wish->phase == CSN_PHASE_KEPT &&
               csn_lease_of(fd) != CSN_LEASE_GONE;
    }
    return true;
}

static void list_one(csn_local *local, const char *id, csn_sandbox_list_fn fn, void *user)
{
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    csn_local_box *known = csn_local_box_known(local, id);
    csn_sandbox_info info;
    csn_state state;

    if (known && known->base.wish.phase == CSN_PHASE_STANDBY)
        return;
    if (known && csn_conn_is_open(&known->conn)) {
        csn_wish_info(&known->base.wish, known->base.state, &info);
        info.keeper_pid = known->base.keeper_pid;
        info.init_pid = known->base.init_pid;
        fn(&info, user);
        return;
    }
    if (!look_at(local, id, &wish, &state))
        return;
    csn_wish_info(&wish, state, &info);
    fn(&info, user); /* without pids: whoever wants them inspects */
}

static int list_place(csn_local *local, int boxes_fd, csn_sandbox_list_fn fn, void *user)
{
    int fd = openat(boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int r = errno == ENOENT ? 0 : -errno; /* run/, empty and taken away */
        csn_close(&fd);
        return r;
    }
    for (struct dirent *e; (e = readdir(dir));)
        if (csn_is_hex(e->d_name, 32))
            list_one(local, e->d_name, fn, user);
    (void) closedir(dir); /* only read from */
    return 0;
}

static int list(csn_backend *backend, csn_sandbox_list_fn fn, void *user, csn_op *op,
                csn_error *err)
{
    csn_local *local = local_of(backend);
    int r = 0;

    for (size_t i = 0; r == 0 && i < CSN_PLACES; i++)
        r = list_place(local, local->places[i].boxes_fd, fn, user);
    return r < 0 ? csn_fail_sys(err, r, "list the sandboxes") : csn_op_end_later(op, err);
}

/* --- closing ------------------------------------------------------------------------------------------------------ */

static bool ask_to_end(csn_local_box *box)
{
    csn_stop stop = { .grace_ms = -1,
                      .delete_too = box->base.wish.is_ephemeral || box->lease_fd >= 0 };
    csn_out out = { .type = CSN_FRAME_STOP, .fixed = &stop, .fixed_len = sizeof(stop) };

    if (!csn_conn_is_open(&box->conn))
        return false;
    return box->has_lease && csn_conn_ask(&box->conn, &out, NULL, NULL) == 0;
}

/* Its keeper hangs up when all is gone. */
static void await_end(csn_local_box *box, int64_t deadline)
{
    while (csn_conn_is_open(&box->conn) && csn_wait_fd(box->conn.fd, POLLIN, deadline) > 0)
        csn_conn_poll(&box->conn);
}

static void close_box(csn_local_box *box)
{
    csn_box_ref(&box->base);
    csn_gate_close(box);
    csn_local_box_lose_now(box);
    if (box->is_busy || box->has_lease) {
        csn_local_box_lost(box);
        csn_local_box_lose_now(box);
    } else if (csn_conn_is_open(&box->conn))
        csn_local_box_leave(box); /* whoever waits for an answer is told */
    csn_gate_close(box);
    csn_lease_remove(box);
    csn_lease_drop(box);
    box->base.backend = NULL;
    csn_list_remove(&box->link);
    csn_box_unref(&box->base);
}

/* All are told first, so that they end side by side. */
static void close_boxes(csn_local *local)
{
    int64_t deadline = csn_deadline_in_ms(CLOSE_WAIT_MS);
    csn_list *node;

    csn_list_foreach (n, &local->boxes)
        (void) ask_to_end(csn_list_entry(n, csn_local_box, link));
    while ((node = csn_list_first(&local->boxes))) {
        csn_local_box *box = csn_list_entry(node, csn_local_box, link);
        csn_box_ref(&box->base);
        if (box->has_lease)
            await_end(box, deadline);
        close_box(box);
        csn_box_unref(&box->base);
    }
}

csn_backend *csn_local_free(csn_backend *backend)
{
    csn_local *local = local_of(backend);

    csn_standby_done(local);
    csn_local_file_cancel_all(local);
    csn_helper_cancel_all(local);
    close_boxes(local);
    csn_images_cancel_all(&local->images);
    local->workers = csn_workers_free(local->workers);
    csn_helper_cancel_all(local); /* of keepers that lent their files, or work that left some, just before the end */
    csn_timer_cancel(&local->stock_timer);
    while (local->n_spares > 0)
        csn_close(&local->spares[--local->n_spares].fd), /* all first, then wait for each */
            csn_child_reap(local->spares[local->n_spares].pid, 2000);
    if (local->state_fd >= 0)
        csn_run_tidy(local->state_fd);
    for (csn_place *place = local->places; place < local->places + CSN_PLACES; place++) {
        csn_close(&place->ids_fd);
        csn_close(&place->boxes_fd);
    }
    csn_close(&local->names_fd);
    csn_close(&local->state_fd);
    csn_close(&local->null_fd);
    csn_orphans_leave(local);
    csn_local_tidy_cgroups(local);
    free(local->frame_buffer);
    free(local->state_dir);
    free(local->libexec);
    free(local);
    return NULL;
}

/* ---- images and volumes ---- */

static int image_import(csn_backend *backend, const char *name, const char *path, csn_op *op,
                        csn_error *err)
{
    return csn_images_import(&local_of(backend)->images, name, path, op, err);
}

static int image_build_debian(csn_backend *backend, const char *name, const char *const *packages,
                              csn_op *op, csn_error *err)
{
    return csn_images_build_debian(&local_of(backend)->images, name, packages, op, err);
}

static int image_list(csn_backend *backend, csn_image_fn fn, void *user, csn_op *op, csn_error *err)
{
    return csn_images_list(&local_of(backend)->images, fn, user, op, err);
}

static int image_inspect(csn_backend *backend, const char *name, csn_image_fn fn, void *user,
                         csn_op *op, csn_error *err)
{
    return csn_images_inspect(&local_of(backend)->images, name, fn, user, op, err);
}

static int image_remove(csn_backend *backend, const char *name, csn_op *op, csn_error *err)
{
    return csn_images_remove(&local_of(backend)->images, name, op, err);
}

static int volume_create(csn_backend *backend, const char *name, csn_op *op, csn_error *err)
{
    return csn_volumes_create(&local_of(backend)->images, name, op, err);
}

static int volume_list(csn_backend *backend, csn_volume_fn fn, void *user, csn_op *op,
                       csn_error *err)
{
    return csn_volumes_list(&local_of(backend)->images, fn, user, op, err);
}

static int volume_inspect(csn_backend *backend, const char *name, csn_volume_fn fn, void *user,
                          csn_op *op, csn_error *err)
{
    return csn_volumes_inspect(&local_of(backend)->images, name, fn, user, op, err);
}

static int volume_remove(csn_backend *backend, const char *name, csn_op *op, csn_error *err)
{
    return csn_volumes_remove(&local_of(backend)->images, name, op, err);
}

static const csn_backend_ops ops = {
    .name = "local",
    .free = csn_local_free,
    .place = place,
    .cannot = cannot,
    .gc = gc,
    .create = csn_local_create,
    .fork = csn_local_fork,
    .find = find,
    .list = list,
    .lend = csn_local_box_lend,
    .box_free = csn_local_box_free,
    .refresh = csn_local_refresh,
    .set_labels = csn_local_set_labels,
    .set_timers = csn_local_set_timers,
    .resize = csn_local_resize,
    .start = csn_local_start,
    .stop = csn_local_stop,
    .delete = csn_local_delete,
    .stat = csn_local_stat,
    .snapshot = csn_local_snapshot,
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
    .image_import = image_import,
    .image_build_debian = image_build_debian,
    .image_list = image_list,
    .image_inspect = image_inspect,
    .image_remove = image_remove,
    .volume_create = volume_create,
    .volume_list = volume_list,
    .volume_inspect = volume_inspect,
    .volume_remove = volume_remove,
};

static int remove_tree(const char *path, csn_done_fn done, void *done_user, void *user,
                       csn_error *err)
{
    return csn_helper_remove_tree(user, path, done, done_user, err);
}

/* The keeper of the first create comes first: it makes its namespaces while we look after the state directory. */
static int open_all(csn_local *local, const csn_engine_options *o, csn_error *err)
{
    int r = csn_state_find_libexec(o->libexec_dir, &local->libexec, err);

    if (r >= 0 && o->n_spare > 0)
        csn_keeper_start_first(local);
    if (r >= 0)
        r = csn_state_open(local, o->state_dir, err);
    if (r < 0)
        return r;
    csn_images_init(&local->images, local->state_fd, local->libexec, local->base.loop,
                    local->workers, remove_tree, local);
    (void) csn_local_sweep(local, false, NULL, NULL); /* what can't go now is told by gc */
    if (o->n_spare > 0)
        csn_keeper_stock(local);
    return CSN_OK;
}

int csn_local_new(csn_loop *loop, const csn_backend_ops *its_ops, csn_local **ret_local,
                  csn_error *err)
{
    csn_local *local = csn_calloc(1, sizeof(*local));

    if (!local)
        return csn_fail(err, CSN_E_NO_MEMORY, "open the engine");
    local->base = (csn_backend){ .ops = its_ops, .loop = loop };
    local->state_fd = local->names_fd = local->null_fd = -1;
    for (size_t i = 0; i < CSN_PLACES; i++)
        local->places[i] = (csn_place){ .boxes_fd = -1, .ids_fd = -1 };
    local->is_privileged = csn_way_find() == CSN_WAY_PRIVILEGED;
    local->has_memory_disks = csn_tmpfs_has_user_xattrs();
    csn_list_init(&local->boxes);
    csn_list_init(&local->helpers);
    csn_list_init(&local->files);
    csn_list_init(&local->orphans);
    local->frame_buffer = csn_malloc(CSN_FRAME_MAX);
    if (!local->frame_buffer || csn_workers_new(loop, N_WORKERS, &local->workers) < 0) {
        free(local->frame_buffer);
        free(local);
        return csn_fail(err, CSN_E_NO_MEMORY, "open the engine");
    }
    *ret_local = local;
    return CSN_OK;
}

int csn_local_open(csn_loop *loop, const csn_engine_options *opts, csn_backend **ret_backend,
                   csn_error *err)
{
    csn_local *local = NULL;
    int r = csn_local_new(loop, &ops, &local, err);

    if (!local)
        return r;
    local->optional_walls = opts->optional_walls;
    local->n_spare_wanted = opts->n_spare > CSN_SPARES_MAX ? CSN_SPARES_MAX : opts->n_spare;
    r = open_all(local, opts, err);
    if (r < 0) {
        csn_local_free(&local->base);
        return csn_fail_in(err, r, "open the engine");
    }
    *ret_backend = &local->base;
    return CSN_OK;
}

bool csn_local_rest(csn_backend *backend)
{
    return csn_workers_rest(local_of(backend)->workers);
}
