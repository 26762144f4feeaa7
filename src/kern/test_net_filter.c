/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of the outbound policy, seen from the other end of a link of the test's own: whatever leaves is read there. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "csn_test.h"
#include "kern/net.h"
#include "kern/netlink.h"
#include "kern/userns.h"

#define LINK "tap0"

enum { ETHER_TYPE_AT = 12, ARP_TARGET_AT = 38, IP_DESTINATION_AT = 30, FRAME_MAX = 2048 };

static void enter_new_network(void)
{
    csn_idmap uid = { 0, geteuid(), 1 }, gid = { 0, getegid(), 1 };

    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("kernel: no right to make namespaces");
    CHECK_INT(csn_userns_map(getpid(), &uid, 1, &gid, 1, true), 0);
    CHECK_INT(csn_net_loopback_up(), 0);
}

/* ---- the link ---- */

static struct sockaddr *ipv4(struct ifreq *q, const char *address)
{
    struct sockaddr_in at = { .sin_family = AF_INET };

    CHECK_INT(inet_pton(AF_INET, address, &at.sin_addr), 1);
    memcpy(&q->ifr_addr, &at, sizeof(at));
    return &q->ifr_addr;
}

static void add_default_route(void)
{
    struct {
        struct nlmsghdr header;
        struct rtmsg body;
        char attrs[64];
    } q = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                        .nlmsg_type = RTM_NEWROUTE,
                        .nlmsg_flags = NLM_F_CREATE },
            .body = { .rtm_family = AF_INET,
                      .rtm_table = RT_TABLE_MAIN,
                      .rtm_protocol = RTPROT_STATIC,
                      .rtm_type = RTN_UNICAST } };
    const uint8_t gateway[4] = { CSN_SLIRP_NET, 2 };
    csn_netlink nl;

    CHECK_INT(csn_netlink_open(&nl, NETLINK_ROUTE), 0);
    CHECK_INT(csn_netlink_put(&q.header, sizeof(q), RTA_GATEWAY, gateway, sizeof(gateway)), 0);
    CHECK_INT(csn_netlink_do(&nl, &q.header), 0);
    csn_netlink_done(&nl);
}

/* As slirp4netns makes it; what is sent through it is read from the descriptor. */
static int a_link(void)
{
    struct ifreq q = { .ifr_name = LINK, .ifr_flags = IFF_TAP | IFF_NO_PI };
    int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    csn_auto(fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (tap < 0)
        SKIP("user: no access to /dev/net/tun");
    CHECK_INT(ioctl(tap, TUNSETIFF, &q), 0);
    (void) ipv4(&q, "198.18.0.100");
    CHECK_INT(ioctl(fd, SIOCSIFADDR, &q), 0);
    (void) ipv4(&q, "255.255.255.0");
    CHECK_INT(ioctl(fd, SIOCSIFNETMASK, &q), 0);
    CHECK_INT(ioctl(fd, SIOCGIFFLAGS, &q), 0);
    q.ifr_flags = (short) (q.ifr_flags | IFF_UP);
    CHECK_INT(ioctl(fd, SIOCSIFFLAGS, &q), 0);
    add_default_route();
    return tap;
}

/* The next thing that left, in words; false: nothing did. Every frame counts: a question for a neighbour as well. */
static bool next_frame(int tap, char *out, size_t size)
{
    uint8_t f[FRAME_MAX] = { 0 };
    char address[INET_ADDRSTRLEN] = "";
    ssize_t n = read(tap, f, sizeof(f));

    if (n < 0)
        return false;
    bool is_arp = f[ETHER_TYPE_AT] == 8 && f[ETHER_TYPE_AT + 1] == 6;
    (void) inet_ntop(AF_INET, f + (is_arp ? ARP_TARGET_AT : IP_DESTINATION_AT), address,
                     sizeof(address));
    (void) snprintf(out, size, "%s %s",
                    is_arp                  ? "arp"
                    : f[ETHER_TYPE_AT] == 8 ? "ip"
                                            : "other",
                    address);
    return true;
}

/* ---- ways to name an interface ---- */

enum way { PLAIN, DEVICE, PACKET_INFO, UNICAST_IF, MULTICAST_IF, DONT_ROUTE, N_WAYS };

static const char *const way_names[N_WAYS] = { "plain",      "device",       "packet info",
                                               "unicast if", "multicast if", "device, not routed" };

static void set(int fd, int level, int option, int value)
{
    CHECK_INT(setsockopt(fd, level, option, &value, sizeof(value)), 0);
}

static void name_interface(int fd, bool is_six, enum way way)
{
    const int link = (int) if_nametoindex(LINK);
    const struct ip_mreqn multicast = { .imr_ifindex = link };

    if (way == DEVICE || way == DONT_ROUTE)
        CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, LINK, sizeof(LINK)), 0);
    if (way == DONT_ROUTE)
        set(fd, SOL_SOCKET, SO_DONTROUTE, 1);
    if (way == UNICAST_IF)
        set(fd, is_six ? IPPROTO_IPV6 : IPPROTO_IP, is_six ? IPV6_UNICAST_IF : IP_UNICAST_IF,
            (int) htonl((uint32_t) link));
    if (way == MULTICAST_IF && is_six)
        set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, link);
    if (way == MULTICAST_IF && !is_six)
        CHECK_INT(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &multicast, sizeof(multicast)), 0);
}

