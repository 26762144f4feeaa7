/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_CAUSE_H
#define CSN_KERN_CAUSE_H

#include <stdbool.h>
#include <stddef.h>

/* Why the kernel refused a part of a sandbox, by what this process can see: its own filter, a few sysctls, the mounts over
 * /proc. The only place where these sentences are made. */

/* What was tried when it was refused. */
typedef enum csn_try {
    CSN_TRY_CALL,      /* a system call that needs no privilege */
    CSN_TRY_USERNS,    /* to make a user namespace */
    CSN_TRY_NAMESPACE, /* to make one of another kind in it */
    CSN_TRY_RIGHTS,    /* what needs a capability in the new user namespace */
    CSN_TRY_PROC,      /* to mount a procfs there */
    CSN_TRY_LANDLOCK,
    CSN_TRY_OTHER,
} csn_try;

typedef struct csn_cause {
    char why[128];    /* empty: nothing here explains it */
    char remedy[288]; /* a command or a setting for whoever asks; empty with `why` */
} csn_cause;

/* `error` is the errno; -EUSERS of csn_clone() stands for a limit on namespaces. `kind`: "net", "mnt", … for
 * CSN_TRY_NAMESPACE, else NULL. True when something explains it. */
bool csn_cause_find(csn_try what, int error, const char *kind, csn_cause *ret_cause);

/* "sudo " for ordinary users, "" for root. */
const char *csn_sudo(void);

/* True when a seccomp filter is over this process. */
bool csn_is_filtered(void);

#endif
