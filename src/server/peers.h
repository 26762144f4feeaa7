/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections each address has. IPv6 counts by /64: one subscriber owns that many addresses. */
#ifndef CSN_SERVER_PEERS_H
#define CSN_SERVER_PEERS_H

#include <stdint.h>
#include <sys/socket.h>

typedef struct csn_peer_addr {
    uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d; zeros: no address (a UNIX socket) */
} csn_peer_addr;

typedef struct csn_peers {
    struct csn_peer_count *buckets[1024];
} csn_peers;

csn_peer_addr csn_peer_addr_of(const struct sockaddr_storage *addr);
void csn_peer_addr_text(const csn_peer_addr *addr, char out[46]);

/* One more: how many there are now, or -ENOMEM. */
int csn_peers_enter(csn_peers *peers, const csn_peer_addr *addr);
void csn_peers_leave(csn_peers *peers, const csn_peer_addr *addr);

#endif
