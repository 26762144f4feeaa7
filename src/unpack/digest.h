/* SHA-256, by libcrypto. */
#ifndef CSN_UNPACK_DIGEST_H
#define CSN_UNPACK_DIGEST_H

#include <stddef.h>

enum { CSN_DIGEST_SIZE = 65 }; /* 64 hex digits and a NUL */

typedef struct csn_digest csn_digest;

/* Loads what libcrypto loads; to be called before the process confines itself. 0 or -ENOSYS. */
int csn_digest_prepare(void);

csn_digest *csn_digest_new(void); /* NULL: no memory */
int csn_digest_add(csn_digest *digest, const void *data, size_t len);
int csn_digest_end(csn_digest *digest, char out[CSN_DIGEST_SIZE]);
csn_digest *csn_digest_free(csn_digest *digest); /* always NULL */
void csn_digest_auto(csn_digest **digest);

/* Of one piece. */
int csn_digest_of(const void *data, size_t len, char out[CSN_DIGEST_SIZE]);

#endif
