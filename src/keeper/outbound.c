/* SPDX-License-Identifier: Apache-2.0 */
/* The policy "outbound": a user-mode network, with everything that is not the public internet refused (R26). */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kern/net.h"
#include "kern/pidfd.h"
#include "kern/spawn.h"
#include "setup.h"

enum { SLIRP_WAIT_MS = 5000 };

/* In the sandbox's network namespace, by a child that stays there: the keeper goes nowhere. */
static int run_inside(csn_keeper *k, int (*run)(const csn_net_addr *addrs, size_t n))
{
    static csn_net_addr addrs[CSN_NET_MAX_ADDRS];
    csn_auto(fd) int pidfd = -1;
    csn_child_end end;
    size_t n = 0;
    int r = csn_net_addresses(addrs, CSN_NET_MAX_ADDRS, &n);

    if (r < 0)
        return r;
    pid_t pid = csn_clone(0, -1, &pidfd);
    if (pid == 0) {
        if (setns(k->userns_fd, CLONE_NEWUSER) < 0 || setns(k->netns_fd, CLONE_NEWNET) < 0)
            _exit(errno);
        _exit(-run(addrs, n));
    }
    if (pid < 0)
        return pid;
    r = csn_pidfd_reap_until(pidfd, csn_deadline_in_ms(SLIRP_WAIT_MS), &end);
    if (r < 0) {
        (void) csn_pidfd_signal(pidfd,
                                SIGKILL); /* the start fails: what is half done goes with it */
        (void) csn_pidfd_reap(pidfd, false, &end);
        return r;
    }
    return end.by_signal ? -EIO : -end.status;
}

static int refuse_routes(const csn_net_addr *addrs, size_t n)
{
    return csn_net_refuse_private(-1, addrs, n);
}

/* Before there is a link: nothing gets out in between. */
static int refuse_private(csn_keeper *k, csn_error *err)
{
    int r = run_inside(k, csn_net_filter);

    if (r == -ENOMEM || r == -ETIMEDOUT)
        return csn_fail_sys(err, r, "filter the network");
    if (r < 0)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "network 'outbound' needs nftables in a network namespace: %s"
                        " (modprobe nf_tables)",
                        strerror(-r));
    r = run_inside(k, refuse_routes);
    return r < 0 ? csn_fail_sys(err, r, "refuse private addresses") : CSN_OK;
}

/* That no network can be had here is for the caller to know, in these words. */
static int fail_slirp(csn_error *err, int r, const csn_slirp_end *why)
{
    const char *colon = why->said[0] ? ": " : "";

    if (r == -ENETDOWN && why->end.by_signal)
        return csn_fail(err, CSN_E_UNSUPPORTED, "network 'outbound': slirp4netns was killed by signal %d%s%s", why->end.status,
                        colon, why->said);
    if (r == -ENETDOWN)
        return csn_fail(err, CSN_E_UNSUPPORTED, "network 'outbound': slirp4netns ended with status %d%s%s", why->end.status,
                        colon, why->said);
    if (r == -ETIMEDOUT)
        return csn_fail(err, CSN_E_TIMEOUT, "network 'outbound': slirp4netns made no link within %d s%s%s",
                        SLIRP_WAIT_MS / 1000, colon, why->said);
    return csn_fail_sys(err, r, "start slirp4netns");
}

int csn_outbound_start(csn_keeper *k, csn_error *err)
{
    csn_slirp_end why = { .said = "" };
    csn_slirp slirp = { .netns_fd = k->netns_fd,
                        .userns_fd = k->userns_fd,
                        .is_inside = k->is_privileged,
                        .cgroup = &k->cgroup };
    const char *missing, *remedy;
    int r;

    if (!(k->plan.flags & CSN_PLAN_OUTBOUND))
        return CSN_OK;
    if (csn_slirp_check(&missing, &remedy) < 0)
        return csn_fail(err, CSN_E_UNSUPPORTED, "network 'outbound' needs %s (%s)", missing, remedy);
    r = refuse_private(k, err);
    if (r != CSN_OK)
        return r;
    slirp.program = csn_slirp_find();
    r = csn_slirp_start(&slirp, csn_deadline_in_ms(SLIRP_WAIT_MS), &k->slirp_pid, &k->slirp_pidfd,
                        &why);
    return r < 0 ? fail_slirp(err, r, &why) : CSN_OK;
}

void csn_outbound_stop(csn_keeper *k)
{
    csn_child_end end;

    if (k->slirp_pidfd < 0)
        return;
    (void) csn_pidfd_signal(k->slirp_pidfd, SIGKILL); /* gone already: fine */
    (void) csn_pidfd_reap(k->slirp_pidfd, false, &end);
    csn_close(&k->slirp_pidfd);
}
