/* Our terminal joined to one inside. */
#ifndef CSN_CLI_PTY_H
#define CSN_CLI_PTY_H

#include "command.h"

/* Runs `o` (is_pty is set here) with our terminal in raw mode, following its size. The terminal is as it was before on
 * every way out, a crash of ours included. Returns the exit status. */
int cli_pty_run(csn_engine *engine, csn_sandbox *box, const cli_command_values *v,
                csn_process_options *o);

#endif
