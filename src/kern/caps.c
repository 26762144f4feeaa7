/* SPDX-License-Identifier: Apache-2.0 */
#include "caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"

#define MAX_CAP 63 /* the kernel answers EINVAL from its last one on */

static int set_caps(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = {
        { (uint32_t) effective, (uint32_t) permitted, (uint32_t) inheritable },
        { (uint32_t) (effective >> 32), (uint32_t) (permitted >> 32),
          (uint32_t) (inheritable >> 32) },
    };

    int r = csn_fault("capset");
    if (r < 0)
        return r;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int get_caps(uint64_t *effective, uint64_t *permitted, uint64_t *inheritable)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    *effective = data[0].effective | (uint64_t) data[1].effective << 32;
    *permitted = data[0].permitted | (uint64_t) data[1].permitted << 32;
    *inheritable = data[0].inheritable | (uint64_t) data[1].inheritable << 32;
    return 0;
}

/* Forty calls per sandbox: so try at once, and look only when that is refused. */
static int lower_bounding(uint64_t mask)
{
    for (int cap = 0; cap <= MAX_CAP; cap++) {
        if (mask >> cap & 1 || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL)
            return 0; /* past the last capability this kernel knows */
        if (errno != EPERM || prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 0)
            return -EPERM; /* no right to, and it is still there */
    }
    return 0;
}

/* EINVAL: no ambient set in this kernel (before 4.3), so it is empty. */
static int clear_ambient(void)
{
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -errno;
    return 0;
}

int csn_caps_keep(uint64_t mask)
{
    int r = csn_fault("capbset");

    if (r == 0)
        r = lower_bounding(mask);
    if (r == 0)
        r = clear_ambient();
    if (r == 0)
        r = mask ? csn_caps_limit(mask) : set_caps(0, 0, 0);
    return r;
}

int csn_caps_drop_all(void)
{
    return csn_caps_keep(0);
}

int csn_caps_clear(void)
{
    int r = clear_ambient();

    return r < 0 ? r : set_caps(0, 0, 0);
}

int csn_caps_limit(uint64_t mask)
{
    uint64_t effective = 0, permitted = 0, inheritable = 0;
    int r = get_caps(&effective, &permitted, &inheritable);

    return r < 0 ? r : set_caps(effective & mask, permitted & mask, 0);
}

int csn_caps_pass_on(uint64_t mask)
{
    int r = lower_bounding(mask); /* what setns() gave has the right to: all */

    if (r == 0)
        r = set_caps(mask, mask, mask);
    for (unsigned long cap = 0; r == 0 && cap <= MAX_CAP; cap++)
        if (mask >> cap & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            r = -errno;
    return r;
}

int csn_caps_get(csn_caps *ret_caps)
{
    csn_caps caps = { 0, 0, 0, 0, 0 };
    int r = get_caps(&caps.effective, &caps.permitted, &caps.inheritable);

    if (r < 0)
        return r;
    for (int cap = 0; cap <= MAX_CAP; cap++) {
        int bounding = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (bounding < 0)
            break;
        if (bounding)
            caps.bounding |= 1ull << cap;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
            caps.ambient |= 1ull << cap;
    }
    *ret_caps = caps;
    return 0;
}

uint64_t csn_caps_effective(void)
{
    uint64_t effective = 0, permitted = 0, inheritable = 0;

    return get_caps(&effective, &permitted, &inheritable) < 0 ? 0 : effective;
}

bool csn_caps_have(int cap)
{
    return csn_caps_effective() >> cap & 1;
}

int csn_no_new_privs(void)
{
    int r = csn_fault("no_new_privs");

    if (r < 0)
        return r;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int csn_dumpable_set(bool dumpable)
{
    return prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0, 0, 0, 0) < 0 ? -errno : 0;
}
