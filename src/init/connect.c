/* SPDX-License-Identifier: Apache-2.0 */
/* CONNECT: to a port that something in this sandbox listens on. The connected socket is handed out as a file would be;
 * the bytes then flow without us. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/sys.h"
#include "init/worker.h"

enum { CONNECT_MS = 2000 }; /* of both addresses together: a full backlog answers nothing */

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

/* Ends early when the client is gone. */
static int wait_for(int fd, int64_t deadline_ms)
{
    struct pollfd p[2] = { { .fd = fd, .events = POLLOUT }, { .fd = CSN_CHANNEL_FD } };
    int64_t left = deadline_ms - csn_sys_now_ms();
    int error = 0;
    socklen_t len = sizeof(error);
    int n = left > 0 ? poll(p, 2, (int) left) : 0;

    if (n < 0)
        return -errno;
    if (n == 0)
        return -ETIMEDOUT;
    if (p[1].revents)
        return -EPIPE;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

/* A connected socket, or -errno. */
static int reach(const address *to, socklen_t len, int64_t deadline_ms)
{
    int r, fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);

    if (fd < 0)
        return -errno;
    r = connect(fd, &to->any, len) < 0 ? -errno : 0;
    if (r == -EINPROGRESS)
        r = wait_for(fd, deadline_ms);
    if (r == 0)
        return fd;
    (void) close(fd); /* nothing was sent */
    return r;
}

int csn_verb_connect(const csn_filereq *req, csn_file_done *done)
{
    const int64_t deadline_ms = csn_sys_now_ms() + CONNECT_MS;
    const in_port_t port = htons((uint16_t) req->flags);
    const address v4 = {
        .v4 = { .sin_family = AF_INET, .sin_port = port, .sin_addr = { htonl(INADDR_LOOPBACK) } }
    };
    const address v6 = {
        .v6 = { .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT }
    };
    int r, fd = reach(&v4, sizeof(v4.v4), deadline_ms);

    (void) done;
    if (fd == -ECONNREFUSED) {
        fd = reach(&v6, sizeof(v6.v6), deadline_ms);
        if (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT || fd == -ENETUNREACH)
            fd = -ECONNREFUSED; /* a sandbox without IPv6: what the first address said holds */
    }
    if (fd < 0)
        return fd;
    r = csn_tell_fd(fd, 0);
    (void) close(fd); /* the client has its own by now */
    return r;
}
