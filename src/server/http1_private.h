/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of requests and of answers share: lines and headers. */
#ifndef CSN_SERVER_HTTP1_PRIVATE_H
#define CSN_SERVER_HTTP1_PRIVATE_H

#include "server/http1.h"

/* 1: a line; 0: the empty one; -1: no line, or one with a CR elsewhere than before its LF. */
int csn_http_next_line(csn_str *rest, csn_str *ret_line);
/* 0 or 400. */
int csn_http_parse_header(csn_str line, csn_http_header *ret);
int csn_http_take_length(csn_str value, csn_http_head *h);

#endif
