/* SPDX-License-Identifier: Apache-2.0 */
/* The wall of the outbound policy. Routes alone are none: who names an interface (SO_BINDTODEVICE, IP_PKTINFO,
 * IP_UNICAST_IF, IP_MULTICAST_IF) gets a packet out where the lookup fails, since Linux then takes the address for a
 * neighbour's. A filter sees the packet itself, before a neighbour is looked for: so what is refused takes no place in
 * the table of neighbours either, which all namespaces share. Two neighbours are left, the link's gateway and its
 * resolver, whatever a packet was told about its way. */

#include <errno.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <string.h>

#include "base/fault.h"
#include "net.h"
#include "netlink.h"
#include "nft.h"

#define TABLE "caisson"
#define OUT   "out"
#define IN    "in"

static const uint8_t gateway[4] = { CSN_SLIRP_NET, 2 }, resolver[4] = { CSN_SLIRP_NET, 3 };

static void begin_rule(csn_nft *n, bool is_output)
{
    csn_nft_rule_begin(n, TABLE, is_output ? OUT : IN);
}

static void accept_loopback(csn_nft *n, bool is_output, uint32_t loopback)
{
    begin_rule(n, is_output);
    csn_nft_if_interface(n, is_output, loopback);
    csn_nft_rule_end(n, CSN_NFT_ACCEPT);
}

static void drop_other_families(csn_nft *n, bool is_output)
{
    begin_rule(n, is_output);
    csn_nft_if_not_ipv4(n);
    csn_nft_rule_end(n, CSN_NFT_DROP);
}

static void decide(csn_nft *n, bool is_output, csn_nft_address which, const uint8_t bytes[4],
                   uint8_t prefix_len, csn_nft_verdict verdict)
{
    begin_rule(n, is_output);
    csn_nft_if_ipv4(n, which, bytes, prefix_len);
    csn_nft_rule_end(n, verdict);
}

static void refuse_ranges(csn_nft *n, bool is_output, const csn_net_addr *extra, size_t n_extra,
                          csn_nft_verdict verdict)
{
    const csn_nft_address which = is_output ? CSN_NFT_DESTINATION : CSN_NFT_SOURCE;
    size_t n_ranges = 0;
    const csn_net_addr *ranges = csn_net_refused4(&n_ranges);

    for (size_t i = 0; i < n_ranges; i++)
        decide(n, is_output, which, ranges[i].bytes, ranges[i].prefix_len, verdict);
    for (size_t i = 0; i < n_extra; i++)
        if (extra[i].family == AF_INET)
            decide(n, is_output, which, extra[i].bytes, 32, verdict);
}

static void add_output(csn_nft *n, uint32_t loopback, const csn_net_addr *extra, size_t n_extra,
                       csn_nft_verdict refusal)
{
    csn_nft_chain(n, TABLE, OUT, true, CSN_NFT_DROP);
    accept_loopback(n, true, loopback);
    drop_other_families(n, true);
    decide(n, true, CSN_NFT_DESTINATION, resolver, 32, CSN_NFT_ACCEPT);
    refuse_ranges(n, true, extra, n_extra, refusal);
    decide(n, true, CSN_NFT_NEXT_HOP, gateway, 32, CSN_NFT_ACCEPT);
}

/* Whoever got a packet nevertheless is not heard: the same addresses, as senders. */
static void add_input(csn_nft *n, uint32_t loopback, const csn_net_addr *extra, size_t n_extra)
{
    csn_nft_chain(n, TABLE, IN, false, CSN_NFT_ACCEPT);
    accept_loopback(n, false, loopback);
    drop_other_families(n, false);
    decide(n, false, CSN_NFT_SOURCE, resolver, 32, CSN_NFT_ACCEPT);
    decide(n, false, CSN_NFT_SOURCE, gateway, 32, CSN_NFT_ACCEPT); /* what it says of errors */
    refuse_ranges(n, false, extra, n_extra, CSN_NFT_DROP);
}

static int try_filter(csn_netlink *nl, uint32_t loopback, const csn_net_addr *extra, size_t n_extra,
                      csn_nft_verdict refusal)
{
    static csn_nft n; /* too large for a stack */

    csn_nft_begin(&n, TABLE);
    add_output(&n, loopback, extra, n_extra, refusal);
    add_input(&n, loopback, extra, n_extra);
    return csn_nft_commit(&n, nl);
}

/* Telling the sender is a module of its own. Without it what is refused is as lost, only connect() learns it late. */
int csn_net_filter(const csn_net_addr *extra, size_t n_extra)
{
    unsigned loopback = if_nametoindex("lo");
    csn_netlink nl;
    int r = csn_fault_as("net_filter", ENOENT);

    if (r == 0 && loopback == 0)
        r = -errno;
    if (r == 0)
        r = csn_netlink_open(&nl, NETLINK_NETFILTER);
    if (r < 0)
        return r;
    r = try_filter(&nl, loopback, extra, n_extra, CSN_NFT_REJECT);
    if (r < 0)
        r = try_filter(&nl, loopback, extra, n_extra, CSN_NFT_DROP);
    csn_netlink_done(&nl);
    return r;
}
