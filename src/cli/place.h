/* Where a command's sandboxes are: on this machine, or at a service that speaks Daytona's API. Every command that opens an
 * engine takes the same options; session.c opens what they say. */
#ifndef CSN_CLI_PLACE_H
#define CSN_CLI_PLACE_H

#include <stdbool.h>

#include <caisson/config.h>
#include <caisson/engine.h>

#include "opt.h"

/* --daytona, --backend, --daytona-env. Their values are kept here, not in the command's own struct. */
extern const cli_group cli_place_group;
void *cli_place_values(void);

/* Called for each option that was given: one that only this machine's sandboxes have is remembered. */
void cli_place_note(const cli_opt *opt);

/* Decides, once all options are known: flags, then CAISSON_BACKEND, then this machine. -1, or the exit status of a misuse:
 * flags that contradict each other, or an option that a service has nothing for. */
int cli_place_settle(const cli_command *cmd);
bool cli_place_is_remote(void);

/* The settings of the service, loaded once: environment, then .env.local and .env, or --daytona-env. Borrowed. */
int cli_place_config(const csn_config **ret_config, csn_error *err);

/* Writes URL and key into the options of an engine. CSN_E_UNSUPPORTED: there is no key, or no backend in this build. */
int cli_place_fill(csn_engine_options *o, csn_error *err);

/* What to do about an error of a service; NULL: its message says all. */
const char *cli_place_remedy(const csn_error *err);

#endif
