/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy "outbound" keeps from a sandbox. The host is a network namespace of the test's own in which every address
 * is local: whatever leaves the sandbox and is passed on comes to the receivers here, wherever it was sent to. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "csn_test.h"
#include "drive.h"
#include "kern/net.h"
#include "kern/netlink.h"
#include "owner.h"

#define HOSTS_OWN "203.0.113.7"

enum { DEADLINE_MS = 20000 };

/* ---- the host ---- */

struct request {
    struct nlmsghdr header;
    union {
        struct rtmsg route;
        struct ifaddrmsg address;
    } body;
    char attrs[64];
};

static void put_loopback(struct request *q, uint16_t type)
{
    uint32_t loopback = if_nametoindex("lo");

    CHECK_INT(csn_netlink_put(&q->header, sizeof(*q), type, &loopback, sizeof(loopback)), 0);
}

static void add_address(csn_netlink *nl)
{
    struct in_addr own;
    struct request q = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
                                     .nlmsg_type = RTM_NEWADDR,
                                     .nlmsg_flags = NLM_F_CREATE },
                         .body.address = { .ifa_family = AF_INET,
                                           .ifa_prefixlen = 32,
                                           .ifa_index = if_nametoindex("lo") } };

    CHECK_INT(inet_pton(AF_INET, HOSTS_OWN, &own), 1);
    CHECK_INT(csn_netlink_put(&q.header, sizeof(q), IFA_LOCAL, &own, sizeof(own)), 0);
    CHECK_INT(csn_netlink_do(nl, &q.header), 0);
}

static void make_all_local(csn_netlink *nl)
{
    struct request q = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                                     .nlmsg_type = RTM_NEWROUTE,
                                     .nlmsg_flags = NLM_F_CREATE },
                         .body.route = { .rtm_family = AF_INET,
                                         .rtm_table = RT_TABLE_LOCAL,
                                         .rtm_protocol = RTPROT_STATIC,
                                         .rtm_scope = RT_SCOPE_HOST,
                                         .rtm_type = RTN_LOCAL } };

    put_loopback(&q, RTA_OIF);
    CHECK_INT(csn_netlink_do(nl, &q.header), 0);
}

static void become_host(void)
{
    csn_netlink nl;

    if (!is_machines_root()) /* in a user namespace nobody's programs are root's; test_net_filter.c needs no link */
        SKIP("user: only root can have a network namespace without a user namespace");
    CHECK_INT(unshare(CLONE_NEWNET), 0);
    CHECK_INT(csn_net_loopback_up(), 0);
    CHECK_INT(csn_netlink_open(&nl, NETLINK_ROUTE), 0);
    add_address(&nl);
    make_all_local(&nl);
    csn_netlink_done(&nl);
}

static void join_group(int fd, const char *group)
{
    struct ip_mreqn m = { .imr_ifindex = (int) if_nametoindex("lo") };

    CHECK_INT(inet_pton(AF_INET, group, &m.imr_multiaddr), 1);
    CHECK_INT(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)), 0);
}

/* A receiver of whatever is sent to this port, at any address; the port is the kernel's choice. */
static int a_receiver(int type, int *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t) *port) };
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0);
    CHECK_INT(bind(fd, (struct sockaddr *) &at, sizeof(at)), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *) &at, &len), 0);
    *port = ntohs(at.sin_port);
    if (type == SOCK_STREAM)
        CHECK_INT(listen(fd, 64), 0);
    return fd;
}

/* ---- the sandbox ---- */

static void need_link(void)
{
    const char *missing, *remedy;
    int r = csn_slirp_check(&missing, &remedy);

    if (r == -ENOENT)
        SKIP("%s is missing (%s)", missing, remedy);
    if (r < 0)
        SKIP("user: no %s", missing);
}

