/* SPDX-License-Identifier: Apache-2.0 */
#include "base/seal.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/sha256.h"

#define HEAD ",\"sha256\":\""
#define TAIL "\"}"

enum {
    HEAD_LEN = sizeof(HEAD) - 1,
    TAIL_LEN = sizeof(TAIL) - 1,
    DIGEST = 32,
    HEX_LEN = 2 * DIGEST
};

static void digest_hex(const char *data, size_t len, char out[HEX_LEN + 1])
{
    unsigned char digest[DIGEST];

    csn_sha256(data, len, digest);
    csn_hex(out, digest, DIGEST);
}

static size_t without_newline(const char *data, size_t len)
{
    return len > 0 && data[len - 1] == '\n' ? len - 1 : len;
}

int csn_seal(csn_buf *out)
{
    char hex[HEX_LEN + 1];
    size_t len = without_newline(out->data, out->len);

    if (out->error < 0)
        return out->error;
    if (len < 2 || out->data[len - 1] != '}')
        return -EINVAL;
    csn_buf_truncate(out, len - 1);
    digest_hex(out->data, out->len, hex);
    csn_buf_printf(out, HEAD "%s" TAIL "\n", hex);
    return out->error;
}

int csn_seal_check(const char *data, size_t len)
{
    const size_t size = HEAD_LEN + HEX_LEN + TAIL_LEN;
    char hex[HEX_LEN + 1];
    const char *seal;

    len = without_newline(data, len);
    if (len < size)
        return 0;
    seal = data + len - size;
    if (memcmp(seal, HEAD, HEAD_LEN) != 0 || memcmp(seal + HEAD_LEN + HEX_LEN, TAIL, TAIL_LEN) != 0)
        return 0;
    digest_hex(data, len - size, hex);
    return memcmp(seal + HEAD_LEN, hex, HEX_LEN) == 0 ? 0 : -EBADMSG;
}

bool csn_is_damage(int error)
{
    static const int kinds[] = { EBADMSG, EACCES, EPERM, EISDIR, ELOOP, EFBIG, E2BIG, EIO, ENXIO };

    for (size_t i = 0; i < CSN_COUNT(kinds); i++)
        if (error == kinds[i] || error == -kinds[i])
            return true;
    return false;
}
