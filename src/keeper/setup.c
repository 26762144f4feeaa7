/* SPDX-License-Identifier: Apache-2.0 */
#include "setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "serve.h"

/* --- directories and the lock ------------------------------------------------------------------------------------ */

static int check_plan(csn_keeper *k, csn_error *err)
{
    const csn_plan *plan = &k->plan;

    k->is_privileged = plan->id_base > 0;
    /* R2: a map of one id would be a map to the host's root. */
    if (!k->is_privileged && csn_way_find() == CSN_WAY_PRIVILEGED)
        return csn_fail(err, CSN_E_INVALID,
                        "a sandbox started by root needs a range of ids of its own");
    if (k->is_privileged && csn_way_find() != CSN_WAY_PRIVILEGED)
        return csn_fail(err, CSN_E_DENIED,
                        "a range of ids can only be used by the machine's root%s%s",
                        geteuid() == 0 ? ": " : "", geteuid() == 0 ? csn_way_why_ordinary() : "");
    const char *why_not = k->is_privileged ? NULL : csn_way_owner(&k->owner);
    if (why_not)
        return csn_fail(err, CSN_E_UNSUPPORTED, "%s", why_not);
    if (plan->n_layers == 0 && !(plan->flags & CSN_PLAN_HOST_BASED))
        return csn_fail(err, CSN_E_INVALID, "the plan names no layer to run on");
#ifndef CSN_TEST_HOOKS
    if (plan->walls_off)
        return csn_fail(err, CSN_E_INVALID, "walls can't be switched off in this build");
#endif
    return CSN_OK;
}

