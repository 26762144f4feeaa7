/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as text for a service's shell, and the word that comes back when one runs. No I/O. */
#ifndef CSN_DAYTONA_SCRIPT_H
#define CSN_DAYTONA_SCRIPT_H

#include <stdbool.h>

#include "base/buf.h"
#include "core/backend.h"

/* For process/execute: a line that a shell takes apart into exactly these words; stdin at its end. */
int csn_shell_command(csn_buf *out, const char *const *argv);

/* For a session: before anything else the command's stdout tells what became of it, on one line that begins with `nonce`.
 * Its stdin, if it has one, is made of the session's input: lines of base64, the last one ".". 0 or -errno. */
int csn_script_write(csn_buf *out, const csn_exec_spec *spec, const char *nonce);

/* Of a background command: the first line names it, its time limit is kept by a process beside it. The word begins with
 * CSN_SCRIPT_BACKGROUND. */
#define CSN_SCRIPT_BACKGROUND "caisson-command"
int csn_script_background(csn_buf *out, const csn_exec_spec *spec);
typedef struct csn_script_title {
    int64_t started_ms; /* 0: not said */
    char text[4097];
} csn_script_title;
void csn_script_read_title(const char *command, size_t len, csn_script_title *ret);

/* For the shell of a terminal, in a variable: CSN_SCRIPT_TYPED runs it. The word stands on a line of its own. */
#define CSN_SCRIPT_VARIABLE "CAISSON_RUN"
#define CSN_SCRIPT_TYPED    " eval \"$CAISSON_RUN\"\r"
int csn_script_terminal(csn_buf *out, const csn_exec_spec *spec, const char *nonce);

typedef struct csn_script_word {
    int pid;  /* > 0: it runs, and leads a group of its own if the shell could do that */
    int code; /* else: why not; a CSN_E_… code */
    const char *why;
} csn_script_word;

/* False: this line is not the word. */
bool csn_script_read(const char *line, size_t len, const char *nonce, csn_script_word *ret);

/* For process/execute: prints what there is at `path` (levels 0) or below it as records (answer_files.h), links as links.
 * levels < 0: all; pattern NULL: any name. Its exit status, when not 0, is one of these. */
enum { CSN_LOOK_MISSING = 44, CSN_LOOK_NO_DIRECTORY, CSN_LOOK_DENIED, CSN_LOOK_NO_TOOLS };
int csn_script_look(csn_buf *out, const char *path, int levels, const char *pattern);

#endif
