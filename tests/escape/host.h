/* SPDX-License-Identifier: Apache-2.0 */
/* What the host sees of a sandbox's processes, by /proc. */
#ifndef CSN_TESTS_HOST_H
#define CSN_TESTS_HOST_H

#include <sys/types.h>

#include "story/story.h"

pid_t init_of(csn_sandbox *box);   /* as the host numbers it */
pid_t keeper_of(csn_sandbox *box); /* the same */

/* The value after "key:" in /proc/<pid>/status, "" if there is none. In a static buffer. */
const char *status_of(pid_t pid, const char *key);

/* Init and all that descend from it; at most `max`. */
size_t processes_of(csn_sandbox *box, pid_t *pids, size_t max);

/* R2, R3, R4, R14 for every process of the sandbox that lives now; `way` is how the last one was started, `comm` its
 * name, which must be among them (NULL: any). */
void check_policy(csn_sandbox *box, const char *way, const char *comm);

/* A directory of the host with one file `secret` in it, which holds HOST_TEXT; gone when the test ends. */
#define HOST_TEXT "canary-of-the-host\n"
const char *a_host_directory(void);
void check_untouched(const char *dir); /* still that file alone, and as it was */

#endif