static size_t packet_info(struct msghdr *m, bool is_six)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    const unsigned link = if_nametoindex(LINK);

    if (is_six) {
        const struct in6_pktinfo info = { .ipi6_ifindex = link };
        *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(info)),
                               .cmsg_level = IPPROTO_IPV6,
                               .cmsg_type = IPV6_PKTINFO };
        memcpy(CMSG_DATA(c), &info, sizeof(info));
        return CMSG_SPACE(sizeof(info));
    }
    const struct in_pktinfo info = { .ipi_ifindex = (int) link };
    *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(info)),
                           .cmsg_level = IPPROTO_IP,
                           .cmsg_type = IP_PKTINFO };
    memcpy(CMSG_DATA(c), &info, sizeof(info));
    return CMSG_SPACE(sizeof(info));
}

/* 0 or the errno of sending. */
static int send_to(const char *address, enum way way)
{
    const bool is_six = strchr(address, ':') != NULL;
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(9) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                .sin6_port = htons(9),
                                .sin6_scope_id = if_nametoindex(LINK) };
    _Alignas(struct cmsghdr) char control[64] = { 0 };
    struct iovec byte = { (char[]){ 'x' }, 1 };
    struct msghdr m = { .msg_name = is_six ? (void *) &six : (void *) &four,
                        .msg_namelen = is_six ? sizeof(six) : sizeof(four),
                        .msg_iov = &byte,
                        .msg_iovlen = 1,
                        .msg_control = control,
                        .msg_controllen = sizeof(control) };
    csn_auto(fd) int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    CHECK_INT(inet_pton(is_six ? AF_INET6 : AF_INET, address,
                        is_six ? (void *) &six.sin6_addr : (void *) &four.sin_addr),
              1);
    set(fd, SOL_SOCKET, SO_BROADCAST, 1);
    name_interface(fd, is_six, way);
    m.msg_controllen = (socklen_t) (way == PACKET_INFO ? packet_info(&m, is_six) : 0);
    return sendmsg(fd, &m, 0) < 0 ? errno : 0;
}

/* ---- what leaves ---- */

static const char *const refused[] = {
    "0.1.2.3",
    "10.1.2.3",
    "10.255.255.254",
    "100.64.0.1",
    "100.127.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.8",
    "192.88.99.1",
    "192.168.1.1",
    "192.168.255.254",
    "198.18.1.1",
    "198.19.255.254",
    "224.0.0.1",
    "224.0.0.251",
    "239.1.2.3",
    "240.0.0.1",
    "255.255.255.255",
    "203.0.113.7",
    /* of the link itself nothing but the resolver */
    "198.18.0.1",
    "198.18.0.2",
    "198.18.0.77",
    "198.18.0.255",
    "::ffff:10.1.2.3",
    "::ffff:169.254.169.254",
    "::ffff:239.1.2.3",
    "::ffff:203.0.113.7",
    "ff02::1",
    "ff02::fb",
    "ff05::2",
    "fe80::1",
    "fd00:ec2::254",
    "2001:db8::1",
    "64:ff9b::a01:203",
};

