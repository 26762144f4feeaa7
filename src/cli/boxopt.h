/* The options that describe a sandbox: shared by run, create and shell, and by later commands that make sandboxes. */
#ifndef CSN_CLI_BOXOPT_H
#define CSN_CLI_BOXOPT_H

#include <caisson/sandbox.h>

#include "opt.h"

typedef struct cli_box_values {
    const char *name, *image, *user, *cwd, *net;
    cli_list env, env_files, labels, volumes, strict, optional;
    int64_t memory, cpu, pids, disk, inodes, open_files, tmp, shm, timeout, output;
    int64_t ttl, idle_stop;
    int ptrace;
} cli_box_values;

extern const cli_opt cli_box_options[];
extern const cli_opt cli_limit_options[]; /* same struct, second heading */

/* The library's options and what they point to. */
typedef struct cli_box {
    csn_sandbox_options o;
    cli_list env, labels;
    csn_mount *mounts;
    uint32_t optional_walls;
} cli_box;

/* Checks the values and fills `box`; -1, or the exit status of a misuse. */
int cli_box_fill(const cli_command *cmd, const cli_box_values *v, cli_box *box);

/* Resolves -e KEY (taken from our own environment), -e KEY=value and --env-file into "KEY=value". */
int cli_env_fill(const cli_command *cmd, const cli_list *env, const cli_list *files, cli_list *ret);

/* --optional: CSN_WALL_… bits; -1, or the exit status of a misuse. */
int cli_fill_walls(const cli_command *cmd, const cli_list *list, uint32_t *ret_walls);

/* --strict: CSN_LIMIT_… bits; likewise. */
int cli_fill_limits(const cli_command *cmd, const cli_list *list, uint32_t *ret_limits);

#endif
