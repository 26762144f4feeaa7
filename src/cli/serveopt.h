/* Where the server lives, for the commands that start it or change its keys. */
#ifndef CSN_CLI_SERVEOPT_H
#define CSN_CLI_SERVEOPT_H

#include "base/buf.h"
#include "opt.h"

/* argv of caisson-warden; borrowed strings stay the caller's, made ones live until the exec. */
typedef struct cli_warden {
    cli_list argv;
} cli_warden;

/* Starts the list with the program, the state directory and where its parts are: -1, or the exit status after reporting.
 * state NULL: `caisson --state`, $CAISSON_SERVER_STATE, or the platform's place. */
int cli_warden_begin(cli_warden *w, const char *state, const char *user);
void cli_warden_add(cli_warden *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Becomes the warden. Returns only to fail: the exit status. */
int cli_warden_exec(cli_warden *w);

#endif
