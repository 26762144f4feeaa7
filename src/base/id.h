/* Random bytes and ids from the kernel's generator. */
#ifndef CSN_BASE_ID_H
#define CSN_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>

/* Fills buf from getrandom(2): 0 or -errno. */
int csn_random(void *buf, size_t len);

/* n_bytes random bytes as 2*n_bytes lower-case hex digits and a NUL: out needs 2*n_bytes+1. n_bytes <= 32. */
int csn_id_hex(char *out, size_t n_bytes);

/* A random UUID (version 4), lower-case. 0 or -errno. */
int csn_id_uuid(char out[37]);

/* "8-4-4-4-12" lower-case hex digits. */
bool csn_is_uuid(const char *s);

/* Bytes as lower-case hex with a NUL. */
void csn_hex(char *out, const void *data, size_t n_bytes);

#endif
