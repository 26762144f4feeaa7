/* SPDX-License-Identifier: Apache-2.0 */
/* An operation of the backend's table as calls of the service's API, one after the other.
 *
 * Theory of operation. The struct of a verb begins with a csn_api_verb. A function of the table makes one, asks the first call
 * and hands it over by csn_api_verb_begin(). Each answer goes to the step that was named with its call. A step asks the next
 * call, or pauses, or does neither: then the operation ends with what the step returned. A step that returns an error ends it,
 * whatever it asked. An operation that is given up ends at once, and its call with it; one whose verb `finishes_first`, because
 * what it made must be taken back, goes on to its end. */
#ifndef CSN_DAYTONA_VERB_H
#define CSN_DAYTONA_VERB_H

#include <stdbool.h>

#include "base/buf.h"
#include "call.h"

typedef struct csn_api_verb csn_api_verb;

/* What came: `result` and `answer` as csn_api_call_done has them, *err is filled when result < 0 and the step's to change. */
typedef int csn_api_step(csn_api_verb *v, const csn_web_answer *answer, int result, csn_error *err);
/* After a pause: asks the next call. */
typedef int csn_api_again(csn_api_verb *v, csn_error *err);

struct csn_api_verb {
    csn_list link; /* in csn_daytona.verbs */
    csn_daytona *d;
    csn_op *op;
    csn_box *box;        /* counted; NULL: it is about none */
    const char *what;    /* for messages: "stop a sandbox"; a literal */
    int64_t deadline_ns; /* of all its calls */
    bool finishes_first;
    void (*free)(csn_api_verb *v); /* NULL, or: frees what its own struct holds */

    /* The verb's own. */
    csn_api_call *call; /* NULL: it pauses */
    csn_api_step *step;
    csn_api_again *again;
    csn_timer timer;
    int64_t pause_ms;
    int sink; /* of a large answer; -1: none */
};

/* Of `size` bytes, zeroed but for its head. NULL: *err says why; also for a box whose engine was closed. */
void *csn_api_verb_new(csn_daytona *d, csn_box *box, size_t size, const char *what,
                       int64_t limit_ms, csn_op *op, csn_error *err);
/* What the first call answered: under way, or `result`, an error, after freeing the verb. */
int csn_api_verb_begin(csn_api_verb *v, int result);

typedef struct csn_api_ask {
    const char *method;
    const csn_buf *url;  /* its sticky error is an error of the ask */
    const csn_buf *body; /* JSON; NULL: none */
    csn_repeat repeat;
    csn_api_step *step;
    bool is_large; /* the answer may be: up to CSN_API_LARGE_MAX */
} csn_api_ask;
int csn_api_verb_ask(csn_api_verb *v, const csn_api_ask *ask, csn_error *err);
/* The same about the verb's sandbox: "/stop" behind its URL. `ask->url` is not read. */
int csn_api_verb_ask_box(csn_api_verb *v, const char *path, csn_api_ask ask, csn_error *err);
/* "/files" behind the URL of its toolbox; CSN_E_STATE: it has none, it is not started. */
int csn_api_verb_ask_toolbox(csn_api_verb *v, const char *path, csn_api_ask ask, csn_error *err);
/* Longer each time; CSN_E_TIMEOUT when the deadline would come first, with `state` (a stranger's word) in the message. */
int csn_api_verb_pause(csn_api_verb *v, const char *state, csn_api_again *again, csn_error *err);

/* Around calls to the caller's functions, in which the operation may be dropped: it is not freed meanwhile. False: nobody wants
 * it any more, *err says so. */
void csn_api_op_hold(csn_op *op);
bool csn_api_op_release(csn_op *op, void (*give_up)(csn_op *op), csn_error *err);
bool csn_api_verb_release(csn_api_verb *v, csn_error *err);

/* When the backend closes: those that pause end now; the link ends the others. */
void csn_api_verbs_end(csn_daytona *d);

#endif
