/* Options that candidate and arena share, and the signals that end both early. */
#ifndef CSN_CLI_ARENA_OPTS_H
#define CSN_CLI_ARENA_OPTS_H

#include <caisson/arena.h>

#include "opt.h"

enum {
    CLI_ARENA_FAILED = 1,    /* the candidate failed; no winner */
    CLI_ARENA_NO_BACKEND = 3 /* nothing to run sandboxes with */
};

typedef struct cli_arena_values {
    const char *objective, *output_path, *find_links, *setup, *net, *image;
    cli_list pip, env, optional;
    int64_t timeout, upload_timeout, setup_timeout, artifact_timeout;
    int64_t output, artifact, memory, cpu, pids, disk;
} cli_arena_values;

extern const cli_opt cli_arena_run_options[];
extern const cli_opt cli_arena_limit_options[]; /* same struct, second heading */

/* What the options point to. */
typedef struct cli_arena_run {
    csn_buf objective;
    cli_list env;
    uint32_t optional_walls;
} cli_arena_run;

/* Writes what was given over `o` (defaults, or a candidates file's values): -1, or an exit status. */
int cli_arena_fill(const cli_command *cmd, const cli_arena_values *v, csn_run_options *o,
                   cli_arena_run *run);
void cli_arena_done(cli_arena_run *run);

/* Says why no sandbox could be created on this machine, and where to look: the end of a contest or a candidate. */
void cli_arena_note_cause(void);
#define CLI_ARENA_REMOTE_ADVICE "check DAYTONA_API_KEY and DAYTONA_API_URL, or run without --daytona"

/* "TEXT", "@FILE" or "@@TEXT" for a text that begins with '@'. -1, or an exit status. */
int cli_read_objective(const cli_command *cmd, const char *given, csn_buf *out);

/* From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT fire this handle. */
void cli_arena_catch_signals(csn_cancel *cancel);
int cli_arena_signal(void); /* the one that came, or 0 */

/* The id for a script without one: its name without directory and suffix. Lives as long as the program. */
const char *cli_id_of_script(const char *path);

#endif