/* Ways to name an interface; each sends `to` its own name, so that the receiver can tell. */
#define SENDER \
    "import errno, socket, struct, sys\n" \
    "port = int(sys.argv[1]); link = socket.if_nametoindex('tap0')\n" \
    "addr = socket.inet_aton\n" \
    "def way(s, name, six):\n" \
    "    level = socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP\n" \
    "    index = struct.pack('!I', link)\n" \
    "    if name == 'device': s.setsockopt(socket.SOL_SOCKET, 25, b'tap0')\n" \
    "    if name == 'unicast_if': s.setsockopt(level, 76 if six else 50, index)\n" \
    "    if name == 'multicast_if' and six: s.setsockopt(level, 17, struct.pack('i', link))\n" \
    "    if name == 'multicast_if' and not six: s.setsockopt(level, 32, struct.pack('4s4si', b'', b'', link))\n" \
    "    if name == 'dontroute': s.setsockopt(socket.SOL_SOCKET, 5, 1); s.setsockopt(socket.SOL_SOCKET, 25, b'tap0')\n" \
    "    if name == 'pktinfo' and six: return [(level, 50, struct.pack('16si', b'', link))]\n" \
    "    if name == 'pktinfo': return [(level, 8, struct.pack('i4s4s', link, b'', b''))]\n" \
    "    return []\n" \
    "ways = ['plain', 'device', 'pktinfo', 'unicast_if', 'multicast_if', 'dontroute']\n" \
    "def send(to, name, what=''):\n" \
    "    six = ':' in to\n" \
    "    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as s:\n" \
    "        try:\n" \
    "            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n" \
    "            if not six: s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 9)\n" \
    "            where = (to, port, 0, link) if six else (to, port)\n" \
    "            s.sendmsg([(to + ' ' + name).encode()], way(s, name, six), 0, where)\n" \
    "        except OSError as e: return e.errno\n" \
    "    return 0\n" \
    "def sent():\n" \
    "    for line in open('/proc/net/dev'):\n" \
    "        if 'tap0' in line: return int(line.split(':')[1].split()[9])\n" \
    "refused = '''0.1.2.3 10.1.2.3 100.64.0.1 100.127.255.254 169.254.169.254 172.16.0.1 172.31.255.254 192.0.0.8\n" \
    "192.88.99.1 192.168.1.1 192.168.255.254 198.18.1.1 198.19.255.254 224.0.0.1 224.0.0.251 239.1.2.3 240.0.0.1\n" \
    "255.255.255.255 198.18.0.1 198.18.0.2 198.18.0.77 198.18.0.255 " HOSTS_OWN "\n" \
    "::ffff:10.1.2.3 ::ffff:169.254.169.254 ::ffff:239.1.2.3 ::ffff:" HOSTS_OWN \
    " ff02::1 ff02::fb ff05::2\n" \
    "fe80::1 fd00:ec2::254 2001:db8::1'''.split()\n"

static void run_python(box *b, const char *text, int port, char *out, size_t size)
{
    static char shell[16384];

    CHECK((size_t) snprintf(shell, sizeof(shell), "python3 - %d <<'END' 2>&1\n%s%s\nEND\n", port,
                            SENDER, text) < sizeof(shell));
    run(b, shell, out, size);
}

/* Takes what has come until `n_wanted` datagrams that were allowed are there; any other fails the test. */
static void take_only(int fd, const char *allowed, int n_wanted)
{
    const int64_t deadline = csn_deadline_in_ms(DEADLINE_MS * csn_test_slow());
    char text[128];

    for (int n = 0; n < n_wanted;) {
        if (csn_wait_fd(fd, POLLIN, deadline) != 1)
            FAIL("%d of %d datagrams to '%s' came", n, n_wanted, allowed);
        ssize_t len = recv(fd, text, sizeof(text) - 1, 0);
        CHECK(len >= 0);
        text[len] = '\0';
        if (strncmp(text, allowed, strlen(allowed)) != 0)
            FAIL("the host received: %s", text);
        n++;
    }
}

TEST_TIMEOUT(what_is_refused_does_not_leave_whatever_interface_is_named, 180)
{
    static box b;
    char out[2048];
    int port = 0;

    need_link();
    become_host();
    int udp = a_receiver(SOCK_DGRAM, &port), tcp = a_receiver(SOCK_STREAM, &port);
    join_group(udp, "239.1.2.3");
    join_group(udp, "224.0.0.251");
    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL | CSN_PLAN_OUTBOUND);
    run_python(&b,
               "before = sent()\n"
               "for to in refused:\n"
               "    for name in ways:\n"
               "        e = send(to, name)\n"
               "        if e == 0: print('sent:', to, name)\n"
               "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
               "    s.setsockopt(0, 35, struct.pack('4s4si', addr('239.9.9.9'), b'', link))\n"
               "    print('left:', sent() - before)\n",
               port, out, sizeof(out));
    CHECK_STR(out, "left: 0\n");
    run_python(
        &b,
        "for to in refused:\n"
        "    for name in ways:\n"
        "        if ':' in to or name in ('pktinfo', 'multicast_if'): continue\n"
        "        with socket.socket() as s:\n"
        "            s.settimeout(60); way(s, name, False)\n"
        "            e = s.connect_ex((to, port))\n"
        "            if e == 0 or e in (errno.EAGAIN, errno.ETIMEDOUT): print(to, name, e)\n",
        port, out, sizeof(out));
    CHECK_STR(out, "");
    CHECK_INT(accept(tcp, NULL, NULL), -1);
    run_python(&b,
               "for name in ways[:5]:\n"
               "    e = send('192.0.2.9', name)\n"
               "    if e: print(name, e)\n"
               "with socket.socket() as s: print(s.connect_ex(('192.0.2.9', port)))\n",
               port, out, sizeof(out));
    CHECK_STR(out, "0\n");
    take_only(udp, "192.0.2.9 ", 5);
    stop_box(&b, -1, true);
}