static int open_dirs(csn_keeper *k, csn_error *err)
{
    char path[64];

    k->state_fd = openat(AT_FDCWD, k->plan.state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (k->state_fd < 0)
        return csn_fail_sys(err, -errno, "open the state directory '%s'", k->plan.state_dir);
    k->place_fd = openat(k->state_fd, csn_plan_is_in_memory(&k->plan) ? "run" : ".",
                         O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (k->place_fd < 0)
        return csn_fail_sys(err, -errno, "open '%s/run'", k->plan.state_dir);
    (void) snprintf(path, sizeof(path), "boxes/%s", k->plan.id); /* 32 digits: fits */
    k->box_fd = openat(k->place_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (k->box_fd < 0)
        return csn_fail_sys(err, -errno, "open '%s/%s'", k->plan.state_dir, path);
    return CSN_OK;
}

static void close_dirs(csn_keeper *k)
{
    csn_close(&k->logs_fd);
    csn_close(&k->userns_fd);
    csn_close(&k->netns_fd);
    csn_close(&k->mntns_fd);
    csn_close(&k->netlink_fd);
    csn_close(&k->box_fd);
    csn_close(&k->place_fd);
    csn_close(&k->state_fd);
}

/* Held as long as we live: that a sandbox runs *is* this lock. */
static int lock_box(csn_keeper *k, csn_error *err)
{
    k->lock_fd = openat(k->box_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (k->lock_fd < 0)
        return csn_fail_sys(err, -errno, "open the lock of sandbox '%s'", k->plan.id);
    if (flock(k->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? csn_fail(err, CSN_E_STATE, "sandbox '%s' has a keeper already", k->plan.id)
                   : csn_fail_sys(err, -errno, "lock sandbox '%s'", k->plan.id);
    return CSN_OK;
}

static void unlock_box(csn_keeper *k)
{
    csn_close(&k->lock_fd);
}

/* --- what clients reach ------------------------------------------------------------------------------------------ */

static int clear_logs(csn_keeper *k, csn_error *err)
{
    int r = k->plan.flags & CSN_PLAN_EPHEMERAL ? 0 : csn_logs_clear(k);

    return r < 0 ? csn_fail_sys(err, r, "clear the logs of sandbox '%s'", k->plan.id) : CSN_OK;
}

static int listen_detached(csn_keeper *k, csn_error *err)
{
    return k->plan.flags & (CSN_PLAN_DETACHED | CSN_PLAN_SHARED) ? csn_clients_listen(k, err)
                                                                 : CSN_OK;
}

static void stop_listening(csn_keeper *k)
{
    if (k->listen_fd < 0)
        return;
    k->listen_src = csn_source_remove(k->listen_src);
    (void) unlinkat(k->box_fd, "sock", 0); /* nobody answers there any more */
    csn_close(&k->listen_fd);
}

/* --- the order --------------------------------------------------------------------------------------------------- */

static int make_child(csn_keeper *k, csn_error *err)
{
    if (k->is_cloned_early && csn_walls_off(k))
        csn_kill_child(k); /* it was born with all walls */
    if (k->is_cloned_early)
        return CSN_OK; /* and has the plan */
    int r = csn_clone_inside(k, err);
    if (r != CSN_OK)
        return r;
    r = csn_forward_plan(k);
    return r < 0 ? csn_fail_sys(err, r, "hand the plan to the child") : CSN_OK;
}

/* On v2 a process is best born in its group; on v1 the child joins late, so the groups are made while it builds. */
static int make_groups_early(csn_keeper *k, csn_error *err)
{
    int r = k->rung == CSN_RUNG_CGROUP2 ? csn_cgroups_make(k, err) : CSN_OK;

    if (r != CSN_OK || k->rung != CSN_RUNG_CGROUP2 || !k->is_cloned_early)
        return r;
    r = csn_cgroup_attach(&k->cgroup, k->init_pid); /* a hybrid host: born before we knew */
    return r < 0 ? csn_fail_sys(err, r, "move the child into its cgroup") : CSN_OK;
}

static int make_groups_late(csn_keeper *k, csn_error *err)
{
    return k->rung == CSN_RUNG_CGROUP1 ? csn_cgroups_make(k, err) : CSN_OK;
}

static const struct step {
    const char *name;
    int (*run)(csn_keeper *k, csn_error *err);
    void (*undo)(csn_keeper *k); /* also after a failed run: takes half-built things */
    bool is_beside_child;        /* which may have failed first */
} steps[] = {
    { "check the plan", check_plan, NULL, false },
    { "open directories", open_dirs, close_dirs, false },
    { "take the lock", lock_box, unlock_box, false },
    { "clear old logs", clear_logs, NULL, false },
    { "prepare the disk", csn_disk_prepare, csn_disk_release, false },
    { "choose limits", csn_cgroups_choose, csn_cgroups_remove,
      false }, /* undone when the child is dead */
    { "make cgroups (v2)", make_groups_early, NULL, true },
    { "clone", make_child, csn_kill_child, true },
    { "map ids", csn_ids_map, NULL, true },
    { "hand over layers", csn_start_child, NULL,
      true }, /* from here on the child builds beside us */
    { "lower the OOM rank", csn_ids_rank, NULL, true },
    { "make cgroups (v1)", make_groups_late, NULL, true },
    { "let the child join", csn_let_join, NULL,
      true }, /* it waits for this before it leaves the host's root */
    { "finish cgroups", csn_cgroups_finish, NULL, true },
    { "listen for clients", listen_detached, stop_listening, true },
    { "start the network", csn_outbound_start, csn_outbound_stop, true },
    { "hold namespaces", csn_hold, NULL, true },
    { "confine the keeper", csn_confine, NULL, true }, /* before any foreign code runs */
    { "hear an early command", csn_client_hear_early, NULL, true },
    { "wait for init", csn_await_init, NULL, true },
};

int csn_setup_run(csn_keeper *k, csn_error *err)
{
    const struct step *step = steps;
    int r = CSN_OK;

    for (k->n_steps_done = 0; r == CSN_OK && k->n_steps_done < CSN_COUNT(steps);
         k->n_steps_done++) {
        step = &steps[k->n_steps_done];
        int fault = csn_fault(step->name);
        r = fault < 0 ? csn_fail_sys(err, fault, "%s", step->name) : step->run(k, err);
    }
    if (r != CSN_OK && step->is_beside_child)
        r = csn_child_blame(k, r, err);
    if (r != CSN_OK)
        csn_setup_undo(k);
    return r;
}

void csn_setup_undo(csn_keeper *k)
{
    while (k->n_steps_done > 0) {
        const struct step *step = &steps[--k->n_steps_done];
        if (step->undo)
            step->undo(k);
    }
    if (k->is_cloned_early)
        csn_kill_child(k); /* it stands before its step did */
}
