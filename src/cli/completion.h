/* Completion scripts, written from the command tables. */
#ifndef CSN_CLI_COMPLETION_H
#define CSN_CLI_COMPLETION_H

#include "base/buf.h"

void cli_complete_bash(csn_buf *out);
void cli_complete_zsh(csn_buf *out);
void cli_complete_fish(csn_buf *out);

#endif
