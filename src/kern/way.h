/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_WAY_H
#define CSN_KERN_WAY_H

#include <stddef.h>

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

#endif
