/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_INIT_SYS_H
#define CSN_INIT_SYS_H

/* System calls that one of the libcs does not offer, or wraps in more than init wants. All return >= 0 or -errno. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

pid_t csn_sys_fork(void); /* plain clone(SIGCHLD): no handlers, no locks; init has one thread */
int csn_sys_openat(int dirfd, const char *path, int flags, unsigned mode, uint64_t resolve);
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1 /* musl before 1.2.5 doesn't know it */
#endif
/* `how`: 0 or RENAME_NOREPLACE. */
int csn_sys_rename(int from_dir, const char *from, int to_dir, const char *to, unsigned how);
int csn_sys_close_range(unsigned first);
long csn_sys_getdents(int fd, void *buf, size_t size);
int csn_sys_getcwd(char *buf, size_t size); /* as the kernel says it, "(unreachable)" included */
/* Becomes another user without supplementary groups; any but root also drops every capability. */
int csn_sys_become(uid_t uid, gid_t gid);
/* The parent of a process without procfs. -ECHILD: it is a thread; else -errno: gone, or a kernel before 6.13. */
int csn_sys_ppid(pid_t pid, pid_t *ret_ppid);
/* Asks for short turns on the processor: whoever asks for little gets it soon (Linux 6.12+). Children get usual ones. */
void csn_sys_be_quick(void);
int64_t csn_sys_now_ms(void); /* monotonic */
/* Up to size - 1 bytes of a small file, NUL-terminated: how many, or -errno. */
int csn_sys_read_small(const char *path, char *buf, size_t size);

#endif
