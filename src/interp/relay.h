/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's channel in a sandbox whose backend hands out no descriptors: relay.py inside holds its other ends, and a command
 * that reaches it carries both directions. On this side the worker finds the descriptors that it has with other backends. */
#ifndef CSN_INTERP_RELAY_H
#define CSN_INTERP_RELAY_H

#include <caisson/process.h>
#include <caisson/sandbox.h>

#include "base/loop.h"

typedef struct csn_relay csn_relay;

/* Starts a driver (`program`: the arguments behind "python3 -u -c", NULL at the end), which lives until it is killed or the
 * sandbox ends. `loop` is borrowed. Errors: CSN_E_NOT_FOUND (no python3), CSN_E_TIMEOUT, CSN_E_LOST, the engine's. */
int csn_relay_start(csn_sandbox *box, csn_loop *loop, const char *const *program,
                    int64_t timeout_ms, csn_relay **ret_relay, csn_error *err);
/* One that is there, by its number. Whether it is still there shows on the channel. */
int csn_relay_attach(csn_sandbox *box, csn_loop *loop, uint32_t number, csn_relay **ret_relay,
                     csn_error *err);
csn_relay *csn_relay_free(csn_relay *relay); /* the driver lives on; NULL is fine; always NULL */

uint32_t csn_relay_number(const csn_relay *relay);
/* A relay has one client at a time: true once it is us. */
bool csn_relay_is_ours(const csn_relay *relay);
/* Borrowed: a SEQPACKET socket, which ends when the driver or the way to it does, and the read ends of the driver's output. */
int csn_relay_channel(const csn_relay *relay);
int csn_relay_pipe(const csn_relay *relay, csn_stream stream);

void csn_relay_signal(csn_relay *relay, int number); /* to the driver; lost is fine */
/* Kills the driver and all it started, and waits for that. */
void csn_relay_kill(csn_relay *relay);

#endif
