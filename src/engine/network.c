/* What a sandbox may reach, and whether this machine can give it. */
#include <string.h>

#include <caisson/sandbox.h>

#include "base/err.h"
#include "kern/net.h"
#include "kern/tries.h"

int csn_network_check(csn_network network, csn_error *err)
{
    const char *missing, *remedy;

    if (network != CSN_NET_NONE && network != CSN_NET_OUTBOUND)
        return csn_fail(err, CSN_E_INVALID, "network %d is unknown", (int) network);
    if (network == CSN_NET_NONE)
        return CSN_OK;
    if (csn_slirp_check(&missing, &remedy) < 0)
        return csn_fail(err, CSN_E_UNSUPPORTED, "network 'outbound' needs %s (%s)", missing,
                        remedy);
    int r = csn_try_net_filter();
    return r < 0 ? csn_fail(err, CSN_E_UNSUPPORTED,
                            "network 'outbound' needs nftables in a network namespace: %s"
                            " (modprobe nf_tables)",
                            strerror(-r))
                 : CSN_OK;
}
