/* SPDX-License-Identifier: Apache-2.0 */
#include "way.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caps.h"

/* The first user namespace's number, fixed since Linux 3.8 (USER_NS_INIT_INO of <linux/nsfs.h> from 6.18 on). Only there is
 * a capability one over devices, other users' ids and the file systems that the machine mounted. */
#define FIRST_USERNS 0xEFFFFFFDu

#define BIT(cap) (UINT64_C(1) << (cap))

/* For ids: SETUID, SETGID; for mounts and namespaces: SYS_ADMIN; for /dev: MKNOD; for layers and disks of other ids: the rest. */
static const uint64_t needed = BIT(CAP_SYS_ADMIN) | BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_MKNOD) |
                               BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_KILL);

static bool is_in_first_userns(void)
{
    struct stat st;

    return stat("/proc/self/ns/user", &st) == 0 && st.st_ino == FIRST_USERNS;
}

const char *csn_way_why_ordinary(void)
{
    csn_caps caps = { 0, 0, 0, 0, 0 };

    if (geteuid() != 0)
        return NULL;
    if (!is_in_first_userns())
        return "this root is the root of a user namespace, not the machine's";
    if (csn_caps_get(&caps) < 0 || (caps.effective & needed) != needed)
        return "this root lacks capabilities that the machine's root has";
    return NULL;
}

csn_way csn_way_find(void)
{
    return geteuid() == 0 && !csn_way_why_ordinary() ? CSN_WAY_PRIVILEGED : CSN_WAY_ORDINARY;
}
