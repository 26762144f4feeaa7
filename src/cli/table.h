/* Aligned columns. The first row is the heading; on a terminal the last column is cut at its width. */
#ifndef CSN_CLI_TABLE_H
#define CSN_CLI_TABLE_H

#include "base/buf.h"

enum { CLI_TABLE_COLUMNS = 12 };

typedef struct cli_table {
    unsigned n_columns;
    unsigned right; /* bit per column: aligned to the right */
    csn_buf cells;  /* NUL-terminated, row after row; already safe to show */
    unsigned n_cells;
} cli_table;

#define CLI_TABLE_INIT(columns, right_bits) \
    { \
        (columns), (right_bits), CSN_BUF_INIT, 0 \
    }

void csn_table_auto(cli_table *table);

/* The next cell; text from a sandbox is made harmless. Empty ones are shown as "-". */
void cli_table_cell(cli_table *table, const char *text);

/* Appends the table; max_width 0: no cutting. */
void cli_table_put(const cli_table *table, csn_buf *out, size_t max_width);

/* Prints it to stdout, fitted to the terminal: an exit status. */
int cli_table_print(const cli_table *table);

#endif
