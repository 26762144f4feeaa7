/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_MISSING_H
#define CSN_KERN_MISSING_H

/* What the headers of Debian 12's glibc, its musl 1.2.3 or linux-libc-dev 6.1 lack. Own struct
 * names, so that a libc which learns the type later doesn't collide; <linux/mount.h> and
 * <linux/sched.h> are not included anywhere because they fight with the libc's versions. */

#include <stdint.h>
#include <sys/syscall.h>

/* Numbers from 424 on are the same on every architecture. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef SYS_move_mount
#define SYS_move_mount 429
#endif
#ifndef SYS_fsopen
#define SYS_fsopen 430
#endif
#ifndef SYS_fsconfig
#define SYS_fsconfig 431
#endif
#ifndef SYS_fsmount
#define SYS_fsmount 432
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif

struct csn_clone_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    uint64_t set_tid, set_tid_size; /* 5.5 */
    uint64_t cgroup;                /* 5.7 */
};

#define CSN_CLONE_PIDFD       0x00001000ull
#define CSN_CLONE_NEWTIME     0x00000080ull
#define CSN_CLONE_NEWNS       0x00020000ull
#define CSN_CLONE_NEWCGROUP   0x02000000ull
#define CSN_CLONE_NEWUTS      0x04000000ull
#define CSN_CLONE_NEWIPC      0x08000000ull
#define CSN_CLONE_NEWUSER     0x10000000ull
#define CSN_CLONE_NEWPID      0x20000000ull
#define CSN_CLONE_NEWNET      0x40000000ull
#define CSN_CLONE_INTO_CGROUP 0x200000000ull

struct csn_open_how {
    uint64_t flags, mode, resolve;
};

#define CSN_RESOLVE_NO_XDEV       0x01u
#define CSN_RESOLVE_NO_MAGICLINKS 0x02u
#define CSN_RESOLVE_NO_SYMLINKS   0x04u
#define CSN_RESOLVE_BENEATH       0x08u
#define CSN_RESOLVE_IN_ROOT       0x10u

struct csn_mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

#define CSN_MOUNT_ATTR_IDMAP        0x00100000u
#define CSN_OPEN_TREE_CLONE         1u
#define CSN_OPEN_TREE_CLOEXEC       02000000u /* O_CLOEXEC, alike on x86_64 and aarch64 */
#define CSN_FSOPEN_CLOEXEC          1u
#define CSN_FSMOUNT_CLOEXEC         1u
#define CSN_MOVE_MOUNT_F_EMPTY_PATH 0x04u
#define CSN_MOVE_MOUNT_T_EMPTY_PATH 0x40u

enum { CSN_FSCONFIG_FLAG = 0, CSN_FSCONFIG_STRING = 1, CSN_FSCONFIG_CREATE = 6 };

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u /* 6.3 */
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020 /* 6.3 */
#endif
#ifndef PROC_SUPER_MAGIC
#define PROC_SUPER_MAGIC 0x9fa0
#endif
#ifndef CGROUP2_SUPER_MAGIC
#define CGROUP2_SUPER_MAGIC 0x63677270
#endif

#endif
