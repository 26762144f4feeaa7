/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_SERVER_BASE64URL_H
#define CSN_SERVER_BASE64URL_H

#include "base/buf.h"
#include "base/str.h"

/* Appends the bytes; padding may be there or not. 0, -EBADMSG, or the buffer's error. */
int csn_base64url_decode(csn_str text, csn_buf *out);

#endif
