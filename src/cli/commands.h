/* Every command, one per file. A new one is declared here and listed in main.c. */
#ifndef CSN_CLI_COMMANDS_H
#define CSN_CLI_COMMANDS_H

#include "opt.h"

extern const cli_command cli_cmd_run, cli_cmd_create, cli_cmd_exec, cli_cmd_shell;
extern const cli_command cli_cmd_ls, cli_cmd_inspect, cli_cmd_logs, cli_cmd_stats;
extern const cli_command cli_cmd_start, cli_cmd_stop, cli_cmd_rm, cli_cmd_cp;
extern const cli_command cli_cmd_fork, cli_cmd_snapshot, cli_cmd_image, cli_cmd_volume;
extern const cli_command cli_cmd_gc, cli_cmd_doctor, cli_cmd_version, cli_cmd_completion;
extern const cli_command cli_cmd_arena, cli_cmd_candidate;
extern const cli_command cli_cmd_blocks, cli_cmd_interp, cli_cmd_rlm, cli_cmd_session;
extern const cli_command cli_cmd_smoke, cli_cmd_diagnose;
extern const cli_command cli_cmd_serve, cli_cmd_key, cli_cmd_org;
extern const cli_command cli_cmd_help;

/* The table in main.c, for help and completion. */
extern const cli_command *const cli_commands[];         /* NULL at the end */
const char *cli_heading_before(const cli_command *cmd); /* NULL or a title that starts a section */

#endif
