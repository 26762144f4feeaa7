/* Starting a program of the host, from a process that may have threads, so that it can do no harm to the host's mounts. */
#ifndef CSN_BASE_PROGRAM_H
#define CSN_BASE_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

typedef struct csn_program {
    const char *path;  /* without a '/': looked for in PATH */
    char *const *argv; /* all borrowed, until the call returns */
    char *const *envp;
    const int *fds; /* become 0, 1, 2, …; every other descriptor is closed in the program */
    size_t n_fds;   /* at most CSN_MAX_FDS */
} csn_program;

/* Starts the program in a process group of its own, with default signal dispositions and an empty signal mask, and with
 * mounts of its own (csn_own_mounts()). As posix_spawn() does, it shares our memory until it runs, so no atfork handler
 * runs and no lock of another thread matters. Returns when the program runs: 0, or the -errno that kept it from it. The
 * caller reaps it; *ret_pidfd is close-on-exec. */
int csn_program_start(const csn_program *program, pid_t *ret_pid, int *ret_pidfd);

/* Gives the calling process a mount namespace in which every mount is private: whatever it or its children mount or
 * unmount from now on, the host's mounts stay as they are. systemd makes every mount shared, and then a mount or unmount
 * in an ordinary new namespace happens on the host too. A process that has no right to make a namespace has none to
 * change mounts either, and goes on as it is. 0 or -errno. Makes system calls only: it may run between fork and exec. */
int csn_own_mounts(void);

/* First out of the way of the target numbers, then into place: fds[i] becomes i, without close-on-exec, and everything
 * from n_fds on is closed. For a child before its exec. */
int csn_fds_place(const int *fds, size_t n_fds);

/* Closes every descriptor from `first` to `last` (inclusive, ~0u: all). No allocation. */
int csn_close_range(unsigned first, unsigned last);

#endif
