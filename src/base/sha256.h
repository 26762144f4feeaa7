/* SHA-256 (FIPS 180-4), for short names; 65 lines instead of a library that every embedder would load. */
#ifndef CSN_BASE_SHA256_H
#define CSN_BASE_SHA256_H

#include <stddef.h>

void csn_sha256(const void *data, size_t len, unsigned char out[32]);

#endif
