/* SPDX-License-Identifier: Apache-2.0 */
/* Listening TCP ports out of the text of /proc/net/tcp, read inside a sandbox: hostile bytes. */
#ifndef CSN_SERVER_PORTS_H
#define CSN_SERVER_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct csn_ports {
    uint8_t bits[65536 / 8];
} csn_ports;

void csn_ports_read(const char *text, size_t len,
                    csn_ports *ret); /* lines that can't be read are passed over */

static inline bool csn_ports_has(const csn_ports *p, unsigned port)
{
    return port < 65536 && (p->bits[port / 8] >> (port % 8) & 1);
}

#endif
