/* What a sandbox may reach, and whether this machine can give it. */
#include "base/err.h"
#include "kern/net.h"

#include <caisson/sandbox.h>

int csn_network_check(csn_network network, csn_error *err)
{
    const char *missing, *remedy;

    if (network != CSN_NET_NONE && network != CSN_NET_OUTBOUND)
        return csn_fail(err, CSN_E_INVALID, "network %d is unknown", (int) network);
    if (network == CSN_NET_NONE || csn_slirp_check(&missing, &remedy) == 0)
        return CSN_OK;
    return csn_fail(err, CSN_E_UNSUPPORTED, "network 'outbound' needs %s (%s)", missing, remedy);
}
