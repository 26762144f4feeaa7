#include "base/str.h"
#include "commands.h"
#include "completion.h"

/* What stands before and after the tables. `kind` is either words or one of the @ kinds. */
static const char head[] =
    "# bash completion for caisson; made by 'caisson completion bash'\n"
    "\n"
    "_caisson_reply() {\n"
    "    local words=\n"
    "    case $1 in\n"
    "    @box) words=$(caisson ls --names 2>/dev/null) ;;\n"
    "    @image) words=$(caisson image ls -q 2>/dev/null) ;;\n"
    "    @volume) words=$(caisson volume ls -q 2>/dev/null) ;;\n"
    "    @file) compopt -o default 2>/dev/null; return ;;\n"
    "    @dir) compopt -o dirnames 2>/dev/null; return ;;\n"
    "    @none) return ;;\n"
    "    *) words=$1 ;;\n"
    "    esac\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$2\")\n"
    "}\n"
    "\n"
    "_caisson() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local cmd='' sub='' i=1 opts='' kind='' operands=@none\n"
    "    while ((i < COMP_CWORD)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        --state) ((i++)) ;;\n"
    "        --) [[ -n $cmd ]] && { compopt -o default 2>/dev/null; return; } ;;\n"
    "        -*) ;;\n"
    "        *) if [[ -z $cmd ]]; then cmd=${COMP_WORDS[i]}; elif [[ -z $sub ]]; then "
    "sub=${COMP_WORDS[i]}; fi ;;\n"
    "        esac\n"
    "        ((i++))\n"
    "    done\n";

static const char tail[] = "    if [[ -n $kind ]]; then\n"
                           "        _caisson_reply \"$kind\" \"$cur\"\n"
                           "    elif [[ $cur == -* ]]; then\n"
                           "        _caisson_reply \"$opts\" \"$cur\"\n"
                           "    else\n"
                           "        _caisson_reply \"$operands\" \"$cur\"\n"
                           "    fi\n"
                           "}\n"
                           "complete -F _caisson caisson\n";

static void put_names(csn_buf *out, const cli_command *const *cmds)
{
    for (size_t i = 0; cmds[i]; i++)
        csn_buf_printf(out, "%s%s", i ? " " : "", cmds[i]->name);
}

static void put_opts(csn_buf *out, const cli_command *cmd, const char *indent)
{
    csn_buf_printf(out, "%sopts='--help", indent);
    for (cli_walk w = { .cmd = cmd }; cli_walk_next(&w);)
        if (w.opt->help)
            csn_buf_printf(out, " --%s", w.opt->name);
    csn_buf_puts(out, "'\n");
}

static void put_values(csn_buf *out, const cli_command *cmd, const char *indent)
{
    csn_buf_printf(out, "%scase $prev in\n", indent);
    for (cli_walk w = { .cmd = cmd }; cli_walk_next(&w);) {
        if (!w.opt->arg)
            continue;
        csn_buf_printf(out, "%s", indent);
        if (w.letter)
            csn_buf_printf(out, "-%c | ", w.letter);
        csn_buf_printf(out, "--%s) kind='%s' ;;\n", w.opt->name,
                       w.opt->words ? w.opt->words : "@none");
    }
    csn_buf_printf(out, "%sesac\n", indent);
}

static void put_command(csn_buf *out, const cli_command *cmd, const char *indent)
{
    put_opts(out, cmd, indent);
    if (cmd->groups || cmd->reach)
        put_values(out, cmd, indent);
    if (csn_streq(cmd->operands, "@command")) {
        csn_buf_printf(out, "%soperands='", indent);
        put_names(out, cli_commands);
        csn_buf_puts(out, "'\n");
    } else if (cmd->operands) {
        csn_buf_printf(out, "%soperands='%s'\n", indent, cmd->operands);
    }
}

static void put_subs(csn_buf *out, const cli_command *cmd)
{
    csn_buf_puts(out, "        case $sub in\n");
    for (const cli_command *const *s = cmd->subs; *s; s++) {
        csn_buf_printf(out, "        %s)\n", (*s)->name);
        put_command(out, *s, "            ");
        csn_buf_puts(out, "            ;;\n");
    }
    csn_buf_puts(out, "        *) operands='");
    put_names(out, cmd->subs);
    csn_buf_puts(out, "' ;;\n        esac\n");
}

void cli_complete_bash(csn_buf *out)
{
    csn_buf_puts(out, head);
    csn_buf_puts(out, "    case $cmd in\n");
    for (const cli_command *const *c = cli_commands; *c; c++) {
        csn_buf_printf(out, "    %s%s%s)\n", (*c)->name, (*c)->alias ? " | " : "",
                       (*c)->alias ? (*c)->alias : "");
        if ((*c)->subs)
            put_subs(out, *c);
        else
            put_command(out, *c, "        ");
        csn_buf_puts(out, "        ;;\n");
    }
    csn_buf_puts(out, "    '')\n        opts='--help --version --state'\n"
                      "        [[ $prev == --state ]] && kind=@dir\n        operands='");
    put_names(out, cli_commands);
    csn_buf_puts(out, "'\n        ;;\n    esac\n");
    csn_buf_puts(out, tail);
}
