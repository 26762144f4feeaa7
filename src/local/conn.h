/* A connection to a keeper: requests out, answers and events in. */
#ifndef CSN_LOCAL_CONN_H
#define CSN_LOCAL_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/error.h>

#include "base/list.h"
#include "base/loop.h"
#include "wire/frame.h"

struct csn_local;
typedef struct csn_request csn_request;

/* One answer. msg is NULL when the connection is lost. True: this was the last one, and the callee has freed the request
 * (or keeps it for itself); false: more are to come. */
typedef bool csn_answer_fn(csn_request *req, csn_msg *msg);

/* At the start of the asker's own struct. */
struct csn_request {
    csn_list link; /* in csn_conn.requests */
    uint32_t seq;
    csn_answer_fn *answer;
};

typedef struct csn_conn {
    int fd; /* -1: not connected */
    csn_loop *loop;
    char **buffer; /* the engine's receive buffer, see csn_local.frame_buffer */
    csn_source *source;
    csn_list requests, outbox;
    unsigned n_outbox;
    uint32_t next_seq;
    void (*on_event)(struct csn_conn *conn, csn_msg *msg); /* a frame nobody asked for */
    void (*on_lost)(struct csn_conn *conn);
} csn_conn;

void csn_conn_init(csn_conn *conn, csn_loop *loop, char **buffer);
int csn_conn_open(csn_conn *conn, int fd); /* fd is taken on success. 0 or -errno */
bool csn_conn_is_open(const csn_conn *conn);
/* Closes without a word to anybody. */
void csn_conn_close(csn_conn *conn);

/* Sends `out` (its seq is filled in) and remembers `req`, which may be NULL when no answer matters. What the socket has
 * no room for waits in a bounded queue. 0, -ENOTCONN, -EBUSY (queue full), -errno. On failure `req` isn't remembered. */
int csn_conn_ask(csn_conn *conn, csn_out *out, csn_request *req, csn_answer_fn *answer);

/* Remembers a request that was not sent: it ends with csn_conn_fail_all(). */
void csn_conn_await_end(csn_conn *conn, csn_request *req, csn_answer_fn *answer);

/* Takes in what has come already, without waiting. */
void csn_conn_poll(csn_conn *conn);

/* Ends all requests: answer(NULL). */
void csn_conn_fail_all(csn_conn *conn);

/* CSN_OK for a frame of the wanted type; else fills err from an ERROR frame, from a loss (NULL) or from surprise. */
int csn_msg_result(const csn_msg *msg, uint32_t want, csn_error *err);

#endif
