/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "kern/missing.h"
#include "kern/net.h"
#include "kern/pidfd.h"
#include "kern/spawn.h"
#include "kern/userns.h"
#include "owner.h"

/* 0, or the errno of sending a datagram there. */
static int udp_errno(const char *address)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
    csn_auto(fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_INT(inet_pton(AF_INET, address, &to.sin_addr), 1);
    return sendto(fd, "x", 1, 0, (struct sockaddr *) &to, sizeof(to)) < 0 ? errno : 0;
}

static void enter_new_network(void)
{
    csn_idmap uid = { 0, geteuid(), 1 }, gid = { 0, getegid(), 1 };

    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("kernel: no right to make namespaces");
    CHECK_INT(csn_userns_map(getpid(), &uid, 1, &gid, 1, true), 0);
}

TEST(loopback_comes_up)
{
    csn_net_addr addrs[8];
    size_t n = 0;

    enter_new_network();
    CHECK_INT(udp_errno("127.0.0.1"), ENETUNREACH);
    CHECK_INT(csn_net_loopback_up(), 0);
    CHECK_INT(udp_errno("127.0.0.1"), 0);
    CHECK_INT(csn_net_addresses(addrs, 8, &n), 0);
    CHECK(n >= 1);
    CHECK_INT(addrs[0].family, AF_INET);
    CHECK_MEM(addrs[0].bytes, 4, "\x7f\0\0\1", 4);
    CHECK_INT(csn_net_addresses(addrs, 0, &n), -E2BIG);
}

TEST(refused_ranges_are_unreachable)
{
    static const char *const refused[] = { "10.1.2.3",    "172.16.0.1",      "192.168.1.1",
                                           "100.64.0.1",  "169.254.169.254", "224.0.0.1",
                                           "203.0.113.7", "198.19.0.1" };
    csn_net_addr own = { AF_INET, 24, { 203, 0, 113, 7 } };

    enter_new_network();
    CHECK_INT(csn_net_loopback_up(), 0);
    CHECK_INT(csn_net_refuse_private(-1, &own, 1), 0);
    for (size_t i = 0; i < CSN_COUNT(refused); i++)
        CHECK_INT(udp_errno(refused[i]), EHOSTUNREACH);
    CHECK_INT(udp_errno("203.0.113.8"), ENETUNREACH); /* not refused, only no way there */
    CHECK_INT(udp_errno("127.0.0.1"), 0);
    csn_auto(fd) int six = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 local = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    if (six >= 0)
        CHECK_INT(bind(six, (struct sockaddr *) &local, sizeof(local)), -1);
}

static bool refused(const char *text)
{
    csn_net_addr a = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };

    CHECK_INT(inet_pton(a.family, text, a.bytes), 1);
    return csn_net_is_refused(&a);
}

TEST(an_address_is_judged_in_all_its_clothes)
{
    static const char *const bad[] = {
        "127.0.0.1",
        "0.0.0.0",
        "10.255.255.255",
        "100.127.0.1",
        "169.254.169.254",
        "172.31.255.255",
        "192.168.0.1",
        "224.0.0.251",
        "255.255.255.255",
        "::1",
        "::",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::169.254.169.254",
        "2002:0a00:0001::1",
        "fe80::1",
        "fd00:ec2::254",
        "ff02::1",
        "fec0::1",
        "::127.0.0.1",
        "2001::1",
        "64:ff9b:1::1",
    };
    static const char *const good[] = { "1.1.1.1",          "172.32.0.1",     "100.128.0.1",
                                        "2606:4700::1111",  "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
                                        "2002:0808:0808::1" };

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        if (!refused(bad[i]))
            FAIL("%s is not refused", bad[i]);
    for (size_t i = 0; i < CSN_COUNT(good); i++)
        if (refused(good[i]))
            FAIL("%s is refused", good[i]);
    CHECK(csn_net_is_refused(&(csn_net_addr){ .family = AF_UNIX }));
}

/* ---- a sandbox's link ---- */

static struct sockaddr_in a_listener(int *ret_fd)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t len = sizeof(at);
    csn_net_addr addrs[64];
    size_t n = 0;

    CHECK_INT(csn_net_addresses(addrs, 64, &n), 0);
    for (size_t i = 0; i < n; i++)
        if (addrs[i].family == AF_INET && addrs[i].bytes[0] != 127)
            memcpy(&at.sin_addr, addrs[i].bytes, 4);
    if (at.sin_addr.s_addr == 0)
        SKIP("net: this host has no address but loopback");
    *ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(*ret_fd, (struct sockaddr *) &at, sizeof(at)), 0);
    CHECK_INT(listen(*ret_fd, 4), 0);
    CHECK_INT(getsockname(*ret_fd, (struct sockaddr *) &at, &len), 0);
    return at;
}

