/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_WIRE_WEB_H
#define CSN_WIRE_WEB_H

/* The frames between an engine and its caisson-remote: one HTTP request, its cancellation, its answer, and what is to be
 * sent when the engine is gone. The helper reads bytes of strangers, so the engine checks what comes from it, too. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/pack.h"

enum {
    CSN_WEB_URL_MAX = 8192,
    CSN_WEB_KEY_MAX = 4096,
    CSN_WEB_INLINE_MAX = 48 * 1024,     /* of a request's head and tail together */
    CSN_WEB_BODY_MAX = 2 * 1024 * 1024, /* of an answer without a sink */
    CSN_WEB_LAST_MAX = 4096,            /* requests kept for the end at once */
    /* How long a helper works on after its engine is gone: what had to be finished, then the requests for the end. */
    CSN_WEB_FINISH_MS = 30 * 1000,
    CSN_WEB_LAST_MS = 15 * 1000
};

enum {                         /* csn_web_request.flags */
       CSN_WEB_WITH_KEY = 1,   /* the credential goes along: only to origins that may have it */
       CSN_WEB_HAS_SOURCE = 2, /* the first descriptor: read to its end, between head and tail */
       CSN_WEB_HAS_SINK = 4,   /* the last descriptor: gets the body of a 2xx answer */
       CSN_WEB_FINISH =
           8 /* when the engine goes, this one is still waited for, before the last requests */
};

typedef enum csn_web_failure {
    CSN_WEB_OK = 0, /* there is a status */
    CSN_WEB_NO_NAME,
    CSN_WEB_REFUSED, /* nothing was sent */
    CSN_WEB_TLS,
    CSN_WEB_TIMED_OUT,
    CSN_WEB_TOO_LARGE,
    CSN_WEB_CUT,      /* the connection ended in the middle */
    CSN_WEB_PROTOCOL, /* that was not HTTP */
    CSN_WEB_SOURCE,   /* the descriptors: reading one or writing the other failed */
    CSN_WEB_FAILED    /* anything else */
} csn_web_failure;

/* Fixed part of CSN_FRAME_WEB_ASK. */
typedef struct csn_web_ask {
    uint32_t flags;
    uint32_t reserved;
    int64_t timeout_ms;   /* of everything, > 0 */
    int64_t max_bytes;    /* of the answer's body; < 0: none, with a sink */
    int64_t source_bytes; /* < 0: unknown */
} csn_web_ask;

/* Fixed part of CSN_FRAME_WEB_ANSWER. */
typedef struct csn_web_end {
    uint32_t failure; /* csn_web_failure */
    int32_t status;
    int64_t retry_after_ms; /* < 0: not said */
    int64_t n_bytes;        /* of the body; TOO_LARGE: what it would have been, < 0: unknown */
} csn_web_end;

/* What is packed behind them; all borrowed. */
typedef struct csn_web_request {
    csn_web_ask ask;
    const char *method, *url;
    const char *content_type; /* "": no body */
    const char *head, *tail;
    size_t head_len, tail_len;
} csn_web_request;

typedef struct csn_web_answer {
    csn_web_end end;
    const char *content_type;
    const char *message; /* of a failure: one sentence */
    const char *body;    /* without a sink, or of an answer that is not 2xx */
    size_t body_len;
} csn_web_answer;

/* One of the end: sent when the engine is gone. method "" takes it back. */
typedef struct csn_web_last {
    const char *method, *url;
} csn_web_last;

/* The credential and how we call ourselves; sent once, first. */
typedef struct csn_web_key {
    const char *authorization; /* "Bearer …"; "": none */
    const char *extra;         /* one more header line that goes with it; "": none */
    const char *agent;
} csn_web_key;

/* The strings only: the fixed part stands before them. Unpacking checks everything: 0 or -EBADMSG. */
void csn_web_request_pack(csn_pack *p, const csn_web_request *req);
int csn_web_request_unpack(csn_unpack *u, const csn_web_ask *ask, csn_web_request *ret);
void csn_web_answer_pack(csn_pack *p, const csn_web_answer *answer);
int csn_web_answer_unpack(csn_unpack *u, const csn_web_end *end, csn_web_answer *ret);
void csn_web_last_pack(csn_pack *p, const csn_web_last *last);
int csn_web_last_unpack(csn_unpack *u, csn_web_last *ret);
void csn_web_key_pack(csn_pack *p, const csn_web_key *key);
int csn_web_key_unpack(csn_unpack *u, csn_web_key *ret);

/* "http://…" or "https://…", printable ASCII without blanks, at most CSN_WEB_URL_MAX bytes. */
bool csn_web_is_url(const char *url);

#endif
