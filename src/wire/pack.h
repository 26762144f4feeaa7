/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_WIRE_PACK_H
#define CSN_WIRE_PACK_H

/* Packed fields: u32, i64 and strings (u32 length, bytes, one NUL that the length does not count), one after the other,
 * unaligned. Both sides are sticky: many calls, one look at `error`. No memory is allocated; an unpacked string points
 * into the message. */

#include <stddef.h>
#include <stdint.h>

typedef struct csn_pack {
    char *data; /* borrowed */
    size_t len, cap;
    int error; /* 0 or -EMSGSIZE */
} csn_pack;

typedef struct csn_unpack {
    const char *data; /* borrowed */
    size_t len, pos;
    int error; /* 0 or -EBADMSG */
} csn_unpack;

void csn_pack_u32(csn_pack *p, uint32_t value);
void csn_pack_i64(csn_pack *p, int64_t value);
void csn_pack_bytes(csn_pack *p, const void *data, size_t len);
void csn_pack_str(csn_pack *p, const char *s); /* NULL packs as "" */

uint32_t csn_unpack_u32(csn_unpack *u);
int64_t csn_unpack_i64(csn_unpack *u);
/* Never NULL, NUL-terminated; "" after an error. A string with a NUL inside is an error for _str, fine for _bytes. */
const char *csn_unpack_str(csn_unpack *u);
const char *csn_unpack_bytes(csn_unpack *u, size_t *ret_len);
/* 0 when everything was read and nothing was wrong, else -EBADMSG. */
int csn_unpack_end(const csn_unpack *u);

#endif
