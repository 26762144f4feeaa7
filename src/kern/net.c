/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "mount.h"
#include "netlink.h"

int csn_net_loopback_up(void)
{
    csn_auto(fd) int fd = csn_fault("loopback");
    struct ifreq req;

    if (fd < 0)
        return fd;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    memset(&req, 0, sizeof(req));
    memcpy(req.ifr_name, "lo", 3);
    if (ioctl(fd, SIOCGIFFLAGS, &req) < 0)
        return -errno;
    req.ifr_flags = (short) (req.ifr_flags | IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &req) < 0 ? -errno : 0;
}

/* ---- our own addresses ---- */

struct collect {
    csn_net_addr *addrs;
    size_t max, n;
};

static void take_addr(const struct ifaddrmsg *m, const struct rtattr *a, csn_net_addr *out)
{
    size_t len = m->ifa_family == AF_INET ? 4 : 16;

    if (RTA_PAYLOAD(a) != len)
        return;
    out->family = m->ifa_family;
    out->prefix_len = m->ifa_prefixlen;
    memcpy(out->bytes, RTA_DATA(a), len);
}

static int each_address(const struct nlmsghdr *message, void *user)
{
    struct collect *c = user;
    const struct ifaddrmsg *m = NLMSG_DATA(message);
    csn_net_addr addr = { .family = 0 };

    if (message->nlmsg_type != RTM_NEWADDR || message->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
        (m->ifa_family != AF_INET && m->ifa_family != AF_INET6))
        return 0;
    size_t left = message->nlmsg_len - NLMSG_LENGTH(sizeof(*m));
    for (const struct rtattr *a = IFA_RTA(m); RTA_OK(a, left); a = RTA_NEXT(a, left))
        if (a->rta_type == IFA_LOCAL || (a->rta_type == IFA_ADDRESS && addr.family == 0))
            take_addr(m, a, &addr);
    if (addr.family != 0) {
        if (c->n < c->max)
            c->addrs[c->n] = addr;
        c->n++;
    }
    return 0;
}

int csn_net_addresses(csn_net_addr *addrs, size_t max, size_t *ret_n)
{
    struct {
        struct nlmsghdr header;
        struct ifaddrmsg body;
    } request = { .header = { .nlmsg_len = sizeof(request), .nlmsg_type = RTM_GETADDR } };
    struct collect c = { addrs, max, 0 };
    csn_netlink nl;
    int r = csn_netlink_open(&nl, NETLINK_ROUTE);

    if (r < 0)
        return r;
    r = csn_netlink_dump(&nl, &request.header, each_address, &c);
    csn_netlink_done(&nl);
    if (r < 0)
        return r;
    *ret_n = c.n;
    return c.n > max ? -E2BIG : 0;
}

/* ---- what no policy may reach (R26) ---- */

static const csn_net_addr refused4[] = {
    { AF_INET, 8, { 0 } },
    { AF_INET, 8, { 10 } },
    { AF_INET, 10, { 100, 64 } },
    { AF_INET, 8, { 127 } },
    { AF_INET, 16, { 169, 254 } }, /* with the cloud's metadata */
    { AF_INET, 12, { 172, 16 } },
    { AF_INET, 24, { 192, 0, 0 } },
    { AF_INET, 24, { 192, 88, 99 } }, /* 6to4 relays */
    { AF_INET, 16, { 192, 168 } },
    { AF_INET, 15, { 198, 18 } }, /* the link's own /24 is more specific */
    { AF_INET, 4, { 224 } },
    { AF_INET, 4, { 240 } }, /* with broadcast */
};

static const csn_net_addr refused6[] = {
    { AF_INET6, 96, { 0 } },                         /* ::, ::1, IPv4-compatible */
    { AF_INET6, 48, { 0, 0x64, 0xff, 0x9b, 0, 1 } }, /* local NAT64 */
    { AF_INET6, 64, { 1 } },                         /* discard */
    { AF_INET6, 32, { 0x20, 0x01 } },                /* Teredo */
    { AF_INET6, 7, { 0xfc } },                       /* unique local, fd00:ec2::254 */
    { AF_INET6, 10, { 0xfe, 0x80 } },                /* link-local */
    { AF_INET6, 10, { 0xfe, 0xc0 } },                /* site-local */
    { AF_INET6, 8, { 0xff } },                       /* multicast */
};

