/* SPDX-License-Identifier: Apache-2.0 */
/* Networks, neighbours and the host's services (R16, R25, R31). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attack.h"

static enum verdict connect_tcp(const struct attack *self)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t) canary.tcp_port) };
    inet_pton(AF_INET, (const char *) self->arg[0], &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return CONTAINED;
    if (connect(fd, (struct sockaddr *) &to, sizeof(to)) < 0 && errno != EINPROGRESS)
        return CONTAINED;
    struct pollfd p = { fd, POLLOUT, 0 };
    int error = 1;
    socklen_t len = sizeof(error);
    if (poll(&p, 1, 500) > 0)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    close(fd);
    return error == 0 ? BREACH : CONTAINED;
}

static enum verdict connect_abstract(const struct attack *self)
{
    (void) self;
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    size_t n = strlen(canary.abstract);
    memcpy(to.sun_path + 1, canary.abstract, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return CONTAINED;
    return connect(fd, (struct sockaddr *) &to,
                   (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0
               ? BREACH
               : CONTAINED;
}

static enum verdict sees_interfaces(const struct attack *self)
{
    (void) self;
    char name[IF_NAMESIZE];
    for (unsigned i = 1; i < 64; i++)
        if (if_indextoname(i, name) && strcmp(name, "lo") != 0) {
            printf("interface %s\n", name);
            return BREACH;
        }
    return CONTAINED;
}

static enum verdict changes_network(const struct attack *self)
{
    (void) self;
    struct ifreq r;
    memset(&r, 0, sizeof(r));
    strcpy(r.ifr_name, "lo");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    r.ifr_flags = 0;
    return ioctl(fd, SIOCSIFFLAGS, &r) == 0 ? BREACH : CONTAINED;
}

static enum verdict low_port(const struct attack *self)
{
    (void) self;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(80) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(fd, (struct sockaddr *) &at, sizeof(at)) == 0 ? BREACH : CONTAINED;
}

static enum verdict sees_hosts_ipc(const struct attack *self)
{
    (void) self;
    return shmget((key_t) canary.shm_key, 0, 0) >= 0 ? BREACH : CONTAINED;
}

static enum verdict signals_strangers(const struct attack *self)
{
    (void) self;
    for (pid_t pid = 2; pid < 65536; pid++) {
        char path[32], buf[64];
        snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        if (read_text(path, buf, sizeof(buf)) > 0 && strncmp(buf, "csn-canary", 10) == 0)
            return BREACH;
    }
    return CONTAINED;
}

static enum verdict connect_path(const struct attack *self)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    const char *path = self->arg[0] ? (const char *) self->arg[0] : canary.host_socket;
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", path ? path : "");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0 ? BREACH : CONTAINED;
}

const struct attack attacks_reach[] = {
    { "host_loopback", "R25", W_NET, NEEDS_CANARY, connect_tcp, { (long) "127.0.0.1" }, NULL },
    { "host_loopback_other_address",
      "R25",
      W_NET,
      NEEDS_CANARY,
      connect_tcp,
      { (long) "127.1.2.3" },
      NULL },
    { "host_by_zero_address", "R25", W_NET, NEEDS_CANARY, connect_tcp, { (long) "0.0.0.0" }, NULL },
    { "metadata_address", "R26", 0, NEEDS_CANARY, connect_tcp, { (long) "169.254.169.254" }, NULL },
    { "abstract_socket_of_the_host",
      "R25",
      W_NET | W_LANDLOCK,
      NEEDS_CANARY,
      connect_abstract,
      { 0 },
      NULL },
    { "socket_file_of_the_host", "R9, R25", W_ROOT, NEEDS_CANARY, connect_path, { 0 }, NULL },
    { "interfaces_of_the_host", "R25", W_NET, 0, sees_interfaces, { 0 }, "interface" },
    { "loopback_down", "R25", W_CAPS, 0, changes_network, { 0 }, NULL },
    { "bind_low_port", "R3", W_CAPS, 0, low_port, { 0 }, NULL },
    { "shared_memory_of_the_host", "R31", W_NS, NEEDS_CANARY, sees_hosts_ipc, { 0 }, NULL },
    { "processes_of_the_host", "R5", 0, NEEDS_CANARY, signals_strangers, { 0 }, NULL },
    { "docker_socket", "R9", 0, 0, connect_path, { (long) "/run/docker.sock" }, NULL },
    { "systemd_socket", "R9", 0, 0, connect_path, { (long) "/run/systemd/private" }, NULL },
    { 0 },
};