static int a_guarded_link(void)
{
    csn_net_addr own = { AF_INET, 24, { 203, 0, 113, 7 } };
    char frame[64];

    enter_new_network();
    CHECK_INT(csn_net_filter(&own, 1), 0);
    CHECK_INT(csn_net_refuse_private(-1, &own, 1), 0);
    int tap = a_link();
    if (next_frame(tap, frame, sizeof(frame)))
        FAIL("the link's own coming up said: %s", frame);
    return tap;
}

TEST(nothing_refused_leaves_whatever_interface_is_named)
{
    const struct ip_mreqn group = { .imr_multiaddr = { htonl(0xef090909) } };
    struct ip_mreqn join = group;
    char frame[64];
    int tap = a_guarded_link();

    for (size_t i = 0; i < CSN_COUNT(refused); i++)
        for (enum way way = PLAIN; way < N_WAYS; way++) {
            if (send_to(refused[i], way) == 0)
                FAIL("%s, %s: sent", refused[i], way_names[way]);
            if (next_frame(tap, frame, sizeof(frame)))
                FAIL("%s, %s: %s left", refused[i], way_names[way], frame);
        }
    csn_auto(fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    join.imr_ifindex = (int) if_nametoindex(LINK);
    CHECK_INT(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof(join)), 0);
    CHECK(!next_frame(tap, frame, sizeof(frame))); /* no report of it */
}

TEST(what_is_allowed_leaves_through_the_gateway_alone)
{
    char frame[64];
    int tap = a_guarded_link();

    for (enum way way = PLAIN; way < DONT_ROUTE; way++)
        CHECK_INT(send_to("192.0.2.9", way), 0);
    CHECK(next_frame(tap, frame, sizeof(frame)));
    CHECK_STR(frame, "arp 198.18.0.2");
    CHECK(!next_frame(tap, frame, sizeof(frame)));      /* they wait for the answer */
    CHECK_INT(send_to("192.0.2.9", DONT_ROUTE), EPERM); /* as a neighbour: it isn't one */
    CHECK(!next_frame(tap, frame, sizeof(frame)));
    CHECK_INT(send_to(CSN_SLIRP_DNS, PLAIN), 0);
    CHECK(next_frame(tap, frame, sizeof(frame)));
    CHECK_STR(frame, "arp " CSN_SLIRP_DNS);
}

TEST(connecting_to_what_is_refused_fails_at_once)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
    csn_auto(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int tap = a_guarded_link();
    char frame[64];

    CHECK(tap >= 0);
    csn_close(&fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* of the new network */
    name_interface(fd, false, DEVICE);
    CHECK_INT(inet_pton(AF_INET, "10.1.2.3", &to.sin_addr), 1);
    CHECK_INT(connect(fd, (struct sockaddr *) &to, sizeof(to)), -1);
    CHECK_INT(errno, EHOSTUNREACH);
    CHECK(!next_frame(tap, frame, sizeof(frame)));
}

TEST(the_loopback_is_as_it_was)
{
    csn_net_addr own = { AF_INET, 24, { 203, 0, 113, 7 } };
    csn_auto(fd) int fd = -1;

    enter_new_network();
    CHECK_INT(csn_net_filter(&own, 1), 0);
    CHECK_INT(csn_net_filter(&own, 1), -EEXIST);
    CHECK_INT(send_to("127.0.0.1", PLAIN), 0);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), 0);
    struct sockaddr_in group = { .sin_family = AF_INET,
                                 .sin_port = htons(9),
                                 .sin_addr.s_addr = htonl(0xef010203) };
    CHECK_INT(sendto(fd, "x", 1, 0, (struct sockaddr *) &group, sizeof(group)), 1);
    CHECK_INT(send_to("10.1.2.3", PLAIN), ENETUNREACH);
}

/* As many as are ever collected: all fit. */
TEST(a_host_with_many_addresses_is_refused_whole)
{
    static csn_net_addr addrs[CSN_NET_MAX_ADDRS];

    for (size_t i = 0; i < CSN_NET_MAX_ADDRS; i++)
        addrs[i] = (csn_net_addr){ AF_INET, 24, { 203, 0, (uint8_t) i, 7 } };
    enter_new_network();
    CHECK_INT(csn_net_filter(addrs, CSN_NET_MAX_ADDRS), 0);
}
