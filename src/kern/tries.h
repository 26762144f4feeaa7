/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_TRIES_H
#define CSN_KERN_TRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What sandboxes are made of, tried for real in forked children, the way this process's sandboxes take (way.h). Nothing
 * remains. All return 0 or -errno; a limit on namespaces is -EUSERS. */

/* New namespaces with the ids mapped as a sandbox's are. */
int csn_try_namespaces(uint64_t flags);
int csn_try_rights(void); /* something that needs a capability in the new user namespace */
int csn_try_no_nesting(void);
int csn_try_overlay(void);
int csn_try_proc(void);
int csn_try_pivot(void);
int csn_try_filter(void);
int csn_try_net_filter(void); /* what the outbound policy is held by */

/* The privileged way only. */
int csn_try_id_range(void);
int csn_try_devices(void);
int csn_try_idmap(const char *path); /* of the file system that `path` is on */

/* Makes a file in `dir`, writes to it, removes it. */
int csn_try_write(const char *dir);

/* pidfd_send_signal: without it sandboxes' processes are ended by number. */
int csn_try_pidfd_signal(void);

/* The first system call that a sandbox can't do without and that is refused: its name, since which Linux it is there
 * ("5.6"), and -errno; 0 and NULLs when all are there. */
int csn_try_calls(const char **ret_name, const char **ret_since);

#endif
