/* caisson-repl: `caisson interp` with a line editor. The program beside the program, since libedit costs start-up time. */
#include <histedit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "commands.h"
#include "interpopt.h"

struct editor {
    EditLine *el;
    History *history;
    HistEvent event;
    const char *prompt;
};

static char *prompt_of(EditLine *el)
{
    struct editor *e;

    el_get(el, EL_CLIENTDATA, &e);
    return (char *) e->prompt;
}

static void *open_editor(void)
{
    struct editor *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->el = el_init("caisson", stdin, stdout, stderr);
    e->history = history_init();
    if (!e->el || !e->history) {
        free(e);
        return NULL;
    }
    history(e->history, &e->event, H_SETSIZE, 1000);
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_PROMPT, prompt_of);
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_HIST, history, e->history);
    el_set(e->el, EL_SIGNAL, 1);
    el_source(e->el, NULL);
    return e;
}

static char *read_line(void *reader, const char *prompt)
{
    struct editor *e = reader;
    const char *line;
    int n = 0;

    e->prompt = prompt;
    line = el_gets(e->el, &n);
    if (!line || n <= 0)
        return NULL;
    if (line[0] != '\n')
        history(e->history, &e->event, H_ENTER, line);
    return strndup(line, strcspn(line, "\r\n"));
}

static void close_editor(void *reader)
{
    struct editor *e = reader;

    history_end(e->history);
    el_end(e->el);
    free(e);
}

static const cli_line_reader editor = { open_editor, read_line, close_editor };

/* For help texts, which name other commands by this table. */
const cli_command *const cli_commands[] = { &cli_cmd_interp, NULL };

const char *cli_heading_before(const cli_command *cmd)
{
    (void) cmd;
    return NULL;
}

int main(int argc, char **argv)
{
    (void) signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write() */
    cli_reader = &editor;
    return cli_cmd_interp.run(&cli_cmd_interp, argc, argv);
}
