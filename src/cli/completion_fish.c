#include "base/str.h"
#include "commands.h"
#include "completion.h"

static void put_text(csn_buf *out, const char *text)
{
    csn_buf_putc(out, '\'');
    for (; *text; text++)
        csn_buf_printf(out, "%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    csn_buf_putc(out, '\'');
}

static void put_words(csn_buf *out, const char *words)
{
    if (csn_streq(words, "@file") || csn_streq(words, "@dir"))
        csn_buf_puts(out, " -F");
    else if (csn_streq(words, "@box"))
        csn_buf_puts(out, " -a '(caisson ls --names 2>/dev/null)'");
    else if (csn_streq(words, "@image") || csn_streq(words, "@volume"))
        csn_buf_printf(out, " -a '(caisson %s ls -q 2>/dev/null)'", words + 1);
    else
        csn_buf_printf(out, " -a '%s'", words);
}

/* The condition under which a command's lines count. */
static void put_condition(csn_buf *out, const cli_command *cmd, const cli_command *sub)
{
    csn_buf_printf(out, "complete -c caisson -n '__fish_seen_subcommand_from %s%s%s", cmd->name,
                   cmd->alias ? " " : "", cmd->alias ? cmd->alias : "");
    if (sub)
        csn_buf_printf(out, "; and __fish_seen_subcommand_from %s", sub->name);
    csn_buf_putc(out, '\'');
}

static void put_command(csn_buf *out, const cli_command *cmd, const cli_command *sub)
{
    const cli_command *c = sub ? sub : cmd;

    for (cli_walk w = { .cmd = c }; cli_walk_next(&w);) {
        if (!w.opt->help)
            continue;
        put_condition(out, cmd, sub);
        if (w.letter)
            csn_buf_printf(out, " -s %c", w.letter);
        csn_buf_printf(out, " -l %s", w.opt->name);
        if (w.opt->arg)
            csn_buf_puts(out, " -r");
        if (w.opt->words)
            put_words(out, w.opt->words);
        csn_buf_puts(out, " -d ");
        put_text(out, w.opt->help);
        csn_buf_putc(out, '\n');
    }
    if (c->operands && !csn_streq(c->operands, "@command")) {
        put_condition(out, cmd, sub);
        put_words(out, c->operands);
        csn_buf_putc(out, '\n');
    }
}

static void put_subs(csn_buf *out, const cli_command *cmd)
{
    csn_buf_printf(out,
                   "complete -c caisson -n '__fish_seen_subcommand_from %s; and not "
                   "__fish_seen_subcommand_from",
                   cmd->name);
    for (const cli_command *const *s = cmd->subs; *s; s++)
        csn_buf_printf(out, " %s", (*s)->name);
    csn_buf_puts(out, "' -a '");
    for (const cli_command *const *s = cmd->subs; *s; s++)
        csn_buf_printf(out, "%s%s", s == cmd->subs ? "" : " ", (*s)->name);
    csn_buf_puts(out, "'\n");
    for (const cli_command *const *s = cmd->subs; *s; s++)
        put_command(out, cmd, *s);
}

void cli_complete_fish(csn_buf *out)
{
    csn_buf_puts(
        out, "# fish completion for caisson; made by 'caisson completion fish'\n"
             "complete -c caisson -f\n"
             "complete -c caisson -n __fish_use_subcommand -l state -r -F -d 'state directory'\n");
    for (const cli_command *const *c = cli_commands; *c; c++) {
        csn_buf_printf(out, "complete -c caisson -n __fish_use_subcommand -a %s -d ", (*c)->name);
        put_text(out, (*c)->summary);
        csn_buf_putc(out, '\n');
    }
    for (const cli_command *const *c = cli_commands; *c; c++) {
        if ((*c)->subs)
            put_subs(out, *c);
        else
            put_command(out, *c, NULL);
    }
}
