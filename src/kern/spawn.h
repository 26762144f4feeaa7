/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_SPAWN_H
#define CSN_KERN_SPAWN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All eight kinds (R5). */
#define CSN_CLONE_ALL_NS \
    (0x10000000ull /* USER */ | 0x00020000ull /* NS */ | 0x20000000ull /* PID */ | \
     0x40000000ull /* NET */ | 0x08000000ull /* IPC */ | 0x04000000ull /* UTS */ | \
     0x02000000ull /* CGROUP */ | 0x00000080ull /* TIME */)

/* fork() with namespaces: returns the pid in the parent, 0 in the child, -errno on failure. `flags`
 * are CLONE_…, without CLONE_VM and its kin. *ret_pidfd (may be NULL) is born close-on-exec.
 * `cgroup_fd` >= 0 is a v2 cgroup directory the child is born in; -ENOTSUP if the kernel can't
 * (before 5.7). Where clone3 is missing, clone() does the same for all else; a time namespace is
 * then made by the child, which asks csn_clone_late() before it relies on it. -EUSERS: a limit on
 * namespaces, for which the kernel says ENOSPC, as for a full disk. Only for single-threaded
 * processes: no atfork handler runs. */
pid_t csn_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd);

/* In the child of csn_clone() with CLONE_NEWTIME: 0, or -errno when it has no time namespace of its own. */
int csn_clone_late(void);

/* unshare() with the same -EUSERS. */
int csn_unshare(uint64_t flags);

/* Replaces this process by the program in `fd` (a sealed memfd or O_PATH file). Returns only to
 * fail. */
int csn_exec_fd(int fd, char *const argv[], char *const envp[]);

/* A memfd holding `len` bytes that nobody can change any more; executable. */
int csn_memfd_sealed(const char *name, const void *bytes, size_t len, int *ret_fd);

/* 0 when `fd` is a memfd with the seals of csn_memfd_sealed(), -EPERM otherwise. */
int csn_memfd_check_sealed(int fd);

/* Starts argv[0] (an absolute path) with descriptors 0, 1, 2 taken from `stdio` and `n_keep` more
 * from `keep`, which become 3, 4, …; everything else is closed. It has mounts of its own
 * (csn_own_mounts()). Fork and exec, so only for single-threaded processes. The program is killed
 * when the calling thread ends. */
int csn_spawn_program(char *const argv[], char *const envp[], const int stdio[3], const int *keep,
                      size_t n_keep, pid_t *ret_pid, int *ret_pidfd);

/* The same; `prepare(user)` runs in the child as the last thing before exec, with the descriptors in
 * place, and keeps the program from starting when it returns -errno. It takes the place of
 * csn_own_mounts(): it calls that, or takes away the right to mount. With `program_fd` (-1: none)
 * that file is executed and argv[0] is only its name: whoever `prepare` makes of us may not be able
 * to walk to it. */
int csn_spawn_prepared(int program_fd, char *const argv[], char *const envp[], const int stdio[3],
                       const int *keep, size_t n_keep, int (*prepare)(void *user), void *user,
                       pid_t *ret_pid, int *ret_pidfd);

#endif
