/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pack.h"

#include <errno.h>
#include <string.h>

/* Room for n more bytes, or NULL and the error stays. */
static char *reserve(csn_pack *p, size_t n)
{
    if (p->error < 0)
        return NULL;
    if (n > p->cap - p->len) {
        p->error = -EMSGSIZE;
        return NULL;
    }
    p->len += n;
    return p->data + p->len - n;
}

void csn_pack_u32(csn_pack *p, uint32_t value)
{
    char *at = reserve(p, sizeof(value));

    if (at)
        memcpy(at, &value, sizeof(value));
}

void csn_pack_i64(csn_pack *p, int64_t value)
{
    char *at = reserve(p, sizeof(value));

    if (at)
        memcpy(at, &value, sizeof(value));
}

void csn_pack_bytes(csn_pack *p, const void *data, size_t len)
{
    uint32_t len32 = (uint32_t) len;
    char *at;

    if (len >= UINT32_MAX - sizeof(len32) - 1) {
        p->error = p->error < 0 ? p->error : -EMSGSIZE;
        return;
    }
    at = reserve(p, sizeof(len32) + len + 1);
    if (!at)
        return;
    memcpy(at, &len32, sizeof(len32));
    if (len > 0)
        memcpy(at + sizeof(len32), data, len);
    at[sizeof(len32) + len] = '\0';
}

void csn_pack_str(csn_pack *p, const char *s)
{
    csn_pack_bytes(p, s, s ? strlen(s) : 0);
}

/* The next n bytes, or NULL and the error stays. */
static const char *consume(csn_unpack *u, size_t n)
{
    if (u->error < 0)
        return NULL;
    if (u->pos > u->len || n > u->len - u->pos) {
        u->error = -EBADMSG;
        return NULL;
    }
    u->pos += n;
    return u->data + u->pos - n;
}

uint32_t csn_unpack_u32(csn_unpack *u)
{
    const char *at = consume(u, sizeof(uint32_t));
    uint32_t value = 0;

    if (at)
        memcpy(&value, at, sizeof(value));
    return value;
}

int64_t csn_unpack_i64(csn_unpack *u)
{
    const char *at = consume(u, sizeof(int64_t));
    int64_t value = 0;

    if (at)
        memcpy(&value, at, sizeof(value));
    return value;
}

const char *csn_unpack_bytes(csn_unpack *u, size_t *ret_len)
{
    uint32_t len = csn_unpack_u32(u);
    const char *at = consume(u, (size_t) len + 1);

    *ret_len = 0;
    if (!at)
        return "";
    if (at[len] != '\0') {
        u->error = -EBADMSG;
        return "";
    }
    *ret_len = len;
    return at;
}

const char *csn_unpack_str(csn_unpack *u)
{
    size_t len;
    const char *s = csn_unpack_bytes(u, &len);

    if (u->error == 0 && memchr(s, '\0', len)) {
        u->error = -EBADMSG;
        return "";
    }
    return s;
}

int csn_unpack_end(const csn_unpack *u)
{
    return u->error == 0 && u->pos == u->len ? 0 : -EBADMSG;
}
