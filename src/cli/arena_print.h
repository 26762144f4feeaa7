/* What an arena run prints before and after: banner, table, winner, where things are. */
#ifndef CSN_CLI_ARENA_PRINT_H
#define CSN_CLI_ARENA_PRINT_H

#include <stdbool.h>

#include <caisson/arena.h>

/* refusal: why the remote backend was asked for and is not used; NULL: it is, or it was not asked for. */
void cli_arena_banner(int fd, const csn_arena_options *o, size_t n_candidates, const char *refusal);
const char *cli_arena_verdict(const csn_score *score); /* "qualified" or "disqualified" */
void cli_arena_scores(int fd, const csn_arena_result *r);

/* Writes one report; the suffix says which: .html, .md, .json. -1, or an exit status. */
int cli_arena_report(const csn_arena_result *r, const char *path);
/* True for a name cli_arena_report() can write. */
bool cli_arena_report_known(const char *path);

#endif
