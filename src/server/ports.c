/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ports.h"

#include <string.h>

#include "base/str.h"

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "  0: 0100007F:0BB8 00000000:0000 0A …": the number, local, remote, state. */
static int port_of(csn_str line)
{
    csn_str fields[4], part;
    size_t n = 0;
    int port = 0;

    while (n < 4 && csn_str_split(&line, ' ', &part))
        if (part.len > 0)
            fields[n++] = part;
    if (n < 4 || !csn_str_is(fields[3], "0A") || fields[1].len < 6 ||
        fields[1].data[fields[1].len - 5] != ':')
        return -1;
    for (size_t i = fields[1].len - 4; i < fields[1].len; i++) {
        int d = hex(fields[1].data[i]);
        if (d < 0)
            return -1;
        port = port * 16 + d;
    }
    return port;
}

void csn_ports_read(const char *text, size_t len, csn_ports *ret)
{
    csn_str rest = csn_str_n(text, len), line;

    memset(ret, 0, sizeof(*ret));
    while (csn_str_split(&rest, '\n', &line)) {
        int port = port_of(line);
        if (port >= 0)
            ret->bits[port / 8] |= (uint8_t) (1u << (port % 8));
    }
}
