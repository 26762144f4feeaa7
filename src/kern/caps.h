/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_CAPS_H
#define CSN_KERN_CAPS_H

#include <stdbool.h>
#include <stdint.h>

/* R3: what "root inside" may keep, within the sandbox's own user namespace. */
#define CSN_CAPS_ROOT_INSIDE \
    ((1ull << 0 /* CHOWN */) | (1ull << 1 /* DAC_OVERRIDE */) | (1ull << 3 /* FOWNER */) | \
     (1ull << 4 /* FSETID */) | (1ull << 5 /* KILL */) | (1ull << 6 /* SETGID */) | \
     (1ull << 7 /* SETUID */) | (1ull << 10 /* NET_BIND_SERVICE */))

typedef struct csn_caps {
    uint64_t effective, permitted, inheritable, bounding, ambient;
} csn_caps;

/* Empties all five sets of this thread. The bounding set goes first: that needs CAP_SETPCAP. A
 * process that never had CAP_SETPCAP keeps its bounding set and gets -EPERM. */
int csn_caps_drop_all(void);

/* As above, but effective, permitted and bounding become `mask`; inheritable and ambient become
 * empty: uid 0 gets its capabilities at exec from the bounding set. */
int csn_caps_keep(uint64_t mask);

/* Empties effective, permitted, inheritable and ambient and leaves the bounding set alone: for
 * processes that have no CAP_SETPCAP to lose. Never fails for want of privilege. */
int csn_caps_clear(void);

/* Only these are left, and what this thread executes has them, whoever it runs as; with PR_SET_KEEPCAPS they may come from
 * before a change of ids. */
int csn_caps_pass_on(uint64_t mask);

/* Only lowers the effective and permitted sets to their intersection with `mask`. */
int csn_caps_limit(uint64_t mask);

int csn_caps_get(csn_caps *ret_caps);

/* The effective set; 0 when it can't be read. */
uint64_t csn_caps_effective(void);

/* True when `cap` (CAP_…) is effective. */
bool csn_caps_have(int cap);

int csn_no_new_privs(void);

/* Not dumpable: nobody without privilege over us may trace us or read our /proc files (R11). */
int csn_dumpable_set(bool dumpable);

#endif
