#include "table.h"

#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "out.h"

void csn_table_auto(cli_table *table)
{
    csn_buf_free(&table->cells);
}

void cli_table_cell(cli_table *table, const char *text)
{
    cli_put_safe(&table->cells, text && *text ? text : "-");
    csn_buf_putc(&table->cells, '\0');
    table->n_cells++;
}

static void measure(const cli_table *table, size_t width[CLI_TABLE_COLUMNS])
{
    const char *cell = table->cells.data;

    memset(width, 0, CLI_TABLE_COLUMNS * sizeof(*width));
    for (unsigned i = 0; i < table->n_cells; i++, cell += strlen(cell) + 1) {
        size_t w = cli_width(cell, strlen(cell));

        if (w > width[i % table->n_columns])
            width[i % table->n_columns] = w;
    }
}

/* Appends at most `room` characters, the last one "…" when something was left out. */
static void put_cut(csn_buf *out, const char *cell, size_t room)
{
    size_t len = strlen(cell), at = 0;

    if (cli_width(cell, len) <= room) {
        csn_buf_puts(out, cell);
        return;
    }
    for (size_t n = 1; n < room && at < len; n++) {
        unsigned c;
        int step = csn_utf8_next(cell + at, len - at, &c);

        at += step > 0 ? (size_t) step : 1;
    }
    csn_buf_append(out, cell, at);
    csn_buf_puts(out, "…");
}

void cli_table_put(const cli_table *table, csn_buf *out, size_t max_width)
{
    size_t width[CLI_TABLE_COLUMNS];
    const char *cell = table->cells.data;
    size_t at = 0;

    measure(table, width);
    for (unsigned i = 0; i < table->n_cells; i++, cell += strlen(cell) + 1) {
        unsigned column = i % table->n_columns;
        size_t w = cli_width(cell, strlen(cell));
        bool is_last = column + 1 == table->n_columns;
        bool is_right = table->right >> column & 1;

        if (is_right)
            csn_buf_printf(out, "%*s", (int) (width[column] - w), "");
        if (is_last && max_width)
            put_cut(out, cell, max_width > at + 4 ? max_width - at : 4);
        else
            csn_buf_puts(out, cell);
        if (is_last) {
            csn_buf_putc(out, '\n');
            at = 0;
            continue;
        }
        if (!is_right)
            csn_buf_printf(out, "%*s", (int) (width[column] - w), "");
        csn_buf_puts(out, "  ");
        at += width[column] + 2;
    }
}

int cli_table_print(const cli_table *table)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    cli_table_put(table, &out, cli_is_terminal(STDOUT_FILENO) ? cli_columns() : 0);
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}
