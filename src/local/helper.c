#include "local/helper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/time.h"

enum { REMOVE_WAIT_MS = 120 * 1000 };

static uint32_t flags_of(const csn_local *local, const csn_wish *wish)
{
    return (wish->is_detached ? CSN_PLAN_DETACHED : 0u) |
           (wish->phase == CSN_PHASE_STANDBY ? CSN_PLAN_PATIENT : 0u) |
           (wish->is_shared ? CSN_PLAN_SHARED : 0u) |
           (wish->is_ephemeral ? CSN_PLAN_EPHEMERAL : 0u) |
           (wish->is_ephemeral && !csn_is_in_memory(local, wish) ? CSN_PLAN_ON_DISK : 0u) |
           (wish->is_root ? CSN_PLAN_ROOT_INSIDE : 0u) |
           (wish->allow_ptrace ? CSN_PLAN_PTRACE : 0u) |
           (wish->is_host_based ? CSN_PLAN_HOST_BASED : 0u) |
           (wish->network == CSN_NET_OUTBOUND ? CSN_PLAN_OUTBOUND : 0u);
}

static int64_t fault_at(void)
{
#ifdef CSN_TEST_HOOKS
    const char *k = secure_getenv("CSN_KEEPER_FAULT_AT");

    return k ? strtoll(k, NULL, 10) : 0;
#else
    return 0;
#endif
}

/* Its name, where host names may look like that. */
static const char *host_name_of(const csn_wish *wish)
{
    return wish->name && strlen(wish->name) < 64 && !strchr(wish->name, '_') ? wish->name : "";
}

void csn_plan_of(const csn_local *local, const csn_wish *wish, uint32_t mode, csn_plan *ret_plan)
{
    *ret_plan = (csn_plan){
        .mode = mode,
        .flags = flags_of(local, wish),
        .state_dir = local->state_dir,
        .id = wish->id,
        .name = wish->name,
        .target = "",
        .hostname = host_name_of(wish),
        .id_base = wish->id_index < 0 ? 0 : 0x40000000 + wish->id_index * 65536,
        .id_index = wish->id_index,
        .memory_bytes = wish->memory_bytes,
        .cpu_milli = wish->cpu_milli,
        .pids = wish->pids,
        .disk_bytes = wish->disk_bytes,
        .disk_inodes = wish->disk_inodes,
        .open_files = wish->open_files,
        .tmp_bytes = wish->tmp_bytes,
        .shm_bytes = wish->shm_bytes,
        .timeout_ms = wish->timeout_ms,
        .output_bytes = wish->output_bytes,
        .created_ms = wish->created_ms,
        .ttl_ms = wish->ttl_ms,
        .idle_stop_ms = wish->idle_stop_ms,
        .strict = wish->strict,
        .optional_walls = local->optional_walls,
        .walls_off = wish->walls_off,
        .fault_at = fault_at(),
    };
    for (size_t i = 0; wish->layers && wish->layers[i] && i < CSN_PLAN_LAYERS_MAX; i++)
        ret_plan->layers[ret_plan->n_layers++] = wish->layers[i];
    for (size_t i = 0; i < wish->n_mounts && i < CSN_PLAN_MOUNTS_MAX; i++)
        ret_plan->mounts[ret_plan->n_mounts++] =
            (csn_plan_mount){ .volume = wish->mounts[i].volume,
                              .path = wish->mounts[i].path,
                              .subpath = wish->mounts[i].subpath,
                              .is_read_only = wish->mounts[i].is_read_only != 0 };
}

int csn_plan_ask(csn_conn *conn, const csn_plan *plan, const int *fds, size_t n_fds,
                 csn_request *req, csn_answer_fn *answer)
{
    csn_auto(mem) char *bytes = csn_malloc(CSN_BLOB_MAX / 8);
    csn_pack p = { .data = bytes, .cap = CSN_BLOB_MAX / 8 };

    if (!bytes)
        return -ENOMEM;
    csn_plan_pack(&p, plan);
    if (p.error < 0)
        return p.error;
    csn_out out = { .type = CSN_FRAME_PLAN,
                    .rest = p.data,
                    .rest_len = p.len,
                    .fds = fds,
                    .n_fds = n_fds };
    return csn_conn_ask(conn, &out, req, answer);
}

/* A helper at work. */
struct csn_helper {
    csn_list link; /* in csn_local.helpers */
    csn_local *local;
    csn_leaving leaving; /* cancelled: it must not write any more when `done` runs */
    csn_request req;
    csn_keeper keeper;
    csn_conn conn;
    csn_done_fn done;
    void *user;
};

static void free_helper(csn_helper *h)
{
    csn_list_remove(&h->link);
    csn_conn_close(&h->conn);
    h->keeper.fd = -1; /* was the connection's */
    csn_orphan_add(h->local, h->keeper.pid, true);
    free(h);
}

static void finish(csn_helper *h, int result, const csn_error *err)
{
    csn_done_fn done = h->done;
    void *user = h->user;

    free_helper(h);
    done(result, result < 0 ? err : NULL, user);
}

static bool on_answer(csn_request *req, csn_msg *msg)
{
    csn_helper *h = csn_container_of(req, csn_helper, req);
    csn_error err = { 0 };

    finish(h, csn_msg_result(msg, CSN_FRAME_READY, &err), &err);
    return true;
}

