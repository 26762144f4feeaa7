/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket. It is bound here so that the front needs no right to bind. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/warden.h"

enum { BACKLOG = 4096 };

/* "127.0.0.1:3986", "[::1]:3986", "localhost:3986" */
static int split(const char *where, char host[256], char port[6])
{
    const char *colon = strrchr(where, ':');
    csn_str name;
    uint64_t number;

    if (!colon || csn_parse_u64(csn_str_of(colon + 1), &number) < 0 || number > 65535)
        return -EINVAL;
    name = csn_str_n(where, (size_t) (colon - where));
    if (name.len >= 2 && name.data[0] == '[' && name.data[name.len - 1] == ']')
        name = csn_str_n(name.data + 1, name.len - 2);
    else if (csn_str_find(name, ':') >= 0)
        return -EINVAL; /* an IPv6 address wants its brackets */
    if (name.len == 0)
        return -EINVAL;
    int r = csn_str_copy(host, 256, name);
    return r < 0 ? r : csn_str_copy(port, 6, csn_str_of(colon + 1));
}

static int bind_one(const struct addrinfo *a, int *ret_fd)
{
    csn_auto(fd) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (a->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
        bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    *ret_fd = csn_take_fd(&fd);
    return 0;
}

int csn_listen_open(const char *where, int *ret_fd, csn_error *err)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *all = NULL;
    char host[256], port[6];
    int r = split(where, host, port);

    if (r < 0)
        return csn_fail(err, CSN_E_INVALID,
                        "listen on '%.64s': want ADDR:PORT, such as 127.0.0.1:3986 or [::1]:3986",
                        where);
    r = getaddrinfo(host, port, &hints, &all);
    if (r != 0)
        return csn_fail(err, CSN_E_INVALID, "listen on '%.64s': %s", where, gai_strerror(r));
    r = bind_one(all, ret_fd);
    freeaddrinfo(all);
    if (r == -EADDRINUSE)
        return csn_fail(err, CSN_E_BUSY, "listen on '%.64s': the port is taken by another program",
                        where);
    return r < 0 ? csn_fail_sys(err, r, "listen on '%.64s'", where) : CSN_OK;
}
