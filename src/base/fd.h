/* Descriptors: owning, moving, reading and writing them whole, passing them. All return 0 (or a count) or -errno. */
#ifndef CSN_BASE_FD_H
#define CSN_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "auto.h"
#include "buf.h"

/* Closes *fd if it is >= 0 and sets it to -1. errno is kept. */
void csn_close(int *fd);
void csn_fd_auto(int *fd);

/* Gives the descriptor away: returns *fd, leaves -1. */
int csn_take_fd(int *fd);

int csn_fd_cloexec(int fd, bool on);
int csn_fd_nonblock(int fd, bool on);

/* A copy >= `lowest`, close-on-exec. Returns the descriptor or -errno. */
int csn_fd_dup(int fd, int lowest);

/* read()/write() that try again on EINTR. Return the count or -errno. */
ssize_t csn_read(int fd, void *data, size_t len);
ssize_t csn_write(int fd, const void *data, size_t len);

/* Reads up to len bytes, until EOF: returns how many came, or -errno. */
ssize_t csn_read_all(int fd, void *data, size_t len);

/* Writes all: 0 or -errno. */
int csn_write_all(int fd, const void *data, size_t len);

/* Appends everything until EOF; more than `max` bytes: -EFBIG. */
int csn_read_to_buf(int fd, csn_buf *out, size_t max);

/* Reads the file `path` at `dirfd` (AT_FDCWD is fine) and appends it; more than `max` bytes: -EFBIG. Opens with
 * O_NOCTTY | O_NONBLOCK, so a FIFO or device can't hang the caller. */
int csn_read_file(int dirfd, const char *path, csn_buf *out, size_t max);

/* Writes data to an existing file in one write() (for procfs, cgroupfs). */
int csn_write_file(int dirfd, const char *path, const void *data, size_t len);

/* Temp file in dirfd, write, (sync: fsync file and directory), rename over `name`. Never leaves a half file. */
int csn_write_file_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                          bool sync);

#define CSN_MAX_FDS 8

/* One message with up to CSN_MAX_FDS descriptors on a unix socket; MSG_NOSIGNAL; the descriptors stay the caller's.
 * 0 or -errno (-EAGAIN on a full nonblocking socket, -EMSGSIZE if cut short). */
int csn_send_fds(int sock, const void *data, size_t len, const int *fds, size_t n_fds);

struct msghdr;
/* recvmsg() with close-on-exec, again after a signal. A peer that went without having read all we sent is told by one
 * ECONNRESET, before what it said last: that comes first here. -errno. */
ssize_t csn_recvmsg(int sock, struct msghdr *msg, int flags);
/* sendmsg() without SIGPIPE, again after a signal; waits up to 0.2 s where the user has too many descriptors under way. */
ssize_t csn_sendmsg(int sock, const struct msghdr *msg, int flags);

/* Receives one message. Returns its length (0: the peer is gone on a SEQPACKET socket) or -errno. Up to `max_fds`
 * descriptors are stored close-on-exec and become the caller's, *ret_n_fds says how many; surplus ones are closed.
 * Data or descriptors cut short: all received descriptors are closed and -EMSGSIZE is returned. max_fds 0: none
 * accepted, any that come are closed and the answer is -EMSGSIZE. -EMFILE: none is left to receive one with, and those that did
 * arrive are closed; the data is there, whole. */
ssize_t csn_recv_fds(int sock, void *data, size_t size, int *fds, size_t max_fds,
                     size_t *ret_n_fds);

/* The same, with recvmsg flags such as MSG_DONTWAIT. */
ssize_t csn_recv_fds_flags(int sock, void *data, size_t size, int *fds, size_t max_fds,
                           size_t *ret_n_fds, int flags);

/* A pipe for a sandboxed program's stdin, stdout or stderr: close-on-exec, and open to every uid, since a program that
 * opens /dev/stdout anew is asked for rights on the pipe, which belongs to our uid and not to its own. Who may reach the
 * pipe at all is decided by who holds a descriptor. 0 or -errno. */
int csn_stdio_pipe(int ret_ends[2]);

/* Closes n descriptors and sets each to -1. */
void csn_close_many(int *fds, size_t n);

#endif