/* The kernel counts the neighbours of all namespaces together: a sandbox has two. */
TEST_TIMEOUT(a_sandbox_does_not_fill_the_table_of_neighbours, 180)
{
    static box b;
    char out[2048];

    need_link();
    become_host();
    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL | CSN_PLAN_OUTBOUND);
    run_python(
        &b,
        "for i in range(300):\n"
        "    for name in ways:\n"
        "        send('198.18.0.%d' % (i % 256), name); send('198.18.%d.9' % (i % 256), name)\n"
        "        send('192.0.2.%d' % (i % 256), name); send('239.1.2.%d' % (i % 256), name)\n"
        "lines = open('/proc/net/arp').read().splitlines()[1:]\n"
        "print(sorted(set(line.split()[0] for line in lines) - {'198.18.0.2', '198.18.0.3'}))\n",
        9, out, sizeof(out));
    CHECK_STR(out, "[]\n");
    stop_box(&b, -1, true);
}

/* ---- the link's own limits ---- */

static bool is_link_of(const box *b, pid_t pid)
{
    char path[64], text[512] = "", parent[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    csn_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || csn_read_all(fd, text, sizeof(text) - 1) <= 0)
        return false;
    (void) snprintf(parent, sizeof(parent), "(slirp4netns) S %d ", b->ready.keeper_pid);
    return strstr(text, parent) != NULL;
}

static pid_t find_link(const box *b)
{
    const int64_t deadline = csn_deadline_in_ms(DEADLINE_MS * csn_test_slow());

    while (csn_now_ns() < deadline)
        for (pid_t pid = 1; pid < 4194304; pid++)
            if (is_link_of(b, pid)) /* asleep, as it mostly is */
                return pid;
    FAIL("there is no slirp4netns");
}

static void read_proc(pid_t pid, const char *name, char *out, size_t size)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
    csn_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t n = csn_read_all(fd, out, size - 1);
    CHECK(n >= 0);
    out[n] = '\0';
}

TEST(the_link_lives_within_the_limits_of_its_sandbox)
{
    static box b;
    char text[8192], want[96];

    need_link();
    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL | CSN_PLAN_OUTBOUND);
    pid_t link = find_link(&b);
    read_proc(link, "limits", text, sizeof(text));
    const char *files = strstr(text, "Max open files");
    CHECK(files);
    CHECK(strncmp(files + strlen("Max open files"), "            1024                 1024 ", 38) ==
          0);
    read_proc(link, "status", text, sizeof(text));
    CHECK(strstr(text, "NoNewPrivs:\t1"));
    if (is_machines_root()) {
        const unsigned nobody = (unsigned) b.plan.id_base + 65534;
        (void) snprintf(want, sizeof(want), "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t", nobody, nobody,
                        nobody, nobody, nobody);
        CHECK(strstr(text, want));
    }
    read_proc(link, "cgroup", text, sizeof(text));
    if (b.ready.limits_kernel & CSN_LIMIT_MEMORY && b.ready.limits_kernel & CSN_LIMIT_PIDS) {
        csn_str rest = csn_str_of(text), line;
        size_t n = 0;
        while (csn_str_split(&rest, '\n', &line))
            n +=
                memmem(line.data, line.len, b.id, strlen(b.id)) &&
                (memmem(line.data, line.len, ":memory:", 8) ||
                 memmem(line.data, line.len, ":pids:", 6) || memmem(line.data, line.len, "0::", 3));
        CHECK_INT(n, b.ready.limits_kernel && strstr(text, ":memory:") ? 2 : 1);
    }
    stop_box(&b, -1, true);
    CHECK(!is_link_of(&b, link));
}
