/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what, and when: JSON lines in DIR/audit.log, only ever appended to; at 16 MiB it becomes audit.log.1, and what
 * was there before is dropped. No body, no query and no key is ever written. */
#ifndef CSN_SERVER_AUDIT_H
#define CSN_SERVER_AUDIT_H

#include "server/req.h"

enum { CSN_AUDIT_BYTES_MAX = 16 << 20 };

int csn_audit_open(const char *dir, csn_error *err);
void csn_audit_close(void);

/* What was written is on the disk when it returns. Lines are written as requests end and survive the end of this process;
 * a power cut may take those of the last seconds, since the last sync. */
void csn_audit_sync(void);

/* A line for routes that change something or enter a sandbox; nothing for the others. */
void csn_audit_request(const csn_req *req, int status);

#endif
