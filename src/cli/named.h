/* Commands on named things of the engine (images, volumes): their options, how they begin, what they print. */
#ifndef CSN_CLI_NAMED_H
#define CSN_CLI_NAMED_H

#include <caisson/engine.h>

#include "base/buf.h"
#include "base/json.h"
#include "command.h"
#include "table.h"

/* The first member of such a command's values. */
typedef struct cli_named {
    int json, quiet, force;
} cli_named;

#define CLI_NAMED_QUIET \
    { \
        'q', "quiet", CLI_FLAG, offsetof(cli_named, quiet), NULL, "names only, or nothing", NULL, \
            NULL \
    }

extern const cli_group cli_named_make_groups[], cli_named_ls_groups[], cli_named_inspect_groups[],
    cli_named_rm_groups[];

/* Parses, counts operands and opens the engine. Negative: go on. */
int cli_named_begin(const cli_command *cmd, int argc, char **argv, cli_named *values,
                    cli_args *args, int min, int max, csn_engine **ret_engine);
/* Says what happened to the thing of this name; the status to end with. */
int cli_named_end(const cli_named *values, const char *name, int r, const csn_error *err);
/* All of `rm`. */
int cli_named_rm(const cli_command *cmd, int argc, char **argv,
                 int (*remove)(csn_engine *engine, const char *name, csn_error *err));
/* What `inspect` prints. */
int cli_named_print(const cli_named *values, csn_buf *out);

/* What `ls` prints: rows of a table, names only, or an array of documents. */
typedef struct cli_listing {
    const cli_named *values;
    cli_table table;
    csn_buf text; /* names, or JSON */
    csn_jw w;
} cli_listing;

void cli_listing_begin(cli_listing *l, const cli_named *values, const char *const *heads);
void cli_listing_name(cli_listing *l, const char *name); /* the first cell of a row */
/* r: of the call that listed. Prints, frees; the status to end with. */
int cli_listing_end(cli_listing *l, int r, const csn_error *err);

#endif
