#include "id.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include "fault.h"

int csn_random(void *buf, size_t len)
{
    char *at = buf;

    if (csn_fault_as("getrandom", EIO) < 0)
        return -EIO;
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t) n;
    }
    return 0;
}

void csn_hex(char *out, const void *data, size_t n_bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = data;

    for (size_t i = 0; i < n_bytes; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

int csn_id_hex(char *out, size_t n_bytes)
{
    unsigned char bytes[32];

    if (n_bytes > sizeof(bytes))
        return -EINVAL;
    int r = csn_random(bytes, n_bytes);
    if (r < 0)
        return r;
    csn_hex(out, bytes, n_bytes);
    return 0;
}
