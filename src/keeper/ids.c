/* SPDX-License-Identifier: Apache-2.0 */
/* R2: who the sandbox's users are outside. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "kern/userns.h"
#include "setup.h"

enum { HELPER_WAIT_MS = 5000 };

static int map_range(csn_keeper *k, csn_error *err)
{
    const int64_t base = csn_walls_off(k) & CSN_WALL_ID_RANGE ? 0 : k->plan.id_base;
    const csn_idmap map = { 0, (uint32_t) base, CSN_INSIDE_IDS };
    int r = csn_userns_map(k->init_pid, &map, 1, &map, 1, false);

    return r < 0 ? csn_fail_sys(err, r, "map ids from %lld on", (long long) k->plan.id_base)
                 : CSN_OK;
}

static int map_self(csn_keeper *k, csn_error *err)
{
    const csn_idmap uid = { CSN_INSIDE_UID, k->owner.uid, 1 },
                    gid = { CSN_INSIDE_UID, k->owner.gid, 1 };
    /* Groups of the caller's can't be dropped without privilege; who can choose the id drops them. */
    int r = csn_userns_map(k->init_pid, &uid, 1, &gid, 1, !k->owner.is_other);

    return r < 0 ? csn_fail_sys(err, r, "map uid %u", (unsigned) k->owner.uid) : CSN_OK;
}

/* The caller's own id is the sandbox's user; all others come from his subordinate range. */
static void fill_split(csn_idmap out[3], uint32_t own, uint32_t start)
{
    out[0] = (csn_idmap){ 0, start, CSN_INSIDE_UID };
    out[1] = (csn_idmap){ CSN_INSIDE_UID, own, 1 };
    out[2] = (csn_idmap){ CSN_INSIDE_UID + 1, start + CSN_INSIDE_UID,
                          CSN_INSIDE_IDS - CSN_INSIDE_UID - 1 };
}

static int map_subordinate(csn_keeper *k, csn_error *err)
{
    csn_idmap uids[3], gids[3];
    uint32_t uid_start = 0, gid_start = 0, n = 0;
    int r = csn_subid_find("/etc/subuid", geteuid(), NULL, CSN_INSIDE_IDS - 1, &uid_start, &n);

    if (r == 0)
        r = csn_subid_find("/etc/subgid", geteuid(), NULL, CSN_INSIDE_IDS - 1, &gid_start, &n);
    if (r < 0)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "root inside needs 65536 ids for uid %u in /etc/subuid and /etc/subgid",
                        (unsigned) geteuid());
    fill_split(uids, k->owner.uid, uid_start);
    fill_split(gids, k->owner.gid, gid_start);
    r = csn_userns_map_helper(k->init_pid, uids, 3, gids, 3, csn_deadline_in_ms(HELPER_WAIT_MS));
    if (r == -ENOENT)
        return csn_fail(err, CSN_E_UNSUPPORTED,
                        "root inside needs newuidmap and newgidmap (Debian: uidmap)");
    return r < 0 ? csn_fail_sys(err, r, "map ids with newuidmap") : CSN_OK;
}

/* R20: when the host runs out of memory, sandboxes go before what serves them. */
static int make_expendable(csn_keeper *k, csn_error *err)
{
    char path[64];
    int r;

    (void) snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int) k->init_pid); /* fits */
    r = csn_write_file(AT_FDCWD, path, "500", 3);
    return r < 0 ? csn_fail_sys(err, r, "lower the sandbox's OOM rank") : CSN_OK;
}

/* With privilege it can wait until the child is busy; without, the file is ours only until the child changes its ids. */
int csn_ids_rank(csn_keeper *k, csn_error *err)
{
    return k->is_privileged ? make_expendable(k, err) : CSN_OK;
}

int csn_ids_map(csn_keeper *k, csn_error *err)
{
    int r = CSN_OK;

    if (csn_walls_off(k) & CSN_WALL_USERNS)
        ; /* a test: there is nothing to map */
    else if (k->is_privileged)
        r = map_range(k, err);
    else
        r = k->plan.flags & CSN_PLAN_ROOT_INSIDE ? map_subordinate(k, err) : map_self(k, err);
    if (r != CSN_OK)
        return r;
    if (k->plan.flags & CSN_PLAN_OUTBOUND) {
        r = csn_await_namespaces(k, err);
        if (r != CSN_OK)
            return r;
    }
    r = csn_hold_open(k->init_pid, "user", &k->userns_fd);
    if (r == 0 && k->plan.flags & CSN_PLAN_OUTBOUND)
        r = csn_hold_open(k->init_pid, "net", &k->netns_fd);
    if (r < 0)
        return csn_fail_sys(err, r, "open the sandbox's namespaces");
    return k->is_privileged ? CSN_OK : make_expendable(k, err);
}
