/* Keepers of ours that no box speaks for any more: those of detached sandboxes, which go on, and those that have said
 * everything and are just exiting. The kernel wants their end to be taken note of. For the latter that is a matter of a
 * moment: a timer looks until they are gone, and kills who takes too long. The others are looked at when somebody comes by. */
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/fault.h"
#include "base/time.h"
#include "local/local.h"

enum { EXIT_WAIT_MS = 5000, FIRST_LOOK_MS = 1, LAST_LOOK_MS = 100 };

typedef struct orphan {
    csn_list link; /* in csn_local.orphans */
    pid_t pid;
    bool is_exiting;
    int64_t late_ns; /* then one that is exiting is killed */
} orphan;

static void forget(orphan *o)
{
    csn_list_remove(&o->link);
    free(o);
}

static void on_look(csn_timer *timer, void *user);

static void look_in_ms(csn_local *local, int ms)
{
    local->orphan_wait_ms = ms;
    /* It can't be set: they are zombies until somebody comes by. */
    (void) csn_timer_set(local->base.loop, &local->orphan_timer, csn_deadline_in_ms(ms), on_look, local);
}

/* Whether one is still on its way out. */
static bool reap(csn_local *local)
{
    bool is_any = false;

    csn_list_foreach (node, &local->orphans) {
        orphan *o = csn_list_entry(node, orphan, link);
        if (csn_child_wait(o->pid, 0)) {
            forget(o);
            continue;
        }
        is_any |= o->is_exiting;
        if (o->is_exiting && csn_deadline_passed(o->late_ns))
            (void) kill(o->pid, SIGKILL); /* our unreaped child, so the number is still its own */
    }
    return is_any;
}

static void on_look(csn_timer *timer, void *user)
{
    csn_local *local = user;
    int next_ms = local->orphan_wait_ms * 2;

    (void) timer;
    if (reap(local))
        look_in_ms(local, next_ms < LAST_LOOK_MS ? next_ms : LAST_LOOK_MS);
}

void csn_orphan_add(csn_local *local, pid_t pid, bool is_exiting)
{
    orphan *o;

    if (pid <= 0 || csn_child_wait(pid, 0))
        return;
    o = csn_calloc(1, sizeof(*o));
    if (!o)
        return; /* stays a zombie until the host program ends */
    *o = (orphan){ .pid = pid,
                   .is_exiting = is_exiting,
                   .late_ns = csn_deadline_in_ms(EXIT_WAIT_MS) };
    csn_list_append(&local->orphans, &o->link);
    if (is_exiting)
        look_in_ms(local, FIRST_LOOK_MS);
}

void csn_orphans_reap(csn_local *local)
{
    (void) reap(local);
}

void csn_orphans_leave(csn_local *local)
{
    csn_list *node;

    csn_timer_cancel(&local->orphan_timer);
    while ((node = csn_list_first(&local->orphans))) {
        orphan *o = csn_list_entry(node, orphan, link);
        if (o->is_exiting) /* not left to whoever adopts it: process 1 of a container often reaps nobody */
            csn_child_reap(o->pid, EXIT_WAIT_MS);
        else
            (void) csn_child_wait(o->pid, 0); /* it goes on without us */
        forget(o);
    }
}
