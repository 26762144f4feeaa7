/* SPDX-License-Identifier: Apache-2.0 */
/* What relay.py says, line by line. No input or output happens here. */
#ifndef CSN_INTERP_RELAY_LINE_H
#define CSN_INTERP_RELAY_LINE_H

#include "base/buf.h"
#include "base/str.h"

enum { CSN_RELAY_HEAD = 5, CSN_RELAY_DATA_MAX = 64 * 1024, CSN_RELAY_LINE_MAX = 96 * 1024 };

/* A frame: a letter, the length (4 bytes, big-endian), data. */
int csn_relay_put(csn_buf *out, char kind, const void *data, size_t len);
/* The first frame of `in`: its length with its head, 0: there is none. */
size_t csn_relay_next(const csn_buf *in, char *ret_kind, csn_str *ret_data);
/* Appends the frame that a line (without its line feed) says. 0, -EBADMSG, -ENOMEM. */
int csn_relay_line_read(csn_str line, csn_buf *out);

#endif
