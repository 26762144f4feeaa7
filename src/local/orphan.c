/* Keepers of ours that no box speaks for any more: those of detached sandboxes, which go on, and those that have said
 * everything and are just exiting. The kernel wants their end to be taken note of; the loop tells when. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "local/local.h"

enum { EXIT_WAIT_MS = 5000 };

typedef struct orphan {
    csn_list link; /* in csn_local.orphans */
    csn_source *source;
    int pidfd; /* -1: it is looked after when somebody comes by */
    pid_t pid;
    bool is_exiting;
} orphan;

static void forget(orphan *o)
{
    csn_list_remove(&o->link);
    o->source = csn_source_remove(o->source);
    csn_close(&o->pidfd);
    free(o);
}

static void on_exit_seen(csn_source *src, uint32_t events, void *user)
{
    orphan *o = user;

    (void) src;
    (void) events;
    (void) waitpid(o->pid, NULL, WNOHANG); /* or the host program was faster */
    forget(o);
}

void csn_orphan_add(csn_local *local, pid_t pid, bool is_exiting)
{
    orphan *o;

    if (pid <= 0 || csn_child_wait(pid, 0))
        return;
    o = csn_calloc(1, sizeof(*o));
    if (!o)
        return; /* stays a zombie until the host program ends */
    *o = (orphan){ .pid = pid, .is_exiting = is_exiting };
    o->pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    csn_list_append(&local->orphans, &o->link);
    if (o->pidfd >= 0 &&
        csn_loop_add(local->base.loop, o->pidfd, EPOLLIN, on_exit_seen, o, &o->source) < 0)
        csn_close(&o->pidfd);
}

void csn_orphans_reap(csn_local *local)
{
    csn_list_foreach (node, &local->orphans) {
        orphan *o = csn_list_entry(node, orphan, link);
        if (csn_child_wait(o->pid, 0))
            forget(o);
    }
}

void csn_orphans_leave(csn_local *local)
{
    csn_list *node;

    while ((node = csn_list_first(&local->orphans))) {
        orphan *o = csn_list_entry(node, orphan, link);
        if (o->is_exiting && !local->is_for_one)
            csn_child_reap(o->pid, EXIT_WAIT_MS);
        else
            (void) csn_child_wait(o->pid, 0); /* it goes on without us */
        forget(o);
    }
}
