/* SPDX-License-Identifier: Apache-2.0 */
/* One call of the service's API: a request, sent again where that is safe, and its answer or the reason why there is none. */
#ifndef CSN_DAYTONA_CALL_H
#define CSN_DAYTONA_CALL_H

#include <stdbool.h>

#include "base/buf.h"
#include "daytona.h"

typedef struct csn_api_call csn_api_call;

/* Once, from the loop. result: CSN_OK for a 2xx answer; else *err says what is wrong, and `answer` (may be NULL) what came. */
typedef void csn_api_call_done(const csn_web_answer *answer, int result, const csn_error *err,
                               void *user);

/* Whether a request may be sent again that may have had its effect: its connection broke, or 502, 503, 504 came. */
typedef enum csn_repeat {
    CSN_REPEAT_BY_METHOD = 0, /* GET and DELETE */
    CSN_REPEAT_SAFE,          /* twice is as good as once */
    CSN_REPEAT_NEVER          /* the second answer would mean something else */
} csn_repeat;

/* All borrowed until the call returns. */
typedef struct csn_api_call_spec {
    const char *what; /* for messages: "create a sandbox"; a literal */
    const char *method;
    const char *url;
    const char *content_type; /* NULL: no body */
    const char *body, *tail;  /* around the source */
    size_t body_len, tail_len;
    int source_fd; /* -1: none */
    int64_t source_bytes;
    int sink_fd; /* -1: the body comes with the answer, at most CSN_WEB_BODY_MAX bytes */
    int64_t max_bytes;
    int64_t deadline_ns; /* of all tries */
    csn_repeat repeat;
    bool is_without_key;
    bool must_finish; /* CSN_WEB_FINISH */
    uint32_t last;    /* csn_web_ask.last */
    bool is_split;    /* a log with marks (marks.h) rather than both streams in one text */
} csn_api_call_spec;

#define CSN_API_CALL_SPEC(...) \
    { \
        .source_fd = -1, .sink_fd = -1, __VA_ARGS__ \
    }

/* NULL: *err says why. */
csn_api_call *csn_api_call_start(csn_daytona *d, const csn_api_call_spec *spec,
                                 csn_api_call_done *done, void *user, csn_error *err);
void csn_api_call_cancel(csn_api_call *call); /* `done` does not run; NULL is fine */
void csn_api_calls_end(
    csn_daytona
        *d); /* those that pause between two tries: CSN_E_CANCELLED; the link ends the others */

/* A `done` of whoever does not want to know. */
void csn_api_ignore(const csn_web_answer *answer, int result, const csn_error *err, void *user);

/* An answer that no frame holds comes into a file of memory. */
enum { CSN_API_LARGE_MAX = 64 << 20 };
int csn_api_read_sink(int fd, int64_t n_bytes, const char *what, csn_buf *out, csn_error *err);

/* The class of a status, for a message's code: 404 CSN_E_NOT_FOUND, … */
int csn_code_of_status(int status);

#endif
