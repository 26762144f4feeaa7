/* Secrets out of texts that people see. */
#ifndef CSN_BASE_REDACT_H
#define CSN_BASE_REDACT_H

#include "buf.h"

/* Appends `text` with what looks like a credential replaced by [REDACTED]: URLs with a user part or of databases and
 * brokers, password=…, …API_KEY=…, Authorization: Bearer …, sk-…, JWTs. */
int csn_redact(const char *text, csn_buf *out);

#endif
