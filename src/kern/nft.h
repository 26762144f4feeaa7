/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_NFT_H
#define CSN_KERN_NFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netlink.h"

/* Just enough nftables, by netlink: one table of rules that are appended to two chains and take effect together. No
 * program is needed, and no privilege but that over the network namespace. No memory is allocated. */

enum { CSN_NFT_BYTES = 192 * 1024 }; /* less than a socket may send at once */

typedef struct csn_nft {
    struct nlmsghdr *message; /* the one being written */
    size_t len, rule_at;      /* rule_at: where the open rule's conditions begin */
    int error;                /* sticky: -EMSGSIZE */
    _Alignas(4) char data[CSN_NFT_BYTES];
} csn_nft;

typedef enum csn_nft_verdict {
    CSN_NFT_ACCEPT,
    CSN_NFT_DROP,
    CSN_NFT_REJECT, /* dropped, and the sender is told: connect() fails at once */
} csn_nft_verdict;

typedef enum csn_nft_address {
    CSN_NFT_SOURCE,
    CSN_NFT_DESTINATION,
    CSN_NFT_NEXT_HOP, /* compared whole: a prefix of 32 bits */
} csn_nft_address;

/* An empty table of this name for IPv4 and IPv6. */
void csn_nft_begin(csn_nft *n, const char *table);

/* A chain at what the namespace sends (is_output) or takes; `policy` holds for what no rule decides. */
void csn_nft_chain(csn_nft *n, const char *table, const char *chain, bool is_output,
                   csn_nft_verdict policy);

/* One rule, at the chain's end. Its conditions lie between begin and end; all of them have to hold. */
void csn_nft_rule_begin(csn_nft *n, const char *table, const char *chain);
void csn_nft_if_interface(csn_nft *n, bool is_output, uint32_t index);
void csn_nft_if_not_ipv4(csn_nft *n);
/* Only behind a rule that has decided on all that is not IPv4. */
void csn_nft_if_ipv4(csn_nft *n, csn_nft_address which, const uint8_t bytes[4], uint8_t prefix_len);
void csn_nft_rule_end(csn_nft *n, csn_nft_verdict verdict);

/* Hands everything to the kernel: all or nothing. `nl` was opened for NETLINK_NETFILTER. */
int csn_nft_commit(csn_nft *n, csn_netlink *nl);

#endif
