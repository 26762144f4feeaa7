/* SPDX-License-Identifier: Apache-2.0 */
/* Signals, and the end of whole trees. A tree is stopped first, process by process, until a look at it finds nobody new:
 * a fork bomb at its limit then has no free place to grow into while it is killed. Between two steps init goes back to
 * its loop. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "init/init.h"
#include "init/sys.h"
#include "init/tree.h"

enum {
    STOP_PASSES_MAX = 20,
    EMPTY_PASSES_MAX = 20, /* then even the shepherd goes */
    ORPHAN_PASSES_MAX = 100,
    DELAY_MAX_MS = 50,
    BOMB_TASKS = 256
};

static pid_t found[CSN_TREE_MAX], before[CSN_TREE_MAX];

static void signal_all(const pid_t *pids, size_t n, int sig)
{
    for (size_t i = 0; i < n; i++)
        (void) kill(pids[i], sig); /* gone meanwhile: fine */
}

/* Are all of a in b? Both ascend. */
static int is_subset(const pid_t *a, size_t n_a, const pid_t *b, size_t n_b)
{
    size_t j = 0;

    for (size_t i = 0; i < n_a; i++) {
        while (j < n_b && b[j] < a[i])
            j++;
        if (j == n_b || b[j] != a[i])
            return 0;
    }
    return 1;
}

static void start_job(csn_slot *slot)
{
    slot->phase = CSN_JOB_STOP;
    slot->n_passes = slot->n_empty = 0;
    slot->next_ms = 0;
}

/* Its shepherd is gone, its tree too: init has the last word. */
static void report_for_shepherd(csn_slot *slot)
{
    int status = atomic_load(&slot->is_killed) ? SIGKILL : -1;

    if (atomic_load(&slot->said) == CSN_SAID_NOTHING)
        csn_say_failed(slot->process, CSN_STAGE_FORK, ECHILD);
    else
        csn_say_exited(slot->process, status, &slot->usage, csn_tasks_since(slot->first_pid));
    csn_slot_free(slot);
}

static int is_only_command(const csn_slot *slot)
{
    for (size_t i = 0; i < csn_n_slots; i++)
        if (csn_slots[i].process != 0 && &csn_slots[i] != slot)
            return 0;
    return 1;
}

/* With no other command to disturb, one call stops all at once; shepherd, workers and what earlier commands left behind
 * go on when the tree is dead. */
static void stop_tree(csn_slot *slot)
{
    const int at_once = is_only_command(slot);
    size_t n_before = 0, n = 0, n_spared;

    if (at_once)
        (void) kill(-1, SIGSTOP); /* nobody there: fine */
    for (int i = 0; i < STOP_PASSES_MAX; i++) {
        n = csn_tree_signal(slot, SIGSTOP, found, &n_spared);
        if (i > 0 && is_subset(found, n, before, n_before))
            break;
        memcpy(before, found, n * sizeof(found[0]));
        n_before = n;
    }
    signal_all(found, n, SIGKILL);
    if (at_once)
        (void) kill(-1, SIGCONT); /* as above */
    slot->phase = CSN_JOB_KILL;
}

static void kill_again(csn_slot *slot)
{
    size_t n_spared, n = csn_tree_signal(slot, SIGKILL, found, &n_spared);

    n += n_spared;
    slot->n_empty = n == 0 ? slot->n_empty + 1 : 0;
    if (slot->shepherd > 0 && slot->n_empty >= EMPTY_PASSES_MAX)
        (void) kill(slot->shepherd, SIGKILL); /* its end brings the report */
    else if (slot->shepherd == 0 && (n == 0 || slot->n_passes >= ORPHAN_PASSES_MAX))
        report_for_shepherd(slot);
}

static void do_pass(csn_slot *slot, int64_t now_ms)
{
    int64_t delay_ms = (int64_t) slot->n_passes + 1;

    slot->n_passes++;
    slot->next_ms = now_ms + (delay_ms < DELAY_MAX_MS ? delay_ms : DELAY_MAX_MS);
    if (slot->shepherd > 0)
        (void) kill(slot->shepherd, SIGCONT); /* it may have been stopped; it is needed to reap */
    if (slot->phase == CSN_JOB_STOP)
        stop_tree(slot);
    else
        kill_again(slot);
}

