/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_NETLINK_H
#define CSN_KERN_NETLINK_H

#include <stddef.h>
#include <stdint.h>

/* Just enough netlink: one request, its acknowledgement or its dump; a batch. For net.c and nft.c. */

struct nlmsghdr;

typedef struct csn_netlink {
    int fd; /* owned */
    uint32_t sequence;
} csn_netlink;

int csn_netlink_open(csn_netlink *nl, int protocol); /* NETLINK_… */
void csn_netlink_done(csn_netlink *nl);

/* Sends `request` (its length in nlmsg_len; NLM_F_ACK is added) and waits for the verdict. */
int csn_netlink_do(csn_netlink *nl, struct nlmsghdr *request);

/* Sends messages that stand one behind the other, at least one of which asks for an acknowledgement. Waits for the first
 * verdict, which is the kernel's on all of them when it takes them all or none. */
int csn_netlink_batch(csn_netlink *nl, void *messages, size_t len);

/* Sends a dump request; `each` sees every message until it returns non-zero, which is returned. */
int csn_netlink_dump(csn_netlink *nl, struct nlmsghdr *request,
                     int (*each)(const struct nlmsghdr *message, void *user), void *user);

/* Appends an attribute to a request in a buffer of `size` bytes: -EMSGSIZE if it doesn't fit. */
int csn_netlink_put(struct nlmsghdr *request, size_t size, uint16_t type, const void *data,
                    size_t len);

#endif
