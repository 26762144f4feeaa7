#include "id.h"

#include <errno.h>
#include <string.h>
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

int csn_id_uuid(char out[37])
{
    unsigned char bytes[16];
    char hex[33];

    int r = csn_random(bytes, sizeof(bytes));
    if (r < 0)
        return r;
    bytes[6] = (unsigned char) ((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char) ((bytes[8] & 0x3f) | 0x80);
    csn_hex(hex, bytes, sizeof(bytes));
    for (size_t from = 0, to = 0; to < 36; to++)
        out[to] = to == 8 || to == 13 || to == 18 || to == 23 ? '-' : hex[from++];
    out[36] = '\0';
    return 0;
}

bool csn_is_uuid(const char *s)
{
    for (size_t i = 0; i < 36; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool is_hex = (s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f');
        if (is_dash ? s[i] != '-' : !is_hex)
            return false;
    }
    return s[36] == '\0';
}