int csn_kill_step(void)
{
    int64_t now_ms = -1, next_ms = -1;

    for (size_t i = 0; i < csn_n_slots; i++) {
        csn_slot *slot = &csn_slots[i];
        if (slot->phase == CSN_JOB_NONE)
            continue;
        if (now_ms < 0)
            now_ms = csn_sys_now_ms();
        if (slot->next_ms <= now_ms)
            do_pass(slot, now_ms);
        if (slot->phase != CSN_JOB_NONE && (next_ms < 0 || slot->next_ms < next_ms))
            next_ms = slot->next_ms;
    }
    if (next_ms < 0)
        return -1;
    return next_ms > now_ms ? (int) (next_ms - now_ms) : 0;
}

void csn_shepherd_is_gone(csn_slot *slot, const struct rusage *usage)
{
    if (atomic_load(&slot->said) == CSN_SAID_END) {
        csn_slot_free(slot);
        return;
    }
    slot->shepherd = 0;
    slot->usage = *usage;
    atomic_store(&slot->main_pid, 0);
    if (slot->phase != CSN_JOB_KILL)
        start_job(slot);
}

/* Everyone but us, in one call that no fork slips through. */
static void signal_everyone(int sig)
{
    for (size_t i = 0; sig == SIGKILL && i < csn_n_slots; i++)
        if (csn_slots[i].process != 0)
            atomic_store(&csn_slots[i].is_killed, 1);
    (void) kill(-1, sig); /* nobody there: fine */
}

static int has_workers(void)
{
    for (size_t i = 0; i < CSN_WORKERS_MAX; i++)
        if (csn_workers[i] != 0)
            return 1;
    return 0;
}

/* A fork bomb that is all there is besides us needs no look at who is whose: one call, though it takes the shepherd and
 * what it counted. To stop hundreds of busy processes first takes each of them a turn on the processor. */
static int kill_as_bomb(csn_slot *slot)
{
    if (!is_only_command(slot) || has_workers() || atomic_load(csn_has_leftovers) ||
        csn_tasks_since(slot->first_pid) < BOMB_TASKS)
        return 0;
    start_job(slot);
    slot->phase = CSN_JOB_KILL;
    (void) kill(-1, SIGKILL); /* nobody there: fine */
    return 1;
}

static void kill_tree(csn_slot *slot)
{
    atomic_store(&slot->is_killed, 1);
    if (slot->is_alone)
        (void) kill(-1, SIGKILL); /* with it the sandbox ends: nobody is to be spared */
    else if (slot->phase == CSN_JOB_NONE && !kill_as_bomb(slot))
        start_job(slot);
}

void csn_init_kill_request(const csn_init_kill *request)
{
    csn_slot *slot = csn_slot_of_process(request->process);
    pid_t main_pid;
    size_t n_spared;

    if (request->signal < 1 || request->signal > 64)
        return;
    if (request->process == 0) {
        if (request->signal == SIGSTOP)
            csn_freeze();
        else if (request->signal == SIGCONT)
            csn_thaw();
        else
            signal_everyone(request->signal);
        return;
    }
    if (!slot)
        return; /* it has ended meanwhile, and the keeper will hear or has heard */
    if (request->whole_tree && request->signal == SIGKILL) {
        kill_tree(slot);
    } else if (request->whole_tree && slot->is_alone && is_only_command(slot) && !has_workers()) {
        (void) kill(-1, request->signal); /* nobody there: fine */
    } else {
        if (request->whole_tree)
            (void) csn_tree_signal(slot, request->signal, found, &n_spared);
        main_pid = atomic_load(&slot->main_pid);
        if (main_pid > 0 && (!request->whole_tree || slot->is_alone)) /* a lone one stands where its shepherd would */
            (void) kill(main_pid, request->signal); /* gone meanwhile: fine */
    }
}
