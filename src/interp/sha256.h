/* SHA-256 (FIPS 180-4), for the short name of a piece of code. */
#ifndef CSN_INTERP_SHA256_H
#define CSN_INTERP_SHA256_H

#include <stddef.h>

void csn_sha256(const void *data, size_t len, unsigned char out[32]);

#endif
