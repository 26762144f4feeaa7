/* SPDX-License-Identifier: Apache-2.0 */
#include "way.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caps.h"
#include "lines.h"

/* The first user namespace's number, fixed since Linux 3.8 (USER_NS_INIT_INO of <linux/nsfs.h> from 6.18 on). Only there is
 * a capability one over devices, other users' ids and the file systems that the machine mounted. */
#define FIRST_USERNS 0xEFFFFFFDu

/* Systems give it to nobody: Debian reserves 65000 to 65533, and systemd's dynamic users end at 65519. It is in the map of
 * every container with the usual 65536 ids. */
#define PREFERRED_ID 65530u

#define BIT(cap) (UINT64_C(1) << (cap))

/* For ids: SETUID, SETGID; for mounts and namespaces: SYS_ADMIN; for /dev: MKNOD; for layers and disks of other ids: the rest. */
static const uint64_t needed = BIT(CAP_SYS_ADMIN) | BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_MKNOD) |
                               BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_KILL);

/* For a map to another id than one's own: SETUID, SETGID; to give files to it and to remove them again: the rest. */
static const uint64_t needed_for_other =
    BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER);

static bool is_in_first_userns(void)
{
    struct stat st;

    /* Without /proc nothing can be built either way, and the way that is tried first says so. */
    return stat("/proc/self/ns/user", &st) < 0 || st.st_ino == FIRST_USERNS;
}

const char *csn_way_why_ordinary(void)
{
    if (geteuid() != 0)
        return NULL;
    if (!is_in_first_userns())
        return "this root is the root of a user namespace, not the machine's";
    if ((csn_caps_effective() & needed) != needed)
        return "this root lacks capabilities that the machine's root has";
    return NULL;
}

csn_way csn_way_find(void)
{
    return geteuid() == 0 && !csn_way_why_ordinary() ? CSN_WAY_PRIVILEGED : CSN_WAY_ORDINARY;
}

/* --- the other id -------------------------------------------------------------------------------------------------- */

enum { MAP_SIZE = 4096 }; /* what lies beyond is as if it weren't there */

/* A line is: first id here, first id outside, how many. */
static bool next_extent(csn_str *rest, uint64_t *first, uint64_t *count)
{
    csn_str line;

    while (csn_str_split(rest, '\n', &line)) {
        csn_str inside = csn_lines_field(&line, ' ');
        (void) csn_lines_field(&line, ' ');
        if (csn_parse_u64(inside, first) == 0 &&
            csn_parse_u64(csn_lines_field(&line, ' '), count) == 0 && *count > 0)
            return true;
    }
    return false;
}

/* The highest id of `map` that is in [first, first + count), or 0. */
static uint64_t highest_in(csn_str map, uint64_t first, uint64_t count)
{
    uint64_t start, n, best = 0;

    while (next_extent(&map, &start, &n)) {
        uint64_t end = start + n < first + count ? start + n : first + count;
        if (end > start && end > first && end - 1 > best)
            best = end - 1;
    }
    return best;
}

uint32_t csn_way_choose_id(csn_str uids, csn_str gids)
{
    uint64_t first, count, best = 0;

    if (highest_in(uids, PREFERRED_ID, 1) && highest_in(gids, PREFERRED_ID, 1))
        return PREFERRED_ID;
    while (next_extent(&uids, &first, &count)) {
        uint64_t id = highest_in(gids, first, count);
        if (id > best && id < UINT32_MAX)
            best = id;
    }
    return (uint32_t) best;
}

typedef struct id_maps {
    char uids[MAP_SIZE], gids[MAP_SIZE];
} id_maps;

static int read_maps(id_maps *ret)
{
    int r = csn_small_read(AT_FDCWD, "/proc/self/uid_map", ret->uids, sizeof(ret->uids));

    return r < 0 ? r : csn_small_read(AT_FDCWD, "/proc/self/gid_map", ret->gids, sizeof(ret->gids));
}

static uint32_t find_other_id(void)
{
    id_maps maps;

    if (read_maps(&maps) < 0 || (csn_caps_effective() & needed_for_other) != needed_for_other)
        return 0;
    return csn_way_choose_id(csn_str_of(maps.uids), csn_str_of(maps.gids));
}

bool csn_way_has_ids(uid_t uid, gid_t gid)
{
    id_maps maps;

    return read_maps(&maps) >= 0 && highest_in(csn_str_of(maps.uids), uid, 1) == uid &&
           highest_in(csn_str_of(maps.gids), gid, 1) == gid;
}

/* This file is the kernel's own, so its owner is uid 0 of the first user namespace, and its group likewise. Shown as 0 it is
 * who we are; as anything else our 0 is somebody else outside. */
static bool is_kernels_root(void)
{
    struct stat st;

    return stat("/proc/version", &st) < 0 || st.st_uid == 0 || st.st_gid == 0;
}

const char *csn_way_owner(csn_owner *ret_owner)
{
    uint32_t id;

    if (geteuid() != 0) {
        *ret_owner = (csn_owner){ .uid = geteuid(), .gid = getegid() };
        return NULL;
    }
    id = find_other_id();
    if (id == 0 && is_kernels_root())
        return "this root is the kernel's uid 0 without the powers of the machine's root, and can't give "
               "sandboxes another id: start caisson as another user";
    *ret_owner = id ? (csn_owner){ .uid = id, .gid = id, .is_other = true }
                    : (csn_owner){ .uid = 0, .gid = getegid() };
    return NULL;
}
