/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of what listens in a sandbox, as bytes: read as strictly as requests are, since whoever wrote them may hope that
 * we and the client see different ends. */
#ifndef CSN_SERVER_HTTP_ANSWER_H
#define CSN_SERVER_HTTP_ANSWER_H

#include "server/http1.h"

typedef struct csn_http_answer {
    int status;          /* 100 … 599 */
    bool is_bodiless;    /* whatever its headers say */
    bool is_until_close; /* its body ends with the connection */
    csn_http_head head;  /* method, target and host are empty */
} csn_http_answer;

/* Reads a complete head (csn_http_scan_head() found its end) of an answer to a request with this method. False: it is
 * none, or one that could be understood in two ways. */
bool csn_http_parse_answer(const char *data, size_t len, bool is_head_request,
                           csn_http_answer *ret);

#endif
