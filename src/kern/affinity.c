/* SPDX-License-Identifier: Apache-2.0 */
#include "affinity.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"

enum { WORD_BITS = sizeof(unsigned long) * CHAR_BIT, MASK_WORDS = 1024 }; /* 65536 processors */

static int is_set(const unsigned long *mask, uint32_t cpu)
{
    return (mask[cpu / WORD_BITS] >> (cpu % WORD_BITS)) & 1;
}

/* Keeps `n` set bits, beginning with the first at or after `first`, round the end if need be. */
static void keep_from(unsigned long *mask, uint32_t n_bits, uint32_t first, uint32_t n)
{
    unsigned long kept[MASK_WORDS] = { 0 };

    for (uint32_t i = 0; i < n_bits && n > 0; i++) {
        uint32_t cpu = (first + i) % n_bits;
        if (!is_set(mask, cpu))
            continue;
        kept[cpu / WORD_BITS] |= 1ul << (cpu % WORD_BITS);
        n--;
    }
    memcpy(mask, kept, sizeof(kept));
}

void csn_affinity_send_away(pid_t child)
{
    unsigned long all[MASK_WORDS] = { 0 }, others[MASK_WORDS], any = 0;
    unsigned here = 0;
    long len = syscall(SYS_sched_getaffinity, child, sizeof(all), all);

    if (len <= 0 || syscall(SYS_getcpu, &here, NULL, NULL) < 0)
        return;
    memcpy(others, all, sizeof(all));
    others[here / WORD_BITS % MASK_WORDS] &= ~(1ul << (here % WORD_BITS));
    for (size_t i = 0; i < MASK_WORDS; i++)
        any |= others[i];
    if (any && syscall(SYS_sched_setaffinity, child, (size_t) len, others) == 0)
        (void) syscall(SYS_sched_setaffinity, child, (size_t) len, all); /* was valid a moment ago */
}

void csn_affinity_share(pid_t child)
{
    unsigned long all[MASK_WORDS] = { 0 };
    long len = syscall(SYS_sched_getaffinity, 0, sizeof(all), all);

    if (len > 0)
        (void) syscall(SYS_sched_setaffinity, child, (size_t) len, all); /* dead already: fine */
}

uint32_t csn_affinity_count(void)
{
    unsigned long mask[MASK_WORDS] = { 0 };
    uint32_t n = 0;

    if (syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask) > 0)
        for (size_t i = 0; i < MASK_WORDS; i++)
            n += (uint32_t) __builtin_popcountl(mask[i]);
    return n ? n : 1;
}

int csn_affinity_hold(uint32_t n)
{
    unsigned long mask[MASK_WORDS] = { 0 };
    unsigned here = 0;
    int r = csn_fault_as("sched_setaffinity", EINVAL);

    if (r < 0)
        return r;
    long len = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    if (len < 0 || syscall(SYS_getcpu, &here, NULL, NULL) < 0)
        return -errno;
    if (n == 0 || len == 0)
        return -EINVAL;
    keep_from(mask, (uint32_t) len * CHAR_BIT, here, n);
    return syscall(SYS_sched_setaffinity, 0, (size_t) len, mask) < 0 ? -errno : 0;
}

/* The number alone: calls of another architecture never get past the sandbox's own filter. */
int csn_affinity_lock(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0), /* not done, and no mistake */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { CSN_COUNT(code), code };
    int r = csn_fault_as("seccomp", EINVAL);

    if (r < 0)
        return r;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
