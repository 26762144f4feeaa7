/* --help out of the tables. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "opt.h"
#include "out.h"

enum {
    HELP_COLUMN = 30 /* where the explanations start */
};

/* Breaks `text` at spaces so that it fits from `indent` to `width`; the first line is already indented. */
static void put_wrapped(csn_buf *out, const char *text, size_t indent, size_t width)
{
    csn_str rest = csn_str_of(text), word;
    size_t at = indent;

    while (csn_str_split(&rest, ' ', &word)) {
        size_t w = cli_width(word.data, word.len);

        if (at > indent && at + 1 + w > width) {
            csn_buf_printf(out, "\n%*s", (int) indent, "");
            at = indent;
        } else if (at > indent) {
            csn_buf_putc(out, ' ');
            at++;
        }
        csn_buf_append(out, word.data, word.len);
        at += w;
    }
    csn_buf_putc(out, '\n');
}

static void put_option(csn_buf *out, const cli_opt *o, char letter, size_t width)
{
    csn_auto(buf) csn_buf left = CSN_BUF_INIT;

    if (letter)
        csn_buf_printf(&left, "  -%c, --%s", letter, o->name);
    else
        csn_buf_printf(&left, "      --%s", o->name);
    if (o->arg)
        csn_buf_printf(&left, " %s", o->arg);
    csn_buf_puts(out, left.data);
    if (cli_width(left.data, left.len) + 2 > HELP_COLUMN)
        csn_buf_printf(out, "\n%*s", HELP_COLUMN, "");
    else
        csn_buf_printf(out, "%*s", (int) (HELP_COLUMN - cli_width(left.data, left.len)), "");
    put_wrapped(out, o->help, HELP_COLUMN, width);
}

static void put_usage(csn_buf *out, const cli_command *cmd)
{
    csn_str rest = csn_str_of(cmd->usage), line;
    const char *lead = "usage: ";

    while (csn_str_split(&rest, '\n', &line)) {
        csn_buf_printf(out, "%scaisson %.*s\n", lead, (int) line.len, line.data);
        lead = "       ";
    }
}

void cli_help(const cli_command *cmd, csn_buf *out)
{
    size_t width = cli_columns() > 100 ? 100 : cli_columns();

    put_usage(out, cmd);
    csn_buf_printf(out, "\n%s.\n", cmd->summary);
    if (cmd->text)
        csn_buf_printf(out, "\n%s\n", cmd->text);
    if (cmd->subs) {
        csn_buf_puts(out, "\nSubcommands:\n");
        for (const cli_command *const *s = cmd->subs; *s; s++)
            csn_buf_printf(out, "  %-12s %s\n", (*s)->name, (*s)->summary);
        return;
    }
    const cli_group *group = NULL;
    for (cli_walk w = { .cmd = cmd }; cli_walk_next(&w);) {
        if (w.group != group)
            csn_buf_printf(out, "\n%s:\n", w.group->title);
        group = w.group;
        if (w.opt->help)
            put_option(out, w.opt, w.letter, width);
    }
}
