/* SPDX-License-Identifier: Apache-2.0 */
/* A moment's freeze, in which a client copies the upper layers. */

#include <errno.h>
#include <signal.h>

#include "serve.h"

/* Without a freezer everyone but init is stopped; what slips through writes to files that are copied as they are. */
static int freeze(csn_keeper *k)
{
    int r = k->cgroup.n > 0 ? csn_cgroup_freeze(&k->cgroup) : -ENOTSUP;

    if (r != -ENOTSUP)
        return r;
    csn_link_kill(k, 0, SIGSTOP, false);
    return 0;
}

void csn_lend(csn_client *client, uint32_t seq)
{
    csn_keeper *k = client->k;
    const csn_done done = { .value = 0 };
    const int fds[2] = { k->disk_fd, k->userns_fd };
    csn_error err;
    int r = CSN_OK;

    if (k->is_ending || k->lender)
        r = csn_fail(&err, k->lender ? CSN_E_BUSY : CSN_E_STATE, "the sandbox is %s",
                     k->lender ? "frozen for another copy" : "about to end");
    if (r == CSN_OK && (r = freeze(k)) < 0)
        r = csn_fail_sys(&err, r, "freeze sandbox '%s'", k->plan.id);
    if (r != CSN_OK) {
        csn_reply_error(client, seq, &err);
        return;
    }
    k->lender = client;
    csn_reply(client, &(csn_out){ .type = CSN_FRAME_DONE,
                                  .seq = seq,
                                  .fixed = &done,
                                  .fixed_len = sizeof(done),
                                  .fds = fds,
                                  .n_fds = 2 });
}

void csn_thaw(csn_keeper *k)
{
    int r = k->cgroup.n > 0 ? csn_cgroup_thaw(&k->cgroup) : -ENOTSUP;

    k->lender = NULL;
    if (r == -ENOTSUP)
        csn_link_kill(k, 0, SIGCONT, false);
    else if (r < 0)
        csn_end_now(k, CSN_ENDED_LOST); /* frozen for ever: it could not even be used */
}
