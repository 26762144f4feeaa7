/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_WAY_H
#define CSN_KERN_WAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/* The two ways to build a sandbox. What this process can do decides, not its uid: the root of an unprivileged container
 * has neither ids to hand out nor the right to make devices, and takes the ordinary user's way like anybody else. */
typedef enum csn_way {
    CSN_WAY_ORDINARY,   /* one id, bind mounts, all of it inside the new user namespace */
    CSN_WAY_PRIVILEGED, /* a range of ids for each sandbox, device nodes, mapped mounts: the host's root */
} csn_way;

/* Asks the kernel (two calls); the answer holds as long as the process keeps its ids and capabilities. */
csn_way csn_way_find(void);

/* Why root is not taken for the host's root: a static sentence, or NULL for the host's root and for ordinary users. */
const char *csn_way_why_ordinary(void);

/* On the ordinary way: who the sandbox's user is outside, and whose its files are. */
typedef struct csn_owner {
    uid_t uid;
    gid_t gid;
    bool is_other; /* not the caller: files have to be given to it */
} csn_owner;

/* An ordinary user's sandboxes have his own id. A root that takes the ordinary way gives them another one where it can,
 * since code that comes from nobody knows where must not be root of anything, above all not the kernel's uid 0, which owns
 * /proc/sys (R2). The choice is the same in every process with the same id map and capabilities.
 * NULL: *ret_owner is filled. Else a static sentence that says why no sandbox may be made. */
const char *csn_way_owner(csn_owner *ret_owner);

/* Whether these exist in our user namespace; neither is 0. */
bool csn_way_has_ids(uid_t uid, gid_t gid);

/* The id of such sandboxes, from the text of uid_map and gid_map: the preferred one, or else the highest that is both a
 * user's and a group's. 0: there is none besides root's. */
uint32_t csn_way_choose_id(csn_str uids, csn_str gids);

#endif
