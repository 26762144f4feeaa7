/* What the user sees while candidates run: on a terminal one line for each, redrawn in place; elsewhere a block of plain
 * lines for each, below its name. Blocks are written one at a time: the lines of one candidate as they come, those of the
 * others when it is their turn. */
#ifndef CSN_CLI_ARENA_VIEW_H
#define CSN_CLI_ARENA_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include <caisson/arena.h>

#include "base/buf.h"

typedef struct cli_lane {
    const char *id, *name; /* borrowed */
    csn_run_state state;   /* of the run that changed last */
    unsigned n_running, n_done, n_failed, n_trials;
    int64_t since_ns, took_ns; /* start of the present run; length of the last one */
    csn_buf last;              /* the last log line */
    csn_buf lines;             /* of its block, not yet written */
} cli_lane;

typedef struct cli_view {
    int fd;
    bool is_live, is_quiet, has_color, is_ascii;
    size_t n;
    cli_lane *lanes;
    const char *mode;
    int64_t start_ns;
    unsigned frame;
    cli_lane *block; /* the one whose lines are written as they come; NULL: none */
} cli_view;

/* fd: where it goes. live: redraw in place, if fd is a terminal. */
void cli_view_begin(cli_view *view, int fd, bool is_live, bool is_quiet,
                    const csn_candidate *candidates, size_t n, unsigned n_trials, const char *mode);
/* The terminal is as before. `result` (may be NULL) says what became of everybody. */
void cli_view_end(cli_view *view, const csn_arena_result *result);

/* csn_log_fn, csn_run_state_fn and csn_tick_fn; `user` is the view. */
void cli_view_log(const char *candidate_id, const char *message, void *user);
void cli_view_state(size_t index, unsigned trial, csn_run_state state,
                    const csn_candidate_result *result, void *user);
void cli_view_output(const char *candidate_id, csn_stream stream, const void *data, size_t len,
                     void *user); /* its last line is shown on the live display */
void cli_view_tick(void *user);

#endif
