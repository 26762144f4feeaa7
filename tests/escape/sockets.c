/* SPDX-License-Identifier: Apache-2.0 */
/* Socket families that are not namespaced or hold decades of rare code (R16). */
#include <errno.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

static enum verdict open_socket(const struct attack *self)
{
    errno = 0;
    long fd = call(self->arg[3] ? SYS_socketpair : SYS_socket, self->arg[0], self->arg[1],
                   self->arg[2], self->arg[3], 0, 0);
    if (fd >= 0)
        return BREACH;
    /* With the filter down a family whose module is absent answers EAFNOSUPPORT as well: the filter's own answer
     * can't be told apart from it, so such rows use types and protocols that the kernel checks before the family. */
    return refused(fd);
}

/* Its code would lie in net.core.bpf_jit_limit's pool, which is one for all namespaces. */
static enum verdict attach_filter(const struct attack *self)
{
    struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, 0xffff);
    struct sock_fprog program = { 1, &pass };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    errno = 0;
    return refused(
        call(SYS_setsockopt, fd, self->arg[0], self->arg[1], (long) &program, sizeof(program), 0));
}

/* Type 99 is no type: sock_create() says EINVAL before it looks for the family, the filter says EAFNOSUPPORT first. */
#define FAMILY(name, number) \
    { \
        "socket_" name, "R16", W_SECCOMP, 0, open_socket, { number, 99, 0, 0 }, NULL \
    }

const struct attack attacks_sockets[] = {
    FAMILY("ax25", 3),
    FAMILY("ipx", 4),
    FAMILY("appletalk", 5),
    FAMILY("netrom", 6),
    FAMILY("atmpvc", 8),
    FAMILY("x25", 9),
    FAMILY("rose", 11),
    FAMILY("key", 15),
    FAMILY("packet", 17),
    FAMILY("rds", 21),
    FAMILY("llc", 26),
    FAMILY("ib", 27),
    FAMILY("can", 29),
    FAMILY("tipc", 30),
    FAMILY("bluetooth", 31),
    FAMILY("rxrpc", 33),
    FAMILY("phonet", 35),
    FAMILY("ieee802154", 36),
    FAMILY("caif", 37),
    FAMILY("alg", 38),
    FAMILY("nfc", 39),
    FAMILY("vsock", 40),
    FAMILY("kcm", 41),
    FAMILY("qipcrtr", 42),
    FAMILY("smc", 43),
    FAMILY("xdp", 44),
    FAMILY("mctp", 45),
    { "raw_ipv4", "R16", W_SECCOMP | W_CAPS, 0, open_socket, { AF_INET, SOCK_RAW, 1, 0 }, NULL },
    { "raw_ipv6", "R16", W_SECCOMP | W_CAPS, 0, open_socket, { AF_INET6, SOCK_RAW, 58, 0 }, NULL },
    { "netlink_netfilter",
      "R16",
      W_SECCOMP,
      0,
      open_socket,
      { AF_NETLINK, SOCK_DGRAM, 12, 0 },
      NULL },
    { "netlink_audit", "R16", W_SECCOMP, 0, open_socket, { AF_NETLINK, SOCK_DGRAM, 9, 0 }, NULL },
    { "netlink_kobject_uevent",
      "R16",
      W_SECCOMP,
      0,
      open_socket,
      { AF_NETLINK, SOCK_DGRAM, 15, 0 },
      NULL },
    { "netlink_sock_diag",
      "R16",
      W_SECCOMP,
      0,
      open_socket,
      { AF_NETLINK, SOCK_DGRAM, 4, 0 },
      NULL },
    { "netlink_generic",
      "R16",
      W_SECCOMP,
      0,
      open_socket,
      { AF_NETLINK, SOCK_DGRAM, 16, 0 },
      NULL },
    { "netlink_high_bits",
      "R16",
      W_SECCOMP,
      0,
      open_socket,
      { (long) (0x100000000UL | AF_NETLINK), SOCK_DGRAM, 12, 0 },
      NULL },
    { "socket_filter",
      "R31",
      W_SECCOMP,
      0,
      attach_filter,
      { SOL_SOCKET, SO_ATTACH_FILTER, 0, 0 },
      NULL },
    { "socket_filter_reuseport",
      "R31",
      W_SECCOMP,
      0,
      attach_filter,
      { SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, 0, 0 },
      NULL },
    { "socket_filter_high_bits",
      "R31",
      W_SECCOMP,
      0,
      attach_filter,
      { (long) (0x100000000UL | SOL_SOCKET), SO_ATTACH_FILTER, 0, 0 },
      NULL },
    { 0 },
};