const csn_net_addr *csn_net_refused4(size_t *ret_n)
{
    *ret_n = CSN_COUNT(refused4);
    return refused4;
}

static bool is_within(const uint8_t *addr, const csn_net_addr *range)
{
    unsigned whole = range->prefix_len / 8, rest = range->prefix_len % 8;

    if (memcmp(addr, range->bytes, whole) != 0)
        return false;
    return rest == 0 || (addr[whole] ^ range->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_in_any(const uint8_t *addr, const csn_net_addr *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_within(addr, &ranges[i]))
            return true;
    return false;
}

/* An IPv4 address in other clothes, or NULL. */
static const uint8_t *embedded4(const uint8_t *a)
{
    static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    static const uint8_t nat64[12] = { 0, 0x64, 0xff, 0x9b };

    if (!memcmp(a, mapped, 12) || !memcmp(a, nat64, 12))
        return a + 12;
    return a[0] == 0x20 && a[1] == 0x02 ? a + 2 : NULL; /* 6to4 */
}

bool csn_net_is_refused(const csn_net_addr *addr)
{
    const uint8_t *four = addr->family == AF_INET ? addr->bytes : NULL;

    if (addr->family == AF_INET6)
        four = embedded4(addr->bytes);
    if (four)
        return is_in_any(four, refused4, CSN_COUNT(refused4));
    return addr->family != AF_INET6 || is_in_any(addr->bytes, refused6, CSN_COUNT(refused6));
}

/* ---- routes ---- */

static int refuse_route(csn_netlink *nl, const csn_net_addr *range)
{
    struct {
        struct nlmsghdr header;
        struct rtmsg body;
        char attrs[64];
    } request;
    size_t len = range->family == AF_INET ? 4 : 16;

    memset(&request, 0, sizeof(request));
    request.header.nlmsg_len = NLMSG_LENGTH(sizeof(request.body));
    request.header.nlmsg_type = RTM_NEWROUTE;
    request.header.nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE;
    request.body = (struct rtmsg){
        .rtm_family = (uint8_t) range->family,
        .rtm_dst_len = range->prefix_len,
        .rtm_table = RT_TABLE_MAIN,
        .rtm_protocol = RTPROT_STATIC,
        .rtm_scope = RT_SCOPE_UNIVERSE,
        .rtm_type = RTN_UNREACHABLE,
    };
    int r = csn_netlink_put(&request.header, sizeof(request), RTA_DST, range->bytes, len);
    return r < 0 ? r : csn_netlink_do(nl, &request.header);
}

static int write_sysctl(int proc_fd, const char *path)
{
    int r = csn_write_file(proc_fd, path, "1", 1);

    return r == -ENOENT ? 0 : r; /* no IPv6 in this kernel */
}

static int switch_off_ipv6(int proc_fd)
{
    csn_auto(fd) int own = -1;

    if (proc_fd < 0) {
        own = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (own < 0)
            return -errno;
        proc_fd = own;
    }
    int r = csn_proc_verify(proc_fd);
    if (r == 0)
        r = write_sysctl(proc_fd, "sys/net/ipv6/conf/all/disable_ipv6");
    if (r == 0)
        r = write_sysctl(proc_fd, "sys/net/ipv6/conf/default/disable_ipv6");
    return r;
}

/* 127.0.0.0/8 stays: it is the sandbox's own loopback, in the local table. */
static int refuse_all(csn_netlink *nl, const csn_net_addr *extra, size_t n_extra)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < CSN_COUNT(refused4); i++)
        if (refused4[i].bytes[0] != 127)
            r = refuse_route(nl, &refused4[i]);
    for (size_t i = 0; r == 0 && i < n_extra; i++) {
        csn_net_addr host = extra[i];
        host.prefix_len = 32;
        if (host.family == AF_INET && host.bytes[0] != 127)
            r = refuse_route(nl, &host);
    }
    return r;
}

int csn_net_refuse_private(int proc_fd, const csn_net_addr *extra, size_t n_extra)
{
    csn_netlink nl;
    int r = switch_off_ipv6(proc_fd);

    if (r == 0)
        r = csn_netlink_open(&nl, NETLINK_ROUTE);
    if (r < 0)
        return r;
    r = refuse_all(&nl, extra, n_extra);
    csn_netlink_done(&nl);
    return r;
}
