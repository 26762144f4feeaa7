/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_NET_H
#define CSN_KERN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup.h"
#include "pidfd.h"

/* The current network namespace, by ioctl and rtnetlink. */

typedef struct csn_net_addr {
    int family; /* AF_INET or AF_INET6 */
    uint8_t prefix_len;
    uint8_t bytes[16]; /* network order */
} csn_net_addr;

#define CSN_NET_MAX_ADDRS 256

int csn_net_loopback_up(void);

/* The addresses of all interfaces in the current namespace (ask before entering the sandbox's).
 * *ret_n may exceed what fits: then -E2BIG. */
int csn_net_addresses(csn_net_addr *addrs, size_t max, size_t *ret_n);

/* R26: a filter in the current namespace that lets nothing but the loopback's traffic pass to or from the ranges that
 * no policy may reach and `extra` (the host's own addresses), whatever routes and interface a packet was given, and
 * through the link nothing but what goes to its gateway or its resolver. To be made before the link is. What it answers
 * when nftables can't be had is the kernel's: -EPROTONOSUPPORT, -EINVAL, -ENOENT, -EOPNOTSUPP. */
int csn_net_filter(const csn_net_addr *extra, size_t n_extra);

/* The same ranges as unreachable routes: no wall against those who name an interface, but everybody else is told at
 * once. IPv6 is switched off (`proc_fd`: a procfs root or -1 for /proc). More specific routes win over these, so the
 * link's own subnet stays reachable. */
int csn_net_refuse_private(int proc_fd, const csn_net_addr *extra, size_t n_extra);

/* True when `addr` (an IPv4 or IPv6 address, any form: mapped, NAT64, 6to4) is one that R26 always
 * refuses. Decides on the address, never on a name. */
bool csn_net_is_refused(const csn_net_addr *addr);

/* The IPv4 ranges of it. */
const csn_net_addr *csn_net_refused4(size_t *ret_n);

#define CSN_SLIRP_NET  198, 18, 0 /* the first bytes; its gateway is .2 */
#define CSN_SLIRP_CIDR "198.18.0.0/24"
#define CSN_SLIRP_DNS  "198.18.0.3"

typedef struct csn_slirp {
    const char *program; /* absolute path */
    int netns_fd;        /* of the sandbox */
    int userns_fd;       /* its owner */
    bool
        is_inside; /* as nobody of that user namespace; else as whoever we are (the ordinary way) */
    const csn_cgroup *cgroup; /* counted with the sandbox; NULL: nothing counts */
} csn_slirp;

enum { CSN_SLIRP_FILES = 1024 };

/* How slirp4netns ended when its link did not come up, and the last line it said (maybe ""). */
typedef struct csn_slirp_end {
    csn_child_end end;
    char said[160];
} csn_slirp_end;

/* Starts slirp4netns for the outbound policy and waits until its link is up, at most until
 * `deadline_ns` (CLOCK_MONOTONIC). It may have CSN_SLIRP_FILES descriptors. The child dies with us. Its pidfd is the caller's to signal and
 * reap. On failure nothing remains; -ENETDOWN: it ended, as *ret_end says. */
int csn_slirp_start(const csn_slirp *slirp, int64_t deadline_ns, pid_t *ret_pid, int *ret_pidfd,
                    csn_slirp_end *ret_end);

/* Where slirp4netns is, NULL: nowhere we trust. */
const char *csn_slirp_find(void);

/* Whether a link can be had here: 0, or -errno with what is missing and the command that helps. */
int csn_slirp_check(const char **ret_missing, const char **ret_remedy);

#endif
