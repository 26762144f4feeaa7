#include "base/str.h"
#include "commands.h"
#include "completion.h"

/* Text inside '…' of an _arguments specification: its brackets and colons must not end a field. */
static void put_text(csn_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            csn_buf_puts(out, "'\\''");
        else if (*text == '[' || *text == ']' || *text == ':')
            csn_buf_printf(out, "\\%c", *text);
        else
            csn_buf_putc(out, *text);
    }
}

static void put_action(csn_buf *out, const char *words)
{
    if (!words)
        csn_buf_puts(out, " ");
    else if (csn_streq(words, "@file"))
        csn_buf_puts(out, "_files");
    else if (csn_streq(words, "@dir"))
        csn_buf_puts(out, "_files -/");
    else if (csn_streq(words, "@command"))
        csn_buf_puts(out, "_caisson_commands");
    else if (words[0] == '@')
        csn_buf_printf(out, "_caisson_%s", words + 1);
    else
        csn_buf_printf(out, "(%s)", words);
}

static void put_option(csn_buf *out, const cli_opt *o, char letter, const char *indent)
{
    bool repeats = o->kind == CLI_LIST;

    csn_buf_puts(out, indent);
    if (letter && repeats)
        csn_buf_printf(out, "'*'{-%c,--%s}", letter, o->name);
    else if (letter)
        csn_buf_printf(out, "'(-%c --%s)'{-%c,--%s}", letter, o->name, letter, o->name);
    else
        csn_buf_printf(out, "'%s--%s'", repeats ? "*" : "", o->name);
    csn_buf_puts(out, "'[");
    put_text(out, o->help);
    csn_buf_putc(out, ']');
    if (o->arg) {
        csn_buf_putc(out, ':');
        put_text(out, o->arg);
        csn_buf_putc(out, ':');
        put_action(out, o->words);
    }
    csn_buf_puts(out, "' \\\n");
}

static void put_command(csn_buf *out, const cli_command *cmd, const char *indent)
{
    csn_buf_printf(out, "%s_arguments -s -S \\\n", indent);
    for (cli_walk w = { .cmd = cmd }; cli_walk_next(&w);)
        if (w.opt->help) {
            csn_buf_puts(out, indent);
            put_option(out, w.opt, w.letter, "  ");
        }
    if (cmd->operands) {
        csn_buf_printf(out, "%s  '*:argument:", indent);
        put_action(out, cmd->operands);
        csn_buf_puts(out, "' \\\n");
    }
    csn_buf_printf(out, "%s  '--help[explain the command]'\n", indent);
}

static void put_described(csn_buf *out, const cli_command *const *cmds, const char *indent)
{
    for (; *cmds; cmds++) {
        csn_buf_printf(out, "%s'%s:", indent, (*cmds)->name);
        put_text(out, (*cmds)->summary);
        csn_buf_puts(out, "'\n");
    }
}

static void put_subs(csn_buf *out, const cli_command *cmd)
{
    csn_buf_puts(out, "      local -a subs\n      subs=(\n");
    put_described(out, cmd->subs, "        ");
    csn_buf_puts(out,
                 "      )\n      if ((CURRENT == 2)); then\n        _describe subcommand subs\n"
                 "        return\n      fi\n      shift words\n      ((CURRENT--))\n"
                 "      case $words[1] in\n");
    for (const cli_command *const *s = cmd->subs; *s; s++) {
        csn_buf_printf(out, "      %s)\n", (*s)->name);
        put_command(out, *s, "        ");
        csn_buf_puts(out, "        ;;\n");
    }
    csn_buf_puts(out, "      esac\n");
}

void cli_complete_zsh(csn_buf *out)
{
    csn_buf_puts(
        out, "#compdef caisson\n# zsh completion for caisson; made by 'caisson completion zsh'\n\n"
             "_caisson_box() { compadd -- ${(f)\"$(caisson ls --names 2>/dev/null)\"} }\n"
             "_caisson_image() { compadd -- ${(f)\"$(caisson image ls -q 2>/dev/null)\"} }\n"
             "_caisson_volume() { compadd -- ${(f)\"$(caisson volume ls -q 2>/dev/null)\"} }\n"
             "_caisson_commands() {\n  local -a commands\n  commands=(\n");
    put_described(out, cli_commands, "    ");
    csn_buf_puts(out, "  )\n  _describe command commands\n}\n\n_caisson() {\n"
                      "  local curcontext=$curcontext state line\n"
                      "  _arguments -C '--state[state directory]:DIR:_files -/' \\\n"
                      "    '1:command:_caisson_commands' '*::argument:->args'\n"
                      "  [[ $state == args ]] || return\n  case $words[1] in\n");
    for (const cli_command *const *c = cli_commands; *c; c++) {
        csn_buf_printf(out, "    %s%s%s)\n", (*c)->name, (*c)->alias ? "|" : "",
                       (*c)->alias ? (*c)->alias : "");
        if ((*c)->subs)
            put_subs(out, *c);
        else
            put_command(out, *c, "      ");
        csn_buf_puts(out, "      ;;\n");
    }
    csn_buf_puts(out, "  esac\n}\n\n_caisson \"$@\"\n");
}
