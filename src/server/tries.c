/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tries.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"

enum { N_ADDRESSES = 1024 };

static struct {
    char address[48];
    int64_t since_ns;
    unsigned n;
} addresses[N_ADDRESSES];

static uint32_t hash_of(const char *s)
{
    uint32_t h = 2166136261u;

    for (; *s; s++)
        h = (h ^ (unsigned char) *s) * 16777619u;
    return h;
}

/* Its own place, or the oldest of four: what is forgotten there was the least of our worries. */
static unsigned place_of(const char *address)
{
    unsigned first = hash_of(address) % N_ADDRESSES, oldest = first;

    for (unsigned i = 0; i < 4; i++) {
        unsigned at = (first + i) % N_ADDRESSES;
        if (strcmp(addresses[at].address, address) == 0)
            return at;
        if (addresses[at].since_ns < addresses[oldest].since_ns)
            oldest = at;
    }
    return oldest;
}

static bool is_current(unsigned at, const char *address)
{
    return strcmp(addresses[at].address, address) == 0 &&
           csn_now_ns() - addresses[at].since_ns < CSN_TRIES_WINDOW_S * CSN_NS_PER_S;
}

/* Who has one address of a /64 has all of them. */
static const char *network_of(const char *address, char out[48])
{
    struct in6_addr v6;

    if (inet_pton(AF_INET6, address, &v6) != 1)
        return address;
    memset(v6.s6_addr + 8, 0, 8);
    return inet_ntop(AF_INET6, &v6, out, 48) ? out : address;
}

void csn_tries_failed(const char *from)
{
    char network[48];
    const char *address = network_of(from, network);
    unsigned at = place_of(address);

    if (is_current(at, address)) {
        addresses[at].n++;
        return;
    }
    (void) snprintf(addresses[at].address, sizeof(addresses[at].address), "%s", address);
    addresses[at].since_ns = csn_now_ns();
    addresses[at].n = 1;
}

bool csn_tries_is_blocked(const char *from)
{
    char network[48];
    const char *address = network_of(from, network);
    unsigned at = place_of(address);

    return is_current(at, address) && addresses[at].n > CSN_TRIES_MAX;
}
