/* Whose the files of a sandbox are on disk, for tests that run as any kind of user. */
#ifndef CSN_TEST_OWNER_H
#define CSN_TEST_OWNER_H

#include "kern/way.h"

static inline bool is_machines_root(void)
{
    return csn_way_find() == CSN_WAY_PRIVILEGED;
}

/* With privilege ids are kept; else all files belong to one. */
static inline uid_t owner_for(uid_t named)
{
    csn_owner owner = { .uid = (uid_t) -1 };

    if (is_machines_root() || csn_way_owner(&owner))
        return named;
    return owner.uid;
}

static inline gid_t group_for(gid_t named)
{
    csn_owner owner = { .gid = (gid_t) -1 };

    if (is_machines_root() || csn_way_owner(&owner))
        return named;
    return owner.gid;
}

#endif