static int connect_errno(const struct sockaddr_in *to)
{
    csn_auto(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (const struct sockaddr *) to, sizeof(*to)) < 0 ? errno : 0;
}

/* 1: the link doesn't reach the host's address; 2: it still does when refused; 3: refusing failed */
static int sandbox_side(const struct sockaddr_in *host, int go)
{
    csn_net_addr own = { .family = AF_INET, .prefix_len = 32 };
    char byte;

    memcpy(own.bytes, &host->sin_addr, 4);
    if (csn_net_loopback_up() < 0 || csn_read(go, &byte, 1) != 1)
        return 9;
    if (connect_errno(host) != 0)
        return 1;
    if (csn_net_refuse_private(-1, &own, 1) < 0)
        return 3;
    return connect_errno(host) == EHOSTUNREACH ? 0 : 2;
}

static int ns_fd(pid_t pid, const char *kind)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, kind);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

TEST(the_link_comes_up_and_routes_decide_what_it_reaches)
{
    csn_idmap uid = { 1000, geteuid(), 1 }, gid = { 1000, getegid(), 1 };
    csn_slirp slirp = { .program = csn_slirp_find() };
    int go[2], listener, pidfd = -1, link = -1;
    csn_slirp_end why;
    csn_child_end end;
    pid_t link_pid;

    if (!slirp.program)
        SKIP("slirp4netns is not installed");
    if (access("/dev/net/tun", R_OK | W_OK) < 0)
        SKIP("kernel: no /dev/net/tun");
    struct sockaddr_in host = a_listener(&listener);
    CHECK_INT(pipe2(go, O_CLOEXEC), 0);
    pid_t pid = csn_clone(CSN_CLONE_NEWUSER | CSN_CLONE_NEWNET, -1, &pidfd);
    if (pid == 0)
        _exit(sandbox_side(&host, go[0]));
    if (pid == -EPERM)
        SKIP("kernel: no right to make namespaces");
    CHECK(pid > 0);
    CHECK_INT(csn_userns_map(pid, &uid, 1, &gid, 1, true), 0);
    slirp.netns_fd = ns_fd(pid, "net");
    slirp.userns_fd = ns_fd(pid, "user");
    int64_t t = csn_now_ns();
    CHECK_INT(csn_slirp_start(&slirp, csn_deadline_in_ms(10000), &link_pid, &link, &why), 0);
    csn_test_note("link up after %lld ms", (long long) (csn_now_ns() - t) / 1000000);
    CHECK_INT(csn_write_all(go[1], "x", 1), 0);
    CHECK_INT(csn_pidfd_reap(pidfd, false, &end), 0);
    CHECK_INT(csn_pidfd_signal(link, SIGKILL), 0);
    CHECK_INT(csn_pidfd_reap(link, false, NULL), 0);
    CHECK_INT(end.status, 0);
}

/* More than is kept is not kept, and does not hold it up. */
#define TALKER \
    "#!/bin/sh\necho first >&2\necho the tap device said no >&2\n" \
    "printf '\\000%0100000d' 0 >&2\nexit 3\n"

TEST(a_link_that_cannot_start_leaves_nothing_and_tells_why)
{
    char *script = csn_test_path("slirp");
    csn_slirp slirp = { .program = "/bin/false" };
    csn_slirp_end why;
    int link = -1;
    pid_t pid;

    slirp.netns_fd = slirp.userns_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(csn_slirp_start(&slirp, csn_deadline_in_ms(10000), &pid, &link, &why), -ENETDOWN);
    CHECK_INT(why.end.status, 1);
    CHECK_STR(why.said, "");
    slirp.program = "/usr/bin/env";
    CHECK_INT(csn_slirp_start(&slirp, csn_deadline_in_ms(10000), &pid, &link, &why), -ENETDOWN);
    CHECK_INT(why.end.status, 125);
    CHECK_STR(why.said, "Try '/usr/bin/env --help' for more information.");
    int fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    CHECK_INT(csn_write_all(fd, TALKER, strlen(TALKER)), 0);
    csn_close(&fd);
    slirp.program = script;
    CHECK_INT(csn_slirp_start(&slirp, csn_deadline_in_ms(10000), &pid, &link, &why), -ENETDOWN);
    CHECK_INT(why.end.status, 3);
    CHECK_STR(why.said, "the tap device said no");
    CHECK_INT(csn_reap_any(NULL), -ECHILD);
}
