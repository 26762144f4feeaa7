/* Descriptors in messages (SCM_RIGHTS); declared in fd.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "fault.h"
#include "fd.h"

/* The kernel's ceiling for one message. We make room for all of it when receiving, so that a peer who sends more than
 * we asked for is seen and its descriptors are closed. */
#define SCM_MAX_FD 253

enum { CROWD_WAITS = 200 };

int csn_send_fds(int sock, const void *data, size_t len, const int *fds, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * CSN_MAX_FDS)];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *) (uintptr_t) data, .iov_len = len };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n_fds > CSN_MAX_FDS)
        return -EINVAL;
    if (csn_fault_as("sendmsg", ENOBUFS) < 0)
        return -ENOBUFS;
    if (n_fds > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = (socklen_t) CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = (socklen_t) CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    ssize_t n = csn_sendmsg(sock, &msg, 0);
    if (n < 0)
        return (int) n;
    return (size_t) n == len ? 0 : -EMSGSIZE;
}

/* ETOOMANYREFS counts the descriptors that all processes of a user have under way, against the limit of the one that sends:
 * with a small limit and a busy machine that is a matter of milliseconds. */
ssize_t csn_sendmsg(int sock, const struct msghdr *msg, int flags)
{
    for (int waits = 0;;) {
        ssize_t n = sendmsg(sock, msg, MSG_NOSIGNAL | flags);
        if (n >= 0)
            return n;
        if (errno == ETOOMANYREFS && waits++ < CROWD_WAITS)
            (void) poll(NULL, 0, 1); /* others take theirs meanwhile */
        else if (errno != EINTR)
            return -errno;
    }
}

/* Takes the descriptors out of all control messages: the first max_fds are kept, the others closed. Returns how many
 * there were. */
static size_t collect(struct msghdr *msg, int *fds, size_t max_fds)
{
    size_t n_seen = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (n_seen < max_fds)
                fds[n_seen] = fd;
            else
                csn_close(&fd);
            n_seen++;
        }
    }
    return n_seen;
}

ssize_t csn_recvmsg(int sock, struct msghdr *msg, int flags)
{
    bool is_reset = false;

    for (;;) {
        ssize_t n = recvmsg(sock, msg, MSG_CMSG_CLOEXEC | flags);
        if (n >= 0 || (errno != EINTR && (errno != ECONNRESET || is_reset)))
            return n < 0 ? -errno : n;
        is_reset |= errno == ECONNRESET;
    }
}

ssize_t csn_recv_fds_flags(int sock, void *data, size_t size, int *fds, size_t max_fds,
                           size_t *ret_n_fds, int flags)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * SCM_MAX_FD)];
        struct cmsghdr align;
    } control;
    struct iovec iov = { .iov_base = data, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    msg.msg_control = control.bytes;
    msg.msg_controllen = sizeof(control.bytes);
    if (ret_n_fds)
        *ret_n_fds = 0;
    n = csn_recvmsg(sock, &msg, flags);
    if (n < 0)
        return n;

    size_t n_fds = collect(&msg, fds, max_fds);
    if (n_fds > max_fds || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        csn_close_many(fds, n_fds < max_fds ? n_fds : max_fds);
        /* the buffer holds as many as a message may bring: the kernel found no number for one */
        return n_fds <= max_fds && !(msg.msg_flags & MSG_TRUNC) ? -EMFILE : -EMSGSIZE;
    }
    if (ret_n_fds)
        *ret_n_fds = n_fds;
    return n;
}

ssize_t csn_recv_fds(int sock, void *data, size_t size, int *fds, size_t max_fds, size_t *ret_n_fds)
{
    return csn_recv_fds_flags(sock, data, size, fds, max_fds, ret_n_fds, 0);
}
