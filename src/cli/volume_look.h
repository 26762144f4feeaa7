/* Subcommands of volume that look inside. */
#ifndef CSN_CLI_VOLUME_LOOK_H
#define CSN_CLI_VOLUME_LOOK_H

#include "opt.h"

extern const cli_command cli_volume_tree, cli_volume_cat;

#endif