static void on_lost(csn_conn *conn)
{
    csn_helper *h = csn_container_of(conn, csn_helper, conn);

    csn_list_remove(&h->req.link);
    (void) on_answer(&h->req, NULL); /* frees the helper, and the connection with it */
}

static int start(csn_local *local, const csn_plan *plan, const int *fds, size_t n_fds,
                 csn_done_fn done, void *user, csn_helper **ret_helper, csn_error *err)
{
    csn_helper *h = csn_calloc(1, sizeof(*h));
    int r;

    if (!h)
        return csn_fail(err, CSN_E_NO_MEMORY, "start a helper");
    csn_conn_init(&h->conn, local->base.loop, &local->frame_buffer);
    h->conn.on_lost = on_lost;
    h->local = local;
    h->leaving.pidfd = -1;
    h->done = done;
    h->user = user;
    r = csn_keeper_take(local, &h->keeper, err);
    if (r < 0) {
        free(h);
        return r;
    }
    r = csn_conn_open(&h->conn, h->keeper.fd);
    if (r < 0)
        csn_keeper_end(local, &h->keeper);
    else
        r = csn_plan_ask(&h->conn, plan, fds, n_fds, &h->req, on_answer);
    if (r < 0) {
        r = csn_fail_sys(err, r, "tell a helper what to do");
        free_helper(h);
        return r;
    }
    csn_list_append(&local->helpers, &h->link);
    if (ret_helper)
        *ret_helper = h;
    return CSN_OK;
}

static void on_cancelled(bool is_alive, void *user)
{
    csn_error err = { 0 };

    (void) is_alive; /* it isn't spared */
    finish(user, csn_fail(&err, CSN_E_CANCELLED, "cancelled"), &err);
}

void csn_helper_cancel(csn_helper *helper)
{
    csn_list_remove(&helper->req.link);
    csn_conn_close(&helper->conn);
    helper->leaving.pid = helper->keeper.pid;
    helper->keeper.pid = 0;
    csn_leaving_begin(&helper->leaving, helper->local->base.loop, on_cancelled, helper);
}

void csn_helper_cancel_all(csn_local *local)
{
    csn_list *node;

    while ((node = csn_list_first(&local->helpers))) {
        csn_helper *h = csn_list_entry(node, csn_helper, link);

        if (h->leaving.done)
            csn_leaving_now(&h->leaving);
        else
            csn_helper_cancel(h);
    }
}

int csn_helper_copy(csn_local *local, const csn_wish *wish, const char *layer, int source_fd,
                    int userns_fd, csn_done_fn done, void *user, csn_helper **ret_helper,
                    csn_error *err)
{
    int fds[2] = { source_fd, userns_fd };
    csn_plan plan;

    csn_plan_of(local, wish, CSN_PLAN_COPY, &plan);
    plan.target = layer;
    return start(local, &plan, fds, userns_fd >= 0 ? 2 : 1, done, user, ret_helper, err);
}

typedef struct removal {
    bool is_done;
    int result;
    csn_error err;
} removal;

static void on_removed(int result, const csn_error *err, void *user)
{
    removal *rm = user;

    rm->is_done = true;
    rm->result = result;
    if (err)
        rm->err = *err;
}

static int start_removal(csn_local *local, const char *target, csn_done_fn done, void *user,
                         csn_helper **ret_helper, csn_error *err)
{
    csn_wish wish = { .id_index = -1 };
    csn_plan plan;

    csn_plan_of(local, &wish, CSN_PLAN_REMOVE, &plan);
    plan.name = "";
    plan.target = target;
    return start(local, &plan, NULL, 0, done, user, ret_helper, err);
}

int csn_helper_remove_tree(csn_local *local, const char *target, csn_done_fn done, void *user,
                           csn_error *err)
{
    return start_removal(local, target, done, user, NULL, err);
}

/* Waits in a loop of its own, so that nobody else's completions run in the middle of a sweep. */
int csn_helper_remove(csn_local *local, const char *id, csn_error *err)
{
    csn_auto(loop) csn_loop *loop = NULL;
    csn_loop *outer = local->base.loop;
    int64_t deadline = csn_deadline_in_ms(REMOVE_WAIT_MS);
    char target[64];
    csn_helper *h = NULL;
    removal rm = { 0 };
    int r = csn_loop_new(&loop);

    (void) snprintf(target, sizeof(target), "boxes/%.32s/disk", id); /* fits */
    if (r < 0)
        return csn_fail_sys(err, r, "remove '%s'", target);
    local->base.loop = loop;
    r = start_removal(local, target, on_removed, &rm, &h, err);
    local->base.loop = outer;
    while (r >= 0 && !rm.is_done) {
        r = csn_loop_run_once(loop, deadline);
        if (rm.is_done || (r >= 0 && !csn_deadline_passed(deadline)))
            continue;
        if (h) /* always, once started */
            free_helper(h);
        return csn_fail(err, CSN_E_TIMEOUT, "remove '%s'", target);
    }
    if (r >= 0 && rm.result < 0) {
        if (err)
            *err = rm.err;
        r = rm.result;
    }
    return r < 0 ? r : CSN_OK;
}
