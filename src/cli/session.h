/* One run of the program: its engine and the signals that end it early. */
#ifndef CSN_CLI_SESSION_H
#define CSN_CLI_SESSION_H

#include <stdbool.h>

#include <caisson/engine.h>
#include <caisson/sandbox.h>

#include "base/auto.h"

/* Opens the engine: the service's that the options of place.h name, else this machine's, on the state directory of the global
 * options. -1, or the exit status after reporting. From here on
 * SIGINT, SIGTERM, SIGHUP and SIGQUIT interrupt the blocking verb that waits instead of ending the process, so that
 * what was begun is also cleaned up. */
int cli_open(uint32_t optional_walls, csn_engine **ret_engine);
/* The same, by a command that makes sandboxes; cli_fail() then says why this machine lets none start. */
int cli_open_to_make(uint32_t optional_walls, csn_engine **ret_engine);
/* The same on this machine, whatever was asked for: where a fallback is the rule, and told. */
int cli_open_here_to_make(uint32_t optional_walls, csn_engine **ret_engine);
/* As the first, by a command that makes one sandbox next. */
int cli_open_for_one(uint32_t optional_walls, csn_engine **ret_engine);

/* This machine's, saying nothing: CSN_OK or CSN_E_… */
int cli_try_open_here(csn_engine **ret_engine, csn_error *err);

/* Opens the engine and the sandbox named on the command line. */
int cli_open_box(const char *name, csn_engine **ret_engine, csn_sandbox **ret_sandbox);

/* Set by the global options before the command runs; borrowed. */
void cli_set_state_dir(const char *path);
const char *cli_state_dir(void); /* what was set; NULL: nothing */

/* The signal that came since the last call, or 0. */
int cli_signal_take(void);
int cli_signal_pending(void);

/* While held, the first signal interrupts nothing: it is taken when the hold ends. A second one does. For short verbs that
 * should rather succeed, so that what they began can be told. */
void cli_hold_signals(bool on);

/* After CSN_E_CANCELLED: 128 + the signal that caused it. */
int cli_cancelled_status(void);

/* Deletes a sandbox even if a signal comes meanwhile: from here on there is only cleaning up. */
int cli_delete(csn_sandbox *sandbox, csn_error *err);

/* Frees and, being a cleanup, undoes the handlers' knowledge of the engine first. */
void csn_engine_auto(csn_engine **engine);
void csn_sandbox_auto(csn_sandbox **sandbox);

#endif
