/* SPDX-License-Identifier: Apache-2.0 */
#include "server/peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fault.h"

typedef struct csn_peer_count {
    struct csn_peer_count *next;
    csn_peer_addr addr;
    int n;
} csn_peer_count;

csn_peer_addr csn_peer_addr_of(const struct sockaddr_storage *addr)
{
    csn_peer_addr ret = { { 0 } };
    const struct sockaddr_in *v4 = (const void *) addr;
    const struct sockaddr_in6 *v6 = (const void *) addr;

    if (addr->ss_family == AF_INET6)
        memcpy(ret.bytes, &v6->sin6_addr, 16);
    if (addr->ss_family == AF_INET) {
        ret.bytes[10] = ret.bytes[11] = 0xff;
        memcpy(ret.bytes + 12, &v4->sin_addr, 4);
    }
    return ret;
}

static bool is_v4(const csn_peer_addr *addr)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

    return memcmp(addr->bytes, mapped, sizeof(mapped)) == 0;
}

void csn_peer_addr_text(const csn_peer_addr *addr, char out[46])
{
    const void *bytes = is_v4(addr) ? addr->bytes + 12 : addr->bytes;

    if (!inet_ntop(is_v4(addr) ? AF_INET : AF_INET6, bytes, out, 46))
        out[0] = '\0';
}

static csn_peer_addr key_of(const csn_peer_addr *addr)
{
    csn_peer_addr key = *addr;

    if (!is_v4(addr))
        memset(key.bytes + 8, 0, 8);
    return key;
}

static csn_peer_count **find(csn_peers *peers, const csn_peer_addr *key)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < sizeof(key->bytes); i++)
        hash = (hash ^ key->bytes[i]) * 16777619u;
    csn_peer_count **at = &peers->buckets[(hash ^ (hash >> 16)) % CSN_COUNT(peers->buckets)];
    while (*at && memcmp((*at)->addr.bytes, key->bytes, sizeof(key->bytes)) != 0)
        at = &(*at)->next;
    return at;
}

int csn_peers_enter(csn_peers *peers, const csn_peer_addr *addr)
{
    csn_peer_addr key = key_of(addr);
    csn_peer_count **at = find(peers, &key);

    if (!*at) {
        *at = csn_calloc(1, sizeof(**at));
        if (!*at)
            return -ENOMEM;
        (*at)->addr = key;
    }
    return ++(*at)->n;
}

void csn_peers_leave(csn_peers *peers, const csn_peer_addr *addr)
{
    csn_peer_addr key = key_of(addr);
    csn_peer_count **at = find(peers, &key), *count = *at;

    if (count && --count->n == 0) {
        *at = count->next;
        free(count);
    }
}
