/* Running one command in a sandbox from the terminal or a script: its input, its output as it comes, its receipt, and
 * the signals the user sends meanwhile. Shared by run, exec and shell. */
#ifndef CSN_CLI_COMMAND_H
#define CSN_CLI_COMMAND_H

#include <caisson/once.h>

#include "base/json.h"
#include "opt.h"

typedef struct cli_command_values {
    const char *stdin_from; /* NULL or "none"; "-": ours; else a file */
    int interactive;        /* -i: --stdin - */
    int tty, detach, json, quiet, raw, receipt, merge;
    int is_new_box; /* the caller made the sandbox: --detach prints its id, else the number */
} cli_command_values;

extern const cli_opt cli_command_options[]; /* --stdin -i -t -d … --json --quiet */

/* Checks the combination and opens the input: -1, or the exit status of a misuse. */
int cli_command_prepare(const cli_command *cmd, const cli_command_values *v,
                        csn_process_options *o);

/* Starts `o` in the sandbox and stays until it has ended; prints what there is to print. Returns the exit status. */
int cli_command_run(csn_engine *engine, csn_sandbox *box, const cli_command_values *v,
                    csn_process_options *o);

/* The same in a sandbox of its own, which is gone when this returns. `file`: copied in before; NULL: none. */
int cli_command_run_once(csn_engine *engine, const csn_sandbox_options *box,
                         const csn_once_file *file, const cli_command_values *v,
                         csn_process_options *o);

/* The exit status for a command that could not be started, after reporting: 127, 126 or 125. */
int cli_start_failed(const csn_error *err);

/* Says on stderr how it ended: the receipt where it was asked for, else only what exit codes can't tell. */
void cli_report_end(const cli_command_values *v, const csn_receipt *receipt);

/* Receipt as a JSON value. */
void cli_jw_receipt(csn_jw *w, const csn_receipt *receipt);

#endif
