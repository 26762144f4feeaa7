/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_LANDLOCK_H
#define CSN_KERN_LANDLOCK_H

#include <stdint.h>

/* Landlock: a second wall round the file system that needs no privilege and can't be lifted.
 * No memory is allocated, so it may be used between clone and exec. */

/* What may be done below a directory (or with a file). */
#define CSN_LANDLOCK_READ  (1u << 0) /* read files, list directories */
#define CSN_LANDLOCK_EXEC  (1u << 1) /* execute files */
#define CSN_LANDLOCK_WRITE (1u << 2) /* write, truncate, create, remove, rename, link; no devices */
#define CSN_LANDLOCK_DEV   (1u << 3) /* ioctl on devices (terminals need it) */
#define CSN_LANDLOCK_NODES (1u << 4) /* create character and block device nodes */
#define CSN_LANDLOCK_WFILE (1u << 5) /* write and truncate existing files, nothing else */
#define CSN_LANDLOCK_RMDIR (1u << 6) /* remove empty directories, nothing else (cgroups) */

/* Flags of a ruleset. */
#define CSN_LANDLOCK_SCOPE_UNIX   (1u << 0) /* no abstract UNIX sockets from outside (ABI 6) */
#define CSN_LANDLOCK_SCOPE_SIGNAL (1u << 1) /* no signals to processes outside (ABI 6) */
#define CSN_LANDLOCK_NO_TCP       (1u << 2) /* neither TCP bind nor connect (ABI 4) */

typedef struct csn_landlock {
    int fd;           /* the ruleset, -1 when unset */
    int abi;          /* of the running kernel */
    uint64_t handled; /* file rights this kernel knows: all are handled */
} csn_landlock;

#define CSN_LANDLOCK_INIT \
    { \
        .fd = -1 \
    }

/* The ABI number (1…), -EOPNOTSUPP when switched off at boot, -ENOSYS when not built in. */
int csn_landlock_abi(void);

enum { CSN_LANDLOCK_SCOPES = 6 }; /* the ABI that has them: signals and abstract sockets */

/* Everything is refused until allowed. Flags the kernel is too old for are dropped silently:
 * compare csn_landlock_abi() when one of them is a wall you count on. */
int csn_landlock_begin(csn_landlock *rs, unsigned flags);

/* `fd`: a directory or file, O_PATH is enough. */
int csn_landlock_allow(csn_landlock *rs, int fd, unsigned rights);

/* Applies to this thread and all its children, closes the ruleset. Needs no_new_privs. */
int csn_landlock_restrict(csn_landlock *rs);

/* Closes a ruleset that is not applied after all. */
void csn_landlock_done(csn_landlock *rs);

#endif
