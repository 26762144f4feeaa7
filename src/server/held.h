/* SPDX-License-Identifier: Apache-2.0 */
/* A command that the sandbox's keeper holds for us: what it prints comes out of the keeper's log, from the first byte, and
 * what it is to read waits here until its pipe has room. It outlives us; whoever comes later opens it by its number and
 * gets the same bytes again. */
#ifndef CSN_SERVER_HELD_H
#define CSN_SERVER_HELD_H

#include <caisson/process.h>

#include "base/buf.h"
#include "base/loop.h"

typedef struct csn_held csn_held;

typedef struct csn_held_events {
    /* It runs, or could not be started or opened (result < 0). Once. */
    void (*ready)(csn_held *held, int result, const csn_error *err, void *user);
    void (*output)(csn_held *held, csn_stream stream, const char *data, size_t len, void *user);
    /* It has ended, and all that was written until then was given out. Processes that opened its streams go on writing. */
    void (*ended)(csn_held *held, const csn_receipt *receipt, void *user);
    void (*closed)(csn_held *held,
                   void *user); /* nobody can write any more, or the keeper is gone */
} csn_held_events;              /* any of them may free what it is about */

/* input_max: bytes that may wait for the pipe; 0: its stdin is empty. NULL: see err; `ready` is not called then. */
csn_held *csn_held_start(csn_loop *loop, csn_sandbox *box, const csn_process_options *options,
                         size_t input_max, const csn_held_events *events, void *user,
                         csn_error *err);
csn_held *csn_held_open(csn_loop *loop, csn_sandbox *box, uint32_t number, size_t input_max,
                        const csn_held_events *events, void *user, csn_error *err);

/* All of it or nothing: 0, -EPIPE (nobody reads), -E2BIG (too much waits), -ENOMEM. */
int csn_held_write(csn_held *held, const void *data, size_t len);
bool csn_held_is_written(const csn_held *held); /* nothing waits */
void csn_held_close_input(csn_held *held);
/* To every process of its tree. */
void csn_held_signal(csn_held *held, int signal);
/* How much of its log was given out. */
int64_t csn_held_offset(const csn_held *held);

csn_held *csn_held_free(csn_held *held); /* the command goes on; NULL is fine; always NULL */

#endif
