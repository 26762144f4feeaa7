/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "kern/seccomp_bpf.h" /* made from seccomp_table.h */

#if defined(__x86_64__)
#define PROGRAM(profile) csn_bpf_x86_64_##profile, CSN_COUNT(csn_bpf_x86_64_##profile)
#elif defined(__aarch64__)
#define PROGRAM(profile) csn_bpf_aarch64_##profile, CSN_COUNT(csn_bpf_aarch64_##profile)
#else
#error "seccomp_table.h has no numbers for this architecture"
#endif

static const struct {
    const struct sock_filter *code;
    size_t len;
} programs[CSN_SECCOMP_N_PROFILES] = {
    [CSN_SECCOMP_DEFAULT] = { PROGRAM(default) },
    [CSN_SECCOMP_DEBUG] = { PROGRAM(debug) },
    [CSN_SECCOMP_KEEPER] = { PROGRAM(keeper) },
};

const struct sock_filter *csn_seccomp_program(enum csn_seccomp_profile profile, size_t *ret_len)
{
    if ((unsigned) profile >= CSN_SECCOMP_N_PROFILES)
        return NULL;
    *ret_len = programs[profile].len;
    return programs[profile].code;
}

int csn_seccomp_install(enum csn_seccomp_profile profile, unsigned flags)
{
    size_t len = 0;
    const struct sock_filter *code = csn_seccomp_program(profile, &len);
    unsigned how = SECCOMP_FILTER_FLAG_TSYNC;
    int r = csn_fault_as("seccomp", EINVAL);

    if (r < 0 || !code)
        return r < 0 ? r : -EINVAL;
    if (flags & CSN_SECCOMP_LOG)
        how |= SECCOMP_FILTER_FLAG_LOG;
    struct sock_fprog program = { (unsigned short) len, (struct sock_filter *) (uintptr_t) code };
    long tid = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, how, &program);
    if (tid < 0)
        return -errno;
    return tid > 0 ? -EBUSY : 0; /* a thread with another filter that can't be changed */
}
