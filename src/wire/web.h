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
    CSN_WEB_PIECE_MAX = 32 * 1024,      /* bytes of one piece of a WebSocket's message */
    CSN_WEB_OFFER_MAX = 16 * 1024,      /* of subprotocols */
    /* How long a helper works on after its engine is gone: what had to be finished, then the requests for the end. */
    CSN_WEB_FINISH_MS = 30 * 1000,
    CSN_WEB_LAST_MS = 15 * 1000
};

enum {                         /* csn_web_request.flags */
       CSN_WEB_WITH_KEY = 1,   /* the credential goes along: only to origins that may have it */
       CSN_WEB_HAS_SOURCE = 2, /* the first descriptor: read to its end, between head and tail */
       CSN_WEB_HAS_SINK = 4,   /* the last descriptor: gets the body of a 2xx answer */
       CSN_WEB_FINISH =
           8, /* when the engine goes, this one is still waited for, before the last requests */
       CSN_WEB_WITH_OPTION = 16
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
    uint32_t last; /* 0, or the one of the end that waits until this one was answered with 2xx */
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
    const char *option; /* a header line for requests with CSN_WEB_WITH_OPTION; "": none */
} csn_web_key;

/* ---- WebSockets: each has a channel of its own, a SEQPACKET socket that the engine makes. A side that does not read lets the
 * other one wait, up to the far end of the network. ---- */

/* Fixed part of CSN_FRAME_WEB_DIAL. */
typedef struct csn_web_dial {
    uint32_t flags; /* CSN_WEB_WITH_KEY or 0 */
    uint32_t reserved;
    int64_t timeout_ms; /* until it is open, > 0 */
} csn_web_dial;

/* Fixed part of CSN_FRAME_WEB_SWITCHED. Open: failure CSN_WEB_OK and status 101; else nothing follows. */
typedef struct csn_web_switch {
    uint32_t failure;
    int32_t status;
} csn_web_switch;

enum {                   /* csn_web_piece.flags */
       CSN_WEB_TEXT = 1, /* the message is text; the same in each of its pieces */
       CSN_WEB_MORE = 2  /* another piece of the same message follows */
};

typedef struct csn_web_piece {
    uint32_t flags;
    uint32_t reserved;
} csn_web_piece;

/* Fixed part of CSN_FRAME_WEB_CLOSED. */
typedef struct csn_web_close {
    uint32_t code; /* what the peer said; 1005: nothing, 1006: it left without a word */
    uint32_t reserved;
} csn_web_close;

typedef struct csn_web_call {
    csn_web_dial dial;
    const char *url;   /* http:// or https:// */
    const char *offer; /* subprotocols, separated by ", "; "": none */
} csn_web_call;

void csn_web_call_pack(csn_pack *p, const csn_web_call *call);
int csn_web_call_unpack(csn_unpack *u, const csn_web_dial *dial, csn_web_call *ret);
/* message: one sentence of a failure; "": none. */
int csn_web_switch_unpack(csn_unpack *u, const csn_web_switch *sw, const char **ret_message);
int csn_web_piece_unpack(csn_unpack *u, const csn_web_piece *piece, const char **ret_data,
                         size_t *ret_len);
/* The reason is the peer's: any bytes, at most 123. */
int csn_web_close_unpack(csn_unpack *u, const csn_web_close *close, const char **ret_reason,
                         size_t *ret_len);

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
