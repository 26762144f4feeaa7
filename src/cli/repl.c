/* caisson-repl: `caisson interp` with a line editor. The program beside the program, since libedit costs start-up time. */
#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/fault.h"
#include "commands.h"
#include "interpopt.h"
#include "out.h"
#include "session.h"

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

/* The signals that end a line or the program come only while we wait for a key: none falls between two reads. */
static sigset_t waiting_mask;

static void block_signals(sigset_t *old)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t ours;

    sigemptyset(&ours);
    for (size_t k = 0; k < CSN_COUNT(numbers); k++)
        sigaddset(&ours, numbers[k]);
    (void) sigprocmask(SIG_BLOCK, &ours, old); /* the arguments are right: it can't fail */
}

static bool is_more_to_come(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1 ||
            sigismember(&set, SIGHUP) == 1 || sigismember(&set, SIGQUIT) == 1);
}

/* One byte: 1, 0 at the end, -1 with errno EINTR when a signal is to be looked at. */
static int read_byte(EditLine *el, char *byte)
{
    struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

    while (ppoll(&p, 1, NULL, &waiting_mask) < 0) {
        if (errno != EINTR || cli_signal_pending())
            return -1;
        if (is_more_to_come()) /* the editor's handler passes a signal on to ours: the next wait lets it in */
            continue;
        el_set(el, EL_PREP_TERM, 1); /* back from a stop, or another size */
        el_set(el, EL_REFRESH);
    }
    return (int) read(STDIN_FILENO, byte, 1);
}

static int read_char(EditLine *el, wchar_t *ret)
{
    mbstate_t state = { 0 };

    for (;;) {
        char byte;
        int r = read_byte(el, &byte);
        size_t n;

        if (r <= 0)
            return r;
        n = mbrtowc(ret, &byte, 1, &state);
        if (n == (size_t) -1) /* no letter of ours: begin anew behind it */
            memset(&state, 0, sizeof(state));
        else if (n != (size_t) -2)
            return 1;
    }
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
    el_set(e->el, EL_GETCFN, read_char);
    el_set(e->el, EL_BIND, "\t", "ed-insert",
           NULL); /* for indented lines; ~/.editrc may say otherwise */
    el_source(e->el, NULL);
    return e;
}

static char *read_line(void *reader, const char *prompt)
{
    struct editor *e = reader;
    const char *line;
    int n = 0;

    e->prompt = prompt;
    /* It shows the prompt before it takes the keys over; a Ctrl-D typed in between would be lost. */
    el_set(e->el, EL_PREP_TERM, 1);
    block_signals(&waiting_mask);
    errno = 0;
    line = el_gets(e->el, &n);
    n = line || errno != EINTR ? n : -1;
    errno = n < 0 ? EINTR : 0;
    (void) sigprocmask(SIG_SETMASK, &waiting_mask, NULL); /* as it was */
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

/* Lines are UTF-8 whatever the environment forgot to say; the editor drops what its locale can't hold. */
static void choose_locale(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        (void) setlocale(LC_CTYPE, "C.UTF-8"); /* not there: ASCII only, then */
}

int main(int argc, char **argv)
{
    choose_locale();
    (void) signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write() */
    (void) signal(SIGXFSZ, SIG_IGN); /* a file beyond ulimit -f as well */
    cli_reader = &editor;
    cli_fill_stdio();
    return cli_exit_status(cli_cmd_interp.run(&cli_cmd_interp, argc, argv));
}
