/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of our own JSON files: the last member of the object is the SHA-256 of all bytes before it. Readers that know nothing
 * of it read the file as before, and files written before it came read as whole. */
#ifndef CSN_BASE_SEAL_H
#define CSN_BASE_SEAL_H

#include <stdbool.h>

#include "base/buf.h"

/* `out` holds one JSON object. 0 or the buffer's error. */
int csn_seal(csn_buf *out);
/* 0: whole, or without a checksum; -EBADMSG: a byte before it has changed. */
int csn_seal_check(const char *data, size_t len);
/* Whether a file of ours that can't be read with this errno, of either sign, is damaged. A lack of memory or descriptors passes. */
bool csn_is_damage(int error);

#endif
